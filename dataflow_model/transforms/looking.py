"""What a collection holds, by a sample: for notebooks and for a first look."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.checks import check
from dataflow_model.plan.sampling import SAMPLE, sample_of
from dataflow_model.time import format_instant
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from dataflow_model.plan.runner import Runner
    from dataflow_model.plan.sinks import Record
    from dataflow_model.transforms.pcollection import PCollection

__all__ = ["sample", "table_of"]


def sample(collection: PCollection, runner: Runner, n: int, rows: int) -> list[Record]:
    """Return the first records of a collection, computed from the first rows of each source."""
    for name, value in (("n", n), ("rows", rows)):
        given: object = value
        if isinstance(given, bool) or not isinstance(given, int) or given < 1:
            hint = f"pass {name}=10, for example"
            raise InvalidArgument(f"`{name}` must be a positive int, got {value!r}", hint=hint)
    plan = sample_of(collection.pipeline.plan(), collection.ref, rows)
    check(plan)
    result = runner.run(plan)
    result.wait_until_finish()
    records: list[Record] = result.collected(SAMPLE)
    return records[:n]


def table_of(records: Sequence[Record], title: str) -> Table:
    """Return records as a table: the fields of a row or the value, then event time, and window and pane if any."""
    from rich.table import Table
    from rich.text import Text

    fields = _fields(records)
    windowed = any(record.window != GLOBAL_WINDOW for record in records)
    fired = any(record.pane != NO_FIRING for record in records)
    table = Table(title=title, title_justify="left", caption=None if records else "no elements")
    for name in (*(fields or ("value",)), "event time", *["window"] * windowed, *["pane"] * fired):
        table.add_column(name, overflow="fold")
    for record in records:
        values = [record.value] if fields is None else [getattr(record.value, name) for name in fields]
        cells = [*map(_cell, values), format_instant(int(record.event_time))]
        cells += [str(record.window)] * windowed
        cells += [_pane(record)] * fired
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _fields(records: Sequence[Record]) -> tuple[str, ...] | None:
    """Return the fields that all values have, if they are rows of one type."""
    kinds = {type(record.value) for record in records}
    fields: Any = getattr(next(iter(kinds)), "_fields", None) if len(kinds) == 1 else None
    return fields if isinstance(fields, tuple) else None


def _cell(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime.datetime) else repr(value)


def _pane(record: Record) -> str:
    timing = record.pane.timing.name.lower().replace("_", " ")
    return f"{'retraction, ' if record.is_retraction else ''}{timing}"
