"""CSV files, JSON lines and text as sources. Types are fixed once; a row that does not fit them is a bad row."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, SourceError, shown
from dataflow_model.io.csv_options import CsvOptions
from dataflow_model.io.csv_parsing import parser, problem_of_row
from dataflow_model.io.file_identity import FileVersion
from dataflow_model.io.file_source import BATCH_ROWS, FileSource
from dataflow_model.io.inference import csv_schema, json_schema
from dataflow_model.io.json_parsing import parse_lines, problem_of_line
from dataflow_model.io.parsing import parse_rows
from dataflow_model.io.row_texts import TextFormat, count_appended, read_rows, row_index, split
from dataflow_model.io.unpacking import as_in_file, checked_encoding, problem_of_encoding, suffix_of_content
from dataflow_model.plan.columns import BAD_FIELD, bad_place
from dataflow_model.plan.sources import unreadable_row, way_out_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.io.row_texts import RowTexts
    from dataflow_model.plan.columns import BadRow

__all__ = ["LINES", "CsvSource", "JsonSource", "LinesOfRows", "TextSource"]

LINES: Final = pa.schema({"line": pa.string()})
"""The only column of text files."""

_SAMPLE_ROWS: Final = 16_384
_GIVE: Final = "pass schema=pa.schema({…}) to set the columns and their types"
_ONE_A_LINE: Final = (
    "write one JSON object on each line, as `jq -c .` does, and `jq -c '.[]'` for the objects of an array"
)


class LinesOfRows(FileSource):
    """Text files in which a row is a line, or several lines if quoted values contain line breaks."""

    grows: ClassVar[bool] = True

    @property
    def form(self) -> TextFormat:
        """How the rows of a file are separated."""
        return TextFormat()

    @property
    def headers(self) -> int:
        """The number of header rows at the beginning of a file."""
        return 0

    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Do nothing: a row that does not fit is a bad row."""

    def count_rows(self, version: FileVersion) -> int:
        """Count the rows below the header."""
        return max(row_index(version, self.form).count - self.headers, 0)

    def count_appended(self, version: FileVersion, size: int, rows: int) -> int:
        """Count the rows that were appended."""
        return count_appended(version, self.form, size, rows + self.headers)

    def row_texts(self, path: str, start: int, stop: int | None) -> Iterator[RowTexts]:
        """Yield the texts of rows `[start, stop)` below the header, with at most the rows of a batch at a time."""
        last = None if stop is None else stop + self.headers
        for texts in read_rows(FileVersion.of(path), self.form, start + self.headers, last):
            for low in range(0, len(texts), BATCH_ROWS):
                yield texts.part(low, low + BATCH_ROWS)


