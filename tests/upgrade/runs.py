"""Runs in process that stop anywhere and are carried over: the streaming runner's lowering without Spark."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.plan.lifting import lifts
from dataflow_model.plan.stages import cut_into_stages, dynamic_sides
from dataflow_model.runners.sharded.bound import bound_plan
from dataflow_model.runners.sharded.checkpoint.directory import Checkpoint
from dataflow_model.runners.sharded.program import Program
from dataflow_model.runners.sharded.upgrade.carrying import write_seed
from dataflow_model.runners.sharded.upgrade.reading import read_shard
from dataflow_model.runners.spark.labels import shard_labels
from dataflow_model.runners.spark.spark_logs import HOST, is_input_over
from dataflow_model.testing.micro_batches import MemoryStore
from tests.watermarks.streamed import Streamed

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from pathlib import Path

    from dataflow_model.plan.stages import StagedPlan


def staged_of(build: Any) -> StagedPlan:
    """Return a pipeline's plan as a stream runs it."""
    pipeline = dm.Pipeline()
    build(pipeline)
    plan = pipeline.plan()
    return cut_into_stages(plan, dynamic_sides(plan))


@attrs.define
class Run(Streamed):
    """A run with a checkpoint, and a number of shards."""

    shards: int = 2
    checkpoint: Checkpoint = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        staged = staged_of(self.build)
        self.checkpoint = Checkpoint.open(str(self.folder), staged, self.shards, HOST, is_input_over)
        fed, folded = self.checkpoint.feeding(staged, lifts(staged, streaming=True))
        labels = shard_labels(self.checkpoint.shards)
        program = Program(
            bound_plan(staged),
            {},
            labels,
            self.checkpoint.run_id,
            lifts=fed,
            edition=self.checkpoint.record.edition,
            folded=folded,
            seed=self.checkpoint.seed,
        )
        self.program = program.pack().unpack()
        self.offset = self.checkpoint.begins
        depths = range(1, len(staged.stages) + 1)
        self.stores = {(depth, shard): MemoryStore() for depth in depths for shard in labels}

    def run(self) -> Run:
        """Run to the end."""
        while not self.offset["last"]:
            self.step()
        return self

    def steps(self, count: int) -> Run:
        """Run some micro-batches, or as many as there are."""
        for _ in range(count):
            if not self.offset["last"]:
                self.step()
        return self

    def restarted(self, build: Any) -> Run:
        """Return the run as another process goes on with it, perhaps with a changed pipeline."""
        other = Run(build, self.folder, self.rows)
        other.offset, other.stores = self.offset, self.stores
        return other

    def carried_over(self, folder: Path, drop: Collection[str] = ()) -> Path:
        """Upgrade the run's checkpoint; it stays as it is."""
        record = self.checkpoint.record
        labels = self.program.labels
        found = [read_shard(record, labels, shard, store) for (_, shard), store in self.stores.items()]
        batch = self.offset["batch"] - 1
        write_seed(found, self.folder, folder, record, batch, self.offset, drop)
        return folder

    def upgraded(self, build: Any, shards: int, drop: Collection[str] = ()) -> Run:
        """Return a run that goes on from this one in a directory beside it."""
        folder = self.folder.with_name(f"{self.folder.name}-next")
        shutil.rmtree(folder, ignore_errors=True)
        return Run(build, self.carried_over(folder, drop), self.rows, shards=shards)


def write_history(file: Path, rows: Sequence[tuple[int, int, str, int]]) -> None:
    """Write rows of (event time, when it was seen, key, number)."""
    file.parent.mkdir(parents=True, exist_ok=True)
    names = ("at", "seen", "key", "n")
    pq.write_table(pa.table({name: [row[place] for row in rows] for place, name in enumerate(names)}), file)
