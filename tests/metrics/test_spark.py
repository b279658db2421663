"""On Spark a run tells what it tells in process: as a bounded job, and as a stream that is stopped and goes on."""

from __future__ import annotations

import threading
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.inputs import write_rows
from tests.support.metrics import counting
from tests.support.pipelines import run, start, streaming
from tests.support.waiting import PATIENCE, wait_for_batch

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.metrics import RunReport

ROWS = 120


def building(folder: Path, out: str, **options: Any) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder / "rows", event_time="at", processing_time="seen", **options)
        pairs = rows | "pairs" >> dm.Map(lambda row: (str(row.key), int(row.n)))
        _ = pairs | "plain" >> dm.Map(counting.note) | "files" >> dm.io.WriteJson(folder / out)
        counting.build(pairs | dm.Window.into(dm.FixedWindows("50 us")))

    return build


def flows(report: RunReport) -> dict[str, tuple[int, int]]:
    return {label: (transform.elements_in, transform.elements_out) for label, transform in report.transforms.items()}


def check_by_hand(report: RunReport, panes: list[Any]) -> None:
    expected = counting.by_hand(list(range(ROWS)), [record.value for record in panes])
    assert counting.counted(report) == {**expected, "plain": expected["map"]}
    sizes = report.transforms["map"].user.distributions["sizes"]
    assert (sizes.count, sizes.sum, sizes.min, sizes.max) == (ROWS, sum(range(ROWS)), 0, ROWS - 1)
    assert report.transforms["plain"].user.gauges == {"last": 7}


def test_a_bounded_job_counts_what_a_run_in_process_counts(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, ROWS)
    local = run(dm.LocalRunner(), building(tmp_path, "local"))
    job = run(dm.SparkRunner(spark, mode="batch"), building(tmp_path, "job"))
    report = job.report()
    check_by_hand(local.report(), local.collected("out"))
    check_by_hand(report, job.collected("out"))
    assert flows(report) == flows(local.report())
    assert (report.commits, report.system_lag) == (1, dm.duration(0))
    assert report.transforms["sums"].bundle_sizes.sum == 2 * ROWS
    assert report.transforms["sums"].watermark == dm.MAX_TIMESTAMP
    assert report.transforms["sums"].slowest_keys


@pytest.mark.slow
def test_a_stopped_stream_continues_its_counters_when_it_resumes(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, ROWS)
    local = run(dm.LocalRunner(), building(tmp_path, "local"))
    first = start(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=20), building(tmp_path, "stream"))
    wait_for_batch(first, 1)
    first.stop()
    before = first.report()
    assert 0 < before.transforms["map"].user.counters["seen"] < ROWS
    second = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=50), building(tmp_path, "stream"))
    report = second.report()
    check_by_hand(report, second.collected("out"))
    assert flows(report) == flows(local.report())
    assert report.commits > before.commits
    assert report.system_lag == dm.duration(0)
    assert report.transforms["remember"].state_entries == 0
    assert report.transforms["sums"].slowest_keys
    stage = report.stages[1]
    assert stage.cache_fresh + stage.cache_behind + stage.cache_void == sum(second.cache().values())
    assert stage.state_calls > report.commits
    assert min(stage.state_bytes_read, stage.state_bytes_written) > 0


@pytest.mark.slow
def test_a_followed_stream_reports_its_lag_and_state_while_it_runs(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, ROWS)
    result: Any = start(streaming(spark, tmp_path / "checkpoint"), building(tmp_path, "stream", follow=True))
    done = threading.Event()
    for _ in range(PATIENCE * 20):
        report = result.report()
        if report.transforms["rows"].elements_out == ROWS:
            break
        assert result.state is dm.RunnerState.RUNNING
        done.wait(0.05)
    else:
        pytest.fail(f"not all rows within {PATIENCE} seconds: {result.report()}")
    remember = report.transforms["remember"]
    assert remember.state_entries is not None
    assert remember.state_entries > 0
    assert remember.state_bytes is not None
    assert remember.state_bytes > 0
    assert report.transforms["rows"].watermark is not None
    lag = report.transforms["rows"].watermark_lag
    assert lag is not None
    assert dm.duration(0) <= lag < dm.duration(1)  # by the clock of the data, whose year is long past
    assert report.system_lag >= dm.duration(0)
    with dm.metrics.serve(result, port=0) as server:
        text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=30).read().decode()
    assert f'dataflow_elements_out_total{{transform="rows"}} {float(ROWS)}' in text
    assert 'dataflow_state_bytes{transform="remember"}' in text
    result.drain()
