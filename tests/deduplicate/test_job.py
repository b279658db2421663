"""Deduplicate in a bounded job, run in process: each record once, in event-time order, wherever it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.program_sources import DataFrameSource
from dataflow_model.runners.sharded.checkpoint.kept_rows import KeptRows
from dataflow_model.runners.spark.collected import CollectedSource
from dataflow_model.testing import TestStream
from tests.support.bounded_jobs import run_as_job
from tests.support.deduplicate.redelivery import HORIZONS, build, numbered, redelivered
from tests.support.laws.drawing import windowing_strategies
from tests.support.pipelines import difference, run, seen

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.logical.strategy import WindowingStrategy


@given(st.data(), numbered(max_steps=12), windowing_strategies(retracting=False), HORIZONS)
def test_redelivered_records_change_no_pane_of_a_bounded_job(
    data: st.DataObject, script: TestStream, strategy: WindowingStrategy, horizon: str
) -> None:
    again = data.draw(redelivered(script, data.draw(st.sampled_from([0.01, 0.5]))))
    expected = run_as_job(lambda p: build(p, script, strategy, horizon))
    actual = run_as_job(lambda p: build(p, again, strategy, horizon), shards=3)
    for sink in ("passed", "panes"):
        entries_once, entries_again = (
            [entry[:4] for entry in seen(result.collected(sink))] for result in (expected, actual)
        )
        assert not difference(sorted(entries_once, key=repr), sorted(entries_again, key=repr))
    counts = actual.metrics()["once"]
    passed = len(actual.collected("passed"))
    assert counts.get("duplicates", 0) + passed == counts.get("elements_in", 0)


def test_a_bounded_job_deduplicates_in_order_of_event_time_with_the_watermark_following() -> None:
    script = TestStream().add("late first", 30, key=1).add("early", 2, key=1).add("at the edge", 36, key=1)
    script = script.add("far", 60, key=1).add("other", 5, key=2)

    def firsts(p: dm.Pipeline) -> None:
        once = p | script | "once" >> dm.Deduplicate(lambda pair: pair[0], horizon="32 seconds")
        _ = once | "kept" >> dm.io.Collect()

    result = run_as_job(firsts)
    assert [record.value[1] for record in result.collected("kept")] == ["early", "far", "other"]
    assert result.metrics()["once"]["duplicates"] == 2


SCHEMA = pa.schema(
    [("at", pa.int64()), ("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64()), ("n", pa.int64())]
)
ROWS = [(n * 1_000_000, "clicks", n % 2, n // 2, n) for n in range(40)]


def batch_of(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
    columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), SCHEMA.types, strict=True)]
    return pa.record_batch(columns, schema=SCHEMA)


@pytest.mark.parametrize("columns", [("topic", "partition", "offset"), ("n",)])
def test_redelivered_rows_of_a_broker_are_recognised_by_their_columns(columns: tuple[str, ...]) -> None:
    source = DataFrameSource(dataframe=None, event_time="at", id_columns=columns)

    def once(p: dm.Pipeline) -> None:
        _ = p | "rows" >> dm.Read(source) | "once" >> dm.Deduplicate(horizon="1 hour") | "kept" >> dm.io.Collect()

    result = run_as_job(once, frames={"rows": [batch_of(ROWS[10:]), batch_of(ROWS[:25])]})
    assert sorted(record.value.n for record in result.collected("kept")) == list(range(40))
    assert result.metrics()["once"]["duplicates"] == 15


def test_collected_rows_of_a_stream_are_recognised_by_their_columns(tmp_path: Path) -> None:
    kept = KeptRows(tmp_path, "rows")
    checksum = kept.write(pa.Table.from_batches([batch_of([*ROWS, *ROWS[10:25]])], SCHEMA))
    source = CollectedSource(
        path=str(kept.path), checksum=checksum, event_time="at", id_columns=("partition", "offset")
    )

    def once(p: dm.Pipeline) -> None:
        pairs = p | "rows" >> dm.Read(source) | dm.WithKeys("partition", value="n")
        _ = pairs | "once" >> dm.Deduplicate(horizon="1 hour") | "kept" >> dm.io.Collect()

    for result in (run(dm.LocalRunner(), once), run_as_job(once)):
        assert sorted(record.value[1] for record in result.collected("kept")) == list(range(40))


def test_rows_without_columns_that_identify_them_have_no_record_ids() -> None:
    source = DataFrameSource(dataframe=None, event_time="at", origin="topic")
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    _ = pipeline | "rows" >> dm.Read(source) | "once" >> dm.Deduplicate(horizon=1) | dm.io.Collect()
    with pytest.raises(dm.PlanError, match=r"the rows of 'rows' have no ids\nHint: .*dm.io.ReadDataFrame"):
        pipeline.run()


def test_rows_of_files_have_the_same_ids_in_a_job_and_in_process(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 100)):
        pq.write_table(pa.table({"at": range(first, first + 30), "n": range(first, first + 30)}), tmp_path / name)

    def named(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path, event_time="at")
        _ = rows | dm.Map(lambda row, record_id: (record_id, row.n)) | "named" >> dm.io.Collect()
        pairs = rows | dm.WithKeys("n", value="at")
        twice = pairs | dm.FlatMap(lambda pair: [pair, pair]) | dm.Deduplicate(horizon=1)
        _ = twice | "all" >> dm.io.Collect()

    local, job = run(dm.LocalRunner(), named), run_as_job(named)
    for sink, count in (("named", 60), ("all", 120)):
        values = [sorted(record.value for record in result.collected(sink)) for result in (local, job)]
        assert values[0] == values[1]
        assert len(values[0]) == count
