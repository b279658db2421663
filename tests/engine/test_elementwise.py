"""Element-wise transforms between keyed nodes: what they give stands where what they were given stood."""

import gc
import pickle
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.columns.records import Record
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.functions.garbage import collecting_rarely
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals
from dataflow_model.runners.engine.lanes.order_lanes import RowOrders
from dataflow_model.runners.local.bounded.result import LocalResult
from dataflow_model.values import NO_FIRING
from tests.support.hosts import on_hosts, runner_on


def run(p: dm.Pipeline, bundle: Bundle) -> dict[str, Bundle]:
    """Run what is behind the source `rows`; return what arrives at each sink, by label."""
    plan = p.plan()
    cuts = frozenset(node.label for node in plan.nodes if isinstance(node, Write))
    return Fragment(plan, "rows", cuts).run(bundle)


def bundle_of(values: list[Any]) -> Bundle:
    """Return elements as a source gives them, a second apart."""
    positions = np.arange(len(values))
    return Bundle.fresh(values, Integers(positions * 1_000_000), RowOrders.of_origin("rows:a", positions), 0)


def bare(bundle: Bundle) -> list[tuple[Any, int, Any, Any]]:
    return list(zip(bundle.values, bundle.times, bundle.windows, bundle.orders, strict=True))


def test_windows_assigned_after_a_function_with_several_outputs_are_columns() -> None:
    p = dm.Pipeline()

    def split(number: int) -> Iterator[Any]:
        yield from [number] * (number % 3)
        yield dm.TaggedOutput("odd", number) if number % 2 else number

    main, odd = p | "rows" >> dm.Create([0]) | dm.FlatMap(split).with_outputs("odd", main="main")
    into = dm.Window.into(dm.FixedWindows("2 seconds"))
    _ = main | "main windows" >> into | "main sink" >> dm.io.Collect()
    _ = odd | "odd windows" >> into | "odd sink" >> dm.io.Collect()
    arrived = run(p, bundle_of(list(range(5))))
    assert isinstance(arrived["main sink"].windows, Intervals)
    assert isinstance(arrived["odd sink"].windows, Intervals)
    assert [
        (value, time // 1_000_000, int(window.start) // 1_000_000, order[1:])
        for value, time, (window,), order in bare(arrived["main sink"])
    ] == [
        (0, 0, 0, (0, 0)),
        (1, 1, 0, (1, 0)),
        (2, 2, 2, (2, 0)),
        (2, 2, 2, (2, 1)),
        (2, 2, 2, (2, 2)),
        (4, 4, 4, (4, 0)),
        (4, 4, 4, (4, 1)),
    ]
    assert list(arrived["odd sink"].values) == [1, 3]
    assert [order[1] for order in arrived["odd sink"].orders] == [1, 3]


def test_an_output_with_an_event_time_of_its_own_does_not_change_that_of_other_outputs() -> None:
    p = dm.Pipeline()

    def delayed(number: int) -> list[Any]:
        return [number, dm.TimestampedValue(-number, 60)]

    _ = (
        p
        | "rows" >> dm.Create([0])
        | dm.FlatMap(delayed)
        | dm.Window.into(dm.FixedWindows("1 minute"))
        | "sink" >> dm.io.Collect()
    )
    sink = run(p, bundle_of([1, 2]))["sink"]
    assert [(value, time // 1_000_000, int(window.start) // 1_000_000) for value, time, (window,), _ in bare(sink)] == [
        (1, 0, 0),
        (-1, 60, 60),
        (2, 1, 0),
        (-2, 60, 60),
    ]


class Ends(dm.DoFn[Any, Any]):
    """Gives each element with its window, and one more output at the end of the bundle."""

    def process(self, element: Any, window: Any = dm.DoFn.WindowParam) -> Iterator[Any]:
        yield element, int(window.start) // 1_000_000

    def finish_bundle(self) -> Iterator[Any]:
        yield "end"


def test_outputs_of_finish_bundle_are_in_all_windows_of_the_last_element() -> None:
    p = dm.Pipeline()
    _ = (
        p
        | "rows" >> dm.Create([0])
        | dm.Window.into(dm.SlidingWindows("2 seconds", "1 second"))
        | dm.ParDo(Ends())
        | "sink" >> dm.io.Collect()
    )
    sink = run(p, bundle_of(["a", "b"]))["sink"]
    assert list(sink.values) == [("a", -1), ("a", 0), ("b", 0), ("b", 1), "end"]
    assert [sorted(int(window.start) // 1_000_000 for window in windows) for windows in sink.windows] == [
        [-1],
        [0],
        [0],
        [1],
        [0, 1],
    ]


def test_collected_records_are_created_only_when_they_are_read() -> None:
    p = dm.Pipeline(runner=dm.LocalRunner())
    _ = p | dm.Create([1, 2]) | dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert isinstance(result, LocalResult)
    assert not isinstance(vars(result)["_collected"]["Collect"], list)
    assert [record.value for record in result.collected("Collect")] == [1, 2]
    assert result.collected("Collect") == result.collected("Collect")


def test_the_threshold_of_the_garbage_collector_is_restored_when_the_last_run_ends() -> None:
    before = gc.get_threshold()
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with collecting_rarely():
            entered.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with collecting_rarely():
        thread.start()
        entered.wait()
        assert gc.get_threshold()[0] >= 10_000
    assert gc.get_threshold()[0] >= 10_000
    leave.set()
    thread.join()
    assert gc.get_threshold() == before


def test_a_garbage_collector_that_is_disabled_stays_disabled() -> None:
    before = gc.get_threshold()
    gc.set_threshold(0)
    try:
        with collecting_rarely():
            assert gc.get_threshold()[0] == 0
        assert gc.get_threshold()[0] == 0
    finally:
        gc.set_threshold(*before)


def test_records_survive_pickling() -> None:
    window = dm.IntervalWindow(dm.EventTime(0), dm.EventTime(60))
    record = Record("UA", dm.EventTime(7), window, NO_FIRING, True, (1, "a", 7), dm.ProcessingTime(9))
    assert pickle.loads(pickle.dumps(record)) == record
    assert type(pickle.loads(pickle.dumps(record)).event_time) is dm.EventTime


def test_an_output_that_is_rejected_is_reported_before_what_the_function_raises_for_a_later_element() -> None:
    def split(number: int) -> Iterator[Any]:
        yield dm.TaggedOutput("unknown", 10 // (2 - number))

    p = dm.Pipeline()
    main, _ = p | "rows" >> dm.Create([0]) | dm.FlatMap(split).with_outputs("odd", main="main")
    _ = main | "main sink" >> dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match="no output tagged 'unknown'"):
        run(p, bundle_of([1, 2, 3]))
    with pytest.raises(dm.UserCodeError, match="ZeroDivisionError"):
        run(p, bundle_of([2, 3]))


def test_outputs_of_one_element_keep_their_order_if_some_have_a_tag_or_an_event_time() -> None:
    def split(number: int) -> list[Any]:
        later = dm.TimestampedValue(number + 100, dm.EventTime(50_000_000))
        return [number, dm.TaggedOutput("odd", later), later, number + 1]

    p = dm.Pipeline()
    main, odd = p | "rows" >> dm.Create([0]) | dm.FlatMap(split).with_outputs("odd", main="main")
    _ = main | "main sink" >> dm.io.Collect()
    _ = odd | "odd sink" >> dm.io.Collect()
    arrived = run(p, bundle_of([1, 2]))
    assert list(zip(arrived["main sink"].values, arrived["main sink"].times, strict=True)) == [
        (1, 0), (101, 50_000_000), (2, 0), (2, 1_000_000), (102, 50_000_000), (3, 1_000_000)
    ]  # fmt: skip
    assert list(zip(arrived["odd sink"].values, arrived["odd sink"].times, strict=True)) == [
        (101, 50_000_000), (102, 50_000_000)
    ]  # fmt: skip


def test_panes_of_several_combiners_reach_a_file_as_columns(tmp_path: Path) -> None:
    with dm.Pipeline() as p:
        both = (
            p
            | dm.Create([("a", 1.5), ("b", 2.0), ("a", 2.5)])
            | dm.Together(count=dm.Count(), mean=dm.Mean()).per_key()
        )
        _ = both | dm.io.WriteParquet(tmp_path / "means")
        _ = both | dm.io.Collect()
    rows = pq.read_table(tmp_path / "means").sort_by("key").to_pylist()
    assert rows == [{"key": "a", "count": 2, "mean": 2.0}, {"key": "b", "count": 1, "mean": 2.0}]
    assert [repr(record.value) for record in p.result.collected("Collect")] == [
        "('a', Row(count=2, mean=2.0))",
        "('b', Row(count=1, mean=2.0))",
    ]


def plus_one(number: int) -> int:
    return number + 1


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_a_chain_of_transforms_may_be_longer_than_the_stack_of_python(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    length = sys.getrecursionlimit() + 200
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    numbers: Any = p | dm.Create([1, 2])
    for index in range(length):
        numbers |= f"add {index}" >> dm.Map(plus_one)
    _ = numbers | dm.Sum.globally() | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    assert [record.value for record in result.collected("out")] == [3 + 2 * length]
