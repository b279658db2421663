"""Tables that are read again: each element sees one whole reading, and rows that are gone disappear."""

from __future__ import annotations

import contextlib
import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.testing import CrashPoint, ManualClock
from tests.support import reading_again
from tests.support.faults.killed_jobs import collected_after_kills
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import run, start, streaming
from tests.support.reading_again import check_looked_up
from tests.support.runners.local_streams import Stepped, put_rows
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

COLUMNS = pa.schema({"name": pa.string(), "rate": pa.float64()})
FIRST = [("EUR", 1.1), ("GBP", 1.5)]
SECOND = [("GBP", 1.6), ("JPY", 0.01)]


def put(folder: Path, rows: Sequence[tuple[str, float | None]]) -> Path:
    """Replace the table, and return its path."""
    path, fresh = folder / "rates.parquet", folder / ".fresh"
    pq.write_table(pa.Table.from_pylist([dict(zip(COLUMNS.names, row, strict=True)) for row in rows], COLUMNS), fresh)
    return fresh.rename(path)


@attrs.define
class Job:
    """A stream that looks up the table for each element, step by step; an hour passes when a test says so."""

    folder: Path
    look: Callable[[dm.Pipeline, Any], Any] | None = None
    interval: dm.Duration | None = None
    clock: ManualClock = attrs.field(factory=lambda: ManualClock("2013-01-01T00:00Z"))
    count: int = 0

    def build(self, p: dm.Pipeline) -> None:
        """Build the pipeline."""
        reading = dm.io.ReadParquet(self.folder / "rates.parquet", event_time=None, schema=COLUMNS)
        rows = p | "rates" >> dm.io.ReadAgain(reading, every="1 hour")
        _ = rows | "changes" >> dm.io.Collect()
        table = self.look(p, rows) if self.look else dm.AsDict(rows | dm.WithKeys("name", value="rate"))
        elements = p | "rows" >> dm.io.ReadParquet(self.folder / "in", event_time=dm.ARRIVAL, follow=True)
        _ = elements | "look" >> dm.Map(_looked, table) | "out" >> dm.io.Collect()

    @property
    def stream(self) -> Stepped:
        """The stream."""
        return Stepped(self.build, self.folder / "checkpoint", clock=self.clock, interval=self.interval)

    def element_sees(self, *, later: str = "0 s") -> Any:
        """Send an element, some time later, and return what it sees; `None` if it waits."""
        put_rows(self.folder / "in", str(self.count), [(0, "a", self.count)])
        self.step(later=later)
        seen = [record.value[1] for record in self.stream.collected("out") if record.value[0] == self.count]
        self.count += 1
        return seen[0] if seen else None

    def step(self, *, later: str = "0 s") -> None:
        """Start the stream again, and run what there is to do."""
        self.clock.advance(later)
        self.stream.steps()

    def counters(self, label: str) -> dict[str, Any]:
        """Return the counters of a transform."""
        return self.stream.metrics()[label]


def _looked(row: Any, table: Any) -> tuple[int, Any]:
    return row.n, dict(table) if isinstance(table, dict) else sorted(table)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "in").mkdir()
    put(tmp_path, FIRST)
    return Job(tmp_path)


def test_an_element_sees_the_newest_reading_and_no_rows_that_are_gone(job: Job) -> None:
    assert job.element_sees() == dict(FIRST)
    put(job.folder, SECOND)
    assert job.element_sees(later="59 minutes") == dict(FIRST)
    assert job.element_sees(later="1 minute") == dict(SECOND)
    put(job.folder, [])
    assert job.element_sees(later="1 hour") == {}


def test_elements_of_the_micro_batch_with_a_reading_see_it(job: Job) -> None:
    put(job.folder, [])
    job.step()
    put(job.folder, SECOND)
    assert job.element_sees(later="1 hour") == dict(SECOND)


def test_a_table_without_rows_keeps_no_element_waiting(job: Job) -> None:
    put(job.folder, [])
    assert job.element_sees() == {}


def test_a_table_without_rows_keeps_no_element_waiting_in_rounds(job: Job) -> None:
    put(job.folder, [])
    rounds = attrs.evolve(job, interval=dm.duration("1 minute"))
    assert rounds.element_sees() == {}
    put(job.folder, SECOND)
    assert rounds.element_sees(later="1 hour") == dict(SECOND)


