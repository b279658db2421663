"""A sharded stream in one process, with any number of shards, any cuts, crashes and restarts, and without Java."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Self

import attrs

from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.runners.engine.bounded.execution import run_ahead_in_process
from dataflow_model.runners.engine.collections.sink_records import records_of
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.stages.in_process import InProcess
from dataflow_model.runners.sharded.stages.work import plan_work
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.rows import Kind, PackedBundle, Row
from dataflow_model.runners.sharded.tasks.task import ProcessCache
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.tasks.task import Task
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics


def can_stream(plan: Plan) -> bool:
    """Return whether all sources of a plan are scripts and static elements, so that it can be run here."""
    sources = [read.source for read in cut_into_stages(plan).sources]
    return all(source.as_script is not None or source.as_elements is not None for source in sources)


@attrs.define
class MemoryStore:
    """The state store of one shard, in memory."""

    head: bytes | None = None
    parts: dict[tuple[int, int], bytes] = attrs.field(factory=dict)

    def get_head(self) -> bytes | None:
        """Return the head."""
        return self.head

    def put_head(self, head: bytes) -> None:
        """Replace the head."""
        self.head = head

    def get(self, sequence: int, part: int) -> bytes | None:
        """Return one part of a record."""
        return self.parts.get((sequence, part))

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        """Write one part of a record."""
        self.parts[sequence, part] = payload

    def remove(self, sequence: int, part: int) -> None:
        """Delete one part of a record."""
        del self.parts[sequence, part]

    def copied(self) -> MemoryStore:
        """Return a copy of the store."""
        return MemoryStore(self.head, dict(self.parts))


@attrs.frozen
class Schedule:
    """How a run is sharded, cut and interrupted, none of which may change a pane.

    Attributes:
        shards: the number of shards.
        cuts: the number of events in each micro-batch; the sequence repeats.
        restarts: the micro-batches before which new workers, which have only the durable state, replace the old ones.
        crashes: the micro-batches that are run twice, each with the number of shards that the first attempt completes.
        seed: the seed of the order in which a shard's rows arrive.
        max_state_memory: the bytes of memory for state by key; `None` for no bound.
    """

    shards: int = 1
    cuts: tuple[int, ...] = (1_000_000,)
    restarts: frozenset[int] = frozenset()
    crashes: Mapping[int, int] = attrs.field(factory=dict)
    seed: int = 0
    max_state_memory: int | None = None


@attrs.frozen
class MicroBatch:
    """The output of a micro-batch.

    Attributes:
        records: the records of each sink.
        metrics: the metrics of each shard of each stage.
    """

    records: dict[str, list[Record]]
    metrics: list[TaskMetrics]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> MicroBatch:
        """Unpack the rows that a micro-batch returned."""
        records: dict[str, list[Record]] = {}
        metrics: list[TaskMetrics] = []
        for row in rows:
            match row.kind:
                case Kind.OUTPUT:
                    packed: PackedBundle = load(row.payload)
                    records.setdefault(packed.cut, []).extend(records_of(packed.bundle, packed.instants()))
                case Kind.METRICS:
                    metrics.append(load(row.payload))
        return cls(records, metrics)

    def output_watermark(self, label: str) -> int:
        """Return the output watermark of a keyed node after the micro-batch: the minimum over its shards."""
        return min(int(metrics["watermarks"][label]) for metrics in self.metrics if label in metrics["counters"])


@attrs.frozen
class MicroBatchRunner:
    """Runs plans of scripts and static elements as a stream, on a schedule.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.testing import TestStream, run_script
        >>> script = TestStream().add(1, 0, key="a").add(2, 1, key="b").add(4, 2, key="a")
        >>> runner = MicroBatchRunner(Schedule(shards=2, cuts=(1,), restarts=frozenset({3})))
        >>> [pane.value for pane in run_script(script, dm.Window.into(dm.FixedWindows(60)), dm.Sum(), runner)]
        [5, 2]
    """

    schedule: Schedule

    def run(self, plan: Plan, *, until: str | None = None) -> MicroBatches:
        """Run a plan until all its input is processed."""
        del until  # scripts are finite
        return MicroBatches.of(plan, self.schedule).finish()


class MicroBatches(InProcess[MemoryStore]):
    """A run of a program, micro-batch by micro-batch, with its state in memory.

    Args:
        program: the program.
        schedule: how to run it.

    Attributes:
        offset: the offset up to which the input has been read.
        micro_batches: the output of each micro-batch.
    """

    def __init__(self, program: Program, schedule: Schedule) -> None:
        self._packed = program.pack()
        depths = range(1, len(program.staged.stages) + 1)
        stores = {(depth, shard): MemoryStore() for depth in depths for shard in program.shard_ids}
        cache = ProcessCache()
        super().__init__(cache.program(self._packed), stores, cache)
        self.offset = Offset()
        self.micro_batches: list[MicroBatch] = []
        self._schedule = schedule
        self._order = random.Random(schedule.seed)  # noqa: S311 - randomness of a test, not a secret

    @classmethod
    def of(cls, plan: Plan, schedule: Schedule) -> MicroBatches:
        """Return the run of a checked plan over scripts and static elements."""
        staged = cut_into_stages(plan, changing_sides(plan))
        ahead = run_ahead_in_process(staged)
        program = Program(
            bound_plan(ahead.filled(staged)),
            ahead.sides,
            tuple(range(schedule.shards)),
            "run",
            max_state_memory=schedule.max_state_memory,
        )
        return cls(program, schedule)

    def finish(self) -> Self:
        """Run until all input is processed."""
        while not self.offset.last:
            self.step()
        self._stop_worker()
        return self

    def step(self, *, drain: bool = False) -> None:
        """Run the next micro-batch, after a failed attempt if the schedule has one.

        Args:
            drain: whether the input ends here.
        """
        turn = self.offset.batch
        feed = self.feed(turn)
        end = self.end_of_next(feed, drain=drain)
        sent = self.read(end.batch, plan_work(feed, self.offset, end))
        if turn in self._schedule.restarts:
            self._stop_worker()
            self.program = self.cache.program(self._packed)
        if turn in self._schedule.crashes:
            durable = self.stores
            reached = itertools.islice(durable.items(), self._schedule.crashes[turn])
            self.stores = {shard: store.copied() for shard, store in reached}
            self.run_stages(end.batch, sent)
            self.stores = durable
        self.commit(end, self.run_stages(end.batch, sent))
        self.offset = end

    def feed(self, turn: int) -> Feed:
        """Return the feed that decides what a micro-batch reads."""
        cuts = self._schedule.cuts
        return Feed(self.program.staged.sources, cuts[turn % len(cuts)], 1, self.program.awaited)

    def end_of_next(self, feed: Feed, *, drain: bool = False) -> Offset:
        """Return the offset at which the next micro-batch ends."""
        return feed.next(self.offset, drain=drain)

    def commit(self, end: Offset, rows: list[Row]) -> None:
        """Store the output of a micro-batch."""
        del end
        self.micro_batches.append(MicroBatch.of(rows))

    def wait_until_finish(self, timeout: float | None = None) -> RunnerState:
        """Return the final state."""
        del timeout
        return RunnerState.DONE

    def collected(self, label: str) -> list[Record]:
        """Return the records of a sink, in emission order."""
        records = [record for batch in self.micro_batches for record in batch.records.get(label, ())]
        return sorted(records, key=lambda record: record.order)

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the metrics of each keyed node, added up over its shards."""
        total: dict[str, Counter[str]] = defaultdict(Counter)
        for metrics in self.micro_batches[-1].metrics:
            for label, counts in metrics["counters"].items():
                total[label].update(counts)
        return dict(total)

    def run_shard(self, task: Task, depth: int, shard: int, rows: list[Row], store: StateStore) -> Iterable[Row]:
        """Run one shard, whose rows arrive in any order."""
        self._order.shuffle(rows)
        return super().run_shard(task, depth, shard, rows, store)

    def _stop_worker(self) -> None:
        """Discard everything that is not durable."""
        self.cache.forget(self.program.digest)
