"""A sink of a user's has every capability of the built-in ones: it declares what it takes."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, ClassVar

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.columns.record_columns import values_of_records
from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter
from dataflow_model.plan.rewrites.lifting import lifts
from tests.support.micro_batches import Streamed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.columns.records import Record


class _Lines(SinkWriter):
    """Stages values as text, one a line, and says how they came."""

    def __init__(self, sink: LineSink, name: str) -> None:
        self._sink, self._name = sink, name
        self._lines: list[str] = []

    def write(self, records: Sequence[Record]) -> None:
        self._lines += [f"record {value}" for value in values_of_records(records)]

    def close(self) -> bytes:
        pathlib.Path(self._sink.folder, self._name).write_text("".join(f"{line}\n" for line in self._lines))
        return self._name.encode()

    def abort(self) -> None:
        self._lines.clear()


class _LinesOfColumns(_Lines):
    takes_columns: ClassVar[bool] = True

    def write_columns(self, table: pa.Table) -> None:
        names = " ".join(table.column_names)
        self._lines += [f"{names}: {row['key']} {row['value']}" for row in table.to_pylist()]


@attrs.frozen
class LineSink(Sink):
    """Files of lines, which are published under their own names."""

    folder: str
    takes_columns: bool = False
    panes: bool = False

    def check(self) -> None: ...

    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        writer = _LinesOfColumns if self.takes_columns else _Lines
        return writer(self, f"{commit_id}-{task_id}.pending")

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        for message in messages:
            pending = pathlib.Path(self.folder, message.decode())
            pending.rename(pending.with_suffix(".txt"))

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None: ...

    def lines(self) -> list[str]:
        return sorted(
            line for path in pathlib.Path(self.folder).glob("*.txt") for line in path.read_text().splitlines()
        )


@pytest.mark.parametrize(
    ("takes_columns", "panes", "lines"),
    [
        (False, False, ["record ('AA', 2)", "record ('UA', 3)"]),
        (True, False, ["key value: AA 2", "key value: UA 3"]),
        (
            True,
            True,
            [
                "key value window_start window_end pane_index pane_timing: AA 2",
                "key value window_start window_end pane_index pane_timing: UA 3",
            ],
        ),
    ],
)
def test_a_sink_that_takes_columns_is_given_panes_as_columns(
    tmp_path: pathlib.Path, takes_columns: bool, panes: bool, lines: list[str]
) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "in").mkdir()
    table = pa.table({"at": [1, 2, 3], "carrier": ["UA", "AA", "UA"], "delay": [1, 2, 2]})
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    sink = LineSink(str(tmp_path / "out"), takes_columns, panes)

    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadParquet(str(tmp_path / "in"), event_time="at") | dm.Window.into(dm.FixedWindows(10))
        rows | dm.WithKeys("carrier", value="delay") | dm.Sum.per_key() | dm.Write(sink)

    streamed = Streamed(build, tmp_path)
    streamed.program = attrs.evolve(streamed.program, lifts=lifts(streamed.program.staged, streaming=True))
    assert streamed.program.lifts
    streamed.finish()
    assert sink.lines() == lines
