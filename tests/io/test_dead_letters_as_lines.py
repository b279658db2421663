"""The recipe for dead letters: lines of JSON, whatever a dead letter holds, in a bounded run and in a stream."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "n": pa.int64(), "tags": pa.struct({"x": pa.int64()})})
CONTENT = '{"at": "2024-01-01T00:00:00Z", "n": 1}\n{"at": null, "n": 2, "tags": {"x": 2}}\nnot json\n'


def as_line(letter: Any) -> str:
    return json.dumps({"line": letter.element, "reason": letter.reason, "transform": letter.label}, default=repr)


def fail(element: Any) -> Any:
    raise ValueError(element)


def lines_in(folder: Path) -> list[Any]:
    return [json.loads(line) for file in sorted(folder.glob("part-*")) for line in file.read_text().splitlines()]


@pytest.mark.parametrize("follow", [False, True])
def test_dead_letters_that_hold_text_dicts_and_objects_are_written_as_lines(tmp_path: Path, *, follow: bool) -> None:
    folder, failed = tmp_path / "in", tmp_path / "failed"
    folder.mkdir()
    (folder / "1.json").write_text(CONTENT)

    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadJson(folder, event_time="at", schema=SCHEMA, follow=follow)
        rows, unread = p | "read" >> read.with_exception_handling()
        done, unprocessed = rows | "fail" >> dm.Map(fail).with_exception_handling()
        _ = (unread, unprocessed) | dm.Flatten() | dm.Map(as_line) | dm.io.WriteText(failed)
        _ = done | dm.io.Collect()

    if follow:
        stepped = Stepped(build, tmp_path / "checkpoint", rows=1)
        stepped.steps()
        (folder / "2.json").write_text(CONTENT)
        stepped.steps()
    else:
        run(dm.LocalRunner(), build)
    lines = lines_in(failed)
    assert len(lines) == (6 if follow else 3)
    held = [line["line"] for line in lines]
    assert "not json" in held
    assert {"at": None, "n": 2, "tags": {"x": 2}} in held
    again = run(dm.LocalRunner(), lambda p: p | dm.io.ReadText(failed) | dm.Map(json.loads) | dm.io.Collect())
    assert sorted((record.value for record in again.collected("Collect")), key=str) == sorted(lines, key=str)
