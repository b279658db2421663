"""A function whose work on an element may outlast the input, on one shard; see `ResumingFn`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.overriding import override
from dataflow_model.runners.engine.core.operations import AT
from dataflow_model.runners.engine.lanes.order import timer_cause
from dataflow_model.runners.engine.machines.stateful import StatefulMachine
from dataflow_model.runners.engine.state.key_store import CLOCK
from dataflow_model.runners.engine.state.stateful_cells import CellStore, OpenCell
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Bucket, Chunk, Produced
    from dataflow_model.runners.engine.lanes.order import Cause
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks
    from dataflow_model.runners.engine.state.queues import Dues
    from dataflow_model.runners.engine.state.stateful_cells import KeyCells
    from dataflow_model.values import Window

_NEVER: Final = int(MAX_TIMESTAMP) + 1
_LATEST: Final = int(MAX_TIMESTAMP) - 2
"""The latest watermark of the output while work is left: before the end of the global window."""


class ResumingStore(CellStore):
    """The keys of such a function, whose windows never expire."""

    @override
    def expiry(self, window: Window) -> int:
        del window
        return _NEVER

    @override
    def _dues(self, state: KeyCells, window: Window) -> Dues | None:
        dues = super()._dues(state, window)
        return None if dues is None else (None, *dues[1:])


class ResumingMachine(StatefulMachine):
    """One such function on one shard."""

    _is_drained = False

    @property
    def is_unfinished(self) -> bool:
        """Whether work is left."""
        return self.state.next_dues()[CLOCK] is not None

    @override
    def _new_store(self, lateness: int) -> CellStore:
        return ResumingStore(lateness, holds_to_end=False)

    @override
    def run_bounded(self, bucket: Bucket) -> Produced:
        raise AssertionError(f"{self.label!r} needs a clock, which a bounded job has not: runners reject it")

    @override
    def output_watermarks(self) -> Watermarks:
        reached = super().output_watermarks()
        return reached.held(_LATEST) if self.is_unfinished else reached

    @override
    def next_moments(self) -> tuple[int | None, int | None]:
        _, clock = super().next_moments()
        return None, None if clock is None else max(clock, self.clock + 1)

    @override
    def _instant(self, chunk: Chunk, index: int, inbox: Bundle | None) -> Mapping[str, Bundle]:
        self._is_drained = chunk.instants.drains
        if self._is_drained:
            self._calls.elements.fn.drain()
        return super()._instant(chunk, index, inbox)

    @override
    def pass_by(self, processing_time: int, watermarks: Watermarks) -> bool:
        return not (self._is_drained and self.is_unfinished) and super().pass_by(processing_time, watermarks)

    @override
    def advance_clock(self, processing_time: int) -> None:
        self.clock = max(self.clock, processing_time)

    @override
    def leave_instant(self) -> None:
        """End the instant: run the timers that are due, all of them if the run is drained."""
        until = int(MAX_TIMESTAMP) if self._is_drained else self.clock
        due: list[tuple[Cause, int, OpenCell, tuple[str, str]]] = []
        for encoded, window, keyed in self.state.take_due({CLOCK: until}):
            cell = OpenCell(self._window(window), encoded, keyed, keyed.cells[window])
            due += [
                (timer_cause(timer.time, cell.window.bounds, encoded), timer.number, cell, name)
                for name, timer in cell.state.clock_timers.pending.items()
                if timer.time <= until
            ]
        for cause, _, cell, name in sorted(due):
            self._calls.timer = AT, cause
            self._resume(cell, name)
        self._calls.timer = None

    def _resume(self, cell: OpenCell, name: tuple[str, str]) -> None:
        """Run a timer, which may be set again, for a later instant."""
        timer = cell.state.clock_timers.clear(name)
        assert timer is not None, f"{name!r} is due"  # noqa: S101 - the function clears no timer but its own
        self.counters["timers_fired"] += 1
        self._calls.call.enter(cell, timer.output_time, timer.hold)
        self._calls.call.clock = self.clock
        self._calls.fire(*name, timer.time)
        if cell.state.is_open and cell.state.is_empty():
            cell.remove()
