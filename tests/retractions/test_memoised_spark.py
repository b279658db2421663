"""Functions whose outputs are kept, on Spark: the same panes where they are deterministic, in balance where not."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies
from tests.support.inputs import write_rows
from tests.support.laws.drawing import AT_THE_END_OF_TIME
from tests.support.pipelines import counters, difference, draw, run, start, streaming
from tests.support.retractions.accounts import net
from tests.support.retractions.drawing import FIRST, UNMERGED
from tests.support.retractions.memoised import (
    AT_ONCE,
    FOREVER,
    KEPT_SINKS,
    balanced,
    drawn_and_grouped,
    into_one_place,
    panes_of,
    plain_and_kept,
)
from tests.support.waiting import wait_for_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = AT_THE_END_OF_TIME

CASES = st.tuples(strategies.test_streams(max_steps=10), FIRST, UNMERGED, AT_ONCE)


def several(cases: list[Any], *, keeps: bool) -> Any:
    """Return a pipeline with deterministic functions, whose outputs are kept or not, and with others that draw."""

    def build(p: dm.Pipeline) -> None:
        for number, (script, first, second, at_once) in enumerate(cases):
            kept_forever = attrs.evolve(first, **FOREVER)
            plain_and_kept(p, script, kept_forever, second, keeps=keeps, name=f"{number} plain ")
            if keeps:
                drawn_and_grouped(p, script, kept_forever, into_one_place(at_once), name=f"{number} drawn ")

    return build


@pytest.mark.slow
@pytest.mark.parametrize(("number", "count", "shards"), [(1, 3, 2), pytest.param(2, 6, 3, marks=pytest.mark.slow)])
def test_a_stream_retracts_the_memoised_outputs_that_it_emitted(
    spark: SparkSession, tmp_path: Path, number: int, count: int, shards: int
) -> None:
    cases = draw(CASES, count, number)
    expected = run(dm.LocalRunner(), several(cases, keeps=False))
    local = run(dm.LocalRunner(), several(cases, keeps=True))
    actual = run(streaming(spark, tmp_path, max_rows_per_batch=25, shards=shards), several(cases, keeps=True))
    for index, case in enumerate(cases):
        plain, kept = (panes_of(result.collected, f"{index} plain ") for result in (expected, actual))
        for label in KEPT_SINKS:
            problem = difference(plain[label], kept[label])
            assert not problem, f"{index} {label}: {problem}\n{case[0].steps}\n{case[1:]}"
        balanced(*(actual.collected(f"{index} drawn {label}") for label in ("sums", "drawn", "lists")))
    assert counters(actual) == counters(local)
    drawn = [record for index in range(len(cases)) for record in actual.collected(f"{index} drawn drawn")]
    assert any(record.is_retraction for record in drawn)


@pytest.mark.slow
def test_a_bounded_job_ends_with_the_memoised_outputs_of_the_final_values(spark: SparkSession) -> None:
    cases = draw(CASES, 8, 3)
    expected = run(dm.LocalRunner(), several(cases, keeps=False))
    actual = run(dm.SparkRunner(spark), several(cases, keeps=True))
    for index, case in enumerate(cases):
        standing = [net(result.collected(f"{index} plain mapped")) for result in (expected, actual)]
        assert standing[0] == standing[1], f"{index}\n{case[0].steps}\n{case[1:]}"
        sums, drawn, lists = (net(actual.collected(f"{index} drawn {label}")) for label in ("sums", "drawn", "lists"))
        assert sorted(map(repr, sums)) == sorted(repr(entry[0]) for _, entry in drawn)
        listed = [entry for _, entries in lists for entry in entries]
        assert sorted(listed, key=repr) == sorted((entry for _, entry in drawn), key=repr)


@pytest.mark.slow
def test_a_resumed_stream_retracts_the_memoised_outputs_emitted_before_it_was_stopped(
    spark: SparkSession, tmp_path: Path
) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 240)

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", processing_time="seen")
        each = dm.Window.into(dm.FixedWindows("50 us")).trigger(dm.Repeatedly(dm.AfterCount(3)))
        pairs = (
            rows | dm.Map(lambda row: (row.key, row.n)) | each.allowed_lateness("9 us").accumulating_and_retracting()
        )
        sums = pairs | "sums" >> dm.Sum.per_key()
        drawn = sums | "draw" >> dm.Map(lambda pair: (pair, uuid.uuid4().hex)).retractable("memoised")
        _ = sums | "said" >> dm.io.Collect()
        _ = drawn | "drawn" >> dm.io.Collect()

    expected = run(dm.LocalRunner(), build)
    first = start(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=40), build)
    wait_for_batch(first, 2)
    first.stop()
    assert 0 < len(first.collected("drawn")) < len(expected.collected("drawn"))
    second = run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=60), build)
    given = second.collected("drawn")
    assert any(record.is_retraction for record in given)
    assert sorted(map(repr, net(second.collected("said")))) == sorted(repr(pair) for pair, _ in net(given))
    assert counters(second) == counters(expected)
