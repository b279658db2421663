"""Law 10: user code is called once for each element, and all readers of a collection see the same elements."""

from __future__ import annotations

import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID, uuid4

import pytest
from hypothesis import example, given, reject
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.hosts import on_hosts, runner_on
from tests.support.inputs import write_seconds
from tests.support.laws.drawing import AT_THE_END_OF_TIME, windowing_strategies
from tests.support.laws.examples import share_of_examples
from tests.support.laws.impure import Impure, Made, Step, check_calls, check_one_value, impure_pipelines, readings
from tests.support.laws.retracting import by_parity
from tests.support.pipelines import draw, run, seen, start
from tests.support.runners.local_streams import Stepped, put_rows
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.runner import PipelineResult

pytestmark = [
    pytest.mark.filterwarnings("ignore:.* which emits retractions at the event time of:dataflow_model.PlanWarning"),
    pytest.mark.filterwarnings("ignore:.* groups the .* panes of:dataflow_model.PlanWarning"),
    AT_THE_END_OF_TIME,
]

# A collection that is read by the pipeline and by a side input of a side input.
NESTED = Impure(3, (Step("map", 0, (0,)), Step("grouped", 0, (0, 1)), Step("tagged", 2, (0, 1)), Step("stamped", 3)))
SHARED_GROUPING = Impure(4, (Step("grouped", 0), Step("map", 1, (1,)), Step("stateful", 1), Step("map", 3, (3, 2))))
EMPTY = Impure(0, (Step("map", 0, (0,)), Step("tagged", 1, (0,))))
ROWS = st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 2))
"""The event time, the clock and the key of a row."""
CASES = (NESTED, SHARED_GROUPING, EMPTY)


@example(NESTED)
@example(SHARED_GROUPING)
@example(EMPTY)
@given(impure_pipelines())
def test_all_readers_of_a_collection_see_the_same_elements(case: Impure) -> None:
    result = run(dm.LocalRunner(), case.build)
    collections = readings(result, case)
    check_one_value(collections, case)
    check_calls(result, collections)


@pytest.mark.parametrize("shards", [1, 2, 3, 5])
@share_of_examples(0.4)
@given(case=impure_pipelines())
def test_all_readers_see_the_same_elements_whatever_the_shards_and_micro_batches(shards: int, case: Impure) -> None:
    schedule = Schedule(shards=shards, cuts=(1, 2), restarts=frozenset({1}), crashes={2: 1})
    result = MicroBatchRunner(schedule).run(plan_of(case.build))
    check_one_value(readings(result, case), case)


