"""Joins by distance in event time: partners of one key that are no further apart than a duration."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.dofn import BoundedLatenessFn, TimestampedValue
from dataflow_model.plan.state import TimerSpec, ValueStateSpec, WatermarkHoldSpec, on_timer
from dataflow_model.time import MIN_TIMESTAMP, Duration, EventTime
from dataflow_model.triggers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.state_handles import Timer, ValueState, WatermarkHold

__all__ = ["JoinWithin", "KeptSide"]


@attrs.define
class KeptSide:
    """The elements of one side that may still have partners, in order of their event times.

    Attributes:
        times: their event times.
        values: their values.
        matched: whether they have had a partner.
        alone: the event times of those that have had none, in order.
    """

    times: list[int] = attrs.field(factory=list)
    values: list[Any] = attrs.field(factory=list)
    matched: list[bool] = attrs.field(factory=list)
    alone: list[int] = attrs.field(factory=list)

    def add(self, time: int, value: Any, *, matched: bool) -> None:
        """Add an element after those with the same event time."""
        place = bisect_right(self.times, time)
        self.times.insert(place, time)
        self.values.insert(place, value)
        self.matched.insert(place, matched)
        if not matched:
            insort(self.alone, time)

    def between(self, first: int, last: int) -> range:
        """Return the places of the elements with event times from `first` to `last`."""
        return range(bisect_left(self.times, first), bisect_right(self.times, last))

    def match(self, places: range) -> None:
        """Record that the elements at some places have had a partner."""
        for place in places:
            if not self.matched[place]:
                self.matched[place] = True
                del self.alone[bisect_left(self.alone, self.times[place])]

    def drop(self, count: int) -> None:
        """Remove the first elements."""
        del self.alone[: self.matched[:count].count(False)]
        del self.times[:count], self.values[:count], self.matched[:count]


_Sides = tuple[KeptSide, KeptSide]


class JoinWithin(BoundedLatenessFn):
    """Joins pairs of a key and a side with a value: `(key, (is_right, value))`.

    An element waits for partners until none can arrive any more: until the watermark has passed its event time by the
    distance plus the lateness. An element that is later than the lateness is dropped and counted, since its partners
    may be gone.

    Args:
        within: how far apart partners may be, in microseconds.
        lateness: how late an element may be.
        keeps: whether an element of the left side, and one of the right side, is emitted without a partner once none
            can arrive.
    """

    kept = ValueStateSpec[_Sides | None](default=None)
    over = TimerSpec(TimeDomain.EVENT_TIME)
    unmatched = WatermarkHoldSpec()

    def __init__(self, within: int, lateness: int, keeps: tuple[bool, bool]) -> None:
        self.within = within
        self.lateness = lateness
        self.keeps = keeps

    def process(
        self,
        element: Any,
        *,
        timestamp: EventTime,
        kept: ValueState[_Sides | None],
        over: Timer,
        unmatched: WatermarkHold,
    ) -> Iterator[Any]:
        """Join an element with the buffered elements of the other side, and buffer it for later ones."""
        key, (is_right, value) = element
        time = int(timestamp)
        sides = kept.read() or (KeptSide(), KeptSide())
        others = sides[not is_right]
        partners = others.between(time - self.within, time + self.within)
        for place in partners:
            other = others.values[place]
            pair = (other, value) if is_right else (value, other)
            yield TimestampedValue((key, pair), EventTime(max(others.times[place], time)))
        others.match(partners)
        if time < min((side.times[0] for side in sides if side.times), default=time + 1):
            over.set(self._expiry(time))
        sides[is_right].add(time, value, matched=bool(partners))
        kept.write(sides)
        self._hold(sides, unmatched)

    @on_timer(over)
    def expire(
        self,
        *,
        key: Any,
        fire_timestamp: EventTime,
        kept: ValueState[_Sides | None],
        over: Timer,
        unmatched: WatermarkHold,
    ) -> Iterator[Any]:
        """Drop the elements that can have no more partners, and emit those without one if the join keeps them."""
        sides = kept.read() or (KeptSide(), KeptSide())
        for side, keeps, is_right in zip(sides, self.keeps, (False, True), strict=True):
            count = 0
            while count < len(side.times) and self._expiry(side.times[count]) <= fire_timestamp:
                if keeps and not side.matched[count]:
                    value = side.values[count]
                    pair = (None, value) if is_right else (value, None)
                    yield TimestampedValue((key, pair), EventTime(side.times[count]))
                count += 1
            side.drop(count)
        first = min((side.times[0] for side in sides if side.times), default=None)
        if first is None:
            kept.clear()
        else:
            kept.write(sides)
            over.set(self._expiry(first))
        self._hold(sides, unmatched)

    def _expiry(self, time: int) -> EventTime:
        """Return the watermark at which an element can have no more partners; one at −∞ waits until it moves."""
        return EventTime(max(time, int(MIN_TIMESTAMP) + 1)) + Duration(micros=self.within + self.lateness + 1)

    def _hold(self, sides: _Sides, unmatched: WatermarkHold) -> None:
        """Hold the watermark at the earliest element that may still be emitted without a partner."""
        if not any(self.keeps):
            return
        alone = [side.alone[0] for side, keeps in zip(sides, self.keeps, strict=True) if keeps and side.alone]
        if alone:
            unmatched.set(EventTime(min(alone)))
        else:
            unmatched.clear()
