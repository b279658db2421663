"""Parquet and JSON files as sinks: tasks stage, the driver's commit publishes."""

from __future__ import annotations

import abc
import pickle
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from dataflow_model.errors import InvalidType, PlanError, SinkError, explain
from dataflow_model.io.file_writer import FileSinkWriter, Staged
from dataflow_model.io.json_lines import JsonLinesWriter
from dataflow_model.io.paths import absolute_path
from dataflow_model.io.publishing import DEAD_LETTERS, STAGING, discard, publish, safe_name, staging_directory
from dataflow_model.io.schemas import full_schema
from dataflow_model.plan.sinks import Sink

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["FileSink", "JsonSink", "ParquetSink"]


def _checked_schema(value: Any) -> pa.Schema | None:
    if value is None or isinstance(value, pa.Schema):
        return value
    raise InvalidType(
        explain(
            f"`schema` must be a pyarrow.Schema, got {value!r}",
            hint="pa.schema({'key': pa.string(), 'value': pa.int64()})",
        )
    )


@attrs.frozen(kw_only=True)
class FileSink(Sink):
    """A directory of files that only grows: each commit adds files whose names hold its id.

    Attributes:
        path: the directory; driver and workers must see the same one.
        schema: the columns, those of `panes` and `retractions` apart; `None` means inferred from the first rows, which
            only a bounded run can do.
        panes: whether window and pane are columns too.
        retractions: whether values may be taken back; the column `is_retraction` then says which rows do so.
        label: what dead letters call the transform.
    """

    path: str = attrs.field(converter=absolute_path)
    schema: pa.Schema | None = attrs.field(default=None, converter=_checked_schema, repr=False)
    panes: bool = False
    retractions: bool = attrs.field(default=False, repr=False)
    label: str = attrs.field(default="Write", repr=False)
    suffix: ClassVar[str] = ""

    @abc.abstractmethod
    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return something with `write_batch(batch)` and `close()`."""

    def unify(self, directory: Path, staged: Sequence[Staged]) -> None:
        """Make the staged files agree where each task has inferred its own schema, if the format needs it."""

    @property
    def full_schema(self) -> pa.Schema | None:
        """The columns with those of `panes` and `retractions`."""
        if self.schema is None:
            return None
        return full_schema(self.schema, panes=self.panes, retractions=self.retractions)

    def check(self) -> None:
        """Raise `SinkError` if the directory cannot be written; makes it when it is not there."""
        probe = Path(self.path, STAGING, f".probe-{uuid.uuid4().hex}")
        try:
            probe.parent.mkdir(parents=True, exist_ok=True)
            probe.touch()
            probe.unlink()
        except OSError as error:
            raise SinkError(
                explain(
                    f"{self.label!r} cannot write to {self.path}: {error.strerror or error}",
                    hint="name a directory, existing or new, that driver and workers may write",
                )
            ) from error

    def check_unbounded(self) -> None:
        """Raise `PlanError` if the columns are not known before the first row."""
        if self.schema is None:
            raise PlanError(
                explain(
                    f"{self.label!r} does not know its columns, and a stream cannot wait for its rows to tell",
                    hint="give schema=pa.schema({…}), or .with_output_types(tuple[str, float]) to the step before",
                )
            )

    def open(self, commit_id: str, task_id: str) -> FileSinkWriter:
        """Begin one task's file; nothing is written before the first row."""
        return FileSinkWriter(self, commit_id, task_id)

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Rename the tasks' files into place as `part-<commit>-<number>`, once however often it is called.

        Raises:
            SinkError: when the files cannot be published, or tasks have inferred columns that do not go together.
        """
        staged = sorted(_opened(messages), key=lambda one: one.task_id)
        files = []
        for number, one in enumerate(staged):
            stem = f"part-{safe_name(commit_id)}-{number:05d}"
            if one.file is not None:
                files.append((one.file, stem + self.suffix))
            if one.dead_file is not None:
                files.append((one.dead_file, f"{DEAD_LETTERS}/{stem}.json"))
        directory = staging_directory(self.path, commit_id)
        if self.schema is None and directory.exists():
            self.unify(directory, [one for one in staged if one.file is not None])
        publish(self.path, commit_id, files)

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Remove what is staged."""
        del messages
        discard(self.path, commit_id)

    def counts(self, messages: Sequence[bytes]) -> Mapping[str, int]:
        """Return the numbers of `rows` and `dead_letters`."""
        staged = _opened(messages)
        return {"rows": sum(one.rows for one in staged), "dead_letters": sum(one.dead_letters for one in staged)}


@attrs.frozen(kw_only=True)
class ParquetSink(FileSink):
    """Parquet files."""

    suffix: ClassVar[str] = ".parquet"

    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return a Parquet writer."""
        return pq.ParquetWriter(path, schema)

    def unify(self, directory: Path, staged: Sequence[Staged]) -> None:
        """Rewrite the files whose inferred schema is narrower than that of all."""
        schemas = {one.task_id: one.schema for one in staged if one.schema is not None}
        if len({str(schema) for schema in schemas.values()}) < 2:  # noqa: PLR2004
            return
        try:
            common = pa.unify_schemas(list(schemas.values()), promote_options="permissive")
        except pa.ArrowException as error:
            raise SinkError(
                explain(
                    f"{self.label!r} has rows whose columns do not go together: {error}",
                    hint="give schema=pa.schema({…})",
                )
            ) from error
        for one in staged:
            if one.schema is not None and not one.schema.equals(common):
                file = directory / str(one.file)
                with pq.ParquetFile(file) as narrow:  # not read_table, which adds columns from directory names
                    table = narrow.read()
                columns = [
                    table[field.name].cast(field.type)
                    if field.name in table.column_names
                    else pa.nulls(table.num_rows, field.type)
                    for field in common
                ]
                wide = file.with_name(file.name + ".wide")
                pq.write_table(pa.table(columns, schema=common), wide)
                wide.replace(file)


@attrs.frozen(kw_only=True)
class JsonSink(FileSink):
    """Files of one JSON object a line: instants as ISO 8601, bytes as base64, NaN and infinities as text."""

    suffix: ClassVar[str] = ".json"

    def file_writer(self, path: Path, schema: pa.Schema) -> Any:
        """Return a writer of lines."""
        del schema
        return JsonLinesWriter(path)


def _opened(messages: Sequence[bytes]) -> list[Staged]:
    return [pickle.loads(message) for message in messages]
