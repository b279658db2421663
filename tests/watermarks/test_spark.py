"""Watermarks, early ends, rounds and signals under Spark itself; `test_streamed.py` has the cases."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import run_script
from tests.support.pipelines import seen, streaming
from tests.support.watermarks.files import BY_TEN, WHOLE, panes, run, summed, three_files, twenty, write
from tests.support.watermarks.scripts import EARLY, FIXED, paper_script

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

PATIENCE = 240


def test_percentiles_over_partitions_are_propagated_through_two_stages_on_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    three_files(tmp_path / "in")

    def build(pipeline: dm.Pipeline) -> None:
        rows = pipeline | "rows" >> dm.io.ReadParquet(
            tmp_path / "in", event_time="at", processing_time="seen", watermark_origin="partition"
        )
        keyed = rows | dm.Map(lambda row: (row.value % 3, row.value)) | BY_TEN.trigger(EARLY)
        sums = keyed | "sum" >> dm.Sum.per_key() | "regroup" >> dm.Map(lambda pair: ("k", pair[1]))
        _ = sums | "most" >> dm.Max.per_key() | "kept" >> dm.io.Collect()

    expected = seen(run(dm.LocalRunner(), build).collected("kept"))
    runner = streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=100)
    assert seen(run(runner, build).collected("kept")) == expected


@pytest.mark.slow
def test_a_bounded_run_ends_when_95_percent_of_its_files_are_done(spark: SparkSession, tmp_path: Path) -> None:
    twenty(tmp_path / "in", straggler=3_000)
    build = summed(tmp_path / "in", WHOLE, watermark_origin="file")
    result = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=200), build)
    assert panes(result) == panes(run(dm.LocalRunner(), build))
    assert [timing for _, timing, _ in panes(result)] == ["EARLY"]
    assert result.metrics()["rows"]["elements_out"] < 1_000


@pytest.mark.slow
def test_micro_batch_mode_on_spark_emits_the_panes_of_figure_6g(spark: SparkSession, tmp_path: Path) -> None:
    options: dict[str, Any] = {"mode": "microbatch", "interval": "1 minute"}
    runner = dm.SparkRunner(spark, checkpoint=str(tmp_path), **options)
    expected = run_script(paper_script(), FIXED, dm.Sum(), dm.LocalRunner(**options))
    assert run_script(paper_script(), FIXED, dm.Sum(), runner) == expected


def test_a_signal_is_durable_and_takes_effect_once_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", [(1, 100, 1, ""), (2, 100, 2, "")])

    def build(pipeline: dm.Pipeline) -> None:
        windowing = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterSignal("flush"))).accumulating()
        rows = pipeline | "rows" >> dm.io.ReadParquet(tmp_path / "in", event_time="at", follow=True)
        sums = rows | dm.Map(lambda row: ("k", row.value)) | windowing | "sum" >> dm.Sum.per_key()
        _ = sums | "kept" >> dm.io.Collect()

    def start() -> Any:
        pipeline = dm.Pipeline(runner=streaming(spark, tmp_path / "checkpoint"))
        build(pipeline)
        return pipeline.run()

    first = start()
    _wait(first, lambda: first.metrics()["rows"].get("elements_out") == 2)
    first.stop()
    first.signal("flush")  # nobody runs: the request waits beside the checkpoint
    second = start()
    _wait(second, lambda: second.collected("kept"))
    with pytest.raises(dm.InvalidArgument, match="the signals are flush"):
        second.signal("flash")
    second.drain()
    # The end of the input has nothing new to tell, so the signal's pane is the only one.
    assert [(record.value[1], record.pane.timing.name) for record in second.collected("kept")] == [(3, "EARLY")]


def _wait(result: Any, there: Any) -> None:
    patience = threading.Event()
    for _ in range(PATIENCE * 20):
        if there():
            return
        assert result.query.isActive, result.query.exception()
        patience.wait(0.05)
    pytest.fail(f"not within {PATIENCE} seconds")
