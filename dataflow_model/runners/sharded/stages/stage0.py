"""Stage 0: read row ranges, run the transforms that are fused with the sources, and pack bundles by shard."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.metrics.collecting import count_passed
from dataflow_model.plan.endpoints.retries import RETRIES
from dataflow_model.plan.endpoints.scripts import events_of
from dataflow_model.plan.logical.ahead import KeptSink
from dataflow_model.plan.logical.nodes import MAIN, GroupByKeyAndWindow, Write
from dataflow_model.plan.logical.stages import owner_of_cut
from dataflow_model.runners.engine.collections.sink_records import records_of
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.lanes import Integers, array_of, taken
from dataflow_model.runners.engine.lanes.order import name_of_origin
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane, RowOrders
from dataflow_model.runners.engine.lanes.pane_tables import PaneRecords
from dataflow_model.runners.engine.lanes.uniform import uniform
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, RowValues
from dataflow_model.runners.engine.lifted.chunks import chunk_partials
from dataflow_model.runners.engine.lifted.keys import split_by_shard as split_table
from dataflow_model.runners.engine.machines.shard import routed
from dataflow_model.runners.engine.protocol.sharding import put_in_columns, rows_by_shard
from dataflow_model.runners.engine.sources.in_program import event_numbers, script_bundle, static_bundles
from dataflow_model.runners.engine.sources.observing import Observations, Observer
from dataflow_model.runners.engine.sources.reading import check_unchanged, opened_in_version, read_rows
from dataflow_model.runners.sharded.feed.slices import FIRST, Slice
from dataflow_model.runners.sharded.outputs.publication import skips_again
from dataflow_model.runners.sharded.tasks.rows import Kind, PackedBundle, PackedPanes, PackedPartials, Row
from dataflow_model.runners.sharded.tasks.unpicklable import unpicklable_element

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from dataflow_model.plan.endpoints.scripts import Step
    from dataflow_model.plan.logical.stages import KeyedNode
    from dataflow_model.plan.rewrites.lifting import Lift
    from dataflow_model.runners.engine.lanes.lanes import Lane
    from dataflow_model.runners.engine.lanes.order import At
    from dataflow_model.runners.engine.machines.shard import Arrivals, StageShard
    from dataflow_model.runners.engine.sources.observing import GoodRows
    from dataflow_model.runners.engine.sources.reading import Version
    from dataflow_model.runners.sharded.outputs.pending import PendingWriter
    from dataflow_model.runners.sharded.tasks.task import Task

ROWS_AT_ONCE: Final = 262_144
"""The most rows that are processed at once: enough for keys to repeat, few enough for a processor's cache."""
BYTES_AT_ONCE: Final = 1 << 26
"""The most bytes of rows that are collected for that: a worker holds a small multiple of this."""


def read_slices(
    task: Task, parts: Iterable[Slice], wall: int | None, writer: PendingWriter | None = None
) -> Iterator[Row]:
    """Read row ranges and yield, for each, its elements and partials packed by shard, then the observations.

    Args:
        task: the task.
        parts: the rows.
        wall: the tick of all rows; `None` under a replay clock.
        writer: writes elements to sinks directly; `None` if they are sent to the last stage.

    Raises:
        SourceError: if an origin was replaced while it was read, after all have been read: a source that has to ask a
            server asks once.
    """
    versions = []
    for part in parts:
        version = yield from _read_slice(task, part, wall, writer)
        versions.append((part, version))
    for part, version in versions:
        if version is not None:
            check_unchanged(task.program.projected_source(part.label), part.origin, version)


