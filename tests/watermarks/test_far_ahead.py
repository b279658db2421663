"""Events from the far future: `max_ahead` keeps them from moving a watermark; without it, a jump is reported."""

from __future__ import annotations

import logging
import urllib.request
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.watermarks.estimators import max_ahead_of
from dataflow_model.plan.watermarks.origins import WatermarkOrigins
from dataflow_model.runners.engine.sources.observing import NamedRows, Observations, Observer, at_tick
from dataflow_model.runners.sharded.feed.slices import NOW
from dataflow_model.testing import ManualClock
from tests.support.hosts import on_hosts, runner_on
from tests.support.micro_batches import Run
from tests.support.pipelines import run, seen, start, streaming
from tests.support.runners.local_streams import ROWS, Stepped, put_rows
from tests.support.waiting import wait_for
from tests.support.watermarks import observed
from tests.support.watermarks.observed import Record, Rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

MINUTE = 60_000_000
DAY = 24 * 60 * MINUTE
FAR = DAY + MINUTE
TOO_FAR = "elements_too_far_ahead"


@attrs.frozen
class HalfAMinuteBehind:
    """An estimator of a user's own with a limit."""

    max_ahead: str = "1 day"

    def watermark(self, reached: dm.EventTime) -> dm.EventTime:
        return reached if reached == dm.MIN_TIMESTAMP else reached - dm.Duration(micros=MINUTE // 2)


ESTIMATORS = [
    dm.BoundedOutOfOrderness("1 minute", max_ahead="1 day"),
    dm.Monotonic(max_ahead="1 day"),
    dm.Explicit(lambda row: row.n % 3 == 1, max_ahead="1 day"),
    dm.AdaptiveLateness(0.2, max_ahead="1 day"),
    HalfAMinuteBehind(),
]
sources = st.builds(Rows, watermark=observed.estimators(), watermark_origins=observed.origins())
PERCENTILES = (25.0, 50.0, 90.0)


# What an estimator sees.


def summary(observations: Observations) -> list[tuple[Any, ...]]:
    return [
        (part.name, *(None if column is None else column.tolist() for column in attrs.astuple(part)[1:]))
        for part in observations.parts
    ]


@given(sources, observed.records())
@example(Rows(dm.Monotonic(max_ahead="5 microseconds")), [Record(0, 3, "a"), Record(1, 7, "a"), Record(2, 4, "b")])
@example(
    Rows(dm.Monotonic(max_ahead="5 microseconds"), WatermarkOrigins(by="partition")),
    [Record(0, 3, "a"), Record(1, 70, "b"), Record(2, 4, "a")],
)
def test_an_element_too_far_ahead_does_not_change_the_watermark(source: Rows, records: list[Record]) -> None:
    limit = max_ahead_of(source.watermark)
    assume(limit is not None)
    near = [record for record in records if record.time - record.tick <= int(limit or 0)]
    whole, without = observed.read(source, records, PERCENTILES), observed.read(source, near, PERCENTILES)
    assert whole.too_far == len(records) - len(near)
    assert whole.ticks.tolist() == sorted({record.tick for record in records})
    assert summary(whole) == summary(without)


@given(sources, observed.records(), st.integers(0, 12))
def test_records_are_observed_alike_whether_their_tick_is_known_before_or_after(
    source: Rows, records: list[Record], tick: int
) -> None:
    def read(tick: int) -> Observations:
        observer = Observer("source", "f", source, PERCENTILES)
        times = np.array([record.time for record in records], np.int64)
        observer.take(np.full(len(records), tick, np.int64), times, NamedRows(records))
        return observer.seen()

    placed, known = at_tick(read(NOW[0]), tick, source, PERCENTILES), read(tick)
    assert (placed.ticks.tolist(), placed.too_far) == (known.ticks.tolist(), known.too_far)
    assert summary(placed) == summary(known)


@pytest.mark.parametrize("kind", [dm.Monotonic, lambda **given: dm.BoundedOutOfOrderness(5, **given)])
def test_max_ahead_must_be_a_duration_that_is_not_negative(kind: Callable[..., Any]) -> None:
    assert max_ahead_of(kind(max_ahead="1 day")) == dm.Duration(micros=DAY)
    assert max_ahead_of(kind()) is None
    with pytest.raises(dm.InvalidArgument, match="`max_ahead` must not be negative, got '-1 day'"):
        kind(max_ahead="-1 day")
    with pytest.raises(dm.InvalidArgument, match="'soon' is not a duration"):
        kind(max_ahead="soon")


def test_max_ahead_is_not_shown_if_it_is_not_set() -> None:
    assert repr(dm.Monotonic()) == "Monotonic()"
    assert repr(dm.BoundedOutOfOrderness("1 minute")) == "BoundedOutOfOrderness(delay=Duration(60s))"
    assert repr(dm.AdaptiveLateness(0.5)) == "AdaptiveLateness(fraction=0.5)"
    assert repr(dm.Explicit(bool)) == "Explicit(bool)"
    assert repr(dm.Explicit(bool, max_ahead=5)) == "Explicit(bool, max_ahead=Duration(5s))"


def test_max_ahead_of_a_users_estimator_is_checked_when_it_is_passed() -> None:
    with pytest.raises(dm.InvalidArgument, match="`max_ahead` must not be negative"):
        dm.io.ReadTable(table([]), event_time="at", watermark=HalfAMinuteBehind("-1 day"))


def test_max_ahead_is_rejected_if_no_event_time_can_be_ahead_of_the_clock() -> None:
    read = dm.io.ReadTable(table([]), event_time=dm.ARRIVAL, watermark=dm.Monotonic(max_ahead="1 day"))
    with pytest.raises(dm.InvalidArgument, match="each element happens when it arrives") as refused:
        _ = dm.Pipeline() | read
    assert "or leave `max_ahead` out" in str(refused.value)
    with pytest.raises(TypeError, match="max_ahead"):
        dm.WallTime("1 minute", max_ahead="1 day")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with pytest.raises(dm.InvalidType, match="expected a source of rows"):
        dm.Injector(dm.testing.TestStream(), watermark=dm.Monotonic(max_ahead="1 day"))  # type: ignore[arg-type]


# Pipelines.


def table(rows: Sequence[tuple[int, int, str, int]]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    types = pa.schema({"at": pa.int64(), "seen": pa.int64(), "key": pa.string(), "n": pa.int64()})
    return pa.table(columns, schema=types)


def honest(count: int = 60) -> list[tuple[int, int, str, int]]:
    """Return rows `(at, seen, key, n)`, one a minute, five seconds late."""
    return [(n * MINUTE - 5_000_000, n * MINUTE, "ab"[n % 2], n) for n in range(count)]


def with_liars(ahead: int = FAR) -> list[tuple[int, int, str, int]]:
    """Return the same, some of them far in the future."""
    return [(seen + ahead if n in {10, 11, 30} else at, seen, key, n) for at, seen, key, n in honest()]


def chained(folder: Path, estimator: Any, clock: str | None = "seen", **options: Any) -> Callable[[dm.Pipeline], None]:
    """Return sums by key and minute, and their totals by ten minutes."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(
            folder, event_time="at", processing_time=clock, watermark=estimator, **options
        )
        sums = (
            rows
            | "pairs" >> dm.Map(lambda row: (row.key, row.n))
            | "minutes" >> dm.Window.into(dm.FixedWindows("1 minute")).allowed_lateness("10 minutes")
            | "sums" >> dm.Sum.per_key()
        )
        _ = sums | "panes" >> dm.io.Collect()
        tens = sums | "wide" >> dm.Window.into(dm.FixedWindows("10 minutes")).allowed_lateness("20 minutes")
        _ = (
            tens
            | "again" >> dm.Map(lambda pair: ("all", pair[1]))
            | "totals" >> dm.Sum.per_key()
            | "totalled" >> dm.io.Collect()
        )

    return build


def written(folder: Path, rows: Sequence[tuple[int, int, str, int]], files: int = 1) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        pq.write_table(table(rows[number::files]), folder / f"{number}.parquet")
    return folder


def without_late(collected: Any) -> list[tuple[Any, ...]]:
    return [record for record in seen(collected) if int(record[3]) < DAY]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@on_hosts("local", "workers", "process", slow=("streaming",))
def test_rows_from_the_future_change_no_pane_of_other_rows(
    host: str, estimator: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    liars, rest = with_liars(), [row for row in with_liars() if row[0] - row[1] < DAY]
    expected = run(dm.LocalRunner(), chained(written(tmp_path / "rest", rest), estimator))
    runner = runner_on(host, request, tmp_path / "checkpoint")
    result = run(runner, chained(written(tmp_path / "rows", liars), estimator))
    for sink in ("panes", "totalled"):
        assert without_late(result.collected(sink)) == seen(expected.collected(sink))
        assert len(result.collected(sink)) > len(expected.collected(sink))  # they are elements, in their windows
    assert result.metrics()["rows"]["elements_out"] == 60
    assert result.report().transforms["rows"].counters[TOO_FAR] == 3
    assert not result.metrics()["sums"].get("dropped_because_late")
    assert result.report().transforms["rows"].watermark_jump is None


ORIGINS: list[dict[str, Any]] = [
    {},
    {"watermark_origin": "file"},
    {"watermark_origin": "key", "partitions": ["a", "b"], "idle_after": "5 minutes"},
    {"watermark_origin": "key", "max_skew": "5 minutes", "weight": "records"},
]


@pytest.mark.parametrize("options", ORIGINS, ids=str)
@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_the_same_rows_are_too_far_ahead_with_any_shards_micro_batches_and_restarts(
    tmp_path: Path, options: dict[str, Any], rows: int
) -> None:
    folder = written(tmp_path / "rows", with_liars(), files=2)
    build = chained(folder, ESTIMATORS[0], **options)
    expected = run(dm.LocalRunner(), build)
    first = Run(build, tmp_path / "run", rows, shards=3).steps(5)
    second = first.restarted(build).steps(5).upgraded(build, shards=2)
    second.finish()
    for sink in ("panes", "totalled"):
        assert seen(second.collected(sink)) == seen(expected.collected(sink))
    assert second.metrics()["rows"][TOO_FAR] == expected.metrics()["rows"][TOO_FAR] == 3


def test_an_element_too_far_ahead_does_not_change_percentiles(tmp_path: Path) -> None:
    early = dm.Repeatedly(dm.AfterWatermark(percentile=50))

    def emitted(rows: Sequence[tuple[int, int, str, int]]) -> list[tuple[Any, ...]]:
        def build(p: dm.Pipeline) -> None:
            estimator = dm.BoundedOutOfOrderness("5 minutes", max_ahead="1 day")
            read = p | dm.io.ReadTable(table(rows), event_time="at", processing_time="seen", watermark=estimator)
            windows = dm.Window.into(dm.FixedWindows("1 minute")).trigger(early, may_lose_data=True)
            keyed = read | dm.WithKeys("key", value="n") | windows
            _ = keyed | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

        return without_late(run(dm.LocalRunner(), build).collected("panes"))

    liars = with_liars()
    assert emitted(liars) == emitted([row for row in liars if row[0] - row[1] < DAY])


def test_an_origin_with_only_rows_from_the_future_becomes_idle(tmp_path: Path) -> None:
    rows = [(at if key == "a" or n < 10 else seen + FAR, seen, key, n) for at, seen, key, n in honest()]
    options = {"watermark_origin": "key", "idle_after": "5 minutes"}
    result = run(dm.LocalRunner(), chained(written(tmp_path / "rows", rows), ESTIMATORS[1], **options))
    on_time = [record for record in result.collected("panes") if int(record.processing_time) < 59 * MINUTE]
    assert max(int(record.event_time) for record in on_time) > 50 * MINUTE


def followed(folder: Path, estimator: Any) -> Callable[[dm.Pipeline], None]:
    """Return sums by minute of followed files under the wall clock."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS, watermark=estimator)
        windows = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows("1 minute"))
        _ = windows | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


NOON = 1_356_998_400 + 12 * 3_600
"""Noon of 2013-01-01, in seconds."""
LIE = 2_272_147_200
"""2042-01-01, in seconds."""


def test_rows_too_far_ahead_are_judged_by_the_wall_clock_of_the_micro_batch_that_reads_them(tmp_path: Path) -> None:
    build = followed(tmp_path / "rows", dm.Monotonic(max_ahead="1 hour"))
    clock = ManualClock("2013-01-01T12:00Z")
    stream = Stepped(build, tmp_path / "checkpoint", clock=clock)
    put_rows(tmp_path / "rows", "1", [(NOON, "a", 1), (NOON + 3_600, "a", 2), (NOON + 3_601, "a", 4)])
    stream.steps()
    assert stream.metrics()["rows"][TOO_FAR] == 1
    assert [record.value for record in stream.collected("panes")] == [("a", 1)]
    clock.advance("1 second")
    put_rows(tmp_path / "rows", "2", [(NOON + 3_601, "a", 8), (LIE, "a", 16)])
    stream.steps()  # another process, at another time
    assert stream.metrics()["rows"][TOO_FAR] == 2
    clock.advance("1 hour")
    put_rows(tmp_path / "rows", "3", [(NOON + 3_660, "a", 32)])
    stream.steps()
    assert [record.value for record in stream.collected("panes")] == [("a", 1), ("a", 14)]


# What the log and the report say.


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.WARNING, "dataflow_model")
    return lambda: [record.getMessage() for record in caplog.records if "ahead of the clock" in record.getMessage()]


