"""As-of joins: each element of the left side with the row of the right side that holds at its event time."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final, Literal, Self, get_args

import attrs

from dataflow_model.arguments import nonnegative_duration
from dataflow_model.errors import InvalidArgument
from dataflow_model.overriding import override
from dataflow_model.plan.functions.dofn import BoundedLatenessFn, Retract, TimestampedValue
from dataflow_model.plan.functions.state import (
    TimerSpec,
    ValueStateSpec,
    WatermarkHoldSpec,
    WatermarkSpec,
    on_timer,
)
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, EventTime, duration_text
from dataflow_model.triggers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.functions.state_handles import Timer, ValueState, Watermark, WatermarkHold
    from dataflow_model.time import DurationLike

Direction = Literal["backward", "forward", "nearest"]
_FIRST: Final = int(MIN_TIMESTAMP)
_LAST: Final = int(MAX_TIMESTAMP)


@attrs.frozen
class AsOf:
    """Which row belongs to an element of the left side.

    Of rows with equal event times there is only one: the last one to arrive.

    Attributes:
        direction: `"backward"`: the last row at or before the element; `"forward"`: the first one at or after it;
            `"nearest"`: the one that is closest, and of two that are equally close the earlier one.
        within: how far from the element the row may be, in microseconds; `None` for any distance.

    Example:
        >>> AsOf.of("backward", "1 hour").describe(), AsOf.of("nearest", None).describe()
        ('the last right row before each left element, at most 1 hour away', 'the right row nearest to each left ...')
    """

    direction: Direction
    within: int | None

    @classmethod
    def of(cls, direction: str, within: DurationLike | None) -> Self:
        """Return what the arguments of a join describe."""
        for known in get_args(Direction):
            if direction == known:
                hint = "use within='1 hour', for example, or leave it out for rows of any age"
                distance = None if within is None else int(nonnegative_duration("within", within, hint))
                return cls(known, distance)
        raise InvalidArgument(
            f"`direction` must be 'backward', 'forward' or 'nearest', got {direction!r}",
            hint="leave it out for the last row at or before each left element",
        )

    def row_of(self, rows: list[int], time: int) -> int | None:
        """Return the index of the row of an element; `None` if there is none.

        Args:
            rows: the event times of the rows, in order.
            time: the event time of the element.

        Example:
            >>> [AsOf(direction, 10).row_of([0, 20, 35], 28) for direction in ("backward", "forward", "nearest")]
            [1, 2, 2]
        """
        index = bisect_left(rows, time) if self.direction != "backward" else bisect_right(rows, time) - 1
        if self.direction == "nearest" and index:
            is_last = index == len(rows)
            index -= is_last or time - rows[index - 1] <= rows[index] - time
        if not 0 <= index < len(rows):
            return None
        return index if self.within is None or abs(rows[index] - time) <= self.within else None

    def territory(self, rows: list[int], index: int) -> tuple[int, int]:
        """Return the first and the last event time of the elements that a row belongs to.

        Example:
            >>> AsOf("backward", None).territory([0, 20, 35], 1), AsOf("nearest", 8).territory([0, 20, 35], 1)
            ((20, 34), (12, 27))
        """
        row = rows[index]
        first, last = row, row
        if self.direction != "backward":
            before = rows[index - 1] if index else None
            first = _FIRST if before is None else before + 1 if self.direction == "forward" else (before + row) // 2 + 1
        if self.direction != "forward":
            after = rows[index + 1] if index + 1 < len(rows) else None
            last = _LAST if after is None else after - 1 if self.direction == "backward" else (row + after) // 2
        if self.within is None:
            return first, last
        return max(first, row - self.within), min(last, row + self.within)

    def reach(self, rows: list[int], time: int) -> int:
        """Return the greatest event time of a row that would now become the row of an element."""
        if self.direction == "backward":
            return time
        index = self.row_of(rows, time)
        if index is not None:
            return time + abs(rows[index] - time)
        return _LAST if self.within is None else time + self.within

    def describe(self) -> str:
        """Return what explanations say."""
        row = {
            "backward": "the last right row before each left element",
            "forward": "the first right row after each left element",
            "nearest": "the right row nearest to each left element",
        }[self.direction]
        return row if self.within is None else f"{row}, at most {duration_text(Duration(micros=self.within))} away"

    def __repr__(self) -> str:
        within = "" if self.within is None else f", within={duration_text(Duration(micros=self.within))!r}"
        return f"direction={self.direction!r}{within}"


_Row = tuple[int, Any]
"""The event time of a row, and the row."""


@attrs.define
class AsOfSides:
    """What an as-of join keeps of a key: both sides in order of their event times.

    Attributes:
        times: the event times of the left elements that may still get another row.
        values: their values.
        answers: the rows with which the first of them were emitted; `None` for one without a row.
        row_times: the event times of the rows that may still belong to an element.
        rows: the rows.
    """

    times: list[int] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    answers: list[_Row | None] = attrs.field(factory=list)
    row_times: list[int] = attrs.field(factory=list)
    rows: list[Any] = attrs.field(factory=list)

    def add(self, time: int, value: Any) -> int:
        """Add a left element after those with the same event time, and return its index."""
        index = bisect_right(self.times, time)
        self.times.insert(index, time)
        self.values.insert(index, value)
        return index

    def add_row(self, time: int, row: Any) -> int:
        """Add a row, in place of one with the same event time, and return its index."""
        index = bisect_left(self.row_times, time)
        if self.row_times[index : index + 1] == [time]:
            self.rows[index] = row
        else:
            self.row_times.insert(index, time)
            self.rows.insert(index, row)
        return index

    def drop(self, count: int) -> None:
        """Remove the first left elements."""
        del self.times[:count], self.values[:count], self.answers[:count]

    def drop_rows(self, count: int) -> None:
        """Remove the first rows."""
        del self.row_times[:count], self.rows[:count]


class JoinAsOf(BoundedLatenessFn):
    """Joins pairs of a key and a side with a value: `(key, (is_right, value))`.

    A left element is emitted once no row can arrive any more that would belong to it: when the watermark has passed the
    last event time of such a row by the lateness. A row is kept while a left element to which it belongs may arrive.

    Args:
        as_of: which row belongs to a left element.
        lateness: how late an element may be; later ones are dropped and counted.
        keeps_left: whether a left element without a row is emitted.
        wait: how long a left element waits behind the last event time of its row; `None` if it does not wait at all.
            Only `CorrectedJoinAsOf` may wait less than the lateness.
    """

    kept = ValueStateSpec[AsOfSides | None](default=None)
    over = TimerSpec(TimeDomain.EVENT_TIME)
    waiting = WatermarkHoldSpec()
    reached = WatermarkSpec()

    def __init__(self, as_of: AsOf, lateness: int, *, keeps_left: bool, wait: int | None) -> None:
        self.as_of = as_of
        self.lateness = lateness
        self.keeps_left = keeps_left
        self.wait = wait

    @override
    def definition(self) -> str:
        emitted = "final" if not self.retracts else "at once" if self.wait is None else "on time"
        return f"{'left' if self.keeps_left else 'inner'} join with {self.as_of.describe()}, emitted {emitted}"

    def process(
        self,
        element: Any,
        *,
        timestamp: EventTime,
        kept: ValueState[AsOfSides | None],
        over: Timer,
        waiting: WatermarkHold,
    ) -> Iterator[Any]:
        """Keep an element, emit it if it does not have to wait, and correct what a new row changes."""
        key, (is_right, value) = element
        time = int(timestamp)
        sides = kept.read() or AsOfSides()
        before = self.first_due(sides)
        if is_right:
            yield from self._corrected(key, sides, sides.add_row(time, value))
        else:
            index = sides.add(time, value)
            if self.wait is None or index < len(sides.answers):  # a later one is due, so this one is
                yield from self._answered(key, sides, index)
        first = self.first_due(sides)
        if first != before:
            self._set(over, first)
        kept.write(sides)
        self._hold(sides, waiting)

    @on_timer(over)
    def expire(
        self,
        *,
        key: Any,
        kept: ValueState[AsOfSides | None],
        over: Timer,
        waiting: WatermarkHold,
        reached: Watermark,
    ) -> Iterator[Any]:
        """Emit the left elements that have waited long enough, and drop what cannot be part of a result any more."""
        sides, watermark = kept.read() or AsOfSides(), int(reached.read())
        if self.wait is not None:
            index = len(sides.answers)
            while index < len(sides.times) and self._due(sides, index, self.wait) <= watermark:
                yield from self._answered(key, sides, index)
                index += 1
        count = 0
        while count < len(sides.answers) and self._due(sides, count, self.lateness) <= watermark:
            count += 1
        sides.drop(count)
        count = 0
        while count < len(sides.rows) and self._row_due(sides, count) <= watermark:
            count += 1
        sides.drop_rows(count)
        if sides.times or sides.rows:
            kept.write(sides)
        else:
            kept.clear()
        self._set(over, self.first_due(sides))
        self._hold(sides, waiting)

    def title(self) -> str:
        """Return which row belongs to an element, for explanations."""
        return self.as_of.describe()

    def first_due(self, sides: AsOfSides) -> int | None:
        """Return the watermark at which something is to be emitted or dropped next; `None` if nothing is."""
        dues = []
        if len(sides.answers) < len(sides.times) and self.wait is not None:
            dues.append(self._due(sides, len(sides.answers), self.wait))
        if sides.answers:
            dues.append(self._due(sides, 0, self.lateness))
        if sides.rows and (row_due := self._row_due(sides, 0)) < _LAST:
            dues.append(row_due)
        return min(dues, default=None)

    def _answered(self, key: Any, sides: AsOfSides, index: int) -> Iterator[Any]:
        """Emit a left element with its row."""
        row = self.as_of.row_of(sides.row_times, sides.times[index])
        answer = None if row is None else (sides.row_times[row], sides.rows[row])
        sides.answers.insert(index, answer)
        if answer is not None or self.keeps_left:
            yield _output(key, sides, index, answer)

    def _corrected(self, key: Any, sides: AsOfSides, row: int) -> Iterator[Any]:
        """Take back the left elements that were emitted with another row or without one, and emit them with a row."""
        first, last = self.as_of.territory(sides.row_times, row)
        answer = sides.row_times[row], sides.rows[row]
        emitted = len(sides.answers)
        for index in range(bisect_left(sides.times, first, 0, emitted), bisect_right(sides.times, last, 0, emitted)):
            before = sides.answers[index]
            if before is not None or self.keeps_left:
                yield _output(key, sides, index, before, takes_back=True)
            sides.answers[index] = answer
            yield _output(key, sides, index, answer)

    def _due(self, sides: AsOfSides, index: int, wait: int) -> int:
        """Return the watermark at which a left element has waited for its row, and for one that is so late."""
        return _past(self.as_of.reach(sides.row_times, sides.times[index]), wait)

    def _row_due(self, sides: AsOfSides, index: int) -> int:
        """Return the watermark at which a row belongs to no left element any more; +∞ while it belongs to one."""
        _, last = self.as_of.territory(sides.row_times, index)
        return _LAST if sides.times and sides.times[0] <= last else _past(last, self.lateness)

    @staticmethod
    def _set(over: Timer, due: int | None) -> None:
        if due is None:
            over.clear()
        else:
            over.set(EventTime(due))

    def _hold(self, sides: AsOfSides, waiting: WatermarkHold) -> None:
        """Hold the watermark at the first left element that is still to be emitted.

        Where a later row can belong to an element, also at one that may be taken back.
        """
        is_corrected_later = self.retracts and self.as_of.direction != "backward"
        index = 0 if is_corrected_later else len(sides.answers)
        time = EventTime(sides.times[index]) if index < len(sides.times) else None
        if time is None:
            waiting.clear()
        elif time != waiting.read():
            waiting.set(time)


class CorrectedJoinAsOf(JoinAsOf):
    """Joins likewise, but emits left elements before their row is certain, and takes them back for another row."""

    retracts = True


def _output(key: Any, sides: AsOfSides, index: int, answer: _Row | None, *, takes_back: bool = False) -> Any:
    """Return a left element with a row, at the later one's event time."""
    time, value = sides.times[index], sides.values[index]
    pair = key, (value, None if answer is None else answer[1])
    at = time if answer is None else max(time, answer[0])
    return TimestampedValue(Retract(pair) if takes_back else pair, EventTime(at))


def _past(time: int, wait: int) -> int:
    """Return the first watermark that has passed a time by a wait; a time at −∞ is passed once it moves."""
    return min(max(time, _FIRST + 1) + wait + 1, _LAST)
