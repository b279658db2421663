"""What a micro-batch costs by the number of shards: what the driver does alone, and what each task does.

`python -m benchmarks.cost_model` prints its table. All tasks run in this process, one after the other, and what they
send to each other is pickled, as between Spark's processes. What Spark itself does is not part of it. Each task has a
cache of its own, like a worker that holds a single shard.
"""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.commits.publishing import Publisher
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.outputs.pending import write_pending
from dataflow_model.runners.sharded.stages.keyed_stage import run_shard
from dataflow_model.runners.sharded.stages.tallies import counting
from dataflow_model.runners.sharded.stages.work import plan_work, read_work
from dataflow_model.runners.sharded.tasks.bound import bound_plan
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from dataflow_model.testing.proving.micro_batches import MemoryStore
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from dataflow_model.runners.sharded.tasks.rows import Row

__all__ = ["SHARDS", "Cost", "build", "growth", "measured", "shards_table", "write_files"]

T = TypeVar("T")

SHARDS: Final = (1, 10, 100)
ELEMENTS: Final = 1_000
"""The number of elements per shard, which are in one file."""
_STAGES: Final = 2
_KEYS: Final = 100
"""The number of keys per shard."""
_MICRO_BATCHES: Final = 2
_SCHEMA: Final = pa.schema({"key": pa.int64(), "n": pa.int64(), "at": pa.timestamp("us", "UTC")})
_SUMS: Final = pa.schema({"key": pa.int64(), "value": pa.int64()})


@attrs.frozen
class Cost:
    """Processor time of a micro-batch of two keyed stages, in seconds.

    Attributes:
        shards: the number of shards, of tasks that read a file each, and of output files.
        decide: what the driver takes to decide what is read, and to divide it.
        read: what a task takes to read its file and to send each shard its part.
        stages: what a shard takes in each keyed stage.
        write: what a shard takes to write its output.
        publish: what the driver takes to publish the output of all shards.
    """

    shards: int
    decide: float
    read: float
    stages: tuple[float, ...]
    write: float
    publish: float

    @property
    def serial(self) -> float:
        """What the driver takes alone."""
        return self.decide + self.publish

    @property
    def parallel(self) -> float:
        """What a micro-batch takes in tasks if each has a core."""
        return self.read + sum(self.stages) + self.write


@attrs.define
class _Cluster:
    """A run whose tasks are measured one by one."""

    folder: Path
    program: Program
    offset: Offset = attrs.field(factory=Offset)
    stores: dict[tuple[int, int], MemoryStore] = attrs.field(factory=dict)
    workers: dict[tuple[int, int], ProcessCache] = attrs.field(factory=dict)
    feed: Feed = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        shards = len(self.program.shard_ids)
        self.feed = Feed(self.program.staged.sources, ELEMENTS * shards, shards, self.program.awaited)

    def step(self) -> Cost:
        """Run a micro-batch."""
        shards, offset = self.program.shard_ids, self.offset
        committed = read_progress(self._directory)
        end, choosing = _timed(lambda: self.feed.next(offset, drain=False, committed=committed))
        works, dividing = _timed(lambda: plan_work(self.feed, offset, end))
        self.offset = end
        inboxes: defaultdict[int, defaultdict[int, list[Row]]] = defaultdict(lambda: defaultdict(list))
        read = self._run(inboxes, 0, range(len(works)), lambda task: read_work(task, works[task.part]))
        stages = []
        for depth in range(1, _STAGES + 1):
            rows = inboxes.pop(depth)
            stages.append(self._run(inboxes, depth, shards, functools.partial(self._shard, depth, rows)))
        written = [_timed(functools.partial(self._write, shard, inboxes[_STAGES + 1][shard])) for shard in shards]
        messages = [message for message, _ in written]
        publisher = Publisher(self.program, self._directory)
        _, publish = _timed(lambda: publisher.commit(end.batch, [load(message) for message in messages]))
        write = statistics.fmean(taken for _, taken in written)
        return Cost(len(shards), choosing + dividing, read, tuple(stages), write, publish)

    @property
    def _directory(self) -> str:
        return str(self.folder / "progress")

    def _task(self, stage: int, part: int) -> Task:
        """Return a task in a process of its own."""
        worker = self.workers.setdefault((stage, part), ProcessCache())
        return Task(self.program, worker, part, self.offset.batch)

    def _run(
        self,
        inboxes: defaultdict[int, defaultdict[int, list[Row]]],
        stage: int,
        parts: Sequence[int],
        rows_of: Callable[[Task], Iterable[Row]],
    ) -> float:
        """Run the tasks of a stage, send what they yield, and return the mean time of a task."""
        times = []
        for part in parts:
            task = self._task(stage, part)
            rows, taken = _timed(lambda: list(counting(task, rows_of(task))))  # noqa: B023 - called at once
            times.append(taken)
            for row in rows:
                inboxes[row.stage][row.shard].append(row)
        return statistics.fmean(times)

    def _shard(self, depth: int, inboxes: Mapping[int, list[Row]], task: Task) -> Iterable[Row]:
        store = self.stores.setdefault((depth, task.part), MemoryStore())
        return run_shard(task, depth, task.part, inboxes[task.part], store)

    def _write(self, shard: int, rows: Iterable[Row]) -> bytes:
        return dump(write_pending(self._task(_STAGES, shard), rows))


