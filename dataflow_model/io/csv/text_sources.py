"""CSV files, JSON lines and text as sources. Types are fixed once; a row that does not fit them is a bad row."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import re
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, SourceError, shown
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.csv_parsing import bad_rows, parser, problem_of_row
from dataflow_model.io.csv.inference import csv_schema
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.text.lines_of_rows import LinesOfRows, inferred
from dataflow_model.io.text.parsing import parse_rows
from dataflow_model.io.text.row_texts import TextFormat, split
from dataflow_model.io.text.unpacking import (
    as_in_file,
    blocks,
    checked_encoding,
    problem_of_encoding,
    suffix_of_content,
)
from dataflow_model.overriding import override
from dataflow_model.plan.columns.source_columns import BAD_FIELD, bad_column_index

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dataflow_model.io.text.row_texts import RowTexts
    from dataflow_model.plan.columns.source_columns import BadRow

LINES: Final = pa.schema({"line": pa.string()})
"""The only column of text files."""

_GIVE: Final = (
    "pass schema=pa.schema({…}) to set the columns and their types; skip_rows=1, for example, if lines are above the "
    "header"
)
_SEPARATOR: Final = re.compile(rb'(?:\xef\xbb\xbf)?"?sep=([ -!#-~\t])"?(?:[\r\n]|\Z)')
_THOUSANDS: Final = re.compile(
    r" is (?:u?int|float|double|decimal)\S* and cannot hold '[+-]?\d{1,3}(?:([,.' ])\d{3})+\b"
)

_WITHOUT_OFFSET: Final = re.compile(
    r" is timestamp\[\w+, tz=\S+\] and cannot hold '\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?'"
)


@attrs.frozen(kw_only=True)
class CsvSource(LinesOfRows):
    """Rows of CSV files.

    Attributes:
        options: how the files are written.
    """

    options: CsvOptions = attrs.field(factory=CsvOptions)
    kind: ClassVar[str] = "CSV"

    def form_of(self, version: FileVersion) -> TextFormat:
        """Return the format, in which a row ends at a line break outside of quotes."""
        return options_of(version, self.options).text_format()

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
        version = FileVersion.of(path)
        names = []
        with contextlib.suppress(SourceError, InvalidArgument):  # whoever reads the rows reports it
            names = _names(version, options_of(version, self.options))
        return pa.schema([field for field in folders if field.name in names])

    def file_schema(self, path: str) -> pa.Schema | None:
        """Infer the types from the first 16,384 rows.

        Time columns are instants where the options say how these are written. One value in the sample that is not an
        instant would otherwise make the whole column text, and text is read without the options; so are the numbers
        that times such as 20130101 look like.
        """
        sampler = CsvSource(paths=path, event_time=None, options=self.options, line_timeout=self.line_timeout)
        schema = _csv_schema(FileVersion.of(path), sampler)
        if schema is not None:
            for name, _ in self._unread_times(schema):
                index = schema.get_field_index(name)
                schema = schema.set(index, pa.field(name, pa.timestamp("us")))
        return schema

    @override
    def zone_text(self, schema: pa.Schema) -> str:
        zone = self.options.zone
        return super().zone_text(schema) if zone is None else f"times without an offset are in {zone}"

    def advice(self, bad: BadRow) -> str:
        """Return which option helps with a bad row: `thousands`, `zone`, or `timestamp_formats` for times as text."""
        separated = _THOUSANDS.search(bad.reason)
        if separated is not None and self.options.thousands is None:
            return f"pass thousands={separated[1]!r} if it separates thousands; otherwise "
        if self.options.zone is None and _WITHOUT_OFFSET.search(bad.reason) is not None:
            return "pass zone='UTC', or the zone of times that are written without an offset; otherwise "
        schema = self.schema()
        texts = [name for name in self._times() if pa.types.is_string(schema.field(name).type)]
        if not any(f"column {name!r} holds" in bad.reason for name in texts):
            return super().advice(bad)
        return "pass timestamp_formats=['%d.%m.%Y %H:%M'], for example, if the file has times of this form; otherwise "

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
        """Raise `SourceError` if the header has other names than expected, and the file is not to be set aside.

        An empty file has no header.
        """
        if self.sets_aside:
            return
        version = FileVersion.of(path)
        names = _names(version, options_of(version, self.options))
        if names and sorted(names) != sorted(expected.names):
            raise SourceError(
                f"{path} must have the columns {', '.join(expected.names)}, got {', '.join(names)}",
                hint="read files with other columns separately and merge the collections with dm.Flatten(), or go on "
                "without the file: .with_exception_handling() sends it to a separate output",
            )

    def problem_of_file(self, version: FileVersion) -> str | None:
        """Return what is wrong with the header."""
        try:
            attrs.evolve(self, sets_aside=False).check_file(version.path, self.expected_in(version.path))
        except (SourceError, InvalidArgument) as error:
            return str(error).splitlines()[0]
        return None

    def parsed(self, path: str, columns: pa.Schema, parts: Iterable[RowTexts]) -> Iterator[pa.RecordBatch]:
        """Parse rows below the header."""
        version = FileVersion.of(path)
        options = options_of(version, self.options)
        names = _names(version, options)
        present = set(names)
        missing = [name for name in columns.names if name not in present]
        if missing and names:
            raise SourceError(
                f"{path} has no column {missing[0]!r}; its columns are {', '.join(names)}",
                hint="every file must have the columns of the schema; pass schema= with those that all files have",
            )
        keeps_zeros = self.given is None or self.is_inferred  # a column that is stated holds what its type says
        parse = parser(names, columns, options, keeps_zeros=keeps_zeros)

        def explain(data: bytes, problem: str) -> str:
            return problem_of_row(data, names, columns, options, problem, keeps_zeros=keeps_zeros)

        def find(texts: RowTexts) -> Mapping[int, str]:
            return bad_rows(texts, names, columns, options)

        for texts in parts:
            yield from parse_rows(texts, parse, columns, explain, find)


@attrs.frozen(kw_only=True)
class TextSource(LinesOfRows):
    """Lines of text files, the empty ones too, without their line ends: rows with one column, `line`.

    Attributes:
        encoding: of the files.
        skipped: the number of lines at the beginning of each file that are no elements.
    """

    encoding: str = attrs.field(default="utf-8", converter=checked_encoding)
    skipped: int = 0
    kind: ClassVar[str] = "text"

    def form_of(self, version: FileVersion) -> TextFormat:
        """Return the format, in which each line is a row."""
        del version
        return TextFormat(self.encoding, keeps_blank=True, skipped=self.skipped)

    def file_schema(self, path: str) -> pa.Schema:
        """Return the only column."""
        del path
        return LINES

    def parsed(self, path: str, columns: pa.Schema, parts: Iterable[RowTexts]) -> Iterator[pa.RecordBatch]:
        """Decode lines."""
        del path

        def parse(data: bytes) -> pa.Table:
            *lines, last = data.split(b"\n")
            lines = [line.removesuffix(b"\r") for line in lines]
            if last:  # a file may end without a line end
                lines.append(last)
            return pa.table([pa.array(lines, pa.binary()).cast(pa.string())], schema=LINES)

        def explain(data: bytes, problem: str) -> str:
            del data, problem
            return f"it is {problem_of_encoding(self.encoding)}"

        for texts in parts:
            for batch in parse_rows(texts, parse, LINES, explain):
                bad = bad_column_index(batch.schema)
                yield batch.select([*columns.names, *([] if bad is None else [BAD_FIELD.name])])


@functools.lru_cache(maxsize=256)
def _csv_schema(version: FileVersion, source: CsvSource) -> pa.Schema | None:
    options = options_of(version, source.options)
    names, sample = _names(version, options), source.sample(version)
    if not sample:
        return None
    return inferred(version, lambda: csv_schema(b"".join(sample), names, options), _GIVE)


@functools.lru_cache(maxsize=4096)
def options_of(version: FileVersion, options: CsvOptions) -> CsvOptions:
    """Return the options for a file; a first line such as `sep=;`, which Excel writes, names the delimiter."""
    with contextlib.closing(blocks(version, options.encoding, 0)) as parts:
        match = _SEPARATOR.match(next(parts, b""))
    if match is None:
        return options
    return attrs.evolve(options, delimiter=match[1].decode(), skip_rows=max(options.skip_rows, 1))


@functools.lru_cache(maxsize=4096)
def _names(version: FileVersion, options: CsvOptions) -> list[str]:
    """Return the names of a file's columns; an empty file has none."""
    if options.names is not None:
        return list(options.names)
    with contextlib.closing(split(version, options.text_format())) as parts:
        first = next(parts, None)
    if first is None:
        return []
    if first.problem():
        raise SourceError(
            f"the header of {version.path} is too long: {first.problem()}",
            hint="check that the file is text with one row per line",
        )
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
    limit = csv.field_size_limit(max(len(text), csv.field_size_limit()))  # of the whole process
    try:
        if options.quote is None:
            header = next(csv.reader(lines, delimiter=options.delimiter, quoting=csv.QUOTE_NONE))
        else:
            header = next(csv.reader(lines, delimiter=options.delimiter, quotechar=options.quote))
    finally:
        csv.field_size_limit(limit)
    return options.renamed(header)
