"""A pipeline as the bounded job that Spark runs, in process: the same functions, without a shuffle of Spark's."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.engine.bounded.execution import run_ahead_in_process
from dataflow_model.runners.sharded.commits.progress import read_counters
from dataflow_model.runners.sharded.commits.publishing import Publisher, read_collected
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from dataflow_model.runners.spark.batch import pending_of
from dataflow_model.runners.spark.dataframes import _rows_of
from dataflow_model.runners.spark.job import do_work, plan_work, run_buckets
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.plan.columns.records import Record

__all__ = ["JobResult", "run_as_job"]


@attrs.frozen
class JobResult:
    """What `run_as_job` leaves: what sinks have received, and the counters by label."""

    records: dict[str, list[Record]]
    counters: Mapping[str, Mapping[str, Any]]

    def collected(self, label: str) -> list[Record]:
        """Return what a sink has received."""
        return self.records[label]

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the counters by label."""
        return self.counters


def run_as_job(
    build: Callable[[dm.Pipeline], Any],
    shards: int = 2,
    buckets: int = 2,
    frames: Mapping[str, Sequence[pa.RecordBatch]] | None = None,
) -> JobResult:
    """Run a pipeline.

    Args:
        build: makes it.
        shards, buckets: into how many parts keys are cut.
        frames: by label, the partitions of DataFrames that it reads.
    """
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    build(pipeline)
    plan = pipeline.plan()
    cut = cut_into_stages(plan)
    ahead = run_ahead_in_process(cut)
    staged = bound_plan(ahead.filled(cut))
    program = Program(staged, ahead.sides, tuple(range(shards)), "run", buckets).pack().unpack()
    worker = ProcessCache()
    rows = [row for work in plan_work(program, shards) for row in do_work(Task(program, worker, work.number), work)]
    for label, partitions in (frames or {}).items():
        for number, batch in enumerate(partitions):
            rows += _rows_of(Task(program, worker, number), label, [batch])
    for depth in range(1, len(staged.stages) + 1):
        before, rows = rows, []
        for shard in range(shards):
            mine = sorted((row for row in before if row.shard == shard), key=lambda row: (row.stage, row.bucket))
            rows += run_buckets(Task(program, worker, shard), depth, mine)
    with tempfile.TemporaryDirectory() as directory:
        Publisher(program, directory).commit(0, [pending_of(row.kind, load(row.payload)) for row in rows])
        records = {sink.label: read_collected(directory, sink.label) for sink in staged.sinks}
        return JobResult(records, read_counters(directory, staged.whole))
