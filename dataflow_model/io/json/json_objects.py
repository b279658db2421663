"""Lines of JSON as Python values, in which numbers keep their texts."""

from __future__ import annotations

import collections
import json
import re
from typing import Any, Final

import numpy as np

from dataflow_model.errors import shown

NO_OBJECT: Final = "it is not an object, as in {…}"
_DEEPEST: Final = 100
_FIRST_IS_NULL: Final = re.compile(rb"(?:\xef\xbb\xbf)?[ \t\r\f\v]*null").match
_OTHER_IS_NULL: Final = re.compile(rb"\n[ \t\r\f\v]*null").search
"""Not one pattern: a search is fast if each match begins with the same character."""
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]')


class Numeral(str):
    """The text of a number, which may have more digits or a larger exponent than a number of Python can hold."""

    __slots__ = ()

    def __repr__(self) -> str:
        """Return the text without quotes."""
        return str(self)


def object_of(line: bytes) -> dict[str, Any]:
    r"""Return the object that a line of JSON holds, with numerals in place of numbers.

    Args:
        line: the line; a byte order mark at its beginning is skipped.

    Raises:
        ValueError: for a line that is not exactly one object, is nested more than 100 deep, is not UTF-8, has half of
            a surrogate pair, or repeats a field.

    Example:
        >>> object_of(b'{"share": 1.50, "count": [1e400]}\n')
        {'share': 1.50, 'count': [1e400]}
    """
    check_depth(line)
    text = line.decode("utf-8-sig")
    value = value_of(text)
    if not isinstance(value, dict):
        raise ValueError(NO_OBJECT)  # noqa: TRY004 - about the data
    if "\\u" in text:
        for name, inner in value.items():
            if not _is_unicode([name, inner]):
                raise ValueError(f"{name!r} has half of a surrogate pair, which is no character: {shown(inner)}")
    return value


def problem_of(error: ValueError) -> str:
    """Return what is wrong with a line, by the error of `object_of`."""
    match error:
        case UnicodeDecodeError():
            return "it is not UTF-8, in which JSON is written"
        case json.JSONDecodeError():
            return f"it is not JSON: {error.msg} at character {error.pos}"
        case _:
            return str(error)


def value_of(text: str) -> Any:
    """Return the value that a JSON text holds, with numerals in place of numbers.

    Raises:
        ValueError: for text that is not JSON, or repeats a field.
    """
    return json.loads(text, parse_int=Numeral, parse_float=Numeral, object_pairs_hook=_distinct)


def text_of(value: Any) -> str:
    """Return a value of `object_of` as JSON, with the numbers as they were written.

    Example:
        >>> text_of(object_of(b'{"share": 1.50, "name": "ann", "more": [null, true]}'))
        '{"share": 1.50, "name": "ann", "more": [null, true]}'
    """
    match value:
        case Numeral():
            return str(value)
        case dict():
            return "{" + ", ".join(f"{text_of(name)}: {text_of(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(text_of, value)) + "]"
        case _:
            return json.dumps(value, ensure_ascii=False)


def check_depth(data: bytes) -> None:
    """Reject JSON lines that are nested more than 100 deep, since Python could not process their values.

    Raises:
        ValueError: for such a line.
    """
    if _has_many_brackets(data) and any(map(_is_deep, data.split(b"\n"))):
        raise ValueError(f"it is nested more than {_DEEPEST} deep")


def has_null_line(data: bytes) -> bool:
    r"""Return whether a JSON line starts with `null`, which Arrow would read as a row of nulls, or crash on.

    Example:
        >>> has_null_line(b'{"a": null}\n'), has_null_line(b'{"a": 1}\n null\n')
        (False, True)
    """
    return _FIRST_IS_NULL(data) is not None or _OTHER_IS_NULL(data) is not None


def _has_many_brackets(data: bytes) -> bool:
    """Return whether a line has so many opening brackets that it may be nested too deep."""
    if data.count(b"[") + data.count(b"{") <= _DEEPEST:
        return False
    buffer = np.frombuffer(data, np.uint8)
    brackets = np.flatnonzero((buffer == ord("[")) | (buffer == ord("{")))
    lines = np.searchsorted(np.flatnonzero(buffer == ord("\n")), brackets)
    return bool((lines[_DEEPEST:] == lines[:-_DEEPEST]).any())


def _is_deep(line: bytes) -> bool:
    depth = 0
    for token in _BRACKETS.findall(line):
        depth += 1 if token in b"[{" else -1 if token in b"]}" else 0
        if depth > _DEEPEST:
            return True
    return False


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        times = collections.Counter(name for name, _ in pairs)
        repeated = next(name for name, count in times.items() if count > 1)
        raise ValueError(f"it has {repeated!r} more than once")
    return fields


def _is_unicode(value: Any) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
