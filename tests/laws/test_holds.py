"""Law 9 of stateful functions: where they hold the watermark, what came on time is on time behind them.

Late elements are mixed in: those of a key must not release what holds the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.arrivals import schedules
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import difference, run, seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Transform = Callable[[dm.PCollection], dm.PCollection]


class Marked(dm.DoFn):
    """Puts the event time of each element and whether it is on time into its value."""

    watermark = dm.WatermarkSpec()

    def process(self, pair: Any, watermark: dm.Watermark, timestamp: dm.EventTime) -> Iterator[Any]:
        yield pair[0], (int(timestamp), timestamp >= watermark.read(), pair[1])


class Buffered(dm.DoFn):
    """Keeps elements for some seconds of one of the clocks, and emits them with their own event times."""

    kept: Any = dm.BagStateSpec()
    since = dm.WatermarkHoldSpec()
    event = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)
    clock = dm.TimerSpec(dm.TimeDomain.PROCESSING_TIME)

    def process(
        self, pair: Any, kept: dm.BagState[Any], since: dm.WatermarkHold, event: dm.Timer, clock: dm.Timer
    ) -> None:
        at = pair[1][0]
        before = since.read()
        kept.add(pair[1])
        since.set(dm.EventTime(at if before is None else min(at, int(before))))
        (event if pair[1][2] % 2 else clock).set_after(3)

    @dm.on_timer(event)
    def by_event(self, key: Any, kept: dm.BagState[Any], since: dm.WatermarkHold) -> Iterator[Any]:
        return self._emitted(key, kept, since)

    @dm.on_timer(clock)
    def by_clock(self, key: Any, kept: dm.BagState[Any], since: dm.WatermarkHold) -> Iterator[Any]:
        return self._emitted(key, kept, since)

    @staticmethod
    def _emitted(key: Any, kept: dm.BagState[Any], since: dm.WatermarkHold) -> Iterator[Any]:
        for value in kept.read():
            yield dm.TimestampedValue((key, value), dm.EventTime(value[0]))
        kept.clear()
        since.clear()


class ByTimer(dm.DoFn):
    """Keeps elements until a timer fires whose output timestamp is the earliest of their event times.

    A late element joins those that are kept. With none, there is no hold that could last, and it is emitted at once.
    """

    kept: Any = dm.BagStateSpec()
    over = dm.TimerSpec(dm.TimeDomain.PROCESSING_TIME)

    def process(self, pair: Any, kept: dm.BagState[Any], over: dm.Timer, timestamp: dm.EventTime) -> Iterator[Any]:
        if not pair[1][1] and not kept.read():
            yield pair
            return
        if all(int(timestamp) < at for at, *_ in kept.read()):
            over.set_after(3, output_timestamp=timestamp)
        kept.add(pair[1])

    @dm.on_timer(over)
    def fire(self, key: Any, kept: dm.BagState[Any]) -> Iterator[Any]:
        for value in kept.read():
            yield dm.TimestampedValue((key, value), dm.EventTime(value[0]))
        kept.clear()


def joined(pairs: dm.PCollection) -> dm.PCollection:
    """Join elements with those of the other parity; what comes out is those without a partner."""
    pairs = pairs | "lateness" >> dm.Window.into(dm.GlobalWindows()).allowed_lateness(50)
    sides = (
        pairs | "left" >> dm.Filter(lambda pair: pair[1][2] % 2),
        pairs | "right" >> dm.Filter(lambda pair: not pair[1][2] % 2),
    )
    alone = sides | dm.Join.full(within=1) | dm.Filter(lambda pair: None in pair[1])
    return alone | dm.MapTuple(lambda key, both: (key, both[0] or both[1]))


def by_transforms(transform: Transform) -> Callable[[TestStream, Any], list[Any]]:
    """Return what runs a script through a transform, and returns whether each element is late behind it."""

    def told(script: TestStream, runner: Any) -> list[Any]:
        def build(p: dm.Pipeline) -> None:
            marked = p | script | "mark" >> dm.ParDo(Marked())
            _ = transform(marked) | "mark again" >> dm.ParDo(Marked()) | "told" >> dm.io.Collect()

        records: list[Any] = run(runner, build).collected("told")
        return records

    return told


class Marking(dm.Computation):
    """Puts the timestamp of each record and whether it is on time into its value."""

    def __init__(self, stream: str) -> None:
        self.stream = stream

    def process_record(self, record: dm.StreamRecord) -> None:
        marked = (int(record.timestamp), not record.is_late, record.value)
        self.produce(dm.StreamRecord(record.key, marked, record.timestamp), self.stream)


class Threes(dm.Computation):
    """Keeps records until there are three, as the computation in `docs/computations.md` does."""

    coder = dm.PickleCoder()

    def process_record(self, record: dm.StreamRecord) -> None:
        held = [*(self.state.read() or []), record.value]
        if len(held) < 3:
            self.state.write(held, timestamp=dm.EventTime(min(at for at, *_ in held)))
            return
        self.state.clear()
        for value in held:
            self.produce(dm.StreamRecord(record.key, value, dm.EventTime(value[0])), "threes")


def by_computations(script: TestStream, runner: Any) -> list[Any]:
    """Run a script through a computation, and return whether each record is late behind it."""
    topology = dm.Topology("batches")
    topology.inject("pairs", script)
    topology.add(Marking("marked"), subscribe={"pairs": lambda pair: pair[0]}, produces=["marked"], label="mark")
    topology.add(Threes(), subscribe={"marked": None}, produces=["threes"])
    topology.add(Marking("told"), subscribe={"threes": None}, produces=["told"], label="mark again")
    topology.sink("told", dm.io.Collect())
    result = topology.run(runner)
    result.wait_until_finish()
    return result.collected("told")


HOLDING = {
    "a hold": by_transforms(lambda pairs: pairs | dm.ParDo(Buffered())),
    "an output timestamp": by_transforms(lambda pairs: pairs | dm.ParDo(ByTimer())),
    "a join": by_transforms(joined),
    "a computation": by_computations,
}


@st.composite
def scripts(draw: st.DrawFn) -> TestStream:
    """Draw elements of two keys, some of them late, and watermarks and clock values between them."""
    script, reached, clock = TestStream(), 0, 0
    for number in range(draw(st.integers(2, 12))):
        what = draw(st.sampled_from(["element", "element", "watermark", "clock"]))
        if what == "element":
            script = script.add(number, draw(st.integers(0, reached + 20)), key=draw(st.sampled_from("ag")))
        elif what == "watermark":
            reached += draw(st.integers(1, 15))
            script = script.watermark(reached)
        else:
            clock += draw(st.integers(1, 5))
            script = script.processing_time(clock)
    return script


LATE_AFTER = TestStream().add(0, 10, key="a").watermark(8).add(2, 3, key="a").watermark(40).add(4, 45, key="a")
LATE_BEFORE = TestStream().watermark(8).add(0, 3, key="a").add(2, 10, key="a").watermark(40).add(4, 45, key="a")


@pytest.mark.parametrize("name", HOLDING)
@share_of_examples(0.4)
@given(script=scripts(), schedule=schedules())
@example(script=LATE_AFTER.processing_time(9), schedule=Schedule(2, (1,)))
@example(script=LATE_BEFORE.processing_time(9), schedule=Schedule(2, (1,)))
def test_elements_that_arrived_on_time_are_on_time_after_a_transform_that_held_them(
    name: str, script: TestStream, schedule: Schedule
) -> None:
    records = HOLDING[name](script, dm.LocalRunner(clock=0))
    for _, (at, is_on_time, (_, was_on_time, _)) in (record.value for record in records):
        assert is_on_time or not was_on_time, at
    assert not difference(seen(records), seen(HOLDING[name](script, MicroBatchRunner(schedule))))
