"""Counters, distributions and gauges in users' functions: each element counts once, however the work is cut."""

from __future__ import annotations

import pickle
import threading
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.metrics import counting

if TYPE_CHECKING:
    from collections.abc import Callable

PAIRS = st.tuples(st.sampled_from("abc"), st.integers(0, 9))
BUNDLES = st.lists(st.lists(PAIRS, min_size=1, max_size=6), min_size=1, max_size=8)


def local(build: Callable[[dm.Pipeline], Any]) -> Any:
    p = dm.Pipeline(runner=dm.LocalRunner())
    build(p)
    result = p.run()
    result.wait_until_finish()
    return result


def script(bundles: list[list[tuple[str, int]]]) -> TestStream:
    stream = TestStream()
    for clock, bundle in enumerate(bundles):
        stream = stream.processing_time(clock).bundle([(pair, clock) for pair in bundle])
    return stream.watermark_to_infinity()


@given(BUNDLES)
def test_counters_are_what_was_counted_by_hand_whatever_the_bundles(bundles: list[list[tuple[str, int]]]) -> None:
    result = local(lambda p: counting.build(p | script(bundles)))
    panes = [record.value for record in result.collected("out")]
    numbers = [number for bundle in bundles for _, number in bundle]
    report = result.report()
    assert counting.counted(report) == counting.by_hand(numbers, panes)
    sizes = report.transforms["map"].user.distributions["sizes"]
    assert sizes == dm.metrics.DistributionValue(len(numbers), sum(numbers), min(numbers), max(numbers))
    assert report.transforms["map"].user.gauges == {"last": 7}
    assert report.transforms["all"].user.counters["bundles"] == len(bundles)


def test_one_name_in_two_transforms_is_two_counters() -> None:
    result = local(lambda p: counting.build(p | dm.Create([("a", 1)])))
    transforms = result.report().transforms
    assert transforms["map"].user.counters["seen"] == 1
    assert transforms["remember"].user.counters["seen"] == 2


def test_counters_include_what_a_dead_letter_counted_before_it_failed() -> None:
    tried, done = dm.metrics.counter("tried"), dm.metrics.counter("done")

    def halve(number: int) -> int:
        tried.inc()
        if number % 2:
            raise ValueError(number)
        done.inc()
        return number // 2

    def build(p: dm.Pipeline) -> None:
        good, bad = p | dm.Create([1, 2, 3]) | "halve" >> dm.Map(halve).with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()

    assert local(build).report().transforms["halve"].user.counters == {"tried": 3, "done": 1}


def test_using_a_metric_outside_of_a_run_does_nothing() -> None:
    assert counting.note(("a", 1)) == ("a", 1)


def test_two_concurrent_runs_count_separately() -> None:
    gate = threading.Barrier(2)
    hits = dm.metrics.counter("hits")

    def meet(number: int) -> int:
        gate.wait(30)
        hits.inc(number)
        return number

    pipelines = [dm.Pipeline(runner=dm.LocalRunner()) for _ in range(2)]
    for number, p in enumerate(pipelines, 1):
        _ = p | dm.Create([number]) | "meet" >> dm.Map(meet) | dm.io.Collect()
    results = [p.run() for p in pipelines]
    for result in results:
        result.wait_until_finish()
    assert [result.report().transforms["meet"].user.counters["hits"] for result in results] == [1, 2]


def test_metrics_can_be_pickled_and_compared() -> None:
    counter = dm.metrics.counter("x")
    assert pickle.loads(pickle.dumps(counter)) == counter == dm.metrics.counter("x")
    assert counter != dm.metrics.counter("y")


@pytest.mark.parametrize("make", [dm.metrics.counter, dm.metrics.distribution, dm.metrics.gauge])
def test_a_metric_needs_a_name(make: Callable[[Any], Any]) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"name must not be empty, got ' '\nHint: "):
        make(" ")
    with pytest.raises(dm.InvalidType, match=r"name must be text, got 5\nHint: "):
        make(5)


def test_numbers_of_numpy_count_like_those_of_python() -> None:
    counter, sizes = dm.metrics.counter("n"), dm.metrics.distribution("sizes")
    level = dm.metrics.gauge("level")

    def look(element: int) -> int:
        counter.inc(np.int8(100))  # type: ignore[arg-type] # which three times would overflow
        sizes.update(np.int8(100))  # type: ignore[arg-type]
        level.set(np.float32(0.5))  # type: ignore[arg-type]
        return element

    with dm.Pipeline() as p:
        _ = p | dm.Create([1, 2, 3]) | "look" >> dm.Map(look) | dm.io.Collect()
    user = p.result.report().transforms["look"].user
    assert user.counters == {"n": 300}
    assert (user.distributions["sizes"].sum, user.gauges["level"]) == (300, 0.5)
    assert type(user.gauges["level"]) is float


@pytest.mark.parametrize("time", [dm.duration(3), dm.EventTime(3)])
def test_instants_and_durations_are_refused_as_amounts_of_a_metric(time: Any) -> None:
    with pytest.raises(dm.InvalidType, match="takes whole numbers, got "):
        dm.metrics.counter("n").inc(time)
    with pytest.raises(dm.InvalidType, match="takes numbers, got "):
        dm.metrics.gauge("g").set(time)


def test_wrong_amounts_are_refused_with_the_way_out() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"cannot decrease, got -1\nHint: use dm\.metrics\.gauge"):
        dm.metrics.counter("n").inc(-1)
    with pytest.raises(dm.InvalidType, match=r"whole numbers, got 0\.5\nHint: use dm\.metrics\.distribution"):
        dm.metrics.counter("n").inc(0.5)  # type: ignore[arg-type]
    with pytest.raises(dm.InvalidType, match=r"takes numbers, got 'two'"):
        dm.metrics.distribution("d").update("two")  # type: ignore[arg-type]
    with pytest.raises(dm.InvalidArgument, match=r"finite numbers in the range of a float, got nan"):
        dm.metrics.gauge("g").set(float("nan"))
    with pytest.raises(dm.InvalidArgument, match=r"finite numbers in the range of a float, got <int of 16610 bits>"):
        dm.metrics.distribution("d").update(-(10**5000))
