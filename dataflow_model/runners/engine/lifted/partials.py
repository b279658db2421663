"""Partials: one row per key and window, computed before a shuffle and merged after it.

Groups get dense numbers, and then every accumulator is one scatter into an array of that size. If a table of
(window, key) cells is not much larger than the data, it determines the numbers, with the window first: data that arrive
roughly in event-time order then touch one window's cells at a time, which stay in the processor's cache. Otherwise the
numbers come from a hash (`lanes/codes.py`). Both are faster than pyarrow's `group_by` for this.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from dataflow_model.plan.functions.kernels import Kernel, Reduction
from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lifted.accumulators import Column, column, number_column, scatter
from dataflow_model.runners.engine.lifted.keys import take_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_CELL_LIMIT: Final = 2**62


def partials(
    keys: pa.Array | pa.ChunkedArray,
    values: pa.Array | pa.ChunkedArray | None,
    window_start: NDArray[np.int64],
    window_end: NDArray[np.int64] | None,
    kernel: Kernel,
    *,
    before: pa.Table | None = None,
) -> pa.Table:
    """Combine elements into one row per key and window, with the columns of `COLUMNS`.

    Args:
        keys: one key per row; strings stay dictionary-encoded in the result.
        values: the values to combine; a kernel that counts ignores them.
        window_start: start of each row's window, in microseconds.
        window_end: end of each row's window; `None` if the start identifies the window.
        kernel: what to compute.
        before: the table of the elements before these, which must have had the same types: each element is added to
            what its group has there, so the result is that of all elements at once, to the last bit.

    Raises:
        OverflowError: if a sum of integers exceeds 64 bits; the general path has no such limit.

    Example:
        >>> table = partials(pa.array([1, 2, 1]), pa.array([5, 7, 9]), np.zeros(3, np.int64), None, Kernel.SUM)
        >>> table.to_pylist()[0]
        {'key': 1, 'window_start': 0, 'accumulator': 14, 'count': 2}
        >>> more = partials(pa.array([1]), pa.array([6]), np.zeros(1, np.int64), None, Kernel.SUM, before=table)
        >>> more.to_pylist()[0]
        {'key': 1, 'window_start': 0, 'accumulator': 20, 'count': 3}
    """
    first = 0
    if before is not None:
        first = before.num_rows
        keys = _behind(before["key"], keys)
        window_start = np.concatenate([column(before, "window_start"), window_start])
        if window_end is not None:
            window_end = np.concatenate([column(before, "window_end"), window_end])
    codes, distinct = codes_of(keys)
    grouping = _Groups(codes, distinct, window_start, window_end)
    groups, size = grouping.groups, grouping.size
    reduction = kernel.reduction
    columns: dict[str, Column] = {}
    if reduction is not None and values is not None:
        numbers = number_column(values)
        if before is not None:
            numbers = np.concatenate([column(before, "accumulator"), numbers])
        columns["accumulator"] = scatter(reduction, numbers, groups, size)
    columns["count"] = np.bincount(groups[first:], minlength=size)
    if before is not None:
        columns["count"][groups[:first]] += column(before, "count")  # a group has one row there
    return grouping.table(columns)


def merge_partials(tables: Sequence[pa.Table], kernel: Kernel) -> pa.Table:
    """Merge tables of partials of one schema into one row per key and window.

    Raises:
        OverflowError: if a sum of integers exceeds 64 bits.

    Example:
        >>> at = np.zeros(1, np.int64)
        >>> table = partials(pa.array(["UA"]), pa.array([5]), at, at + 10, Kernel.SUM)
        >>> merge_partials([table, table], Kernel.SUM)["accumulator"].to_pylist()
        [10]
    """
    table = concat(tables)
    codes, distinct = codes_of(table["key"])
    ends = column(table, "window_end") if "window_end" in table.column_names else None
    grouping = _Groups(codes, distinct, column(table, "window_start"), ends)
    return grouping.table(
        {
            name: scatter(operation, column(table, name), grouping.groups, grouping.size)
            for name, operation in merging_operations(table, kernel).items()
        }
    )


def merging_operations(table: pa.Table, kernel: Kernel) -> dict[str, Reduction]:
    """Return the operation that merges each accumulator column of a table of partials."""
    operations = {"accumulator": kernel.reduction or Reduction.SUM, "count": Reduction.SUM}
    return {name: operation for name, operation in operations.items() if name in table.column_names}


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Concatenate tables of partials, whose dictionaries may differ."""
    return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


def _behind(before: pa.ChunkedArray, keys: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return keys behind those of a table of partials, which may be dictionary-encoded, as `take_keys` says."""
    keys = keys if isinstance(keys, pa.ChunkedArray) else pa.chunked_array([keys])
    if keys.type != before.type:
        plain = keys.cast(keys.type.value_type) if pa.types.is_dictionary(keys.type) else keys
        keys = plain.dictionary_encode() if pa.types.is_dictionary(before.type) else plain
    return pa.chunked_array([*before.chunks, *keys.chunks])


class _Groups:
    """Dense numbers for the pairs of key and window that occur, and their table."""

    def __init__(
        self, codes: NDArray[np.int64], distinct: pa.Array, start: NDArray[np.int64], end: NDArray[np.int64] | None
    ) -> None:
        self._distinct = distinct
        windows, self._starts = _number(start)
        self._ends: NDArray[np.int64] | None = None
        if end is not None:
            by_end, ends = _number(end)
            windows, pairs = _occurring(windows * len(ends) + by_end, len(self._starts) * len(ends))
            self._starts, self._ends = self._starts[pairs // len(ends)], ends[pairs % len(ends)]
        keys = max(1, len(distinct))
        self.groups, cells = _occurring(windows * keys + codes, len(self._starts) * keys)
        self.size = len(cells)
        self._windows, self._codes = cells // keys, cells % keys

    def table(self, columns: dict[str, NDArray[np.int64]]) -> pa.Table:
        """Return the table with a row per group: key, window, then `columns`."""
        head = {"key": take_keys(self._codes, self._distinct), "window_start": self._starts[self._windows]}
        if self._ends is not None:
            head["window_end"] = self._ends[self._windows]
        return pa.table(head | columns)


def _number(values: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number distinct values: return `(the number of each row, the values)`."""
    codes, distinct = codes_of(pa.array(values))
    return codes, distinct.to_numpy()


def _occurring(cells: NDArray[np.int64], limit: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the cells below `limit` that occur: return `(the number of each row's cell, the cells)`."""
    if limit >= _CELL_LIMIT:  # pragma: no cover - more pairs than any memory has rows
        raise OverflowError(f"{limit} pairs of key and window are too many to number")
    return _number(cells)
