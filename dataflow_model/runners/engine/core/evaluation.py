"""The evaluator: runs one event through the trigger tree of one cell, over a `TriggerProgram` and cells in columns.

It must agree with `triggers.evaluator`. The rules are the same, with the callbacks of the built-in triggers written out
for each operation.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.engine.core import operations, program
from dataflow_model.runners.engine.core.columns import column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.runners.engine.core.cells import CellTable
    from dataflow_model.runners.engine.core.program import TriggerProgram
    from dataflow_model.runners.engine.core.rules import TriggerCallbacks

_ALWAYS: Final = program.ALWAYS
_COUNT: Final = program.COUNT
_WEIGH: Final = program.WEIGH
_TEST: Final = program.TEST
_ASK: Final = program.ASK
_SIGNAL: Final = program.SIGNAL
_WATERMARK: Final = program.WATERMARK
_DELAY: Final = program.DELAY
_PERIOD: Final = program.PERIOD
_USER: Final = program.USER
_REPEATEDLY: Final = program.REPEATEDLY
_REPEAT_COUNT: Final = program.REPEAT_COUNT
_EACH: Final = program.EACH
_ALL: Final = program.ALL
_OR_FINALLY: Final = program.OR_FINALLY
_CLOCK_DOMAIN: Final = operations.CLOCK_DOMAIN

# Events.
_ELEMENT: Final = operations.EVENT_ELEMENT
_TIMER: Final = operations.EVENT_TIMER
_SIGNALLED: Final = operations.EVENT_SIGNAL
_RETRACTED: Final = operations.EVENT_RETRACTION
_MERGED: Final = operations.EVENT_MERGE

# Results.
_FIRED: Final = operations.FIRED
_FINISHED: Final = operations.FINISHED
_MODE: Final = operations.ACCUMULATES | operations.CLEARS

# Sets of places.
_DONE: Final = operations.DONE
_SET: Final = operations.SET
_MET: Final = operations.MET


class TreeEvaluator:
    """Runs one program; the state of a window is in the window's cell.

    Args:
        program: the tree.
        cells: the cells, created for this program.
        infinity: +∞, at which sums saturate.

    Attributes:
        now: the clocks by time domain: low watermark, processing clock, further percentiles of the watermark.
        fired_at: by place, the deadline that fired it in the current event.
        values: the elements by row, for callbacks.
        users: runs the user's triggers; `None` if there are none.
        cleared: whether a user's trigger has requested, in the current event, that the contents be cleared.
    """

    def __init__(self, program: TriggerProgram, cells: CellTable, infinity: int) -> None:
        self.cells = cells
        self.infinity = infinity
        self.operation = program.operation
        self.argument = program.argument
        self.last = program.last
        self.domain = program.domain
        self.counter = program.counter
        self.deadline = program.deadline
        self.first_child = program.first_child
        self.children = program.children
        self.child = program.child
        self.word = program.word
        self.mask = program.mask
        self.words = program.words
        self.calls: Sequence[Callable[..., Any] | None] = program.calls
        self.places = len(program.operation)
        timers = [place for place in range(self.places) if program.domain[place] >= 0]
        self.timers: array[int] = array("q", [*timers, 0])
        self.timer_count = len(timers)
        users = [place for place in range(self.places) if program.operation[place] == _USER]
        self.user_places: array[int] = array("q", [*users, 0])
        self.user_count = len(users)
        self.users: TriggerCallbacks | None = None
        self.domains = program.domains
        self.clocks_passed: array[int] = column(program.domains)
        self.now: array[int] = column(program.domains)
        self.event, self.cleared = _ELEMENT, False
        self.number = self.row = self.event_time = self.signal = 0
        self.due_in: array[int] = column(self.places)
        self.due_at: array[int] = column(self.places)
        self.fired_in: array[int] = column(self.places)
        self.fired_at: array[int] = column(self.places)
        self.values: Sequence[Any] = ()
        self.memory: dict[tuple[int, int], Any] = {}

    # Events --------------------------------------------------------------------------------------------------------

    def element(self, slot: int, row: int, event_time: int) -> int:
        """Pass an element to the tree of a cell; return 1 if it fired, plus 2 if it finished."""
        self.event = _ELEMENT
        self.row = row
        self.event_time = event_time
        self.cleared = False
        return self.invoke(0, slot)

    def retraction(self, slot: int, row: int, event_time: int) -> int:
        """Pass an element that is retracted without a replacement to the tree of a cell."""
        self.event = _RETRACTED
        self.row = row
        self.event_time = event_time
        self.cleared = False
        return self.invoke(0, slot)

    def signalled(self, slot: int, signal: int) -> int:
        """Pass a signal to the tree of a cell."""
        self.event = _SIGNALLED
        self.signal = signal
        self.cleared = False
        return self.invoke(0, slot)

    def begin_merge(self) -> None:
        """Begin an event in which cells are merged; see `tree_merging`."""
        self.event = _MERGED

    def due(self, slot: int, clock: bool, until: int) -> int:
        """Run the timers of a cell that are due: those of the processing clock if `clock`, else those of the watermark.

        `until` applies to the processing clock only. If the root fires, `fired_at[0]` is the deadline that fired it.
        """
        self.cleared = False
        if self.has(slot, _DONE, 0):
            return 0
        self.number += 1
        is_due = False
        for number in range(self.timer_count):
            place = self.timers[number]
            if (self.domain[place] == _CLOCK_DOMAIN) != clock or not self.has(slot, _SET, place):
                continue
            time = self.time_of(slot, place)
            if time <= (until if clock else self.now[self.domain[place]]):
                is_due = True
                self.due_in[place] = self.number
                self.due_at[place] = time
                self.take(slot, _SET, place)
        for number in range(self.user_count):
            place = self.user_places[number]
            if self.is_user_due(place, slot, clock, until):
                assert self.users is not None  # noqa: S101 - the tree has a user's trigger
                if self.users.collect(place, slot, clock, until):
                    is_due = True
                    self.due_in[place] = self.number
        if not is_due:
            return 0
        self.event = _TIMER
        return self.invoke(0, slot)

    def next_due(self, slot: int, domain: int) -> int:
        """Return the earliest deadline of a cell in one time domain; +∞ if there is none."""
        earliest = self.infinity
        for number in range(self.timer_count):
            place = self.timers[number]
            if self.domain[place] == domain and self.has(slot, _SET, place):
                earliest = min(earliest, self.time_of(slot, place))
        for number in range(self.user_count):
            place = self.user_places[number]
            if self.has(slot, _SET, place):
                earliest = min(earliest, self.cells.deadlines[slot * self.cells.width + self.deadline[place] + domain])
        return earliest

    def waits(self, slot: int, domain: int) -> bool:
        """Return whether a timer of a cell is set in a time domain, if only for +∞."""
        for number in range(self.timer_count):
            place = self.timers[number]
            if self.domain[place] == domain and self.has(slot, _SET, place):
                return True
        for number in range(self.user_count):
            place = self.user_places[number]
            if self.has(slot, _SET, place):
                assert self.users is not None  # noqa: S101 - the tree has a user's trigger
                time = self.cells.deadlines[slot * self.cells.width + self.deadline[place] + domain]
                if time < self.infinity or self.users.has_timer(slot, place, domain):
                    return True
        return False

    def is_overdue(self, slot: int) -> bool:
        """Return whether a timer of a cell is set at or behind its watermark."""
        for number in range(self.timer_count):
            place = self.timers[number]
            domain = self.domain[place]
            if (
                domain != _CLOCK_DOMAIN
                and self.has(slot, _SET, place)
                and self.time_of(slot, place) <= self.now[domain]
            ):
                return True
        for number in range(self.user_count):
            if self.is_user_due(self.user_places[number], slot, False, 0):
                return True
        return False

    def is_user_due(self, place: int, slot: int, clock: bool, until: int) -> bool:
        """Return whether a timer of a user's trigger may be due on the clock or, unless `clock`, a watermark."""
        if not self.has(slot, _SET, place):
            return False
        base = slot * self.cells.width + self.deadline[place]
        for domain in range(self.domains):
            if (domain == _CLOCK_DOMAIN) == clock and self.cells.deadlines[base + domain] <= (
                until if clock else self.now[domain]
            ):
                return True
        return False

    def is_finished(self, slot: int) -> bool:
        """Return whether the root has finished."""
        return self.has(slot, _DONE, 0)

    def forget(self, slot: int) -> None:
        """Delete the state of a closed cell that is not in its columns."""
        if self.users is not None:
            self.users.forget(slot)
        if self.memory:
            for place in range(self.places):
                self.memory.pop((slot, place), None)

    # One place -----------------------------------------------------------------------------------------------------

    def invoke(self, place: int, slot: int) -> int:
        """Pass the current event to one place."""
        if self.has(slot, _DONE, place):
            return _FINISHED
        if self.operation[place] >= _REPEATEDLY:
            result = self.composite(place, slot)
        elif self.operation[place] == _USER:
            result = self.call(place, slot)
        elif self.event == _ELEMENT:
            result = self.leaf(place, slot)
        elif self.event == _TIMER:
            result = 0
            if self.due_in[place] == self.number:
                result = _FIRED | _FINISHED
                self.fired_in[place] = self.number
                self.fired_at[place] = self.due_at[place]
        elif self.event == _RETRACTED:  # to leaves that wait for a clock, it is an element: the pane has changed
            result = self.leaf(place, slot) if self.domain[place] >= 0 else 0
        else:
            is_named = self.operation[place] == _SIGNAL and self.argument[place] == self.signal
            result = _FIRED | _FINISHED if is_named else 0
        if result & _FINISHED:
            self.clear(place, slot)
            self.put(slot, _DONE, place)
        return result

    def leaf(self, place: int, slot: int) -> int:
        """Pass an element to a leaf."""
        operation = self.operation[place]
        if operation in (_COUNT, _WEIGH):
            at = slot * self.cells.width + self.counter[place]
            total = self.cells.counters[at] + (1 if operation == _COUNT else self.weight(place))
            if total >= self.argument[place]:
                return _FIRED | _FINISHED
            self.cells.counters[at] = total
            return 0
        if operation == _WATERMARK:
            if self.now[self.domain[place]] >= self.cells.end[slot]:
                return _FIRED | _FINISHED
            self.put(slot, _SET, place)
            return 0
        if operation in (_DELAY, _PERIOD):
            if not self.has(slot, _SET, place):
                self.put(slot, _SET, place)
                self.cells.deadlines[slot * self.cells.width + self.deadline[place]] = self.deadline_from_now(place)
            return 0
        if operation == _ALWAYS:
            return _FIRED
        if operation == _TEST:
            return self.test(place)
        if operation == _ASK:
            return self.ask(place, slot)
        return 0

    def deadline_from_now(self, place: int) -> int:
        """Return the deadline that the current element sets; a delay after −∞ ends at −∞, as sums of instants do."""
        first = self.now[_CLOCK_DOMAIN] if self.domain[place] == _CLOCK_DOMAIN else self.event_time
        if self.operation[place] == _PERIOD:
            return self.following(place, first)
        delay = self.argument[place]
        if first == -self.infinity - 1:
            return first
        return self.infinity if delay > 0 and first > self.infinity - delay else first + delay

    def composite(self, place: int, slot: int) -> int:
        """Pass the current event to those children of a place that it concerns."""
        operation = self.operation[place]
        if operation in (_REPEATEDLY, _REPEAT_COUNT):
            return self.repeat(place, slot)
        if operation == _EACH:
            return self.show_in_turn(place, slot)
        if operation == _ALL:
            return self.show_all(place, slot)
        return self.show_any(place, slot)

    def repeat(self, place: int, slot: int) -> int:
        """Fire when the only child does, and start its next turn when it finishes."""
        child = self.child[self.first_child[place]]
        result = self.invoke(child, slot)
        done = (result & _FINISHED) != 0 and self.child_finished(place, slot, child)
        if result & _FIRED:
            self.stamp(place)
        return (result & (_FIRED | _MODE)) | (_FINISHED if done else 0)

    def show_in_turn(self, place: int, slot: int) -> int:
        """Fire when the child whose turn it is fires; finish when the last child does."""
        first, count = self.first_child[place], self.children[place]
        for number in range(count):
            child = self.child[first + number]
            if self.has(slot, _DONE, child) or not self.concerns(child):
                continue
            if not self.has_begun(place, slot, number):
                return 0
            result = self.invoke(child, slot)
            if result & _FIRED:
                self.stamp(place)
            if result & _FINISHED and number < count - 1:
                self.reset(self.child[first + number + 1], slot)
                return result & (_FIRED | _MODE)
            return result
        return 0

    def show_all(self, place: int, slot: int) -> int:
        """Fire once every unfinished child has met its condition; finish when all children have finished."""
        first, count = self.first_child[place], self.children[place]
        is_timed, latest, mode = False, 0, 0
        for number in range(count):
            child = self.child[first + number]
            if not self.concerns(child):
                continue
            result = self.invoke(child, slot)
            if not result & _FIRED:
                continue
            if self.users is not None:
                self.users.meet(place, slot, number, result & _MODE)
            if self.has(slot, _MET, child):
                continue
            self.put(slot, _MET, child)
            if self.event == _TIMER and (not is_timed or self.fired_at[child] > latest):
                is_timed, latest = True, self.fired_at[child]
        fired = self.is_ready(place, slot)
        if fired:
            for number in range(count):
                self.take(slot, _MET, self.child[first + number])
            if self.users is not None:
                mode = self.users.take_met(place, slot)
            if is_timed:
                self.fired_in[place] = self.number
                self.fired_at[place] = latest
            else:
                self.stamp(place)
        return (_FIRED | mode if fired else 0) | (_FINISHED if self.all_finished(place, slot) else 0)

    def show_any(self, place: int, slot: int) -> int:
        """Fire when any child does; finish when one fires and finishes, or when the `until` of `or_finally` fires."""
        first, count = self.first_child[place], self.children[place]
        fired = done = False
        mode = 0
        ends = self.operation[place] == _OR_FINALLY
        for number in range(count):
            child = self.child[first + number]
            if not self.concerns(child):
                continue
            result = self.invoke(child, slot)
            if result & _FIRED:
                fired = True
                if result & _MODE:  # the last child that requests a mode decides
                    mode = result & _MODE
                done = done or (result & _FINISHED) != 0 or (ends and number == 1)
        if fired:
            self.stamp(place)
            until = self.child[first + 1] if ends else place
            if ends and self.fired_in[until] == self.number:  # the deadline of `until` wins
                self.fired_at[place] = self.fired_at[until]
        return (_FIRED | mode if fired else 0) | (_FINISHED if done else 0)

    def concerns(self, child: int) -> bool:
        """Return whether the current event concerns a child: timers concern only children with a timer that is due."""
        return self.event != _TIMER or self.is_due_below(child)

    def child_finished(self, place: int, slot: int, child: int) -> bool:
        """Start the next turn of a repeated child; return whether its parent has finished instead."""
        if self.operation[place] == _REPEAT_COUNT:
            at = slot * self.cells.width + self.counter[place]
            completions = 1 + self.cells.counters[at]
            if completions >= self.argument[place]:
                return True
            self.reset(child, slot)
            self.cells.counters[at] = completions
            return False
        self.reset(child, slot)
        return False

    def is_due_below(self, place: int) -> bool:
        """Return whether a timer of the current event is at a place or below it."""
        for number in range(place, self.last[place] + 1):
            if self.due_in[number] == self.number:
                return True
        return False

    def has_begun(self, place: int, slot: int, number: int) -> bool:
        """Return whether it is the turn of a child, because all children before it have finished."""
        first = self.first_child[place]
        for earlier in range(number):
            if not self.has(slot, _DONE, self.child[first + earlier]):
                return False
        return True

    def is_ready(self, place: int, slot: int) -> bool:
        """Return whether each child has met its condition or finished, and one has met it since the last firing."""
        first, any_met = self.first_child[place], False
        for number in range(self.children[place]):
            child = self.child[first + number]
            if self.has(slot, _MET, child):
                any_met = True
            elif not self.has(slot, _DONE, child):
                return False
        return any_met

    def all_finished(self, place: int, slot: int) -> bool:
        """Return whether every child has finished."""
        return self.has_begun(place, slot, self.children[place])

    def stamp(self, place: int) -> None:
        """Record the deadline that fired a composite: the earliest of its children's deadlines."""
        if self.event != _TIMER:
            return
        first = self.first_child[place]
        for number in range(self.children[place]):
            child = self.child[first + number]
            if self.fired_in[child] == self.number:
                if self.fired_in[place] != self.number or self.fired_at[child] < self.fired_at[place]:
                    self.fired_at[place] = self.fired_at[child]
                self.fired_in[place] = self.number

    # Callbacks -----------------------------------------------------------------------------------------------

    def weight(self, place: int) -> int:
        """Return the size of the current element in bytes."""
        call = self.calls[place]
        assert call is not None  # noqa: S101 - every place with this operation has one
        return min(int(call(self.values[self.row])), self.infinity >> 1)

    def test(self, place: int) -> int:
        """Fire if the current element satisfies a predicate."""
        call = self.calls[place]
        assert call is not None  # noqa: S101
        return _FIRED | _FINISHED if call(self.values[self.row]) else 0

    def ask(self, place: int, slot: int) -> int:
        """Fire if a user's `DataTrigger` does."""
        call = self.calls[place]
        assert call is not None  # noqa: S101
        emits, self.memory[slot, place] = call(self.values[self.row], self.memory.get((slot, place)))
        return _FIRED if emits else 0

    def call(self, place: int, slot: int) -> int:
        """Pass the current event to a user's trigger."""
        if self.event == _TIMER and self.due_in[place] != self.number:
            return 0
        self.pass_clocks()
        assert self.users is not None  # noqa: S101 - the tree has a user's trigger
        result: int = self.users.run(self.event, place, slot, self.row, self.event_time)
        if self.event == _TIMER and result & _FIRED:
            self.fired_in[place] = self.number
            self.fired_at[place] = self.users.fired_at
        return result

    def pass_clocks(self) -> None:
        """Pass the clocks to the user's triggers if one has moved."""
        is_new = False
        for domain in range(self.domains):
            if self.clocks_passed[domain] != self.now[domain]:
                self.clocks_passed[domain] = self.now[domain]
                is_new = True
        if is_new:
            assert self.users is not None  # noqa: S101 - called only if the tree has a user's trigger
            self.users.set_clocks(self.now)

    def following(self, place: int, first: int) -> int:
        """Return the first time of a period that is not before `first`."""
        call = self.calls[place]
        assert call is not None  # noqa: S101
        return int(call(first))

    # Turns ---------------------------------------------------------------------------------------------------------

    def clear(self, place: int, slot: int) -> None:
        """Clear the state and timers of a place and all places below it; which places have finished is kept."""
        if self.users is not None:
            self.users.clear(place, slot)
        for number in range(place, self.last[place] + 1):
            self.take(slot, _SET, number)
            if number > place:  # whether `place` itself is met belongs to its parent's state
                self.take(slot, _MET, number)
            if self.counter[number] >= 0:
                self.cells.counters[slot * self.cells.width + self.counter[number]] = 0
            elif self.operation[number] == _ASK:
                self.memory.pop((slot, number), None)

    def reset(self, place: int, slot: int) -> None:
        """Start a new turn of a place and all below it; those that wait for the end of the window start to wait."""
        self.clear(place, slot)
        for number in range(place, self.last[place] + 1):
            self.take(slot, _DONE, number)
        for number in range(place, self.last[place] + 1):
            if self.operation[number] == _WATERMARK and self.now[self.domain[number]] < self.cells.end[slot]:
                self.put(slot, _SET, number)
            elif self.operation[number] == _USER:
                self.pass_clocks()
                assert self.users is not None  # noqa: S101 - the tree has a user's trigger
                self.users.reset(self.event, number, slot, self.row, self.event_time)

    # Sets of places ------------------------------------------------------------------------------------------------

    def has(self, slot: int, of: int, place: int) -> bool:
        """Return whether a place is in one of a cell's sets."""
        return (self.cells.bits[slot * self.cells.width + of * self.words + self.word[place]] & self.mask[place]) != 0

    def put(self, slot: int, of: int, place: int) -> None:
        """Add a place to one of a cell's sets."""
        self.cells.bits[slot * self.cells.width + of * self.words + self.word[place]] |= self.mask[place]

    def take(self, slot: int, of: int, place: int) -> None:
        """Remove a place from one of a cell's sets."""
        self.cells.bits[slot * self.cells.width + of * self.words + self.word[place]] &= ~self.mask[place]

    def time_of(self, slot: int, place: int) -> int:
        """Return the deadline of a place's timer, which must be set: its own, or the end of the window."""
        if self.deadline[place] < 0:
            return self.cells.end[slot]
        return self.cells.deadlines[slot * self.cells.width + self.deadline[place]]
