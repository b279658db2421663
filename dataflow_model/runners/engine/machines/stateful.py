"""A stateful DoFn on one shard: a machine over elements, watermarks and clock values, in order.

Within one event, what happens in a window of a key is ordered by time: elements that wait for event-time order, then
event-time timers, then the window's expiry. Several windows are ordered by (time, window end, start, key), which is
also the order of their outputs.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import KeyEncodingError, UserCodeError, shown
from dataflow_model.metrics.collecting import key_times
from dataflow_model.overriding import override
from dataflow_model.plan.functions.dofn import BoundedLatenessFn
from dataflow_model.plan.logical.dropped import DropReason
from dataflow_model.runners.engine.core.calls import ElementLoop
from dataflow_model.runners.engine.core.operations import AT, BEFORE, WATERMARK
from dataflow_model.runners.engine.functions.user_code import user_error
from dataflow_model.runners.engine.grouping.placing import watermarks_behind
from dataflow_model.runners.engine.lanes.lanes import Intervals
from dataflow_model.runners.engine.lanes.order import by_window, deadline_of, timer_cause
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.machines.stateful_calls import UserCalls
from dataflow_model.runners.engine.protocol.by_key import run_by_key
from dataflow_model.runners.engine.protocol.dropping import Drops
from dataflow_model.runners.engine.protocol.keyed import StoreMachine
from dataflow_model.runners.engine.state.key_store import CLOCK, EVENT_TIME
from dataflow_model.runners.engine.state.stateful_cells import Arrived, CellStore, OpenCell, OpenWindow, StateCell
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_instant
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dataflow_model.metrics.collecting import KeyTimes
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import ParDo, SideInput
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk, Produced
    from dataflow_model.runners.engine.lanes.order import Cause, Order
    from dataflow_model.values import Window

_EVENT: Final = TimeDomain.EVENT_TIME
_MOST_REPEATED: Final = 1_000_000
_CLOCK: Final = TimeDomain.PROCESSING_TIME
_TIMED_TOGETHER: Final = 1 << 12
"""Long bundles are cut into parts of so many elements, of which one in eight is timed."""


class StatefulMachine(StoreMachine):
    """One stateful ParDo on one shard.

    If the DoFn requires sorted input, a sorter in front of it holds back the watermark by the allowed lateness plus one
    microsecond, so that elements at a time come before timers at the same time. After the sorter no element is late, so
    a window's state is cleared at its end.

    Args:
        node: the ParDo.
        plan: the plan, for the windowing strategy of its input.
        side_values: the static side inputs.
        percentiles: the percentiles below 100 that the plan uses, in order.
    """

    def __init__(
        self,
        node: ParDo,
        plan: Plan,
        side_values: Mapping[SideInput, Callable[[Window], Any]],
        percentiles: tuple[float, ...] = (),
    ) -> None:
        lateness = int(plan.strategy(node.input).allowed_lateness)
        self._sorts = node.declaration.time_sorted
        self._wait = lateness if self._sorts else 0
        self._has_expiry = node.declaration.has_expiry
        self.state = self._new_store(0 if self._sorts else lateness)
        super().__init__(node.label, self.state, percentiles)
        self._calls = UserCalls(node, side_values, self)
        bound = node.fn.lateness if isinstance(node.fn, BoundedLatenessFn) else None
        self._loop = ElementLoop(self, self._calls.elements, sorts=self._sorts, lateness=bound)
        self._drops = Drops.of(node)
        self._orders: Sequence[Order] = ()
        self._windows: dict[Window, OpenWindow] = {}
        """What is known of the windows of the current chunk, or of the current key of a bounded job."""
        self._quiet_until = int(MIN_TIMESTAMP)
        """The event time before which nothing of the current key of a bounded job is due."""
        self._followed: Iterator[int] = iter(())
        """The watermarks at the elements of the current key of a bounded job that are not processed yet."""

    def _new_store(self, lateness: int) -> CellStore:
        """Return an empty store, given how long after the end of a window its state is cleared."""
        return CellStore(lateness, holds_to_end=self._has_expiry)

    # The events of one instant -------------------------------------------------------------------------------------

    @override
    def run(self, chunk: Chunk) -> Produced:
        self._windows.clear()
        try:
            return super().run(chunk)
        finally:
            self._windows.clear()

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket's keys one after the other."""
        return run_by_key(self, bucket.elements)

    def follow(self, elements: Bundle) -> None:
        """Process the elements of one key in order; the watermark follows their event times."""
        self._windows.clear()
        self._quiet_until = int(MIN_TIMESTAMP)
        self._followed = iter(watermarks_behind(elements, [0]).tolist())
        self._feed(elements, None, watermark_follows=True)

    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        clock, watermarks = chunk.instants.clocks[index], chunk.watermarks[index]
        if inbox is None and self.pass_by(clock, watermarks):
            return {}
        self.advance_clock(clock)
        if inbox is not None:
            for start in range(0, len(inbox), _TIMED_TOGETHER):
                times = key_times(self.label)
                self._feed(inbox.sliced(start, min(start + _TIMED_TOGETHER, len(inbox))), times)
                if times is not None:
                    times.record()
        self.advance_watermarks(watermarks)
        if chunk.instants.closes[index]:
            self.leave_instant()
        return self.take_outputs()

    def advance_clock(self, processing_time: int) -> None:
        """Advance the processing clock: run the timers before `processing_time`, then set the clock to it."""
        if processing_time <= self.clock:
            return
        self._run(_CLOCK, processing_time - 1, BEFORE)
        self.clock = processing_time

    def pass_by(self, processing_time: int, watermarks: Watermarks) -> bool:
        """Advance all clocks if nothing is due on the way and nothing has changed; return whether that was so."""
        reached = self._reached(max(watermarks.low, self.watermark))
        if self.percentiles or self.state.is_due((reached, processing_time)):
            return False
        self.clock = max(self.clock, processing_time)
        self.reach(watermarks)
        return True

    def leave_instant(self) -> None:
        """End the instant: run the timers that are due at the clock's own time."""
        self._run(_CLOCK, self.clock, AT)

    def _feed(self, inbox: Bundle, times: KeyTimes | None, *, watermark_follows: bool = False) -> None:
        """Process elements in order, or buffer them until their turn.

        What the elements of a window have in common is worked out once, and a cell is looked up once.

        Args:
            inbox: the elements.
            times: measures how long the keys take; `None` if that is not wanted.
            watermark_follows: whether the watermark follows their event times, as in a bounded job.

        Raises:
            InvalidType: for an element that is not a pair.
            UserCodeError: if the DoFn raises, or a key has no deterministic encoding.
        """
        call = self._calls.call
        call.clock = self.clock
        self._calls.begin_elements(inbox.orders)
        self.counters["elements_in"] += len(inbox)
        retractions = dict.fromkeys(inbox.retractions(), True)
        reached = self._reached(self.watermark)
        self._orders = inbox.orders
        self._loop.run(inbox, self._open_windows(inbox.windows), retractions, reached, times, watermark_follows)

    def _open_windows(self, windows: Sequence[tuple[Window, ...]]) -> Iterable[list[OpenWindow]]:
        """Return what is known of the windows of each element; this is worked out once for those that are equal."""
        if isinstance(windows, Intervals):
            bounds = windows.bounds()
            by_bounds = {each: list(map(self._window, windows.at(*each))) for each in set(bounds)}
            return map(by_bounds.__getitem__, bounds)
        return self._open_one_by_one(windows)

    def _open_one_by_one(self, windows: Iterable[tuple[Window, ...]]) -> Iterator[list[OpenWindow]]:
        before: tuple[Window, ...] | None = None
        open_windows: list[OpenWindow] = []
        for several in windows:
            if several is not before:
                before, open_windows = several, list(map(self._window, several))
            yield open_windows

    def follow_element(self) -> int:
        """Let the watermark follow the next element; return the event time up to which everything is processed.

        Elements at a time come before timers at the same time.
        """
        watermarks = Watermarks(max(next(self._followed) - 1, int(MIN_TIMESTAMP)))
        if self._reached(watermarks.low) < self._quiet_until:
            self.reach(watermarks)
        else:
            self.advance_watermarks(watermarks)
            due = self.state.next_dues()[EVENT_TIME]
            self._quiet_until = int(MAX_TIMESTAMP) if due is None else due
        return self._reached(self.watermark)

    def tidy(self, cell: OpenCell) -> None:
        """Run what is due in a window after an element, note that it has changed, and remove it if it is empty."""
        if not self._sorts and cell.state.event_timers.pending:
            cell.begin_event()
            self._catch_up(cell, self.clock)
        self.state.mark_cell(cell)
        if not self._has_expiry and cell.state.is_empty():
            cell.remove()
            if not cell.keyed.cells:
                self.state.keys.pop(cell.encoded, None)
        else:
            self._quiet_until = min(self._quiet_until, self.state.event_due(cell.window.expiry, cell.state))

    def drop(self, value: Any, time: int, window: OpenWindow) -> None:
        """Count the current element as dropped in a window, because it is late."""
        self.counters["dropped_because_late"] += 1
        if self._drops is not None:
            self._drops.add(
                DropReason.LATE,
                value,
                (window.window,),
                time=time,
                watermark=self.watermark,
                order=self._orders[self._calls.call.row],
                clock=self.clock,
            )

    def wait(self, cell: OpenCell, value: Any, time: int) -> None:
        """Buffer the current element until its turn."""
        call = self._calls.call
        element = Arrived(value, time, call.pane, call.produced, call.is_retraction)
        cell.state.wait(min(time, cell.window.end), element)

    @staticmethod
    def is_late(time: int, reached: int, window: OpenWindow) -> bool:
        """Return whether the turn of an element in sorted input is over."""
        return min(time, window.end) <= reached != MIN_TIMESTAMP

    def _window(self, window: Window) -> OpenWindow:
        """Return what is known of a window."""
        open_window = self._windows.get(window)
        if open_window is None:
            bounds = by_window(window)
            open_window = OpenWindow(window, int(window.max_timestamp), self.state.expiry(window), bounds)
            self._windows[window] = open_window
        return open_window

    def open_cell(self, window: OpenWindow, name: Any, key: Any) -> OpenCell:
        """Return the cell of a key and window, which is new if there is none; `name` identifies the key."""
        encoded = name if type(name) is bytes else encode_key(key)
        keyed = self.state.open(encoded, key)
        state = keyed.cells.get(window.window)
        if state is None:
            state = keyed.cells[window.window] = StateCell()
        cell = window.cells[name] = OpenCell(window, encoded, keyed, state)
        return cell

    def encoded(self, key: Any, value: Any) -> bytes:
        """Return a key as bytes; `value` is the element."""
        try:
            return encode_key(key)
        except KeyEncodingError as error:
            raise user_error(error, self.label, value, hint=None) from error

    def advance_watermarks(self, watermarks: Watermarks) -> None:
        """Apply the input's watermarks: process buffered elements, run timers, and expire windows."""
        if self.reach(watermarks):
            self._run(_EVENT, self._reached(self.watermark), WATERMARK)

    # State ---------------------------------------------------------------------------------------------------------

    @override
    def clocks(self) -> dict[str, Any]:
        closed = self.state.closed
        return super().clocks() if closed == MIN_TIMESTAMP else {**super().clocks(), "closed": closed}

    def set_clocks(
        self,
        *,
        watermark: int,
        clock: int,
        percentiles: Sequence[int] = (),
        closed: int = int(MIN_TIMESTAMP),
    ) -> None:
        """Set the shard's clocks to what `clocks` returned."""
        super().set_clocks(watermark=watermark, clock=clock, percentiles=percentiles)
        self.state.closed = closed

    def with_own_lateness(self, entries: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        """Return stored keys of the function when it had another lateness as they are now."""
        return {encoded: self.state.dated_anew(entry) for encoded, entry in entries.items()}

    # What a runner reads -------------------------------------------------------------------------------------------

    def take_outputs(self) -> dict[str, Bundle]:
        """Return the outputs since the last call, by tag."""
        outputs = self._calls.take()
        return outputs if self._drops is None else outputs | {self._drops.tag: self._drops.take()}

    def tear_down(self) -> None:
        """Tear down the DoFn."""
        self._calls.tear_down()

    # Time ----------------------------------------------------------------------------------------------------------

    def _reached(self, watermark: int) -> int:
        """Return the event time up to which everything is processed at a watermark."""
        if not self._sorts or watermark in (MIN_TIMESTAMP, MAX_TIMESTAMP):
            return watermark
        return max(watermark - self._wait - 1, int(MIN_TIMESTAMP))

    def output_watermarks(self) -> Watermarks:
        """Return the input's watermarks, held back by buffered elements, timers and holds."""
        return self._held(self.watermarks.less(self._wait) if self._wait else self.watermarks)

    @override
    def next_moments(self) -> tuple[int | None, int | None]:
        event, clock = super().next_moments()
        if event is not None and self._sorts:
            event = min(event + self._wait + 1, int(MAX_TIMESTAMP))
        return event, clock

    # What happens in a window --------------------------------------------------------------------------------------

    def _run(self, domain: TimeDomain, until: int, phase: int) -> None:
        """Run everything that is due in one domain, in order, including timers that are set on the way."""
        due: list[tuple[Cause, int, OpenCell]] = []
        numbers = itertools.count()  # so that cells are never compared
        number = EVENT_TIME if domain is _EVENT else CLOCK
        for encoded, window, keyed in self.state.take_due({number: until}):  # which marks them as changed
            cell = OpenCell(self._window(window), encoded, keyed, keyed.cells[window])
            cell.begin_event()
            at = self._next_due(domain, cell, until)
            if at is not None:
                due.append((timer_cause(at, cell.window.bounds, encoded), next(numbers), cell))
        due.sort()
        again: list[tuple[Cause, int, OpenCell]] = []
        """A heap of the cells in which something else is due; a small one, which is faster than one of all cells."""
        done = 0
        while done < len(due) or again:
            if again and (done == len(due) or again[0] < due[done]):
                cause, _, cell = heapq.heappop(again)
            else:
                cause, _, cell = due[done]
                done += 1
            self._calls.timer = phase, cause
            at = deadline_of(cause)
            if domain is _EVENT:
                self._next_event(cell)
            else:
                self._fire(cell, _CLOCK, at)
                self._catch_up(cell, at)
            if cell.state.is_open and not self._has_expiry and cell.state.is_empty():
                cell.remove()
            then = self._next_due(domain, cell, until)
            if then is not None:  # a timer set in the past runs next
                cause = timer_cause(max(then, at), cell.window.bounds, cell.encoded)
                heapq.heappush(again, (cause, next(numbers), cell))
        self._calls.timer = None

    def _next_due(self, domain: TimeDomain, cell: OpenCell, until: int) -> int | None:
        """Return when something next happens in a window, if that is at `until` or before.

        A window that only expires, without calling a function, is removed at once: nothing depends on when.
        """
        state, expiry = cell.state, cell.window.expiry
        if not state.is_open:
            return None
        if domain is _CLOCK:
            at = state.clock_timers.first()
        elif expiry <= until and not (self._has_expiry or state.event_timers.pending or state.waiting):
            cell.remove()
            return None
        else:
            at = self.state.event_due(expiry, state)
        return at if at is not None and at <= until else None

    def _next_event(self, cell: OpenCell) -> None:
        """Run the next event-time step in a window: a buffered element, a timer, or the expiry."""
        calls, call, state = self._calls, self._calls.call, cell.state
        due = self.state.event_due(cell.window.expiry, state)
        if state.waiting and state.waiting[0][0] <= due:
            _, _, element = heapq.heappop(state.waiting)
            call.clock, call.pane, call.produced = self.clock, element.pane, element.produced
            call.is_retraction = element.is_retraction
            hold = element.time  # it has held the watermark at this time
            calls.elements.process(element.value, element.time, cell, hold)
        elif state.event_timers.first() == due:
            self._fire(cell, _EVENT, self.clock)
        else:
            if self._has_expiry:
                call.enter(cell, cell.window.end, None)
                call.clock = self.clock
                calls.expire()
            cell.remove()

    def _fire(self, cell: OpenCell, domain: TimeDomain, clock: int) -> None:
        (name, tag), timer = cell.state.timers(domain).pop()
        if timer.number > cell.set_before:
            self._check_progress(cell, name, timer.time)
        self.counters["timers_fired"] += 1
        call = self._calls.call
        call.enter(cell, timer.output_time, timer.hold)
        call.clock = clock
        if domain is _EVENT:
            call.event_now = timer.time
        self._calls.fire(name, tag, timer.time)

    def _check_progress(self, cell: OpenCell, name: str, time: int) -> None:
        """Refuse a timer that is set again and again: at one time, or in the global window after the input's end."""
        is_over = self.watermark == MAX_TIMESTAMP == cell.window.expiry
        cell.repeated = cell.repeated + 1 if is_over or time == cell.repeated_at else 0
        cell.repeated_at = time
        if cell.repeated < _MOST_REPEATED:
            return
        when = "after the end of the input" if is_over else f"at {format_instant(time)}"
        raise UserCodeError(
            f"{self.label!r} has set the timer {name!r} of the key {shown(cell.keyed.key)} {cell.repeated:,} times "
            f"{when}, and would never end",
            hint="set it again only while there is something to do, or in windows that end",
        )

    def _catch_up(self, cell: OpenCell, clock: int) -> None:
        """Run the event-time timers that a function set at or behind the watermark."""
        reached, timers = self._reached(self.watermark), cell.state.event_timers
        while True:
            first = timers.first()
            if first is None or first > reached:
                return
            self._fire(cell, _EVENT, clock)
