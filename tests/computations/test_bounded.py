"""A bounded job of a topology gives what a punctual stream does: Spark's tasks, run here one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.commits.publishing import Publisher, read_collected
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from dataflow_model.runners.spark.batch import pending_of
from dataflow_model.runners.spark.job import do_work, plan_work, run_buckets
from dataflow_model.values.pickles import load
from tests.support.computations import scribe
from tests.support.computations.counting import counting, values_of
from tests.support.inputs import write_rows
from tests.support.micro_batches import Streamed
from tests.support.pipelines import difference, seen

if TYPE_CHECKING:
    from pathlib import Path

    import dataflow_model as dm
    from dataflow_model.plan.columns.records import Record

SHARDS = (0, 1)


@attrs.frozen
class Bounded:
    """What a job has published."""

    directory: str

    def collected(self, label: str) -> list[Record]:
        return read_collected(self.directory, label)


def job(topology: dm.Topology, directory: str) -> Bounded:
    """Run the tasks of a bounded job on two shards, with two buckets each."""
    staged = bound_plan(cut_into_stages(topology.pipeline().plan()))
    program = Program(staged, {}, SHARDS, "run", buckets=2).pack().unpack()
    worker = ProcessCache()
    rows = [row for work in plan_work(program, 2) for row in do_work(Task(program, worker, work.number), work)]
    for depth in range(1, len(staged.stages) + 1):
        shuffled = sorted(rows, key=lambda row: (row.shard, row.stage, row.bucket))
        rows = [
            row
            for shard in SHARDS
            for row in run_buckets(Task(program, worker, shard), depth, [row for row in shuffled if row.shard == shard])
        ]
    Publisher(program, directory).commit(0, [pending_of(row.kind, load(row.payload)) for row in rows])
    return Bounded(directory)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 4)), min_size=1, max_size=40))
def test_a_bounded_job_produces_what_a_stream_without_late_records_produces(
    tmp_path_factory: Any, rows: list[tuple[int, int]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    at, columns = 0, {"at": list[int](), "key": list[int](), "n": list[int]()}
    for gap, key in rows:
        at += gap
        for name, value in (("at", at), ("key", key), ("n", len(columns["at"]))):
            columns[name].append(value)
    pq.write_table(pa.table({**columns, "seen": columns["at"]}), folder / "a.parquet")
    topology = counting(folder)
    expected = scribe.run(topology)
    actual = job(topology, str(folder / "_out"))
    for sink in ("counts", "busiest"):
        assert values_of(actual, sink) == values_of(expected, sink)


@pytest.mark.parametrize("most", [17, 1_000])
def test_a_stream_in_micro_batches_and_a_bounded_job_produce_what_a_run_in_process_produces(
    tmp_path: Path, most: int
) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 120)
    topology = counting(tmp_path / "rows")
    expected = scribe.run(topology)
    stream = Streamed(topology.build, tmp_path, most).finish()
    bounded = job(topology, str(tmp_path / "out"))
    for sink in ("counts", "busiest"):
        assert len(expected.collected(sink)) > 10
        assert not difference(seen(expected.collected(sink)), seen(stream.collected(sink)))
        assert values_of(bounded, sink) == values_of(expected, sink)
