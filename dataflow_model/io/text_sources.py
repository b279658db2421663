"""CSV files and JSON lines as sources: types are fixed once, a row that does not have them is a bad row."""

from __future__ import annotations

import csv
import functools
from typing import TYPE_CHECKING, ClassVar

import attrs
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from dataflow_model.errors import SourceError
from dataflow_model.io.file_source import FileSource, FileVersion
from dataflow_model.io.inference import check_depth, csv_schema, json_schema
from dataflow_model.io.lines import count_appended_lines, line_index, parse_lines, read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CsvSource", "JsonSource"]

_SAMPLE_LINES = 16_384
_GIVE = "pass schema=pa.schema({…}) to set the columns and their types"


@attrs.frozen(kw_only=True)
class CsvSource(FileSource):
    """Rows of CSV files with a header each. A quoted value may hold commas, but no line break."""

    kind: ClassVar[str] = "CSV"
    grows: ClassVar[bool] = True

    def file_schema(self, path: str) -> pa.Schema:
        """Infer the types from the first 16,384 rows."""
        return _inferred(FileVersion.of(path), csv_schema, 1)

    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Compare the header's names."""
        found = _header(FileVersion.of(path))
        if set(found) != set(expected.names) or len(found) != len(expected.names):
            raise SourceError(
                f"{path} must have the columns {', '.join(expected.names)}, got {', '.join(found)}",
                hint="read files with other columns separately, and merge the collections with dm.Flatten()",
            )

    def count_rows(self, version: FileVersion) -> int:
        """Count the lines but the header."""
        return max(line_index(version).lines - 1, 0)

    def count_appended(self, version: FileVersion, start: int) -> int:
        """Count the lines that were appended."""
        return count_appended_lines(version, start)

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Find the lines by the index and parse them."""
        version = FileVersion.of(path)
        index, names = line_index(version), _header(version)
        missing = [name for name in columns.names if name not in names]
        if missing:
            raise SourceError(f"{path} has no column {missing[0]!r}; its columns are {', '.join(names)}")
        convert = pa_csv.ConvertOptions(
            column_types={field.name: field.type for field in columns}, include_columns=columns.names
        )

        def parse(data: bytes) -> pa.Table:
            options = pa_csv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names)
            return pa_csv.read_csv(pa.BufferReader(data), read_options=options, convert_options=convert)

        last = index.lines if stop is None else stop + 1
        for lines in read_lines(path, index, start + 1, last):
            yield from parse_lines(lines, parse, columns)


@attrs.frozen(kw_only=True)
class JsonSource(FileSource):
    """Rows of files with one JSON object a line. A missing field is null, an unknown one is passed over."""

    kind: ClassVar[str] = "JSON"
    grows: ClassVar[bool] = True

    def file_schema(self, path: str) -> pa.Schema:
        """Infer names and types from the first 16,384 rows."""
        return _inferred(FileVersion.of(path), json_schema, 0)

    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Do nothing: each line brings its own fields."""

    def count_rows(self, version: FileVersion) -> int:
        """Count the lines."""
        return line_index(version).lines

    def count_appended(self, version: FileVersion, start: int) -> int:
        """Count the lines that were appended."""
        return count_appended_lines(version, start)

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Find the lines by the index and parse them."""
        index = line_index(FileVersion.of(path))
        parsing = pa_json.ParseOptions(explicit_schema=columns, unexpected_field_behavior="ignore")

        def parse(data: bytes) -> pa.Table:
            check_depth(data)
            options = pa_json.ReadOptions(use_threads=False, block_size=len(data) + 1)
            return pa_json.read_json(pa.BufferReader(data), read_options=options, parse_options=parsing)

        for lines in read_lines(path, index, start, index.lines if stop is None else stop):
            yield from parse_lines(lines, parse, columns)


def _inferred(version: FileVersion, infer: Callable[[bytes], pa.Schema], headers: int) -> pa.Schema:
    """Infer a schema from a file's first lines: instants to the microsecond, text where nothing is known."""
    return _infer(version, infer, headers)


@functools.lru_cache(maxsize=256)
def _infer(version: FileVersion, infer: Callable[[bytes], pa.Schema], headers: int) -> pa.Schema:
    index = line_index(version)
    if index.lines < 1 + headers:
        raise SourceError(f"{version.path} has no rows, so its columns are not known", hint=_GIVE)
    sample = b"".join(next(read_lines(version.path, index, 0, _SAMPLE_LINES)))
    try:
        found = infer(sample)
    except pa.ArrowException as error:
        problem = str(error).splitlines()[0]
        raise SourceError(f"the columns of {version.path} cannot be inferred: {problem}", hint=_GIVE) from error
    return pa.schema([pa.field(field.name, _settled(field.type)) for field in found])


def _settled(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us", kind.tz)
    return pa.string() if pa.types.is_null(kind) else kind


@functools.lru_cache(maxsize=4096)
def _header(version: FileVersion) -> list[str]:
    first = next(read_lines(version.path, line_index(version), 0, 1), None)
    if first is None:
        raise SourceError(
            f"{version.path} is empty: it has no header", hint="write the names of the columns in its first line"
        )
    return next(csv.reader([first[0].decode("utf-8-sig", "backslashreplace")]))
