"""The columns of a run's sources, as they were when it started: state and output depend on their types.

A source without a schema of its own infers the columns from the files that are there. These may be other files at the
next start, so a run keeps the columns that it has recorded.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.sharded.checkpoint.durable import file_name
from dataflow_model.runners.sharded.checkpoint.parts import read_part, write_part
from dataflow_model.runners.sharded.commits.progress import read_progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.stages import StagedPlan

_FOLDER: Final = "source_columns"
_INFERRED: Final = "inferred"
_STATED: Final = "stated"
_CARRIED: Final = "carried"
"""Where columns come from: the files, the program, or the files of the run that this one was upgraded from."""

_NEW_CHECKPOINT: Final = "start with a new checkpoint, and the DataFrame where this run stopped"


@attrs.define
class RecordedColumns:
    """The file with the columns of one source.

    Attributes:
        directory: the common part of the checkpoint.
        name: the name of the file in it.
    """

    directory: str
    name: str
    _schema: pa.Schema | None = attrs.field(default=None, init=False)
    _origin: str | None = attrs.field(default=None, init=False)

    @classmethod
    def of(cls, directory: str, label: str) -> RecordedColumns:
        """Return the record of a source in the common part of a checkpoint."""
        return cls(directory, f"{_FOLDER}/{file_name(label, '.pickle')}")

    @property
    def path(self) -> pathlib.Path:
        """The path of the file."""
        return pathlib.Path(self.directory, self.name)

    def read(self) -> pa.Schema | None:
        """Return the columns; `None` if they are not known yet."""
        if self._schema is None:
            recorded = read_part(self.directory, self.name)
            if recorded is not None:
                self._origin, serialized = recorded
                self._schema = pa.ipc.read_schema(pa.py_buffer(serialized))
        return self._schema

    @property
    def is_inferred(self) -> bool:
        """Whether the columns that were read are those of the first file."""
        return self._origin in (_INFERRED, _CARRIED)

    def record(self, schema: pa.Schema) -> None:
        """Record columns that were inferred; they are on disk when this returns."""
        self.write(schema, _INFERRED)

    def write(self, schema: pa.Schema, origin: str) -> None:
        """Replace the record."""
        columns = schema.remove_metadata()
        write_part(self.directory, self.name, (origin, columns.serialize().to_pybytes()), sync=True)
        self._schema, self._origin = columns, origin

    def check_stated(self, label: str, stated: pa.Schema, way_out: str) -> None:
        """Record the columns that the program states; columns may be added and removed, but keep their types.

        Args:
            label: the label of the source.
            stated: the columns.
            way_out: how to continue with other types.

        Raises:
            CheckpointMismatch: if the type of a column has changed.
        """
        stated = pa.schema([pa.field(field.name, field.type) for field in stated])
        before = self.read()
        if before is not None and self._origin != _CARRIED:
            known = dict(zip(before.names, before.types, strict=True))
            changed = [
                f"{field.name!r} was {known[field.name]} and is {field.type} now"
                for field in stated
                if known.get(field.name, field.type) not in (field.type, pa.null())  # no value has had a type yet
            ]
            if changed:
                raise CheckpointMismatch(
                    f"the columns of {label!r} have other types than when the run started, but keys and values in its "
                    f"state have the old ones: {', '.join(changed)}",
                    hint=f"restore the old types, or {way_out}",
                )
        if before is None or not before.equals(stated):
            self.write(stated, _STATED)


def with_recorded_columns(staged: StagedPlan, directory: str, way_out: str) -> StagedPlan:
    """Return a staged plan whose sources have the columns that they had when the run started.

    Args:
        staged: the plan; its sources are bound.
        directory: the common part of the checkpoint. What a start has recorded that committed nothing is replaced.
        way_out: how to continue with other columns than those of an earlier start.

    Raises:
        CheckpointMismatch: if a column that the program states has changed its type.
    """
    has_committed = bool(read_progress(directory))

    def recorded(node: Node) -> Node:
        if not isinstance(node, Read):
            return node
        record = RecordedColumns.of(directory, node.label)
        if not has_committed:
            record.path.unlink(missing_ok=True)
        stated = node.source.stated_columns()
        if stated is None:
            return attrs.evolve(node, source=node.source.recorded_in(record))
        is_streamed = node.source.as_dataframe is not None
        record.check_stated(node.label, stated, _NEW_CHECKPOINT if is_streamed else way_out)
        return node

    return attrs.evolve(staged, plan=staged.plan.changed(recorded))


def carry_columns(old: pathlib.Path, new: pathlib.Path, renamed: Callable[[str], str]) -> None:
    """Copy the columns that were inferred to the checkpoint of a run that continues this one, with any program.

    Args:
        old: the common part of the checkpoint of the run.
        new: that of the other one.
        renamed: returns the new name of a file, since sources may have other labels there.
    """
    for path in (old / _FOLDER).glob("*.pickle"):
        columns = RecordedColumns(str(old), f"{_FOLDER}/{path.name}")
        schema = columns.read()
        if schema is not None and columns.is_inferred:
            RecordedColumns(str(new), f"{_FOLDER}/{renamed(path.name)}").write(schema, _CARRIED)
