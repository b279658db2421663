"""The watermark of a source is moved back by an upgrade, after an event from the far future."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.testing import ManualClock
from tests.support.micro_batches import Run
from tests.support.pipelines import difference, run, seen, start, streaming
from tests.support.runners.local_streams import ROWS, Stepped, put_rows
from tests.support.upgrade.pipelines import PIPELINES, Build
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

SECOND = 1_000_000
NOON = 1_356_998_400 + 12 * 3_600
"""Noon of 2013-01-01, in seconds."""
LIE = 2_272_147_200
"""2042-01-01, in seconds."""
CAREFUL = dm.Monotonic(max_ahead="1 day")


def sums(folder: Path, estimator: Any, label: str = "rows") -> Build:
    """Return sums by minute, and how many of them there are in each quarter of an hour."""

    def build(p: dm.Pipeline) -> None:
        rows = p | label >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS, watermark=estimator)
        minutes = dm.Window.into(dm.FixedWindows("1 minute"))
        by_minute = rows | dm.WithKeys("key", value="n") | "minutes" >> minutes | "sums" >> dm.Sum.per_key()
        _ = by_minute | "panes" >> dm.io.Collect()
        quarters = by_minute | "quarters" >> dm.Window.into(dm.FixedWindows("15 minutes"))
        _ = (
            quarters
            | "all" >> dm.WithKeys(lambda _: "all")
            | "counts" >> dm.Count.per_key()
            | "counted" >> dm.io.Collect()
        )

    return build


@pytest.fixture
def stopped(tmp_path: Path) -> Stepped:
    """Return a stream that an event from 2042 has moved there, at noon of 2013."""
    stream = Stepped(
        sums(tmp_path / "rows", dm.Monotonic()), tmp_path / "old", clock=ManualClock("2013-01-01T12:00:30Z")
    )
    put_rows(tmp_path / "rows", "1", [(NOON - 60, "a", 1), (NOON + 10, "a", 2)])
    stream.steps()
    put_rows(tmp_path / "rows", "2", [(LIE, "a", 4)])
    stream.steps()
    return stream


def ten_more(stream: Stepped, folder: Path, name: str) -> list[int]:
    """Let ten minutes of honest rows arrive, minute by minute; return what the sums are from then on."""
    stream.steps()
    before = len(stream.collected("panes"))
    for minute in range(1, 11):
        put_rows(folder, f"{name}-{minute}", [(NOON + 60 * minute + 20, "a", minute)])
        stream.steps()
    return [record.value[1] for record in stream.collected("panes")[before:]]


def test_after_a_watermark_jump_all_rows_are_late_and_the_report_says_so(stopped: Stepped, tmp_path: Path) -> None:
    dm.upgrade(stopped.checkpoint, tmp_path / "new")
    new = Stepped(sums(tmp_path / "rows", CAREFUL), tmp_path / "new", clock=stopped.clock)
    assert ten_more(new, tmp_path / "rows", "new") == []
    assert new.metrics()["sums"]["dropped_because_late"] == 10
    watermarks = new.watermarks()
    assert int(watermarks["sums"]) == LIE * SECOND  # what holds
    assert int(watermarks["rows"]) == (NOON + 620) * SECOND  # what the estimator says


@pytest.mark.parametrize("drop", [(), ("sums",), ("counts",), ("sums", "counts")], ids=str)
def test_rows_are_accepted_again_once_the_watermark_was_moved_back(
    stopped: Stepped, tmp_path: Path, drop: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = str(stopped.checkpoint), str(tmp_path / "new")
    dropped = [word for label in drop for word in ("--drop", label)]
    assert main(["upgrade", old, new, "--watermark", "rows=2013-01-01T12:01Z", *dropped]) == 0
    assert "rows: the watermark goes back to 2013-01-01T12:01:00Z" in capsys.readouterr().out
    stream = Stepped(sums(tmp_path / "rows", CAREFUL), tmp_path / "new", clock=stopped.clock)
    assert ten_more(stream, tmp_path / "rows", "new") == list(range(1, 10))  # the window of the tenth is open
    assert not stream.metrics()["sums"].get("dropped_because_late")
    watermarks = stream.watermarks()
    assert {int(watermarks[label]) for label in ("rows", "sums")} == {(NOON + 620) * SECOND}
    put_rows(tmp_path / "rows", "late", [(NOON + 30, "a", 100), (NOON + 1_000, "a", 0)])
    stream.steps()
    assert [record.value[1] for record in stream.collected("panes")[-1:]] == [10]
    assert stream.metrics()["sums"]["dropped_because_late"] == 1  # its window has ended before the new watermark
    if not drop:
        windows = [record.window for record in stream.collected("panes")]
        assert len(set(windows)) == len(windows)  # nothing was emitted twice
        # The panes from 12:00 to 12:15, of which the first went to a window that the jump had closed.
        assert [record.value for record in stream.collected("counted")][-1] == ("all", 10)


def test_windows_emitted_before_the_watermark_was_moved_back_are_opened_again_as_new_ones(
    stopped: Stepped, tmp_path: Path
) -> None:
    dm.upgrade(stopped.checkpoint, tmp_path / "new", watermarks={"rows": "2013-01-01T11:59Z"})
    stream = Stepped(sums(tmp_path / "rows", CAREFUL), tmp_path / "new", clock=stopped.clock)
    put_rows(tmp_path / "rows", "3", [(NOON + 30, "a", 100), (NOON + 70, "a", 0)])
    stream.steps()
    at_noon = [record for record in stream.collected("panes") if int(record.window.start) == NOON * SECOND]
    assert [(record.value, record.pane.index, record.pane.timing.name) for record in at_noon] == [
        (("a", 2), 0, "ON_TIME"),
        (("a", 100), 0, "ON_TIME"),
    ]


def test_the_watermark_can_be_moved_back_if_only_the_groupings_have_one(stopped: Stepped, tmp_path: Path) -> None:
    dm.upgrade(stopped.checkpoint, tmp_path / "between")
    between = Stepped(sums(tmp_path / "rows", CAREFUL), tmp_path / "between", clock=stopped.clock)
    assert ten_more(between, tmp_path / "rows", "between") == []
    dm.upgrade(between.checkpoint, tmp_path / "new", watermarks={"rows": dm.event_time(NOON + 620)})
    stream = Stepped(sums(tmp_path / "rows", CAREFUL), tmp_path / "new", clock=stopped.clock)
    put_rows(tmp_path / "rows", "after", [(NOON + 650, "a", 5), (NOON + 700, "a", 0)])
    stream.steps()
    assert [record.value for record in stream.collected("panes")][-1] == ("a", 5)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("steps", [1, 3])
@pytest.mark.parametrize("pipeline", PIPELINES)
def test_moving_a_watermark_to_where_it_is_changes_nothing(
    tmp_path: Path, rows: Path, pipeline: Callable[[Path], Build], shards: int, steps: int
) -> None:
    build = pipeline(rows)
    expected = seen(run(dm.LocalRunner(), build).collected("panes"))
    old = Run(build, tmp_path / "old", rows=61, shards=2).steps(steps)
    known = {read.label: old.watermarks().get(read.label, dm.MIN_TIMESTAMP) for read in old.program.staged.sources}
    moved = {label: at for label, at in known.items() if at > dm.MIN_TIMESTAMP and label in old.offset.begun}
    new = old.upgraded(build, shards, watermarks=moved)
    new.finish()
    assert not difference(expected, seen(new.collected("panes")))


def test_a_watermark_that_makes_no_sense_is_rejected(stopped: Stepped, tmp_path: Path) -> None:
    def refused(watermarks: Any, kind: type[Exception] = dm.InvalidArgument) -> str:
        with pytest.raises(kind) as error:
            dm.upgrade(stopped.checkpoint, tmp_path / "new", watermarks=watermarks)
        assert not (tmp_path / "new").exists()
        return str(error.value)

    assert "can only be moved back, got 2042-01-02T00:00:00Z for 'rows', which is at 2042" in refused(
        {"rows": "2042-01-02T00:00Z"}
    )
    assert "these are 'rows'" in refused({"sums": "2013-01-01T00:00Z"})
    assert "must be an instant, got EventTime(-inf)" in refused({"rows": dm.MIN_TIMESTAMP})
    assert "must map labels of sources to instants" in refused(["rows"], dm.InvalidType)
    with pytest.raises(SystemExit):
        main(["upgrade", str(stopped.checkpoint), str(tmp_path / "new"), "--watermark", "rows"])
    dm.upgrade(stopped.checkpoint, tmp_path / "new", watermarks={"rows": "2013-01-01T00:00Z"})
    with pytest.raises(dm.CheckpointMismatch, match="moves the watermark of 'rows', which this pipeline does not read"):
        Stepped(sums(tmp_path / "rows", CAREFUL, label="others"), tmp_path / "new").steps()


def lags(result: Any) -> dict[str, int]:
    report = result.report()
    return {label: int(report.transforms[label].watermark_lag) for label in ("rows", "sums")}


def test_the_documented_alert_finds_a_watermark_that_is_ahead(stopped: Stepped, tmp_path: Path) -> None:
    """The same on Spark, from a checkpoint of either: what holds is in the report, and its lag is negative."""
    dm.upgrade(stopped.checkpoint, tmp_path / "new")
    put_rows(tmp_path / "rows", "3", [(NOON + 20, "a", 1)])
    new = Stepped(sums(tmp_path / "rows", CAREFUL), tmp_path / "new", clock=stopped.clock)
    new.steps()
    assert new.measured().watermarks["sums"] == LIE * SECOND
    result = start(dm.LocalRunner(checkpoint=tmp_path / "new"), sums(tmp_path / "rows", CAREFUL))
    with dm.metrics.serve(result, port=0) as server:
        lag = scraped(server.port, "sums")
    result.stop()
    assert lag < -86_400
    assert lags(result)["sums"] < -86_400 * SECOND < 0 < lags(result)["rows"]


def scraped(port: int, label: str) -> float:
    """Return the lag of a transform as Prometheus gets it."""
    text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    name = f'dataflow_watermark_lag_seconds{{transform="{label}"}}'
    (line,) = [line for line in text.splitlines() if line.startswith(name)]
    return float(line.rpartition(" ")[2])


@pytest.mark.slow
@pytest.mark.spark
def test_the_watermark_of_a_stream_on_spark_can_be_moved_back(spark: SparkSession, tmp_path: Path) -> None:
    now = dm.event_time("2026-01-01T12:00Z")  # in the past of the machine's clock
    noon, folder = int(now) // SECOND, tmp_path / "rows"
    put_rows(folder, "1", [(noon, "a", 1), (LIE, "a", 2)])
    first = start(streaming(spark, tmp_path / "old", shards=2), sums(folder, dm.Monotonic()))
    wait_for(first, lambda: int(first.watermarks().get("counts", 0)) == LIE * SECOND)
    first.stop()
    put_rows(folder, "2", [(noon + 70, "a", 4), (noon + 130, "a", 8)])
    dm.upgrade(tmp_path / "old", tmp_path / "held", spark=spark)
    held = start(streaming(spark, tmp_path / "held", shards=2), sums(folder, CAREFUL))
    wait_for(held, lambda: int(held.watermarks().get("rows", 0)) == (noon + 130) * SECOND)
    assert int(held.watermarks()["sums"]) == LIE * SECOND
    assert held.metrics()["sums"]["dropped_because_late"] == 2
    assert lags(held)["sums"] < -86_400 * SECOND < 0 < lags(held)["rows"]
    held.stop()
    dm.upgrade(tmp_path / "old", tmp_path / "new", watermarks={"rows": now}, spark=spark)
    new = start(streaming(spark, tmp_path / "new", shards=2), sums(folder, CAREFUL))
    wait_for(new, lambda: int(new.watermarks().get("sums", 0)) == (noon + 130) * SECOND)
    assert [record.value for record in new.collected("panes")][-1] == ("a", 4)
    assert not new.metrics()["sums"].get("dropped_because_late")
    assert min(lags(new).values()) > 0
    new.stop()


def test_a_source_whose_watermark_starts_again_waits_for_its_partitions_again(tmp_path: Path) -> None:
    def build(estimator: Any) -> Build:
        def counts(p: dm.Pipeline) -> None:
            rows = p | "rows" >> dm.io.ReadParquet(
                tmp_path / "rows",
                event_time="at",
                follow=True,
                schema=ROWS,
                watermark=estimator,
                watermark_origin="key",
                partitions=["a", "b"],
            )
            _ = rows | dm.WithKeys("key") | dm.Window.into(dm.FixedWindows(10)) | "counts" >> dm.Count.per_key()

        return counts

    put_rows(tmp_path / "rows", "1", [(1, "a", 0), (1, "b", 0)])
    Stepped(build(dm.Monotonic()), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    new = Stepped(build(CAREFUL), tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(5, "a", 0)])
    new.steps()
    assert new.watermarks()["rows"] == dm.MIN_TIMESTAMP
    put_rows(tmp_path / "rows", "3", [(4, "b", 0)])
    new.steps()
    assert new.watermarks()["rows"] == dm.event_time(4)
