"""A whole plan in one process: each chunk of instants runs through all stages before the next chunk."""

from __future__ import annotations

import functools
import operator
import time
from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

import numpy as np

from dataflow_model.metrics.collecting import collecting, count_received_bundles
from dataflow_model.metrics.tally import Tally
from dataflow_model.micros import wall_clock
from dataflow_model.plan.logical.nodes import MAIN
from dataflow_model.plan.logical.stages import changing_sides, cut_into_stages
from dataflow_model.plan.rewrites.early_end import percentile_that_ends
from dataflow_model.plan.rewrites.lifting import lifts
from dataflow_model.plan.rewrites.own_objects import with_own_objects
from dataflow_model.runners.engine.bounded.inputs import (
    HowFar,
    InputChunk,
    Size,
    inputs_of,
    script_chunks,
    taken_signals,
)
from dataflow_model.runners.engine.bounded.rows import row_chunks
from dataflow_model.runners.engine.collections.ahead import run_ahead
from dataflow_model.runners.engine.collections.kept import Course, Kept
from dataflow_model.runners.engine.collections.sink_records import JoinedRecords, records_of
from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.functions.lifetimes import torn_down
from dataflow_model.runners.engine.lanes.bundle import windows_apart
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle, add_arrived
from dataflow_model.runners.engine.lanes.lanes import Repeated, array_of, taken
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.pane_tables import PaneRecords
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, Watermarks
from dataflow_model.runners.engine.machines.shard import StageShard, least_by_instant, routed
from dataflow_model.runners.engine.sources.rows_held import with_rows_held
from dataflow_model.runners.engine.sources.timeline import Awaited, Timeline
from dataflow_model.runners.reporting import Measured, state_sizes

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.engine.collections.ahead import Ahead
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane
    from dataflow_model.runners.engine.machines.shard import Arrivals
    from dataflow_model.runners.engine.sources.estimation import Jump

PanesBySink: TypeAlias = "dict[str, list[tuple[int, PaneRecords]]]"
"""Panes in columns by sink, each table with the index of its instant."""

CHUNK: Final = Size(instants=4_000, elements=20_000, rows=65_536)
"""The size at which a chunk ends."""
_LONGEST_PAUSE: Final = 1.0
"""After how many seconds without anything due there is an instant nevertheless, for signals."""


