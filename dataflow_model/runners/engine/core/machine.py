"""The grouping machine: processes elements, clocks, watermarks and signals in order, over cells in columns.

It decides when panes are emitted and which elements are in them, and writes both to logs, from which values are folded
afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.engine.core import cells, operations
from dataflow_model.runners.engine.core.cells import CellTable
from dataflow_model.runners.engine.core.columns import column, lengthened
from dataflow_model.runners.engine.core.emission import Emission
from dataflow_model.runners.engine.core.evaluation import TreeEvaluator
from dataflow_model.runners.engine.core.log import StandingTable
from dataflow_model.runners.engine.core.schedule import Schedule
from dataflow_model.runners.engine.core.tree_merging import TreeMerger

if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from dataflow_model.runners.engine.core.program import TriggerProgram
    from dataflow_model.runners.engine.core.rules import MergeCallbacks, Rules

_ADD: Final = operations.ADD
_MERGE: Final = operations.MERGE
_EXPIRE: Final = operations.EXPIRE
_TAKE_BACK: Final = operations.TAKE_BACK
_EXCHANGE: Final = operations.EXCHANGE
_FIRED: Final = operations.FIRED
_LATE: Final = operations.DROPPED_LATE
_CLOSED: Final = operations.DROPPED_CLOSED
_RETRACTION: Final = operations.DROPPED_RETRACTION
_MODE: Final = operations.ACCUMULATES | operations.CLEARS
_LOW_DOMAIN: Final = operations.LOW_DOMAIN
_CLOCK_DOMAIN: Final = operations.CLOCK_DOMAIN
_BEFORE: Final = operations.BEFORE
_ELEMENT: Final = operations.ELEMENT
_WATERMARK: Final = operations.WATERMARK
_AT: Final = operations.AT
_PENDING_ON_TIME: Final = cells.PENDING_ON_TIME
_HAD_ON_TIME: Final = cells.HAD_ON_TIME
_HAS_CLOSED: Final = cells.HAS_CLOSED
_REOPENED: Final = cells.REOPENED
_TIMED: Final = cells.TIMED
_COLLECTED: Final = cells.COLLECTED
_NONE: Final = -1
_SCRATCH: Final = 4
_AT_ONCE: Final = 256


class GroupingMachine:
    """The machine of one grouping on one shard.

    Args:
        program: the trigger.
        rules: the rest of the windowing strategy.
        minus_infinity, infinity: ±∞.
        cells: an empty table of cells to use, from another machine of the same grouping; `None` for a new one.

    Attributes:
        cells: the state of the windows.
        trees, merger: the evaluator of the trigger, and the merger of its trees.
        standing: the values that have been emitted and not retracted.
        schedule: when each cell is next due.
        emission: the panes.
        log: the operations on cells since the last `recycle`, those of `emission` among them.
        dropped: the number of (element, window) pairs dropped, by reason.
        drops: row, reason, start, end and kind of the window, watermark and instant of each of them, since the caller
            has last emptied it; `None` if they are only counted.
        possible_splits: the number of elements that begin a merging window so late that an expired one may have
            contained them.
        merging: asks a user's window function how windows merge; `None` if they merge as sessions do.
        closed: windows that end at this time or before have expired, although the allowed lateness may say otherwise:
            it was shorter when they did.
    """

    def __init__(
        self,
        program: TriggerProgram,
        rules: Rules,
        minus_infinity: int,
        infinity: int,
        cells: CellTable | None = None,
    ) -> None:
        self.cells = cells or CellTable(
            program.words, program.counters, program.deadlines, program.domains, infinity, rules.merges
        )
        self.trees = TreeEvaluator(program, self.cells, infinity)
        self.merger = TreeMerger(self.trees, program)
        self.standing = StandingTable()
        self.schedule = Schedule(self.cells, self.trees, self.standing, rules, program.domains, infinity)
        self.emission = Emission(self.cells, self.trees, self.schedule, self.standing, rules)
        self.log = self.emission.log
        self.minus_infinity = minus_infinity
        self.infinity = infinity
        self.domains = program.domains
        self.passes_always = rules.passes_always
        self.closes_always = rules.closes_always
        self.reopens = rules.reopens
        self.merges = rules.merges
        self.spans = rules.spans
        self.merging: MergeCallbacks | None = None
        self.watermark = minus_infinity
        self.clock = 0
        self.closed = minus_infinity
        for domain in range(self.domains):
            self.trees.now[domain] = minus_infinity
        self.trees.now[_CLOCK_DOMAIN] = 0
        self.rebounded = False
        self.sources: array[int] = column(_SCRATCH)
        self.replaced: array[int] = column(_SCRATCH)
        self.replaced_at = 0
        self.dropped: array[int] = column(3)
        self.drops: list[tuple[int, int, int, int, int, int, int]] | None = None
        self.possible_splits = 0

    # Chunks --------------------------------------------------------------------------------------------------------

    def run(
        self,
        elements: Sequence[array[int]],
        replaced: array[int],
        instants: Sequence[array[int]],
        signals: array[int],
        values: Any,
        hold: array[int],
    ) -> None:
        """Run a chunk of instants.

        Args:
            elements: the columns key, start, end, kind, event time and row of each element in each of its windows, and
                the number of retracted elements that it replaces there, or −1 for a retracted element without a
                replacement.
            replaced: the rows of the elements that are replaced, one after the other.
            instants: the columns clock, low watermark, whether the tick is complete, and the numbers of elements and of
                signals up to the end of the instant; then one column for each other percentile of the watermark.
            signals: the signals of all instants.
            values: the values of the rows, for triggers that read them.
            hold: is filled with the earliest event time that can still be emitted after each instant, +∞ if none can.
        """
        keys, starts, ends, kinds, times, rows, replaces = elements
        clocks, watermarks, closes, until, signalled_until, *further = instants
        self.trees.values = values
        self.replaced, self.replaced_at = replaced, 0
        emission = self.emission
        index = signal = read = 0
        for instant in range(len(clocks)):
            emission.instant = instant
            self.advance_clock(clocks[instant])
            while signal < signalled_until[instant]:
                self.signal(signals[signal])
                signal += 1
            last_row = -1
            while index < until[instant]:
                if index == read:
                    read += self.cells.find_ahead(keys, starts, ends, kinds, index)
                row = rows[index]
                if row != last_row:
                    emission.next_event(_ELEMENT)
                    emission.begin(_ELEMENT, row)
                    last_row = row
                if replaces[index] < 0:
                    self.retraction(row, keys[index], starts[index], ends[index], kinds[index], times[index])
                else:
                    self.element(
                        row, keys[index], starts[index], ends[index], kinds[index], times[index], replaces[index]
                    )
                index += 1
            reached = [percentile[instant] for percentile in further]
            moved = self.reach(reached, watermarks[instant]) if reached else False
            if moved or watermarks[instant] > self.watermark:
                self.advance_watermark(watermarks[instant])
            if closes[instant]:
                self.run_clock(self.clock, _AT)
            hold[instant] = self.schedule.held()

    def run_by_key(
        self, elements: Sequence[array[int]], replaced: array[int], rows: Sequence[array[int]], values: Any, ends: bool
    ) -> None:
        """Run elements of some keys, one key after the other; if the last key ends, no cells remain afterwards.

        For each key, the watermark follows the event times of its rows and then advances to +∞. The clock stays at −∞.

        Args:
            elements: as for `run`.
            replaced: as for `run`.
            rows: the columns event time, whether the row is a key's first, and the number of elements up to its end.
            values: as for `run`.
            ends: whether the rows of the last key end here, or go on in the next call.
        """
        keys, starts, bounds, kinds, times, numbers, replaces = elements
        at, begins, until = rows
        self.trees.values = values
        self.replaced, self.replaced_at = replaced, 0
        self.schedule.holds_back = False
        emission = self.emission
        index = 0
        for row in range(len(at)):
            if begins[row]:
                if row > 0:
                    self.follow(self.infinity)
                self.set_clocks(self.minus_infinity, self.minus_infinity)
            emission.instant = row
            self.follow(at[row])
            emission.next_event(_ELEMENT)
            emission.begin(_ELEMENT, row)
            while index < until[row]:
                if replaces[index] < 0:
                    self.retraction(
                        numbers[index], keys[index], starts[index], bounds[index], kinds[index], times[index]
                    )
                else:
                    self.element(
                        numbers[index],
                        keys[index],
                        starts[index],
                        bounds[index],
                        kinds[index],
                        times[index],
                        replaces[index],
                    )
                index += 1
        if len(at) and ends:
            self.follow(self.infinity)

    def follow(self, watermark: int) -> None:
        """Advance the watermark and all its percentiles."""
        if watermark > self.watermark:
            for domain in range(self.domains):
                if domain != _CLOCK_DOMAIN:
                    self.trees.now[domain] = watermark
            self.advance_watermark(watermark)

    def set_clocks(self, watermark: int, clock: int) -> None:
        """Set the clocks; all percentiles equal the watermark."""
        self.watermark = watermark
        self.clock = clock
        for domain in range(self.domains):
            self.trees.now[domain] = clock if domain == _CLOCK_DOMAIN else watermark

    def shrink(self) -> None:
        """Release the memory of the cells if the input has ended and all are closed; their logs can still be read."""
        if self.watermark == self.infinity and self.cells.live == 0:
            self.cells.shrink()
            self.schedule.forget()

    def recycle(self) -> None:
        """Clear the logs, which the caller has read, and make the slots and entries in them available again."""
        self.emission.clear()
        self.cells.recycle()
        self.standing.recycle()

    def counts(self) -> dict[str, int]:
        """Return what the machine has counted so far, by the name of the counter."""
        return {
            "dropped_because_late": self.dropped[_LATE],
            "dropped_because_closed": self.dropped[_CLOSED],
            "dropped_retractions": self.dropped[_RETRACTION],
            "possible_session_splits": self.possible_splits,
            "cleared_by_trigger": self.emission.cleared_by_trigger,
        }

    # Elements ------------------------------------------------------------------------------------------------------

    def element(self, row: int, key: int, start: int, end: int, kind: int, time: int, replaces: int) -> None:
        """Incorporate an element into one of its windows, replacing the next `replaces` retracted elements."""
        table, first = self.cells, self.replaced_at
        self.replaced_at += replaces
        if self.watermark >= self.schedule.expiry(end) or end <= self.closed:
            self.drop_replaced(first, start, end, kind)
            self.expired(row, key, start, end, kind, time, self.reopens and replaces == 0)
            return
        self.rebounded = False
        slot = self.merged(key, start, end, kind) if self.merges else table.find(key, start, end, kind)
        if slot < 0:
            slot = self.opened(key, start, end, kind)
        elif self.trees.is_finished(slot):
            self.drop(row, _CLOSED, start, end, kind)
            self.drop_replaced(first, start, end, kind)
            if self.rebounded:
                self.catch_up_changed(slot)
            return
        if self.merges and table.start[slot] == start and self.watermark > self.schedule.expiry(start):
            self.possible_splits += 1  # an expired window may have reached beyond `start`, and would have merged
        on_time = self.watermark < table.end[slot]
        for index in range(first, first + replaces):
            self.log.add(_EXCHANGE, slot, self.replaced[index])
            self.take_out(slot, on_time)
        self.log.add(_ADD, slot, row)
        self.incorporate(slot, time, on_time)
        self.react(slot, self.trees.element(slot, row, time))

    def retraction(self, row: int, key: int, start: int, end: int, kind: int, time: int) -> None:
        """Subtract an element without a replacement from one of its windows, which never merge."""
        table = self.cells
        slot = table.find(key, start, end, kind)
        is_finished = slot >= 0 and self.trees.is_finished(slot)
        if self.watermark >= self.schedule.expiry(end) or end <= self.closed or is_finished:
            self.drop(row, _RETRACTION, start, end, kind)
            return
        if slot < 0:
            slot = self.opened(key, start, end, kind)
        self.rebounded = False
        self.log.add(_TAKE_BACK, slot, row)
        self.take_out(slot, self.watermark < table.end[slot])
        self.react(slot, self.trees.retraction(slot, row, time))

    def drop(self, row: int, reason: int, start: int, end: int, kind: int) -> None:
        """Count an element that one of its windows does not take, and record it if somebody reads it."""
        self.dropped[reason] += 1
        if self.drops is not None:
            self.drops.append((row, reason, start, end, kind, self.watermark, self.emission.instant))

    def drop_replaced(self, first: int, start: int, end: int, kind: int) -> None:
        """Drop the retracted elements that a dropped element replaces, the first of which is given."""
        for index in range(first, self.replaced_at):
            self.drop(self.replaced[index], _RETRACTION, start, end, kind)

    def react(self, slot: int, result: int) -> None:
        """Act on the result of a cell's tree after its contents have changed."""
        self.act(slot, result, self.clock)
        self.catch_up_changed(slot)

    def catch_up_changed(self, slot: int) -> None:
        """Let the cell of an element, and those that merging has changed, catch up with the watermark."""
        if self.rebounded and self.merging is not None:
            for other in self.merging.changed:
                self.catch_up(other)
        else:
            self.catch_up(slot)

    def catch_up(self, slot: int) -> None:
        """Run the timers of a changed cell that are due already; expire it if merging has moved its end that far."""
        if self.trees.is_overdue(slot) or self.watermark >= self.schedule.expiry(self.cells.end[slot]):
            result = self.trees.due(slot, False, 0)
            if self.watermark_reaches(slot, self.watermark, result):
                return
        self.schedule.update(slot)

    def act(self, slot: int, result: int, produced: int) -> None:
        """Act on the result of a cell's tree in an event other than a watermark."""
        if result & _FIRED:
            forced = self.closes_always and self.trees.is_finished(slot)
            expiring = self.watermark >= self.schedule.expiry(self.cells.end[slot])  # if merging has cut it short
            self.emission.fire(slot, result & _MODE, produced, True, False, forced, expiring)
        if self.trees.cleared:
            self.emission.clear_contents(slot)

    def take_out(self, slot: int, on_time: bool) -> None:
        """Count one element less in a cell; the event time of its next pane does not change."""
        self.cells.elements[slot] -= 1
        self.cells.pending[slot] += 1
        if on_time:
            self.cells.flags[slot] |= _PENDING_ON_TIME

    def incorporate(self, slot: int, time: int, on_time: bool) -> None:
        """Count one more element in a cell."""
        table = self.cells
        table.elements[slot] += 1
        table.pending[slot] += 1
        flags = table.flags[slot]
        if on_time:
            flags |= _PENDING_ON_TIME
        if time >= self.watermark:
            if not flags & _TIMED:
                table.earliest[slot] = table.latest[slot] = time
            else:
                table.earliest[slot] = min(table.earliest[slot], time)
                table.latest[slot] = max(table.latest[slot], time)
            flags |= _TIMED
        table.flags[slot] = flags

    def opened(self, key: int, start: int, end: int, kind: int) -> int:
        """Return a new cell."""
        slot = self.cells.open(key, start, end, kind)
        if self.merges:
            self.cells.link(slot)
        return slot

    def expired(self, row: int, key: int, start: int, end: int, kind: int, time: int, reopens: bool) -> None:
        """Drop and count a late element, or reopen its window for one more pane."""
        if not reopens:
            self.drop(row, _LATE, start, end, kind)
            return
        slot = self.cells.find(key, start, end, ~kind)
        if slot < 0:
            slot = self.cells.open(key, start, end, ~kind)
            self.schedule.reopen(slot)
        self.cells.touch(key)
        self.log.add(_ADD, slot, row)
        self.incorporate(slot, time, False)
        if self.watermark == self.infinity:  # no further watermark will come
            self.schedule.reopened_count -= 1
            self.emission.emit_reopened(slot, self.clock)

    # Merging -------------------------------------------------------------------------------------------------------

    def merged(self, key: int, start: int, end: int, kind: int) -> int:
        """Return the cell of an arriving window after merging it with the key's windows; −1 if it meets none.

        `rebounded` is set if cells were merged.
        """
        table = self.cells
        slot = table.last_before(key, end) if self.spans else table.last_of_key[key]
        first, last, count = start, end, 0
        while slot >= 0 and (not self.spans or table.end[slot] > start):
            if count == len(self.sources):
                self.sources = lengthened(self.sources, 2 * count)
            self.sources[count] = slot
            count += 1
            first, last = min(first, table.start[slot]), max(last, table.end[slot])
            slot = table.before[slot]
        if self.merging is not None:
            return self.merging.arrive(key, (start, end, kind), count)
        if count == 0:
            return _NONE
        slot = self.sources[0]
        if count == 1 and table.start[slot] == first and table.end[slot] == last:
            return slot
        return self.merge_cells(count, key, first, last, kind)

    def merge_cells(self, count: int, key: int, start: int, end: int, kind: int) -> int:
        """Return a new cell, merged from the first `count` of the `sources`, the last of which is merged first."""
        table = self.cells
        target = table.open(key, start, end, kind)
        pending = elements = flags = 0
        last = end
        standing = _NONE
        for index in range(count):
            slot = self.sources[index]
            last = max(last, table.end[slot])
            pending += table.pending[slot]
            elements += table.elements[slot]
            if table.flags[slot] & _TIMED:
                if not flags & _TIMED:
                    table.earliest[target], table.latest[target] = table.earliest[slot], table.latest[slot]
                else:
                    table.earliest[target] = min(table.earliest[target], table.earliest[slot])
                    table.latest[target] = max(table.latest[target], table.latest[slot])
            flags |= table.flags[slot] & (_PENDING_ON_TIME | _HAD_ON_TIME | _TIMED)
            entry = table.standing[slot]
            while entry >= 0:
                following = self.standing.following[entry]
                self.standing.following[entry] = standing
                standing = entry
                entry = following
            table.standing[slot] = _NONE
        if end <= self.watermark and end < last:  # the end has moved to or behind the watermark
            flags &= ~_PENDING_ON_TIME
        table.elements[target] = elements
        table.flags[target] = flags
        table.standing[target] = standing
        for index in range(count - 1, -1, -1):
            self.log.add(_MERGE, target, self.sources[index])
        self.merger.merge(target, self.sources, count)
        for index in range(count):
            self.trees.forget(self.sources[index])
            table.close(self.sources[index])
        table.link(target)
        table.pending[target] = pending
        self.rebounded = True
        return target

    # Clocks --------------------------------------------------------------------------------------------------------

    def advance_clock(self, time: int) -> None:
        """Advance the processing clock: run the timers before `time`, then set the clock."""
        if time > self.clock:
            self.trees.now[_CLOCK_DOMAIN] = time  # triggers already see the new time
            self.run_clock(time - 1, _BEFORE)
            self.clock = time

    def run_clock(self, until: int, phase: int) -> None:
        """Run the timers of the processing clock that are due."""
        schedule = self.schedule
        schedule.collected_count = 0
        schedule.collect(_CLOCK_DOMAIN, until)
        self.emission.next_event(phase)
        for index in range(schedule.collected_count):
            slot = schedule.collected[index]
            self.cells.flags[slot] &= ~_COLLECTED
            result = self.trees.due(slot, True, until)
            at = self.trees.fired_at[0]
            self.emission.begin(phase, at)
            self.act(slot, result, at)
            schedule.update(slot)

    def reach(self, percentiles: Sequence[int], watermark: int) -> bool:
        """Advance the other percentiles of the watermark; return whether any has moved.

        They never go backward, and none is behind the low watermark.
        """
        moved = False
        for number, percentile in enumerate(percentiles):
            domain = _CLOCK_DOMAIN + 1 + number
            reached = max(percentile, watermark)
            if reached > self.trees.now[domain]:
                self.trees.now[domain] = reached
                moved = True
        return moved

    def advance_watermark(self, watermark: int) -> None:
        """Apply a watermark: run event-time timers at or before it, then let windows pass and expire."""
        schedule, previous = self.schedule, self.watermark
        if watermark > previous:
            self.watermark = watermark
            self.trees.now[_LOW_DOMAIN] = watermark
        self.emission.next_event(_WATERMARK)
        schedule.collected_count = 0
        for domain in range(self.domains):
            if domain != _CLOCK_DOMAIN:
                schedule.collect(domain, self.trees.now[domain])
        if self.watermark > previous:
            self.run_reopened()
        for index in range(schedule.collected_count):
            if index % _AT_ONCE == 0:
                self.cells.close_ahead(schedule.collected, index, min(index + _AT_ONCE, schedule.collected_count))
            slot = schedule.collected[index]
            self.cells.flags[slot] &= ~_COLLECTED
            result = self.trees.due(slot, False, 0)
            self.emission.begin(
                _WATERMARK, self.trees.fired_at[0] if result & _FIRED else schedule.expiry(self.cells.end[slot])
            )
            if not self.watermark_reaches(slot, previous, result):
                schedule.update(slot)

    def run_reopened(self) -> None:
        """Emit the panes of the windows that late elements have reopened."""
        schedule = self.schedule
        for index in range(schedule.reopened_count):
            self.emission.begin(_WATERMARK, self.minus_infinity)
            self.emission.emit_reopened(schedule.reopened[index], self.clock)
        schedule.reopened_count = 0

    def watermark_reaches(self, slot: int, previous: int, result: int) -> bool:
        """Apply a new watermark to one window, given the result of its timers; return whether the window expired."""
        table = self.cells
        fired = (result & _FIRED) != 0
        end = table.end[slot]
        passing = previous < end <= self.watermark
        expiring = self.watermark >= self.schedule.expiry(end)
        forced = fired and passing and self.passes_always
        if expiring or (fired and self.trees.is_finished(slot)):
            forced = forced or (self.closes_always and not table.flags[slot] & _HAS_CLOSED)
        owes = expiring and not self.trees.is_finished(slot) and self.schedule.owes(slot)
        if fired or owes or (expiring and (table.pending[slot] > 0 or forced)):
            self.emission.fire(slot, result & _MODE, self.clock, fired, passing, forced, expiring)
        if self.trees.cleared:
            self.emission.clear_contents(slot)
        if expiring:
            self.expire(slot)
        return expiring

    def expire(self, slot: int) -> None:
        """Close a cell; its standing values can no longer be retracted."""
        self.log.add(_EXPIRE, slot, 0)
        entry = self.cells.standing[slot]
        while entry >= 0:
            following = self.standing.following[entry]
            self.standing.close(entry)
            entry = following
        self.trees.forget(slot)
        self.cells.close(slot)

    def signal(self, name: int) -> None:
        """Pass a signal to every open window."""
        self.emission.next_event(_BEFORE)
        for slot in range(self.cells.used):
            if self.cells.key[slot] < 0 or self.cells.flags[slot] & _REOPENED:
                continue
            result = self.trees.signalled(slot, name)
            self.emission.begin(_BEFORE, self.clock)
            self.act(slot, result, self.clock)
            self.schedule.update(slot)

    # Restoring -----------------------------------------------------------------------------------------------------

    def restored(self, slot: int) -> None:
        """Register a cell whose columns have been filled in from durable state."""
        if self.cells.flags[slot] & _REOPENED:
            self.schedule.reopen(slot)
        else:
            if self.merges:
                self.cells.link(slot)
            self.schedule.update(slot)

    def restore_all(self, slots: array[int]) -> None:
        """Register several cells, see `restored`."""
        for index in range(len(slots)):
            self.restored(slots[index])
