"""A keyed stage in a bounded job: buckets one at a time, per key in event-time order, the watermark following."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import InputPartition

from dataflow_model.plan.nodes import MAIN
from dataflow_model.plan.sources import AddStep, ColumnSource, ElementsSource, ScriptSource
from dataflow_model.runners.engine.bundle import Bundle
from dataflow_model.runners.engine.grouping import GroupingEngine
from dataflow_model.runners.engine.relay import RelayEngine
from dataflow_model.runners.engine.shard import StageShard, feed_pairs, route
from dataflow_model.runners.spark.rows import Kind, Row, dump, load
from dataflow_model.runners.spark.stage0 import FIRST, Slice, pack_arrivals, read_slice, read_static
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.runners.engine.shard import Arrivals
    from dataflow_model.runners.spark.program import Program
    from dataflow_model.runners.spark.rows import PackedBundle

__all__ = ["JobWork", "do_work", "plan_work", "run_buckets"]

_WORTH_A_TASK: Final = 50_000
_NEVER: Final = int(MIN_TIMESTAMP)
"""A bounded job has no processing clock: it stands at −∞."""


class JobWork(InputPartition):
    """What one task of stage 0 does: a row range, or the static source of this label."""

    def __init__(self, number: int, part: Slice | None = None, label: str | None = None) -> None:
        self.number = number
        self.part = part
        self.label = label


def plan_work(program: Program, parallelism: int) -> list[JobWork]:
    """Cut all sources into tasks; runs on the driver."""
    parts: list[tuple[Slice | None, str | None]] = []
    for read in program.staged.sources:
        if isinstance(read.source, ColumnSource):
            for origin in read.source.origins():
                rows = origin.rows or 0
                cuts = max(1, min(parallelism, rows // _WORTH_A_TASK))
                bounds = [rows * part // cuts for part in range(cuts + 1)]
                parts += [(Slice(read.label, origin.name, first, last), None) for first, last in itertools.pairwise(bounds)]
        elif isinstance(read.source, ElementsSource | ScriptSource):
            parts.append((None, read.label))
    return [JobWork(number, part, label) for number, (part, label) in enumerate(parts)] or [JobWork(0)]


def do_work(program: Program, work: JobWork) -> Iterator[Row]:
    """Read what one task reads, packed by shard and bucket."""
    home = program.labels[work.number % len(program.labels)]
    counts: Counter[str] = Counter()
    if work.label is not None:
        yield from _elements(program, work.label, home)
    if work.part is not None:
        for row in read_slice(program, work.part, None, home):
            if row.kind == Kind.SEEN:  # watermarks do not count here; the rows that were read do
                counts = Counter(load(row.payload)[1])
            else:
                yield row
        yield _metrics(program, home, {}, {work.part.label: counts})


def _elements(program: Program, label: str, home: int) -> Iterator[Row]:
    source = program.staged.plan[label].source  # type: ignore[union-attr]
    if isinstance(source, ElementsSource):
        yield from read_static(program, label, FIRST, home)
        return
    steps = [(row, step) for row, step in enumerate(source.steps) if isinstance(step, AddStep)]  # type: ignore[union-attr]
    bundle = Bundle()
    for row, step in steps:
        values = [value for value, _ in step.elements]
        times = [int(time) for _, time in step.elements]
        bundle.extend(Bundle.fresh(values, times, [(label, row, place) for place in range(len(values))], _NEVER))
    arrivals: Arrivals = {}
    route(program.staged, 0, program.fragment(label).run(bundle, MAIN), arrivals)
    yield from pack_arrivals(program, arrivals, home, FIRST)


def run_buckets(program: Program, depth: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Run one partition of a keyed stage; its rows come sorted by stage and bucket."""
    stage = StageShard(program.staged, depth, program.side_values)
    home = program.labels[0]
    for (at_stage, _), some in itertools.groupby(rows, key=lambda row: (row.stage, row.bucket)):
        if at_stage != depth:
            yield from some
            continue
        inboxes: dict[str, Bundle] = {}
        for row in some:
            home = row.shard
            packed: PackedBundle = load(row.payload)
            inboxes.setdefault(packed.cut, Bundle()).extend(packed.bundle)
        yield from pack_arrivals(program, _run_bucket(stage, inboxes), home, FIRST)
    counters = {label: dict(engine.counters) for label, engine in stage.engines.items()}
    stage.tear_down()
    yield _metrics(program, home, counters, {})


def _run_bucket(stage: StageShard, inboxes: dict[str, Bundle]) -> Arrivals:
    arrivals: Arrivals = {}
    for label, inbox in inboxes.items():
        engine = stage.engines[label]
        if isinstance(engine, RelayEngine):
            engine.relay(inbox.in_order())
        else:
            _run_keys(engine, inbox)
        stage.behind(label, engine.take_output(), arrivals)
    return arrivals


def _run_keys(engine: GroupingEngine, inbox: Bundle) -> None:
    """Run a bucket's keys one after the other: the watermark follows each key's elements, then goes to +∞."""
    encoded = [encode_key(value[0]) for value in inbox.values]
    rows = sorted(range(len(encoded)), key=lambda row: (encoded[row], inbox.times[row], inbox.orders[row]))
    for _, of_key in itertools.groupby(rows, key=encoded.__getitem__):
        engine.stand_at(watermark=_NEVER, clock=_NEVER, output_watermark=_NEVER)
        feed_pairs(engine, inbox.take(list(of_key)), follow=True)
        engine.advance_watermark(int(MAX_TIMESTAMP))


def _metrics(program: Program, home: int, counters: Any, sources: Any) -> Row:
    found = {
        "depth": 0,
        "shard": home,
        "counters": counters,
        "sources": {label: dict(counts) for label, counts in sources.items()},
        "watermarks": dict.fromkeys([*counters, *sources], int(MAX_TIMESTAMP)),
        "cache": "void",
    }
    return Row(home, len(program.staged.stages) + 1, Kind.METRICS, dump(found))


