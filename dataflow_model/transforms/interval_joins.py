"""Joins by distance in event time: partners of one key that are no further apart than a duration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.dofn import BoundedLatenessFn, TimestampedValue
from dataflow_model.plan.state import (
    BagStateSpec,
    TimerSpec,
    ValueStateSpec,
    WatermarkHoldSpec,
    on_timer,
)
from dataflow_model.time import MIN_TIMESTAMP, Duration, EventTime
from dataflow_model.triggers import TimeDomain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.state_handles import BagState, Timer, ValueState, WatermarkHold

__all__ = ["JoinWithin"]

_Kept = tuple[int, Any, bool]
"""An element of one side: its event time, its value, and whether it has had a partner."""


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

    lefts = BagStateSpec[_Kept]()
    rights = BagStateSpec[_Kept]()
    due = ValueStateSpec[int | None](default=None)
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
        lefts: BagState[_Kept],
        rights: BagState[_Kept],
        due: ValueState[int | None],
        over: Timer,
        unmatched: WatermarkHold,
    ) -> Iterator[Any]:
        """Join an element with those of the other side that are there, and keep it for those to come."""
        key, (is_right, value) = element
        time = int(timestamp)
        own, others = (rights, lefts) if is_right else (lefts, rights)
        kept = others.read()
        partners = [partner for partner in kept if abs(partner[0] - time) <= self.within]
        for at, other, _ in partners:
            pair = (other, value) if is_right else (value, other)
            yield TimestampedValue((key, pair), EventTime(max(at, time)))
        own.add((time, value, bool(partners)))
        if partners and self.keeps[not is_right]:
            others.clear()
            for at, other, had in kept:
                others.add((at, other, had or abs(at - time) <= self.within))
        before, expiry = due.read(), self._expiry(time)
        if before is None or int(expiry) < before:
            self._wake(expiry, due, over)
        if any(self.keeps):
            self._hold(lefts, rights, unmatched)

    @on_timer(over)
    def expire(
        self,
        *,
        key: Any,
        fire_timestamp: EventTime,
        lefts: BagState[_Kept],
        rights: BagState[_Kept],
        due: ValueState[int | None],
        over: Timer,
        unmatched: WatermarkHold,
    ) -> Iterator[Any]:
        """Drop the elements that can have no more partners, and emit those without one if the join keeps them."""
        for bag, is_right in ((lefts, False), (rights, True)):
            kept = bag.read()
            bag.clear()
            for time, value, matched in kept:
                if self._expiry(time) > fire_timestamp:
                    bag.add((time, value, matched))
                elif self.keeps[is_right] and not matched:
                    yield TimestampedValue((key, (None, value) if is_right else (value, None)), EventTime(time))
        waiting = [self._expiry(time) for time, _, _ in (*lefts.read(), *rights.read())]
        due.clear()
        if waiting:
            self._wake(min(waiting), due, over)
        self._hold(lefts, rights, unmatched)

    def _expiry(self, time: int) -> EventTime:
        """Return the watermark at which an element can have no more partners; one at −∞ waits until it moves."""
        return EventTime(max(time, int(MIN_TIMESTAMP) + 1)) + Duration(self.within + self.lateness + 1)

    def _wake(self, at: EventTime, due: ValueState[int | None], over: Timer) -> None:
        due.write(int(at))
        over.set(at)

    def _hold(self, lefts: BagState[_Kept], rights: BagState[_Kept], unmatched: WatermarkHold) -> None:
        """Hold the watermark at the earliest element that may still be emitted without a partner."""
        sides = [bag.read() for bag, keeps in zip((lefts, rights), self.keeps, strict=True) if keeps]
        alone = [time for side in sides for time, _, matched in side if not matched]
        if alone:
            unmatched.set(EventTime(min(alone)))
        else:
            unmatched.clear()