def test_readings_that_are_the_same_emit_nothing(job: Job) -> None:
    for _ in range(3):
        assert job.element_sees(later="1 hour") == dict(FIRST)
    assert job.counters("rates/Rows")["elements_in"] == 3
    assert [tuple(record.value) for record in job.stream.collected("changes")] == FIRST


def test_only_rows_that_have_changed_are_emitted(job: Job) -> None:
    job.step()
    put(job.folder, [("EUR", 1.1), ("GBP", 1.6)])
    job.step(later="1 hour")
    changes = [(record.is_retraction, tuple(record.value)) for record in job.stream.collected("changes")]
    assert changes[2:] == [(True, ("GBP", 1.5)), (False, ("GBP", 1.6))]


def test_groupings_of_a_table_are_corrected(job: Job) -> None:
    def counted(p: dm.Pipeline, rows: Any) -> Any:
        del p
        return dm.AsDict(rows | dm.WithKeys("name", value="rate") | dm.GroupByKey())

    job.look = counted
    put(job.folder, [("EUR", 1.1), ("EUR", 1.2), ("GBP", 1.5)])
    assert job.element_sees() == {"EUR": [1.1, 1.2], "GBP": [1.5]}
    put(job.folder, [("EUR", 1.2)])
    assert job.element_sees(later="1 hour") == {"EUR": [1.2]}


def test_a_reading_that_fails_leaves_the_former_one(job: Job, caplog: pytest.LogCaptureFixture) -> None:
    job.element_sees()
    (job.folder / "rates.parquet").unlink()
    with caplog.at_level(logging.WARNING):
        assert job.element_sees(later="1 hour") == dict(FIRST)
    assert "could not be read again; what was read before stays: there is no file in" in caplog.text
    assert job.counters("rates/Readings")["readings_failed"] >= 1
    put(job.folder, SECOND)
    assert job.element_sees(later="10 seconds") == dict(SECOND)


def test_a_reading_with_other_columns_leaves_the_former_one(job: Job) -> None:
    job.element_sees()
    pq.write_table(pa.table({"other": [1]}), job.folder / "rates.parquet")
    assert job.element_sees(later="1 hour") == dict(FIRST)


def test_a_reading_with_a_bad_row_leaves_the_former_one(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "rates.csv"
    path.write_text("name,rate\nEUR,1.1\n")
    seen: list[Any] = []

    def build(p: dm.Pipeline) -> None:
        table = dm.io.ReadCsv(path, event_time=None, schema=COLUMNS)
        rows = p | dm.io.ReadAgain(table, every="1 hour") | dm.Map(tuple)
        _ = rows | dm.io.ForeachBundle(seen.extend, whole_records=True)

    clock = ManualClock("2013-01-01T00:00Z")
    stream = Stepped(build, tmp_path / "checkpoint", clock=clock)
    stream.steps()
    path.write_text("name,rate\nEUR,none\n")
    clock.advance("1 hour")
    with caplog.at_level(logging.WARNING):
        stream.steps()
    assert "column 'rate' is double and cannot hold 'none'" in caplog.text
    assert [record.value for record in seen] == [("EUR", 1.1)]


def test_the_first_reading_must_succeed(job: Job) -> None:
    (job.folder / "rates.parquet").unlink()
    with pytest.raises(dm.SourceError, match="there is no file in"):
        job.step()


class Replaced(dm.io.ColumnSource):
    """A table that is replaced while it is read, some times."""

    event_time = None

    def __init__(self, times: int) -> None:
        self.times = times
        self.calls: list[int] = []

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return pa.schema({"call": pa.int64()})

    def origins(self) -> list[dm.io.Origin]:
        """Return the rows as they are now."""
        self.calls.append(len(self.calls))
        return [dm.io.Origin("rows", 1, version=(len(self.calls),))]

    def version_of(self, origin: str) -> tuple[int | str, ...]:
        """Return another version for some times."""
        del origin
        return (len(self.calls) + (len(self.calls) <= self.times),)

    def read(self, origin: str, start: int, stop: int | None) -> Any:
        """Return the number of the call."""
        del origin, start, stop
        yield pa.record_batch({"call": [len(self.calls)]})


def test_a_table_that_is_replaced_while_it_is_read_is_read_once_more() -> None:
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadAgain(dm.Read(Replaced(2)), every=1) | dm.Map(tuple) | "rows" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("rows")] == [(3,)]


