"""A ParDo whose side inputs change while it runs, on one shard.

Main elements are distributed over the shards; side inputs are sent to all shards. An element uses the side window that
equals its own window if both inputs have the same windows, and otherwise the one that contains its own window's
`max_timestamp`. It is buffered until that window has a pane or the side input's watermark has passed it, and holds back
the output watermark in the meantime; processed elements are not revisited. In one instant the side inputs' elements
come first, then the main input's, then the watermarks, and then buffered elements that are ready.
"""

from __future__ import annotations

import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.plan.checks.side_panes import opens_empty, replaced_by_newer
from dataflow_model.plan.logical.dropped import DropReason
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.runners.engine.collections.sides import (
    STANDING,
    HeldWindows,
    contains,
    owner_of,
    side_window,
    view_of,
)
from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.functions.uncombining import Multiset
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.order import of_release, order_in_window, part_of_join
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, Watermarks
from dataflow_model.runners.engine.machines.side_waiting import Awaited
from dataflow_model.runners.engine.protocol.dropping import Drops
from dataflow_model.runners.engine.protocol.machine import ObjectMachine
from dataflow_model.runners.engine.state.queues import Deadlines
from dataflow_model.runners.engine.state.stateful_cells import expiry_of
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers import DefaultTrigger
from dataflow_model.values import NO_FIRING, PaneInfo, Window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from dataflow_model.plan.checks.side_panes import Replaced
    from dataflow_model.plan.logical.nodes import ParDo, SideInput
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk, Produced
    from dataflow_model.runners.engine.lanes.order import Order
    from dataflow_model.runners.engine.machines.side_waiting import Asking

_TARGETS_KEPT: Final = 1 << 14


@attrs.define
class _SideWindow:
    """The contents of one window of a side input.

    Attributes:
        parts: the values by their owner, each with the index of their pane; if panes accumulate, a newer pane replaces
            an older one.
        standing: used instead of `parts` if values may be retracted: the values that have not been.
        has_pane: whether a pane has arrived; elements that are not from a pane become visible when the watermark
            passes.
    """

    parts: dict[Any, tuple[int, list[Any]]] = attrs.field(factory=dict)
    standing: Multiset = attrs.field(factory=Multiset)
    has_pane: bool = False

    def values(self) -> list[Any]:
        """Return all values."""
        elements = [value for _, values in self.parts.values() for value in values]
        return [*elements, *STANDING.extract_output(self.standing)]


@attrs.define
class _Waiting:
    """A buffered main element in one window."""

    value: Any
    time: int
    window: Window
    pane: PaneInfo
    order: Order
    number: int
    produced: int
    instant: int


@attrs.define
class JoinState:
    """The state of a join, which a runner makes durable as a whole.

    Attributes:
        windows: the windows of each side input.
        watermarks: the watermark of each side input.
        waiting: the buffered elements by main window and the watermark when they arrived, in order.
        instants: the number of instants so far.
        hold: the earliest event time of the buffered elements.
        main: the watermarks of the main input.
    """

    windows: list[dict[Window, _SideWindow]]
    watermarks: list[int]
    waiting: dict[Asking, list[_Waiting]] = attrs.field(factory=dict)
    hold: int = int(MAX_TIMESTAMP)
    instants: int = 0
    main: Watermarks = MIN_WATERMARKS

    def encoded(self) -> Iterator[bytes]:
        """Yield the encodings of values of side inputs, by which retractions find them."""
        for windows in self.windows:
            for window in windows.values():
                yield from window.standing

    def __reduce__(self) -> tuple[Any, ...]:
        return JoinState, tuple(getattr(self, field.name) for field in attrs.fields(JoinState))