@attrs.frozen(kw_only=True)
class CsvSource(LinesOfRows):
    """Rows of CSV files.

    Attributes:
        options: how the files are written.
    """

    options: CsvOptions = attrs.field(factory=CsvOptions)
    kind: ClassVar[str] = "CSV"

    @property
    def form(self) -> TextFormat:
        """A row ends at a line break outside of quotes."""
        return self.options.text_format()

    @property
    def headers(self) -> int:
        """One, unless the names are given."""
        return self.options.headers

    def full_schema(self) -> pa.Schema:
        """Return all columns' names and types; those that are written as local time are instants.

        Raises:
            InvalidArgument: if the given schema has a type for a time column to which the options do not apply.
        """
        schema = super().full_schema()
        for name, option in self._unread_times(schema):
            kind = schema.field(name).type
            raise InvalidArgument(
                f"`{option}` does not apply to the time column {name!r}, which is {kind} in `schema`",
                hint=f"declare it as an instant: pa.field({name!r}, pa.timestamp('us'))",
            )
        return self.options.with_zone(schema)

    @property
    def contents(self) -> str:
        """What `explain()` calls the source, with the zone of times without an offset."""
        files = super().contents
        return files if self.options.zone is None else f"{files} with local times of {self.options.zone}"

    def own_columns(self, path: str, folders: pa.Schema) -> pa.Schema:
        """Return the columns that the header also names."""
        names = _names(FileVersion.of(path), self.options)
        return pa.schema([field for field in folders if field.name in names])

    def file_schema(self, path: str) -> pa.Schema | None:
        """Infer the types from the first 16,384 rows.

        Time columns are instants where the options say how these are written. One value in the sample that is not an
        instant would otherwise make the whole column text, and text is read without the options; so are the numbers
        that times such as 20130101 look like.
        """
        schema = _csv_schema(FileVersion.of(path), self.options)
        if schema is not None:
            for name, _ in self._unread_times(schema):
                place = schema.get_field_index(name)
                schema = schema.set(place, pa.field(name, pa.timestamp("us")))
        return schema

    def refusal(self, label: str, origin: str, start: int, bad: BadRow) -> SourceError:
        """Return the error that stops a run; for a time column of text it names `timestamp_formats`."""
        schema = self.schema()
        texts = [name for name in self._times() if pa.types.is_string(schema.field(name).type)]
        if not any(f"column {name!r} holds" in bad.reason for name in texts):
            return super().refusal(label, origin, start, bad)
        return unreadable_row(
            f"{label!r} cannot read row {start + bad.index} of {origin}",
            bad,
            "pass timestamp_formats=['%d.%m.%Y %H:%M'], for example, if the file has times of this form; otherwise "
            f"{way_out_for(self)}",
        )

    def _times(self) -> list[str]:
        return [name for name in (self.event_time, self.processing_time) if isinstance(name, str)]

    def _check_columns(self, schema: pa.Schema) -> None:
        if len(schema) == 1 and any(name not in schema.names for name in self._times()):
            [only] = schema.names
            other = next((mark for mark in ";\t|," if mark in only and mark != self.options.delimiter), None)
            if other is not None:
                raise InvalidArgument(
                    f"the files have a single column, {only!r}, when {self.options.delimiter!r} separates the values",
                    hint=f"pass delimiter={other!r}",
                )
        super()._check_columns(schema)
        local = self.options.local_times
        if local is not None and local.column is not None and local.column not in schema.names:
            raise InvalidArgument(
                f"`ambiguous` must be 'bad row', 'earlier', 'later' or the name of a column, got {local.column!r}",
                hint='pass ambiguous="earlier", for example, or a column that holds the offset from UTC, or 0 for the '
                f"earlier and 1 for the later time; the columns are {', '.join(schema.names)}",
            )

    def _unread_times(self, schema: pa.Schema) -> Iterator[tuple[str, str]]:
        """Yield each time column of a type to which an option on timestamps does not apply, and that option."""
        for name in self._times():
            if name in schema.names:
                kind = schema.field(name).type
                formats = self.options.time_formats
                is_micros = pa.types.is_integer(kind) and not any(form.is_number for form in formats)
                if self.options.zone is not None and (pa.types.is_string(kind) or pa.types.is_date(kind)):
                    yield name, "zone"
                elif formats and not pa.types.is_timestamp(kind) and not is_micros:
                    yield name, "timestamp_formats"

    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Raise `SourceError` if the header has other names than expected; an empty file has no header."""
        names = _names(FileVersion.of(path), self.options)
        if names and sorted(names) != sorted(expected.names):
            raise SourceError(
                f"{path} must have the columns {', '.join(expected.names)}, got {', '.join(names)}",
                hint="read files with other columns separately, and merge the collections with dm.Flatten()",
            )

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Find the rows by the index and parse them."""
        options = self.options
        names = _names(FileVersion.of(path), options)
        missing = [name for name in columns.names if name not in names]
        if missing and names:
            raise SourceError(
                f"{path} has no column {missing[0]!r}; its columns are {', '.join(names)}",
                hint="every file must have the columns of the schema; pass schema= with those that all files have",
            )
        parse = parser(names, columns, options)

        def explain(data: bytes, problem: str) -> str:
            return problem_of_row(data, names, columns, options, problem)

        for texts in self.row_texts(path, start, stop):
            yield from parse_rows(texts, parse, columns, explain)