@on_hosts("local", "workers", "process", slow=("streaming",))
def test_a_watermark_jump_is_logged_once_with_source_event_time_clock_and_the_way_out(
    host: str, tmp_path: Path, request: pytest.FixtureRequest, log: Callable[[], list[str]]
) -> None:
    folder = written(tmp_path / "rows", with_liars())
    options = {"max_rows_per_batch": 7} if host in {"process", "streaming"} else {}
    runner = runner_on(host, request, tmp_path / "checkpoint", **options)
    result = run(runner, chained(folder, dm.Monotonic()))
    (message,) = log()
    assert "the watermark of 'rows' is more than a day ahead of the clock" in message
    assert "event time 1970-01-02T00:11:00Z arrived at 1970-01-01T00:10:00Z" in message
    assert "max_ahead='1 day'" in message
    jump = result.report().transforms["rows"].watermark_jump
    assert (int(jump.event_time), int(jump.clock)) == (10 * MINUTE + FAR, 10 * MINUTE)


@on_hosts("local", "workers", "process", slow=("streaming", "batch"))
def test_elements_too_far_ahead_are_logged_once(
    host: str, tmp_path: Path, request: pytest.FixtureRequest, log: Callable[[], list[str]]
) -> None:
    folder = written(tmp_path / "rows", with_liars())
    result = run(runner_on(host, request, tmp_path / "checkpoint"), chained(folder, ESTIMATORS[0]))
    (message,) = log()
    assert "at 'rows' that are more than max_ahead='1 day' ahead of the clock: 3 so far" in message
    assert result.metrics()["rows"][TOO_FAR] == 3
    with dm.metrics.serve(result, port=0) as server:
        text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    assert 'dataflow_elements_too_far_ahead_total{transform="rows"} 3.0' in text


