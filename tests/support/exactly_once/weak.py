"""A pipeline with weak productions, and what it published."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow.dataset as ds

import dataflow_model as dm
from dataflow_model.plan.endpoints.message_sinks import MessageSink
from dataflow_model.plan.endpoints.sinks import SinkWriter
from dataflow_model.testing import TestStream
from tests.support.exactly_once.databases import rows
from tests.support.exactly_once.tables import PAIRS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record

SCRIPT = TestStream()
for second in range(24):
    SCRIPT = SCRIPT.processing_time(second).add(second, event_time=second, key="abcd"[second % 4]).watermark(second)


@attrs.frozen
class Printer(MessageSink):
    """A sink of a user's: each line goes out at once, and what goes out twice is there twice."""

    path: str

    def open_weak(self, commit_id: str, part: str) -> SinkWriter:
        return _Lines(self.path, commit_id)


class _Lines(SinkWriter):
    def __init__(self, path: str, commit_id: str) -> None:
        self.path, self.commit_id, self.values = path, commit_id, list[Any]()

    def write(self, records: Sequence[Record]) -> None:
        self.values += [record.value for record in records]

    def close(self) -> bytes:
        with open(self.path, "a", encoding="utf-8") as file:  # noqa: PTH123
            file.writelines(json.dumps([self.commit_id, value]) + "\n" for value in self.values)
        return b""

    def abort(self) -> None:
        self.values.clear()


def printed(folder: Path) -> list[tuple[int, str]]:
    """Return each line's micro-batch and value."""
    lines = [json.loads(line) for line in (folder / "lines").read_text().splitlines()]
    return [(int(commit_id.rpartition("-")[2]), repr(value)) for commit_id, value in lines]


def builder(folder: Path) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        sums = (
            p
            | SCRIPT
            | dm.Window.into(dm.FixedWindows("8 seconds")).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
            | dm.Sum.per_key()
        )
        _ = sums | "printed" >> dm.Write(Printer(str(folder / "lines")))
        _ = sums | "files" >> dm.io.WriteJson(folder / "files", schema=PAIRS, panes=True)
        table = dm.io.WriteTable(
            f"sqlite:///{folder / 'test.db'}", table="sums", keys=("key", "window_start"), schema=PAIRS, panes=True
        )
        _ = sums | "table" >> table
        _ = sums | "kept" >> dm.io.Collect()

    return build


def published(folder: Path) -> dict[str, Any]:
    counts: dict[str, Any] = {
        "files": sorted(map(repr, ds.dataset(folder / "files", format="json").to_table().to_pylist()))
    }
    counts["table"] = sorted(
        (row["key"], row["window_start"], row["value"]) for row in rows(f"sqlite:///{folder / 'test.db'}", "sums")
    )
    return counts
