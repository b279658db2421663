"""Columns in the names of folders, such as `dt=2024-05-01/hour=03/`, as Hive and Spark write them."""

from __future__ import annotations

import functools
import os
import re
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, encodable, shown
from dataflow_model.plan.columns.source_columns import BAD_FIELD, bad_column_index

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    ReadFile = Callable[[pa.Schema], Iterator[pa.RecordBatch]]

NULL: Final = "__HIVE_DEFAULT_PARTITION__"
"""The value of a folder that stands for null."""
_MARK: Final = {b"dataflow_model": b"from folders"}
_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_OFF: Final = "pass hive_partitioning=False to read the files without the columns in the names of folders"


def value_in(folder: str) -> tuple[str, str | None] | None:
    """Return the column and the value in the name of one folder; `None` for an ordinary name.

    Example:
        >>> value_in("dt=2024-05-01"), value_in("gate=B%2F7"), value_in("hour=__HIVE_DEFAULT_PARTITION__")
        (('dt', '2024-05-01'), ('gate', 'B/7'), ('hour', None))
        >>> value_in("logs")
    """
    name, sign, text = folder.partition("=")
    if not (name and sign):
        return None
    return decoded(name), None if text == NULL else decoded(text)


def decoded(text: str) -> str:
    """Return text without percent-encoding, of UTF-8 or, where it is none, of single characters as Hive has it."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return unquote(text, "latin-1")


def from_folders(schema: pa.Schema) -> list[str]:
    """Return the names of the columns that were found in the names of folders."""
    return [field.name for field in schema if field.metadata is not None and field.metadata.items() >= _MARK.items()]


def values_in_folders(files: Iterable[str], *, required: bool, mixed: bool = False) -> dict[str, set[str | None]]:
    """Return the values by column in the names of the folders of files.

    Args:
        files: their names below the common folder.
        required: whether there must be such folders.
        mixed: whether files in folders of other columns than those of the first one in any are left out.

    Raises:
        InvalidArgument: if files lie in folders of different columns.
    """
    values: dict[str, set[str | None]] = {}
    first, names = "", None
    if mixed:
        files = list(files)
        files = [file for file in files if _pairs(os.path.dirname(file))] or files  # noqa: PTH120 - text is enough
        required = False
    for file in {os.path.dirname(file): file for file in files}.values():  # noqa: PTH120 - text is enough
        pairs = _pairs(os.path.dirname(file))  # noqa: PTH120
        own_names = [name for name, _ in pairs]
        if names is None:
            first, names = file, own_names
            _check_names(file, names, required=required)
        elif own_names != names:
            if mixed:
                continue
            raise InvalidArgument(
                f"{first} lies in {_described(names)}, but {file} in {_described(own_names)}",
                hint=f"read them separately, or {_OFF}",
            )
        for name, text in pairs:
            values.setdefault(name, set()).add(text)
    return values


def with_folder_columns(
    columns: pa.Schema,
    values: Mapping[str, set[str | None]],
    *,
    is_stated: bool,
    types: Mapping[str, pa.DataType],
) -> pa.Schema:
    """Return the columns of files together with those in the names of their folders, which are marked.

    A column has the type that it has in the files or in a stated schema. Otherwise it holds whole numbers, dates or, if
    its values are of several kinds or have leading zeros, text.

    Args:
        columns: the columns of the files.
        values: the values in the names of folders by column.
        is_stated: whether the columns are a schema of the user's: only those in it are read.
        types: types of columns by name that are known otherwise.

    Raises:
        InvalidArgument: if the files have no other columns.
    """
    fields = [field.with_metadata(_MARK) if field.name in values else field for field in columns]
    if not is_stated:
        present = set(columns.names)
        new = [name for name in values if name not in present]
        fields += [pa.field(name, _type_of(values[name], types.get(name)), metadata=_MARK) for name in new]
    if values and len(fields) == sum(field.name in values for field in fields):
        raise InvalidArgument(
            f"a row must have a column beside those in the names of folders, {', '.join(values)}",
            hint=f"add one to `schema`, or {_OFF}" if is_stated else _OFF,
        )
    return pa.schema(fields)


@attrs.frozen
class FolderColumns:
    """What the names of the folders of one file say.

    Attributes:
        texts: the values by column.
        fields: the columns, with their types.
        others: the columns of the file.
        problem: why the file cannot be read together with the others; `None` if it can.
    """

    texts: Mapping[str, str | None]
    fields: pa.Schema
    others: pa.Schema
    problem: str | None = None

    @classmethod
    def of(cls, columns: pa.Schema, file: str, *, is_stated: bool, required: bool) -> FolderColumns | None:
        """Return what the folders of a file say; `None` if neither it nor the columns have anything to do with folders.

        Args:
            columns: all columns, those from folders marked.
            file: the name of the file below the common folder.
            is_stated: whether the columns are a schema of the user's.
            required: whether there must be such folders.
        """
        expected = from_folders(columns)
        if not expected and not required and "=" not in file:
            return None
        pairs = _pairs(os.path.dirname(file))  # noqa: PTH120
        present = set(columns.names)
        own_names = [name for name, _ in pairs if not is_stated or name in present]
        names = expected or (own_names if is_stated else [])
        problem = None
        if sorted(own_names) != sorted(names) or (required and not pairs):
            problem = f"it lies in {_described([name for name, _ in pairs])}, not in {_described(expected)}"
        texts = {name: text for name, text in pairs if name in names}
        for name, text in texts.items():
            problem = problem or _misfit(columns.field(name), text)
        if not names and problem is None:
            return None
        fields = pa.schema([field for field in columns if field.name in names])
        return cls(texts, fields, pa.schema([field for field in columns if field.name not in names]), problem)

    def rows(self, columns: pa.Schema, own: pa.Schema, read: ReadFile) -> Iterator[pa.RecordBatch]:
        """Yield rows with the columns of the folders; those of which the file says something else are bad rows.

        Args:
            columns: the columns to yield.
            own: the columns of the folders that the file has too, with their types there.
            read: reads columns of the file.
        """
        in_folders = set(self.fields.names)
        wanted = [field for field in columns if field.name not in in_folders]
        own = own if self.problem is None else pa.schema([])
        if not wanted and not len(own):
            wanted = [self.others.field(0)]  # Arrow keeps no number of rows without columns
        values = {
            field.name: pa.nulls(1, field.type) if self.problem else _typed(self.texts[field.name], field.type)
            for field in self.fields
        }
        for batch in read(pa.schema([*wanted, *own])):
            first = pa.array([0] * batch.num_rows, pa.int64())
            given = dict(zip(batch.schema.names, batch.columns, strict=True))
            arrays = [given[name] if name not in values else values[name].take(first) for name in columns.names]
            rows = pa.RecordBatch.from_arrays(arrays, schema=pa.schema([columns.field(name) for name in columns.names]))
            marks = self._marks(batch, {name: values[name] for name in own.names})
            yield rows if marks is None else rows.append_column(BAD_FIELD, marks)

    def _marks(self, batch: pa.RecordBatch, checked: Mapping[str, pa.Array]) -> pa.Array | None:
        """Return the column that marks bad rows; `None` if there are none."""
        at = bad_column_index(batch.schema)
        reasons: dict[int, str] = {}
        if self.problem is not None:
            reasons = dict.fromkeys(range(batch.num_rows), self.problem)
        for name, value in checked.items():
            for index, stored in _others(batch.column(name), value):
                reasons.setdefault(
                    index,
                    f"column {name!r} holds {shown(stored)} in the file, but its folder says {self.texts[name]!r}",
                )
        if not reasons:
            return None if at is None else batch.column(at)
        marks = [None] * batch.num_rows if at is None else batch.column(at).to_pylist()
        for index, reason in reasons.items():
            if marks[index] is None:
                marks[index] = {"text": encodable(_text_of(batch.slice(index, 1))), "reason": encodable(reason)}
        return pa.array(marks, BAD_FIELD.type)


def _check_names(file: str, names: list[str], *, required: bool) -> None:
    if len(set(names)) < len(names):
        raise InvalidArgument(f"the folders of {file} name a column twice: {', '.join(names)}", hint=_OFF)
    if required and not names:
        raise InvalidArgument(
            f"hive_partitioning=True needs files in folders such as dt=2024-05-01, but {file} lies in none",
            hint="leave hive_partitioning out; the root itself and what is above it does not count",
        )


def _described(names: list[str]) -> str:
    return f"folders of {', '.join(names)}" if names else "no folder of the form name=value"


@functools.lru_cache(maxsize=4096)
def _pairs(folders: str) -> tuple[tuple[str, str | None], ...]:
    return tuple(pair for pair in map(value_in, Path(folders).parts) if pair is not None)


def _type_of(values: set[str | None], known: pa.DataType | None = None) -> pa.DataType:
    """Return the type for the values of a column, which is the known one if that can hold them all.

    Example:
        >>> _type_of({"3", "-14", None}), _type_of({"03", "14"}), _type_of({"2024-05-01", None})
        (DataType(int64), DataType(string), DataType(date32[day]))
    """
    texts = [text for text in values if text is not None]
    if known is not None and all(_misfit(pa.field("", known), text) is None for text in texts):
        return known
    if texts and all(map(_WHOLE.fullmatch, texts)) and all(-(2**63) <= int(text) < 2**63 for text in texts):
        return pa.int64()
    return pa.date32() if texts and all(map(_is_date, texts)) else pa.string()


def _is_date(text: str) -> bool:
    try:
        return _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        return False


def _typed(text: str | None, kind: pa.DataType) -> pa.Array:
    """Return a column with a value from a folder.

    Raises:
        ValueError: if the type cannot hold it; the errors of Arrow and Unicode are such errors.
    """
    return pa.nulls(1, kind) if text is None else pa.array([text], pa.string()).cast(kind)


def _misfit(field: pa.Field, text: str | None) -> str | None:
    try:
        _typed(text, field.type)
    except (pa.ArrowException, ValueError):
        return f"its folder says {field.name}={shown(text)}, but the column is {field.type}"
    return None


def _others(column: pa.Array, value: pa.Array) -> Iterator[tuple[int, Any]]:
    """Yield the indices and values in a column that are neither null nor the value."""
    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    for code, stored in enumerate(encoded.dictionary):
        try:
            agrees = pa.array([stored.as_py()], column.type).cast(value.type).equals(value)
        except (pa.ArrowException, ValueError):
            agrees = False
        if not agrees:
            for position, index in enumerate(encoded.indices.to_pylist()):
                if index == code:
                    yield position, stored.as_py()


def _text_of(row: pa.RecordBatch) -> str:
    at = bad_column_index(row.schema)
    try:
        [values] = (row if at is None else row.remove_column(at)).to_pylist()
    except (pa.ArrowException, ValueError):  # text that is not UTF-8, a time that Python does not have
        return str(row)
    return repr(values)
