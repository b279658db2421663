"""Files in folders by the values of some columns, such as `dt=2024-05-01/hour=3/`, as Hive and Spark write them."""

from __future__ import annotations

import collections
import re
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType, SinkError, shown
from dataflow_model.io.listing.folder_columns import NULL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

_ESCAPED: Final = re.compile(r"""[\x00-\x1f"#%'*/:=?\\\x7f{\[\]^]""")
_LONGEST: Final = 255
"""The maximum number of bytes in the name of a folder."""


def folder_name(column: str, text: str | None) -> str:
    """Return the name of a folder, in which the characters that Hive and Spark escape are percent-encoded.

    Example:
        >>> folder_name("dt", "2024-05-01"), folder_name("gate", "B/7"), folder_name("gate", None)
        ('dt=2024-05-01', 'gate=B%2F7', 'gate=__HIVE_DEFAULT_PARTITION__')
    """
    return f"{_escaped(column)}={NULL if text is None else _escaped(text)}"


def checked_names(value: Any) -> tuple[str, ...]:
    """Return the argument `partition_by`.

    Raises:
        InvalidType: unless it is the name of a column, or several.
        InvalidArgument: for a name twice, or one that readers would skip as the name of a folder.
    """
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise InvalidType(
            f"`partition_by` must be the names of columns, got {value!r}", hint="pass partition_by=['dt'], for example"
        )
    if len(set(names)) < len(names):
        raise InvalidArgument(f"`partition_by` names a column twice: {value!r}", hint="name each column once")
    for name in names:
        if not name or name[0] in "_.":
            raise InvalidArgument(
                f"`partition_by` must not name {name!r}, since readers skip folders whose names begin with '_' or '.'",
                hint="rename the column",
            )
    return tuple(names)


def check_columns(names: Sequence[str], schema: pa.Schema, label: str) -> None:
    """Raise `InvalidArgument` unless rows can be partitioned by some of their columns."""
    present = set(schema.names)
    for name in names:
        if name not in present:
            raise InvalidArgument(
                f"{label!r} has partition_by={list(names)}, but its rows have no column {name!r}",
                hint=f"the columns are {', '.join(schema.names)}",
            )
        if not _has_texts(schema.field(name).type):
            raise InvalidArgument(
                f"{label!r} cannot be partitioned by {name!r}, which is {schema.field(name).type}",
                hint="add a column of text, whole numbers, dates or booleans to the rows, and partition by that",
            )
    if names and len(names) == len(schema):
        raise InvalidArgument(
            f"{label!r} is partitioned by all of its columns, {', '.join(names)}, so its files would have none",
            hint="leave one of them out of `partition_by`",
        )


def check_same_types(names: Sequence[str], schemas: Sequence[pa.Schema], label: str) -> None:
    """Raise `SinkError` if tasks have inferred different types for a column, and so written different names."""
    for name in names:
        types = {str(schema.field(name).type) for schema in schemas} - {"null"}
        if len(types) > 1:
            raise SinkError(
                f"{label!r} is partitioned by {name!r}, which is {' and '.join(sorted(types))} in different rows",
                hint="pass schema=pa.schema({…}), or declare the columns with .with_output_types(…)",
            )


def misfits(names: Sequence[str], batch: pa.RecordBatch) -> Mapping[int, str]:
    """Return by index why rows can be in no folder: a value would be read as another one, or its name is too long."""
    reasons: dict[int, str] = {}
    for name in names:
        encoded = _texts(batch.column(name)).dictionary_encode()
        bad = {
            code: reason
            for code, text in enumerate(encoded.dictionary.to_pylist())
            if (reason := _problem(name, text)) is not None
        }
        if bad:
            codes = encoded.indices.to_pylist()
            reasons |= {index: bad[code] for index, code in enumerate(codes) if code in bad}
    return reasons


class PartitionedWriter:
    """Writes rows to a file for each combination of values, of which only some are open at a time.

    Attributes:
        files: the names of the files that were begun, each with its folder.
    """

    def __init__(
        self,
        create: Callable[[Path, pa.Schema], Any],
        directory: Path,
        name: Callable[[int], str],
        names: Sequence[str],
        schema: pa.Schema,
        max_open: int,
    ) -> None:
        """Write no file yet.

        Args:
            create: creates the writer of one file.
            directory: where the files are.
            name: returns the name of a file by its number.
            names: the columns to partition by, which the files do not have.
            schema: all columns.
            max_open: how many files may be open; beyond it, that of the folder not written to for longest is closed.
        """
        self.files: list[tuple[str, str]] = []
        self._create, self._directory, self._name = create, directory, name
        self._names, self._max_open = list(names), max_open
        self._schema = pa.schema([field for field in schema if field.name not in self._names])
        self._open: collections.OrderedDict[str, Any] = collections.OrderedDict()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write each row to the file of its folder."""
        rows = batch.select(self._schema.names)
        for folder, indices in self._by_folder(batch):
            self._writer(folder).write_batch(rows if len(indices) == rows.num_rows else rows.take(indices))

    def close(self) -> None:
        """Close the files that are open."""
        while self._open:
            self._open.popitem()[1].close()

    def _writer(self, folder: str) -> Any:
        writer = self._open.get(folder)
        if writer is None:
            if len(self._open) >= self._max_open:
                self._open.popitem(last=False)[1].close()
            name = self._name(len(self.files))
            self.files.append((name, folder))
            writer = self._open[folder] = self._create(self._directory / name, self._schema)
        self._open.move_to_end(folder)
        return writer

    def _by_folder(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.Array]]:
        """Yield the folders with the indices of their rows, in order."""
        columns = {str(at): _texts(batch.column(name)) for at, name in enumerate(self._names)}
        table = pa.table({**columns, "index": pa.array(range(batch.num_rows), pa.int64())})
        groups = table.group_by(list(columns), use_threads=False).aggregate([("index", "list")])
        indices = groups["index_list"].combine_chunks()
        for at, texts in enumerate(zip(*(groups[name].to_pylist() for name in columns), strict=True)):
            yield "/".join(map(folder_name, self._names, texts)), indices[at].values


def _escaped(text: str) -> str:
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def _problem(column: str, text: str | None) -> str | None:
    if text == "":
        return f"column {column!r} is empty text, and a folder of that name would be read as null"
    if text == NULL:
        return f"column {column!r} holds {NULL!r}, and a folder of that name means null"
    if text is not None and len(folder_name(column, text).encode()) > _LONGEST:
        return f"column {column!r} holds {shown(text)}, which is too long for the name of a folder"
    return None


def _has_texts(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _has_texts(kind.value_type)
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_integer, pa.types.is_boolean, pa.types.is_date)
    return pa.types.is_null(kind) or any(test(kind) for test in tests)


def _texts(column: pa.Array) -> pa.Array:
    """Return the values of a column as text."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return (column.cast(pa.date32()) if pa.types.is_date64(column.type) else column).cast(pa.string())
