"""Parse rows of text into columns; each row that does not parse becomes a bad row of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dataflow_model.errors import shown
from dataflow_model.io.text.unpacking import as_in_file
from dataflow_model.plan.columns.python_range import with_times
from dataflow_model.plan.columns.source_columns import BAD_FIELD, bad_column_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dataflow_model.io.text.row_texts import RowTexts

_FEW: Final = 16
"""Among how many rows the bad ones are isolated without looking at whole columns first."""
_WHOLE: Final = re.compile(r"\s*[+-]?\d{1,38}\s*")


def parse_rows(
    texts: RowTexts,
    parse: Callable[[bytes], pa.Table],
    columns: pa.Schema,
    explain: Callable[[bytes, str], str],
    find: Callable[[RowTexts], Mapping[int, str]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Parse all rows at once; if that fails, parse each half, until every bad row is isolated.

    A bad row becomes a row of nulls with its text and the reason in `BAD_FIELD`.

    Args:
        texts: the texts of the rows.
        parse: turns the text of some rows into columns, and raises if it cannot; see also `with_reasons`.
        columns: the columns.
        explain: says what is wrong with the text of one row, given the error of `parse`.
        find: returns the reasons of bad rows by index, for those that it finds at once; the others are isolated.
    """
    if texts.problem():
        yield from _bad_row(texts.text() + "…".encode(), texts.problem(), columns).to_batches()
        return
    pieces: list[pa.Table] = []
    start = 0
    for index in (*texts.unclosed, len(texts)):
        if start < index:
            pieces.extend(_parse(texts, start, index, parse, columns, explain, find))
        if index < len(texts):
            pieces.append(_bad_row(texts.text(index, index + 1), "a quote is not closed", columns))
        start = index + 1
    yield from _joined(pieces).to_batches()


def _joined(pieces: list[pa.Table]) -> pa.Table:
    """Return tables of rows as one, with a column of bad rows if one of them has it."""
    if any(bad_column_index(piece.schema) is not None for piece in pieces):
        pieces = [
            piece.append_column(BAD_FIELD, pa.nulls(piece.num_rows, BAD_FIELD.type))
            if bad_column_index(piece.schema) is None
            else piece
            for piece in pieces
        ]
    return pa.concat_tables(pieces).combine_chunks()


def with_reasons(table: pa.Table, reasons: Mapping[int, str]) -> pa.Table:
    """Mark rows of a table as bad rows, by index; `parse_rows` adds their texts."""
    if not reasons:
        return table
    return table.append_column(BAD_FIELD, _marks(table.num_rows, sorted(reasons), reasons, {}))


def cannot_hold(field: pa.Field, value: Any) -> str:
    """Return a message that a column cannot hold a value, which names a type that could for a large whole number.

    Example:
        >>> cannot_hold(pa.field("id", pa.int64()), 2**63)
        "column 'id' is int64 and cannot hold 9223372036854775808; pa.decimal128(38, 0) in `schema` could"
    """
    problem = f"column {field.name!r} is {field.type} and cannot hold {shown(value)}"
    is_whole = pa.types.is_integer(field.type) and _WHOLE.fullmatch(str(value)) is not None
    return f"{problem}; pa.decimal128(38, 0) in `schema` could" if is_whole and not _is_int64(int(value)) else problem


def in_microseconds(kind: pa.DataType) -> pa.DataType:
    """Return a type with microseconds in place of coarser units of time, also in lists, structs and maps.

    Arrow reads no text with more digits than a unit has, even if these are zeros, and drops those of values. A cast to
    the coarser unit fails only where a digit would be lost.

    Example:
        >>> in_microseconds(pa.list_(pa.time32("ms")))
        ListType(list<item: time64[us]>)
    """
    return with_times(kind, _in_microseconds)


