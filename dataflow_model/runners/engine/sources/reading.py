"""Read a range of rows of an origin of a source, which may have disappeared since it was listed."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import attrs
import numpy as np

from dataflow_model.errors import SourceError
from dataflow_model.plan.endpoints.column_sources import check_positions, check_rows_read
from dataflow_model.plan.endpoints.retries import read_retried
from dataflow_model.runners.engine.functions.user_code import each_reported, source_calls
from dataflow_model.runners.engine.sources.bad_rows import BadRows
from dataflow_model.runners.engine.sources.observing import GoodRows

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.sources.observing import Observer

Version = tuple[int | str, ...] | None


def opened(
    source: ColumnSource, label: str, origin: str, start: int, stop: int | None, counts: Counter[str], *, read: int = 0
) -> Iterator[pa.RecordBatch] | None:
    """Return the rows `[start, stop)` of an origin; `None` if it has disappeared, and is skipped.

    Args:
        source: the source.
        label: its label.
        origin: the name of the origin.
        start: the first row.
        stop: the row after the last; `None` to read to the end.
        counts: where failed attempts to read are counted.
        read: the number of rows of it that earlier micro-batches have read.

    Raises:
        SourceError: if it cannot be read, or has disappeared but must not be skipped.
    """
    opened_origin = opened_in_version(source, label, (origin, start, stop), None, counts, read=read, checks=False)
    return None if opened_origin is None else opened_origin[1]


def opened_in_version(
    source: ColumnSource,
    label: str,
    extent: tuple[str, int, int | None],
    version: Version,
    counts: Counter[str],
    *,
    read: int,
    checks: bool = True,
) -> tuple[Version, Iterator[pa.RecordBatch]] | None:
    """Return the version and the rows `[start, stop)` of an origin; `None` if it has disappeared, and is skipped.

    Args:
        source: the source.
        label: its label.
        extent: the name of the origin, the first row, and the row after the last; `None` to read to the end.
        version: the version that the origin must have; `None` for any.
        counts: where failed attempts to read are counted.
        read: the number of rows of it that earlier micro-batches have read.
        checks: whether the version matters.

    Raises:
        SourceError: if it has another version, and as for `opened`.
    """
    origin, *_ = extent
    try:
        if checks and version is None:
            version = source.version_of(origin)
        elif version is not None:
            source.check_version(origin, version)
        batches = each_reported(_read(source, label, extent, counts), label)
        first = next(batches, None)  # a file that is not there is noticed here
    except (SourceError, OSError) as error:
        if not source.is_missing(origin):
            raise
        try:
            source.check_may_skip(origin, read)
        except SourceError as refusal:
            raise refusal from error
        return None
    return version, batches if first is None else itertools.chain([first], batches)


def _read(
    source: ColumnSource, label: str, extent: tuple[str, int, int | None], counts: Counter[str]
) -> Iterator[pa.RecordBatch]:
    """Yield rows of an origin; exceptions of a user's source are reported, unless its origin is missing."""
    batches = read_retried(source, label, *extent, counts)
    while True:
        try:
            batch = next(batches, None)
        except Exception:
            with source_calls(label, "read", source.is_users and not source.is_missing(extent[0])):
                raise
        if batch is None:
            return
        yield batch


def check_unchanged(source: ColumnSource, origin: str, version: tuple[int | str, ...]) -> None:
    """Raise `SourceError` if an origin was replaced while it was read; if it was removed, all its rows were read.

    Args:
        source: the source.
        origin: the name of the origin.
        version: the version that it had before.
    """
    try:
        source.check_version(origin, version)
    except SourceError:
        if not source.is_missing(origin):
            raise


@attrs.frozen(eq=False)
class RowsRead:
    """A batch of rows that has been read.

    Attributes:
        rows: the rows that are elements.
        letters: the others, as dead letters.
        count: the number of all of them.
        stop: the row after the last one in its origin.
    """

    rows: GoodRows
    letters: Bundle
    count: int
    stop: int


def read_rows(
    read: Read,
    source: ColumnSource,
    observer: Observer,
    batches: Iterable[pa.RecordBatch],
    start: int,
    stop: int | None,
    *,
    base: int,
    wall: int,
) -> Iterator[RowsRead]:
    """Yield what batches contain, observe it, and check that it is what was to be read.

    Args:
        read: the node that reads.
        source: its source, as it is read.
        observer: observes the rows of the origin that is read.
        batches: the rows `[start, stop)` of the origin.
        start: the first row; its position, if positions have gaps.
        stop: the row after the last; `None` for the end.
        base: what is added to the number of a row, for the order of its element; 0 if positions have gaps.
        wall: the tick of all rows, if there is no replay clock.

    Raises:
        SourceError: if there are more or fewer rows, or other positions; for a bad row if nothing takes dead letters.
    """
    origin = observer.origin
    has_gaps = source.position_column is not None
    bad_rows = BadRows(read, source, origin, wall, base)
    row = start
    for batch in batches:
        columns = source.columns_of(batch)
        positions = source.positions_in(batch, row + base)
        if has_gaps and stop is not None:
            check_positions(read.label, origin, row, stop, positions)
        rows = GoodRows.of(columns, wall, positions)
        observer.take(rows.clock, rows.event_times, rows)
        letters = bad_rows.letters(columns, positions)
        observer.pass_over(np.array(letters.times, np.int64))
        row = int(positions[-1]) - base + 1 if len(positions) else row
        yield RowsRead(rows, letters, batch.num_rows, row)
    if stop is not None and not has_gaps:
        check_rows_read(read.label, origin, start, stop, row)
