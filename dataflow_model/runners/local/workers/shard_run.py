"""The run of one shard: it reads a part of the sources, and runs all stages over the keys that it owns."""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.metrics.tally import Tally
from dataflow_model.plan.endpoints.retries import RETRIES
from dataflow_model.plan.logical.nodes import MAIN, Write
from dataflow_model.runners.engine.bounded.execution import CHUNK, PanesBySink, records_at_sink, take_panes
from dataflow_model.runners.engine.bounded.files import RowReader, SourceTimeline
from dataflow_model.runners.engine.bounded.inputs import InputChunk, cut_up, inputs_of, whole_script
from dataflow_model.runners.engine.collections.sink_records import JoinedRecords
from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.functions.lifetimes import torn_down
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle, add_arrived
from dataflow_model.runners.engine.lanes.lanes import Integers, array_of, taken
from dataflow_model.runners.engine.lanes.watermarks import MIN_WATERMARKS, WatermarkLane
from dataflow_model.runners.engine.machines.shard import StageShard, routed
from dataflow_model.runners.engine.protocol.sharding import put_in_columns, rows_by_shard
from dataflow_model.runners.engine.sources.timeline import Timeline
from dataflow_model.runners.local.workers.exchange import PlacedElements
from dataflow_model.runners.local.workers.messages import Progress
from dataflow_model.runners.reporting import state_sizes
from dataflow_model.runners.sharded.tasks.rows import Kind, Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.machines.shard import Arrivals
    from dataflow_model.runners.engine.sources.estimation import Jump
    from dataflow_model.runners.local.workers.exchange import Exchange
    from dataflow_model.runners.local.workers.messages import Assignment
    from dataflow_model.runners.sharded.tasks.program import Program

_NO_WATERMARKS: Final[Mapping[str, WatermarkLane]] = {}