def test_a_table_that_is_replaced_all_the_time_is_not_read() -> None:
    with pytest.raises(dm.SourceError, match="was replaced 3 times while it was read"), dm.Pipeline() as p:
        _ = p | dm.io.ReadAgain(dm.Read(Replaced(100)), every=1) | dm.io.Collect()


class Rate(NamedTuple):
    """A row as an instance of a class."""

    name: str
    rate: float


def test_rows_are_instances_of_a_class(tmp_path: Path) -> None:
    table = dm.io.ReadParquet(put(tmp_path, FIRST), event_time=None, row_type=Rate)
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadAgain(table, every="1 hour") | "rows" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("rows")] == [Rate(*row) for row in FIRST]


@pytest.mark.parametrize(
    "runner", [dm.LocalRunner(), pytest.param(dm.LocalRunner(workers=2), marks=pytest.mark.slow)], ids=str
)
def test_a_bounded_run_reads_the_table_once(tmp_path: Path, runner: dm.LocalRunner) -> None:
    _check_read_once(tmp_path, runner)


def test_a_batch_job_on_spark_reads_the_table_once(tmp_path: Path, spark: SparkSession) -> None:
    _check_read_once(tmp_path, dm.SparkRunner(spark))


def _check_read_once(folder: Path, runner: Any) -> None:
    readings = folder / "readings"
    readings.mkdir()

    @dm.io.source(bounded=True, schema=COLUMNS)
    def rates(cursor: Any, limit: int) -> Any:
        del cursor, limit
        (readings / str(len(list(readings.iterdir())))).touch()
        return [dict(zip(COLUMNS.names, row, strict=True)) for row in FIRST], None

    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadAgain(rates(), every="1 us")
        table = dm.AsDict(rows | dm.WithKeys("name", value="rate"))
        _ = p | dm.Create(range(50)) | dm.Map(lambda n, table: (n, dict(table)), table) | "out" >> dm.io.Collect()

    result = run(runner, build, None)
    assert sorted(record.value[0] for record in result.collected("out")) == list(range(50))
    assert all(record.value[1] == dict(FIRST) for record in result.collected("out"))
    assert len(list(readings.iterdir())) == 1


def test_a_stream_on_spark_reads_the_table_again(tmp_path: Path, spark: SparkSession) -> None:
    put(tmp_path, FIRST)
    put_rows(tmp_path / "in", "0", [(0, "a", 0)])

    def build(p: dm.Pipeline) -> None:
        reading = dm.io.ReadParquet(tmp_path / "rates.parquet", event_time=None)
        rows = p | "rates" >> dm.io.ReadAgain(reading, every="1 us") | "pairs" >> dm.WithKeys("name", value="rate")
        _ = rows | "changes" >> dm.io.Collect()
        elements = p | "rows" >> dm.io.ReadParquet(tmp_path / "in", event_time=dm.ARRIVAL, follow=True)
        _ = elements | "look" >> dm.Map(_looked, dm.AsDict(rows)) | "out" >> dm.io.Collect()

    result: Any = start(streaming(spark, tmp_path / "checkpoint"), build)
    wait_for(result, lambda: len(result.collected("out")) == 1)
    put(tmp_path, SECOND)
    wait_for(result, lambda: len(result.collected("changes")) == 2 + 4)
    put_rows(tmp_path / "in", "1", [(0, "a", 1)])
    wait_for(result, lambda: len(result.collected("out")) == 2)
    result.stop()
    assert sorted(record.value for record in result.collected("out")) == [(0, dict(FIRST)), (1, dict(SECOND))]


@pytest.mark.parametrize("points", [CrashPoint.POINTS[::3], pytest.param(CrashPoint.POINTS, marks=pytest.mark.slow)])
def test_elements_of_a_killed_stream_see_one_reading_each(tmp_path: Path, points: tuple[str, ...]) -> None:
    check_looked_up(collected_after_kills("tests.support.reading_again", tmp_path, points))


@pytest.mark.parametrize(
    "point",
    [
        "after_publishing",
        *(pytest.param(point, marks=pytest.mark.slow) for point in ("after_state", "after_writing", "after_progress")),
    ],
)
def test_elements_of_a_killed_stream_on_spark_see_one_reading_each(
    spark: SparkSession, tmp_path: Path, point: str
) -> None:
    runner = streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=20)

    def build(p: dm.Pipeline) -> None:
        reading_again.build(p, str(tmp_path))

    with CrashPoint(point, micro_batch=2) as crash:
        result: Any = start(runner, build, until="drained")
        with contextlib.suppress(Exception):  # Spark says in several ways that a process has ended
            result.wait_until_finish()
    assert crash.was_reached
    finished = run(runner, build)
    check_looked_up({sink: [record.value for record in finished.collected(sink)] for sink in "ab"})