def _read_slice(
    task: Task, part: Slice, wall: int | None, writer: PendingWriter | None
) -> Generator[Row, None, Version]:
    """Read a row range as `read_slices` does; return the version that was read, or `None` if it was skipped."""
    program = task.program
    read = program.staged.read(part.label)
    source = program.projected_source(part.label)
    reading = _Reading(task, part, wall, writer)
    observer = Observer(part.label, part.origin, source, program.awaited.percentiles)
    has_gaps = source.position_column is not None
    base = 0 if has_gaps else part.base  # positions that have gaps begin at the base
    start, stop = part.start + part.base - base, part.stop + part.base - base
    read_count = dead = 0
    skips = skips_again(program, task.micro_batch, part)
    known = part.read if skips is None else part.stop  # what was published had its rows
    opened_origin = None
    retries: Counter[str] = Counter()
    if not skips:
        extent = part.origin, start, stop
        opened_origin = opened_in_version(source, part.label, extent, part.version, retries, read=known)
    if opened_origin is None:
        skipped = Observations(part.label, part.origin, np.empty(0, np.int64), skipped=(part.start, part.stop))
        yield from task.rows_for_followers(Kind.SEEN, (skipped, {}))
        return None
    version, batches = opened_origin
    tick = program.wall if wall is None else wall
    for batch in read_rows(read, source, observer, in_large_batches(batches), start, stop, base=base, wall=tick):
        read_count += len(batch.rows.positions)
        yield from reading.take(batch.rows)
        dead += len(batch.letters)
        if batch.letters and read.dead_letters is not None:
            yield from run_through(task, part.label, read.dead_letters, batch.letters, writer=writer)
    counts = {"elements_out": read_count, "dead_letters": dead}
    lost = source.rows_lost(part.origin)
    seen = attrs.evolve(observer.seen(version), retries=retries[RETRIES], lost=lost)
    yield from task.rows_for_followers(Kind.SEEN, (seen, counts))
    return version