@on_hosts("workers", "process", slow=("batch", "streaming"))
def test_all_readers_see_the_same_elements_on_every_host(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    cases = (*CASES, *draw(impure_pipelines(), 2, 5))
    for number, case in enumerate(cases if host != "streaming" else cases[:1]):
        result = run(runner_on(host, request, tmp_path / str(number)), case.build)
        collections = readings(result, case)
        check_one_value(collections, case)
        check_calls(result, collections)


@share_of_examples(0.2)
@example(NESTED)
@given(impure_pipelines())
def test_a_stream_sees_the_same_elements_after_a_restart(case: Impure) -> None:
    with tempfile.TemporaryDirectory() as directory:
        rows, checkpoint = Path(directory, "rows"), Path(directory, "checkpoint")

        def build(p: dm.Pipeline) -> None:
            collections = case.build_on(p | "source" >> dm.Create(range(case.count)))
            followed = p | "rows" >> dm.io.ReadParquet(rows, event_time="at", follow=True)
            looked_up = followed | "look" >> dm.Map(look, *map(dm.AsIter, collections))
            _ = looked_up | "looked up" >> dm.io.Collect()

        stream = Stepped(build, checkpoint)
        for number in range(3):
            put_rows(rows, str(number), [(number, "a", number)])
            stream.steps()
        collections = readings(stream, case)
        check_one_value(collections, case)
        looked_up = [record.value for record in stream.collected("looked up")]
        assert looked_up == [[sorted(one.drawn for one in side) for side in collections.values()]] * 3


@on_hosts("process", slow=("streaming",))
def test_a_restarted_stream_uses_the_same_static_side_inputs_on_every_host(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def build(p: dm.Pipeline) -> None:
        ids = p | "names" >> dm.Create(["a", "b"]) | "drawn" >> dm.Map(lambda name: (name, uuid4()))
        _ = ids | "ids" >> dm.io.Collect()
        followed = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True)
        _ = followed | "look" >> dm.Map(lambda _, ids: sorted(ids), dm.AsIter(ids)) | "looked up" >> dm.io.Collect()

    def resumed(number: int) -> PipelineResult:
        put_rows(tmp_path / "rows", str(number), [(number, "a", number)])
        result = start(runner_on(host, request, tmp_path / "checkpoint"), build)
        wait_for(result, lambda: len(result.collected("looked up")) == number + 1)
        result.stop()
        return result

    resumed(0)
    result = resumed(1)
    ids = sorted(record.value for record in result.collected("ids"))
    assert [record.value for record in result.collected("looked up")] == [ids, ids]


def look(_: Any, *sides: list[Made]) -> list[list[str]]:
    return [sorted(one.drawn for one in side) for side in sides]


def test_static_side_inputs_are_read_again_only_on_request(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = tmp_path / "names.csv"
    names.write_text("name\none\n")

    def build(p: dm.Pipeline) -> None:
        side = p | "names" >> dm.io.ReadCsv(names, event_time=None) | "drawn" >> dm.Map(lambda row: (row.name, uuid4()))
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True)
        _ = rows | "look" >> dm.Map(lambda _, side: sorted(side), dm.AsIter(side)) | "out" >> dm.io.Collect()

    def values_after(number: int, **options: Any) -> list[list[tuple[str, UUID]]]:
        put_rows(tmp_path / "rows", str(number), [(number, "a", number)])
        Stepped(build, tmp_path / "checkpoint", **options).steps()
        return [record.value for record in Stepped(build, tmp_path / "checkpoint").collected("out")]

    [first] = values_after(0)
    assert values_after(1) == [first, first]
    assert not caplog.records
    names.write_text("name\none\ntwo\n")
    assert values_after(2) == [first] * 3
    assert "'names': read for static side inputs when the run began, and changed since" in caplog.text
    *_, last = values_after(3, refresh_side_inputs=True)
    assert [name for name, _ in last] == ["one", "two"]
    assert last[0] != first[0]
    assert values_after(4)[-1] == last


def test_a_chain_of_side_inputs_calls_each_function_once() -> None:
    calls = Counter[int]()

    def look_at(number: int) -> Any:
        def count(element: int, before: int = 0) -> int:
            calls[number] += 1
            return element + before

        return count

    with dm.Pipeline() as p:
        value = p | "source 0" >> dm.Create([1]) | "step 0" >> dm.Map(look_at(0))
        for number in range(1, 11):
            source = p | f"source {number}" >> dm.Create([1])
            value = source | f"step {number}" >> dm.Map(look_at(number), dm.AsSingleton(value))
        _ = value | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == [11]
    assert calls == dict.fromkeys(range(11), 1)


@on_hosts("local", "workers")
def test_shared_elements_of_a_replayed_source_arrive_at_their_own_ticks(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    write_seconds(tmp_path / "rows.parquet", [(number, 100 + 10 * number, number) for number in range(1, 5)])

    def build(p: dm.Pipeline, *, shared: bool) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at", processing_time="seen")
        values = rows | "values" >> dm.Map(lambda row: ("key", row.value))
        early = dm.Window.into(dm.FixedWindows(3)).trigger(dm.AfterWatermark(early=dm.AfterProcessingTime(0)))
        _ = values | "windows" >> early | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()
        total = (values if shared else values | "again" >> dm.Map(lambda pair: pair)) | "total" >> dm.Count.globally()
        if shared:
            one = p | "one" >> dm.Create([1])
            _ = one | "look" >> dm.Map(lambda _, total: total, dm.AsSingleton(total)) | "out" >> dm.io.Collect()

    def panes(*, shared: bool) -> list[Any]:
        runner = runner_on(host, request, tmp_path / "unused")
        result = run(runner, lambda p: build(p, shared=shared))
        return seen(result.collected("panes"))

    expected = panes(shared=False)
    assert len({processing_time for *_, processing_time, _ in expected}) > 1
    assert panes(shared=True) == expected


@given(
    data=st.data(),
    rows=st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=12),
)
def test_a_side_input_of_a_replay_changes_nothing_for_other_readers(
    data: st.DataObject, rows: list[tuple[int, int, int]]
) -> None:
    options: dict[str, Any] = {"lateness": st.sampled_from([0, 5])}
    first, second = (data.draw(windowing_strategies(**options)) for _ in range(2))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "rows.parquet")
        by_clock = sorted(rows, key=lambda row: row[1])
        write_seconds(path, [(at, 100 + clock, key) for at, clock, key in by_clock])

        def build(p: dm.Pipeline, *, shared: bool) -> None:
            read = p | "rows" >> dm.io.ReadParquet(path, event_time="at", processing_time="seen")
            pairs = read | "pairs" >> dm.Map(lambda row: (row.value, 1))
            sums = pairs | "windows" >> dm.Window.into(first) | "sums" >> dm.Sum.per_key()
            _ = sums | "panes" >> dm.io.Collect()
            again = sums | "rekey" >> dm.MapTuple(by_parity) | "windows again" >> dm.Window.into(second)
            _ = again | "sums again" >> dm.Sum.per_key() | "panes again" >> dm.io.Collect()
            if shared:
                ones = p | "ones" >> dm.Create([1])
                _ = (
                    ones
                    | "look" >> dm.Map(lambda one, sums: (one, len(sums)), dm.AsIter(sums))
                    | "out" >> dm.io.Collect()
                )

        def panes(*, shared: bool) -> list[Any]:
            result = run(dm.LocalRunner(), lambda p: build(p, shared=shared))
            dropped = [result.metrics()[label].get("dropped_because_late") for label in ("sums", "sums again")]
            return [*map(timed, result.collected("panes")), *map(timed, result.collected("panes again")), dropped]

        try:
            actual = panes(shared=True)
        except dm.PlanError:  # a side input whose panes replace each other in windows that merge, for example
            reject()
        assert actual == panes(shared=False)


def timed(record: Record) -> tuple[Any, ...]:
    """Return all that a sink can tell of a record, and its tick instead of its order."""
    return (*seen([record])[0], record.order[0])


def test_a_stream_warns_about_a_shared_collection_with_a_replay_clock(tmp_path: Path) -> None:
    write_seconds(tmp_path / "rows.parquet", [(1, 100, 1)])

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at", processing_time="seen")
        values = rows | "values" >> dm.Map(lambda row: row.value)
        looked_up = values | "look" >> dm.Map(lambda value, most: (value, most), dm.AsSingleton(values))
        _ = looked_up | "out" >> dm.io.Collect()

    with pytest.warns(dm.PlanWarning, match="'values' feeds a static side input and other transforms"):
        result = run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build)
    assert [record.value for record in result.collected("out")] == [(1, 1)]


def plan_of(build: Callable[[dm.Pipeline], Any]) -> Any:
    p = dm.Pipeline()
    build(p)
    return p.plan()
