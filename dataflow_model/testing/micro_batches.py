"""A sharded stream in one process: any number of shards, any cuts, crashes and restarts, and no Java."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.runner import RunnerState
from dataflow_model.plan.sources import ElementsSource, ScriptSource
from dataflow_model.plan.stages import cut_into_stages, dynamic_sides
from dataflow_model.runners.engine.bounded.execution import side_values
from dataflow_model.runners.engine.records import records_of
from dataflow_model.runners.sharded.feed.offsets import Feed, begin
from dataflow_model.runners.sharded.in_process import InProcess
from dataflow_model.runners.sharded.program import Program
from dataflow_model.runners.sharded.rows import Kind, PackedBundle, Row, load
from dataflow_model.runners.sharded.task import Worker
from dataflow_model.runners.sharded.work import plan_work

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.sinks import Record
    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.task import Task

__all__ = ["MemoryStore", "MicroBatchRunner", "MicroBatches", "Schedule", "can_stream"]


def can_stream(plan: Plan) -> bool:
    """Tell whether all sources of a plan are scripts and static elements, which is what can be run here."""
    return all(isinstance(read.source, ScriptSource | ElementsSource) for read in cut_into_stages(plan).sources)


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
        """Return the store as it is now."""
        return MemoryStore(self.head, dict(self.parts))


@attrs.frozen
class Schedule:
    """How a run is shared out, cut and interrupted: none of it may change a pane.

    Attributes:
        shards: the number of shards.
        cuts: how many events each micro-batch takes, over and over.
        restarts: before which micro-batches the workers are replaced by new ones, which know only the durable state.
        crashes: which micro-batches are run twice, by number: how many shards the first attempt gets through.
        seed: decides the order in which a shard's rows arrive.
    """

    shards: int = 1
    cuts: tuple[int, ...] = (1_000_000,)
    restarts: frozenset[int] = frozenset()
    crashes: Mapping[int, int] = attrs.field(factory=dict)
    seed: int = 0


@attrs.frozen
class MicroBatch:
    """What a micro-batch has brought.

    Attributes:
        records: what reached each sink.
        metrics: what each shard of each stage reports.
    """

    records: dict[str, list[Record]]
    metrics: list[dict[str, Any]]

    @classmethod
    def of(cls, rows: Iterable[Row]) -> MicroBatch:
        """Unpack what reached the sinks."""
        records: dict[str, list[Record]] = {}
        metrics: list[dict[str, Any]] = []
        for row in rows:
            match row.kind:
                case Kind.OUTPUT:
                    packed: PackedBundle = load(row.payload)
                    records.setdefault(packed.cut, []).extend(records_of(packed.bundle, packed.instants()))
                case Kind.METRICS:
                    metrics.append(load(row.payload))
        return cls(records, metrics)

    def output_watermark(self, label: str) -> int:
        """Return the output watermark of a keyed node after it: the least that its shards have."""
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
        """Run a plan to its end."""
        del until  # scripts end by themselves
        return MicroBatches(plan, self.schedule).finish()


class MicroBatches(InProcess):
    """A run of a plan over scripts and static elements, micro-batch by micro-batch.

    Args:
        plan: a checked plan.
        schedule: how it is run.

    Attributes:
        micro_batches: what each has brought.
    """

    def __init__(self, plan: Plan, schedule: Schedule) -> None:
        dynamic = dynamic_sides(plan)
        labels = tuple(range(schedule.shards))
        program = Program(cut_into_stages(plan, dynamic), side_values(plan, but=dynamic), labels, "run")
        self._packed = program.pack()
        depths = range(1, len(program.staged.stages) + 1)
        self._memory = {(depth, shard): MemoryStore() for depth in depths for shard in labels}
        worker = Worker()
        super().__init__(worker.program(self._packed), self._memory, worker)
        self.micro_batches: list[MicroBatch] = []
        self._schedule = schedule
        self._offset = begin()
        self._order = random.Random(schedule.seed)  # noqa: S311 - chance of a test, not a secret

    def finish(self) -> MicroBatches:
        """Run to the end."""
        while not self._offset["last"]:
            self._run_next()
        self._stop_worker()
        return self

    def wait_until_finish(self, timeout: float | None = None) -> RunnerState:
        """Say that it is over."""
        del timeout
        return RunnerState.DONE

    def collected(self, label: str) -> list[Record]:
        """Return what a sink has received, in emission order."""
        records = [record for one in self.micro_batches for record in one.records.get(label, ())]
        return sorted(records, key=lambda record: record.order)

    def metrics(self) -> dict[str, Counter[str]]:
        """Return what the shards of each keyed node have counted, together."""
        total: dict[str, Counter[str]] = defaultdict(Counter)
        for metrics in self.micro_batches[-1].metrics:
            for label, counts in metrics["counters"].items():
                total[label].update(counts)
        return dict(total)

    def run_shard(self, task: Task, depth: int, label: int, rows: list[Row], store: StateStore) -> Iterable[Row]:
        """Run one shard, to which its rows come in any order."""
        self._order.shuffle(rows)
        return super().run_shard(task, depth, label, rows, store)

    def _run_next(self) -> None:
        """Run the next micro-batch, perhaps after an attempt that failed."""
        number, cuts = len(self.micro_batches), self._schedule.cuts
        feed = Feed(self.program.staged.sources, cuts[number % len(cuts)], 1, self.program.awaited)
        end = feed.next(self._offset, drain=False)
        sent = self.read(number, plan_work(feed, self._offset, end))
        if number in self._schedule.restarts:
            self._stop_worker()
            self.program = self.worker.program(self._packed)
        if number in self._schedule.crashes:
            reached = itertools.islice(self._memory.items(), self._schedule.crashes[number])
            self.stores = {place: store.copied() for place, store in reached}
            self.run_stages(number, sent)
            self.stores = self._memory
        self.micro_batches.append(MicroBatch.of(self.run_stages(number, sent)))
        self._offset = end

    def _stop_worker(self) -> None:
        """Leave nothing but what is durable."""
        self.worker.forget(self.program.digest)
