"""The stages of a Spark stream in one process: any number of shards, any cuts, crashes and restarts, and no Java."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.runner import RunnerState
from dataflow_model.plan.sources import ElementsSource, ScriptSource
from dataflow_model.plan.stages import cut_into_stages, dynamic_sides
from dataflow_model.runners.engine.records import records_of
from dataflow_model.runners.local.execution import side_values
from dataflow_model.runners.spark.keyed_stage import run_shard
from dataflow_model.runners.spark.offsets import Feed, begin
from dataflow_model.runners.spark.program import Program, forget_program
from dataflow_model.runners.spark.rows import Kind, PackedBundle, Row, dump, load
from dataflow_model.runners.spark.shard_state import forget
from dataflow_model.runners.spark.stage0 import STATIC_STEP, read_script, read_static

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dataflow_model.plan.graph import Plan
    from dataflow_model.plan.sinks import Record

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
        return MicroBatches(plan, self.schedule).run()


class MicroBatches:
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
        self.program = self._packed.unpack()
        self.micro_batches: list[MicroBatch] = []
        self._schedule = schedule
        self._offset = begin()
        self._feed = Feed(self.program.staged.sources, 1, 1, self.program.awaited)
        depths = range(1, len(self.program.staged.stages) + 1)
        self._stores = {(depth, shard): MemoryStore() for depth in depths for shard in labels}
        self._order = random.Random(schedule.seed)  # noqa: S311 - chance of a test, not a secret

    def run(self) -> MicroBatches:
        """Run to the end."""
        while not self._offset["last"]:
            self._run_next()
        self._stop_workers()
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

    def _run_next(self) -> None:
        """Run the next micro-batch, perhaps after an attempt that failed."""
        number, cuts = len(self.micro_batches), self._schedule.cuts
        self._feed.rows_per_batch = cuts[number % len(cuts)]
        end = self._feed.next(self._offset, drain=False)
        sent = list(self._read(end))
        if number in self._schedule.restarts:
            self._stop_workers()
            self.program = self._packed.unpack()
        if number in self._schedule.crashes:
            before = {place: store.copied() for place, store in self._stores.items()}
            self._run_stages(sent, most=self._schedule.crashes[number])
            self._stores = before
        self.micro_batches.append(MicroBatch.of(self._run_stages(sent)))
        self._offset = end

    def _stop_workers(self) -> None:
        """Leave nothing but what is durable."""
        forget(self.program)
        forget_program(self.program.digest)

    def _read(self, end: dict[str, Any]) -> Iterator[Row]:
        """Yield what stage 0 sends."""
        program = self.program
        control = self._feed.control(self._offset, end)
        payload = dump(control)
        yield from (Row(shard, 1, Kind.CONTROL, payload) for shard in program.labels)
        at = None if control.steps is None else (0, STATIC_STEP)
        for read in program.staged.sources:
            if isinstance(read.source, ElementsSource) and read.label in control.begins:
                yield from read_static(program, read.label, at, 0)
        for label, first, last, places in self._feed.script_rows(self._offset, end):
            yield from read_script(program, label, first, last, places, 0)

    def _run_stages(self, sent: Iterable[Row], most: int | None = None) -> list[Row]:
        """Run the shards of all stages in turn, or only the first ones, and return what reaches the sinks."""
        inboxes: dict[tuple[int, int], list[Row]] = {place: [] for place in self._stores}
        outputs: list[Row] = []
        for row in sent:
            inboxes.get((row.stage, row.shard), outputs).append(row)
        for (depth, shard), store in itertools.islice(self._stores.items(), most):
            mine = inboxes[depth, shard]
            self._order.shuffle(mine)
            for row in run_shard(self.program, depth, shard, mine, store):
                inboxes.get((row.stage, row.shard), outputs).append(row)
        return outputs
