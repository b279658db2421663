"""A pipeline with a changing side input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.plan.stages import cut_into_stages, dynamic_sides
from dataflow_model.runners.engine.bounded.execution import side_values
from dataflow_model.runners.engine.records import records_of
from dataflow_model.runners.sharded.feed.offsets import Feed, begin
from dataflow_model.runners.sharded.in_process import InProcess
from dataflow_model.runners.sharded.program import Program
from dataflow_model.runners.sharded.rows import Kind, load
from dataflow_model.runners.sharded.task import Worker
from dataflow_model.runners.sharded.work import plan_work
from dataflow_model.testing import TestStream
from dataflow_model.testing.micro_batches import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.sinks import Record


def streamed(pipeline: dm.Pipeline, steps: int, *, cached: bool) -> Iterator[Record]:
    """Run a pipeline of scripts as Spark's stages would, in process, on two shards."""
    for _, records in by_sink(pipeline, steps, cached=cached):
        yield from records


def by_sink(pipeline: dm.Pipeline, steps: int, *, cached: bool) -> Iterator[tuple[str, list[Record]]]:
    """Do the same, and tell which sink receives each of the records."""
    plan = pipeline.plan()
    dynamic = dynamic_sides(plan)
    made = Program(cut_into_stages(plan, dynamic), side_values(plan, but=dynamic), (0, 1), "run")
    worker = Worker()
    program = worker.program(made.pack())
    feed = Feed(program.staged.sources, steps, 1, program.awaited)
    stores = {(depth, shard): MemoryStore() for depth in range(1, len(program.staged.stages) + 1) for shard in (0, 1)}
    start: dict[str, Any] = begin()
    while not start["last"]:
        end = feed.next(start, drain=False)
        if not cached:
            worker.forget_shards()
        for row in InProcess(program, stores, worker).run(end["batch"], plan_work(feed, start, end)):
            if row.kind == Kind.OUTPUT:
                packed = load(row.payload)
                yield packed.cut, records_of(packed.bundle, packed.instants())
        start = end


def build(p: dm.Pipeline) -> None:
    tens = dm.Window.into(dm.FixedWindows(10))
    main, side = TestStream(), TestStream()
    for number in range(40):
        main = main.processing_time(number).add(number, number, key="ab"[number % 2])
        side = side.processing_time(number).add(1, number, key="xyz"[number % 3])
        side = side.watermark(number - 4) if number >= 4 else side
        main = main.watermark(number - 2) if number >= 2 else main
    sums = p | "side" >> side | "side windows" >> tens | "sums" >> dm.Sum.per_key()
    elements = p | "main" >> main | "main windows" >> tens
    looked = elements | "look" >> dm.Map(lambda pair, side: (pair[0], (pair[1], sorted(side))), dm.AsIter(sums))
    _ = looked | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()