class SideJoinMachine(ObjectMachine):
    """One ParDo with changing side inputs, on one shard.

    Args:
        node: the ParDo.
        staged: the staged plan.
        side_values: the static side inputs.
    """

    def __init__(
        self, node: ParDo, staged: StagedPlan, side_values: Mapping[SideInput, Callable[[Window], Any]]
    ) -> None:
        super().__init__(node.label)
        changing = staged.side_feeds[node.label]
        self.sides = [(number, side) for number, side in enumerate(node.side_inputs) if side in changing]
        self.state = JoinState([{} for _ in self.sides], [int(MIN_TIMESTAMP)] * len(self.sides))
        self._held_windows = [HeldWindows() for _ in self.sides]
        """The side windows that are held."""
        self._awaited = Awaited(len(self.sides))
        self._expiries: Deadlines[tuple[int, Window]] = Deadlines(1)
        """When the side windows that are held expire."""
        self._overdue: set[tuple[int, Window]] = set()
        """The side windows that have expired, but that buffered elements may use."""
        self._changed: set[tuple[int, Window]] = set()
        """The side windows that have changed in the current instant."""
        self._strategies = [staged.plan.strategy(side.ref) for _, side in self.sides]
        retracted = retracted_collections(staged.plan)
        self._replaced: list[Replaced] = [replaced_by_newer(staged.plan, side.ref) for _, side in self.sides]
        self._takes_back = [side.ref in retracted for _, side in self.sides]
        self._opens_empty = [opens_empty(staged.plan, side.ref) for _, side in self.sides]
        self._lateness = int(staged.plan.strategy(node.input).allowed_lateness)
        self._merges = [strategy.window_fn.is_merging for strategy in self._strategies]
        self._depends = any(self._merges)
        """Whether the bounds of a side window may depend on the elements in it."""
        self._arrival = int(MIN_TIMESTAMP)  # of the elements that are being processed
        self._views: dict[tuple[int, Window], Any] = {}
        self._targets: dict[tuple[int, Window], Window] = {}
        looked_up = {side: self._lookup(number) for number, (_, side) in enumerate(self.sides)}
        self._fragment = Fragment(staged.plan, node.label, staged.cuts, {**side_values, **looked_up})
        self._output: dict[str, Bundle] = {}
        self._drops = Drops.of(node)

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Fail, since in a bounded job all side inputs are static, and this machine is not used."""
        del bucket
        raise AssertionError(f"{self.label!r} has changing side inputs in a bounded job")

    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        state, watermarks = self.state, chunk.watermarks[index]
        sides = [side.elements.get(index) for side in chunk.sides]
        state.instants += 1
        for number, bundle in enumerate(sides):
            if bundle:
                self._take_side(number, bundle)
        if inbox:
            self.counters["elements_in"] += len(inbox)
            self._take_main(inbox, chunk.instants.clocks[index])
        now = [side.watermarks[index].low for side in chunk.sides]
        passed = list(map(max, state.watermarks, now))
        changed = any(sides) or passed != state.watermarks
        main = state.main.advance(watermarks)
        if changed or inbox or main is not state.main:
            state.main, state.watermarks = main, passed
            if changed:
                self._release(chunk.instants.clocks[index])
            self._changed.clear()
            self._forget()
        output, self._output = self._output, {}
        return output if self._drops is None else output | {self._drops.tag: self._drops.take()}

    def output_watermarks(self) -> Watermarks:
        """Return the main input's watermarks, held back by buffered elements."""
        return self.state.main.held(self.state.hold)

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the side inputs' watermark at which the next buffered element is ready; none waits for the clock."""
        moments = [
            self._opening(number, self._target(number, *asking))
            for asking in self.state.waiting
            for number in range(len(self.sides))
        ]
        return min(moments, default=None), None

    def clocks(self) -> dict[str, Any]:
        """Return nothing, since the clocks are part of the state, which is stored as a whole."""
        return {}

    def set_clocks(self, *, watermark: int, clock: int, percentiles: tuple[int, ...] = ()) -> None:
        """Do nothing, since the clocks are part of the state."""
        del watermark, clock, percentiles

    def whole(self) -> JoinState:
        """Return the whole state."""
        return self.state

    def resume(self, whole: JoinState) -> None:
        """Restore durable state."""
        self.state = whole
        self._views.clear()
        self._held_windows = list(map(HeldWindows, whole.windows))
        self._awaited, self._expiries, self._overdue = Awaited(len(self.sides)), Deadlines(1), set()
        for asking, elements in whole.waiting.items():
            self._awaited.add(asking, self._fixed_targets(asking), min(element.time for element in elements))
        for number, windows in enumerate(whole.windows):
            for window in windows:
                self._expiries.set((number, window), (self._expiry(window),))

    def tear_down(self) -> None:
        """Tear down the DoFn."""
        self._fragment.tear_down()

    # Elements ------------------------------------------------------------------------------------------------------

    def _take_side(self, number: int, bundle: Bundle) -> None:
        """Incorporate a side input's elements; if panes accumulate, a pane replaces the one before it."""
        if self._takes_back[number]:
            self._take_standing(number, bundle)
            return
        strategy = self._strategies[number]
        for value, windows, pane in zip(bundle.values, bundle.windows, bundle.panes, strict=True):
            for window in windows:
                if self._is_expired(window) and not self._is_awaited(number, window):
                    continue
                side_window = self._side_window(number, window)
                if pane != NO_FIRING or not isinstance(strategy.trigger, DefaultTrigger):
                    side_window.has_pane = True
                owner = owner_of(value, self._replaced[number])
                index, values = side_window.parts.get(owner, (pane.index, []))
                if self._replaced[number] != "nothing" and pane.index != index:
                    if pane.index < index:
                        continue
                    values = []
                values.append(value)
                side_window.parts[owner] = pane.index, values

    def _take_standing(self, number: int, bundle: Bundle) -> None:
        """Incorporate a side input's elements, some of which are retractions."""
        early = not isinstance(self._strategies[number].trigger, DefaultTrigger)
        changed: set[Window] = set()
        retractions = bundle.retractions()
        for row, (value, windows, pane) in enumerate(zip(bundle.values, bundle.windows, bundle.panes, strict=True)):
            change = STANDING.subtract_input if row in retractions else STANDING.add_input
            for window in windows:
                if self._is_expired(window) and not self._is_awaited(number, window):
                    continue
                side_window = self._side_window(number, window)
                if early or pane != NO_FIRING:
                    side_window.has_pane = True
                side_window.standing = change(side_window.standing, value)
                changed.add(window)
        if self._merges[number]:
            # The values of a window that has merged with others were retracted, and the window no longer exists.
            for window in changed:
                if not self.state.windows[number][window].standing:
                    self._drop(number, window)

    def _side_window(self, number: int, window: Window) -> _SideWindow:
        """Return a side window that is about to change."""
        side_window = self.state.windows[number].get(window)
        if side_window is None:
            side_window = self.state.windows[number][window] = _SideWindow()
            self._held_windows[number].add(window)
            self._expiries.set((number, window), (self._expiry(window),))
        self._views.pop((number, window), None)
        self._changed.add((number, window))
        return side_window

    def _drop(self, number: int, window: Window) -> None:
        """Drop a side window."""
        del self.state.windows[number][window]
        self._held_windows[number].remove(window)
        self._views.pop((number, window), None)
        self._expiries.remove((number, window))
        self._overdue.discard((number, window))

    def _take_main(self, inbox: Bundle, clock: int) -> None:
        """Process the elements that are ready, and buffer the others."""
        ready = Bundle()
        arrival = self.state.main.low if self._depends else int(MIN_TIMESTAMP)
        rows = zip(inbox.values, inbox.times, inbox.windows, inbox.panes, inbox.orders, inbox.produced, strict=True)
        for value, time, windows, pane, order, produced in rows:
            for number, window in enumerate(windows):
                element = _Waiting(value, time, window, pane, order, number, produced, self.state.instants)
                if any(self._is_late(number, window, arrival) for number in range(len(self.sides))):
                    self.counters["dropped_because_late"] += 1
                    if self._drops is not None:
                        self._drops.add(
                            DropReason.LATE,
                            value,
                            (window,),
                            time=time,
                            watermark=self.state.main.low,
                            order=order,
                            clock=clock,
                        )
                elif self._must_wait(window, arrival):
                    asking = window, arrival
                    self.state.waiting.setdefault(asking, []).append(element)
                    self._awaited.add(asking, self._fixed_targets(asking), element.time)
                    self.state.hold = min(self.state.hold, element.time)
                else:
                    ready.append(*_fields(element), order_in_window(element.order, number), element.produced)
        self._process(ready, arrival)

    def _release(self, clock: int) -> None:
        """Process the buffered elements that are ready."""
        released: list[tuple[int, _Waiting]] = []
        for asking in [asking for asking in self._perhaps_ready() if not self._must_wait(*asking)]:
            released += [(asking[1], element) for element in self.state.waiting.pop(asking)]
            self._awaited.remove(asking)
        if not released:
            return
        self.state.hold = self._awaited.hold()
        released.sort(key=_by_arrival)
        for arrival, elements in itertools.groupby(released, key=itemgetter(0)):
            ready = Bundle()
            for _, element in elements:
                order = of_release(element.produced, element.instant, element.order, element.number)
                ready.append(*_fields(element), order, clock)
            self._process(ready, arrival)

    def _perhaps_ready(self) -> Iterable[Asking]:
        """Return the main windows of which buffered elements may have become ready in the current instant."""
        if self._depends or any(self._opens_empty):
            return list(self.state.waiting)
        passed = self._awaited.take_passed(self.state.watermarks)
        return passed.union(*(self._awaited.of(number, window) for number, window in self._changed))

    def _process(self, bundle: Bundle, arrival: int) -> None:
        """Call the function for elements that arrived at one watermark."""
        if not bundle:
            return
        self._arrival = arrival
        for number, (tag, output) in enumerate(self._fragment.run_alone(self.label, bundle).items()):
            output.orders = [part_of_join(order, number) for order in output.orders]
            self._output.setdefault(tag, Bundle()).extend(output)

    # Windows -------------------------------------------------------------------------------------------------------

    def _must_wait(self, window: Window, arrival: int) -> bool:
        for number in range(len(self.sides)):
            target = self._target(number, window, arrival)
            side_window = self.state.windows[number].get(target)
            has_pane = side_window is not None and side_window.has_pane
            if not has_pane and self.state.watermarks[number] < self._opening(number, target):
                return True
        return False

    def _opening(self, number: int, target: Window) -> int:
        """Return the watermark of a side input from which on one of its windows is known without a pane."""
        return int(MIN_TIMESTAMP) + 1 if self._opens_empty[number] else int(target.end)

    def _target(self, number: int, window: Window, arrival: int) -> Window:
        """Return the side window for elements of a main window that arrived at a watermark.

        Side windows that had expired then are not used: a shard still holds them only if other elements wait for them.
        """
        if self.sides[number][1].shares_windows:
            return window
        known = self._targets.get((number, window))
        if known is not None:
            return known
        window_fn = self._strategies[number].window_fn
        at = window.max_timestamp
        usable = (known for known in self._held_windows[number].around(at) if arrival < self._expiry(known))
        target = side_window(window_fn, at, usable)
        if not self._merges[number]:
            if len(self._targets) >= _TARGETS_KEPT:
                self._targets.clear()
            self._targets[number, window] = target
        return target

    def _fixed_targets(self, asking: Asking) -> list[Window]:
        """Return the side windows for elements of a main window, unless they may change."""
        return [] if self._depends else [self._target(number, *asking) for number in range(len(self.sides))]

    def _lookup(self, number: int) -> Callable[[Window], Any]:
        """Return a function from a main window to the value of a side input."""

        def look_up(window: Window) -> Any:
            target = self._target(number, window, self._arrival)
            if (number, target) not in self._views:
                side_window = self.state.windows[number].get(target)
                self._views[number, target] = view_of(
                    self.sides[number][1], [] if side_window is None else side_window.values()
                )
            return self._views[number, target]

        return look_up

    def _is_late(self, number: int, window: Window, arrival: int) -> bool:
        """Return whether the side window of an element that arrives has expired, or may have.

        If its bounds depend on elements, it is unknown whether a side window that is not there has ever been.
        """
        target = self._target(number, window, arrival)
        if target not in self.state.windows[number] and self._merges[number]:
            return self._is_expired(window)
        return self._is_expired(target)

    def _expiry(self, window: Window) -> int:
        """Return the watermark from which on no main element, unless it is too late, can use a side window."""
        return expiry_of(window, self._lateness)

    def _is_expired(self, window: Window) -> bool:
        return self.state.main.low >= self._expiry(window)

    def _is_awaited(self, number: int, window: Window) -> bool:
        """Return whether a buffered element may use a side window."""
        if not self._depends:
            return bool(self._awaited.of(number, window))
        if not self._merges[number]:
            return any(self._target(number, *asking) == window for asking in self.state.waiting)
        expiry = self._expiry(window)
        return any(arrival < expiry and contains(window, main.max_timestamp) for main, arrival in self.state.waiting)

    def _forget(self) -> None:
        """Drop the side windows that are no longer needed."""
        self._overdue.update(self._expiries.take(0, self.state.main.low))
        for number, window in [each for each in self._overdue if not self._is_awaited(*each)]:
            self._drop(number, window)


def _by_arrival(released: tuple[int, _Waiting]) -> tuple[int, Order, int]:
    _, element = released
    return element.instant, element.order, element.number


def _fields(element: _Waiting) -> tuple[Any, int, tuple[Window, ...], PaneInfo]:
    return element.value, element.time, (element.window,), element.pane
