"""Functions that keep state and set timers, and the transforms that are built of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.hosts import OnHost

SCRIPT = TestStream().add(1, 5, key="a").add(2, 3, key="d").add(4, 8, key="a").watermark(9).add(8, 11, key="a")


class Running(dm.DoFn):
    """Emits the running total of each key and window."""

    total = dm.CombiningStateSpec(dm.Sum())

    def process(self, pair: Any, total: dm.CombiningState[int, int]) -> Iterator[Any]:
        total.add(pair[1])
        yield pair[0], total.read()


class Quiet(dm.DoFn):
    """Emits the elements of a key once it has been quiet for five seconds, and at the end of the window."""

    values = dm.BagStateSpec[int]()
    rest = dm.TimerSpec(dm.TimeDomain.EVENT_TIME)

    def process(self, pair: Any, values: dm.BagState[int], rest: dm.Timer, timestamp: dm.EventTime) -> None:
        values.add(pair[1])
        rest.set(timestamp + dm.duration(5))

    @dm.on_timer(rest)
    def at_rest(self, key: str, values: dm.BagState[int]) -> Iterator[Any]:
        yield key, sorted(values.read())
        values.clear()


class Patient(dm.DoFn):
    """Emits an element three seconds of processing time after it has arrived."""

    value = dm.ValueStateSpec[int](default=0)
    wait = dm.TimerSpec(dm.TimeDomain.PROCESSING_TIME)

    def process(self, pair: Any, value: dm.ValueState[int], wait: dm.Timer) -> None:
        value.write(pair[1])
        wait.set_after(3)

    @dm.on_timer(wait)
    def after_waiting(self, key: str, value: dm.ValueState[int]) -> Iterator[Any]:
        yield key, value.read()


class Remaining(Running):
    """Emits what is left at the end of each window, too."""

    def on_window_expiry(self, key: str, total: dm.CombiningState[int, int]) -> Iterator[Any]:
        yield key, f"{total.read()} at the end"


class Sorted(dm.DoFn):
    """Emits elements in the order of their event times."""

    requires_time_sorted_input = True

    def process(self, pair: Any) -> Iterator[Any]:
        yield pair


def test_state_belongs_to_a_key_and_a_window(clocked: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        tens = p | "script" >> SCRIPT | dm.Window.into(dm.FixedWindows(10))
        _ = tens | "running" >> dm.ParDo(Running()) | "panes" >> dm.io.Collect()

    clocked.emits(build, ["a=1", "d=2", "a=5", "a=8"])


def test_an_event_time_timer_fires_when_the_watermark_passes_it(host: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | "script" >> SCRIPT | "quiet" >> dm.ParDo(Quiet()) | "panes" >> dm.io.Collect()

    host.emits(build, ["d=[2]", "a=[1, 4, 8]"], ["a=[1, 4, 8]", "d=[2]"])


def test_a_processing_time_timer_fires_when_the_clock_passes_it(clocked: OnHost) -> None:
    script = TestStream().processing_time(1).add(1, 5, key="a").processing_time(2).add(2, 6, key="d").processing_time(9)

    def build(p: dm.Pipeline) -> None:
        _ = p | "script" >> script | "patient" >> dm.ParDo(Patient()) | "panes" >> dm.io.Collect()

    records = clocked.run(build).collected("panes")
    assert [(record.value, int(record.processing_time)) for record in records] == [
        (("a", 1), 4_000_000),
        (("d", 2), 5_000_000),
    ]


def test_a_stateful_function_may_emit_its_remaining_state_when_a_window_expires(clocked: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        tens = p | "script" >> SCRIPT | dm.Window.into(dm.FixedWindows(10))
        _ = tens | "remaining" >> dm.ParDo(Remaining()) | "panes" >> dm.io.Collect()

    panes = ["a=1", "d=2", "a=5", "a=8", "a=5 at the end", "d=2 at the end", "a=8 at the end"]
    clocked.emits(build, panes)


def test_a_stateful_function_may_require_elements_in_order_of_event_time(clocked: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(2, 3, key="a").watermark(4).add(4, 2, key="a").add(8, 4, key="a")

    def build(p: dm.Pipeline) -> None:
        _ = p | "script" >> script | "sorted" >> dm.ParDo(Sorted()) | "panes" >> dm.io.Collect()

    result = clocked.emits(build, ["a=2", "a=8", "a=1"])
    assert result.metrics()["sorted"]["dropped_because_late"] == 1


def test_deduplicate_keeps_only_the_first_element_with_each_id(host: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(1, 6, key="d").watermark(7).add(2, 8, key="a").add(2, 9, key="a")

    def build(p: dm.Pipeline) -> None:
        once = p | "script" >> script | "once" >> dm.Deduplicate(lambda pair: pair[1], horizon=100)
        _ = once | "panes" >> dm.io.Collect()

    host.emits(build, ["a=1", "a=2"], ["a=1", "a=2"])


def test_batches_are_emitted_when_they_are_full_and_at_the_end_of_their_window(host: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        tens = p | "script" >> SCRIPT | dm.Window.into(dm.FixedWindows(10))
        _ = tens | "batches" >> dm.GroupIntoBatches(2) | "panes" >> dm.io.Collect()

    host.emits(build, ["a=[1, 4]", "d=[2]", "a=[8]"], ["a=[1, 4]", "a=[8]", "d=[2]"])