class _Reading:
    """Turns the rows of one row range into columns for lifted groupings, and into elements for all other transforms."""

    def __init__(self, task: Task, part: Slice, wall: int | None, writer: PendingWriter | None) -> None:
        program = task.program
        self.name = name_of_origin(part.label, part.origin)
        self._task, self._label, self._writer = task, part.label, writer
        self._at: At = FIRST if wall is None else (wall, 0)
        self._lifts = program.lifts_from(part.label)
        self._consumers = program.element_consumers(part.label)
        self._pairs = program.pairs_of(part.label)
        self._skip = program.only_lifted
        self._skipped = program.skipped_from(part.label)

    def take(self, rows: GoodRows) -> Iterator[Row]:
        """Process some rows, and yield the output that is ready."""
        if not len(rows.positions):
            return
        if self._consumers:
            yield from self._elements(rows)
        whole = []
        for lift in self._lifts:
            node = self._task.program.staged.plan[lift.label]
            assert isinstance(node, GroupByKeyAndWindow)  # noqa: S101 - only these are lifted
            table = chunk_partials(lift, node.strategy.window_fn, rows.batch, rows.event_times)
            if table is None:
                whole.append(lift)
            else:
                yield from self._partials(lift, table, rows)
        if whole:  # together, as they may have transforms in common
            yield from self._unlifted(whole, rows)

    def _unlifted(self, lifts: Sequence[Lift], rows: GoodRows) -> Iterator[Row]:
        batch = functools.reduce(_with_column, [lift.unread for lift in lifts], rows.batch)
        bundle = self._bundle(RowValues(pa.Table.from_batches([batch])), rows)
        skip = self._task.program.all_but([lift.label for lift in lifts])
        yield from run_through(self._task, self._label, MAIN, bundle, skip=skip)

    def _partials(self, lift: Lift, table: pa.Table, rows: GoodRows) -> Iterator[Row]:
        program = self._task.program
        elements = len(rows.event_times)
        for label in self._skipped.get(lift.label, ()):
            count_passed(label, elements)
        shards = len(program.shard_ids)
        slots = range(shards * program.buckets)
        parts = [(0, table)] if len(slots) == 1 or not table.num_rows else split_table(table, slots)
        for slot, part in parts:
            packed = PackedPartials(lift.label, self._at, elements, self._task.packed_table(part))
            elements = 0  # counted once, with the first part
            yield Row(program.shard_ids[slot % shards], 1, Kind.PARTIAL, self._task.packed(packed), slot // shards)

    def _elements(self, rows: GoodRows) -> Iterator[Row]:
        pairs = self._pairs
        names = rows.batch.schema.names
        table = pa.Table.from_batches([rows.batch])
        values: Lane[Any] = RowValues(table)
        producer = self._label
        if pairs is not None and pairs.key in names and pairs.value in names:
            values, producer = Pairs(table[str(pairs.key)], table[str(pairs.value)]), pairs.label
            count_passed(producer, len(rows.positions))
        bundle = self._bundle(values, rows)
        yield from run_through(self._task, producer, MAIN, bundle, skip=self._skip, writer=self._writer)

    def _bundle(self, values: Lane[Any], rows: GoodRows) -> Bundle:
        orders: Any = RowOrders.of_origin(self.name, rows.positions)
        return Bundle.fresh(values, Integers(rows.event_times), orders, Integers(rows.clock))


def in_large_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Join batches with the same columns to larger ones: a batch has costs that do not depend on its rows."""
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        is_full = rows + batch.num_rows > ROWS_AT_ONCE or size + batch.nbytes > BYTES_AT_ONCE
        if waiting and (is_full or batch.schema != waiting[0].schema):
            yield pa.concat_batches(waiting)
            waiting, rows, size = [], 0, 0
        waiting.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
    if waiting:
        yield pa.concat_batches(waiting)


def _with_column(batch: pa.RecordBatch, name: str | None) -> pa.RecordBatch:
    """Return the rows with a column of nulls of this name, unless they have a column of this name."""
    if name is None or name in batch.schema.names:
        return batch
    return batch.append_column(name, pa.nulls(batch.num_rows))


def read_static(
    task: Task, label: str, clock: int, at: At = FIRST, writer: PendingWriter | None = None
) -> Iterator[Row]:
    """Yield the elements of a static source.

    Args:
        task: the task.
        label: the source.
        clock: the processing time at which they arrive.
        at: the instant, which is the run's first.
        writer: writes elements to sinks directly; `None` if they are sent to the last stage.
    """
    for tag, bundle in static_bundles(task.program.staged.read(label), clock):
        yield from run_through(task, label, tag, bundle, at=at, writer=writer)


def read_script(task: Task, label: str, first: int, last: int, numbers: Mapping[int, At]) -> Iterator[Row]:
    """Yield the elements of events `[first, last)` of a script, each at its own instant."""
    staged = task.program.staged
    script = staged.source(label).as_script
    assert script is not None  # noqa: S101 - checked by the caller
    events = itertools.islice(enumerate(events_of(script.steps)), first, last)
    for _, of_step in itertools.groupby(events, key=_number_of_step):
        numbered = [(number, step) for number, (_, step) in of_step]
        bundle = script_bundle(label, numbered, numbers[numbered[0][0]][0])
        if bundle:
            arrivals = routed(staged, task.fragment(label).run(bundle, MAIN))
            at = {
                cut: [numbers[number] for number in event_numbers(staged, cut, arrived.orders)]
                for cut, arrived in arrivals.items()
            }
            yield from pack_arrivals(task, arrivals, at)


def _number_of_step(event: tuple[int, tuple[int, Step]]) -> int:
    return event[1][0]


def pack_arrivals(
    task: Task,
    arrivals: Arrivals,
    at: At | Mapping[str, Sequence[At]] | None = None,
    writer: PendingWriter | None = None,
) -> Iterator[Row]:
    """Yield the bundles that arrive at cuts as rows.

    Args:
        task: the task.
        arrivals: the bundles, by cut.
        at: the instant of all elements, or of each element by cut; `None` for the tick at which each was produced.
        writer: writes elements to sinks directly; `None` if they are sent to the last stage.
    """
    program = task.program
    for cut, bundle in arrivals.items():
        if not bundle:
            continue
        node = program.staged.taker(cut)
        stage = program.staged.depth_of(cut)
        instants = at[cut] if isinstance(at, Mapping) else at
        if isinstance(node, Write) or cut in program.staged.owners:
            whole = PackedBundle(cut, _instants(bundle, instants), bundle)
            kept = _kept_number(node)
            if kept is not None:
                yield Row(task.home, stage, Kind.KEPT, _packed_elements(task, whole), kept)
            elif not isinstance(node, Write):  # every shard receives the whole side input
                payload = _packed_elements(task, whole)
                yield from (Row(shard, stage, Kind.DATA, payload) for shard in program.shard_ids)
            elif writer is not None:
                writer.write(cut, records_of(bundle, whole.instants()))
            else:
                yield Row(task.home, stage, Kind.OUTPUT, _packed_elements(task, whole))
            continue
        put_in_columns(node, bundle)
        for slot, rows in rows_by_shard(node, bundle, len(program.shard_ids) * program.buckets).items():
            part = bundle if len(rows) == len(bundle) else bundle.take(rows)
            of_part = (
                instants if instants is None or isinstance(instants, tuple) or part is bundle else taken(instants, rows)
            )
            bucket, index = divmod(slot, len(program.shard_ids))
            payload = _packed_elements(task, PackedBundle(cut, _instants(part, of_part), part))
            yield Row(program.shard_ids[index], stage, Kind.DATA, payload, bucket)


def _instants(bundle: Bundle, at: Sequence[At] | At | None) -> Sequence[At] | At:
    """Return the instant of each element, or a single instant for all; by the ticks where `at` is `None`."""
    if at is not None:
        return at
    clocks = array_of(bundle.produced)
    if len(clocks) and (clocks == clocks[0]).all():
        return int(clocks[0]), 0
    return InstantLane(clocks, uniform(0, len(clocks)))


def _packed_elements(task: Task, packed: PackedBundle) -> Any:
    try:
        return task.packed(packed)
    except BaseException as error:
        raise unpicklable_element(owner_of_cut(packed.cut), packed.bundle.values, error) from error


def pack_panes(task: Task, stage: StageShard, instants: Sequence[At], writer: PendingWriter | None) -> Iterator[Row]:
    """Yield the panes in columns that a stage has for sinks, or write them if there is a writer."""
    staged = task.program.staged
    for cut, tables in stage.take_panes().items():
        kept = _kept_number(staged.taker(cut))
        passed = staged.depth_of(cut) - 1 - stage.depth
        for index, panes in tables:
            at = instants[index]
            if writer is not None and kept is None:
                writer.write(cut, PaneRecords(panes, at, passed))
                continue
            table = task.packed_table(panes.table)
            packed = PackedPanes(cut, at, passed, panes.produced, panes.trigger, table)
            kind = Kind.PANES if kept is None else Kind.KEPT
            yield Row(task.home, staged.depth_of(cut), kind, task.packed(packed), kept or 0)


def _kept_number(taker: KeyedNode | Write) -> int | None:
    """Return the number of a `KeptSink`; `None` for anything else that takes elements."""
    if isinstance(taker, Write) and isinstance(taker.sink, KeptSink):
        return taker.sink.number
    return None


def run_through(
    task: Task,
    label: str,
    tag: str,
    bundle: Bundle,
    at: At | None = None,
    *,
    skip: frozenset[str] = frozenset(),
    writer: PendingWriter | None = None,
) -> Iterator[Row]:
    """Run the transforms fused with a source on a bundle, and yield what arrives at each cut as rows."""
    arrivals = routed(task.program.staged, task.fragment(label, skip).run(bundle, tag))
    yield from pack_arrivals(task, arrivals, at, writer)
