"""Infer the columns of JSON from a sample of its lines, exactly and whatever the blocks in which they are read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.io.json.json_objects import Numeral, object_of, problem_of
from dataflow_model.io.text.whole_numbers import whole_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OFFSET: Final = r"[T ][0-9:.]+([Zz]|[+-][0-9:]+)$"
_WHOLE: Final = re.compile(r"-?\d+")


class _OfAnotherKindError(ValueError):
    """A field has values of several kinds."""


def json_schema(lines: Iterable[bytes], *, mixed: bool = False) -> pa.Schema:
    r"""Infer the types of the fields of JSON lines; whole numbers as `csv_schema` does.

    Text is an instant where all of it is written as one: in UTC if some of it has an offset, otherwise without a zone.
    A field whose values are all null is text. Lines that are no object, and lines with a value of another kind than in
    the lines before them, are ignored: they are bad rows.

    Args:
        lines: the lines.
        mixed: whether a field with values of several kinds is text, so that no line is ignored for its kinds.

    Raises:
        ValueError: if no line is an object; it says what is wrong with the first one.

    Example:
        >>> json_schema([b'{"id": 18446744073709551615, "parts": [{"share": 1}, {"share": 0.5}]}'])
        id: uint64
        parts: list<item: struct<share: double>>
          child 0, item: struct<share: double>
              child 0, share: double
        >>> json_schema([b'{"at": "2013-01-01T05:00:00.5Z", "n": null}', b'{"at": 5}'])
        at: timestamp[us, tz=UTC]
        n: string
        >>> json_schema([b'{"n": 5}', b'{"n": "five"}'], mixed=True)
        n: string
    """
    rows: list[dict[str, Any]] = []
    problems: list[str] = []
    for line in lines:
        try:
            rows.append(object_of(line))
        except ValueError as error:
            problems.append(problem_of(error))
    if not rows:
        raise ValueError(f"of its first row, {problems[0]}" if problems else "it has no rows")
    try:
        return pa.schema(list(_fields_of(rows, mixed=mixed)))
    except _OfAnotherKindError:
        return pa.schema(list(_fields_of(_alike(rows), mixed=mixed)))


def _fields_of(rows: list[dict[str, Any]], *, mixed: bool) -> Iterator[pa.Field]:
    by_name: dict[str, list[Any]] = {}
    for row in rows:
        for name, value in row.items():
            values = by_name.setdefault(name, [])
            if value is not None:
                values.append(value)
    for name, values in by_name.items():
        yield pa.field(name, _type_of(values, mixed=mixed))


def _type_of(values: list[Any], *, mixed: bool) -> pa.DataType:
    """Return the type of values other than null."""
    kinds = set(map(type, values))
    if len(kinds) > 1 and not mixed:
        raise _OfAnotherKindError
    kind = kinds.pop() if len(kinds) == 1 else None
    if kind is dict:
        return pa.struct(list(_fields_of(values, mixed=mixed)))
    if kind is list:
        return pa.list_(_type_of([item for items in values for item in items if item is not None], mixed=mixed))
    if kind is bool:
        return pa.bool_()
    if kind is Numeral:
        return whole_type(values) if all(map(_WHOLE.fullmatch, values)) else pa.float64()
    return _type_of_texts(values) if kind is str else pa.string()


def _type_of_texts(values: list[str]) -> pa.DataType:
    """Return the type of texts: instants if all are, in UTC if one has an offset."""
    texts = pa.array(values, pa.string())
    have_offsets = pc.call_function("match_substring_regex", [texts], pc.MatchSubstringOptions(_OFFSET))
    zoned, local = texts.filter(have_offsets), texts.filter(pc.call_function("invert", [have_offsets]))
    try:
        zoned.cast(pa.timestamp("us", "UTC"))
        local.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return pa.string()
    return pa.timestamp("us", "UTC" if len(zoned) else None)


def _alike(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows except those with a value of another kind than in the rows before."""
    kinds: dict[tuple[str, ...], type] = {}
    alike = []
    for row in rows:
        of_row: dict[tuple[str, ...], type] = {}
        if all(of_row.setdefault(path, kinds.get(path, kind)) is kind for path, kind in _kinds_of(row, ())):
            kinds |= of_row
            alike.append(row)
    return alike


def _kinds_of(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], type]]:
    """Yield the path and the kind of each value that is not null."""
    if value is None:
        return
    yield path, type(value)
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _kinds_of(inner, (*path, name))
    elif isinstance(value, list):
        for inner in value:
            yield from _kinds_of(inner, (*path, "[]"))
