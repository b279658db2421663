"""The replay clock at rows that have no clock value of their own: that of the rows near them in their origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from dataflow_model.plan.columns import Columns

__all__ = ["first_clock_from", "last_clock_before"]

_ROWS: Final = 1_000
"""How many rows are read first; each further read takes twice as many."""


def last_clock_before(
    read: Callable[[int, int], Iterator[pa.RecordBatch]], columns_of: Callable[[pa.RecordBatch], Columns], row: int
) -> int | None:
    """Return the clock value of the last row before a row that has one; `None` if there is none.

    Args:
        read: reads the rows `[start, stop)` of the origin.
        columns_of: splits a batch of them.
        row: the row.
    """
    low, rows = row, _ROWS
    while low > 0:
        high, low = low, max(low - rows, 0)
        last: int | None = None
        for batch in read(low, high):
            columns = columns_of(batch)
            if columns.clock is not None and columns.clock_from < batch.num_rows:
                last = int(columns.clock[-1])
        if last is not None:
            return last
        rows *= 2
    return None


def first_clock_from(
    read: Callable[[int, int], Iterator[pa.RecordBatch]], columns_of: Callable[[pa.RecordBatch], Columns], row: int
) -> int | None:
    """Return the clock value of the first row that has one, from a row on; arguments as for `last_clock_before`."""
    rows = _ROWS
    while True:
        found = 0
        for batch in read(row, row + rows):
            columns = columns_of(batch)
            found += batch.num_rows
            if columns.clock is not None and columns.clock_from < batch.num_rows:
                return int(columns.clock[columns.clock_from])
        if found < rows:
            return None
        row += rows
        rows *= 2
