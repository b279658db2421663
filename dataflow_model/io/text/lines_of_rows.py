"""What sources of text files have in common: rows that are lines, and types that are inferred from the first ones."""

from __future__ import annotations

import abc
import contextlib
from typing import TYPE_CHECKING, ClassVar, Final, Self

import attrs
import pyarrow as pa

from dataflow_model.errors import SourceError
from dataflow_model.io.files.file_source import BATCH_ROWS, HEAD_ROWS, FileSource
from dataflow_model.io.files.files_at_fault import lost_rows
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.listing.paths import file_below
from dataflow_model.io.text.line_numbers import line_of_row
from dataflow_model.io.text.row_texts import TOO_LONG, TextFormat, count_appended, read_rows, row_index, split
from dataflow_model.io.text.unpacking import is_compressed
from dataflow_model.time import Duration

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator

    from dataflow_model.io.text.row_texts import RowTexts
    from dataflow_model.plan.columns.source_columns import BadRow

_SAMPLE_ROWS: Final = 16_384
_SAMPLE_BYTES: Final = 1 << 25


@attrs.frozen(kw_only=True)
class LinesOfRows(FileSource):
    """Text files in which a row is a line, or several lines if quoted values contain line breaks.

    Attributes:
        line_timeout: how long a file must be unchanged for a last line without an end to be a row, in a stream that
            follows it; `None` to wait for the end in any case.
    """

    line_timeout: Duration | None = Duration(0)
    grows: ClassVar[bool] = True

    def form_of(self, version: FileVersion) -> TextFormat:
        """Return how the rows of a file are separated."""
        del version
        return TextFormat()

    @property
    def headers(self) -> int:
        """The number of header rows at the beginning of a file."""
        return 0

    def problem_of_file(self, version: FileVersion) -> str | None:
        """Return why no row of a file can be read; `None` if it is not known that this is so."""
        del version
        return None

    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Do nothing: a row that does not fit is a bad row."""

    def count_rows(self, version: FileVersion) -> int:
        """Count the rows below the header."""
        return max(row_index(version, self.form_of(version)).count - self.headers, 0)

    def count_appended(self, version: FileVersion, size: int, rows: int) -> int:
        """Count the rows that were appended."""
        return count_appended(version, self.form_of(version), size, rows + self.headers)

    @property
    def timeout(self) -> Duration | None:
        """How long a last line without an end is waited for."""
        return self.line_timeout

    def drained(self) -> Self:
        """Return the source with a last line without an end as a row."""
        return attrs.evolve(self, line_timeout=Duration(0))

    def count_unfinished(self, version: FileVersion) -> int:
        """Return how many rows may go on in what is appended: a last line without an end, or all from an open quote."""
        if not self.grows or is_compressed(version.path):
            return 0
        index = row_index(version, self.form_of(version))
        return index.count - index.complete

    def is_begun(self, version: FileVersion) -> bool:
        """Return whether the header, and a row if the types are inferred from it, are finished."""
        if not self.grows or is_compressed(version.path):
            return True
        needed = self.headers + (self.given is None)
        return row_index(version, self.form_of(version)).complete >= needed

    def where(self, origin: str, row: int) -> str:
        """Return the line on which a row begins, or the row's number if the file cannot be read any more."""
        try:
            return f"line {self.line_of(FileVersion.of(file_below(self.paths, origin)), row)}"
        except (OSError, SourceError, ValueError, StopIteration):
            return f"row {row}"

    def line_of(self, version: FileVersion, row: int) -> int:
        """Return the line on which a row begins, from 1."""
        return line_of_row(version, self.form_of(version), row + self.headers)

    def advice(self, bad: BadRow) -> str:
        """Return what to do about a row that is too long."""
        return "check that the file is text with one row on each line; otherwise " if TOO_LONG in bad.reason else ""

    @abc.abstractmethod
    def parsed(self, path: str, columns: pa.Schema, parts: Iterable[RowTexts]) -> Iterator[pa.RecordBatch]:
        """Parse the named columns of rows of a file."""

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Find the rows by the index and parse them, unless the file is to be set aside."""
        version = FileVersion.of(path)
        problem = self.problem_of_file(version) if self.sets_aside else None
        if problem is None:
            return self.parsed(path, columns, self.row_texts(path, start, stop))
        count = self.count_rows(version)
        appended = ", nor what is appended to it" if self.follow and self.grows else ""
        reason = f"none of the {count} rows of the file can be read{appended}: {problem}"
        return lost_rows(columns, start, count if stop is None else min(stop, count), 0, path, reason)

    def read_head(self, path: str, columns: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Parse some first rows, without an index."""
        with contextlib.closing(self.all_rows(FileVersion.of(path))) as parts:
            first = next((texts for texts in parts if len(texts)), None)
            if first is not None:
                yield from self.parsed(path, columns, [first.sliced(0, min(HEAD_ROWS, len(first)))])

    def row_texts(self, path: str, start: int, stop: int | None) -> Iterator[RowTexts]:
        """Yield the texts of rows `[start, stop)` below the header, with at most the rows of a batch at a time."""
        last = None if stop is None else stop + self.headers
        version = FileVersion.of(path)
        for texts in read_rows(version, self.form_of(version), start + self.headers, last):
            for low in range(0, len(texts), BATCH_ROWS):
                yield texts.sliced(low, low + BATCH_ROWS)

    def sample(self, version: FileVersion) -> list[bytes]:
        """Return the texts of a file's first rows: at most 16,384, and no more after 32 MiB."""
        rows: list[bytes] = []
        size = 0
        with contextlib.closing(self.all_rows(version)) as parts:
            for texts in parts:
                if not texts.is_complete and self.grows and self.line_timeout != Duration(0):
                    break  # a value may be cut
                unclosed = set(range(1) if texts.omitted else texts.unclosed)
                for index in range(len(texts)):
                    text = texts.text(index, index + 1)
                    size += len(text)
                    if index not in unclosed:
                        rows.append(text if text.endswith((b"\n", b"\r")) else text + b"\n")
                    if len(rows) >= _SAMPLE_ROWS or size >= _SAMPLE_BYTES:
                        return rows
        return rows

    def all_rows(self, version: FileVersion) -> Generator[RowTexts, None, None]:
        """Yield the texts of all rows below the header, without an index."""
        headers = self.headers
        for texts in split(version, self.form_of(version)):
            yield texts.sliced(headers, len(texts))
            headers = max(headers - len(texts), 0)


def inferred(version: FileVersion, infer: Callable[[], pa.Schema], hint: str) -> pa.Schema:
    """Infer a schema: instants no coarser than microseconds, and text if the type is unknown.

    Raises:
        SourceError: with the hint, if it cannot be inferred.
    """
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
