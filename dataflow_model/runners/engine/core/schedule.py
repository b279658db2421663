"""The schedule of a grouping: when each open cell is next due, and where it holds the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.runners.engine.core import cells, operations, rules
from dataflow_model.runners.engine.core.columns import column, lengthened
from dataflow_model.runners.engine.core.deadlines import DeadlineQueue

if TYPE_CHECKING:
    from array import array

    from dataflow_model.runners.engine.core.cells import CellTable
    from dataflow_model.runners.engine.core.evaluation import TreeEvaluator
    from dataflow_model.runners.engine.core.log import StandingTable
    from dataflow_model.runners.engine.core.rules import Rules

_LOW_DOMAIN: Final = operations.LOW_DOMAIN
_EARLIEST: Final = rules.EARLIEST
_LATEST: Final = rules.LATEST
_REOPENED: Final = cells.REOPENED
_TIMED: Final = cells.TIMED
_COLLECTED: Final = cells.COLLECTED
_HOLDS: Final = -1
_NONE: Final = -1
_SCRATCH: Final = 4
_FEW: Final = 16
_AT_ONCE: Final = 256


class Schedule:
    """The deadlines of the cells of one grouping on one shard, by time domain, and the holds of its output watermark.

    A cell has at most one current entry in each queue, at a time no later than its deadline: deadlines that have moved
    forward, or are gone, are found out when the entry is reached.

    Args:
        cells: the cells.
        trees: the evaluator of the trigger.
        standing: the values that have been emitted and not retracted.
        rules: the windowing strategy, apart from the trigger.
        domains: the number of clocks with deadlines.
        infinity: +∞.

    Attributes:
        collected, collected_count: the cells that are due in the current event.
        reopened, reopened_count: the cells of reopened windows, which are due at the next watermark, and in no queue.
        holds_back: whether anything asks for the hold of the output watermark.
    """

    def __init__(
        self,
        cells: CellTable,
        trees: TreeEvaluator,
        standing: StandingTable,
        rules: Rules,
        domains: int,
        infinity: int,
    ) -> None:
        self.cells = cells
        self.trees = trees
        self.standing = standing
        self.domains = domains
        self.infinity = infinity
        self.lateness = rules.allowed_lateness
        self.timestamp_combiner = rules.timestamp_combiner
        self.merges = rules.merges
        self.closes_always = rules.closes_always
        self.forget()
        self.collected: array[int] = column(_SCRATCH)
        self.collected_count = 0
        self.reopened: array[int] = column(_SCRATCH)
        self.reopened_count = 0
        self.holds_back = True

    def forget(self) -> None:
        """Empty all queues; no cell may be open."""
        self.queues = [DeadlineQueue() for _ in range(self.domains)]
        self.holds = DeadlineQueue()

    # Times of one cell ---------------------------------------------------------------------------------------------

    def expiry(self, end: int) -> int:
        """Return the watermark at which a window expires; every window expires at +∞."""
        return self.infinity if end > self.infinity - self.lateness else end + self.lateness

    def due_on(self, slot: int, domain: int) -> int:
        """Return the next time in a time domain that concerns a cell; +∞ if there is none."""
        due = self.trees.next_due(slot, domain)
        return min(due, self.expiry(self.cells.end[slot])) if domain == _LOW_DOMAIN else due

    def output_time(self, slot: int) -> int:
        """Return the event time of the next pane; it does not depend on when the pane fires."""
        table = self.cells
        end = table.end[slot] - 1
        if table.flags[slot] & _TIMED:
            if self.timestamp_combiner == _EARLIEST:
                return min(table.earliest[slot], end)
            if self.timestamp_combiner == _LATEST:
                return min(table.latest[slot], end)
        return end

    def is_awaited(self, slot: int) -> bool:
        """Return whether a cell holds the watermark: for new elements, or for values that it owes the retraction of."""
        if self.cells.pending[slot] > 0:
            return True
        return self.owes(slot) and (self.closes_always or not self.trees.is_finished(slot))

    def owes(self, slot: int) -> bool:
        """Return whether the cell's next pane retracts values of windows with other bounds.

        The cell may have nothing new: another element has cut the window short, or the element that merged it was
        dropped because the trigger had finished.
        """
        table, panes = self.cells, self.standing.panes
        entry = table.standing[slot] if self.merges else _NONE
        while entry >= 0:
            same_start, same_end = panes.start[entry] == table.start[slot], panes.end[entry] == table.end[slot]
            if not (same_start and same_end and panes.kind[entry] == table.kind[slot]):
                return True
            entry = self.standing.following[entry]
        return False

    def hold_of(self, slot: int) -> int:
        """Return the earliest event time that a cell can still emit: that of its next pane or of one it retracts."""
        hold = self.output_time(slot)
        entry = self.cells.standing[slot]
        while entry >= 0:
            hold = min(hold, self.standing.panes.time[entry])
            entry = self.standing.following[entry]
        return hold

    # Queues --------------------------------------------------------------------------------------------------------

    def update(self, slot: int) -> None:
        """Add a changed cell to those queues in which it is now due earlier than before."""
        table = self.cells
        table.touch(table.key[slot])
        for domain in range(self.domains):
            due = self.due_on(slot, domain)
            at = slot * table.width + domain
            if due < table.queued[at]:
                table.queued[at] = due
                self.enqueue(self.queues[domain], due, slot, domain)
        if self.holds_back and self.is_awaited(slot):
            hold = self.hold_of(slot)
            if hold < table.hold_at[slot]:
                table.hold_at[slot] = hold
                self.enqueue(self.holds, hold, slot, _HOLDS)

    def reopen(self, slot: int) -> None:
        """Schedule the only pane of a reopened window for the next watermark."""
        self.cells.flags[slot] |= _REOPENED
        if self.reopened_count == len(self.reopened):
            self.reopened = lengthened(self.reopened, 2 * self.reopened_count)
        self.reopened[self.reopened_count] = slot
        self.reopened_count += 1

    def enqueue(self, queue: DeadlineQueue, time: int, slot: int, domain: int) -> None:
        """Add to a queue, after removing the outdated entries if most are."""
        if queue.size > _FEW + 4 * self.cells.live:
            self.prune(queue, domain)
        queue.push(time, slot)

    def prune(self, queue: DeadlineQueue, domain: int) -> None:
        """Remove the outdated entries of a queue, and repetitions of others; it takes as long as the queue is."""
        count = queue.pop_until(self.infinity)
        slots, times = queue.popped, queue.popped_at
        for index in range(count):
            if self.queued_at(slots[index], domain) == times[index]:
                self.queue_at(slots[index], domain, self.infinity)  # a second entry of the cell is none of this queue's
            else:
                slots[index] = -1
        for index in range(count):
            if slots[index] >= 0:
                self.queue_at(slots[index], domain, times[index])
                queue.push(times[index], slots[index])

    def queued_at(self, slot: int, domain: int) -> int:
        """Return the time at which a cell is in the queue of a time domain, or of holds; +∞ if it is in none."""
        table = self.cells
        if table.key[slot] < 0:
            return self.infinity
        return table.hold_at[slot] if domain == _HOLDS else table.queued[slot * table.width + domain]

    def queue_at(self, slot: int, domain: int, time: int) -> None:
        """Record the time at which a cell is in the queue of a time domain, or of holds."""
        if domain == _HOLDS:
            self.cells.hold_at[slot] = time
        else:
            self.cells.queued[slot * self.cells.width + domain] = time

    def write_dues(
        self, slots: array[int], begins: array[int], minus_infinity: int, dues: array[int], are_set: array[int]
    ) -> None:
        """Write when each of some keys is next due in each time domain, and its hold.

        Args:
            slots: the cells of the keys, one key after the other.
            begins: the indices in `slots` at which a key begins.
            minus_infinity: the deadline of reopened windows, which are due at any watermark.
            dues: is filled with a row for each key: the earliest deadline in each time domain, then the hold.
            are_set: is filled with 1 where there is one, if only for +∞, and 0 elsewhere.
        """
        width, row, key = self.domains + 1, 0, 0
        for index in range(len(slots)):
            if key < len(begins) and begins[key] == index:
                row = key * width
                key += 1
                for at in range(row, row + width):
                    dues[at], are_set[at] = self.infinity, 0
            slot = slots[index]
            if self.cells.flags[slot] & _REOPENED:
                dues[row + _LOW_DOMAIN], are_set[row + _LOW_DOMAIN] = minus_infinity, 1
                continue
            for domain in range(self.domains):
                if domain == _LOW_DOMAIN or self.trees.waits(slot, domain):
                    dues[row + domain], are_set[row + domain] = min(dues[row + domain], self.due_on(slot, domain)), 1
            if self.is_awaited(slot):
                at = row + self.domains
                dues[at], are_set[at] = min(dues[at], self.hold_of(slot)), 1

    # What is due ---------------------------------------------------------------------------------------------------

    def first_due(self, domain: int) -> int:
        """Return the next time in a time domain that concerns any cell; +∞ if there is none."""
        queue = self.queues[domain]
        while queue.size > 0:
            time, slot = queue.first_time(), queue.first_slot()
            if self.queued_at(slot, domain) == time:
                due = self.due_on(slot, domain)
                if due == time:
                    return time
                self.queue_at(slot, domain, due)
                queue.pop()
                if due < self.infinity:
                    queue.push(due, slot)
            else:
                queue.pop()
        return self.infinity

    def collect(self, domain: int, until: int) -> None:
        """Move the cells that are due in a time domain from its queue to those collected."""
        table, queue = self.cells, self.queues[domain]
        count = queue.pop_until(until)
        for index in range(count):
            if index % _AT_ONCE == 0:
                table.read_ahead(queue.popped, index, min(index + _AT_ONCE, count))
            slot = queue.popped[index]
            queued = self.queued_at(slot, domain)
            if queued > until or queued == self.infinity:
                continue
            due = self.due_on(slot, domain)
            if due <= until:
                self.queue_at(slot, domain, self.infinity)
                self.collect_cell(slot)
            else:
                self.queue_at(slot, domain, due)
                if due < self.infinity:
                    queue.push(due, slot)
        if until == self.infinity and self.collected_count + self.reopened_count < table.live:
            for slot in range(table.used):  # cells that wait for +∞ are in no queue
                if table.key[slot] >= 0 and not table.flags[slot] & _REOPENED:
                    self.collect_cell(slot)

    def collect_cell(self, slot: int) -> None:
        """Add a cell to those collected, unless it is there already."""
        if not self.cells.flags[slot] & _COLLECTED:
            self.cells.flags[slot] |= _COLLECTED
            if self.collected_count == len(self.collected):
                self.collected = lengthened(self.collected, 2 * self.collected_count)
            self.collected[self.collected_count] = slot
            self.collected_count += 1

    def held(self) -> int:
        """Return the earliest event time that can still be emitted; +∞ if there is none."""
        table, queue = self.cells, self.holds
        while queue.size > 0:
            time, slot = queue.first_time(), queue.first_slot()
            is_current = self.queued_at(slot, _HOLDS) == time
            if is_current and self.is_awaited(slot):
                hold = self.hold_of(slot)
                if hold == time:
                    return time
                queue.pop()
                table.hold_at[slot] = hold
                queue.push(hold, slot)
                continue
            queue.pop()
            if is_current:
                table.hold_at[slot] = self.infinity
        return self.infinity
