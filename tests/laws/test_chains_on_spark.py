"""A sample of the chains on Spark streaming, many in one job: every grouping emits what it emits on LocalRunner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from tests.support.laws.chains import DROPPED, many, side_by_side, sinks_of
from tests.support.pipelines import difference, run, seen, streaming

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

# Drawn chains count refinements again, and take panes back at elements' event times: every runner does it alike.
pytestmark = pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "shards"), [(1, 2), (2, 3)])
def test_a_hundred_chains_give_the_panes_of_the_local_runner(
    spark: SparkSession, tmp_path: Path, number: int, shards: int
) -> None:
    cases = many(number, scripts=20, chains=5)
    expected = run(dm.LocalRunner(), side_by_side(cases))
    actual = run(streaming(spark, tmp_path, shards=shards, max_rows_per_batch=90 + number), side_by_side(cases))
    counters, dropped = [result.metrics() for result in (expected, actual)], 0
    for name, (script, groupings) in cases.items():
        for node, sink in sinks_of(name, groupings):
            problem = difference(seen(expected.collected(sink)), seen(actual.collected(sink)))
            assert not problem, f"{sink}: {problem}\n{groupings}\n{script.steps}"
            for counter in DROPPED:
                counts = [counted.get(node, {}).get(counter, 0) for counted in counters]
                assert counts[0] == counts[1], f"{node}: {counter}"
                dropped += counts[0]
    assert dropped, "nothing was dropped"
