"""Rows that their source cannot read again, which are kept in the checkpoint before they count.

When such a source is polled, its rows are written to a file of the checkpoint, together with the cursor behind them.
Only then are they listed, so that a micro-batch that is repeated reads the same rows. A file that was written before
the process was killed is found at the next poll, and its rows are taken before the source is asked for more: none is
lost if the source has forgotten them. A file is removed once a commit has read all its rows.
"""

from __future__ import annotations

import functools
import pathlib
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

import attrs
import pyarrow as pa

from dataflow_model.errors import CheckpointMismatch, InvalidArgument
from dataflow_model.plan.endpoints.origins import Changes, Origin
from dataflow_model.plan.endpoints.wrapped import Listed, WrappedSource, rows_between
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.sharded.checkpoint.durable import corrupt, file_name
from dataflow_model.runners.sharded.checkpoint.parts import read_part, write_part

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.endpoints.origins import Known, OriginPosition
    from dataflow_model.plan.logical.nodes import Node
    from dataflow_model.plan.logical.stages import StagedPlan

INBOX: Final = "inbox"
"""The folder of a checkpoint with the files."""
_DIGITS: Final = 20


def with_inboxes(staged: StagedPlan, directory: str) -> StagedPlan:
    """Return a staged plan whose sources that cannot be read again keep their rows in a checkpoint.

    Args:
        staged: the plan; its sources are bound.
        directory: the common part of the checkpoint.
    """

    def kept(node: Node) -> Node:
        source = node.source.as_columns if isinstance(node, Read) else None
        if source is None or not isinstance(node, Read):
            return node
        after = source.kept(functools.partial(_inbox, directory, node.label))
        return node if after is source else attrs.evolve(node, source=after)

    return attrs.evolve(staged, plan=staged.plan.changed(kept))


def _inbox(directory: str, label: str, source: ColumnSource, name: str) -> InboxSource:
    if source.position_column is not None:
        raise InvalidArgument(
            f"{label!r} cannot be read again, so its rows are numbered from 0, but it has the positions in "
            f"{source.position_column!r}",
            hint="leave out `position_column`, and keep how far the source is in the cursor of its origin",
        )
    return InboxSource(source=source, directory=directory, label=label, name=name)