@pytest.mark.parametrize("ahead", [0, DAY])
def test_a_watermark_that_is_a_day_ahead_or_less_is_not_logged(
    tmp_path: Path, log: Callable[[], list[str]], ahead: int
) -> None:
    result = run(dm.LocalRunner(), chained(written(tmp_path / "rows", with_liars(ahead)), dm.Monotonic()))
    assert not log()
    assert result.report().transforms["rows"].watermark_jump is None


def test_a_bounded_run_without_a_replay_clock_warns_that_max_ahead_has_no_effect(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = written(tmp_path / "rows", with_liars())
    result = run(dm.LocalRunner(), chained(folder, ESTIMATORS[0], clock=None))
    assert "`max_ahead` of 'rows' has no effect in this run" in caplog.text
    assert "processing_time=" in caplog.text
    assert not result.metrics()["sums"].get("dropped_because_late")
    caplog.clear()
    run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), chained(folder, ESTIMATORS[0], clock=None))
    assert "no effect" not in caplog.text


def test_a_watermark_jump_is_reported_during_the_run_and_not_logged_again_after_a_restart(
    tmp_path: Path, log: Callable[[], list[str]]
) -> None:
    build = followed(tmp_path / "rows", dm.Monotonic())
    put_rows(tmp_path / "rows", "1", [(NOON, "a", 1), (LIE, "a", 2)])
    clock = ManualClock("2013-01-01T12:00Z")
    for start_number in range(2):
        result = start(dm.LocalRunner(checkpoint=tmp_path / "checkpoint", clock=clock), build)
        wait_for(result, lambda result=result: result.metrics()["rows"].get("elements_out") == 2)  # type: ignore[misc]
        lag = result.report().transforms["rows"].watermark_lag
        assert lag is not None
        assert int(lag) < -DAY, start_number
        result.stop()
        assert len(log()) == 1


