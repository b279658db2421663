"""Spark streaming gives the very panes that LocalRunner gives, however the events are cut and the keys are sharded."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import assert_panes, panes_of, strategies
from tests.figures.test_book import CASES, expected_panes, script
from tests.runners.jobs import difference, draw, run, seen, streaming

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

SECOND = 1_000_000

# The figures of the book: all in one query.


def the_book(p: dm.Pipeline) -> None:
    """All figures side by side; the scripts share the clock, and each has its own watermark."""
    scripts = {name: p | f"script {name}" >> script(name) for name in dict.fromkeys(name for name, _ in CASES.values())}
    for example, (name, windowing) in CASES.items():
        placed = scripts[name] | f"{example} windows" >> windowing
        _ = placed | f"{example} sums" >> dm.Sum.per_key() | example >> dm.io.Collect()


@pytest.mark.parametrize("steps", [17, 1_000])
def test_the_panes_of_the_book_on_spark_streaming(spark: SparkSession, tmp_path: Path, steps: int) -> None:
    result = run(streaming(spark, tmp_path, max_rows_per_batch=steps), the_book)
    for example in CASES:
        panes, expected = panes_of(result.collected(example)), expected_panes(example)
        for window in dict.fromkeys(pane["window"] for pane in expected):
            assert_panes(
                [pane for pane in panes if pane.window == window],
                [pane for pane in expected if pane["window"] == window],
            )
        assert len(panes) == len(expected)


def test_the_bounded_figures_of_the_book_on_spark_batch(spark: SparkSession) -> None:
    def build(p: dm.Pipeline) -> None:
        points = p | script("BATCH")
        _ = points | "all" >> dm.Sum.per_key() | "classic_batch" >> dm.io.Collect()
        fixed = points | dm.Window.into(dm.FixedWindows("2 minutes"))
        _ = fixed | "each" >> dm.Sum.per_key() | "windowed_batch" >> dm.io.Collect()

    result = run(dm.SparkRunner(spark), build)
    for example in ("classic_batch", "windowed_batch"):
        expected = expected_panes(example)
        for pane in expected:
            del pane["processing_time"]  # a bounded job has no clock
        assert_panes(panes_of(result.collected(example)), expected)
