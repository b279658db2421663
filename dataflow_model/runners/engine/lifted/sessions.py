"""Sessions as columns: sort once by key and event time, then cut at the gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from dataflow_model.plan.functions.kernels import Kernel, Reduction
from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lanes.radix import in_order_of
from dataflow_model.runners.engine.lifted.accumulators import column, number_column, reduce_runs
from dataflow_model.runners.engine.lifted.keys import take_keys
from dataflow_model.runners.engine.lifted.partials import concat, merging_operations
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_SAFE: Final = 2**62


def session_partials(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray | None,
    event_times: NDArray[np.int64],
    gap: int,
    kernel: Kernel,
) -> pa.Table:
    """Combine elements into one row per key and session, with the columns of `COLUMNS`.

    An element at t has the window `[t, t + gap)`; windows that intersect merge. Two elements exactly one gap apart are
    two sessions. Ends saturate at +∞. Rows are ordered by key, then start.

    Raises:
        OverflowError: if a sum of integers exceeds 64 bits; the general path has no such limit.

    Source: the Dataflow Model paper, section 2.2 (session windows).

    Example:
        >>> table = session_partials(pa.array(["a"] * 3), pa.array([1, 2, 4]), np.array([0, 9, 19]), 10, Kernel.SUM)
        >>> [(row["window_start"], row["window_end"], row["accumulator"]) for row in table.to_pylist()]
        [(0, 19, 3), (19, 29, 4)]
    """
    codes, distinct = codes_of(keys)
    order = in_order_of(event_times, codes)
    codes, times = codes[order], event_times[order]
    starts = _run_starts(codes, _apart(times[1:], times[:-1], gap))
    last = times[_run_ends(starts, len(times))]
    reduction = kernel.reduction
    columns = {} if reduction is None or values is None else {
        "accumulator": reduce_runs(reduction, number_column(values)[order], starts)
    }  # fmt: skip
    return pa.table(
        {
            "key": take_keys(codes[starts], distinct),
            "window_start": times[starts],
            "window_end": np.where(last > int(MAX_TIMESTAMP) - gap, int(MAX_TIMESTAMP), last + gap),
            **columns,
            "count": np.diff(starts, append=len(times)),
        }
    )


def merge_sessions(tables: Sequence[pa.Table], kernel: Kernel) -> pa.Table:
    """Merge tables of partial sessions of one schema, so that intersecting sessions of a key become one.

    Raises:
        OverflowError: if a sum of integers exceeds 64 bits.

    Example:
        >>> def one(event_time):
        ...     return session_partials(pa.array(["a"]), pa.array([1]), np.array([event_time]), 10, Kernel.SUM)
        >>> merge_sessions([one(0), one(20), one(9)], Kernel.SUM).select(["window_start", "window_end"]).to_pylist()
        [{'window_start': 0, 'window_end': 19}, {'window_start': 20, 'window_end': 30}]
    """
    table = concat(tables)
    codes, distinct = codes_of(table["key"])
    opens, ends = column(table, "window_start"), column(table, "window_end")
    order = in_order_of(opens, codes)
    codes, opens, ends = codes[order], opens[order], ends[order]
    starts = _run_starts(codes, opens[1:] >= _running_end(codes, ends)[:-1])
    columns = {
        name: reduce_runs(operation, column(table, name)[order], starts)
        for name, operation in merging_operations(table, kernel).items()
    }
    return pa.table(
        {
            "key": take_keys(codes[starts], distinct),
            "window_start": opens[starts],
            "window_end": reduce_runs(Reduction.MAX, ends, starts),
            **columns,
        }
    )


def _apart(later: NDArray[np.int64], earlier: NDArray[np.int64], gap: int) -> NDArray[np.bool_]:
    """Return where two event times are at least a gap apart; from −∞ to +∞ the difference needs the unsigned range."""
    difference = later.view(np.uint64) - earlier.view(np.uint64)
    # A negative difference (the next key) looks huge, and a new key begins a session anyway.
    return np.asarray(difference >= np.uint64(gap))


def _run_starts(codes: NDArray[np.int64], apart: NDArray[np.bool_]) -> NDArray[np.int64]:
    if not len(codes):
        return np.empty(0, np.int64)
    return np.flatnonzero(np.concatenate([[True], (codes[1:] != codes[:-1]) | apart]))


def _run_ends(starts: NDArray[np.int64], rows: int) -> NDArray[np.int64]:
    return np.append(starts[1:], rows)[: len(starts)] - 1


def _running_end(codes: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return, for each row, the greatest end so far within its key; rows are ordered by key."""
    if not len(ends):
        return ends
    least, greatest = int(ends.min()), int(ends.max())
    span = greatest - least + 1
    if (int(codes.max()) + 1) * span < _SAFE:
        # The ends of each key are shifted above those of lower keys, so that one running maximum works for all keys.
        lift = codes * span
        return np.maximum.accumulate(ends - least + lift) - lift + least
    by_end = np.argsort(ends, kind="stable")
    rank = np.empty(len(ends), np.int64)
    rank[by_end] = np.arange(len(ends))
    lift = codes * len(ends)
    return ends[by_end][np.maximum.accumulate(rank + lift) - lift]
