"""Emission: what a firing writes to the logs, which panes it emits, and which earlier panes it retracts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core import cells, operations
from dataflow_model.runners.engine.core.log import CauseLog, OperationLog, PaneLog, StandingTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.runners.engine.core.cells import CellTable
    from dataflow_model.runners.engine.core.evaluation import TreeEvaluator
    from dataflow_model.runners.engine.core.rules import MergeCallbacks, Rules
    from dataflow_model.runners.engine.core.schedule import Schedule

_CLEAR: Final = operations.CLEAR
_FIRE: Final = operations.FIRE
_REPLACE: Final = operations.REPLACE
_RETRACT: Final = operations.RETRACT
_EXPIRE: Final = operations.EXPIRE
_ON_TIME: Final = operations.PANE_ON_TIME
_LATE: Final = operations.PANE_LATE
_FIRST: Final = operations.PANE_FIRST
_LAST: Final = operations.PANE_LAST
_BY_TRIGGER: Final = operations.PANE_BY_TRIGGER
_RETRACTION: Final = operations.PANE_RETRACTION
_ACCUMULATES: Final = operations.ACCUMULATES
_CLEARS: Final = operations.CLEARS
_LOW_DOMAIN: Final = operations.LOW_DOMAIN
_ELEMENT: Final = operations.ELEMENT
_PENDING_ON_TIME: Final = cells.PENDING_ON_TIME
_HAD_ON_TIME: Final = cells.HAD_ON_TIME
_HAS_CLOSED: Final = cells.HAS_CLOSED
_TIMED: Final = cells.TIMED
_NONE: Final = -1


class Emission:
    """Writes the panes of one grouping on one shard to its logs, with the cause of each.

    Args:
        cells: the cells.
        trees: the evaluator of the trigger, which knows the watermark.
        schedule: the schedule of the cells.
        standing: the values that have been emitted and not retracted.
        rules: the windowing strategy, apart from the trigger.

    Attributes:
        log, panes, causes: what has happened since the logs were last cleared.
        events: the number of the event in the total order.
        phase, at: the cause of the next panes, as in `order.Order`.
        cause: its index in `causes`; −1 before its first pane.
        number: the number of its next emission.
        instant: the instant of the chunk.
        cleared_by_trigger: the number of elements cleared because a trigger requested it.
        keeps: for combiners that keep their inputs, returns whether a cell still holds inputs although as many were
            retracted as were added; `None` if the count decides.
        merging: compares users' windows with the same bounds; `None` if there are none.
    """

    def __init__(
        self, cells: CellTable, trees: TreeEvaluator, schedule: Schedule, standing: StandingTable, rules: Rules
    ) -> None:
        self.cells = cells
        self.trees = trees
        self.schedule = schedule
        self.standing = standing
        self.log = OperationLog()
        self.panes = PaneLog()
        self.causes = CauseLog()
        self.clears = rules.clears
        self.obeys = rules.obeys
        self.retracts = rules.retracts
        self.events = 0
        self.phase = _ELEMENT
        self.at = 0
        self.cause = _NONE
        self.number = 0
        self.instant = 0
        self.cleared_by_trigger = 0
        self.keeps: Callable[[int], bool] | None = None
        self.merging: MergeCallbacks | None = None

    # Firing --------------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Clear the logs, which the caller has read."""
        self.log.count = self.panes.count = self.causes.count = 0

    def next_event(self, phase: int) -> None:
        """Begin the next event of the total order."""
        self.events += 1
        self.phase = phase

    def begin(self, phase: int, at: int) -> None:
        """Set the cause of the panes that follow."""
        self.phase = phase
        self.at = at
        self.cause = _NONE
        self.number = 0

    def fire(
        self, slot: int, mode: int, produced: int, by_trigger: bool, passing: bool, forced: bool, last: bool
    ) -> None:
        """Emit a pane if a window has something to say or if forced; then clear what the accumulation mode clears.

        Args:
            slot: the cell.
            mode: what the trigger has requested, `ACCUMULATES` or `CLEARS`; 0 for nothing.
            produced: the processing time of the pane.
            by_trigger: whether the trigger has fired.
            passing: whether the watermark is passing the window.
            forced: whether to emit a pane without new elements.
            last: whether the window expires.
        """
        table = self.cells
        if table.pending[slot] > 0 or forced or self.schedule.owes(slot):
            if self.retracts and self.is_empty(slot):
                self.take_back(slot, produced)
            else:
                self.emit(slot, produced, by_trigger, passing, last)
        if self.clears_after(mode):
            self.log.add(_CLEAR, slot, 0)
            table.elements[slot] = 0
        self.settle(slot)

    def clears_after(self, mode: int) -> bool:
        """Return whether a firing clears the contents: as the trigger requested, if the mode allows that."""
        if self.obeys and mode == _CLEARS:
            return True
        return self.clears and not (self.obeys and mode == _ACCUMULATES)

    def clear_contents(self, slot: int) -> None:
        """Clear the contents of a cell because its trigger requested it, if the mode allows that."""
        if self.obeys:
            self.cleared_by_trigger += self.cells.elements[slot]
            self.log.add(_CLEAR, slot, 0)
            self.cells.elements[slot] = 0
            self.settle(slot)

    def settle(self, slot: int) -> None:
        """Mark a cell as having nothing pending."""
        self.cells.pending[slot] = 0
        self.cells.flags[slot] &= ~(_PENDING_ON_TIME | _TIMED)

    def is_empty(self, slot: int) -> bool:
        """Return whether all elements of a cell have been retracted."""
        return self.cells.elements[slot] == 0 and (self.keeps is None or not self.keeps(slot))

    def emit(self, slot: int, produced: int, by_trigger: bool, passing: bool, last: bool) -> None:
        """Emit a pane, preceded by retractions of the standing values."""
        table = self.cells
        flags = table.flags[slot]
        info = _BY_TRIGGER if by_trigger else 0
        if self.trees.now[_LOW_DOMAIN] >= table.end[slot]:
            is_first = table.on_time_index[slot] < 0 and not flags & _HAD_ON_TIME
            info |= _ON_TIME if is_first and (passing or flags & _PENDING_ON_TIME) else _LATE
            table.on_time_index[slot] += 1
            if info & _ON_TIME:
                flags |= _HAD_ON_TIME
        if last or self.trees.is_finished(slot):
            info |= _LAST
            flags |= _HAS_CLOSED
        if table.index[slot] == 0:
            info |= _FIRST
        time = self.schedule.output_time(slot)
        taken_back = self.take_back(slot, produced)
        pane = self.appended(slot, produced, taken_back)
        panes = self.panes
        panes.key[pane] = table.key[slot]
        panes.start[pane] = table.start[slot]
        panes.end[pane] = table.end[slot]
        panes.kind[pane] = table.kind[slot]
        panes.index[pane] = table.index[slot]
        panes.on_time_index[pane] = table.on_time_index[slot]
        panes.flags[pane] = info
        panes.time[pane] = time
        if self.trees.users is not None:
            self.trees.users.remember(slot, info, table.index[slot], table.on_time_index[slot])
        table.index[slot] += 1
        table.flags[slot] = flags
        self.log.add(_FIRE, slot, pane)
        if self.retracts:
            entry = self.standing.open()
            self.standing.panes.copy(entry, panes, pane)
            self.standing.following[entry] = _NONE
            table.standing[slot] = entry
            self.log.add(_REPLACE, entry, pane)

    def take_back(self, slot: int, produced: int) -> int:
        """Retract the standing values in order of their windows; return the number of the emission, or −1."""
        table, standing = self.cells, self.standing
        named = _NONE
        while table.standing[slot] >= 0:
            if named < 0:
                named = self.number
                self.number += 1
            before, earliest = _NONE, table.standing[slot]
            previous, entry = earliest, standing.following[earliest]
            while entry >= 0:
                if self.is_earlier(entry, earliest):
                    before, earliest = previous, entry
                previous, entry = entry, standing.following[entry]
            if before < 0:
                table.standing[slot] = standing.following[earliest]
            else:
                standing.following[before] = standing.following[earliest]
            pane = self.appended(slot, produced, named)
            self.panes.copy(pane, standing.panes, earliest)
            self.panes.flags[pane] |= _RETRACTION
            self.log.add(_RETRACT, earliest, pane)
            standing.close(earliest)
        return named

    def is_earlier(self, entry: int, other: int) -> bool:
        """Return whether a standing value's window comes before another's; see `order.by_window`."""
        panes = self.standing.panes
        if panes.end[entry] != panes.end[other]:
            return panes.end[entry] < panes.end[other]
        if self.merging is None or panes.start[entry] != panes.start[other]:
            return panes.start[entry] < panes.start[other]
        return self.merging.is_earlier(panes.kind[entry], panes.kind[other], panes.start[entry], panes.end[entry])

    def appended(self, slot: int, produced: int, named: int) -> int:
        """Return the index of a new pane of the current cause."""
        if self.cause < 0:
            causes, table = self.causes, self.cells
            self.cause = causes.open()
            causes.event[self.cause] = self.events
            causes.instant[self.cause] = self.instant
            causes.watermark[self.cause] = self.trees.now[_LOW_DOMAIN]
            causes.phase[self.cause] = self.phase
            causes.at[self.cause] = self.at
            causes.key[self.cause] = table.key[slot]
            causes.start[self.cause] = table.start[slot]
            causes.end[self.cause] = table.end[slot]
            kind = table.kind[slot]
            causes.kind[self.cause] = kind if kind >= 0 else ~kind
        pane = self.panes.open()
        self.panes.cause[pane] = self.cause
        self.panes.number[pane] = self.number
        self.panes.emission[pane] = named
        self.panes.produced[pane] = produced
        self.number += 1
        return pane

    def emit_reopened(self, slot: int, produced: int) -> None:
        """Emit the only pane of a reopened window, and close its cell."""
        table = self.cells
        pane = self.appended(slot, produced, _NONE)
        self.panes.key[pane] = table.key[slot]
        self.panes.start[pane] = table.start[slot]
        self.panes.end[pane] = table.end[slot]
        self.panes.kind[pane] = ~table.kind[slot]
        self.panes.index[pane] = self.panes.on_time_index[pane] = 0
        self.panes.flags[pane] = _LATE | _FIRST | _LAST
        self.panes.time[pane] = self.schedule.output_time(slot)
        self.log.add(_FIRE, slot, pane)
        self.log.add(_EXPIRE, slot, 0)
        table.close(slot)
