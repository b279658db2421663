"""A folder whose files come, grow, are replaced and go, and what a followed source reads of it."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from typing import TYPE_CHECKING, Literal

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


__all__ = ["SCHEMA", "Folder", "Reader", "content", "tick"]

SCHEMA = pa.schema({"at": pa.int64()})


@attrs.define
class Folder:
    """A folder of files of numbers, in one format.

    Two files that are written within one tick of the file system's clock, a few milliseconds, can have the same time of
    modification, size and inode. Real exports are not that fast; here a counter stands for the clock.
    """

    path: Path
    kind: str = "parquet"
    writes: int = 0

    def __attrs_post_init__(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def file(self, name: str) -> Path:
        return self.path / f"{name}.{self.kind}"

    def put(self, name: str, numbers: Sequence[int]) -> None:
        """Let a file appear, or take the place of the one that is there."""
        part = self.path / "_part"
        if self.kind == "parquet":
            pq.write_table(pa.table({"at": list(numbers)}, schema=SCHEMA), part)
        else:
            part.write_text("".join(f"{line}\n" for line in ("at", *numbers)))
        self._stamp(part)
        part.rename(self.file(name))

    def append(self, name: str, numbers: Sequence[int]) -> None:
        with self.file(name).open("a") as file:
            file.writelines(f"{number}\n" for number in numbers)
        self._stamp(self.file(name))

    def remove(self, name: str) -> None:
        self.file(name).unlink()

    def touch(self, name: str) -> None:
        self._stamp(self.file(name))

    def _stamp(self, file: Path) -> None:
        self.writes += 1
        os.utime(file, ns=(self.writes * 10**9, self.writes * 10**9))


class Reader:
    """Reads a folder in micro-batches, as the streaming runner does; what it knows goes through JSON, as in Spark."""

    def __init__(
        self, folder: Folder, offset: Offset | None = None, on_missing: Literal["skip"] | None = "skip"
    ) -> None:
        p = dm.Pipeline()
        make = dm.io.ReadParquet if folder.kind == "parquet" else dm.io.ReadCsv
        rows = make(str(folder.path), event_time="at", follow=True, on_missing=on_missing, schema=SCHEMA)
        _ = p | "rows" >> rows | dm.io.Collect()
        [read] = [node for node in p.plan().nodes if isinstance(node, Read)]
        assert isinstance(read.source, ColumnSource)
        self.source = read.source
        self._read = pickle.dumps(read)
        self.offset = Offset() if offset is None else offset
        self.lost = 0
        self.replaced = 0
        self.sequences: list[tuple[str, int]] = []

    def micro_batch(self, rows: int = 1_000_000) -> list[int]:
        """Read one micro-batch and return its numbers."""
        feed = Feed([pickle.loads(self._read)], rows, 1)
        end: Offset = Offset.of_json(json.loads(json.dumps(feed.next(self.offset, drain=False).to_json())))
        numbers = []
        parts = feed.slices(self.offset, end)
        assert feed.slices(self.offset, end) == parts
        for part in parts:
            if part.version is not None:
                self.source.check_version(part.origin, part.version)
            for batch in self.source.read(part.origin, part.start, part.stop):
                numbers += batch.column("at").to_pylist()
            self.sequences += [(part.origin, part.base + row) for row in range(part.start, part.stop)]
        for _, changes in feed.control(self.offset, end).changes:
            self.lost += changes.get("rows_lost", 0)
            self.replaced += changes.get("files_replaced", 0)
        self.offset = end
        return numbers

    def size(self) -> int:
        """Return how many bytes an offset has."""
        return len(json.dumps(self.offset.to_json()))


def tick(folder: Path) -> None:
    """Let the last change of a directory have happened in a later tick of the file system's clock."""
    changed = folder.stat().st_mtime_ns + 10_000_001
    os.utime(folder, ns=(changed, changed))


def content(folder: Path) -> dict[str, str]:
    """Return a digest of every file."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
