"""The writer of one task's part of a file sink: rows to one file, rows that do not fit to another."""

from __future__ import annotations

import contextlib
import json
import uuid
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import SinkError
from dataflow_model.io.sinks.cast_columns import cast_columns, parts_of
from dataflow_model.io.sinks.element_rows import (
    Misfit,
    fit_batches,
    infer_schema_of_records,
    pane_arrays,
)
from dataflow_model.io.sinks.json_lines import JsonLinesWriter
from dataflow_model.io.sinks.partitioned_files import PartitionedWriter
from dataflow_model.io.sinks.publishing import pending_directory, safe_name, sync_pending
from dataflow_model.io.sinks.sink_columns import RETRACTION_FIELD
from dataflow_model.plan.columns.element_columns import BATCH_BYTES, columns_of_values, weight_of
from dataflow_model.plan.columns.record_columns import columns_of_records, values_of_records
from dataflow_model.plan.columns.records import Record
from dataflow_model.plan.endpoints.sinks import SinkWriter
from dataflow_model.time import MIN_TIMESTAMP
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING, pickles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.io.sinks.file_sinks import FileSink

_BUFFERED_ROWS: Final = 131_072
"""The maximum number of rows in a row group, and of rows that are buffered until a schema is inferred.

Both are also limited to `BATCH_BYTES`, unless a single row takes more.
"""


@attrs.frozen
class PendingFile:
    """The message of one task to the driver about its pending file."""

    task_id: str
    file: str | None
    rows: int
    dead_file: str | None
    dead_letters: int
    schema: pa.Schema | None

    def files(self) -> tuple[tuple[str, str], ...]:
        """Return the names of the pending files of rows, each with its folder below the directory."""
        return () if self.file is None else ((self.file, ""),)


@attrs.frozen
class PendingFolders(PendingFile):
    """The message of a task that has partitioned its rows, whose pending files are `parts`."""

    parts: tuple[tuple[str, str], ...] = ()

    def files(self) -> tuple[tuple[str, str], ...]:
        """Return the parts."""
        return self.parts