class Execution:
    """Runs a plan of bounded sources over one shard.

    Args:
        staged: the stages of a checked plan.
        ahead: what has run ahead of it.
        clock: the fixed value of the wall clock, for sources without a replay clock; `None` reads the wall clock.
        most: the greatest number of instants in a chunk; the results do not depend on it.
        rows: the number of rows of a tick at which a chunk may end; the results do not depend on it.

    Attributes:
        watermarks: the current watermarks of each producer.
        tally: the counts of the run, if the runner collects them.
        reached: the current value of the run's clock.
        jumps: by source, an event that has moved its watermark far ahead of the clock.
    """

    def __init__(
        self,
        staged: StagedPlan,
        ahead: Ahead,
        clock: int | None = None,
        *,
        most: int = CHUNK.instants,
        rows: int = CHUNK.rows,
    ) -> None:
        staged = with_rows_held(ahead.filled(staged), wall_clock() if clock is None else clock)
        self.staged = staged = with_own_objects(staged)
        self.clock = clock
        self._size = Size(most, CHUNK.elements, rows)
        self._ahead = ahead.counted
        self.watermarks: dict[str, Watermarks] = {}
        self.counters: dict[str, Counter[str]] = {node.label: Counter() for node in staged.whole.nodes}
        self.tally = Tally()
        self.reached = 0
        self.jumps: dict[str, Jump] = {}
        self._lanes: dict[str, WatermarkLane] = {}
        plan = staged.plan
        self._fragments = {read.label: Fragment(plan, read.label, staged.cuts, ahead.sides) for read in staged.sources}
        self._awaited = Awaited(staged.percentiles, percentile_that_ends(plan))
        self._signals: deque[str] = deque()
        self._how_far = HowFar()
        lifted = lifts(staged, streaming=True, by_instant=True)
        self._shards = [StageShard(staged, depth + 1, ahead.sides, lifts=lifted) for depth in range(len(staged.stages))]

    @classmethod
    def of(cls, plan: Plan, clock: int | None = None, *, most: int = CHUNK.instants, rows: int = CHUNK.rows) -> Self:
        """Return the execution of a checked plan, after running what runs ahead of it."""
        staged = cut_into_stages(plan, changing_sides(plan))
        return cls(staged, run_ahead_in_process(staged, clock), clock, most=most, rows=rows)

    def run(self, pause: Callable[[float], object] = time.sleep) -> Generator[dict[str, Sequence[Record]]]:
        """Yield the records that reach each sink, chunk by chunk; the generator must be exhausted or closed.

        Args:
            pause: waits for some seconds, or returns earlier if the caller wants to stop; it is called only while there
                is work that outlasts the input.
        """
        with torn_down(*self._shards, *self._fragments.values()):
            for chunk in self._chunks(pause):
                panes = self._run(chunk)
                arrivals, at = chunk.arrivals, chunk.timeline.at
                reached = {
                    label: records_at_sink(label, arrivals.get(label), panes.get(label, []), at, self.counters)
                    for label in (sink.label for sink in self.staged.sinks)
                    if label in arrivals or label in panes
                }
                arrivals.clear()  # so that they do not stay while more is read
                yield reached

    def keep(self) -> dict[str, Kept]:
        """Return all that reaches each sink."""
        parts: dict[str, list[tuple[Bundle, Sequence[At]]]] = {sink.label: [] for sink in self.staged.sinks}
        courses: dict[str, list[Course]] = {label: [] for label in parts}
        replays = any(read.source.has_own_clock for read in self.staged.sources)
        with torn_down(*self._shards, *self._fragments.values()):
            for chunk in self._chunks():
                panes = self._run(chunk)
                at = chunk.timeline.at
                for label in parts:
                    parts[label] += bundles_at_sink(chunk.arrivals.get(label), panes.get(label, []), at)
                    if replays:
                        courses[label].append(Course(at, self._reaching(label, len(chunk))))
        joined = {label: Course.joined(course) for label, course in courses.items() if replays}
        return {label: Kept.of(bundles, joined.get(label)) for label, bundles in parts.items()}

    def _chunks(self, pause: Callable[[float], object] = time.sleep) -> Iterator[InputChunk]:
        if inputs_of(self.staged).scripts:
            yield from script_chunks(self.staged, self._through, self._signals, self._size, self._awaited)
        else:
            yield from row_chunks(
                self.staged, self._through, self._signals, self._size, self.clock, self._awaited, self._how_far
            )
        yield from self._after_input(pause)

    def _after_input(self, pause: Callable[[float], object]) -> Iterator[InputChunk]:
        """Yield an instant whenever something is due, as long as work is left that outlasts the input.

        The clock goes on from where the input has left it.
        """
        behind = wall_clock() - self.reached if self.clock is not None or inputs_of(self.staged).scripts else 0
        while any(shard.is_unfinished for shard in self._shards):
            self._how_far = HowFar()  # nobody knows how much work is left
            machines = [machine for shard in self._shards for machine in shard.machines.values()]
            moments = [moment for machine in machines if (moment := machine.next_moments()[1]) is not None]
            left = (min(moment for moment in moments if moment > self.reached) + behind - wall_clock()) / 1_000_000
            if left > 0:
                pause(min(left, _LONGEST_PAUSE))
            now = max(wall_clock() - behind, self.reached + 1)
            timeline = Timeline(InstantLane.of([(now, 0)]), [True])
            signals = taken_signals(self._signals)
            if signals:
                timeline.signals[0] = signals
            yield InputChunk(timeline)

    def signal(self, name: str) -> None:
        """Send a signal, which takes effect at the start of the next chunk; may be called from any thread."""
        self._signals.append(name)

    def _run(self, chunk: InputChunk) -> PanesBySink:
        """Run a chunk stage by stage: its arrivals then contain what reaches the sinks, but for the panes returned."""
        timeline, arrivals = chunk.timeline, chunk.arrivals
        self.jumps = timeline.jumps | self.jumps
        for label, counts in timeline.counts.items():
            self.counters[label].update(counts)
        watermarks = dict(timeline.watermarks)
        panes: PanesBySink = {}
        for shard in self._shards:
            passed, reports = shard.run(timeline.instants, arrivals, watermarks)
            watermarks.update(reports)
            panes.update(take_panes(shard, timeline.at))
            for cut, placed in passed.items():
                add_arrived(arrivals, cut, placed)
        self._lanes = {
            label: reported.advanced(self.watermarks.get(label, MIN_WATERMARKS))
            for label, reported in watermarks.items()
        }
        self.watermarks.update((label, lane[-1]) for label, lane in self._lanes.items())
        self.reached = timeline.at[-1][0]
        return panes

    def _reaching(self, cut: str, count: int) -> WatermarkLane:
        """Return the watermark of what reaches a cut at each of the `count` instants of the current chunk."""
        return least_by_instant(self.staged.feeds[cut], self._lanes, count)

    def metrics(self) -> dict[str, Mapping[str, Any]]:
        """Return the counters of each transform."""
        return self._ahead.added_to(self._counted())

    def low_watermarks(self) -> dict[str, int]:
        """Return the low watermark of each producer."""
        return {label: watermarks.low for label, watermarks in self.watermarks.items()} | self._ahead.watermarks

    def done(self) -> float | None:
        """Return the part of the run that is done, from 0 to 1; `None` while that is not known."""
        labels = [read.label for read in self.staged.sources if read.source.as_columns is not None]
        return self._how_far.done(sum(self.counters[label]["elements_out"] for label in labels))

    def measured(self, *, commits: int, pending_since: int | None) -> Measured:
        """Return the current measurements of the run."""
        machines = {label: machine for shard in self._shards for label, machine in shard.machines.items()}
        measured = Measured(
            counters=self._counted(),
            watermarks=self.low_watermarks(),
            tally=self.tally.copy(),
            state={label: (entries, None) for label, (entries, _) in state_sizes(machines).items()},
            clock=self.reached,
            commits=commits,
            pending_since=pending_since,
            jumps=self.jumps,
        )
        return self._ahead.in_measured(measured)

    def _counted(self) -> dict[str, Counter[str]]:
        """Return what the run itself has counted."""
        counted = dict(self.counters)
        for shard in self._shards:
            for label, machine in shard.machines.items():
                counted[label] = machine.counters
        return counted

    def _through(self, label: str, tag: str, bundle: Bundle) -> Arrivals:
        """Run the transforms that are fused with a source."""
        self.counters[label]["elements_out" if tag == MAIN else "dead_letters"] += len(bundle)
        return routed(self.staged, self._fragments[label].run(bundle, tag))


