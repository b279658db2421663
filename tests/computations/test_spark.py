"""Topologies on Spark: a stream does what LocalRunner does, a bounded job what an ordered stream does."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from tests.support.computations import scribe
from tests.support.computations.counting import counting, values_of
from tests.support.inputs import write_rows
from tests.support.pipelines import counters, difference, draw, seen, streaming
from tests.support.waiting import wait_for_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.slow
@pytest.mark.parametrize(("number", "shards"), [(1, 2), pytest.param(2, 3, marks=pytest.mark.slow)])
def test_sixty_drawn_scripts_give_the_same_output_on_spark_streaming_as_in_process(
    spark: SparkSession, tmp_path: Path, number: int, shards: int
) -> None:
    scripts = draw(scribe.scripts(max_steps=12), 60, number)
    steps = random.Random(number).randint(150, 400)
    expected = scribe.run(scribe.topology(*scripts))
    runner = streaming(spark, tmp_path, max_rows_per_batch=steps, shards=shards)
    actual = scribe.run(scribe.topology(*scripts), runner)
    assert sum(counts.get("timers_fired", 0) for counts in counters(expected).values()) > 100
    for case, script in enumerate(scripts):
        sink = f"told {case}" if case else "told"
        problem = difference(seen(expected.collected(sink)), seen(actual.collected(sink)))
        assert not problem, f"{case}: {problem}\n{script.steps}"


@pytest.mark.slow
def test_a_stream_of_computations_gives_the_output_of_the_local_runner(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 240)
    topology = counting(tmp_path / "rows")
    expected = scribe.run(topology)
    streamed = scribe.run(topology, streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=120))
    for sink in ("counts", "busiest"):
        assert len(values_of(expected, sink)) > 3
        assert not difference(seen(expected.collected(sink)), seen(streamed.collected(sink)))


@pytest.mark.slow
def test_three_runners_give_the_same_output_and_a_stopped_stream_resumes(spark: SparkSession, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 240)
    topology = counting(tmp_path / "rows")
    expected = scribe.run(topology)
    bounded = scribe.run(topology, dm.SparkRunner(spark))
    for sink in ("counts", "busiest"):
        assert len(values_of(expected, sink)) > 3
        assert values_of(bounded, sink) == values_of(expected, sink)
    first = topology.run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=40))
    wait_for_batch(first, 2)
    first.stop()
    assert 0 < len(first.collected("counts")) < len(expected.collected("counts"))
    second = scribe.run(counting(tmp_path / "rows"), streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=60))
    for sink in ("counts", "busiest"):
        assert not difference(seen(expected.collected(sink)), seen(second.collected(sink)))
