"""Files that do not fit as a whole: one bad row stands for all of their rows that have the same problem."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import encodable
from dataflow_model.plan.columns.source_columns import BAD_FIELD, bad_column_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_LOST_AT_ONCE: Final = 65_536
_OF_VALUE: Final = re.compile(r" cannot hold | holds |: ")
"""Behind this, a reason says more about its row than what may be wrong with all rows of a file."""


@attrs.frozen
class Fault:
    """What is wrong with the first rows of a file, all of them.

    Attributes:
        rows: the number of these rows.
        reason: the reason of the first one.
    """

    rows: int
    reason: str

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Fault | None:
        """Return what is wrong with rows; `None` if one is good or has another problem, or there are less than two."""
        reasons: list[str | None] = []
        for batch in batches:
            at = bad_column_index(batch.schema)
            if at is None or batch.column(at).null_count:
                return None
            reasons += batch.column(at).field("reason").to_pylist()
            if len({problem_in(reason) for reason in reasons}) > 1:
                return None
        first = reasons[0] if len(reasons) > 1 else None
        return None if first is None else cls(len(reasons), first)

    def describe(self, rows: int) -> str:
        """Return the reason for which none of the rows of a file can be read, given how many it has."""
        if rows <= self.rows:
            return f"none of the {rows} rows of the file can be read: {self.reason}"
        return (
            f"none of the first {self.rows} of the {rows} rows of the file can be read: {self.reason}; the others are "
            "read if they fit, and have no dead letters if they have the same problem"
        )


def problem_in(reason: str | None) -> str | None:
    """Return the part of the reason of a bad row that other rows of the file may have too.

    Example:
        >>> problem_in("column 'n' is int64 and cannot hold 'x'")
        "column 'n' is int64 and"
    """
    return None if reason is None else _OF_VALUE.split(reason)[0]


def one_for_all(
    batches: Iterable[pa.RecordBatch],
    start: int,
    path: str,
    head: Callable[[], Iterable[pa.RecordBatch]],
    count: Callable[[], int],
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a file; if it is at fault as a whole, its first row stands for all with the same problem.

    Args:
        batches: rows of the file.
        start: the number of the first one.
        path: the file.
        head: reads the first rows of the file.
        count: counts its rows.
    """
    fault: Fault | None = None
    is_known = False
    for batch in batches:
        at = bad_column_index(batch.schema)
        if at is not None and not is_known:
            fault, is_known = Fault.of(head()), True
        if fault is None or at is None:
            yield batch
        else:
            marks = batch.column(at).to_pylist()
            problem = problem_in(fault.reason)
            marks = [{} if mark and problem_in(mark["reason"]) == problem else mark for mark in marks]
            if start == 0 and marks:
                marks[0] = {"text": encodable(path), "reason": encodable(fault.describe(count()))}
            yield batch.set_column(at, BAD_FIELD, pa.array(marks, BAD_FIELD.type))
        start += batch.num_rows


def lost_rows(
    columns: pa.Schema, start: int, stop: int, first: int, text: str, reason: str
) -> Iterator[pa.RecordBatch]:
    """Yield rows `[start, stop)` as bad rows, for all of which one of them stands, if it is in this range.

    Args:
        columns: the columns.
        start: the first row.
        stop: the row after the last one.
        first: the row that stands for all.
        text: its text.
        reason: why they cannot be read.
    """
    mark = {"text": encodable(text), "reason": encodable(reason)}
    for low in range(start, stop, _LOST_AT_ONCE):
        high = min(low + _LOST_AT_ONCE, stop)
        marks = [mark if row == first else {} for row in range(low, high)]
        nulls = [pa.nulls(high - low, field.type) for field in columns]
        schema = pa.schema([*columns, BAD_FIELD])
        yield pa.RecordBatch.from_arrays([*nulls, pa.array(marks, BAD_FIELD.type)], schema=schema)
