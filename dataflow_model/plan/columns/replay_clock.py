"""The replay clock at rows that have no clock value of their own: that of the rows near them in their origin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.plan.columns.source_columns import instants

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from dataflow_model.plan.columns.time_units import TimeUnit

_ROWS: Final = 1_000
"""How many rows are read first; each further read takes twice as many."""


def last_clock_before(
    read: Callable[[int, int], Iterator[pa.RecordBatch]], column: str, row: int, unit: TimeUnit | None = None
) -> int | None:
    """Return the clock value of the last row before a row that has one; `None` if there is none.

    Args:
        read: reads the rows `[start, stop)` of the origin.
        column: the column of the replay clock.
        row: the row.
        unit: that of whole numbers in the column; microseconds by default.
    """
    low, rows = row, _ROWS
    while low > 0:
        high, low = low, max(low - rows, 0)
        last: int | None = None
        for batch in read(low, high):
            known = _known(batch, column, unit)
            if len(known):
                last = int(known[-1])
        if last is not None:
            return last
        rows *= 2
    return None


def first_clock_from(
    read: Callable[[int, int], Iterator[pa.RecordBatch]], column: str, row: int, unit: TimeUnit | None = None
) -> int | None:
    """Return the clock value of the first row that has one, from a row on; arguments as for `last_clock_before`."""
    rows = _ROWS
    while True:
        count = 0
        for batch in read(row, row + rows):
            known = _known(batch, column, unit)
            if len(known):
                return int(known[0])
            count += batch.num_rows
        if count < rows:
            return None
        row += rows
        rows *= 2


def _known(batch: pa.RecordBatch, column: str, unit: TimeUnit | None) -> NDArray[np.int64]:
    times, known = instants(batch.column(column), unit)
    return times if known is None else times[known]