ROWS = st.tuples(st.sampled_from(["EUR", "GBP", None]), st.sampled_from([1.5, None, float("nan"), -0.0, 0.0]))


@share_of_examples(0.4)
@given(st.lists(st.lists(ROWS, max_size=4), min_size=1, max_size=4), st.booleans())
def test_an_element_sees_exactly_the_rows_of_a_reading(tables: list[list[Any]], is_grouped: bool) -> None:
    def as_text(p: dm.Pipeline, rows: Any) -> Any:
        del p
        texts = rows | "text" >> dm.Map(lambda row: repr(tuple(row)))
        if is_grouped:
            texts = texts | "pair" >> dm.Map(lambda text: (text, None)) | dm.GroupByKey() | dm.FlatMap(_repeated)
        return dm.AsIter(texts)

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        job = Job(folder, as_text)
        seen = []
        for rows in tables:
            put(folder, rows)
            seen.append(job.element_sees(later="1 hour"))
    expected = [sorted(map(repr, rows)) for rows in tables]
    waits = 0
    while is_grouped and waits < len(tables) and not tables[waits]:
        waits += 1  # behind a grouping, elements wait for its first pane
    assert seen[waits:] == expected[waits:]


def _repeated(pair: Any) -> list[str]:
    text, values = pair
    return [text] * len(values)


def read_parquet(path: Path, **options: Any) -> Any:
    return dm.io.ReadParquet(path, event_time=dm.ARRIVAL, **options)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda _: dm.io.ReadAgain([1], every=1), dm.InvalidType, "`table` must be a source of rows, got"),  # type: ignore[arg-type]
        (lambda _: dm.io.ReadAgain(dm.Create([1]), every=1), dm.InvalidType, "`table` must be a source of rows"),
        (
            lambda path: dm.io.ReadAgain(read_parquet(path).with_exception_handling(), every=1),
            dm.InvalidType,
            "`table` has an output for bad rows, 'dead_letters', but a reading counts whole or not at all",
        ),
        (
            lambda path: dm.io.ReadAgain(read_parquet(path, follow=True), every=1),
            dm.InvalidArgument,
            "`table` must have an end, got Parquet files",
        ),
        (lambda path: dm.io.ReadAgain(read_parquet(path), every=0), dm.InvalidArgument, "`every` must be positive"),
    ],
)
def test_what_cannot_be_read_again_is_rejected(
    tmp_path: Path, make: Callable[[Path], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(put(tmp_path, FIRST))


def test_a_stream_with_a_replay_clock_beside_it_is_rejected(tmp_path: Path) -> None:
    table = dm.io.ReadAgain(dm.io.ReadParquet(put(tmp_path, FIRST), event_time=None), every="1 hour")
    put_rows(tmp_path / "in", "0", [(0, "a", 0)])
    replayed = dm.io.ReadParquet(tmp_path / "in", event_time="at", processing_time="at", event_time_unit="us")
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path / "checkpoint"))
    _ = p | replayed | dm.Map(_looked, dm.AsIter(p | table)) | dm.io.Collect()
    with pytest.raises(dm.PlanError, match=r"read the table once, without dm\.io\.ReadAgain"):
        p.run()


def test_a_bounded_run_may_replay_or_script_the_elements_that_look_the_table_up(tmp_path: Path) -> None:
    path = put(tmp_path, FIRST)
    put_rows(tmp_path / "in", "0", [(0, "a", 0)])
    replayed = dm.io.ReadParquet(tmp_path / "in", event_time="at", processing_time="at", event_time_unit="us")
    scripted = dm.testing.TestStream().add(0, 5).processing_time(10).add(0, 7)
    for elements, count in ((replayed, 1), (scripted, 2)):
        with dm.Pipeline() as p:
            table = p | "rates" >> dm.io.ReadAgain(dm.io.ReadParquet(path, event_time=None), every="1 hour")
            looked = p | "rows" >> elements | dm.Map(lambda _, rates: sorted(map(tuple, rates)), dm.AsIter(table))
            _ = looked | "out" >> dm.io.Collect()
        assert [record.value for record in p.result.collected("out")] == [FIRST] * count
