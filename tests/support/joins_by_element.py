"""Joins by distance as a stateful function: one element after the other, in the state of each key.

They are what the machine for such joins is compared with. Late elements are outputs of their own.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.functions.interval_joins import CorrectedJoinWithin, Firing
from dataflow_model.testing import TestStream
from dataflow_model.time import MIN_TIMESTAMP, Duration, EventTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.plan.functions.interval_joins import Distance
    from dataflow_model.plan.functions.state_handles import Timer, ValueState, Watermark, WatermarkHold

_FIRST: Final = int(MIN_TIMESTAMP) + 1


@attrs.define
class OpenSide:
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
        index = bisect_right(self.times, time)
        self.times.insert(index, time)
        self.values.insert(index, value)
        self.matched.insert(index, matched)
        if not matched:
            insort(self.alone, time)

    def between(self, first: int, last: int) -> range:
        """Return the indices of the elements with event times from `first` to `last`."""
        return range(bisect_left(self.times, first), bisect_right(self.times, last))

    def match(self, indices: range) -> None:
        """Record that the elements at some indices have had a partner."""
        for index in indices:
            if not self.matched[index]:
                self.matched[index] = True
                del self.alone[bisect_left(self.alone, self.times[index])]

    def drop(self, count: int) -> None:
        """Remove the first elements."""
        del self.alone[: self.matched[:count].count(False)]
        del self.times[:count], self.values[:count], self.matched[:count]


@attrs.define
class CorrectedSide(OpenSide):
    """The same, where an element may be emitted without a partner before its last partner can have arrived.

    Attributes:
        emitted: whether each element stands emitted without a partner.
        waiting: the event times of those that have had no partner and are still to be emitted without one, in order.
    """

    emitted: list[bool] = attrs.field(factory=list)
    waiting: list[int] = attrs.field(factory=list)

    def add(self, time: int, value: Any, *, matched: bool) -> None:
        """Add an element after those with the same event time."""
        self.emitted.insert(bisect_right(self.times, time), False)
        super().add(time, value, matched=matched)
        if not matched:
            insort(self.waiting, time)

    def emit(self, time: int) -> Any:
        """Record that the last waiting element with an event time is emitted without a partner; return its value."""
        index = bisect_right(self.times, time) - 1
        while self.matched[index] or self.emitted[index]:
            index -= 1
        self.emitted[index] = True
        del self.waiting[bisect_left(self.waiting, time)]
        return self.values[index]

    def match(self, indices: range) -> None:
        """Record that the elements at some indices have had a partner, so that they do not stand without one."""
        for index in indices:
            if self.emitted[index]:
                self.emitted[index] = False
            elif not self.matched[index]:
                del self.waiting[bisect_left(self.waiting, self.times[index])]
        super().match(indices)

    def drop(self, count: int) -> None:
        """Remove the first elements."""
        del self.emitted[:count]
        if count:
            last = self.times[count - 1]
            del self.waiting[: bisect_right(self.waiting, last)]
        super().drop(count)


_Sides = tuple[OpenSide, OpenSide]


class JoinedByElement(dm.DoFn):
    """Joins pairs of a key and a side with a value: `(key, (is_right, value))`.

    An element waits for partners until none can arrive any more: until the watermark has passed the last event time of
    a partner by the lateness. An element that is later than the lateness is dropped and counted, since its partners may
    be gone.

    Args:
        distance: how far apart partners may be.
        lateness: how late an element may be.
        keeps: whether an element of the left side, and one of the right side, is emitted without a partner once none
            can arrive.
    """

    side: ClassVar[type[OpenSide]] = OpenSide
    kept = dm.ValueStateSpec[_Sides | None](default=None)
    over = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)
    unmatched = dm.WatermarkHoldSpec()
    reached = dm.WatermarkSpec()

    def __init__(self, distance: Distance, lateness: int, keeps: tuple[bool, bool]) -> None:
        self.distance = distance
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
        reached: Watermark,
    ) -> Iterator[Any]:
        """Join an element with the buffered elements of the other side, and buffer it for later ones."""
        key, (is_right, value) = element
        time = int(timestamp)
        if int(reached.read()) - time > self.lateness:
            yield dm.TaggedOutput("late", element)
            return
        sides = kept.read() or (self.side(), self.side())
        others = sides[not is_right]
        distance = self.distance
        least, greatest = (-distance.greatest, -distance.least) if is_right else (distance.least, distance.greatest)
        partners = others.between(time + least, time + greatest)
        if self.retracts:
            yield from self.taken_back(key, others, partners, is_right=not is_right)
        for index in partners:
            other = others.values[index]
            pair = (other, value) if is_right else (value, other)
            yield dm.TimestampedValue((key, pair), EventTime(max(others.times[index], time)))
        others.match(partners)
        before = self.first_due(sides)
        sides[is_right].add(time, value, matched=bool(partners))
        if self.retracts:
            yield from self.emitted_alone(key, sides, None)
        first = self.first_due(sides)
        if first is not None and first != before:
            over.set(first)
        kept.write(sides)
        self._hold(sides, unmatched)

    @dm.on_timer(over)
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
        sides = kept.read() or (self.side(), self.side())
        if self.retracts:
            yield from self.emitted_alone(key, sides, fire_timestamp)
        for side, keeps, is_right in zip(sides, self.keeps, (False, True), strict=True):
            count = 0
            while count < len(side.times) and self._expiry(side.times[count], is_right=is_right) <= fire_timestamp:
                if keeps and not self.retracts and not side.matched[count]:
                    pair = alone(side.values[count], is_right=is_right)
                    yield dm.TimestampedValue((key, pair), EventTime(side.times[count]))
                count += 1
            side.drop(count)
        first = self.first_due(sides)
        if first is None:
            kept.clear()
        else:
            kept.write(sides)
            over.set(first)
        self._hold(sides, unmatched)

    def title(self) -> str:
        """Return how far apart partners may be, for explanations."""
        return self.distance.describe()

    def taken_back(self, key: Any, side: Any, indices: range, *, is_right: bool) -> Iterator[Any]:
        """Take back the elements at some indices that stand emitted without a partner: none does here."""
        del key, side, indices, is_right
        yield from ()

    def emitted_alone(self, key: Any, sides: Any, watermark: EventTime | None) -> Iterator[Any]:
        """Emit elements that have no partner yet, before it is certain that they have none: none is emitted here."""
        del key, sides, watermark
        yield from ()

    def _expiry(self, time: int, *, is_right: bool) -> EventTime:
        """Return the watermark at which an element can have no more partners; one at −∞ waits until it moves."""
        return self.waited(time, self.lateness, is_right=is_right)

    def waited(self, time: int, lateness: int, *, is_right: bool) -> EventTime:
        """Return the watermark at which an element has waited for its partners, and for those that are so late."""
        waits = Duration(micros=self.distance.reach(is_right=is_right) + lateness + 1)
        return max(EventTime(max(time, _FIRST)) + waits, EventTime(_FIRST))

    def first_due(self, sides: Any) -> EventTime | None:
        """Return the watermark at which the first element of both sides can have no more partners."""
        firsts = ((side.times[0], is_right) for side, is_right in zip(sides, (False, True), strict=True) if side.times)
        return min((self._expiry(time, is_right=is_right) for time, is_right in firsts), default=None)

    def _hold(self, sides: _Sides, unmatched: WatermarkHold) -> None:
        """Hold the watermark at the earliest element that may still be emitted without a partner."""
        if not any(self.keeps):
            return
        alone = [side.alone[0] for side, keeps in zip(sides, self.keeps, strict=True) if keeps and side.alone]
        if alone:
            unmatched.set(EventTime(min(alone)))
        else:
            unmatched.clear()


class CorrectedByElement(JoinedByElement):
    """Joins likewise, but emits elements without a partner early, and takes them back when a partner arrives.

    Args:
        distance, lateness, keeps: as for `JoinedByElement`.
        at_once: whether an element without a partner is emitted when it arrives; otherwise when the watermark has
            passed the last event time of a partner, although a late one may still arrive.
    """

    retracts = True
    side = CorrectedSide

    def __init__(self, distance: Distance, lateness: int, keeps: tuple[bool, bool], *, at_once: bool) -> None:
        super().__init__(distance, lateness, keeps)
        self.at_once = at_once

    def taken_back(self, key: Any, side: CorrectedSide, indices: range, *, is_right: bool) -> Iterator[Any]:
        """Take back the elements at some indices that stand emitted without a partner."""
        for index in indices:
            if side.emitted[index]:
                pair = alone(side.values[index], is_right=is_right)
                yield dm.TimestampedValue(dm.Retract((key, pair)), EventTime(side.times[index]))

    def emitted_alone(
        self, key: Any, sides: tuple[CorrectedSide, CorrectedSide], watermark: EventTime | None
    ) -> Iterator[Any]:
        """Emit the elements without a partner that are due: all of them, or those that have waited long enough."""
        for side, keeps, is_right in zip(sides, self.keeps, (False, True), strict=True):
            while keeps and side.waiting and self._is_due(side.waiting[0], watermark, is_right=is_right):
                time = side.waiting[0]
                yield dm.TimestampedValue((key, alone(side.emit(time), is_right=is_right)), EventTime(time))

    def first_due(self, sides: tuple[CorrectedSide, CorrectedSide]) -> EventTime | None:
        """Return the watermark at which an element is to be emitted without a partner, or can have no more of them."""
        first = super().first_due(sides)
        waits = [
            self.waited(side.waiting[0], 0, is_right=is_right)
            for side, keeps, is_right in zip(sides, self.keeps, (False, True), strict=True)
            if keeps and side.waiting
        ]
        return first if first is None else min([first, *waits])

    def _is_due(self, time: int, watermark: EventTime | None, *, is_right: bool) -> bool:
        if watermark is None:
            return self.at_once
        return self.waited(time, 0, is_right=is_right) <= watermark


def alone(value: Any, *, is_right: bool) -> tuple[Any, Any]:
    """Return the pair of an element without a partner."""
    return (None, value) if is_right else (value, None)


Move = tuple[str, int, int]
"""What happens: an element of the left or right side, a watermark or a tick of the clock; its time, and its value."""
FORMS: dict[str, Callable[..., dm.Join[Any, Any]]] = {
    "inner": dm.Join.inner,
    "left": dm.Join.left,
    "right": dm.Join.right,
    "full": dm.Join.full,
}
MODES = ["final", "on time", "at once"]
MOVES = st.lists(
    st.tuples(
        st.sampled_from(["left", "right", "left", "right", "watermark", "clock"]),
        st.integers(0, 40),
        st.integers(0, 5),
    ),
    max_size=20,
)
KEYS = ["a", 7, ("b", 1.5)]


def scripted(moves: list[Move]) -> TestStream:
    script, reached = TestStream(), {"watermark": 0, "clock": 0}
    for what, at, value in moves:
        if what in reached:
            reached[what] = max(reached[what], at)
            move = script.watermark if what == "watermark" else script.processing_time
            script = move(reached[what])
        else:
            script = script.add((what, value), at, key=KEYS[value % 3])
    return script


def windowing(mode: str, lateness: int) -> dm.WindowInto:
    everywhere = dm.Window.into(dm.GlobalWindows()).allowed_lateness(lateness)
    if mode == "final":
        return everywhere
    everywhere = everywhere.accumulating_and_retracting()
    return everywhere.trigger(dm.Always()) if mode == "at once" else everywhere


def with_a_random_number(pair: Any) -> Any:
    key, (_, value) = pair
    return key, (value, random.random())


class OnSide:
    def __init__(self, *, is_right: bool) -> None:
        self.is_right = is_right

    def __call__(self, pair: Any) -> Any:
        return pair[0], (self.is_right, pair[1])


def both(p: dm.Pipeline, moves: list[Move], join: dm.Join[Any, Any], how: dm.WindowInto) -> None:
    """Join the same elements in both ways."""
    elements = p | "script" >> scripted(moves)
    sides, marked = [], []
    for side in ("left", "right"):
        own = elements | f"{side} only" >> dm.Filter(lambda pair, side=side: pair[1][0] == side)
        values = own | f"{side} values" >> dm.Map(with_a_random_number).with_output_types(tuple[Any, Any])
        sides.append(values | f"{side} windows" >> how)
    joined, dropped = tuple(sides) | "join" >> join.with_dropped_output()
    fn = p.plan()["join/partners"].fn  # type: ignore[union-attr]
    for side, member in zip(("left", "right"), sides, strict=True):
        everywhere = member | f"{side} everywhere" >> dm.Window.into(dm.GlobalWindows())
        if isinstance(fn, CorrectedJoinWithin):
            everywhere = everywhere | f"{side} corrected" >> how
        marked.append(everywhere | f"{side} marked" >> dm.Map(OnSide(is_right=side == "right")))
    arguments = fn.distance, fn.lateness, fn.keeps  # type: ignore[union-attr]
    by_element: Any = JoinedByElement(*arguments)
    if isinstance(fn, CorrectedJoinWithin):
        by_element = CorrectedByElement(*arguments, at_once=fn.firing is Firing.AT_ONCE)
    together = tuple(marked) | "together" >> dm.Flatten()
    expected, late = together | "by element" >> dm.ParDo(by_element).with_outputs("late", main="main")
    for name, collection in (("joined", joined), ("expected", expected), ("dropped", dropped), ("late", late)):
        _ = collection | name >> dm.io.Collect()
