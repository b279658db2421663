"""The source's side of a lifted grouping: rows of a source in columns become partials, or are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.columns.accumulators import fits
from dataflow_model.runners.engine.columns.partials import partials
from dataflow_model.runners.engine.columns.sessions import session_partials
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.windowing import GlobalWindows, Sessions, WindowFn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.lifting import Lift

__all__ = ["Chunk", "chunk_partials"]

_FAR: Final = 2**61
"""Event times beyond this have windows that may be cut off at ±∞, which the general path minds."""


@attrs.frozen(eq=False)
class Chunk:
    """Some rows of a source.

    Attributes:
        batches: the rows, bad ones left out.
        event_times: microseconds, one a row.
    """

    batches: Sequence[pa.RecordBatch]
    event_times: NDArray[np.int64]


def chunk_partials(lift: Lift, window_fn: WindowFn, chunk: Chunk) -> pa.Table | None:
    """Combine a chunk's rows per key and window; `None` where the general path must take them.

    The table has the columns of `kernels.COLUMNS` that a pane at the end of its window needs: `window_end` only where
    the window's start does not tell it.
    """
    names = chunk.batches[0].schema.names
    if lift.key not in names or (lift.value is not None and lift.value not in names):
        return None
    keys = pa.chunked_array([batch.column(lift.key) for batch in chunk.batches])
    values = None if lift.value is None else pa.chunked_array([batch.column(lift.value) for batch in chunk.batches])
    times = chunk.event_times
    if pa.types.is_timestamp(keys.type) or not fits(keys, values, lift.kernel):
        return None  # a timestamp is a datetime, or a number where datetime ends: its rows know which
    if len(times) and not -_FAR < int(times.min()) <= int(times.max()) < _FAR:
        return None
    try:
        if isinstance(window_fn, Sessions):
            table = session_partials(keys, values, times, int(window_fn.gap), lift.kernel)
            return table.drop_columns(["earliest", "latest", "first_sequence"])
        rows, starts, ends = _windows(window_fn, times)
        if rows is not None:
            places = pa.array(rows)
            keys, times = keys.take(places), times[rows]
            values = None if values is None else values.take(places)
        return partials(keys, values, starts, ends, times, lift.kernel, only_counts=True)
    except OverflowError:
        return None


def _windows(
    window_fn: WindowFn, times: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64], NDArray[np.int64] | None]:
    if isinstance(window_fn, GlobalWindows):
        return None, np.full(len(times), int(MIN_TIMESTAMP)), np.full(len(times), int(MAX_TIMESTAMP))
    assigned = window_fn.assign_many(times)
    assert assigned is not None  # noqa: S101 - only window functions that assign columns are lifted
    rows, starts, _ = assigned
    return rows, starts, None
