"""A sink that writes elsewhere, or in another form, than when the run started: refused, unless the run is upgraded."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.checks.all_checks import check_sinks
from dataflow_model.plan.endpoints.sinks import Sink
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.directory import Checkpoint
from dataflow_model.testing import TestStream
from dataflow_model.transforms.endpoints.create import Write
from tests.support.runners.local_streams import ROWS, Stepped, put_rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataflow_model.plan.logical.stages import StagedPlan

COLUMNS = pa.schema({"key": pa.string(), "value": pa.int64()})
WIDER = pa.schema({"key": pa.string(), "value": pa.float64()})
DATABASE = "postgresql://ann:one@db/sales?sslmode=require"


@attrs.frozen(kw_only=True)
class OwnSink(Sink):
    """A sink of a user's, which says where it writes but not how often it tries."""

    folder: str
    tries: int = 1

    def directory(self) -> str:
        return self.folder

    def check(self) -> None: ...

    def open(self, commit_id: str, task_id: str) -> Any: ...

    def commit(self, commit_id: str, messages: Any) -> None: ...

    def abort(self, commit_id: str, messages: Any) -> None: ...


def staged(sink: Any) -> StagedPlan:
    p = dm.Pipeline()
    _ = p | TestStream().add(("a", 1), 1) | dm.Sum.per_key() | "out" >> sink
    return cut_into_stages(p.plan())


def is_over(_: str) -> bool:
    return False


def table(url: str = DATABASE, **options: Any) -> dm.io.WriteTable:
    return dm.io.WriteTable(url, **{"table": "sums", "keys": "key", "schema": COLUMNS, **options})


def columns(path: str = "/out", schema: pa.Schema = COLUMNS, **options: Any) -> dm.io.WriteParquet:
    return dm.io.WriteParquet(path, schema=schema, **options)


@pytest.mark.parametrize("host", ["local", "spark"])
@pytest.mark.parametrize(
    ("before", "now", "change"),
    [
        (
            columns(),
            columns("/new"),
            "wrote to path='/out'; it would write to path='/new' now, and the output in the old location",
        ),
        (columns(), columns(panes=True), "wrote with panes=False; it would write with panes=True now, beside the"),
        (columns(), columns(schema=WIDER), r"wrote with columns=\(.*'value: int64'\); .*'value: double'"),
        (dm.io.WriteJson("/out"), dm.io.WriteJson("/out", suffix=".json.gz"), "wrote with suffix='.json'; "),
        (dm.io.WriteCsv("/out"), dm.io.WriteCsv("/out", delimiter=";"), "wrote with delimiter=','; "),
        (dm.io.WriteCsv("/out"), dm.io.WriteCsv("/out", header=False, null="NA"), "wrote with header=True, null=''; "),
        (dm.io.WriteCsv("/out"), dm.io.WriteCsv("/out", quoting="all"), "wrote with quoting='needed'; "),
        (table(), table(table="other"), "wrote to table='sums'; it would write to table='other' now"),
        (table(), table("postgresql://db/other"), "wrote to database='postgresql://db/sales'; "),
        (table(), table(keys=("key", "value")), r"wrote with keys=\('key',\); "),
        (
            dm.io.ForeachBundle(print),
            dm.io.ForeachBundle(print, whole_records=True),
            "wrote with whole_records=False; ",
        ),
        (Write(OwnSink(folder="/out")), Write(OwnSink(folder="/new")), "wrote to path='/out'; "),
    ],
)
def test_a_restart_with_another_destination_of_a_sink_is_refused_and_nothing_is_written(
    host: str, before: Any, now: Any, change: str, tmp_path: Path
) -> None:
    Checkpoint.open(str(tmp_path), staged(before), 2, host, is_over)
    record = tmp_path / "dataflow" / "run.json"
    was = record.read_bytes()
    with pytest.raises(dm.CheckpointMismatch, match=rf"made by another pipeline:\n  'out' {change}") as caught:
        Checkpoint.open(str(tmp_path), staged(now), 2, host, is_over)
    assert "Hint: restore the old pipeline; or stop the run, carry over the state" in str(caught.value)
    assert "dataflow-model upgrade" in str(caught.value)
    assert record.read_bytes() == was
    Checkpoint.open(str(tmp_path), staged(before), 2, host, is_over)


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (dm.io.Collect(), dm.io.Collect(panes=True)),  # what is kept is the same
        (table(), table("postgresql+psycopg://bob:two@db/sales?sslmode=disable")),
        (Write(OwnSink(folder="/out")), Write(OwnSink(folder="/out", tries=3))),
        (dm.io.ForeachBundle(print), dm.io.ForeachBundle(list)),
    ],
)
def test_options_that_do_not_change_the_destination_need_only_a_restart(before: Any, now: Any, tmp_path: Path) -> None:
    checkpoint = Checkpoint.open(str(tmp_path), staged(before), 2, "local", is_over)
    assert "one" not in json.dumps(checkpoint.record.destinations)
    Checkpoint.open(str(tmp_path), staged(now), 2, "local", is_over)


def test_an_upgrade_accepts_another_table_which_then_receives_the_remaining_rows(tmp_path: Path) -> None:
    database = tmp_path / "sums.db"

    def writing(name: str) -> Callable[[dm.Pipeline], None]:
        def build(p: dm.Pipeline) -> None:
            rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
            sums = rows | dm.Map(lambda row: (row.key, row.n)) | dm.Window.into(dm.FixedWindows(10)) | dm.Sum.per_key()
            _ = sums | "table" >> dm.io.WriteTable(f"sqlite:///{database}", table=name, keys="key", schema=COLUMNS)
            check_sinks(p.plan(), streaming=True)  # as a runner does, which creates the table

        return build

    def keys(name: str) -> list[str]:
        connection = sqlite3.connect(database)
        try:
            return [key for (key,) in connection.execute(f"SELECT key FROM {name} ORDER BY key")]  # noqa: S608
        finally:
            connection.close()

    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "b", 2)])
    Stepped(writing("first"), tmp_path / "old").steps()
    put_rows(tmp_path / "rows", "2", [(25, "c", 4)])
    with pytest.raises(dm.CheckpointMismatch, match="'table' wrote to table='first'; it would write to table='second'"):
        Stepped(writing("second"), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    Stepped(writing("second"), tmp_path / "new").steps()
    assert (keys("first"), keys("second")) == (["a"], ["b"])
