"""The elements that sinks receive, and the table that a notebook and `show` display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.display import brief_repr, html_table
from dataflow_model.time import EventTime, ProcessingTime, format_instant
from dataflow_model.values.panes import NO_FIRING
from dataflow_model.values.windows import GLOBAL_WINDOW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.values import PaneInfo, Window

__all__ = ["Record", "Records", "html_of_records", "table_of_records"]


@attrs.frozen(repr=False)
class Record:
    """One element as a sink receives it.

    Attributes:
        value: the element.
        event_time: its event time.
        window: its window.
        pane: the `PaneInfo` of the pane that it belongs to.
        is_retraction: whether it retracts an earlier value.
        order: a tuple that sorts the records of one commit into emission order.
        processing_time: when it was produced: the deadline that fired its pane, or the clock if none did.
    """

    value: Any
    event_time: EventTime
    window: Window
    pane: PaneInfo
    is_retraction: bool = False
    order: tuple[Any, ...] = ()
    processing_time: ProcessingTime = ProcessingTime(0)

    def __repr__(self) -> str:
        return brief_repr(self, without=("order",))

    def __reduce__(self) -> tuple[Any, ...]:
        # A stream pickles each record that it keeps, and what attrs generates would take most of the stream's time.
        times = int(self.event_time), int(self.processing_time)
        return _record, (self.value, *times, self.window, self.pane, self.is_retraction, self.order)

    def _repr_html_(self) -> str:
        return html_of_records([self])


def _record(
    value: Any,
    event_time: int,
    processing_time: int,
    window: Window,
    pane: PaneInfo,
    is_retraction: bool,  # noqa: FBT001 - as pickles have it
    order: tuple[Any, ...],
) -> Record:
    """Restore a record from its pickle."""
    return Record(value, EventTime(event_time), window, pane, is_retraction, order, ProcessingTime(processing_time))


class Records(list[Record]):
    """A list of records that a notebook shows as a table."""

    def _repr_html_(self) -> str:
        return html_of_records(self)


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
            *([record.value] if fields is None else record.value),
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
