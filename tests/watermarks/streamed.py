"""Micro-batches in process: the lowering of the streaming runner with stores in memory instead of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.rounds import in_rounds
from dataflow_model.plan.sources import ElementsSource
from dataflow_model.plan.stages import cut_into_stages
from dataflow_model.runners.spark.bound import bound_plan
from dataflow_model.runners.spark.keyed_stage import run_shard
from dataflow_model.runners.spark.offsets import Feed, begin
from dataflow_model.runners.spark.program import Program
from dataflow_model.runners.spark.publishing import Publisher, read_collected, read_counters, read_progress
from dataflow_model.runners.spark.requests import forget_signals, pending_signals, request_signal
from dataflow_model.runners.spark.rows import Kind, Row, dump
from dataflow_model.runners.spark.stage0 import STATIC_STEP, read_script, read_slice, read_static
from dataflow_model.runners.spark.tallies import counting
from dataflow_model.testing.micro_batches import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataflow_model.plan.sinks import Record

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
        control = feed.control(self.offset, end)
        rows = [Row(shard, 1, Kind.CONTROL, dump(control)) for shard in program.labels]
        at = None if control.steps is None else (0, STATIC_STEP)
        for read in program.staged.sources:
            if isinstance(read.source, ElementsSource) and read.label in control.begins:
                rows += counting(program, 0, read_static(program, read.label, at, 0))
        if feed.scripts:
            for label, first, last, places in feed.script_rows(self.offset, end):
                rows += counting(program, 0, read_script(program, label, first, last, places, 0))
        else:
            for part in feed.slices(self.offset, end):
                rows += counting(program, 0, read_slice(program, part, control.wall, 0))
        for (depth, shard), store in self.stores.items():
            others = [row for row in rows if row.shard != shard or row.stage != depth]
            mine = [row for row in rows if row.shard == shard and row.stage == depth]
            rows = others + list(run_shard(program, depth, shard, mine, store))
        publisher = Publisher(program, self.directory)
        publisher.commit(end["batch"], [publisher.stage(end["batch"], rows)])
        forget_signals(self.folder, end["signals"])
        self.offset = end

    def progress(self) -> dict[str, Any]:
        return read_progress(self.directory)

    def metrics(self) -> dict[str, dict[str, Any]]:
        return read_counters(self.directory, self.program.staged.plan)

    def collected(self, label: str) -> list[Record]:
        return read_collected(self.directory, label)
