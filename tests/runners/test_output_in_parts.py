"""A bounded run in process writes its output while it reads, and publishes it at its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import UserCodeError
from dataflow_model.plan.columns.record_columns import values_of_records
from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter
from dataflow_model.runners.engine.bounded.execution import Execution
from dataflow_model.runners.local.bounded.result import LocalResult
from dataflow_model.runners.sharded.outputs import task_output
from tests.support.laws.held_rows import HeldRows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record

ROWS = 12
PART = 3
SCHEMA = pa.schema({"value": pa.int64()})
NOTES: list[str] = []
"""What has happened in the current test; a run has its own copy of the objects in a pipeline."""


@attrs.frozen(eq=False)
class NotingSink(Sink):
    """Notes what it is given, and when.

    Attributes:
        needs_all: whether its writers are to be given everything at once.
    """

    needs_all: bool = False

    def check(self) -> None: ...

    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        return _Writer(self)

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        NOTES.append("commit")

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        NOTES.append("abort")


class _Writer(SinkWriter):
    def __init__(self, sink: NotingSink) -> None:
        self._sink = sink

    @property
    def needs_all(self) -> bool:
        return self._sink.needs_all

    def write(self, records: Sequence[Record]) -> None:
        NOTES.append(f"write {list(values_of_records(records))}")

    def close(self) -> bytes:
        NOTES.append("close")
        return b""

    def abort(self) -> None:
        NOTES.append("abort the writer")


@pytest.fixture(autouse=True)
def _small_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    NOTES.clear()
    monkeypatch.setattr(task_output, "_AT_ONCE", 4)


def finished(write: Any, function: Callable[[Any], Any]) -> LocalResult:
    """Run a pipeline over numbered rows in parts of three, and wait for its end."""
    source = HeldRows(rows={"only": [(0, "a", number) for number in range(ROWS)]}, kind=pa.int64())
    pipeline = dm.Pipeline()
    _ = pipeline | dm.Read(source) | dm.Map(function) | write
    result = LocalResult(Execution.of(pipeline.plan(), 0, rows=PART))
    result.wait_until_finish()
    return result


def value_of(row: Any) -> int:
    value: int = row.value
    return value


def test_many_records_are_written_during_the_run_and_published_at_its_end() -> None:

    def noted(row: Any) -> int:
        NOTES.append(f"read {row.value}")
        return value_of(row)

    finished(dm.Write(NotingSink()), noted)
    writes = [note for note in NOTES if not note.startswith("read")]
    assert writes == ["write [0, 1, 2, 3, 4, 5]", "write [6, 7, 8, 9, 10, 11]", "close", "commit"]
    assert NOTES.index(writes[0]) < NOTES.index("read 6")


def test_a_writer_that_needs_all_records_receives_them_at_once() -> None:
    finished(dm.Write(NotingSink(needs_all=True)), value_of)
    assert [f"write {list(range(ROWS))}", "close", "commit"] == NOTES


def test_output_written_before_a_run_fails_is_removed(tmp_path: Path) -> None:

    def failing(row: Any) -> int:
        if row.value == ROWS - 1:
            raise ValueError("no more")
        return value_of(row)

    with pytest.raises(UserCodeError, match="no more"):
        finished(dm.Write(NotingSink()), failing)
    assert NOTES == ["write [0, 1, 2, 3, 4, 5]", "abort the writer", "abort"]
    with pytest.raises(UserCodeError, match="no more"):
        finished(dm.io.WriteParquet(tmp_path / "out", schema=SCHEMA), failing)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_run_that_fails_before_it_has_output_does_not_touch_its_sinks() -> None:

    def failing(row: Any) -> int:
        raise ValueError(row.key)

    with pytest.raises(UserCodeError):
        finished(dm.Write(NotingSink()), failing)
    assert NOTES == []


def test_types_of_later_rows_contribute_to_inferred_columns(tmp_path: Path) -> None:
    def later_a_float(row: Any) -> Any:
        return {"value": None if row.value < PART else row.value / 2 if row.value >= ROWS - 2 else row.value}

    result = finished("write" >> dm.io.WriteParquet(tmp_path / "out"), later_a_float)
    assert result.metrics()["write"]["dead_letters"] == 0
    table = pq.read_table(tmp_path / "out")
    assert table.schema.field("value").type == pa.float64()
    assert table["value"].to_pylist() == [*[None] * 3, *map(float, range(3, 10)), 5.0, 5.5]
