"""Backfill, then live: no row is read twice or missing at the seam, and the watermark goes on there."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import CrashPoint
from tests.support.backfilling import COLUMNS, EACH, LAST, SEAM, Log, build, merged, write_history
from tests.support.faults.killed_jobs import collected_after_kills
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import difference, run, seen, streaming
from tests.support.runners.local_streams import Stepped
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_history(tmp_path)
    (tmp_path / "end").write_text(str(LAST))
    return tmp_path


def numbers(records: Any) -> list[int]:
    return sorted(record.value for record in records)


@pytest.mark.parametrize(
    "runner",
    [
        pytest.param(lambda _: dm.LocalRunner(), id="in process"),
        pytest.param(lambda _: dm.LocalRunner(workers=2), id="workers"),
        pytest.param(lambda folder: dm.LocalRunner(checkpoint=folder / "checkpoint"), id="stream"),
    ],
)
@pytest.mark.parametrize("has_gaps", [False, True])
@pytest.mark.parametrize("replays", [False, True])
def test_a_bounded_run_reads_each_row_once(
    folder: Path, runner: Callable[[Path], dm.LocalRunner], has_gaps: bool, replays: bool
) -> None:
    read = merged(folder, replays=replays, bounded=True, has_gaps=has_gaps)
    result = run(runner(folder), lambda p: build(p, read))
    assert numbers(result.collected("n")) == EACH
    if replays:
        assert not result.metrics()["sums"].get("dropped_because_late")


@pytest.mark.parametrize("mode", ["batch", "streaming"])
def test_spark_reads_each_row_once(folder: Path, spark: SparkSession, mode: str) -> None:
    runner = (
        dm.SparkRunner(spark) if mode == "batch" else streaming(spark, folder / "checkpoint", max_rows_per_batch=30)
    )
    result = run(runner, lambda p: build(p, merged(folder, replays=False, bounded=mode == "batch")))
    assert numbers(result.collected("n")) == EACH


def stepped(folder: Path, rows: int, *, replays: bool, has_gaps: bool = False) -> Stepped:
    read = merged(folder, replays=replays, has_gaps=has_gaps)
    return Stepped(lambda p: build(p, read), folder / f"checkpoint-{rows}-{replays}-{has_gaps}", rows, until="drained")


def stepped_on(stream: Stepped, count: int) -> bool:
    """Start a stream again, and run some micro-batches; return whether its input is over."""
    with stream.opened() as opened:
        for _ in range(count):
            if not opened.is_over:
                opened.step()
        return opened.is_over


@share_of_examples(0.2)
@given(
    rows=st.integers(8, 40),
    stops=st.lists(st.integers(1, 4), max_size=4),
    replays=st.booleans(),
    has_gaps=st.booleans(),
)
def test_a_stream_that_is_cut_and_started_again_anywhere_reads_each_row_once(
    tmp_path_factory: pytest.TempPathFactory, rows: int, stops: list[int], replays: bool, has_gaps: bool
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    write_history(folder)
    (folder / "end").write_text(str(LAST))
    stream = stepped(folder, rows, replays=replays, has_gaps=has_gaps)
    counts = itertools.chain(stops, itertools.repeat(1_000))
    while not stepped_on(stream, next(counts)):
        continue
    assert numbers(stream.collected("n")) == EACH


def test_under_a_replay_clock_the_panes_are_those_of_a_run_without_a_seam(folder: Path) -> None:
    expected = seen(
        run(dm.LocalRunner(), lambda p: build(p, merged(folder, replays=True, bounded=True))).collected("panes")
    )
    assert expected
    for rows in (9, 1_000):
        stream = stepped(folder, rows, replays=True)
        while not stepped_on(stream, 2):
            continue
        problem = difference(expected, seen(stream.collected("panes")))
        assert not problem, problem


def test_the_watermark_continues_from_the_history_to_the_live_rows(folder: Path) -> None:
    stream = stepped(folder, 10, replays=True)
    watermarks = []
    with stream.opened() as opened:
        while not opened.is_over:
            opened.step()
            watermarks.append(int(stream.watermarks()["rows"]))
    assert watermarks == sorted(watermarks)
    at_seam = [mark for mark in watermarks if (SEAM - 15) * 10**6 <= mark <= (SEAM + 5) * 10**6]
    assert at_seam  # it neither jumps to the end of the files' time nor falls back
    assert not stream.metrics()["sums"].get("dropped_because_late")


def test_the_log_is_listed_once_the_files_have_been_read_and_is_followed_then(folder: Path) -> None:
    (folder / "end").write_text("60")
    read = merged(folder, replays=False)
    stream = Stepped(lambda p: build(p, read), folder / "checkpoint", 10)
    with stream.opened() as opened:
        opened.step()
        assert {name.partition("/")[0] for name in opened.offset.sources["rows"].names()} == {"history"}
        while opened.step():
            continue
        assert {name.partition("/")[0] for name in opened.offset.sources["rows"].names()} == {"history", "live"}
        (folder / "end").write_text(str(LAST))
        while opened.step():
            continue
    assert numbers(stream.collected("n")) == EACH


@pytest.mark.parametrize("replays", ["replays", "arrives"])
@pytest.mark.parametrize("points", [CrashPoint.POINTS[2::4], pytest.param(CrashPoint.POINTS, marks=pytest.mark.slow)])
def test_a_stream_that_is_killed_around_the_seam_reads_each_row_once(
    folder: Path, points: tuple[str, ...], replays: str
) -> None:
    # The seam is in the sixth micro-batch.
    collected = collected_after_kills("tests.support.backfilling", folder, points, replays, first=3)
    assert sorted(collected) == EACH


@dm.io.source(schema=pa.schema({"at": pa.int64(), "n": pa.int64()}), event_time="at", limit=7)
def service(cursor: Any, limit: int) -> tuple[list[dict[str, int]], int]:
    """Return events with numbers, from the cursor on."""
    first = cursor or 0
    following = min(first + limit, LAST)
    return [{"at": number, "n": number} for number in range(first, following)], following


def test_a_table_can_be_continued_by_a_source_of_a_function(tmp_path: Path) -> None:
    table = pd.DataFrame({"at": range(60), "n": range(60)})
    history = dm.io.ReadTable(table, event_time="at", event_time_unit="us")
    read = dm.io.Then(history, service(), at=dm.EventTime(55))
    result = run(
        dm.LocalRunner(checkpoint=tmp_path, max_rows_per_batch=9),
        lambda p: p | read | dm.Map(lambda row: row.n) | "n" >> dm.io.Collect(),
    )
    assert numbers(result.collected("n")) == EACH


@pytest.mark.parametrize(
    ("history", "at", "difference"),
    [
        (None, 70, r"up to 1970-01-01T00:01:10Z and Log from there on"),
        (None, None, r"up to the last row and Log from there on"),
        (dm.io.source(schema=COLUMNS, event_time="at", bounded=True)(lambda *_: ([], None))(), SEAM, "EventsSource up"),
    ],
)
def test_a_run_does_not_go_on_with_another_seam_or_another_kind_of_history(
    folder: Path, history: Any, at: int | None, difference: str
) -> None:
    files = dm.io.ReadParquet(folder / "history", event_time="at")
    live = dm.Read(Log(folder=folder))
    before = dm.io.Then(files, live, at=dm.EventTime(SEAM * 10**6))
    assert not stepped_on(Stepped(lambda p: build(p, before), folder / "checkpoint", 10), 2)
    after = dm.io.Then(history or files, live, at=None if at is None else dm.EventTime(at * 10**6))
    with pytest.raises(dm.CheckpointMismatch, match=f"'rows' was: ParquetSource up to .* it is: .*{difference}"):
        Stepped(lambda p: build(p, after), folder / "checkpoint", 10).steps()
    p = dm.Pipeline()
    build(p, after)
    [fate] = [fate for fate in dm.upgrade(folder / "checkpoint", pipeline=p).fates if fate.label == "rows"]
    assert fate.outcome.value == "needs --drop"
    assert difference in fate.change
    dm.upgrade(folder / "checkpoint", folder / "upgraded")
    with pytest.raises(dm.CheckpointMismatch, match=f"'rows' .*{difference}"):
        Stepped(lambda p: build(p, after), folder / "upgraded", 10).steps()


def table(**columns: Any) -> Any:
    return dm.io.ReadTable(pd.DataFrame(columns), event_time="at", event_time_unit="us")


def test_convert_makes_the_columns_of_the_history() -> None:
    def doubled(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict({"at": batch["at"], "n": [2 * half for half in batch["half"].to_pylist()]})

    with dm.Pipeline() as p:
        read = dm.io.Then(
            table(at=[1, 2], n=[10, 20]), table(at=[2, 3], half=[10, 15]), at=dm.EventTime(2), convert=doubled
        )
        _ = p | read | dm.Map(lambda row: row.n) | "n" >> dm.io.Collect()
    assert p.result is not None
    assert numbers(p.result.collected("n")) == [10, 20, 30]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: dm.io.Then(dm.Read(Log(folder=REPOSITORY)), table(at=[1], n=[1])), "`history` must have an end"),
        (lambda: dm.io.Then(dm.Create([1]), table(at=[1], n=[1])), "`history` must be a source of rows"),
        (
            lambda: dm.io.Then(table(at=[1], n=[1]), dm.io.ReadTable(pd.DataFrame({"n": [1]}), event_time=None)),
            "`history` and `live` must have the same event_time, got 'at' and None",
        ),
        (
            lambda: dm.io.Then(
                dm.io.ReadTable(pd.DataFrame({"n": [1]}), event_time=None),
                dm.io.ReadTable(pd.DataFrame({"n": [1]}), event_time=None),
                at=dm.EventTime(0),
            ),
            "`at` is an event time, but the event times of `history` are in no column, got None",
        ),
    ],
)
def test_mistakes_are_found_when_the_source_is_made(make: Callable[[], Any], problem: str) -> None:
    with pytest.raises(dm.DataflowError, match=problem + ".*\nHint: "):
        make()


@pytest.mark.parametrize(
    ("live", "problem"),
    [
        ({"at": [2], "other": [1]}, "the rows of a table have no column 'n', which a table has"),
        ({"at": [2], "n": ["x"]}, "column 'n' of a table is int64, but that of a table is .*string"),
        ({"at": pd.to_datetime([2], utc=True), "n": [1]}, "column 'at' of a table is int64, but that .* is timestamp"),
    ],
)
def test_live_columns_that_are_not_those_of_the_history_are_found_when_the_source_is_made(
    live: Any, problem: str
) -> None:
    live = dm.io.ReadTable(pd.DataFrame(live), event_time="at")
    with pytest.raises(dm.InvalidArgument, match=problem + ".*\nHint: pass convert="):
        dm.io.Then(table(at=[1], n=[1]), live)


def test_numbers_are_not_read_as_text_because_the_history_has_text() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"column 'n' of a table is .*string, but that of a table is int64"):
        dm.io.Then(table(at=[1], n=["x"]), table(at=[2], n=[1]))


def test_live_numbers_of_another_width_have_the_type_of_the_history() -> None:
    narrow = pa.table({"at": [1], "n": pa.array([1], pa.int16())})
    with dm.Pipeline() as p:
        history = dm.io.ReadTable(narrow, event_time="at", event_time_unit="us")
        _ = p | dm.io.Then(history, table(at=[2, 3], n=[2, 3])) | dm.Map(lambda row: row.n) | "n" >> dm.io.Collect()
    assert p.result is not None
    assert numbers(p.result.collected("n")) == [1, 2, 3]
    with pytest.raises(dm.DataflowError, match="the rows of a table do not fit the columns of a table: "):
        run(dm.LocalRunner(), lambda p: p | dm.io.Then(history, table(at=[2], n=[2**40])) | dm.io.Collect())


@pytest.mark.parametrize(
    ("convert", "problem"),
    [
        (lambda batch: batch.slice(1), "`convert` must return a batch of Arrow with 1 rows"),
        (lambda batch: batch.select(["at"]), "the rows of a table have no column 'n', which a table has"),
        (
            lambda batch: pa.record_batch({"at": batch["at"], "n": ["1"]}),
            "column 'n' of a table is int64, but that of a table is string",
        ),
    ],
)
def test_converted_rows_without_the_columns_of_the_history_are_an_error(convert: Any, problem: str) -> None:
    with pytest.raises(dm.DataflowError, match=problem), dm.Pipeline() as p:
        _ = p | dm.io.Then(table(at=[1], n=[1]), table(at=[2], n=[1]), convert=convert) | dm.io.Collect()
