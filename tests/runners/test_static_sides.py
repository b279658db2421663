"""Static side inputs: computed once, before the run, whatever clock the run has; the same on every runner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.origins import OriginOffset, SourceOffset
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on
from tests.support.inputs import write_seconds
from tests.support.metrics import counting
from tests.support.pipelines import counters, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


HOSTS = on_hosts("local", "workers", "process", "batch", slow=("streaming",))


def _names(p: dm.Pipeline, folder: Path, **options: Any) -> Any:
    path = folder / "names.csv"
    path.write_text("number,name\n1,one\n2,two\n")
    options = {"event_time": None, **options}
    return p | "names" >> dm.io.ReadCsv(path, **options) | "by number" >> dm.WithKeys("number", value="name")


def _looked_up(numbers: Any, names: Any) -> None:
    view = dm.AsDict(names)
    _ = numbers | "look" >> dm.Map(lambda number, names: names[number], names=view) | "out" >> dm.io.Collect()


def _values(result: Any) -> list[Any]:
    return [record.value for record in result.collected("out")]


@HOSTS
@pytest.mark.parametrize("event_time", [None, dm.ARRIVAL])
def test_a_replayed_pipeline_may_have_a_static_side_input_from_a_file_without_a_clock(
    host: str, event_time: Any, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    write_seconds(tmp_path / "rows.parquet", [(1, 100, 1), (2, 101, 2)])

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at", processing_time="seen")
        _looked_up(rows | "value" >> dm.Map(lambda row: row.value), _names(p, tmp_path, event_time=event_time))

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    assert sorted(_values(result)) == ["one", "two"]
    if host != "batch":  # which has no clock
        assert [int(record.processing_time) // 10**6 for record in result.collected("out")] == [100, 101]


@HOSTS
def test_a_scripted_pipeline_may_have_a_static_side_input_from_a_file(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def build(p: dm.Pipeline) -> None:
        _looked_up(p | TestStream().add(2, 0).add(1, 0), _names(p, tmp_path))

    assert sorted(_values(run(runner_on(host, request, tmp_path / "checkpoint"), build))) == ["one", "two"]


@HOSTS
def test_a_side_input_may_be_a_replay_where_the_run_has_the_wall_clock(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    write_seconds(tmp_path / "rows.parquet", [(1, 100, 1), (2, 101, 2)])

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at", processing_time="seen")
        sums = rows | "value" >> dm.Map(lambda row: row.value) | "sum" >> dm.Sum.globally()
        numbers = _names(p, tmp_path) | "numbers" >> dm.Keys()
        added = numbers | "add" >> dm.Map(lambda number, total: number + total, dm.AsSingleton(sums))
        _ = added | "out" >> dm.io.Collect()

    assert sorted(_values(run(runner_on(host, request, tmp_path / "checkpoint"), build))) == [4, 5]


@HOSTS
def test_transforms_needed_only_by_a_static_side_input_run_and_count_once(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def build(p: dm.Pipeline) -> None:
        names = _names(p, tmp_path) | "noted" >> dm.Map(lambda pair: (counting.note(pair[::-1])[1], pair[1]))
        longest = names | "lengths" >> dm.MapTuple(lambda _, name: len(name)) | "longest" >> dm.Max.globally()
        numbers = p | "numbers" >> dm.Create([1, 2])
        _looked_up(numbers | "few" >> dm.Filter(lambda number, most: number < most, dm.AsSingleton(longest)), names)

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    assert sorted(_values(result)) == ["one", "two"]
    noted = result.report().transforms["noted"]
    assert (noted.elements_in, noted.elements_out) == (2, 2)
    assert noted.user.counters == {"seen": 2, "even": 1}
    counted = counters(result)
    assert counted["names"] == {"elements_out": 2}
    assert counted["longest/CombinePerKey"] == {"elements_in": 2, "panes_on_time": 1}
    assert counted["out"]["elements_in"] == 2


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (
            [("a", 1), ([2], 3)],
            r"must have hashable keys, got the pair \(\[2\], 3\)(.|\n)*\nHint: make another",
        ),
        ([("a", 1), 5], r"must hold \(key, value\) pairs, got \[\('a', 1\), 5\](.|\n)*\nHint: use dm\.AsIter"),
    ],
)
def test_a_side_input_that_cannot_become_a_dict_is_reported_with_a_way_out(values: list[Any], problem: str) -> None:
    def build(p: dm.Pipeline) -> None:
        side = p | "side" >> dm.Create(values) | "untyped" >> dm.Map(lambda value: value)
        _looked_up(p | "numbers" >> dm.Create([1]), side)

    with pytest.raises(dm.UserCodeError, match=problem):
        run(dm.LocalRunner(), build)


def test_functions_of_a_static_side_input_are_called_once_for_each_element() -> None:
    calls = []

    def note(pair: tuple[int, str]) -> tuple[int, str]:
        calls.append(pair)
        return pair

    with dm.Pipeline() as p:
        names = p | "names" >> dm.Create([(1, "one")]) | "noted" >> dm.Map(note)
        _looked_up(p | "numbers" >> dm.Create([1]), names)
    assert calls == [(1, "one")]


def test_a_resumed_stream_counts_the_rows_that_its_side_inputs_read_again(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        _looked_up(p | "numbers" >> dm.Create([1]), _names(p, tmp_path))

    for _ in range(2):
        result = run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build)
        assert result.metrics()["names"] == {"elements_out": 2}
        assert _values(result) == ["one"]


def test_a_micro_batch_of_an_earlier_release_reads_no_rows_of_a_static_side_input(tmp_path: Path) -> None:
    p = dm.Pipeline()
    _looked_up(p | "numbers" >> dm.Create([1]), _names(p, tmp_path))
    staged = bound_plan(cut_into_stages(p.plan()))
    end: Offset = Offset(sources={"names": SourceOffset(is_followed=False, open={"names.csv": OriginOffset(0, 2, 2)})})
    assert Feed(staged.sources, 10, 1).slices(Offset(), end) == []


def _used_twice(numbers: Any, names: Any) -> None:
    _looked_up(numbers, names)
    _ = names | "kept" >> dm.io.Collect()


def _dead_letters(numbers: Any, names: Any) -> None:
    good, bad = names | "checked" >> dm.Map(lambda pair: pair).with_exception_handling()
    _looked_up(numbers, good)
    _ = bad | "kept" >> dm.io.Collect()


@pytest.mark.parametrize(("use", "kept"), [(_used_twice, [(1, "one"), (2, "two")]), (_dead_letters, [])])
@pytest.mark.parametrize("host", ["local", "workers", "process"])
def test_outputs_of_a_static_side_input_can_be_read_without_a_clock_of_its_source(
    host: str,
    use: Callable[[Any, Any], None],
    kept: list[Any],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    def build(p: dm.Pipeline) -> None:
        use(p | "script" >> TestStream().add(1, 0), _names(p, tmp_path))

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    assert _values(result) == ["one"]
    assert [record.value for record in result.collected("kept")] == kept


@pytest.mark.parametrize("host", ["local", "workers", "process"])
def test_a_source_that_is_read_both_directly_and_as_a_side_input_must_have_the_clock_of_the_run(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    (tmp_path / "names.csv").write_text("number,name\n1,one\n")

    def build(p: dm.Pipeline) -> None:
        names = p | "names" >> dm.io.ReadCsv(tmp_path / "names.csv", event_time=None)
        script = p | "script" >> TestStream().add(1, 0)
        looked_up = script | "look" >> dm.Map(lambda number, names: (number, list(names)), dm.AsIter(names))
        _ = (looked_up | "out" >> dm.io.Collect(), names | "kept" >> dm.io.Collect())

    with pytest.raises(dm.PlanError, match="one clock, but 'script' scripts it and 'names' has another"):
        run(runner_on(host, request, tmp_path / "checkpoint"), build)
