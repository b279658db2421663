"""A stateful DoFn on one shard: a machine over elements, watermarks and clock values, in order.

Within one event, what happens in a window of a key is ordered by time: elements that wait for event-time order, then
event-time timers, then the window's expiry. Several windows are ordered by (time, window end, start, key), which is
also the order of their outputs.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import KeyEncodingError
from dataflow_model.metrics.collecting import timed_keys
from dataflow_model.runners.engine.by_key import run_by_key
from dataflow_model.runners.engine.cells import expiry_of
from dataflow_model.runners.engine.key_store import CLOCK, EVENT_TIME
from dataflow_model.runners.engine.keyed import KeyedEngine
from dataflow_model.runners.engine.order import AT, BEFORE, WATERMARK, by_window, of_timer
from dataflow_model.runners.engine.stateful_calls import Call, UserCalls
from dataflow_model.runners.engine.stateful_cells import Arrived, CellStore, KeyCells, StateCell
from dataflow_model.runners.engine.user_code import user_error
from dataflow_model.runners.engine.watermarks import Watermarks
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import as_pair, encode_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.nodes import ParDo, SideInput
    from dataflow_model.runners.engine.bundle import Bundle
    from dataflow_model.runners.engine.chunk import Bucket, Chunk, Produced
    from dataflow_model.runners.engine.order import Order
    from dataflow_model.values import Window

__all__ = ["StatefulEngine", "feed_elements"]

_EVENT: Final = TimeDomain.EVENT_TIME
_CLOCK: Final = TimeDomain.PROCESSING_TIME


class StatefulEngine(KeyedEngine):
    """One stateful ParDo on one shard.

    If the DoFn requires sorted input, a sorter in front of it holds back the watermark by the allowed lateness plus one
    microsecond, so that elements at a time come before timers at the same time. After the sorter no element is late, so
    a window's state is cleared at its end.

    Args:
        node: the ParDo.
        plan: the plan, for the windowing strategy of its input.
        side_values: the static side inputs.
        thaw: decodes a stored key's windows, for state that was loaded.
        percentiles: the percentiles below 100 that the plan uses, in order.
    """

    def __init__(
        self,
        node: ParDo,
        plan: Plan,
        side_values: Mapping[SideInput, Callable[[Window], Any]],
        thaw: Callable[[bytes], Any] | None = None,
        percentiles: tuple[float, ...] = (),
    ) -> None:
        lateness = int(plan.strategy(node.input).allowed_lateness)
        self._sorts = node.declaration.time_sorted
        self._wait = lateness if self._sorts else 0
        self._lateness = 0 if self._sorts else lateness
        self._has_expiry = node.declaration.has_expiry
        self.state = CellStore(self._expiry, holds_to_end=self._has_expiry, thaw=thaw)
        super().__init__(node.label, self.state, percentiles)
        self._calls = UserCalls(node, side_values)

    # The events of one instant -------------------------------------------------------------------------------------

    def run_bounded(self, bucket: Bucket) -> Produced:
        """Run a bucket's keys one after the other."""
        return run_by_key(self, bucket.elements)

    def follow(self, elements: Bundle) -> None:
        """Process the elements of one key in order; the watermark follows their event times."""
        feed_elements(self, elements, follow=True)

    def _instant(self, chunk: Chunk, place: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        clock, watermarks = chunk.instants.clocks[place], chunk.watermarks[place]
        if inbox is None and self.pass_by(clock, watermarks):
            return {}
        self.advance_clock(clock)
        if inbox is not None:
            feed_elements(self, inbox)
        self.advance_watermarks(watermarks)
        if chunk.instants.closes[place]:
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

    def element(self, key: Any, element: Arrived, windows: Sequence[Window], order: Order) -> None:
        """Incorporate an element in each of its windows, or buffer it until its turn."""
        self._calls.emissions.of_element(order)
        encoded = encode_key(key)
        keyed = self.state.open(encoded, key)
        self.counters["elements_in"] += 1
        for window in windows:
            place = min(element.time, int(window.max_timestamp))
            if self._is_late(place, window):
                self.counters["dropped_because_late"] += 1
                continue
            cell = keyed.cells.get(window)
            if cell is None:
                cell = keyed.cells[window] = StateCell()
            if self._sorts:
                cell.wait(place, element)
            else:
                self._process(keyed, window, cell, element)
                self._catch_up(keyed, window, cell, self.clock)
            self._tidy(encoded, keyed, window, cell)
        if not keyed.cells:
            self.state.keys.pop(encoded, None)  # everything was dropped

    def advance_watermarks(self, watermarks: Watermarks) -> None:
        """Apply the input's watermarks: process buffered elements, run timers, and expire windows."""
        if self.reach(watermarks):
            self._run(_EVENT, self._reached(self.watermark), WATERMARK)

    # What a runner reads -------------------------------------------------------------------------------------------

    def take_outputs(self) -> dict[str, Bundle]:
        """Return the outputs since the last call, by tag."""
        return self._calls.take()

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

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the input watermark and the processing time at which something next happens without new elements."""
        event, clock = super().next_moments()
        if event is not None and self._sorts:
            event = min(event + self._wait + 1, int(MAX_TIMESTAMP))
        return event, clock

    def _expiry(self, window: Window) -> int:
        return expiry_of(window, self._lateness)

    def _is_late(self, time: int, window: Window) -> bool:
        now = self._reached(self.watermark)
        if self._sorts:  # its turn is over
            return time <= now and now != MIN_TIMESTAMP
        return now >= self._expiry(window)

    # What happens in a window --------------------------------------------------------------------------------------

    def _run(self, domain: TimeDomain, until: int, phase: int) -> None:
        """Run everything that is due in one domain, in order, including timers that are set on the way."""
        due: list[tuple[int, tuple[int, int, bytes], bytes, int, Window, KeyCells]] = []
        numbers = itertools.count()  # so that windows are never compared
        for encoded, window, keyed in self.state.take_due({EVENT_TIME if domain is _EVENT else CLOCK: until}):
            at = self._due(domain, window, keyed.cells[window])
            if at is not None and at <= until:
                bounds = by_window(window)
                heapq.heappush(due, (at, bounds, encoded, next(numbers), window, keyed))
        while due:
            at, bounds, encoded, _, window, keyed = heapq.heappop(due)
            self._calls.emissions.of_timer(phase, of_timer(at, window, encoded))
            cell = keyed.cells[window]
            if domain is _EVENT:
                self._next_event(keyed, window, cell)
            else:
                self._fire(keyed, window, cell, _CLOCK, at)
                self._catch_up(keyed, window, cell, at)
            self._tidy(encoded, keyed, window, cell)
            then = self._due(domain, window, cell) if window in keyed.cells else None
            if then is not None and then <= until:  # a timer set in the past runs next
                heapq.heappush(due, (max(then, at), bounds, encoded, next(numbers), window, keyed))

    def _due(self, domain: TimeDomain, window: Window, cell: StateCell) -> int | None:
        return self.state.event_due(window, cell) if domain is _EVENT else cell.clock_timers.first()

    def _next_event(self, keyed: KeyCells, window: Window, cell: StateCell) -> None:
        """Run the next event-time step in a window: a buffered element, a timer, or the expiry."""
        due = self.state.event_due(window, cell)
        if cell.waiting and cell.waiting[0][0] <= due:
            _, _, element = heapq.heappop(cell.waiting)
            self._process(keyed, window, cell, element, element.time)  # it has held the watermark at this time
        elif cell.event_timers.first() == due:
            self._fire(keyed, window, cell, _EVENT, self.clock)
        else:
            if self._has_expiry:
                at = int(window.max_timestamp)
                self._calls.expire(self._call(keyed, window, cell, at, self.clock, at))
            del keyed.cells[window]

    def _process(
        self, keyed: KeyCells, window: Window, cell: StateCell, element: Arrived, freed: int | None = None
    ) -> None:
        call = self._call(keyed, window, cell, element.time, self.clock, element.time, freed)
        call.pane = element.pane
        self._calls.process(call, element)

    def _fire(self, keyed: KeyCells, window: Window, cell: StateCell, domain: TimeDomain, clock: int) -> None:
        (name, tag), timer = cell.timers(domain).pop()
        self.counters["timers_fired"] += 1
        event_now = timer.time if domain is _EVENT else timer.output_time
        call = self._call(keyed, window, cell, timer.output_time, clock, event_now, timer.hold)
        self._calls.fire(call, name, tag, timer.time)

    def _catch_up(self, keyed: KeyCells, window: Window, cell: StateCell, clock: int) -> None:
        """Run the event-time timers that a function set at or behind the watermark."""
        now = self._reached(self.watermark)
        while True:
            first = cell.event_timers.first()
            if first is None or first > now:
                return
            self._fire(keyed, window, cell, _EVENT, clock)

    def _call(
        self,
        keyed: KeyCells,
        window: Window,
        cell: StateCell,
        time: int,
        clock: int,
        event_now: int,
        freed: int | None = None,
    ) -> Call:
        return Call(
            cell=cell,
            key=keyed.key,
            window=window,
            expiry=self._expiry(window),
            time=time,
            clock=clock,
            event_now=event_now,
            horizon=self._calls.horizon,
            watermark=self.watermark,
            percentiles=self.percentiles,
            freed=freed,
        )

    def _tidy(self, encoded: bytes, keyed: KeyCells, window: Window, cell: StateCell) -> None:
        """Remove a window without state, and update its deadlines."""
        if not self._has_expiry and cell.is_empty():
            keyed.cells.pop(window, None)
        self.state.mark(encoded, window)


def feed_elements(engine: StatefulEngine, inbox: Bundle, *, follow: bool = False) -> None:
    """Feed a stateful DoFn its elements in order.

    Args:
        engine: the engine of the DoFn.
        inbox: the elements.
        follow: whether the watermark follows their event times, as in a bounded job.

    Raises:
        InvalidType: for an element that is not a pair.
        UserCodeError: if the DoFn raises, or a key has no deterministic encoding.
    """
    take = engine.element if follow else timed_keys(engine.label, engine.element)
    columns = zip(inbox.values, inbox.times, inbox.windows, inbox.panes, inbox.orders, inbox.produced, strict=True)
    for row, (value, time, windows, pane, order, produced) in enumerate(columns):
        key, _ = as_pair(value, engine.label)
        if follow:  # elements at a time come before timers at the same time
            engine.advance_watermarks(Watermarks(max(time - 1, int(MIN_TIMESTAMP))))
        element = Arrived(value, time, pane, produced, bool(inbox.updates) and inbox.is_retraction(row))
        try:
            take(key, element, windows, order)
        except KeyEncodingError as error:
            raise user_error(error, engine.label, value, hint=None) from error
