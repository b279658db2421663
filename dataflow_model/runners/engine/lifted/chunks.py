"""The source's side of a lifted grouping: turn rows in columns into partials, or leave them to the general path."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidType, shown
from dataflow_model.runners.engine.functions.user_code import column_error
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals, array_of
from dataflow_model.runners.engine.lanes.overlapping import PAIRS
from dataflow_model.runners.engine.lanes.value_lanes import Pairs
from dataflow_model.runners.engine.lifted.accumulators import fits
from dataflow_model.runners.engine.lifted.partials import merge_partials, partials
from dataflow_model.runners.engine.lifted.sessions import merge_sessions, session_partials
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.windowing import SlidingWindows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from dataflow_model.plan.rewrites.lifting import Lift
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.runners.engine.lanes.chunk import Chunk
    from dataflow_model.windowing import WindowFn
    from dataflow_model.windowing.base import AssignedColumn

_FAR: Final = 2**61
"""Event times beyond this may have windows that are cut off at ±∞, which only the general path handles."""


@attrs.frozen(eq=False)
class PairColumns:
    """Pairs in columns, each in one window.

    Attributes:
        batch: the columns `key` and `value`.
        times: the event times.
        windows: the windows.
    """

    batch: pa.RecordBatch
    times: Integers
    windows: Intervals

    @classmethod
    def of(cls, bundle: Bundle, lift: Lift) -> Self | None:
        """Return the columns of a bundle that the kernel of a lift may be able to process; `None` if it has none."""
        values, times, windows = bundle.values, bundle.times, bundle.windows
        if not (isinstance(values, Pairs) and isinstance(times, Integers) and isinstance(windows, Intervals)):
            return None
        if values.key_row is not None or (values.row is not None and lift.kernel.reduction is not None):
            return None
        columns = {"key": values.keys.combine_chunks(), "value": values.values.combine_chunks()}
        return cls(pa.record_batch(columns), times, windows)


def chunk_partials(
    lift: Lift,
    window_fn: WindowFn,
    batch: pa.RecordBatch,
    times: NDArray[np.int64],
    assigned: AssignedColumn | None = None,
    before: pa.Table | None = None,
) -> pa.Table | None:
    """Combine rows of a source per key and window; `None` if the general path must process them.

    The table has the columns of `COLUMNS`; `window_end` is left out where the start determines it.

    Args:
        lift: what is combined.
        window_fn: the window function.
        batch: the rows, without bad ones.
        times: their event times in microseconds, one per row.
        assigned: their windows; `None` if the window function is to assign them.
        before: the table of the rows before them, which these rows are added to; only for windows that do not merge.
    """
    if assigned is None and len(times) > 1 and type(window_fn) is SlidingWindows:
        begins = np.flatnonzero(np.diff(np.cumsum(window_fn.count_many(times)) // PAIRS)) + 1
        if len(begins):
            return _in_parts(lift, window_fn, batch, times, [0, *begins.tolist(), len(times)])
    names = batch.schema.names
    if lift.key not in names or (lift.value is not None and lift.value not in names):
        return None
    keys = pa.chunked_array([batch.column(lift.key)])
    values = None if lift.value is None else pa.chunked_array([batch.column(lift.value)])
    if pa.types.is_timestamp(keys.type) or not fits(keys, values, lift.kernel):
        return None  # a timestamp becomes a datetime, or a number outside datetime's range, row by row
    if len(times) and not -_FAR < int(times.min()) <= int(times.max()) < _FAR:
        return None
    if assigned is None:
        assigned = assigned_columns(window_fn, times, lift.windows or lift.label)
    if assigned is None:
        return None
    rows, starts, ends = assigned
    if not window_fn.is_global and _is_cut_off(starts, ends):
        return None
    try:
        if window_fn.is_merging and rows is None and window_fn.length is not None and np.array_equal(starts, times):
            return session_partials(keys, values, times, int(window_fn.length), lift.kernel)
        if rows is not None:
            indices = pa.array(rows)
            keys = keys.take(indices)
            values = None if values is None else values.take(indices)
        known = ends if window_fn.is_merging or window_fn.length is None else None
        table = partials(keys, values, starts, known, lift.kernel, before=before)
        return merge_sessions([table], lift.kernel) if window_fn.is_merging else table
    except OverflowError:
        return None


def _in_parts(
    lift: Lift, window_fn: WindowFn, batch: pa.RecordBatch, times: NDArray[np.int64], bounds: list[int]
) -> pa.Table | None:
    """Combine rows in batches, each of which is small although its rows are in many windows."""
    combined: pa.Table | None = None
    for begin, end in itertools.pairwise(bounds):
        rows = batch.slice(begin, end - begin)
        windows = assigned_columns(window_fn, times[begin:end], lift.windows or lift.label)
        table = chunk_partials(lift, window_fn, rows, times[begin:end], windows)
        if table is None:
            return None
        try:
            combined = table if combined is None else merge_partials([combined, table], lift.kernel)
        except OverflowError:
            return None
    return combined


def assigned_columns(window_fn: WindowFn, times: NDArray[np.int64], label: str) -> AssignedColumn | None:
    """Return the windows that a window function, which may be a user's, assigns to a column of event times.

    Raises:
        UserCodeError: if the function raises or returns something else, with the label of its transform.
    """
    try:
        return _checked_column(window_fn.assign_many(times), len(times), window_fn)
    except BaseException as error:
        raise column_error(error, label, times) from error


def _checked_column(assigned: Any, count: int, window_fn: WindowFn) -> AssignedColumn | None:
    if assigned is not None and not _is_column(assigned, count):
        raise InvalidType(
            f"{window_fn!r} must assign a column of {count} event times to columns, got {shown(assigned)}",
            hint="return (rows, starts, ends) from its assign_many: int64 arrays of one length, rows=None for one "
            "window per event time; or return None to have assign called for each element",
        )
    columns: AssignedColumn | None = assigned
    return columns


def _is_column(assigned: Any, count: int) -> bool:
    if not isinstance(assigned, tuple) or len(assigned) != 3:  # noqa: PLR2004 - rows, starts and ends
        return False
    rows, *bounds = assigned
    columns = bounds if rows is None else [rows, *bounds]
    if not all(isinstance(column, np.ndarray) and column.dtype.kind == "i" for column in columns):
        return False
    return {len(column) for column in bounds} == {count if rows is None else len(rows)}


def partials_by_instant(
    chunk: Chunk, lift: Lift, window_fn: WindowFn, watermark: int
) -> Mapping[int, tuple[pa.Table, int]] | None:
    """Combine the elements of a chunk of instants in columns; `None` if they are not columns, or do not fit a kernel.

    An element's partial is due at the instant at which the watermark passes the end of its window, or at the last
    instant of the chunk if the watermark does not pass it yet; its lateness is the same there as when it arrived.

    Args:
        chunk: the chunk.
        lift: the lift of the grouping; its columns have other names here.
        window_fn: the window function.
        watermark: the input's low watermark before the chunk.

    Returns:
        the partials and their number of elements, by the index of the instant.
    """
    columns = PairColumns.of(chunk.elements.bundle, lift)
    if columns is None:
        return None
    batch, windows = columns.batch, columns.windows
    if not len(windows):
        return {}
    reached = np.array([watermarks.low for watermarks in chunk.watermarks], np.int64)
    before = np.concatenate([[watermark], reached[:-1]])
    lift = attrs.evolve(lift, key="key", value=None if lift.kernel.reduction is None else "value")
    partials: dict[int, tuple[pa.Table, int]] = {}
    for index, rows in _rows_by_due_instant(windows.ends, array_of(chunk.elements.indices), before, reached):
        chosen = batch if isinstance(rows, slice) else batch.take(pa.array(rows))
        assigned = None, windows.starts[rows], windows.ends[rows]
        table = chunk_partials(lift, window_fn, chosen, columns.times.array[rows], assigned)
        if table is None:
            return None
        partials[index] = table, chosen.num_rows
    return partials


def _rows_by_due_instant(
    ends: NDArray[np.int64], indices: NDArray[np.int64], before: NDArray[np.int64], reached: NDArray[np.int64]
) -> Iterator[tuple[int, NDArray[np.int64] | slice]]:
    """Yield the indices of the instants at which partials are due, each with the rows of its elements; a slice is all.

    Args:
        ends: the end of each element's window.
        indices: the index of the instant at which each element arrives.
        before: the watermark before each instant.
        reached: the watermark of each instant.
    """
    last = len(reached) - 1
    first_end, last_end = int(ends.min()), int(ends.max())
    if first_end > before[-1]:  # no element is late, even where the watermark has come furthest
        earliest, latest = np.minimum(np.searchsorted(reached, [first_end, last_end]), last).tolist()
        if earliest == latest:
            yield earliest, slice(None)
            return
    due = np.minimum(np.searchsorted(reached, ends), last)
    due[ends <= before[indices]] = last
    for index in np.flatnonzero(np.bincount(due)).tolist():
        rows = np.flatnonzero(due == index)
        yield index, rows if len(rows) < len(due) else slice(None)


def _is_cut_off(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> bool:
    return bool(len(starts)) and (int(starts.min()) == int(MIN_TIMESTAMP) or int(ends.max()) == int(MAX_TIMESTAMP))
