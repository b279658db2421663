"""Records as the rows of a table that people look at: in a notebook, and as `show` prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.display import html_table
from dataflow_model.time import format_instant
from dataflow_model.values.panes import NO_FIRING
from dataflow_model.values.windows import GLOBAL_WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.plan.sinks import Record

__all__ = ["html_of_records", "table_of_records"]


def table_of_records(records: Sequence[Record]) -> tuple[list[str], Iterator[list[object]]]:
    """Return headings and rows: the fields of a row or the value, then the event time, and window and pane if any.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([dm.TimestampedValue("a", 5)]) | "out" >> dm.io.Collect()
        >>> headings, rows = table_of_records(p.result.collected("out"))
        >>> headings, list(rows)
        (['value', 'event time'], [['a', '1970-01-01T00:00:05Z']])
    """
    fields = _fields(records)
    windowed = any(record.window != GLOBAL_WINDOW for record in records)
    fired = any(record.pane != NO_FIRING for record in records)
    headings = [*(fields or ("value",)), "event time", *["window"] * windowed, *["pane"] * fired]
    rows = (
        [
            *([record.value] if fields is None else [getattr(record.value, name) for name in fields]),
            format_instant(int(record.event_time)),
            *[repr(record.window)] * windowed,
            *[record.pane.describe(is_retraction=record.is_retraction)] * fired,
        ]
        for record in records
    )
    return headings, rows


def html_of_records(records: Sequence[Record]) -> str:
    """Return records as a table of HTML."""
    headings, rows = table_of_records(records)
    return html_table("" if records else "no records", headings if records else (), rows, total=len(records))


def _fields(records: Sequence[Record]) -> tuple[str, ...] | None:
    """Return the fields that all values have, if they are rows of one type."""
    kinds = {type(record.value) for record in records}
    fields: Any = getattr(next(iter(kinds)), "_fields", None) if len(kinds) == 1 else None
    return fields if isinstance(fields, tuple) else None
