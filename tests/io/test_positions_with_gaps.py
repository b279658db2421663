"""Sources whose positions have gaps and begin anywhere: each row once, and its position is its number."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.gapped_log import GappedLog, append
from tests.support.micro_batches import planning
from tests.support.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FAR = 10**12
LOGS = {"a": ([FAR, FAR + 2, FAR + 3, FAR + 9], FAR + 12), "b": ([5, 6, 50], 60)}
ALL = sorted((origin, place) for origin, (positions, _) in LOGS.items() for place in positions)


def with_id(row: Any, record_id: Any) -> tuple[str, int]:
    return str(record_id), row.position


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for origin, (positions, end) in LOGS.items():
        append(tmp_path / "log", origin, positions, end)
    return tmp_path / "log"


def build(p: dm.Pipeline, source: GappedLog) -> None:
    rows = p | "log" >> dm.Read(source)
    _ = rows | dm.Map(lambda row: row.position) | "positions" >> dm.io.Collect()


def positions(result: Any) -> list[int]:
    return sorted(record.value for record in result.collected("positions"))


def expected() -> list[int]:
    return sorted(place for _, place in ALL)


@pytest.mark.parametrize("workers", [None, 2])
def test_a_bounded_run_reads_each_row_once(folder: Path, workers: int | None) -> None:
    runner = dm.LocalRunner() if workers is None else dm.LocalRunner(workers=workers)
    result = run(runner, lambda p: build(p, GappedLog(folder=folder)))
    assert positions(result) == expected()
    assert result.metrics()["log"]["elements_out"] == len(ALL)


@pytest.mark.parametrize("rows", [1, 2, 7, 1_000])
def test_a_stream_of_a_bounded_log_reads_each_row_once_however_its_micro_batches_are_cut(
    folder: Path, tmp_path: Path, rows: int
) -> None:
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=rows)
    result = run(runner, lambda p: build(p, GappedLog(folder=folder)))
    assert positions(result) == expected()


@pytest.mark.parametrize("rows", [2, 1_000])
def test_a_restarted_stream_continues_after_the_last_position(folder: Path, tmp_path: Path, rows: int) -> None:
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=rows)
    source = GappedLog(folder=folder, is_bounded=False)
    p = dm.Pipeline(runner=runner)
    build(p, source)
    first: Any = p.run()
    while len(first.collected("positions")) < len(ALL):
        first.report()
    first.stop()
    append(folder, "a", [FAR + 13], FAR + 14)
    append(folder, "c", [700, 703], 704)
    result = run(runner, lambda p: build(p, source), until="drained")
    assert positions(result) == sorted([*expected(), FAR + 13, 700, 703])


def test_the_id_of_a_record_contains_the_position_of_its_row(folder: Path, tmp_path: Path) -> None:
    ids = {}
    for place, runner in (("run", dm.LocalRunner()), ("stream", dm.LocalRunner(checkpoint=tmp_path / "checkpoint"))):

        def with_ids(p: dm.Pipeline) -> None:
            rows = p | "log" >> dm.Read(GappedLog(folder=folder))
            _ = rows | dm.Map(with_id) | "positions" >> dm.io.Collect()

        ids[place] = sorted(record.value for record in run(runner, with_ids).collected("positions"))
    assert ids["run"] == ids["stream"]
    assert all(str(position) in record_id for record_id, position in ids["run"])


@pytest.mark.parametrize("shift", [-FAR, FAR])
def test_a_position_outside_of_the_range_is_an_error_with_origin_and_position(folder: Path, shift: int) -> None:
    with pytest.raises(dm.SourceError, match=r"'log' was asked for positions \d+ to \d+ of [ab], each once, but read"):
        run(dm.LocalRunner(), lambda p: build(p, GappedLog(folder=folder, shift=shift)))


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_spark_reads_each_row_once(folder: Path, tmp_path: Path, spark: SparkSession, mode: Any) -> None:
    options: dict[str, Any] = (
        {} if mode == "batch" else {"checkpoint": tmp_path / "checkpoint", "max_rows_per_batch": 4}
    )
    result = run(dm.SparkRunner(spark, mode=mode, **options), lambda p: build(p, GappedLog(folder=folder)))
    assert positions(result) == expected()


def test_an_idle_source_commits_nothing(folder: Path, tmp_path: Path) -> None:
    feed, offset = planning(lambda p: build(p, GappedLog(folder=folder, is_bounded=False)), lambda: 0.0)
    before = offset
    for _ in range(3):
        before, offset = offset, feed.next(offset, drain=False)
        feed.polls.hasten()
    assert offset.sources == {label: source.unpolled() for label, source in before.sources.items()}


@pytest.mark.parametrize(
    ("positions_left", "end", "problem"),
    [
        (
            [FAR + 20],
            FAR + 21,
            rf"'log' was to read a from position {FAR + 12} on, but it begins at {FAR + 20} now: 8 positions are lost",
        ),
        ([FAR], FAR + 4, rf"'log' has read a up to position {FAR + 12}, but it ends at {FAR + 4} now"),
    ],
)
def test_rows_that_are_gone_are_an_error_with_origin_and_position(
    folder: Path, positions_left: list[int], end: int, problem: str
) -> None:
    feed, offset = planning(lambda p: build(p, GappedLog(folder=folder, is_bounded=False)), lambda: 0.0)
    offset = feed.next(offset, drain=False)
    (folder / "a").unlink()
    append(folder, "a", positions_left, end)
    feed.polls.hasten()
    with pytest.raises(dm.SourceError, match=problem + ".*\nHint: "):
        feed.next(offset, drain=False)
