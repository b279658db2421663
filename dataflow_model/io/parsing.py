"""Rows of text as columns, with those that do not fit set apart one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from dataflow_model.plan.columns import BAD_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.io.records import Records

__all__ = ["parse_records"]


def parse_records(
    records: Records,
    parse: Callable[[bytes], pa.Table],
    columns: pa.Schema,
    explain: Callable[[bytes, str], str] = lambda _, problem: problem,
) -> Iterator[pa.RecordBatch]:
    """Parse all rows at once; where that fails, halve until the bad rows stand alone.

    A bad row becomes a row of nulls with the reason in `BAD_COLUMN`.

    Args:
        records: the rows.
        parse: turns the text of some rows into columns, and raises if it cannot.
        columns: the columns.
        explain: says what is wrong with the text of one row, given the error of `parse`.
    """
    pieces: list[pa.Table] = []
    start = 0
    for place in (*records.unclosed, len(records)):
        if start < place:
            pieces.extend(_parse(records, start, place, parse, columns, explain))
        if place < len(records):
            pieces.append(_bad_row(records.text(place, place + 1), "a quote is not closed", columns))
        start = place + 1
    if any(BAD_COLUMN in piece.schema.names for piece in pieces):
        marked = pa.schema([*columns, pa.field(BAD_COLUMN, pa.string())])
        pieces = [
            piece
            if BAD_COLUMN in piece.schema.names
            else piece.append_column(marked.field(BAD_COLUMN), pa.nulls(piece.num_rows, pa.string()))
            for piece in pieces
        ]
    yield from pa.concat_tables(pieces).combine_chunks().to_batches()


def _parse(
    records: Records,
    start: int,
    stop: int,
    parse: Callable[[bytes], pa.Table],
    columns: pa.Schema,
    explain: Callable[[bytes, str], str],
) -> Iterator[pa.Table]:
    text = records.text(start, stop)
    try:
        table = parse(text)
    except (pa.ArrowException, ValueError) as error:
        problem = str(error).splitlines()[0]
    else:
        if table.num_rows == stop - start:
            yield table.select(columns.names).cast(columns)
            return
        problem = f"it holds {table.num_rows} rows"
    if stop - start > 1:
        middle = (start + stop) // 2
        yield from _parse(records, start, middle, parse, columns, explain)
        yield from _parse(records, middle, stop, parse, columns, explain)
        return
    yield _bad_row(text, explain(text, problem), columns)


def _bad_row(text: bytes, problem: str, columns: pa.Schema) -> pa.Table:
    line = text.rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    reason = f"the line {line!r} does not fit the columns: {problem}"
    nulls = [pa.nulls(1, field.type) for field in columns]
    return pa.table([*nulls, pa.array([reason])], schema=pa.schema([*columns, pa.field(BAD_COLUMN, pa.string())]))
