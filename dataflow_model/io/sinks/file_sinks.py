"""File sinks: tasks write pending files, and the driver's commit publishes them."""

from __future__ import annotations

import abc
import os
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dataflow_model.errors import InvalidArgument, PlanError, SinkError
from dataflow_model.io.csv.csv_options import check_character
from dataflow_model.io.listing.paths import absolute_path
from dataflow_model.io.sinks.column_sinks import ColumnSink
from dataflow_model.io.sinks.csv_files import CsvWriter
from dataflow_model.io.sinks.earlier_output import IF_EXISTS, IfExists, check_earlier_output, publish_run, undo_run
from dataflow_model.io.sinks.element_rows import Misfit
from dataflow_model.io.sinks.file_writer import FileSinkWriter, PendingFile
from dataflow_model.io.sinks.json_lines import JsonLinesWriter
from dataflow_model.io.sinks.partitioned_files import check_columns, check_same_types, checked_names, misfits
from dataflow_model.io.sinks.publishing import (
    DEAD_LETTERS,
    PENDING,
    discard,
    forget,
    known_commits,
    pending_directory,
    publish,
    publish_part,
    safe_name,
)
from dataflow_model.io.sinks.sink_columns import checked_schema, columns_text, unified_schema
from dataflow_model.io.sinks.text_files import LinesWriter, checked_suffix
from dataflow_model.io.sinks.text_shards import check_num_shards, merged
from dataflow_model.plan.columns.nested import leaves
from dataflow_model.plan.columns.rows import values_of
from dataflow_model.plan.endpoints.outcomes import Reader
from dataflow_model.values import pickles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sinks import KnownCommits

_PARQUET_BYTES: Final = 2**31
"""How many bytes the texts of Parquet have fewer than."""


def _checked_if_exists(value: Any) -> IfExists:
    if value not in IF_EXISTS:
        spellings = {
            "append": "add",
            "ignore": "add",
            "overwrite": "replace",
            "errorifexists": "error",
            "fail": "error",
        }
        meant = spellings.get(value, "replace") if isinstance(value, str) else "replace"
        raise InvalidArgument(
            f"`if_exists` must be 'error', 'add' or 'replace', got {value!r}", hint=f"write if_exists={meant!r}"
        )
    checked: IfExists = value
    return checked


def _check_partition_by(sink: FileSink, _: object, names: tuple[str, ...]) -> None:
    schema = sink.full_schema
    if schema is not None:
        check_columns(names, schema, sink.label)