class ShardRun:
    """Runs one shard of a program over the whole input, stage by stage.

    Args:
        program: the program.
        assignment: what this worker does.
        exchange: what carries elements and watermarks between the workers.
        note: takes the labels of the transforms that run next.

    Attributes:
        tally: the counts of the run, if the worker collects them.
    """

    def __init__(
        self, program: Program, assignment: Assignment, exchange: Exchange, note: Callable[[Sequence[str]], None]
    ) -> None:
        staged = program.staged
        self._note = note
        self._program, self._staged, self._assignment, self._exchange = program, staged, assignment, exchange
        self._number, self._workers = exchange.number, exchange.workers
        self.tally = Tally()
        self._counters: dict[str, Counter[str]] = {node.label: Counter() for node in staged.plan.nodes}
        self._fragments = {
            read.label: Fragment(staged.plan, read.label, staged.cuts, program.side_values) for read in staged.sources
        }
        self._stages = [
            StageShard(staged, depth + 1, program.side_values, lifts=program.lifts)
            for depth in range(len(staged.stages))
        ]
        self._chunks: list[InputChunk] = []
        self._panes: list[PanesBySink] = []
        self._watermarks: dict[str, WatermarkLane] = {}
        self._clock = 0
        self._jumps: dict[str, Jump] = {}

    def run(self) -> dict[str, JoinedRecords]:
        """Return the records that reach each sink from this shard, in order."""
        with torn_down(*self._stages, *self._fragments.values()):
            fragments = self._fragments.items()
            self._note([label for read, fragment in fragments for label in (read, *fragment.labels)])
            self._chunks = list(cut_up(self._read(), CHUNK, deque()))
            self._panes = [{} for _ in self._chunks]
            for stage in self._stages:
                self._note(stage.labels)
                self._run_stage(stage)
        return {sink.label: JoinedRecords(list(self._records(sink))) for sink in self._staged.sinks}

    def progress(self) -> Progress:
        """Return what has been counted so far."""
        machines = {label: machine for stage in self._stages for label, machine in stage.machines.items()}
        return Progress(
            {**self._counters, **{label: machine.counters for label, machine in machines.items()}},
            self.tally,
            {label: entries for label, (entries, _) in state_sizes(machines).items()},
            {label: lane.advanced(MIN_WATERMARKS)[-1].low for label, lane in self._watermarks.items()},
            self._clock,
            self._jumps,
        )

    # Sources ----------------------------------------------------------------------------------------------------------

    def _read(self) -> InputChunk:
        """Return the whole timeline, with the elements that the sources emit for this shard."""
        inputs = inputs_of(self._staged)
        if inputs.scripts:
            whole = self._read_script() if self._number == 0 else InputChunk(Timeline())
            [timeline] = self._exchange.swap(self._to_all(Kind.TIMELINE, whole.timeline) if self._number == 0 else ())
            arrivals = whole.arrivals
        else:
            reader = RowReader(self._staged, self._program.wall, self._through, self._program.awaited)
            timeline = self._read_rows(reader)
            for read in inputs.static:
                for _ in reader.take(read, timeline.at[0][0], self._number, self._workers):
                    pass
            arrivals = reader.arrivals(timeline)
        self._watermarks = dict(timeline.watermarks)
        self._clock = timeline.at[-1][0]
        self._exchange_elements(arrivals)
        return InputChunk(timeline, {cut: placed.in_order() for cut, placed in arrivals.items()})

    def _read_script(self) -> InputChunk:
        """Read all scripts, which one worker does: each of their events is an instant of its own."""
        return whole_script(self._staged, self._through, self._program.awaited)

    def _read_rows(self, reader: RowReader) -> Timeline:
        """Read this worker's part of the rows, and return the timeline that the rows of all workers make."""
        staged, assignment, program = self._staged, self._assignment, self._program
        seen = [
            batch.seen
            for part in assignment.parts
            for batch in reader.read(
                staged.read(part.label), part.origin, part.start, part.stop, first=part.base, version=part.version
            )
        ]
        inputs = inputs_of(staged)
        sources = SourceTimeline([*inputs.rows, *inputs.static], assignment.listed, program.wall, program.awaited)
        for seen_by_worker in self._exchange.swap(self._to_all(Kind.SEEN, seen)):
            for observations in seen_by_worker:
                sources.take(observations)
        sources.end_all()
        for own in seen:
            self._counters[own.label].update(own.counts())
        for source in assignment.listed if self._number == 0 else ():
            if source.retries:
                self._counters[source.label][RETRIES] += source.retries
        timeline = sources.next()
        self._jumps = timeline.jumps
        return timeline

    def _through(self, label: str, tag: str, bundle: Bundle) -> Arrivals:
        """Run the transforms that are fused with a source."""
        self._counters[label]["elements_out" if tag == MAIN else "dead_letters"] += len(bundle)
        return routed(self._staged, self._fragments[label].run(bundle, tag))

    # Stages -----------------------------------------------------------------------------------------------------------

    def _run_stage(self, stage: StageShard) -> None:
        """Run a stage over the whole timeline, and exchange its output."""
        outputs: dict[str, list[PlacedBundle]] = {}
        reports: dict[str, list[WatermarkLane]] = {}
        start = 0
        for chunk, panes in zip(self._chunks, self._panes, strict=True):
            stop = start + len(chunk)
            known = {label: lane.sliced(start, stop) for label, lane in self._watermarks.items()}
            passed, reported = stage.run(chunk.timeline.instants, chunk.arrivals, known)
            panes.update(take_panes(stage, chunk.timeline.at))
            for label, lane in reported.items():
                reports.setdefault(label, []).append(lane)
            for cut, placed in passed.items():
                if isinstance(self._staged.taker(cut), Write):
                    add_arrived(chunk.arrivals, cut, placed)
                else:
                    indices = Integers(array_of(placed.indices) + start)
                    outputs.setdefault(cut, []).append(PlacedBundle(placed.bundle, indices))
            for cut in [cut for cut in chunk.arrivals if self._staged.depth_of(cut) == stage.depth]:
                del chunk.arrivals[cut]
            start = stop
        arrivals = {cut: PlacedBundle.joined(parts) for cut, parts in outputs.items()}
        lanes = self._exchange_elements(arrivals, {label: WatermarkLane.joined(own) for label, own in reports.items()})
        self._watermarks.update((label, WatermarkLane.least(of_shards)) for label, of_shards in lanes.items())
        start = 0
        ordered = {cut: placed.in_order() for cut, placed in arrivals.items()}
        for chunk in self._chunks:
            stop = start + len(chunk)
            for cut, placed in ordered.items():
                part = placed.sliced(start, stop)
                if len(part):
                    add_arrived(chunk.arrivals, cut, part)
            start = stop

    def _records(self, sink: Write) -> Iterator[Sequence[Record]]:
        """Yield the records of a sink, chunk by chunk."""
        for chunk, panes in zip(self._chunks, self._panes, strict=True):
            arrived, tables = chunk.arrivals.pop(sink.label, None), panes.pop(sink.label, [])
            if arrived is not None or tables:
                yield records_at_sink(sink.label, arrived, tables, chunk.timeline.at, self._counters)

    # Other workers ----------------------------------------------------------------------------------------------------

    def _exchange_elements(
        self, arrivals: dict[str, PlacedBundle], watermarks: Mapping[str, WatermarkLane] = _NO_WATERMARKS
    ) -> dict[str, list[WatermarkLane]]:
        """Replace the elements for keyed nodes by those for this shard, and return the watermarks of all shards.

        Args:
            arrivals: the elements by cut; those for sinks stay.
            watermarks: the output watermarks of this shard's keyed nodes at each instant.
        """
        rows = [row for label, lane in watermarks.items() for row in self._to_all(Kind.WATERMARK, (label, lane))]
        for cut in [cut for cut in arrivals if not isinstance(self._staged.taker(cut), Write)]:
            rows += self._shares(cut, arrivals.pop(cut))
        received: dict[str, list[PlacedBundle]] = {}
        lanes: dict[str, list[WatermarkLane]] = {}
        for payload in self._exchange.swap(rows):
            if isinstance(payload, PlacedElements):
                received.setdefault(payload.cut, []).append(payload.placed)
            else:
                label, lane = payload
                lanes.setdefault(label, []).append(lane)
        arrivals.update((cut, PlacedBundle.joined(parts)) for cut, parts in received.items())
        return lanes

    def _shares(self, cut: str, placed: PlacedBundle) -> Iterator[Row]:
        """Yield the elements of a cut by the shard that owns them; every shard has the whole of a side input."""
        if cut in self._staged.owners:
            yield from self._to_all(Kind.DATA, PlacedElements(cut, placed))
            return
        node = self._staged.taker(cut)
        assert not isinstance(node, Write)  # noqa: S101 - the caller keeps what goes to sinks
        put_in_columns(node, placed.bundle)
        for shard, rows in rows_by_shard(node, placed.bundle, self._workers).items():
            share = placed
            if len(rows) < len(placed):
                share = PlacedBundle(placed.bundle.take(rows), taken(placed.indices, rows))
            yield Row(shard, 0, Kind.DATA, PlacedElements(cut, share))

    def _to_all(self, kind: str, payload: Any) -> Iterator[Row]:
        return (Row(shard, 0, kind, payload) for shard in range(self._workers))
