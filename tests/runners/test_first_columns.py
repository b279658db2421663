"""The columns of a stream's sink that nobody states: the first commit with rows decides them, for good."""

from __future__ import annotations

import csv
import json
import logging
import math
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import SinkError, StateCorruption
from dataflow_model.io.sinks.file_sinks import CsvSink, FileSink, JsonSink, ParquetSink
from dataflow_model.io.tables.table_sinks import TableSink
from dataflow_model.plan.columns.records import Record
from dataflow_model.runners.sharded.outputs import first_columns
from dataflow_model.runners.sharded.outputs.first_columns import open_writer, with_first_columns
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
from tests.support.hosts import on_hosts, runner_on
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

STREAMS = on_hosts("process", slow=("streaming",))
PLAIN: list[Any] = [
    st.integers(-5, 5),
    st.floats(-5, 5).map(lambda value: round(value, 1)),
    st.sampled_from(["", "x", "1"]),
    st.booleans(),
    st.lists(st.integers(0, 3), max_size=2),
]


@st.composite
def drawn_rows(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows whose fields mostly have one type, and may be null, missing or something else."""
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=3, unique=True))
    kinds = {name: draw(st.sampled_from(PLAIN)) for name in names}
    rows = []
    for _ in range(draw(st.integers(0, 8))):
        present = [name for name in names if draw(st.integers(0, 4))]
        row = {name: draw(kinds[name] if draw(st.integers(0, 5)) else st.one_of(st.none(), *PLAIN)) for name in present}
        rows.append(row)
    return rows


def numbered(folder: Path, count: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"at": pa.array(range(count), pa.int64())}), folder / "numbers.parquet")


def writing(folder: Path, values: Sequence[Any], sink: Any) -> Callable[[dm.Pipeline], Any]:
    """Build a pipeline that reads so many rows, makes values of them of which nothing is known, and writes these."""
    numbered(folder, len(values))

    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadParquet(folder / "numbers.parquet", event_time="at")
        _ = rows | dm.Map(lambda row: values[row.at]) | "out" >> sink

    return build


def content(folder: Path, kind: str) -> list[Any]:
    files = sorted(folder.glob("part-*"))
    if kind == "parquet":
        return ds.dataset(files, format="parquet").to_table().to_pylist() if files else []
    if kind == "json":
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]
    return [tuple(sorted(row.items())) for file in files for row in csv.DictReader(file.read_text().splitlines())]


def dead_letters(folder: Path) -> list[dict[str, Any]]:
    files = sorted(folder.glob("_dead_letters/*"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


WRITERS: dict[str, Any] = {"parquet": dm.io.WriteParquet, "json": dm.io.WriteJson, "csv": dm.io.WriteCsv}


@pytest.mark.parametrize("kind", WRITERS)
@share_of_examples(0.2)
@given(rows=drawn_rows(), cut=st.integers(1, 8))
@example(rows=[{}, {"a": None}, {"a": 1}], cut=1)
@example(rows=[{"a": 1}, {"a": 1.5}], cut=1)
@example(rows=[{"a": 1.5}, {"a": 1}], cut=1)
@example(rows=[{"a": 1}, {"b": 1}], cut=1)
@example(rows=[{"a": []}, {"a": [1]}], cut=1)
def test_a_stream_without_a_schema_writes_what_a_bounded_run_writes_if_all_rows_fit(
    tmp_path_factory: Any, kind: str, rows: list[dict[str, Any]], cut: int
) -> None:
    folder: Path = tmp_path_factory.mktemp("run")
    run(dm.LocalRunner(), writing(folder, rows, WRITERS[kind](folder / "bounded")), until=None)
    runner = dm.LocalRunner(checkpoint=folder / "checkpoint", max_rows_per_batch=cut)
    result = run(runner, writing(folder, rows, WRITERS[kind](folder / "stream")))
    streamed = content(folder / "stream", kind)
    assert len(streamed) + len(dead_letters(folder / "stream")) == len(rows)
    counted = result.metrics()["out"]
    assert [counted.get(name, 0) for name in ("rows", "dead_letters")] == [
        len(streamed),
        len(dead_letters(folder / "stream")),
    ]
    if cut >= len(rows) or not dead_letters(folder / "stream"):
        assert streamed == content(folder / "bounded", kind)
        assert dead_letters(folder / "stream") == dead_letters(folder / "bounded")


@STREAMS
def test_a_pipeline_with_inferred_columns_writes_the_same_rows_on_every_host(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    values = [{"carrier": "UA", "delay": delay} for delay in range(10)]
    runner = runner_on(host, request, tmp_path / "checkpoint", max_rows_per_batch=3)
    for name, writer in WRITERS.items():
        if host == "streaming" and name != "parquet":
            continue
        numbers = dm.LocalRunner(), tmp_path / f"{name}, bounded"
        if name != "parquet":
            runner = runner_on(host, request, tmp_path / f"checkpoint {name}", max_rows_per_batch=3)
        stream = runner, tmp_path / f"{name}, stream"
        for which, out in (numbers, stream):
            run(which, writing(tmp_path, values, writer(out)))
        both = [content(out, name) for _, out in (numbers, stream)]
        assert sorted(map(repr, both[0])) == sorted(map(repr, both[1]))
        assert len(both[0]) == len(values)


@STREAMS
def test_keyed_results_of_several_shards_jointly_decide_the_columns(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def build(out: Path) -> Callable[[dm.Pipeline], Any]:
        def write(p: dm.Pipeline) -> None:
            rows = p | dm.io.ReadParquet(tmp_path / "numbers.parquet", event_time="at")
            keyed = rows | dm.Map(lambda row: (row.at % 7, row.at)) | dm.Window.into(dm.FixedWindows("10 microseconds"))
            sums = keyed | dm.CombinePerKey(sum)
            _ = sums | dm.Map(lambda pair: {"k": pair[0], "half": pair[1] / 2}) | "out" >> dm.io.WriteParquet(out)

        return write

    numbered(tmp_path, 50)
    run(dm.LocalRunner(), build(tmp_path / "bounded"))
    run(runner_on(host, request, tmp_path / "checkpoint", max_rows_per_batch=20), build(tmp_path / "stream"))
    bounded, stream = (content(tmp_path / name, "parquet") for name in ("bounded", "stream"))
    assert sorted(map(repr, stream)) == sorted(map(repr, bounded))


def test_a_row_that_does_not_fit_the_first_rows_is_a_dead_letter_with_both_types(tmp_path: Path) -> None:
    values = [{"n": 1}, {"n": 1.5}, {"n": None}, {"n": 2}]
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1)
    result = run(runner, writing(tmp_path, values, dm.io.WriteParquet(tmp_path / "out")))
    assert content(tmp_path / "out", "parquet") == [{"n": 1}, {"n": None}, {"n": 2}]
    [letter] = dead_letters(tmp_path / "out")
    assert letter["reason"] == "column 'n' is int64 and cannot hold 1.5 of type float"
    assert result.metrics()["out"]["dead_letters"] == 1
    assert {str(pq.read_schema(file)) for file in (tmp_path / "out").glob("part-*")} == {"n: int64"}


def test_a_commit_in_which_no_row_has_columns_does_not_decide_them(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadParquet(tmp_path / "numbers.parquet", event_time="at")
        values = rows | dm.FlatMap(lambda row: [[], [{}], [{"n": 1.5}], [{"n": 2}]][row.at])
        _ = values | "out" >> dm.io.WriteParquet(tmp_path / "out")

    numbered(tmp_path, 4)
    run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1), build)
    assert content(tmp_path / "out", "parquet") == [{"n": 1.5}, {"n": 2.0}]
    assert [letter["row"] for letter in dead_letters(tmp_path / "out")] == ["{}"]


def test_a_column_that_is_null_in_all_of_the_first_rows_is_text_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    values = [{"a": None, "b": 1}, {"a": "x", "b": 2}, {"a": 3, "b": 3}]
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1)
    with caplog.at_level(logging.WARNING):
        run(runner, writing(tmp_path, values, dm.io.WriteParquet(tmp_path / "out")))
    assert content(tmp_path / "out", "parquet") == [{"a": None, "b": 1}, {"a": "x", "b": 2}]
    [letter] = dead_letters(tmp_path / "out")
    assert letter["reason"] == "column 'a' is string and cannot hold 3 of type int"
    [warned] = [record.getMessage() for record in caplog.records if "decide the columns" in record.getMessage()]
    assert "columns of 'out'" in warned
    assert "only nulls in 'a'" in warned
    assert "schema=" in warned


def test_columns_of_panes_and_retractions_are_added_to_the_inferred_columns(tmp_path: Path) -> None:
    def build(out: Path) -> Callable[[dm.Pipeline], Any]:
        def write(p: dm.Pipeline) -> None:
            rows = p | dm.io.ReadParquet(tmp_path / "numbers.parquet", event_time="at")
            keyed = rows | dm.Map(lambda row: (row.at % 2, row.at))
            window = dm.Window.into(dm.FixedWindows("10 microseconds")).trigger(dm.Repeatedly(dm.AfterCount(2)))
            window = window.accumulating_and_retracting()
            sums = keyed | window | dm.CombinePerKey(sum)
            _ = sums | dm.Map(lambda pair: pair) | "out" >> dm.io.WriteParquet(out, panes=True)

        return write

    numbered(tmp_path, 40)
    run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=7), build(tmp_path / "out"))
    rows = content(tmp_path / "out", "parquet")
    assert not dead_letters(tmp_path / "out")
    assert {tuple(row) for row in rows} == {
        ("key", "value", "window_start", "window_end", "pane_index", "pane_timing", "is_retraction")
    }
    assert {row["is_retraction"] for row in rows} == {False, True}


def test_a_table_is_created_with_the_columns_of_the_first_rows(tmp_path: Path) -> None:
    values = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}, {"k": 1, "v": "c"}, {"k": "x", "v": "d"}, {"k": None, "v": "e"}]
    sink = dm.io.WriteTable(f"sqlite:///{tmp_path}/db", table="t", keys="k")
    for _ in range(2):
        runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1)
        run(runner, writing(tmp_path, values, sink))
    with sqlite3.connect(tmp_path / "db") as db:
        assert db.execute("select k, v from t order by k").fetchall() == [(1, "c"), (2, "b")]
        reasons = [reason for (reason,) in db.execute("select reason from t_dead_letters")]
    db.close()
    assert reasons == ["column 'k' is int64 and cannot hold 'x' of type str", "column 'k' must not be null"]


def test_rows_that_an_existing_table_cannot_hold_are_an_error_of_the_first_commit(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "db") as db:
        db.execute("create table t (k integer primary key, v blob)")
    db.close()
    sink = dm.io.WriteTable(f"sqlite:///{tmp_path}/db", table="t", keys="k")
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint")
    with pytest.raises(SinkError, match="its column 'v' is BLOB, but the rows have TEXT"):
        run(runner, writing(tmp_path, [{"k": 1, "v": "a"}], sink))


class _Killed(Exception):
    pass


@pytest.mark.parametrize("kind", ["parquet", "csv", "table"])
@pytest.mark.parametrize("moment", ["before the record", "before the commit", "after the commit"])
def test_a_restart_in_the_middle_of_the_first_commit_keeps_the_columns_and_publishes_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, moment: str
) -> None:
    values = [{"k": 1, "v": 0.5}, {"k": 2, "v": 1}, {"k": 3, "v": "no"}]
    table = f"sqlite:///{tmp_path}/db"
    writers = WRITERS | {"table": lambda _: dm.io.WriteTable(table, table="t", keys="k")}
    build = writing(tmp_path, values, writers[kind](tmp_path / "out"))
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1)
    owner: Any = TableSink if kind == "table" else FileSink
    commit = owner.commit

    def killed(self: Any, commit_id: str, messages: Sequence[bytes]) -> None:
        if moment == "after the commit":
            commit(self, commit_id, messages)
        raise _Killed

    def killed_before(*_: Any, **__: Any) -> None:
        raise _Killed

    with monkeypatch.context() as patch:
        if moment == "before the record":
            patch.setattr(first_columns, "write_part", killed_before)
        else:
            patch.setattr(owner, "commit", killed)
        with pytest.raises(_Killed):
            run(runner, build)
    run(runner, build)
    expected = [{"k": 1, "v": 0.5}, {"k": 2, "v": 1.0}]
    if kind == "table":
        with sqlite3.connect(tmp_path / "db") as db:
            rows = [{"k": k, "v": v} for k, v in db.execute("select k, v from t order by k")]
            assert [reason for (reason,) in db.execute("select reason from t_dead_letters")] == [
                "column 'v' is double and cannot hold 'no' of type str"
            ]
        db.close()
        assert rows == expected
    else:
        as_read = [tuple((name, str(value)) for name, value in row.items()) for row in expected]
        assert content(tmp_path / "out", kind) == (as_read if kind == "csv" else expected)
        assert len(dead_letters(tmp_path / "out")) == 1


def test_a_lost_record_of_the_columns_is_detected(tmp_path: Path) -> None:
    stream = Stepped(
        writing(tmp_path, [{"k": 1}, {"k": 2}], dm.io.WriteParquet(tmp_path / "out")), tmp_path / "checkpoint", rows=1
    )
    stream.steps(1)
    [record] = (tmp_path / "checkpoint").rglob("sink_columns/*")
    record.unlink()
    with pytest.raises(StateCorruption, match="it is missing"):
        stream.steps()


class Point(NamedTuple):
    k: int
    v: float | None


def written(sink: Any, directory: Path, tasks: Sequence[Sequence[tuple[int, Any]]]) -> tuple[Any, list[bytes]]:
    """Return a sink that awaits its columns with those that tasks decide, and the messages of the commit."""
    messages = []
    for number, task in enumerate(tasks):
        writer = open_writer(sink, "out", str(directory), "0", str(number))
        for position, value in task:
            writer.write([Record(value, EventTime(0), GLOBAL_WINDOW, NO_FIRING, order=(position,))])
        messages.append(writer.close())
    return with_first_columns(sink, "out", str(directory), "0", messages, sync=False)


@share_of_examples(0.3)
@given(rows=drawn_rows(), shards=st.lists(st.integers(0, 3), min_size=8, max_size=8), shuffle=st.randoms())
@pytest.mark.parametrize("kind", [ParquetSink, JsonSink, CsvSink])
def test_the_columns_do_not_depend_on_the_shards_and_their_order(
    tmp_path_factory: Any, kind: Any, rows: list[dict[str, Any]], shards: list[int], shuffle: Any
) -> None:
    folder: Path = tmp_path_factory.mktemp("tasks")
    tasks: list[list[tuple[int, Any]]] = [[] for _ in range(4)]
    for index, row in enumerate(rows):
        tasks[shards[index]].append((index, row))
    shuffle.shuffle(tasks)
    sink = kind(path=folder / "out")
    one, _ = written(sink, folder / "one", [list(enumerate(rows))])
    several, messages = written(sink, folder / "several", tasks)
    assert one.schema == several.schema
    again, _ = written(sink, folder / "several", tasks)
    assert again.schema == several.schema
    several.commit("0", messages)
    assert several.counts(messages) == one.counts(written(one, folder / "one", [list(enumerate(rows))])[1])


def test_tasks_write_files_directly_once_the_columns_are_decided(tmp_path: Path) -> None:
    sink = ParquetSink(path=tmp_path / "out")
    first, _ = written(sink, tmp_path, [[(0, Point(1, None))]])
    assert first.schema == pa.schema({"k": pa.int64(), "v": pa.string()})
    later, messages = written(sink, tmp_path, [[(0, Point(1, math.pi))], [(1, Point(2, None))]])
    assert later == attrs.evolve(sink, schema=first.schema)
    assert [later.counts([message]) for message in messages] == [
        {"rows": 0, "dead_letters": 1},
        {"rows": 1, "dead_letters": 0},
    ]
