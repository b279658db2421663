"""A keyed stage in a bounded job: one bucket at a time, each key in event-time order, with the watermark following."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.plan.endpoints.retries import RETRIES, retried
from dataflow_model.plan.endpoints.scripts import events_of
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.runners.engine.functions.lifetimes import torn_down
from dataflow_model.runners.engine.functions.user_code import exits_reported, source_calls
from dataflow_model.runners.engine.lanes.chunk import Bucket
from dataflow_model.runners.engine.machines.shard import StageShard
from dataflow_model.runners.engine.protocol.by_key import NEVER
from dataflow_model.runners.engine.sources.in_program import script_bundle
from dataflow_model.runners.sharded.feed.slices import FIRST, Slice
from dataflow_model.runners.sharded.outputs.pending import PendingWriter
from dataflow_model.runners.sharded.stages.stage0 import (
    pack_arrivals,
    pack_panes,
    read_slices,
    read_static,
    run_through,
)
from dataflow_model.runners.sharded.stages.work import share_out
from dataflow_model.runners.sharded.tasks.rows import Kind, PackedBundle, PackedPartials, Row
from dataflow_model.time import MAX_TIMESTAMP
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from dataflow_model.plan.endpoints.origins import Origin
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.order import Order
    from dataflow_model.runners.engine.sources.reading import Version
    from dataflow_model.runners.sharded.tasks.program import Program
    from dataflow_model.runners.sharded.tasks.task import Task
    from dataflow_model.runners.sharded.tasks.task_metrics import TaskMetrics

_WORTH_A_TASK: Final = 50_000


@attrs.frozen
class JobWork:
    """The work of one task of stage 0: row ranges, or the static source with this label.

    Attributes:
        retries: in the first task, how often listing each source failed.
    """

    number: int
    parts: Sequence[Slice] = ()
    label: str | None = None
    retries: Mapping[str, int] = attrs.field(factory=dict)


def plan_work(program: Program, parallelism: int) -> list[JobWork]:
    """Divide all sources into tasks; runs in the process that starts the pipeline."""
    static: list[str] = []
    origins: list[tuple[str, Origin, Version]] = []
    retries: dict[str, Counter[str]] = {}
    for read in program.staged.sources:
        columns = read.source.as_columns
        if columns is not None:
            with exits_reported(read.label), source_calls(read.label, "origins", columns.is_users):
                counted = retried(
                    columns, read.label, "origins", columns.counted_origins, retries.setdefault(read.label, Counter())
                )
            has_gaps = columns.position_column is not None
            origins += [(read.label, origin, origin.version if has_gaps else None) for origin in counted]
        elif read.source.as_dataframe is None:
            static.append(read.label)
    fair = max(_WORTH_A_TASK, -(-sum(origin.row_count for _, origin, _ in origins) // parallelism))
    parts: list[Slice] = []
    for label, origin, version in origins:
        rows = origin.row_count
        cuts = -(-rows // fair)
        bounds = [rows * part // cuts for part in range(cuts + 1)] if cuts else []
        parts += [
            Slice(label, origin.name, first, last, origin.first, version) for first, last in itertools.pairwise(bounds)
        ]
    works: list[tuple[list[Slice], str | None]] = [
        (parts_of_task, None) for parts_of_task in share_out(parts, parallelism)
    ]
    works += [([], label) for label in static]
    first, *others = [JobWork(number, *work) for number, work in enumerate(works)] or [JobWork(0)]
    return [attrs.evolve(first, retries={label: counts[RETRIES] for label, counts in retries.items()}), *others]


def do_work(task: Task, work: JobWork) -> Iterator[Row]:
    """Yield the rows of one task, packed by shard and bucket."""
    counts = {label: Counter({RETRIES: count}) for label, count in work.retries.items() if count}
    with PendingWriter(task) as writer:
        with torn_down(task):
            if work.label is not None:
                yield from _elements(task, work.label, writer)
                counts[work.label] = Counter(elements_out=task.program.staged.source(work.label).row_count() or 0)
            for row in read_slices(task, work.parts, None, writer):
                if row.kind != Kind.SEEN:
                    yield row
                elif row.shard == task.program.followers[0]:  # each has the numbers of rows, which alone are used here
                    observations, counted = load(row.payload)
                    counts.setdefault(observations.label, Counter()).update({**counted, **observations.counts()})
        if counts:
            yield _metrics(task, {}, counts)
        yield from writer.finish()


def _elements(task: Task, label: str, writer: PendingWriter) -> Iterator[Row]:
    staged = task.program.staged
    script = staged.source(label).as_script
    if script is None:
        clock = task.program.wall if task.program.is_on_wall else FIRST[0]
        yield from read_static(task, label, clock, writer=writer)
        return
    events = [step for _, step in events_of(script.steps)]
    bundle = script_bundle(label, enumerate(events), NEVER)
    yield from run_through(task, label, MAIN, bundle, FIRST, writer=writer)


def run_buckets(task: Task, depth: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Run one partition of a keyed stage, whose rows are sorted by stage and bucket."""
    program = task.program
    stage = StageShard(program.staged, depth, program.side_values, lifts=program.lifts, is_bounded=True)
    with PendingWriter(task) as writer:
        with torn_down(stage):
            for (at_stage, _), bucket_rows in itertools.groupby(rows, key=lambda row: (row.stage, row.bucket)):
                if at_stage != depth:
                    yield from bucket_rows
                    continue
                buckets: defaultdict[str, Bucket] = defaultdict(Bucket)
                elements: defaultdict[str, list[Bundle]] = defaultdict(list)
                for row in bucket_rows:
                    packed: PackedBundle | PackedPartials = load(row.payload)
                    bucket = buckets[packed.cut]
                    if isinstance(packed, PackedBundle):
                        elements[packed.cut].append(packed.bundle)
                    else:
                        bucket.partials.append(packed.partials())
                for cut, bundles in elements.items():
                    bundles.sort(key=_first_order)  # each is in order, so often all of them are
                    buckets[cut].elements.extend(*bundles)
                yield from pack_arrivals(task, stage.run_bounded(buckets), FIRST, writer)
                yield from pack_panes(task, stage, [FIRST], writer)
        counters = {label: dict(machine.counters) for label, machine in stage.machines.items()}
        yield _metrics(task, counters, {})
        yield from writer.finish()


def _first_order(bundle: Bundle) -> Order:
    return bundle.orders[0]


def _metrics(task: Task, counters: Mapping[str, Mapping[str, int]], sources: Mapping[str, Mapping[str, int]]) -> Row:
    metrics: TaskMetrics = {
        "depth": 0,
        "shard": task.home,
        "counters": counters,
        "sources": {label: dict(counts) for label, counts in sources.items()},
        "watermarks": dict.fromkeys([*counters, *sources], int(MAX_TIMESTAMP)),
    }
    return task.row_for_commit(Kind.METRICS, metrics)