def _timed(run: Callable[[], T]) -> tuple[T, float]:
    start = time.process_time()
    result = run()
    return result, time.process_time() - start


def measured(shards: int, micro_batches: int = _MICRO_BATCHES) -> Cost:
    """Return what a micro-batch costs with a number of shards: the mean of some, after a first one."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "in").mkdir()
        cluster = _Cluster(folder, _program(folder, shards))
        costs = []
        for number in range(1 + micro_batches):
            write_files(folder, shards, number)
            costs.append(cluster.step())
    return _mean(costs[1:])


def _program(folder: Path, shards: int) -> Program:
    pipeline = dm.Pipeline()
    build(pipeline, folder)
    return Program(bound_plan(cut_into_stages(pipeline.plan())), {}, tuple(range(shards)), "run")


def build(pipeline: dm.Pipeline, folder: Path) -> None:
    """Build sums per key with early panes, and sums of these sums."""
    rows = pipeline | dm.io.ReadParquet(
        folder / "in", event_time="at", follow=True, schema=_SCHEMA, watermark=dm.BoundedOutOfOrderness("1 day")
    )
    early = dm.AfterWatermark(early=dm.AfterCount(ELEMENTS // _KEYS))
    sums = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows("1 day")).trigger(early).discarding()
    for stage in range(_STAGES):
        sums = sums | f"sums {stage}" >> dm.Sum.per_key()
    _ = sums | dm.io.WriteParquet(folder / "out", schema=_SUMS)


def write_files(folder: Path, shards: int, number: int) -> None:
    """Write a file for each shard; each contains elements of all keys, as files of a stream do."""
    draw = np.random.default_rng(number)
    for shard in range(shards):
        keys = draw.integers(0, shards * _KEYS, ELEMENTS)
        times = pa.array(np.full(ELEMENTS, 1_000_000), pa.timestamp("us", "UTC"))
        rows = pa.table([pa.array(keys), pa.array(np.ones(ELEMENTS, np.int64)), times], schema=_SCHEMA)
        hidden = folder / "_part"
        pq.write_table(rows, hidden)
        hidden.rename(folder / "in" / f"{number:04}-{shard:04}.parquet")


def _mean(costs: Sequence[Cost]) -> Cost:
    rows = np.array([(cost.decide, cost.read, *cost.stages, cost.write, cost.publish) for cost in costs])
    decide, read, *stages, write, publish = rows.mean(axis=0).tolist()
    return Cost(costs[0].shards, decide, read, tuple(stages), write, publish)


def growth(costs: Sequence[Cost]) -> tuple[float, float]:
    """Return what a further shard costs the driver, and each core, in seconds: the slopes of lines.

    Example:
        >>> costs = [Cost(shards, 0.001 * shards, 0.5, (0.002 * shards,), 0.1, 0.003 * shards) for shards in (1, 10)]
        >>> [round(seconds, 6) for seconds in growth(costs)]
        [0.004, 0.002]
    """
    shards = np.array([cost.shards for cost in costs], float)
    driver = np.polyfit(shards, [cost.serial for cost in costs], 1)
    core = np.polyfit(shards, [cost.parallel for cost in costs], 1)
    return float(driver[0]), float(core[0])


def shards_table(costs: Iterable[Cost]) -> Iterator[str]:
    """Yield the table in Markdown, line by line."""
    stages = "".join(f" stage {number} |" for number in range(1, _STAGES + 1))
    yield f"| shards | read a file, ms |{stages} write | *each core* | decide | publish | *driver* |"
    yield "|---:|" + "---:|" * (_STAGES + 6)
    for cost in costs:
        times = (cost.read, *cost.stages, cost.write, cost.parallel, cost.decide, cost.publish, cost.serial)
        yield f"| {cost.shards:,} | {' | '.join(f'{seconds * 1e3:,.1f}' for seconds in times)} |"
