"""Find the bad rows of JSON lines with one look at each line, for the reasons that each alone would have."""

from __future__ import annotations

import functools
import json
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dataflow_model.io.json.json_objects import Numeral, object_of, problem_of
from dataflow_model.io.json.json_parsing import parse_lines, problem_of_line
from dataflow_model.io.text.parsing import cannot_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dataflow_model.io.text.row_texts import RowTexts

_WHOLE: Final = re.compile(r"-?\d{1,40}")
_PLAIN: Final = re.compile(r"-?\d{1,8}(\.\d{1,8})?")
_INSTANT: Final = re.compile(
    r"(1[7-9]|20|21)\d\d-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])[T ]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(Z?)", re.ASCII
)
_DECODE: Final = json.JSONDecoder().decode
_WORDS: Final = frozenset({"NaN", "Infinity", "-Infinity"})


def bad_lines(texts: RowTexts, columns: pa.Schema, *, mixed: bool) -> Mapping[int, str]:
    """Return by index what is wrong with rows, as `problem_of_line` says it.

    Lines that look good are left out, even if they are not.

    Args:
        texts: the rows, each of which is a line.
        columns: the columns.
        mixed: as in `parse_lines`.
    """
    looks_good = [(field.name, check) for field in columns if (check := _first_look(field.type)) is not None]
    reasons: dict[int, str] = {}
    for index, (start, end) in enumerate(zip(texts.starts.tolist(), texts.ends.tolist(), strict=True)):
        line = texts.data[start:end]
        if not _seems_good(line, looks_good):
            reason = _problem(line, columns, mixed=mixed)
            if reason is not None:
                reasons[index] = reason
    return reasons


def _seems_good(line: bytes, looks_good: Iterable[tuple[str, Callable[[Any], bool]]]) -> bool:
    try:
        row = _DECODE(line.decode())
    except ValueError:
        return False
    if type(row) is not dict:
        return False
    for name, check in looks_good:
        value = row.get(name)
        if value is not None and not check(value):
            return False
    return True


def _first_look(kind: pa.DataType) -> Callable[[Any], bool] | None:
    """Return a quick test of values as Python reads them; `None` if there is none for a type."""
    if pa.types.is_integer(kind):
        least, most = _limits(kind)
        return lambda value: type(value) is int and least <= value <= most
    if pa.types.is_floating(kind):
        return lambda value: type(value) is float or type(value) is int
    if pa.types.is_boolean(kind):
        return lambda value: type(value) is bool
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_timestamp(kind):
        return lambda value: type(value) is str
    return None


def _problem(line: bytes, columns: pa.Schema, *, mixed: bool) -> str | None:
    """Return what is wrong with a line; `None` if it is good."""
    judged: Iterable[pa.Field] = columns
    try:
        row = object_of(line)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        return problem_of(error)
    except ValueError:
        row, judged = {}, ()
    for field in judged:
        value = row.get(field.name)
        fits = value is None or _fits(value, field.type, mixed=mixed)
        if fits is False:
            return cannot_hold(field, value)
        if fits is None:
            break
    try:
        parsed = parse_lines(line, columns, mixed=mixed)
    except (pa.ArrowException, ValueError) as error:
        return problem_of_line(line, columns, str(error).splitlines()[0], mixed=mixed)
    return None if parsed.num_rows == 1 else f"it holds {parsed.num_rows} rows"


def _fits(value: Any, kind: pa.DataType, *, mixed: bool) -> bool | None:
    """Return whether a column certainly holds a value of `object_of`, or certainly does not; `None` if neither is."""
    if pa.types.is_integer(kind):
        return _fits_whole(value, kind)
    if pa.types.is_float32(kind) or pa.types.is_float64(kind):
        if type(value) is Numeral:
            return True if _PLAIN.fullmatch(value) else None
        return None if type(value) is str and value in _WORDS else False
    if pa.types.is_boolean(kind):
        return type(value) is bool
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return True if type(value) is str else None if mixed else False
    if pa.types.is_timestamp(kind) and type(value) is str:
        match = _INSTANT.fullmatch(value)
        return True if match is not None and bool(match[5]) == (kind.tz is not None) else None
    return None


def _fits_whole(value: Any, kind: pa.DataType) -> bool | None:
    if type(value) is not Numeral:
        return False
    if _WHOLE.fullmatch(value) is None:
        return None
    least, most = _limits(kind)
    return least <= int(value) <= most


@functools.cache
def _limits(kind: pa.DataType) -> tuple[int, int]:
    limits = np.iinfo(kind.to_pandas_dtype())
    return int(limits.min), int(limits.max)
