"""Streams in process that publish, stop anywhere and are carried over: the sharded runtime with stores in memory."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Self

import attrs

import dataflow_model as dm
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.plan.rewrites.lifting import lifts
from dataflow_model.plan.rewrites.rounds import in_rounds
from dataflow_model.runners.sharded.checkpoint.record import RunRecord
from dataflow_model.runners.sharded.checkpoint.renaming import Renames
from dataflow_model.runners.sharded.checkpoint.requests import forget_signals, pending_signals, request_signal
from dataflow_model.runners.sharded.commits.progress import read_counters, read_progress, read_watermarks
from dataflow_model.runners.sharded.commits.publishing import Publisher, read_collected
from dataflow_model.runners.sharded.directory import Checkpoint
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.feed.polls import Polls
from dataflow_model.runners.sharded.outputs.pending import write_pending
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.task import Task
from dataflow_model.runners.sharded.upgrade.carrying import Wishes, write_seed
from dataflow_model.runners.sharded.upgrade.fates import fates_of
from dataflow_model.runners.sharded.upgrade.reading import read_shard
from dataflow_model.runners.spark.shard_ids import shard_ids
from dataflow_model.runners.spark.spark_logs import HOST, is_input_over
from dataflow_model.testing.proving.micro_batches import MicroBatches, MicroBatchRunner, Schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.sharded.tasks.rows import Row
    from dataflow_model.runners.sharded.upgrade.seed import Manifest


SHARDS = (0, 1)
_EACH = frozenset(range(1_000))


def in_micro_batches(pipeline: dm.Pipeline, steps: int, *, cached: bool) -> MicroBatches:
    """Run a pipeline of scripts on two shards; unless `cached`, each micro-batch knows only what is durable."""
    schedule = Schedule(shards=2, cuts=(steps,), restarts=frozenset() if cached else _EACH)
    return MicroBatchRunner(schedule).run(pipeline.plan())


def plan_of(build: Callable[[dm.Pipeline], Any]) -> Plan:
    """Return the plan of the pipeline that `build` builds."""
    pipeline = dm.Pipeline()
    build(pipeline)
    return pipeline.plan()


def planning(build: Callable[[dm.Pipeline], Any], clock: Callable[[], float]) -> tuple[Feed, Offset]:
    """Return what plans the micro-batches of a pipeline, with a clock for its polls, and the first offset."""
    return Feed(cut_into_stages(plan_of(build)).sources, 100, 1, polls=Polls(now=clock)), Offset()


class Streamed(MicroBatches):
    """A pipeline as a stream of micro-batches that publishes what its sinks receive.

    Args:
        build: builds the pipeline.
        folder: where it keeps its progress.
        rows: how many rows or steps a micro-batch reads at most.
        interval: how long a round is, if it runs in rounds.
    """

    def __init__(
        self,
        build: Callable[[dm.Pipeline], Any],
        folder: Path,
        rows: int = 1_000,
        interval: dm.Duration | None = None,
    ) -> None:
        self.build, self.folder, self.rows = build, folder, rows
        plan = plan_of(build) if interval is None else in_rounds(plan_of(build), interval)
        super().__init__(self.program_of(plan), Schedule(cuts=(rows,)))

    def program_of(self, plan: Plan) -> Program:
        """Return the program of a plan."""
        return Program(bound_plan(cut_into_stages(plan)), {}, SHARDS, "run")

    @property
    def directory(self) -> str:
        return str(self.folder / "dataflow")

    def signal(self, name: str) -> None:
        request_signal(self.folder, name)

    def feed(self, turn: int) -> Feed:
        """Return what decides what a micro-batch reads, in two tasks; `rows` may change between micro-batches."""
        return attrs.evolve(super().feed(turn), parallelism=2, rows_per_batch=self.rows)

    def end_of_next(self, feed: Feed, *, drain: bool = False) -> Offset:
        """Return the offset at which the next micro-batch ends, with the requests that are there."""
        signals, committed = pending_signals(self.folder), read_progress(self.directory)
        return feed.next(self.offset, drain=drain, signals=signals, committed=committed)

    def commit(self, end: Offset, rows: list[Row]) -> None:
        """Publish what has reached the sinks."""
        number = end.batch
        pending = write_pending(Task(self.program, self.cache, micro_batch=number), rows)
        Publisher(self.program, self.directory).commit(number, [pending])
        forget_signals(self.folder, end.signals)

    def read_of(self, label: str, origin: str) -> int:
        """Return how many rows of an origin have been read."""
        found = self.offset.of_source(label).find(origin)
        return 0 if found is None else found.read

    def progress(self) -> dict[str, Any]:
        return read_progress(self.directory)

    def watermarks(self) -> Mapping[str, Any]:
        return read_watermarks(self.directory)

    def metrics(self) -> dict[str, dict[str, Any]]:
        return read_counters(self.directory, self.program.staged.plan)

    def collected(self, label: str) -> list[Record]:
        return read_collected(self.directory, label)


class Run(Streamed):
    """A run with a checkpoint, and a number of shards, that may stop anywhere and be carried over."""

    def __init__(
        self, build: Callable[[dm.Pipeline], Any], folder: Path, rows: int = 1_000, *, shards: int = 2
    ) -> None:
        plan = plan_of(build)
        self.checkpoint = Checkpoint.open(
            str(folder), cut_into_stages(plan, changing_sides(plan)), shards, HOST, is_input_over
        )
        super().__init__(build, folder, rows)
        self.offset = self.checkpoint.begins

    def program_of(self, plan: Plan) -> Program:
        """Return the program of a plan that goes on where the checkpoint stands."""
        checkpoint = self.checkpoint
        staged = cut_into_stages(plan, changing_sides(plan))
        fed, folded = checkpoint.feeding(staged, lifts(staged, streaming=True))
        return Program(
            bound_plan(staged),
            {},
            shard_ids(checkpoint.shards),
            checkpoint.run_id,
            lifts=fed,
            edition=checkpoint.record.edition,
            folded=folded,
            seed=checkpoint.seed,
        )

    def steps(self, count: int) -> Self:
        """Run some micro-batches, or as many as there are."""
        for _ in range(count):
            if not self.offset.last:
                self.step()
        return self

    def restarted(self, build: Callable[[dm.Pipeline], Any]) -> Run:
        """Return the run as another process goes on with it, perhaps with a changed pipeline."""
        other = Run(build, self.folder, self.rows)
        other.offset, other.stores = self.offset, self.stores
        return other

    def carried_over(
        self,
        folder: Path,
        drop: Collection[str] = (),
        watermarks: Mapping[str, dm.EventTime] | None = None,
        rename: Mapping[str, str] | None = None,
    ) -> Path:
        """Upgrade the run's checkpoint; it stays as it is."""
        renames = Renames.among(list(self.checkpoint.record.fingerprint), rename or {})
        self._written(folder, Wishes(drop, renames, watermarks or {}))
        return folder

    def upgraded(
        self,
        build: Callable[[dm.Pipeline], Any],
        shards: int,
        drop: Collection[str] = (),
        watermarks: Mapping[str, dm.EventTime] | None = None,
        rename: Mapping[str, str] | None = None,
    ) -> Run:
        """Return a run that goes on from this one in a directory beside it."""
        folder = self.folder.with_name(f"{self.folder.name}-next")
        shutil.rmtree(folder, ignore_errors=True)
        return Run(build, self.carried_over(folder, drop, watermarks, rename), self.rows, shards=shards)

    def outcomes(self, build: Callable[[dm.Pipeline], Any]) -> dict[str, str]:
        """Return what would become of the state of each transform in another pipeline."""
        manifest = self._written(None, Wishes())
        staged = cut_into_stages(plan_of(build))
        return {fate.label: fate.outcome.value for fate in fates_of(manifest, RunRecord.of(staged, len(SHARDS)))}

    def _written(self, folder: Path | None, wishes: Wishes) -> Manifest:
        """Write a seed in a folder, if there is one."""
        record = self.checkpoint.record
        seeds = [read_shard(record, self.program.shard_ids, shard, store) for (_, shard), store in self.stores.items()]
        return write_seed(seeds, self.folder, folder, record, self.offset.batch - 1, self.offset, wishes)
