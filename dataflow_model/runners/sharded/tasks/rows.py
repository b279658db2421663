"""Rows between stages, with a whole bundle per row: pickled for Spark, and as they are within a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa

from dataflow_model.runners.engine.lanes.ipc import from_ipc
from dataflow_model.runners.engine.lanes.lanes import Repeated
from dataflow_model.runners.engine.lanes.pane_tables import PaneRecords, PaneTable
from dataflow_model.values.pickles import load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.order import At

SCHEMA: Final = pa.schema(
    [
        ("shard", pa.int32()),
        ("stage", pa.int32()),
        ("bucket", pa.int32()),
        ("kind", pa.string()),
        ("payload", pa.binary()),
    ]
)
_BATCH_BYTES: Final = 16 << 20


class Kind:
    """The kinds of rows.

    `DATA`: elements for keyed nodes. `PARTIAL`: partials for lifted groupings. `OUTPUT`: elements for sinks. `PANES`:
    panes in columns for sinks. `PENDING`: the output of a task of a bounded job. `CONTROL`: the driver's decisions for
    a micro-batch. `SEEN`: the observations of reading a row range. `TIMELINE`: the instants of a micro-batch.
    `WATERMARK`: a keyed node's output watermark at each instant. `METRICS`: counters. `TALLY`: the tally of a task.
    `KEPT`: elements or panes that a bounded job keeps for another job; the bucket is the number of the `KeptSink`.
    """

    DATA: Final = "data"
    PARTIAL: Final = "partial"
    PANES: Final = "panes"
    PENDING: Final = "pending"
    OUTPUT: Final = "output"
    CONTROL: Final = "control"
    SEEN: Final = "seen"
    TIMELINE: Final = "timeline"
    WATERMARK: Final = "watermark"
    METRICS: Final = "metrics"
    TALLY: Final = "tally"
    KEPT: Final = "kept"


@attrs.frozen
class Row:
    """A row for `shard` at `stage`; earlier stages pass it on. A bounded job loads one `bucket` at a time.

    The payload is what `Task.packed` returns: a pickle, or the value itself if it stays in the process. Then several
    rows may have the same value, so whoever receives it must not change it.
    """

    shard: int
    stage: int
    kind: str
    payload: Any
    bucket: int = 0


@attrs.frozen
class PackedBundle:
    """Elements for one cut; `at` is the instant of each element, or one instant for all."""

    cut: str
    at: Sequence[At] | At
    bundle: Bundle

    def instants(self) -> Sequence[At]:
        """Return the instant of each element."""
        if isinstance(self.at, tuple):
            at: Any = self.at
            return Repeated(at, len(self.bundle))
        return self.at


@attrs.frozen
class PackedPartials:
    """Partials for a lifted grouping.

    Attributes:
        cut: the label of the grouping.
        at: the instant of the partials.
        elements: the number of elements of the whole chunk, in one of its parts; 0 in the others.
        table: the Arrow stream, or the table itself if it stays in the process.
    """

    cut: str
    at: At
    elements: int
    table: bytes | pa.Table

    def partials(self) -> tuple[pa.Table, int]:
        """Return the table and the number of elements."""
        return (from_ipc(self.table) if isinstance(self.table, bytes) else self.table), self.elements


@attrs.frozen
class PackedPanes:
    """Panes in columns for a sink.

    Attributes:
        cut: the label of the sink.
        at: the instant of the panes.
        passed: the number of stages that they pass on their way to the sink.
        produced, trigger: see `PaneTable`.
        table: the Arrow stream, or the table itself if it stays in the process.
    """

    cut: str
    at: At
    passed: int
    produced: int
    trigger: str
    table: bytes | pa.Table

    def records(self) -> PaneRecords:
        """Return the panes as records, which are created when they are first read."""
        table = from_ipc(self.table) if isinstance(self.table, bytes) else self.table
        return PaneRecords(PaneTable(table, self.produced, self.trigger), self.at, self.passed)


def unpacked(payload: Any) -> Any:
    """Return the value that a row carries.

    Example:
        >>> from dataflow_model.values.pickles import dump
        >>> unpacked(dump({"count": 3})), unpacked({"count": 3})
        ({'count': 3}, {'count': 3})
    """
    return load(payload) if isinstance(payload, bytes) else payload


def arrow_batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield rows as record batches of a bounded size."""
    gathered: list[Row] = []
    size = 0
    for row in rows:
        gathered.append(row)
        size += len(row.payload)
        if size >= _BATCH_BYTES:
            yield _batch(gathered)
            gathered, size = [], 0
    if gathered:
        yield _batch(gathered)


def rows_of_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Row]:
    """Read what `arrow_batches` wrote."""
    for batch in batches:
        shards, stages, buckets, kinds, payloads = (column.to_pylist() for column in batch.columns)
        for shard, stage, bucket, kind, payload in zip(shards, stages, buckets, kinds, payloads, strict=True):
            yield Row(shard, stage, kind, payload, bucket)


def _batch(rows: list[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [
            pa.array([row.shard for row in rows], pa.int32()),
            pa.array([row.stage for row in rows], pa.int32()),
            pa.array([row.bucket for row in rows], pa.int32()),
            pa.array([row.kind for row in rows], pa.string()),
            pa.array([row.payload for row in rows], pa.binary()),
        ],
        schema=SCHEMA,
    )