@attrs.frozen(kw_only=True)
class JsonSource(LinesOfRows):
    """Rows of files with one JSON object a line. A missing field is null, an unknown one is ignored."""

    kind: ClassVar[str] = "JSON"

    def own_columns(self, path: str, folders: pa.Schema) -> pa.Schema:
        """Return all of the columns: a missing field is null, which says nothing else than the folder."""
        del path
        return folders

    def file_schema(self, path: str) -> pa.Schema | None:
        """Infer names and types from the first 16,384 rows."""
        return _json_schema(FileVersion.of(path), self.form)

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Find the lines by the index and parse them."""

        def parse(data: bytes) -> pa.Table:
            return parse_lines(data, columns)

        def explain(data: bytes, problem: str) -> str:
            return problem_of_line(data, columns, problem)

        for texts in self.row_texts(path, start, stop):
            yield from parse_rows(texts, parse, columns, explain)


@attrs.frozen(kw_only=True)
class TextSource(LinesOfRows):
    """Lines of text files, the empty ones too, without their line ends: rows with one column, `line`.

    Attributes:
        encoding: of the files.
    """

    encoding: str = attrs.field(default="utf-8", converter=checked_encoding)
    kind: ClassVar[str] = "text"

    @property
    def form(self) -> TextFormat:
        """Each line is a row."""
        return TextFormat(self.encoding, keeps_blank=True)

    def file_schema(self, path: str) -> pa.Schema:
        """Return the only column."""
        del path
        return LINES

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Find the lines by the index."""

        def parse(data: bytes) -> pa.Table:
            lines = [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]
            return pa.table([pa.array(lines, pa.binary()).cast(pa.string())], schema=LINES)

        def explain(data: bytes, problem: str) -> str:
            del data, problem
            return f"it is {problem_of_encoding(self.encoding)}"

        for texts in self.row_texts(path, start, stop):
            for batch in parse_rows(texts, parse, LINES, explain):
                bad = bad_place(batch.schema)
                yield batch.select([*columns.names, *([] if bad is None else [BAD_FIELD.name])])


@functools.lru_cache(maxsize=256)
def _csv_schema(version: FileVersion, options: CsvOptions) -> pa.Schema | None:
    form, names = options.text_format(), _names(version, options)
    sample = _sample(version, form, options.headers)
    if sample is None:
        return None
    return _inferred(version, lambda: csv_schema(sample, names, options), _GIVE)


@functools.lru_cache(maxsize=256)
def _json_schema(version: FileVersion, form: TextFormat) -> pa.Schema | None:
    sample = _sample(version, form, 0)
    return None if sample is None else _inferred(version, lambda: json_schema(sample), _ONE_A_LINE)


def _sample(version: FileVersion, form: TextFormat, headers: int) -> bytes | None:
    """Return the text of a file's first rows; `None` if it has no rows."""
    rows: list[bytes] = []
    with contextlib.closing(split(version, form)) as parts:
        for texts in parts:
            head = texts.part(headers if not rows else 0, _SAMPLE_ROWS)
            good = set(range(len(head))).difference(head.unclosed)
            rows.extend(_line(head.text(place, place + 1)) for place in sorted(good))
            if len(rows) >= _SAMPLE_ROWS:
                break
    return b"".join(rows[:_SAMPLE_ROWS]) or None


def _line(text: bytes) -> bytes:
    return text if text.endswith((b"\n", b"\r")) else text + b"\n"


def _inferred(version: FileVersion, infer: Callable[[], pa.Schema], hint: str) -> pa.Schema:
    """Infer a schema: instants no coarser than microseconds, and text if the type is unknown."""
    try:
        schema = infer()
    except (pa.ArrowException, ValueError) as error:
        problem = str(error).splitlines()[0]
        raise SourceError(f"the columns of {version.path} cannot be inferred: {problem}", hint=hint) from error
    return pa.schema([pa.field(field.name, _settled(field.type)) for field in schema])


def _settled(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
    # Arrow reads text that is not UTF-8 as bytes; such rows are bad rows of text.
    return pa.string() if pa.types.is_null(kind) or pa.types.is_binary(kind) else kind


@functools.lru_cache(maxsize=4096)
def _names(version: FileVersion, options: CsvOptions) -> list[str]:
    """Return the names of a file's columns; an empty file has none."""
    if options.names is not None:
        return list(options.names)
    with contextlib.closing(split(version, options.text_format())) as parts:
        first = next(parts, None)
    if first is None:
        return []
    if 0 in first.unclosed:
        raise SourceError(
            f"the header of {version.path} has a quote that is not closed",
            hint="fix the header, or pass quote=None if quotes are ordinary characters",
        )
    try:
        text = first.text(0, 1).decode()
    except UnicodeDecodeError as error:
        suffix = suffix_of_content(first.text(0, 1))
        raise SourceError(
            f"the header of {version.path} is not in {options.encoding.upper()}: {shown(as_in_file(first.text(0, 1)))}",
            hint="pass the file's encoding, such as encoding='cp1252' or encoding='utf-16'"
            if suffix is None
            else f"the file seems to be compressed; give it a name that ends in {suffix}",
        ) from error
    lines = io.StringIO(text.rstrip("\r\n"), newline="")
    if options.quote is None:
        header = next(csv.reader(lines, delimiter=options.delimiter, quoting=csv.QUOTE_NONE))
    else:
        header = next(csv.reader(lines, delimiter=options.delimiter, quotechar=options.quote))
    return options.renamed(header)