class FileSinkWriter(SinkWriter):
    """One task's file and its dead letters, pending until the commit."""

    takes_columns: ClassVar[bool] = True

    def __init__(self, sink: FileSink, commit_id: str, task_id: str) -> None:
        self._sink = sink
        self._commit_id = commit_id
        self._task_id = task_id
        self._directory = pending_directory(sink.path, commit_id)
        # A name of its own: another attempt at the same task may still be writing.
        self._name = f"{safe_name(task_id)}-{uuid.uuid4().hex[:12]}"
        self._schema = sink.full_schema
        self._unseen: list[Sequence[Record]] = []
        self._unseen_bytes = 0
        self._batches: list[pa.RecordBatch] = []
        self._buffered = 0
        self._buffered_bytes = 0
        self._rows = 0
        self._dead_letters = 0
        self._file: Any = None
        self._dead_file: JsonLinesWriter | None = None

    @property
    def needs_all(self) -> bool:
        """Whether the schema is to be inferred, so that the types of later records count too."""
        return self._sink.full_schema is None

    def write(self, records: Sequence[Record]) -> None:
        """Write records; those that do not fit the schema go to the dead letters."""
        if self._schema is None:
            self._unseen.append(records)
            columns, _, _ = columns_of_values(values_of_records(records))
            self._unseen_bytes += sum(map(weight_of, columns.values()))
            if sum(map(len, self._unseen)) >= _BUFFERED_ROWS or self._unseen_bytes >= BATCH_BYTES:
                self._infer()
        elif records and not self._add_columns(records):
            sink = self._sink
            self._add_fitting(records, panes=sink.panes, retractions=sink.retractions)

    def write_columns(self, table: pa.Table) -> None:
        """Write rows in columns, which have the names of the file's columns (those of `panes` too).

        They come from groupings that do not retract, so none of the rows is a retraction.
        Rows whose types differ from those of the schema are written as by `write`.
        """
        if self._sink.retractions and RETRACTION_FIELD.name not in table.column_names:
            table = _not_retracted(table)
        if self._schema is None:
            self._infer()
        if self._schema is None:
            self._schema = table.schema.remove_metadata()
        for part in parts_of(table):
            cast = cast_columns(part, self._schema)
            batches = [] if cast is None else cast.to_batches()
            if cast is not None and not any(map(self._sink.misfits, batches)):
                for batch in batches:
                    self._add(batch)
                continue
            records = [Record(row, MIN_TIMESTAMP, GLOBAL_WINDOW, NO_FIRING) for row in part.to_pylist()]
            self._add_fitting(records, panes=False, retractions=False)

    def close(self) -> bytes:
        """Finish the files and return the message for the commit."""
        if self._schema is None:
            self._infer()
        self._flush()
        files = self._files()
        dead_name = None if self._dead_file is None else self._name + ".dead"
        names = [*(name for name, _ in files), *([] if dead_name is None else [dead_name])]
        with self._explained():
            for file in (self._file, self._dead_file):
                if file is not None:
                    file.close()
            if self._sink.is_synced and names:
                sync_pending(self._sink.path, self._commit_id, names)
        rest = self._rows, dead_name, self._dead_letters, self._schema
        if self._sink.partition_by:
            return pickles.dump(PendingFolders(self._task_id, None, *rest, tuple(files)))
        return pickles.dump(PendingFile(self._task_id, files[0][0] if files else None, *rest))

    def abort(self) -> None:
        """Remove this task's files."""
        self._unseen, self._batches = [], []
        for file, names in ((self._file, self._files()), (self._dead_file, [(self._name + ".dead", "")])):
            if file is not None:
                with contextlib.suppress(OSError, pa.ArrowException):  # it flushes, which may be what has failed before
                    file.close()
                for name, _ in names:
                    (self._directory / name).unlink(missing_ok=True)

    def _files(self) -> list[tuple[str, str]]:
        """Return the names of the files of rows, each with its folder."""
        if isinstance(self._file, PartitionedWriter):
            return self._file.files
        return [] if self._file is None else [(self._name + self._sink.suffix, "")]

    def _opened(self) -> Any:
        """Return the writer of the file of rows, or of several."""
        sink, name, schema = self._sink, self._name, self._schema
        if not sink.partition_by:
            return sink.file_writer(self._directory / (name + sink.suffix), schema)
        names = (lambda number: f"{name}-{number}{sink.suffix}"), sink.partition_by
        return PartitionedWriter(sink.file_writer, self._directory, *names, schema, sink.max_open)

    def _infer(self) -> None:
        unseen, self._unseen = self._unseen, []
        self._schema = infer_schema_of_records(unseen, panes=self._sink.panes, retractions=self._sink.retractions)
        for records in unseen:
            if self._schema is not None:
                self.write(records)
            else:  # not one of them has a shape
                for _, _, misfits in fit_batches(records, pa.schema([]), panes=False):
                    self._write_dead_letters(misfits)

    def _add_columns(self, records: Sequence[Record]) -> bool:
        """Write records whose values are columns of the schema's types; return whether they are."""
        sink = self._sink
        table = columns_of_records(records)
        if table is None or not table.num_columns:
            return False
        added = pane_arrays(records, panes=sink.panes, retractions=sink.retractions)
        if not added.keys().isdisjoint(table.column_names):
            return False
        values = dict(zip(table.column_names, table.columns, strict=True))
        start = 0
        for part in parts_of(pa.table(values | added)):
            cast = cast_columns(part, self._schema)
            batches = [] if cast is None else cast.to_batches()
            stop = start + part.num_rows
            if cast is None or any(map(sink.misfits, batches)):
                self._add_fitting(records[start:stop], panes=sink.panes, retractions=sink.retractions)
            else:
                for batch in batches:
                    self._add(batch)
            start = stop
        return True

    def _add_fitting(self, records: Sequence[Record], *, panes: bool, retractions: bool) -> None:
        records, unfit = self._sink.without_unfit(records)
        self._write_dead_letters(unfit)
        for batch, indices, misfits in fit_batches(records, self._schema, panes=panes, retractions=retractions):
            bad = self._sink.misfits(batch)
            for row, reason in bad.items():
                record = records[indices[row]]
                misfits.append(Misfit(record.value, reason, record.is_retraction))
            if bad:
                good = [row for row in range(batch.num_rows) if row not in bad]
                self._add(batch.take(pa.array(good, pa.int64())))
            else:
                self._add(batch)
            self._write_dead_letters(misfits)

    def _add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows:
            if self._buffered_bytes + batch.nbytes > BATCH_BYTES:
                self._flush()
            self._batches.append(batch)
            self._buffered += batch.num_rows
            self._buffered_bytes += batch.nbytes
            self._rows += batch.num_rows
            if self._buffered >= _BUFFERED_ROWS:
                self._flush()

    def _flush(self) -> None:
        if not self._batches:
            return
        with self._explained():
            if self._file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._file = self._opened()
            for batch in pa.Table.from_batches(self._batches).combine_chunks().to_batches():
                self._file.write_batch(batch)
        self._batches, self._buffered, self._buffered_bytes = [], 0, 0

    def _write_dead_letters(self, misfits: Sequence[Misfit]) -> None:
        if not misfits:
            return
        with self._explained():
            if self._dead_file is None:
                self._directory.mkdir(parents=True, exist_ok=True)
                self._dead_file = JsonLinesWriter(self._directory / (self._name + ".dead"))
            for misfit in misfits:
                row: dict[str, Any] = {
                    "row": misfit.text,
                    "label": self._sink.label,
                    "reason": misfit.reason,
                }
                if self._sink.retractions:
                    row["is_retraction"] = misfit.is_retraction
                self._dead_file.write_line(json.dumps(row, ensure_ascii=False))
        self._dead_letters += len(misfits)

    def _explained(self) -> _Explained:
        return _Explained(f"{self._sink.label!r} cannot write below {self._sink.path}")


@attrs.frozen
class _Explained:
    """Turns an error of the file system or of Arrow inside a `with` into a `SinkError`."""

    problem: str

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, OSError):
            raise SinkError(f"{self.problem}: {error}", hint="check free space and permissions") from error
        if isinstance(error, pa.ArrowException):
            raise SinkError(
                f"{self.problem}: {error}", hint="pass schema=pa.schema({…}) with types that the format has"
            ) from error


def _not_retracted(table: pa.Table) -> pa.Table:
    """Return rows with the column `is_retraction`, which is false in all of them."""
    return table.append_column(RETRACTION_FIELD, pa.repeat(pa.scalar(value=False), table.num_rows))
