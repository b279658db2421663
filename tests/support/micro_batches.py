"""Micro-batches in process: the lowering of the streaming runner with stores in memory instead of Spark."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.lifting import lifts
from dataflow_model.plan.rounds import in_rounds
from dataflow_model.plan.stages import cut_into_stages, dynamic_sides
from dataflow_model.runners.sharded.bound import bound_plan
from dataflow_model.runners.sharded.checkpoint.directory import Checkpoint
from dataflow_model.runners.sharded.checkpoint.requests import forget_signals, pending_signals, request_signal
from dataflow_model.runners.sharded.feed.offsets import Feed, begin
from dataflow_model.runners.sharded.in_process import InProcess
from dataflow_model.runners.sharded.program import Program
from dataflow_model.runners.sharded.publishing import (
    Publisher,
    read_collected,
    read_counters,
    read_progress,
    stage_rows,
)
from dataflow_model.runners.sharded.task import Task, Worker
from dataflow_model.runners.sharded.upgrade.carrying import write_seed
from dataflow_model.runners.sharded.upgrade.reading import read_shard
from dataflow_model.runners.sharded.work import plan_work
from dataflow_model.runners.spark.labels import shard_labels
from dataflow_model.runners.spark.spark_logs import HOST, is_input_over
from dataflow_model.testing.micro_batches import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from dataflow_model.plan.sinks import Record
    from dataflow_model.plan.stages import StagedPlan


SHARDS = (0, 1)


@attrs.define
class Streamed:
    """A pipeline as a stream of micro-batches.

    Args:
        build: builds the pipeline.
        folder: where it keeps its progress.
        rows: how many rows or steps a micro-batch reads at most.
        interval: how long a round is, if it runs in rounds.
    """

    build: Callable[[dm.Pipeline], Any]
    folder: Path
    rows: int = 1_000
    interval: dm.Duration | None = None
    offset: dict[str, Any] = attrs.field(factory=begin)
    program: Program = attrs.field(init=False)
    stores: dict[tuple[int, int], MemoryStore] = attrs.field(factory=dict)
    worker: Worker = attrs.field(factory=Worker)

    def __attrs_post_init__(self) -> None:
        pipeline = dm.Pipeline()
        self.build(pipeline)
        plan = pipeline.plan()
        plan = plan if self.interval is None else in_rounds(plan, self.interval)
        staged = bound_plan(cut_into_stages(plan))
        self.program = Program(staged, {}, SHARDS, "run").pack().unpack()
        depths = range(1, len(staged.stages) + 1)
        self.stores = {(depth, shard): MemoryStore() for depth in depths for shard in SHARDS}

    @property
    def directory(self) -> str:
        return str(self.folder / "dataflow")

    def signal(self, name: str) -> None:
        request_signal(self.folder, name)

    def run(self) -> Streamed:
        """Run to the end."""
        while not self.offset["last"]:
            self.step()
        return self

    def step(self, *, drain: bool = False) -> None:
        """Run one micro-batch."""
        program = self.program
        feed = Feed(program.staged.sources, self.rows, 2, program.awaited)
        committed = read_progress(self.directory)
        end = feed.next(self.offset, drain=drain, signals=pending_signals(self.folder), committed=committed)
        number = end["batch"]
        rows = InProcess(program, self.stores, self.worker).run(number, plan_work(feed, self.offset, end))
        staging = stage_rows(Task(program, self.worker, micro_batch=number), rows)
        Publisher(program, self.directory).commit(number, [staging])
        forget_signals(self.folder, end["signals"])
        self.offset = end

    def progress(self) -> dict[str, Any]:
        return read_progress(self.directory)

    def metrics(self) -> dict[str, dict[str, Any]]:
        return read_counters(self.directory, self.program.staged.plan)

    def collected(self, label: str) -> list[Record]:
        return read_collected(self.directory, label)


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