@pytest.mark.slow
def test_rows_of_a_streaming_dataframe_are_judged_by_the_clock_of_their_micro_batch(
    spark: SparkSession, tmp_path: Path, log: Callable[[], list[str]]
) -> None:
    folder = tmp_path / "rows"
    put_rows(folder, "1", [(NOON, "a", 1), (LIE, "a", 2)])

    def build(estimator: Any, **options: Any) -> Callable[[dm.Pipeline], None]:
        frame = spark.readStream.schema("at long, key string, n long").parquet(str(folder))

        def sums(p: dm.Pipeline) -> None:
            rows = p | "rows" >> dm.io.ReadDataFrame(frame, event_time="at", watermark=estimator, **options)
            windows = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows("1 minute"))
            _ = windows | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

        return sums

    def watermark_of(estimator: Any, name: str, **options: Any) -> tuple[int, dict[str, Any], Any]:
        result = start(streaming(spark, tmp_path / name, shards=2), build(estimator, **options))
        wait_for(result, lambda: "sums" in result.watermarks() and result.metrics()["rows"].get("elements_out") == 2)
        found = int(result.watermarks()["rows"]), dict(result.metrics()["rows"])
        jump = result.report().transforms["rows"].watermark_jump
        result.stop()
        return *found, jump

    watermark, counted, jump = watermark_of(dm.Monotonic(), "without")
    assert watermark == LIE * 1_000_000
    assert TOO_FAR not in counted
    assert int(jump.event_time) == LIE * 1_000_000
    assert len(log()) == 1
    for number, options in enumerate(({}, {"watermark_origin": "key"})):
        watermark, counted, jump = watermark_of(dm.Monotonic(max_ahead="1 day"), f"with {number}", **options)
        assert watermark == NOON * 1_000_000
        assert counted[TOO_FAR] == 1
        assert jump is None
    assert len(log()) == 3
