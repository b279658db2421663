"""The elements that sinks receive, and the table that `print`, a notebook and `show` display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, SupportsIndex, overload

import attrs

from dataflow_model.display import MOST_ROWS, html_table, text_table
from dataflow_model.plan.columns.element_columns import fields_of
from dataflow_model.readable import readable_instant
from dataflow_model.time import MIN_TIMESTAMP, EventTime, ProcessingTime
from dataflow_model.values.panes import NO_FIRING
from dataflow_model.values.windows import GLOBAL_WINDOW, readable_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.values import PaneInfo, Window


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
        parts = [repr(self.value)]
        if _has_own_time(self):
            parts.append(f"event_time={readable_instant(int(self.event_time))}")
        if self.window != GLOBAL_WINDOW:
            parts.append(f"window={readable_window(self.window)}")
        if self.pane != NO_FIRING or self.is_retraction:
            parts.append(f"pane={self.pane.describe(is_retraction=self.is_retraction)!r}")
        if self.pane != NO_FIRING and int(self.processing_time):
            parts.append(f"processing_time={readable_instant(int(self.processing_time))}")
        return f"Record({', '.join(parts)})"

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
    """A list of records that prints itself as a table, and that a notebook shows as one.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("UA", 4), ("AA", 2), ("UA", 5)]) | dm.Sum.per_key() | "out" >> dm.io.Collect()
        >>> p.result.collected("out")
        key  value  pane
        AA       2  on time, #0, last
        UA       9  on time, #0, last
        2 records
    """

    @overload
    def __getitem__(self, index: SupportsIndex) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Records: ...
    def __getitem__(self, index: SupportsIndex | slice) -> Record | Records:
        return Records(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    def __repr__(self) -> str:
        if not self:
            return "no records"
        return text_table(*table_of_records(self[:MOST_ROWS]), total=len(self), notes=[note_of_records(self)])

    def _repr_html_(self) -> str:
        return html_of_records(self)


def table_of_records(records: Sequence[Record]) -> tuple[list[str], Iterator[list[object]]]:
    """Return headings and rows: the columns that a table has, and event time, window and pane if they say anything.

    Event times are left out if there are none, and if they are those of panes at the end of their windows.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([dm.TimestampedValue(("UA", 4), 5)]) | "out" >> dm.io.Collect()
        >>> headings, rows = table_of_records(p.result.collected("out"))
        >>> headings, list(rows)
        (['key', 'value', 'event time'], [['UA', 4, '1970-01-01 00:00:05']])
    """
    names, values = columns_of([record.value for record in records])
    timed = any(_has_own_time(record) for record in records)
    windowed = any(record.window != GLOBAL_WINDOW for record in records)
    fired = any(record.pane != NO_FIRING or record.is_retraction for record in records)
    headings = [*names, *["event time"] * timed, *["window"] * windowed, *["pane"] * fired]
    rows = (
        [
            *shown,
            *[readable_instant(int(record.event_time))] * timed,
            *[readable_window(record.window)] * windowed,
            *[record.pane.describe(is_retraction=record.is_retraction)] * fired,
        ]
        for record, shown in zip(records, values, strict=True)
    )
    return headings, rows


def note_of_records(records: Sequence[Record]) -> str:
    """Say how many records there are, and in which zone the table of them has its times, if it has any."""
    count = f"{len(records):,} record{'' if len(records) == 1 else 's'}"
    timed = any(_has_own_time(record) or record.window != GLOBAL_WINDOW for record in records[:MOST_ROWS])
    return f"{count}, times in UTC" if timed else count


def html_of_records(records: Sequence[Record]) -> str:
    """Return records as a table of HTML."""
    if not records:
        return html_table("no records", (), ())
    headings, rows = table_of_records(records[:MOST_ROWS])
    return html_table("", headings, rows, total=len(records), notes=[note_of_records(records)])


def _has_own_time(record: Record) -> bool:
    """Return whether a record has an event time that its window does not tell."""
    if record.event_time == MIN_TIMESTAMP:
        return False
    return record.pane == NO_FIRING or int(record.event_time) != int(record.window.max_timestamp)


def columns_of(values: Sequence[Any]) -> tuple[list[str], list[list[object]]]:
    """Return the names of the columns that elements have, and a row for each element; of several types, one column.

    Example:
        >>> columns_of([("UA", 4), ("AA", 2)]), columns_of([("UA", 4), 2])
        ((['key', 'value'], [['UA', 4], ['AA', 2]]), (['value'], [[('UA', 4)], [2]]))
    """
    if len({type(value) for value in values}) == 1:
        try:
            shapes = [fields_of(value) for value in values]
        except ValueError:  # a pair whose value has a field `key`
            return ["value"], [[value] for value in values]
        names = list(dict.fromkeys(name for shape in shapes for name in shape))
        return names, [[shape.get(name) for name in names] for shape in shapes]
    return ["value"], [[value] for value in values]