def _check_max_open(_: FileSink, __: object, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(f"`max_open` must be a positive whole number, got {value!r}", hint="leave it out")


@attrs.frozen(kw_only=True)
class FileSink(ColumnSink):
    """A directory of files that only grows: each commit adds files whose names hold its id.

    Attributes:
        path: the directory; driver and workers must see the same one.
        schema: the columns, those of `panes` and `retractions` apart; `None` means inferred from the first rows,
            in a stream from those of its first commit.
        panes: whether window and pane are columns too.
        retractions: whether values may be retracted; the column `is_retraction` then marks the retractions.
        label: what dead letters call the transform.
        if_exists: what a run does if the directory has output of other runs, or other files: `"error"`, `"add"` or,
            only if it is bounded, `"replace"`.
        partition_by: columns whose values decide the folder of a row; they are not in the files.
        max_open: how many of a task's files may be open.
        is_synced: whether tasks and commits return only once their files are on disk; see `Sink.synced`.
        is_bounded: whether its only commit publishes the output of a bounded run; see `Sink.bounded`.
    """

    path: str = attrs.field(converter=absolute_path)
    schema: pa.Schema | None = attrs.field(default=None, converter=checked_schema, repr=False)
    panes: bool = False
    retractions: bool = attrs.field(default=False, repr=False)
    label: str = attrs.field(default="Write", repr=False)
    if_exists: IfExists = attrs.field(default="error", converter=_checked_if_exists, repr=False)
    partition_by: tuple[str, ...] = attrs.field(
        default=(), converter=checked_names, validator=_check_partition_by, repr=False
    )
    max_open: int = attrs.field(default=64, validator=_check_max_open, repr=False)
    is_synced: bool = attrs.field(default=False, repr=False)
    is_bounded: bool = attrs.field(default=False, repr=False)

    def describe(self) -> str:
        """Return how users write it, such as `WriteParquet('out')`."""
        panes = ", panes=True" if self.panes else ""
        folders = f", partition_by={list(self.partition_by)}" if self.partition_by else ""
        return f"Write{type(self).__name__.removesuffix('Sink')}({self.path!r}{panes}{folders})"

    def reader(self, *, has_window: bool, keeps_windows: bool) -> Reader:
        """Return that rows are only added, with the columns of window and pane or without."""
        del has_window
        return Reader.ROWS_WITH_PANES if self.panes and keeps_windows else Reader.ROWS

    @property
    @abc.abstractmethod
    def suffix(self) -> str:
        """How the names of the files end."""

    @abc.abstractmethod
    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return a writer of one file, with the methods `write_batch(batch)` and `close()`."""

    def misfits(self, batch: pa.RecordBatch) -> Mapping[int, str]:
        """Return by index why rows that have the right columns still cannot be written."""
        if not self.partition_by:
            return {}
        if self.schema is None:
            check_columns(self.partition_by, batch.schema, self.label)
        return misfits(self.partition_by, batch)

    def without_unfit(self, records: Sequence[Record]) -> tuple[Sequence[Record], list[Misfit]]:
        """Split records into those that the format can hold, and misfits. By default, all can be held."""
        return records, []

    def unify(self, directory: Path, pending: Sequence[PendingFile]) -> None:
        """Give the pending files one schema where each task has inferred its own, if the format requires that."""

    def merged(self, commit_id: str, pending: Sequence[PendingFile]) -> Sequence[PendingFile]:
        """Return what to publish in place of the tasks' files, given in order; by default these."""
        del commit_id
        return pending

    def check(self) -> None:
        """Raise `SinkError` if the directory cannot be written; makes it when it is not there."""
        probe = Path(self.path, PENDING, f".probe-{uuid.uuid4().hex}")
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise self._unwritable(error) from error

    def check_earlier(self, run_id: str = "") -> None:
        """Raise `SinkError` if the directory has output of other runs or other files, unless `if_exists` allows it."""
        try:
            check_earlier_output(self.path, self.label, run_id, self.if_exists)
        except OSError as error:
            raise self._unwritable(error) from error

    def directory(self) -> str:
        """Return the directory: `_commits/` in it does not say which sink has published a commit."""
        return self.path

    def destination(self) -> Mapping[str, object]:
        """Return the directory, the columns and the options of the format."""
        folders = {"partition_by": self.partition_by} if self.partition_by else {}
        columns = columns_text(self.schema)
        return {"path": self.path, "suffix": self.suffix, "panes": self.panes, "columns": columns, **folders}

    def check_unbounded(self) -> None:
        """Raise `PlanError` if earlier output is to be replaced."""
        if self.if_exists == "replace":
            raise PlanError(
                f"{self.label!r} has if_exists='replace', but a stream adds files with each commit and replaces none",
                hint="write to a directory of its own and leave if_exists out, or pass if_exists='add'",
            )

    def synced(self) -> Self:
        """Return a sink that syncs its files to disk: pending files when a task closes, final names in each commit."""
        return attrs.evolve(self, is_synced=True)

    def bounded(self) -> Self:
        """Return the sink whose commit acts on earlier output, as `if_exists` says."""
        return attrs.evolve(self, is_bounded=True)

    def commits_of(self, run_id: str) -> KnownCommits:
        """Return the commits of a run in the directory."""
        return known_commits(self.path, run_id)

    def open(self, commit_id: str, task_id: str) -> FileSinkWriter:
        """Return a writer of one task's rows; its file is created with the first row."""
        return FileSinkWriter(self, commit_id, task_id)

    def open_weak(self, commit_id: str, part: str) -> FileSinkWriter | None:
        """Return a writer whose file is published as `part-<commit>-<part>` on closing; `None` for unknown columns."""
        return None if self.schema is None or self.partition_by else _WeakFileWriter(self, commit_id, part)

    def published(self, commit_id: str, part: str, file: PendingFile) -> list[tuple[str, str]]:
        """Return the files of a task, each with the name under which readers see it."""
        stem = f"part-{safe_name(commit_id)}-{part}"
        files: list[tuple[str, str]] = []
        written: dict[str, int] = {}
        for name, folder in file.files():
            number = written[folder] = written.get(folder, -1) + 1
            again = f"-{number}" if number else ""  # it was closed and begun anew
            files.append((name, os.path.join(folder, f"{stem}{again}{self.suffix}")))  # noqa: PTH118 - a name
        return files if file.dead_file is None else [*files, (file.dead_file, f"{DEAD_LETTERS}/{stem}.json")]

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Rename the tasks' files into place as `part-<commit>-<number>`; repeating a commit changes nothing.

        After a crash in the middle it may be called with the same messages, or with those of tasks that have run again.

        Raises:
            SinkError: if the files cannot be published, or the columns that tasks have inferred are incompatible.
        """
        pending = self.merged(commit_id, sorted(_opened(messages), key=lambda message: message.task_id))
        files = [
            file
            for number, message in enumerate(pending)
            for file in self.published(commit_id, f"{number:05d}", message)
        ]
        if self.schema is None:
            with_rows = [message for message in pending if message.files()]
            check_same_types(self.partition_by, [file.schema for file in with_rows if file.schema], self.label)
            self.unify(pending_directory(self.path, commit_id), with_rows)
        if self.is_bounded:
            publish_run(self.path, self.label, commit_id, files, self.if_exists)
        else:
            publish(self.path, commit_id, files, sync=self.is_synced)

    def forget(self, commit_id: str) -> None:
        """Remove the record of a commit."""
        forget(self.path, commit_id)

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Remove the pending files, and what a bounded run has published if it could not publish all."""
        del messages
        undo_run(self.path, commit_id)
        discard(self.path, commit_id)

    def _unwritable(self, error: OSError) -> SinkError:
        return SinkError(
            f"{self.label!r} cannot write to {self.path}: {error.strerror or error}",
            hint="choose a directory, existing or new, to which driver and workers can write",
        )

    def counts(self, messages: Sequence[bytes]) -> Mapping[str, int]:
        """Return the numbers of `rows` and `dead_letters`."""
        pending = _opened(messages)
        return {
            "rows": sum(message.rows for message in pending),
            "dead_letters": sum(message.dead_letters for message in pending),
        }


@attrs.frozen(kw_only=True)
class ParquetSink(FileSink):
    """Parquet files."""

    def __attrs_post_init__(self) -> None:
        """Check that Parquet has the types of all columns."""
        for field in self.full_schema or ():
            try:
                pq.ParquetWriter(pa.BufferOutputStream(), pa.schema([field])).close()
            except (pa.ArrowException, OSError) as error:
                raise InvalidArgument(
                    f"{self.label!r} has a column {field.name!r} of type {field.type}, which Parquet does not have: "
                    f"{error}",
                    hint="pass schema=pa.schema({…}) with another type, or leave the column out",
                ) from error

    @property
    def suffix(self) -> str:
        """How the names of Parquet files end."""
        return ".parquet"

    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return a Parquet writer."""
        return pq.ParquetWriter(path, schema)

    def misfits(self, batch: pa.RecordBatch) -> Mapping[int, str]:
        """Return the rows that Arrow does not write, or writes as a file that it cannot read.

        They hold a text of 2 GiB or more, or a null in place of a list of fixed size.
        """
        too_long = {
            row: f"column {field.name!r} holds a text of 2 GiB or more, which Parquet cannot"
            for column, field in zip(batch.columns, batch.schema, strict=True)
            if column.nbytes >= _PARQUET_BYTES
            for row in range(batch.num_rows)
            if any(map(_is_too_long, leaves(column.slice(row, 1))))
        }
        return (
            {**super().misfits(batch)}
            | too_long
            | {
                index: f"column {field.name!r} is {field.type} and cannot hold null in Parquet"
                for column, field in zip(batch.columns, batch.schema, strict=True)
                if "fixed_size_list" in str(field.type)
                for index, value in enumerate(values_of(column))
                if _lacks_fixed_list(value, field.type)
            }
        )

    def unify(self, directory: Path, pending: Sequence[PendingFile]) -> None:
        """Rewrite the files whose inferred schema is narrower than that of all.

        Files that are no longer pending were renamed by an interrupted commit, which had unified them before.
        """
        schemas = {message.task_id: message.schema for message in pending if message.schema is not None}
        if len({str(schema) for schema in schemas.values()}) < 2:  # noqa: PLR2004
            return
        common = unified_schema(schemas.values(), self.label)
        narrow_files = [
            directory / name
            for message in pending
            if message.schema is not None and not message.schema.equals(common)
            for name, _ in message.files()
        ]
        common = pa.schema([field for field in common if field.name not in self.partition_by])
        for file in filter(Path.exists, narrow_files):
            wide = file.with_name(file.name + ".wide")
            with pq.ParquetFile(file) as narrow, pq.ParquetWriter(wide, common) as writer:
                for group in range(narrow.num_row_groups):
                    writer.write_table(_widened(narrow.read_row_group(group), common))
            wide.replace(file)


@attrs.frozen(kw_only=True)
class JsonSink(FileSink):
    """Files of one JSON object a line: instants as ISO 8601, bytes as base64, NaN and infinities as text."""

    suffix: str = attrs.field(default=".json", converter=checked_suffix)

    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return a writer of lines."""
        del schema
        return JsonLinesWriter(path)


@attrs.frozen(kw_only=True)
class CsvSink(FileSink):
    """CSV files.

    Attributes:
        header: whether the first line names the columns.
        delimiter, null, quotes_all, escapes_formulas: see `CsvWriter`.
    """

    suffix: str = attrs.field(default=".csv", converter=checked_suffix)
    header: bool = True
    delimiter: str = ","
    null: str = ""
    quotes_all: bool = False
    escapes_formulas: bool = False

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        check_character("delimiter", self.delimiter)
        if self.delimiter == '"':
            raise InvalidArgument(
                "`delimiter` must not be the quote, got '\"'", hint="use a comma, a semicolon or a tab"
            )
        null: Any = self.null
        if not isinstance(null, str) or not set(null).isdisjoint(f'{self.delimiter}"\r\n'):
            raise InvalidArgument(
                f"`null` must be text without delimiters, quotes and line breaks, got {self.null!r}",
                hint="write null='NA', for example",
            )

    def destination(self) -> Mapping[str, object]:
        """Return the directory, the columns and the options of CSV."""
        quoting = "all" if self.quotes_all else "needed"
        options = {"header": self.header, "delimiter": self.delimiter, "null": self.null, "quoting": quoting}
        escaping = {"escape_formulas": True} if self.escapes_formulas else {}
        return {**super().destination(), **options, **escaping}

    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return a writer of rows."""
        return CsvWriter(
            path,
            schema.names if self.header else None,
            delimiter=self.delimiter,
            null=self.null,
            quotes_all=self.quotes_all,
            escapes_formulas=self.escapes_formulas,
        )

    def unify(self, directory: Path, pending: Sequence[PendingFile]) -> None:
        """Reject files with different columns, which no reader could read together."""
        del directory
        names = sorted({", ".join(message.schema.names) for message in pending if message.schema is not None})
        if len(names) > 1:
            raise SinkError(
                f"{self.label!r} would write files with different columns: {names[0]} and {names[1]}",
                hint="pass schema=pa.schema({…}), or declare the columns with .with_output_types(…)",
            )


@attrs.frozen(kw_only=True)
class TextSink(FileSink):
    """Text files with one element per line, each below the header if there is one.

    Attributes:
        header: the first line of each file, or several.
        num_shards: the number of files of a commit; `None` for one of each task.
    """

    suffix: str = attrs.field(default=".txt", converter=checked_suffix)
    header: str | None = None
    num_shards: int | None = attrs.field(default=None, validator=check_num_shards, repr=False)

    def destination(self) -> Mapping[str, object]:
        """Return the directory, the header and the number of files."""
        options = {"header": self.header, "num_shards": self.num_shards}
        given = {name: value for name, value in options.items() if value is not None}
        return {**super().destination(), **given}

    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return a writer of lines."""
        del schema
        return LinesWriter(path, self.header)

    def open_weak(self, commit_id: str, part: str) -> FileSinkWriter | None:
        """Return `None` if the files of tasks are merged when they are committed."""
        return None if self.num_shards else super().open_weak(commit_id, part)

    def merged(self, commit_id: str, pending: Sequence[PendingFile]) -> Sequence[PendingFile]:
        """Return `num_shards` files with the lines of all tasks; fewer in a stream, where each has lines."""
        rows = sum(message.rows for message in pending)
        shards = self.num_shards if self.is_bounded else min(self.num_shards or 0, rows)
        if not shards:
            return pending
        try:
            return merged(self, commit_id, pending, shards)
        except OSError as error:
            raise self._unwritable(error) from error

    def reader(self, *, has_window: bool, keeps_windows: bool) -> Reader:
        """Return that lines are only added, and that a retraction cannot be one."""
        del has_window, keeps_windows
        return Reader.LINES

    def without_unfit(self, records: Sequence[Record]) -> tuple[Sequence[Record], list[Misfit]]:
        """Accept texts only; a record with the single field `value` is a misfit too."""
        others = [record for record in records if not isinstance(record.value, str)]
        misfits = [Misfit(record.value, _not_text(record.value), record.is_retraction) for record in others]
        return [record for record in records if isinstance(record.value, str)] if others else records, misfits

    def misfits(self, batch: pa.RecordBatch) -> Mapping[int, str]:
        """Return the texts that contain a line break."""
        return {
            index: "a line of text cannot hold a line break"
            for index, text in enumerate(batch.column(0).to_pylist())
            if "\n" in text or "\r" in text
        }


def _widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows with the columns of a schema that has theirs, and perhaps wider types."""
    present = set(table.column_names)
    columns = [
        table[field.name].cast(field.type) if field.name in present else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _is_too_long(leaf: pa.Array) -> bool:
    """Return whether a column has a text or bytes of 2 GiB or more."""
    if not (pa.types.is_large_string(leaf.type) or pa.types.is_large_binary(leaf.type)):
        return False
    longest = pc.call_function("max", [pc.call_function("binary_length", [leaf])]).as_py()
    return longest is not None and bool(longest >= _PARQUET_BYTES)


def _not_text(value: object) -> str:
    return f"a line is text, not a value of type {type(value).__name__}"


class _WeakFileWriter(FileSinkWriter):
    """A file that is published by the task that writes it."""

    def __init__(self, sink: FileSink, commit_id: str, part: str) -> None:
        super().__init__(sink, commit_id, part)
        self._commit_part = commit_id, safe_name(part)

    def close(self) -> bytes:
        message = super().close()
        files = self._sink.published(*self._commit_part, pickles.load(message))
        publish_part(self._sink.path, self._commit_part[0], files, sync=self._sink.is_synced)
        return message


def _lacks_fixed_list(value: Any, kind: pa.DataType) -> bool:
    """Return whether a value is, or contains, a null in place of a list of fixed size."""
    if pa.types.is_struct(kind):
        fields = {} if value is None else value
        return any(_lacks_fixed_list(fields.get(field.name), field.type) for field in kind)
    if value is None:
        return bool(pa.types.is_fixed_size_list(kind))
    if pa.types.is_map(kind):
        return any(_lacks_fixed_list(item, kind.item_type) for _, item in value)
    if pa.types.is_nested(kind):
        return any(_lacks_fixed_list(item, kind.value_type) for item in value)
    return False


def _opened(messages: Sequence[bytes]) -> list[PendingFile]:
    return [pickles.load(message) for message in messages]
