"""Parquet files as a source: only the row groups and columns that a range needs are read."""

from __future__ import annotations

import collections
import functools
import itertools
import os
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from dataflow_model.errors import SourceError
from dataflow_model.io.files.file_source import BATCH_ROWS, FileSource
from dataflow_model.io.files.files_at_fault import lost_rows
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.parquet.parquet_rows import fitted_rows
from dataflow_model.io.parquet.parquet_types import can_hold, settled, widened
from dataflow_model.plan.columns.nested import without_views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.plan.columns.source_columns import BadRow

_HINT: Final = (
    "rewrite or remove the file; rename a file into place only when it is completely written; "
    "names that begin with '_' or '.' are skipped; .with_exception_handling() goes on without the file"
)
_OTHER_TYPES: Final = (
    "pass schema= with types and columns that suit all files, or go on without the file: .with_exception_handling() "
    "sends it to a separate output"
)
_FILES_COMPARED: Final = 100
"""How many files take part in the decision on the types: enough for those of a folder, few enough to open at once."""


@attrs.frozen(eq=False)
class _Footer:
    """What the footer of a file says; some writers leave the number of rows out of all but the row groups."""

    metadata: pq.FileMetaData
    schema: pa.Schema
    group_rows: list[int]
    int96: frozenset[str]

    @functools.cached_property
    def rows(self) -> int:
        """The number of rows."""
        return sum(self.group_rows)

    @functools.cached_property
    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns whose names are unique."""
        schema = self.schema
        types = dict(zip(schema.names, schema.types, strict=True))
        if len(types) < len(schema):
            types = {name: kind for name, kind in types.items() if schema.get_field_index(name) >= 0}
        return types

    def can_fill(self, field: pa.Field) -> bool:
        """Return whether values of a column may fit its type; INT96 holds instants in UTC, without saying so."""
        kind = self.types[field.name]
        if field.name in self.int96 and pa.types.is_timestamp(field.type):
            return True
        return can_hold(field.type, kind)


@attrs.frozen(kw_only=True)
class ParquetSource(FileSource):
    """Rows of Parquet files; the footers contain the schema and the number of rows."""

    kind: ClassVar[str] = "Parquet"
    is_typed: ClassVar[bool] = True

    def file_schema(self, path: str) -> pa.Schema:
        """Return the schema in the footer, without metadata and constraints."""
        return _footer(FileVersion.of(path)).schema

    def first_schema(self, paths: Iterable[str]) -> pa.Schema:
        """Return the columns of the first file that has rows, with types that hold those of the first 100 files.

        Raises:
            SourceError: if none of the files can be read.
        """
        footers, problem = [], None
        for path in itertools.islice(paths, _FILES_COMPARED):
            try:
                footers.append(_footer(FileVersion.of(path)))
            except SourceError as error:
                if not _is_damaged(error):
                    raise
                problem = error if problem is None else problem
        if not footers and problem is not None:
            raise problem
        first, *others = sorted(footers, key=lambda footer: not (footer.rows and len(footer.schema)))
        types = {field.name: field.type for field in first.schema}
        for other in others:
            types.update((name, widened(types[name], kind)) for name, kind in other.types.items() if name in types)
        return pa.schema([field.with_type(types[field.name]) for field in first.schema])

    def full_schema(self) -> pa.Schema:
        """Return all columns' names and types; null may be anywhere in them."""
        return settled(super().full_schema())

    def check_file(self, path: str, expected: pa.Schema) -> None:
        """Raise `SourceError` if a file is unreadable or has columns of another kind, and is not to be set aside."""
        if self.sets_aside:
            return
        footer = _footer(FileVersion.of(path))
        problem = self._problem(footer, expected)
        if problem is not None:
            raise _refused(path, problem, footer.schema)

    def count_rows(self, version: FileVersion) -> int:
        """Return the number of rows in the row groups; an unreadable file that is set aside counts as one bad row."""
        try:
            return _footer(version).rows
        except SourceError as error:
            if self.sets_aside and _is_damaged(error):
                return 1
            raise

    def read_file(self, path: str, columns: pa.Schema, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Skip row groups by the footer, and slice inside them."""
        try:
            footer = _footer(FileVersion.of(path))
        except SourceError as error:
            if not (self.sets_aside and _is_damaged(error)):
                raise
            yield from lost_rows(
                columns, start, 1 if stop is None else min(stop, 1), 0, path, str(error).splitlines()[0]
            )
            return
        stop = footer.rows if stop is None else min(stop, footer.rows)
        full = self.expected_in(path)
        problem = self._problem(footer, full)
        if problem is not None:
            if not self.sets_aside:
                raise _refused(path, problem, footer.schema)
            reason = f"none of the {footer.rows} rows of the file can be read: {problem}"
            yield from lost_rows(columns, start, stop, 0, path, reason)
            return
        # A row that does not fit the types is bad even if the value that does not is not asked for.
        asked = set(columns.names)
        drifted = [field for field in full if footer.types.get(field.name, field.type) != field.type]
        checked = pa.schema([*columns, *(field for field in drifted if field.name not in asked)])
        names = [name for name in checked.names if name in footer.types]
        for at, batch in self._batches(path, footer, names, start, stop):
            if isinstance(batch, pa.RecordBatch):
                yield from fitted_rows(batch, checked, columns)
            else:
                last, problem = batch
                reason = f"rows {at} to {last - 1} of the file cannot be read: {problem}"
                yield from lost_rows(columns, at, last, at, path, reason)

    def _batches(
        self, path: str, footer: _Footer, names: list[str], start: int, stop: int
    ) -> Iterator[tuple[int, pa.RecordBatch | tuple[int, str]]]:
        """Yield batches with their first rows; in place of damaged rows, the row after them and what is wrong."""
        starts = list(itertools.accumulate(footer.group_rows, initial=0))
        groups = [
            group
            for group, rows in enumerate(footer.group_rows)
            if rows and starts[group] < stop and starts[group + 1] > start
        ]
        runs = [groups] if groups else []
        with _opened(path, footer.metadata) as file:
            while runs:
                run = runs.pop(0)
                at = starts[run[0]]
                try:
                    for batch in file.iter_batches(BATCH_ROWS, row_groups=run, columns=names, use_threads=False):
                        low, high = max(start - at, 0), min(stop - at, batch.num_rows)
                        at += batch.num_rows
                        if low < high:
                            yield at - batch.num_rows + low, batch.slice(low, high - low)
                        if at >= stop:
                            return
                except (pa.ArrowException, OSError) as error:
                    start = max(start, at)
                    if len(run) > 1:  # find the row group that is damaged; some types Arrow reads only group by group
                        runs = [[group] for group in run if starts[group + 1] > start]
                    elif self.sets_aside:
                        yield start, (min(stop, starts[run[0] + 1]), str(error))
                    else:
                        raise SourceError(f"{path} cannot be read at row {at} or after: {error}", hint=_HINT) from error

    def advice(self, bad: BadRow) -> str:
        """Return what helps where a value does not fit its column."""
        if " cannot hold " not in bad.reason:
            return super().advice(bad)
        return (
            "pass schema= with a type that holds the values of all files, such as pa.float64(), or leave the column "
            "out of it; otherwise "
        )

    def _problem(self, footer: _Footer, expected: pa.Schema) -> str | None:
        """Return why no row of a file can be read, if that is so."""
        if not footer.rows:
            return None
        types = footer.types
        for field in expected:
            if field.name in types and not footer.can_fill(field):
                return f"column {field.name!r} is {types[field.name]}, not {field.type}"
        asked = set(expected.names)
        needed = [name for name in (self.event_time, self.processing_time) if isinstance(name, str) and name in asked]
        missing = [name for name in needed if name not in types]
        if not missing and types.keys().isdisjoint(expected.names):
            missing = expected.names
        if missing:
            is_twice = missing[0] in footer.schema.names
            return f"it has {'two columns' if is_twice else 'no column'} {missing[0]!r}"
        return next((f"it has two columns {name!r}" for name in _repeated(footer.schema) if name in asked), None)


def _repeated(schema: pa.Schema) -> list[str]:
    names = schema.names
    return [name for name, times in collections.Counter(names).items() if times > 1]


def _refused(path: str, problem: str, schema: pa.Schema) -> SourceError:
    columns = ", ".join(schema.names) or "none"
    return SourceError(
        f"{path} does not have the expected schema: {problem}; its columns are {columns}", hint=_OTHER_TYPES
    )


def _is_damaged(error: SourceError) -> bool:
    """Return whether a file cannot be read because of what it holds, so that another attempt would fail too."""
    return not (isinstance(error.__cause__, OSError) and error.__cause__.errno)


def _opened(path: str, metadata: pq.FileMetaData | None = None) -> pq.ParquetFile:
    """Open a file: its rows if the footer is known.

    INT96 is read in microseconds: in nanoseconds, instants before 1677 or after 2262 would become other ones.
    """
    has_footer = metadata is not None
    return pq.ParquetFile(
        path,
        metadata=metadata,
        memory_map=has_footer,
        page_checksum_verification=has_footer,
        coerce_int96_timestamp_unit="us",
    )


@functools.lru_cache(maxsize=4096)
def _footer(version: FileVersion) -> _Footer:
    try:
        with _opened(version.path) as file:
            metadata = file.metadata
            schema = pa.schema([field.remove_metadata() for field in settled(without_views(file.schema_arrow))])
            groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
            int96: frozenset[str] = frozenset()
            if any(pa.types.is_timestamp(kind) for kind in schema.types):
                columns = map(file.schema.column, range(metadata.num_columns))
                int96 = frozenset(column.path for column in columns if column.physical_type == "INT96")
            return _Footer(metadata, schema, groups, int96)
    except UnicodeEncodeError as error:
        raise SourceError(
            f"Arrow opens only files whose names are UTF-8, got {os.fsencode(version.path)!r}", hint="rename the file"
        ) from error
    except (pa.ArrowException, OSError) as error:
        problem = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise SourceError(f"{version.path} is not a readable Parquet file: {problem}", hint=_HINT) from error
