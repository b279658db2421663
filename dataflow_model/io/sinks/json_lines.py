"""Write rows as files with one JSON object per line."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dataflow_model.io.sinks.text_files import TextFile
from dataflow_model.plan.columns.rows import values_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_MICROSECOND: Final = dt.timedelta(microseconds=1)


class JsonLinesWriter:
    """Writes batches as lines of JSON to one file."""

    def __init__(self, path: Path) -> None:
        self._file = TextFile(path)

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write one line a row."""
        self._file.write_lines(json_lines(batch))

    def write_line(self, line: str) -> None:
        """Write one line."""
        self._file.write_lines([line])

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def json_lines(batch: pa.RecordBatch) -> list[str]:
    """Return each row of a batch as a JSON object.

    Example:
        >>> json_lines(pa.RecordBatch.from_pydict({"key": ["UA"], "mean": [float("nan")]}))
        ['{"key": "UA", "mean": "NaN"}']
    """
    fields = ", ".join(f"{_ENCODER.encode(name).replace('%', '%%')}: %s" for name in batch.schema.names)
    line = f"{{{fields}}}"
    columns = [map(text_of, json_values(column)) for column in batch.columns]
    return [line % row for row in zip(*columns, strict=True)]


def json_text(value: Any) -> str:
    """Return a value as JSON; NaN and the infinities in it are written as words.

    Example:
        >>> json_text({"mean": float("nan"), "seen": [1.5]})
        '{"mean": "NaN", "seen": [1.5]}'
    """
    return _ENCODER.encode(_finite(value))


def _finite(value: Any) -> Any:
    match value:
        case float():
            return value if math.isfinite(value) else _word(value)
        case dict():
            return {name: _finite(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_finite(inner) for inner in value]
        case _:
            return value


def json_values(column: pa.Array) -> list[Any]:
    """Return a column's values, with words in place of NaN and the infinities, which JSON does not have."""
    values = values_of(column)
    if pa.types.is_floating(column.type):
        # JSON has no such numbers; Spark writes and reads these words.
        return [value if value is None or math.isfinite(value) else _word(value) for value in values]
    return values


def text_of(value: Any) -> str:
    """Return one of `json_values` as JSON."""
    if isinstance(value, dt.timedelta):
        return seconds_text(value)
    return _TEXTS.get(type(value), json_text)(value)


def seconds_text(value: dt.timedelta) -> str:
    """Return a duration as text in seconds, with all its digits even if a float could not hold them.

    Example:
        >>> import pandas as pd
        >>> seconds_text(dt.timedelta(seconds=1.5)), seconds_text(pd.Timedelta(10**18 + 1, "ns"))
        ('1.5', '1000000000.000000001')
    """
    text = repr(plain(value))
    exact = decimal.Decimal(_nanoseconds(value)).scaleb(-9)
    return text if decimal.Decimal(text) == exact else f"{exact:f}"


def _nanoseconds(value: Any) -> int:
    """Return a duration in nanoseconds, which only a `pd.Timedelta` has."""
    return int(value.value if hasattr(value, "nanoseconds") else value // _MICROSECOND * 1_000)


def _word(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def plain(value: Any) -> Any:
    """Return a value that JSON does not have as one that it has.

    Example:
        >>> plain(dt.datetime(2013, 1, 1, tzinfo=dt.UTC)), plain(dt.timedelta(seconds=1.5)), plain(b"UA")
        ('2013-01-01T00:00:00Z', 1.5, 'VUE=')
    """
    match value:
        case dt.datetime():
            return value.isoformat().replace("+00:00", "Z")
        case dt.date() | dt.time():
            return value.isoformat()
        case dt.timedelta():
            return _nanoseconds(value) / 10**9
        case bytes():
            return base64.b64encode(value).decode("ascii")
        case decimal.Decimal():
            return str(value)
        case _:
            return str(value)


_ENCODER: Final = json.JSONEncoder(default=plain, ensure_ascii=False)
_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    int: int.__repr__,
    float: float.__repr__,
    bool: {False: "false", True: "true"}.__getitem__,
    str: _ENCODER.encode,
    type(None): {None: "null"}.__getitem__,
}
"""How to write values of the most frequent types, several times faster than the encoder does."""