def _in_microseconds(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_time32(kind):
        return pa.time64("us")
    if pa.types.is_date(kind) or kind.unit not in {"s", "ms"}:
        return kind
    return pa.timestamp("us", kind.tz) if pa.types.is_timestamp(kind) else pa.duration("us")


def _is_int64(number: int) -> bool:
    return -(2**63) <= number < 2**63


def _parse(
    texts: RowTexts,
    start: int,
    stop: int,
    parse: Callable[[bytes], pa.Table],
    columns: pa.Schema,
    explain: Callable[[bytes, str], str],
    find: Callable[[RowTexts], Mapping[int, str]] | None = None,
) -> Iterator[pa.Table]:
    text = texts.text(start, stop)
    try:
        table = parse(text)
    except (pa.ArrowException, ValueError) as error:
        problem = str(error).splitlines()[0]
    else:
        if table.num_rows == stop - start:
            yield _with_texts(table, texts, start, columns)
            return
        problem = f"it holds {table.num_rows} rows"
    reasons = {} if find is None or stop - start < _FEW else find(texts.sliced(start, stop))
    if reasons:
        yield _without_bad(texts.sliced(start, stop), reasons, parse, columns, explain)
        return
    if stop - start > 1:
        middle = (start + stop) // 2
        yield from _parse(texts, start, middle, parse, columns, explain)
        yield from _parse(texts, middle, stop, parse, columns, explain)
        return
    yield _bad_row(text, explain(text, problem), columns)


def _without_bad(
    texts: RowTexts,
    reasons: Mapping[int, str],
    parse: Callable[[bytes], pa.Table],
    columns: pa.Schema,
    explain: Callable[[bytes, str], str],
) -> pa.Table:
    """Parse rows without the bad ones among them, whose reasons are known by index, and return all in order."""
    indices = np.array(sorted(reasons), np.int64)
    others = np.delete(np.arange(len(texts)), indices)
    lines = [_line(texts.text(index, index + 1)) for index in indices.tolist()]
    marks = [{"text": line, "reason": reasons[index]} for line, index in zip(lines, indices.tolist(), strict=True)]
    bad = _bad_rows(marks, columns)
    rest = _parse(texts.chosen(others), 0, len(others), parse, columns, explain) if len(others) else ()
    return _joined([*rest, bad]).take(pa.array(np.argsort(np.concatenate([others, indices]))))


def _with_texts(table: pa.Table, texts: RowTexts, start: int, columns: pa.Schema) -> pa.Table:
    """Return the columns of rows that begin at `start`, with the texts of those that are marked as bad rows."""
    rows = table.select(columns.names).cast(columns)
    bad = bad_column_index(table.schema)
    if bad is None:
        return rows
    indices = np.flatnonzero(table.column(bad).is_valid())
    reasons = table.column(bad).take(pa.array(indices)).combine_chunks().field("reason").to_pylist()
    at = indices.tolist()
    lines = {index: _line(texts.text(start + index, start + index + 1)) for index in at}
    return rows.append_column(BAD_FIELD, _marks(len(rows), at, dict(zip(at, reasons, strict=True)), lines))


def _marks(count: int, indices: list[int], reasons: Mapping[int, str], lines: Mapping[int, str]) -> pa.Array:
    """Return the column of bad rows for as many rows, with reasons and texts by index."""
    marks = pa.array([{"text": lines.get(index), "reason": reasons[index]} for index in indices], BAD_FIELD.type)
    numbers = np.zeros(count, np.int64)
    numbers[indices] = np.arange(len(indices))
    is_good = np.ones(count, np.bool_)
    is_good[indices] = False
    return marks.take(pa.array(numbers, mask=is_good))


def _line(text: bytes) -> str:
    return as_in_file(text.rstrip(b"\r\n")).decode("utf-8", "backslashreplace")


def _bad_row(text: bytes, problem: str, columns: pa.Schema) -> pa.Table:
    return _bad_rows([{"text": _line(text), "reason": problem}], columns)


def _bad_rows(marks: list[dict[str, str]], columns: pa.Schema) -> pa.Table:
    nulls = [pa.nulls(len(marks), field.type) for field in columns]
    return pa.table([*nulls, pa.array(marks, BAD_FIELD.type)], schema=pa.schema([*columns, BAD_FIELD]))
