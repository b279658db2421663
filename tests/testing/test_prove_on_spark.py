"""`prove` on Spark: another runner must show what LocalRunner shows, killed and resumed too."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import LawBroken, prove
from tests.support.laws.proving import DATA, sums

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def test_a_bounded_job_on_spark_keeps_the_laws_like_the_local_runner(spark: SparkSession) -> None:
    prove(sums, DATA, dm.SparkRunner(spark), examples=10)


def test_a_stream_on_spark_keeps_the_laws_even_if_it_is_killed_and_resumed(spark: SparkSession, tmp_path: Path) -> None:
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=str(tmp_path), max_rows_per_batch=100)
    prove(sums, DATA, runner, examples=10)


def test_a_function_that_depends_on_its_process_is_found_on_spark(spark: SparkSession) -> None:
    driver = os.getpid()

    def marked(elements: Any) -> Any:
        return elements | dm.Map(lambda pair: (pair[0], os.getpid() == driver)) | dm.GroupByKey()

    with pytest.raises(LawBroken) as caught:
        prove(marked, DATA, dm.SparkRunner(spark), examples=10)
    assert caught.value.law == "every runner shows the same"