@attrs.frozen(eq=False, kw_only=True)
class InboxSource(WrappedSource):
    """A source whose rows are read from files of the checkpoint.

    Attributes:
        directory: the common part of the checkpoint.
        label: the label of the source.
        name: its name in a source of several; empty for one that is alone.
        columns: the columns to read; `None` for all.
    """

    directory: str
    label: str
    name: str = ""
    columns: tuple[str, ...] | None = None

    def schema(self) -> pa.Schema:
        """Return the columns that are read."""
        schema = self.source.schema()
        return schema if self.columns is None else pa.schema([schema.field(name) for name in self.columns])

    def project(self, columns: Collection[str]) -> InboxSource:
        """Return the source with only these columns and those of time and watermark."""
        needed = {*columns, self.event_time, self.processing_time, self.watermark_origins.by_column, *self.id_columns}
        return attrs.evolve(self, columns=tuple(name for name in self.schema().names if name in needed))

    def origins(self) -> list[Origin]:
        """Read a bounded source to its end, and return its origins."""
        known = Listed()
        while True:
            changes = self.poll(known, 0)
            known = Listed({**known.origins, **{origin.name: origin for origin in changes.origins}})
            if not changes.has_more:
                return [*known.origins.values()]

    def poll(self, known: Known, clock: int) -> Changes:
        """Return the rows that an earlier process has kept, or else ask the source for more, and keep them."""
        kept = self._kept_behind(known)
        if kept is not None:
            return kept
        changes = self.source.poll(known, clock)
        for origin in changes.origins:
            before = known.get(origin.name)
            start = 0 if before is None else before.row_count
            rows = list(self.source.read(origin.name, start, origin.row_count))
            self._keep(origin, start, rows, has_more=changes.has_more)
        return changes

    def drained(self) -> InboxSource:
        """Return the source for the last poll of a run."""
        return attrs.evolve(self, source=self.source.drained())

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield rows `[start, stop)` from the files."""
        for first in self._starts(origin):
            if stop is not None and first >= stop:
                return
            kept = self._read(origin, first)
            if kept["end"] <= start:
                continue
            if first > start:
                break
            for batch in rows_between(_unpacked(kept["rows"]), start - first, None if stop is None else stop - first):
                yield batch if self.columns is None else batch.select(self.columns)
            start = kept["end"]
        if stop is not None and start < stop:
            raise corrupt(f"the inbox of {self.label!r} in {self.directory!r}", f"row {start} of {origin} is missing")

    def committed(self, origins: Mapping[str, OriginPosition]) -> None:
        """Remove the files whose rows have all been read, and tell the source."""
        for name, origin in origins.items():
            starts = [first for first in self._starts(name) if first < origin.position]
            for first in starts:
                if first < starts[-1] or self._read(name, first)["end"] <= origin.position:
                    pathlib.Path(self.directory, self._file(name, first)).unlink(missing_ok=True)
        self.source.committed(origins)

    def _kept_behind(self, known: Known) -> Changes | None:
        """Return the origins that have files behind what is known; `None` if there are none."""
        origins: list[Origin] = []
        has_more = False
        for path in self._folder.glob("*"):
            name = unquote(path.name)
            before = known.get(name)
            end = 0 if before is None else before.row_count
            later = [first for first in self._starts(name) if first >= end]
            if later:
                last = self._read(name, later[-1])
                origins.append(Origin(name, last["end"], last["version"], cursor=last["cursor"]))
                has_more |= last["has_more"] or not self.is_bounded  # there may be more by now
        return Changes(sorted(origins), frozenset(), has_more=has_more) if origins else None

    def _keep(self, origin: Origin, start: int, rows: list[pa.RecordBatch], *, has_more: bool) -> None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.source.schema()) as writer:
            for batch in rows:
                writer.write_batch(batch)
        version = None if origin.version is None else tuple(origin.version)
        kept = {
            "end": origin.row_count,
            "cursor": origin.cursor,
            "version": version,
            "has_more": has_more,
            "rows": sink.getvalue().to_pybytes(),
        }
        if origin.row_count > start:
            write_part(self.directory, self._file(origin.name, start), kept, sync=True)

    def _read(self, origin: str, first: int) -> dict[str, Any]:
        kept: dict[str, Any] | None = read_part(self.directory, self._file(origin, first))
        if kept is None:
            raise corrupt(repr(str(pathlib.Path(self.directory, self._file(origin, first)))), "it is missing")
        schema = pa.ipc.open_stream(kept["rows"]).schema
        if not schema.equals(self.source.schema()):
            raise CheckpointMismatch(
                f"{self.label!r} has kept rows with the columns {_shown(schema)} in {self.directory!r}, and has "
                f"{_shown(self.source.schema())} now",
                hint="restore the columns until these rows have been read, or start with a new checkpoint",
            )
        return kept

    @property
    def _folder(self) -> pathlib.Path:
        return pathlib.Path(self.directory, self._prefix)

    @property
    def _prefix(self) -> str:
        return f"{INBOX}/{file_name(self.label)}/{self.name or 'rows'}"

    def _file(self, origin: str, first: int) -> str:
        return f"{self._prefix}/{quote(origin, safe='')}/{first:0{_DIGITS}d}.pickle"

    def _starts(self, origin: str) -> list[int]:
        folder = self._folder / quote(origin, safe="")
        return sorted(int(path.stem) for path in folder.glob("*.pickle")) if folder.is_dir() else []


def _unpacked(rows: bytes) -> tuple[pa.RecordBatch, ...]:
    return tuple(pa.ipc.open_stream(rows))


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name}: {field.type}" for field in schema)
