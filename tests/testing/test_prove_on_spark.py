"""`prove` on Spark: another runner must show what LocalRunner shows, killed and resumed too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import LawBroken, prove

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow

DATA = [(("a", 3), 1), (("a", 5), 8), (("b", 2), 12), (("a", 7), 4)]


def sums(elements: Any) -> Any:
    windowing = dm.Window.into(dm.Sessions(10)).trigger(
        dm.AfterWatermark(early=dm.AfterProcessingTime(2), late=dm.AfterCount(1))
    )
    return elements | windowing.allowed_lateness(15).accumulating_and_retracting() | dm.Sum.per_key()


def test_a_bounded_job_shows_what_the_local_runner_shows(spark: SparkSession) -> None:
    prove(sums, DATA, dm.SparkRunner(spark), examples=10)


def test_a_stream_shows_what_the_local_runner_shows_killed_and_resumed_too(spark: SparkSession, tmp_path: Path) -> None:
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=str(tmp_path), max_rows_per_batch=100)
    prove(sums, DATA, runner, examples=10)


def test_a_function_that_depends_on_its_process_is_found(spark: SparkSession) -> None:
    driver = os.getpid()

    def marked(elements: Any) -> Any:
        return elements | dm.Map(lambda pair: (pair[0], os.getpid() == driver)) | dm.GroupByKey()

    with pytest.raises(LawBroken) as caught:
        prove(marked, DATA, dm.SparkRunner(spark), examples=10)
    assert caught.value.law == "every runner shows the same"