def take_panes(shard: StageShard, at: InstantLane) -> PanesBySink:
    """Return the panes in columns that a shard has produced for sinks since the last call.

    Args:
        shard: the shard.
        at: the instants of the chunk.
    """
    staged = shard.staged
    return {
        cut: [(index, PaneRecords(table, at[index], staged.depth_of(cut) - 1 - shard.depth)) for index, table in tables]
        for cut, tables in shard.take_panes().items()
    }


def records_at_sink(
    label: str,
    arrived: PlacedBundle | None,
    panes: Sequence[tuple[int, Sequence[Record]]],
    at: InstantLane,
    counters: Mapping[str, Counter[str]],
) -> Sequence[Record]:
    """Return the records of a chunk that reach a sink, and count them.

    Args:
        label: the label of the sink.
        arrived: its elements.
        panes: its panes in columns.
        at: the instants of the chunk.
        counters: the counters of each transform.
    """
    placed = (arrived or PlacedBundle()).in_order()
    rows, _ = windows_apart(placed.bundle.windows)
    indices = array_of(placed.indices if isinstance(rows, range) else taken(placed.indices, rows))
    sizes = np.array([*np.bincount(indices), *(len(part) for _, part in panes)], np.int64)
    if len(sizes):
        count_received_bundles(label, sizes)
        counters[label]["elements_in"] += int(sizes.sum())
    if not panes:
        return records_of(placed.bundle, placed.instants(at))
    parts = list(panes)  # some panes of a grouping may be columns, and others rows
    for index, bundle in placed.runs():
        parts.append((index, records_of(bundle, Repeated(at[index], len(bundle)))))
    return JoinedRecords([part for _, part in sorted(parts, key=_index_of)])


_index_of = operator.itemgetter(0)


def bundles_at_sink(
    arrived: PlacedBundle | None, panes: Sequence[tuple[int, PaneRecords]], at: InstantLane
) -> list[tuple[Bundle, Sequence[At]]]:
    """Return the elements of a chunk that reach a sink, in order, with the instant of each; see `records_at_sink`."""
    placed = (arrived or PlacedBundle()).in_order()
    if not panes:
        return [(placed.bundle, placed.instants(at))]
    parts = [(index, records.bundle()) for index, records in panes]
    parts += placed.runs()
    return [(bundle, Repeated(at[index], len(bundle))) for index, bundle in sorted(parts, key=_index_of)]


def run_ahead_in_process(staged: StagedPlan, clock: int | None = None) -> Ahead:
    """Run the passes ahead of a plan in this process.

    Args:
        staged: the plan.
        clock: the fixed value of the wall clock; `None` reads the wall clock.
    """
    return run_ahead(staged, functools.partial(run_pass_in_process, clock))


def run_pass_in_process(clock: int | None, staged: StagedPlan, ahead: Ahead) -> tuple[dict[str, Kept], Measured]:
    """Run the stages of one pass in this process; return what reaches each sink, and what was measured.

    Args:
        clock: the fixed value of the wall clock; `None` reads the wall clock.
        staged: the stages.
        ahead: what the passes before it have computed.
    """
    execution = Execution(staged, ahead, clock)
    with collecting(execution.tally):
        kept = execution.keep()
    return kept, execution.measured(commits=0, pending_since=None)
