"""CSV files that sinks write."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dataflow_model.io.sinks.json_lines import json_text, json_values, plain, seconds_text
from dataflow_model.io.sinks.text_files import TextFile

if TYPE_CHECKING:
    from pathlib import Path

_FORMULA: Final = re.compile("[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]").match
"""Whether a spreadsheet may take a text for a formula; the last four are wide forms of the first four."""


class CsvWriter:
    """Writes batches as rows of one CSV file.

    Values are quoted where they have to be: those with a delimiter, a quote or a line break in them, and text that
    would be taken for null, as is empty text. Null is never quoted, except in a file of one column, where it would be
    an empty line.

    Args:
        path: the file.
        names: of the columns, for the header; `None` leaves it out.
        delimiter: between two values.
        null: what stands for null.
        quotes_all: whether all values but nulls are quoted.
        escapes_formulas: whether texts that a spreadsheet may take for formulas begin with an apostrophe.
    """

    def __init__(
        self,
        path: Path,
        names: list[str] | None,
        *,
        delimiter: str = ",",
        null: str = "",
        quotes_all: bool = False,
        escapes_formulas: bool = False,
    ) -> None:
        self._file = TextFile(path)
        self._escapes_formulas = escapes_formulas
        self._delimiter, self._null, self._quotes_all = delimiter, null, quotes_all
        self._special = re.compile(f'[{re.escape(delimiter)}"\r\n]').search
        if names is not None:
            names = [str(_escaped(name)) for name in names] if escapes_formulas else names
            self._file.write_lines([delimiter.join(map(self._quoted, names)) or '""'])

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write one line a row."""
        columns = [[self._text(value) for value in self._values(column)] for column in batch.columns]
        join = self._delimiter.join
        self._file.write_lines(join(row) or '""' for row in zip(*columns, strict=True))

    def close(self) -> None:
        """Finish the file."""
        self._file.close()

    def _values(self, column: pa.Array) -> list[Any]:
        values = json_values(column)
        return [_escaped(value) for value in values] if self._escapes_formulas and _is_text(column.type) else values

    def _text(self, value: Any) -> str:
        match value:
            case None:
                return self._null
            case bool():
                text = "true" if value else "false"
            case str():
                text = value
            case int() | float():
                text = repr(value)
            case list() | dict() | tuple():
                text = json_text(value)
            case dt.timedelta():
                text = seconds_text(value)
            case _:
                text = str(plain(value))
        return self._quoted(text)

    def _quoted(self, text: str) -> str:
        if self._quotes_all or text in {"", self._null} or self._special(text) is not None:
            return '"' + text.replace('"', '""') + '"'
        return text


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _escaped(text: str | None) -> str | None:
    return text if text is None or _FORMULA(text) is None else f"'{text}"
