"""A table holds one row a key: what was written last and is not taken back; each commit once, and no older run's."""

from __future__ import annotations

import datetime as dt
import decimal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite

import dataflow_model as dm
from dataflow_model.io.tables.pending import PendingRows
from dataflow_model.io.tables.table_sinks import TableSink
from dataflow_model.io.tables.table_values import column_values, instants_as_text
from dataflow_model.plan.endpoints.sinks import Fence
from dataflow_model.values import pickles
from tests.support.exactly_once.databases import execute, execute_count, rows, tables
from tests.support.exactly_once.tables import PAIRS, record
from tests.support.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record


def commit(sink: TableSink, commit_id: str, *tasks: list[Record]) -> list[bytes]:
    messages = []
    for number, records in enumerate(tasks):
        writer = sink.open(commit_id, str(number))
        writer.write(records)
        messages.append(writer.close())
    sink.commit(commit_id, messages)
    return messages


def pairs(url: str, table: str = "sums") -> dict[str, Any]:
    return {row["key"]: row["value"] for row in rows(url, table)}


@pytest.fixture
def sink(database: str) -> TableSink:
    made = TableSink(url=database, table="sums", keys="key", schema=PAIRS)
    made.check()
    return made


# What a table holds.


def test_later_rows_of_a_key_replace_earlier_ones_in_emission_order(sink: TableSink) -> None:
    commit(sink, "run-0", [record(3, ("a", 3)), record(1, ("a", 1))], [record(2, ("a", 2)), record(4, ("b", 4))])
    assert pairs(sink.url) == {"a": 3, "b": 4}
    commit(sink, "run-1", [record(5, ("a", 5))])
    assert pairs(sink.url) == {"a": 5, "b": 4}


def test_retracted_rows_are_deleted_unless_they_are_replaced(sink: TableSink) -> None:
    commit(sink, "run-0", [record(1, ("a", 1)), record(2, ("b", 2))])
    taken = [record(3, ("a", 1), is_retraction=True), record(4, ("b", 2), is_retraction=True), record(5, ("b", 7))]
    commit(sink, "run-1", taken)
    assert pairs(sink.url) == {"b": 7}


def test_a_repeated_commit_changes_nothing(sink: TableSink) -> None:
    commit(sink, "run-0", [record(1, ("a", 1))])
    execute(sink.url, "UPDATE sums SET value = 100")
    commit(sink, "run-0", [record(1, ("a", 1))])
    assert pairs(sink.url) == {"a": 100}


def test_a_field_with_the_name_of_a_column_that_panes_add_makes_its_row_a_dead_letter(database: str) -> None:
    sink = TableSink(url=database, table="sums", keys="key", panes=True)
    rows_of_users = [{"key": "a", "window_start": "mine"}, {"key": "b", "value": 2}]
    messages = commit(sink, "run-0", [record(order, row) for order, row in enumerate(rows_of_users)])
    assert pairs(sink.url) == {"b": 2}
    assert sink.counts(messages) == {"rows": 1, "dead_letters": 1}


def test_two_sinks_of_a_run_that_share_a_table_record_their_commits_separately(sink: TableSink) -> None:
    fence = Fence("run", 1)
    first, second = (attrs.evolve(sink.fenced(fence), label=label) for label in ("one", "other"))
    commit(first, "run-0", [record(1, ("a", 1))])
    commit(second, "run-0", [record(1, ("b", 2))])
    assert pairs(sink.url) == {"a": 1, "b": 2}


MOVES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-3, 3), st.booleans()), max_size=8)


@given(st.lists(st.tuples(MOVES, st.booleans()), max_size=5))
def test_however_commits_are_cut_and_repeated_the_table_equals_a_dict(
    commits: list[tuple[list[tuple[str, int, bool]], bool]],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        sink = TableSink(url=f"sqlite:///{folder}/test.db", table="sums", keys="key", schema=PAIRS)
        sink.check()
        expected: dict[str, int] = {}
        for number, (moves, comes_again) in enumerate(commits):
            records = [
                record(index, (key, value), is_retraction=back) for index, (key, value, back) in enumerate(moves)
            ]
            for key, value, back in moves:
                expected = {name: kept for name, kept in expected.items() if name != key} | (
                    {} if back else {key: value}
                )
            for _ in range(1 + comes_again):
                commit(sink, f"run-{number}", records[::2], records[1::2])
        assert pairs(sink.url) == expected


def test_many_tasks_can_write_a_weak_commit_at_the_same_time(sink: TableSink) -> None:
    fenced = sink.fenced(Fence("run", 1))

    def part(number: int) -> None:
        writer = fenced.open_weak("run-0", str(number))
        assert writer is not None
        writer.write([record(index, (f"{number}-{index}", index)) for index in range(3)])
        writer.close()

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(part, [*range(16), *range(16)]))  # each is there twice, as one that was tried again
    assert pairs(sink.url) == {f"{number}-{index}": index for number in range(16) for index in range(3)}


# Types.


class Everything(NamedTuple):
    name: str
    flights: int
    mean: float
    flag: bool
    blob: bytes
    at: dt.datetime
    day: dt.date
    took: dt.timedelta
    price: decimal.Decimal
    legs: list[int]
    none: str | None


ONE = Everything(
    "UA",
    2**40,
    0.1,
    True,
    b"\0\1",
    dt.datetime(2013, 1, 1, 10, 30, 0, 5, tzinfo=dt.UTC),
    dt.date(2013, 1, 1),
    dt.timedelta(seconds=90),
    decimal.Decimal("1.10"),
    [1, 2],
    None,
)


def test_a_table_is_created_from_the_schema_and_returns_the_written_rows(database: str) -> None:
    schema = pa.schema(
        {
            "name": pa.string(),
            "flights": pa.int64(),
            "mean": pa.float64(),
            "flag": pa.bool_(),
            "blob": pa.binary(),
            "at": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "took": pa.duration("us"),
            "price": pa.decimal128(5, 2),
            "legs": pa.list_(pa.int64()),
            "none": pa.string(),
        }
    )
    sink = TableSink(url=database, table="everything", keys=("name", "at"), schema=schema)
    sink.check()
    commit(sink, "run-0", [record(1, ONE)])
    sink.check()  # the table that it has made suits it
    [actual] = rows(database, "everything")
    if database.startswith("sqlite"):
        text = {"at": "2013-01-01 10:30:00.000005", "day": "2013-01-01", "price": "1.10", "legs": "[1, 2]"}
        assert actual == ONE._asdict() | text | {"took": 90_000_000, "flag": 1}
    else:
        assert actual == ONE._asdict()


def test_columns_are_inferred_from_the_rows_of_all_tasks_if_there_is_no_schema(database: str) -> None:
    sink = TableSink(url=database, table="sums", keys="key")
    commit(sink, "run-0", [record(1, ("a", 1))], [record(2, ("b", 2.5))], [])
    assert pairs(database) == {"a": 1.0, "b": 2.5}
    with pytest.raises(dm.SinkError, match="has rows with incompatible columns"):
        commit(sink, "run-1", [record(1, ("a", 1))], [record(2, ("b", "x"))])
    with pytest.raises(dm.InvalidArgument, match="has the key 'key', but its rows have no such column"):
        commit(sink, "run-2", [record(1, 7)])


@pytest.mark.slow
def test_a_table_in_a_schema_of_its_own_is_named_with_it(postgres: str) -> None:
    execute(postgres, "DROP SCHEMA IF EXISTS analytics CASCADE", "CREATE SCHEMA analytics")
    sink = TableSink(url=postgres, table="analytics.sums", keys="key", schema=PAIRS)
    sink.check()
    commit(sink, "run-0", [record(1, ("a", 1))])
    assert pairs(postgres, "analytics.sums") == {"a": 1}


# Rows that do not fit.


def test_rows_that_do_not_fit_are_written_to_a_dead_letter_table_in_the_same_transaction(sink: TableSink) -> None:
    bad = [("a", "one"), (None, 1), {"key": "a", "more": 1}, "UA", ("nul\0", 1)]
    messages = commit(sink, "run-0", [record(index, value) for index, value in enumerate([("a", 1), *bad])])
    assert pairs(sink.url) == {"a": 1}
    assert sink.counts(messages) == {"rows": 1, "dead_letters": 5}
    letters = {row["row"]: row["reason"] for row in rows(sink.url, "sums_dead_letters")}
    assert set(letters) == {repr(value) for value in bad}
    assert letters["(None, 1)"] == "column 'key' must not be null"
    assert letters[repr(bad[-1])] == "column 'key' cannot hold 'nul\\x00': text in a database has no NUL character"
    commit(sink, "run-0", [record(1, bad[0])])
    assert len(rows(sink.url, "sums_dead_letters")) == 5


def test_a_row_with_a_value_that_python_cannot_convert_is_a_dead_letter(sink: TableSink) -> None:
    messages = commit(sink, "run-0", [record(0, (10**5000, 1)), record(1, ("a", 2))])
    assert sink.counts(messages) == {"rows": 1, "dead_letters": 1}
    [letter] = rows(sink.url, "sums_dead_letters")
    assert letter["row"] == "(<int of 16610 bits>, 1)"


def test_rows_with_nan_as_key_or_an_instant_beyond_the_calendar_are_dead_letters(database: str) -> None:
    schema = pa.schema({"mean": pa.float64(), "at": pa.timestamp("us", "UTC")})
    sink = TableSink(url=database, table="odd", keys="mean", schema=schema)
    sink.check()
    bad = [{"mean": float("nan")}, {"mean": 1.0, "at": dm.MAX_TIMESTAMP}]
    messages = commit(sink, "run-0", [record(index, value) for index, value in enumerate([{"mean": 3.0}, *bad])])
    assert [row["mean"] for row in rows(database, "odd")] == [3.0]
    assert sink.counts(messages) == {"rows": 1, "dead_letters": 2}


def test_a_commit_in_which_no_row_has_columns_writes_only_dead_letters(database: str) -> None:
    sink = TableSink(url=database, table="sums", keys="key")
    sink.check()
    commit(sink, "run-0", [record(1, ("a", {"key": "b"}))])
    assert tables(database) == {"dataflow_model_commits", "sums_dead_letters"}
    assert len(rows(database, "sums_dead_letters")) == 1


# A table that is there.


def test_a_table_created_by_the_user_keeps_its_additional_columns(database: str) -> None:
    number = "INTEGER" if database.startswith("sqlite") else "SERIAL"
    execute(
        database,
        f"CREATE TABLE sums (id {number} PRIMARY KEY, key TEXT NOT NULL UNIQUE, value BIGINT, note TEXT DEFAULT 'new')",
        "INSERT INTO sums (key, value, note) VALUES ('a', 1, 'kept')",
    )
    sink = TableSink(url=database, table="sums", keys="key", schema=PAIRS)
    sink.check()
    commit(sink, "run-0", [record(1, ("a", 5)), record(2, ("b", 6))])
    actual = {(row["key"], row["value"], row["note"]) for row in rows(database, "sums")}
    assert actual == {("a", 5, "kept"), ("b", 6, "new")}


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ("key TEXT PRIMARY KEY", "it has no column 'value'; it has key"),
        ("carrier TEXT PRIMARY KEY, value BIGINT", "it has no column 'key'; it has carrier, value"),
        ("key TEXT, value BIGINT", r"neither its primary key nor a unique constraint is \(key\)"),
        ("key TEXT, value BIGINT, PRIMARY KEY (key, value)", "neither its primary key nor"),
        ("key TEXT PRIMARY KEY, value TEXT", "its column 'value' is TEXT, but the rows have BIGINT"),
        ("key TEXT PRIMARY KEY, value BIGINT, more TEXT NOT NULL", "its column 'more' must not be null"),
    ],
)
def test_a_table_that_cannot_take_the_rows_is_refused_before_anything_runs(
    database: str, columns: str, problem: str
) -> None:
    execute(database, f"CREATE TABLE sums ({columns})")
    sink = TableSink(url=database, table="sums", keys="key", schema=PAIRS, label="out/WriteTable")
    with pytest.raises(dm.SinkError, match=rf"'out/WriteTable' cannot write to table 'sums' of .*: {problem}"):
        sink.check()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("column", "exact", "finer", "decimals"),
    [
        ("NUMERIC(10, 2)", pa.decimal128(10, 2), pa.decimal128(10, 3), (2, 3)),
        ("NUMERIC(10)", pa.int64(), pa.decimal128(10, 3), (0, 3)),
        ("TIMESTAMP(3)", pa.timestamp("ms"), pa.timestamp("us"), (3, 6)),
        ("TIMESTAMPTZ(0)", pa.timestamp("s", "UTC"), pa.timestamp("ms", "UTC"), (0, 3)),
        ("TIME(0)", pa.time32("s"), pa.time64("us"), (0, 6)),
        ("INTERVAL(3)", pa.duration("ms"), pa.duration("us"), (3, 6)),
    ],
)
def test_a_column_that_would_round_the_values_is_refused(
    postgres: str, column: str, exact: pa.DataType, finer: pa.DataType, decimals: tuple[int, int]
) -> None:
    execute(postgres, "DROP TABLE IF EXISTS sums", f"CREATE TABLE sums (key TEXT PRIMARY KEY, value {column})")
    TableSink(url=postgres, table="sums", keys="key", schema=PAIRS.set(1, pa.field("value", exact))).check()
    sink = TableSink(url=postgres, table="sums", keys="key", schema=PAIRS.set(1, pa.field("value", finer)))
    kept, given = decimals
    with pytest.raises(
        dm.SinkError, match=f"its column 'value' rounds to {kept} decimal places, but the rows have {given}"
    ):
        sink.check()


def test_an_error_of_the_database_stops_the_run_and_nothing_is_written(sink: TableSink) -> None:
    commit(sink, "run-0", [record(1, ("a", 1))])
    execute(sink.url, "ALTER TABLE sums RENAME TO others")
    with pytest.raises(
        dm.SinkError, match=r"(?s)cannot write to table 'sums'.*Hint: no row of this commit was written"
    ):
        commit(sink, "run-1", [record(2, ("b", 2)), record(3, ("c", None))])
    execute(sink.url, "ALTER TABLE others RENAME TO sums")
    commit(sink, "run-1", [record(2, ("b", 2))])
    assert pairs(sink.url) == {"a": 1, "b": 2}


# What is refused at once.


@pytest.mark.parametrize(
    "url", ["postgresql://ann:secret@127.0.0.1:1/db", "postgresql://127.0.0.1:1/db?user=ann&password=secret"]
)
def test_a_database_that_cannot_be_reached_is_an_error_that_does_not_show_the_password(url: str) -> None:
    sink = TableSink(url=url, table="sums", keys="key", schema=PAIRS)
    with pytest.raises(
        dm.SinkError, match=r"cannot reach the database of table 'sums' of postgresql.*(ann:|password=)\*\*\*"
    ) as caught:
        sink.check()
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(sink)


def test_a_database_file_that_cannot_be_opened_is_an_error_with_the_way_out() -> None:
    nowhere = TableSink(url="sqlite:////nowhere/at/all.db", table="sums", keys="key", schema=PAIRS)
    with pytest.raises(dm.SinkError, match=r"unable to open database file\nHint: start the database, or fix the url"):
        nowhere.check()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": "sqlite://"}, "must name a file, since a database in memory belongs to one process"),
        ({"url": "mysql://ann:secret@host/db"}, r"must be of sqlite or postgresql.*got mysql://ann:\*\*\*@host/db"),
        (
            {"url": "mysql://host/db?user=ann&password=secret"},
            r"got mysql://host/db\?user=\*\*\*&password=\*\*\*\n",
        ),
        ({"url": "delays.db"}, "not the URL of a database"),
        ({"url": "postgresql://ann:secret@host:port/db"}, "not the URL of a database"),
        ({"url": "postgresql://ann:sec@ret@host/db"}, r"more than one '@'.*\nHint: encode the password"),
        ({"keys": ()}, r"one column or several, each once, got \(\)"),
        ({"keys": ("key", "key")}, "each once"),
        (
            {"keys": "carrier"},
            r"has the key 'carrier', but its rows have no such column\nHint: the columns are key, value",
        ),
        ({"keys": "legs", "schema": pa.schema({"legs": pa.list_(pa.int64())})}, "databases compare only plain values"),
        ({"schema": pa.schema({"key": pa.timestamp("ns")})}, r"type timestamp\[ns\], which databases do not support"),
        ({"table": ""}, "`table` must be a name"),
    ],
)
def test_options_that_cannot_work_are_refused_at_construction(given: dict[str, Any], problem: str) -> None:
    right = {"url": "sqlite:///delays.db", "table": "sums", "keys": "key", "schema": PAIRS}
    with pytest.raises(dm.InvalidArgument, match=problem) as caught:
        dm.io.WriteTable(**(right | given))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("postgresql+nothing://host/db", "'WriteTable' cannot use the url postgresql.nothing://host/db: "),
        ("postgresql://127.0.0.1:1/db?colour=blue", "cannot reach the database of .*invalid connection option .colour"),
    ],
)
def test_a_url_with_a_driver_or_an_option_that_does_not_exist_is_refused_with_the_label(url: str, problem: str) -> None:
    sink = TableSink(url=url, table="sums", keys="key", schema=PAIRS)
    with pytest.raises(dm.DataflowError, match=problem):
        sink.check()


@pytest.mark.parametrize("schema", [None, pa.schema({"key": pa.string(), "": pa.int64()})])
def test_a_column_without_a_name_is_refused(tmp_path: Path, schema: pa.Schema | None) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | dm.Create([{"key": "a", "": 1}])
        _ = rows | dm.io.WriteTable(f"sqlite:///{tmp_path}/a.db", table="a", keys="key", schema=schema)

    with pytest.raises(dm.InvalidArgument, match=r"column whose name is empty.*its columns are 'key', ''"):
        run(dm.LocalRunner(), build)


def test_a_database_file_with_a_null_character_in_its_name_is_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"a path cannot contain the character NUL, got 'a\\x00b.db'"):
        TableSink(url="sqlite:///a\0b.db", table="sums", keys="key")


@pytest.mark.parametrize("schema", [None, pa.schema({"key": pa.string(), "KEY": pa.int64()})])
def test_columns_that_differ_only_in_case_are_refused_by_databases_that_ignore_case(
    tmp_path: Path, schema: pa.Schema | None
) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | dm.Create([{"key": "a", "KEY": 1}])
        _ = rows | dm.io.WriteTable(f"sqlite:///{tmp_path}/a.db", table="a", keys="key", schema=schema)

    with pytest.raises(dm.InvalidArgument, match=r"'key' and 'KEY', which are the same to SQLite\nHint: rename one"):
        run(dm.LocalRunner(), build)


def test_columns_that_differ_only_in_case_are_two_columns_in_other_databases(postgres: str) -> None:
    execute(postgres, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")  # with the commits of other tests
    sink = TableSink(url=postgres, table="cases", keys="key", schema=pa.schema({"key": pa.string(), "KEY": pa.int64()}))
    sink.check()
    commit(sink, "run-0", [record(1, {"key": "a", "KEY": 1})])
    assert rows(postgres, "cases") == [{"key": "a", "KEY": 1}]


def test_a_key_that_is_not_a_column_is_refused_when_the_pipeline_is_built() -> None:
    numbers = dm.Pipeline() | dm.Create([("a", 1)])
    with pytest.raises(dm.InvalidArgument, match="'WriteTable' has the key 'name'"):
        _ = numbers | dm.io.WriteTable("sqlite:///delays.db", table="sums", keys="name")


# Sequencers.


def test_a_newer_start_of_a_run_shuts_the_older_one_out(sink: TableSink) -> None:
    older, newer = (sink.fenced(Fence("7c1f", sequencer)) for sequencer in (1_000_000, 2_000_000))
    older.claim()
    commit(older, "7c1f-0", [record(1, ("a", 1))])
    newer.claim()
    with pytest.raises(
        dm.SupersededRun,
        match=r"run 7c1f, started at 1970-01-01T00:00:01Z, may no longer write:\ntable 'sums' of .* was taken over "
        r"at 1970-01-01T00:00:02Z by a newer start of the run\nHint: end this process",
    ):
        commit(older, "7c1f-1", [record(2, ("a", 666))])
    with pytest.raises(dm.SupersededRun):
        older.claim()
    assert pairs(sink.url) == {"a": 1}
    commit(newer, "7c1f-1", [record(2, ("a", 2))])
    assert pairs(sink.url) == {"a": 2}


def test_a_commit_of_an_older_start_is_not_repeated_by_the_newer_one(sink: TableSink) -> None:
    older, newer = (sink.fenced(Fence("7c1f", sequencer)) for sequencer in (1, 2))
    commit(older, "7c1f-0", [record(1, ("a", 1))])
    execute(sink.url, "UPDATE sums SET value = 100")
    commit(newer, "7c1f-0", [record(1, ("a", 1))])
    assert pairs(sink.url) == {"a": 100}


def test_sequencers_of_other_runs_are_ignored(sink: TableSink) -> None:
    sink.fenced(Fence("7c1f", 9)).claim()
    commit(sink.fenced(Fence("91ab", 1)), "91ab-0", [record(1, ("a", 1))])
    commit(sink, "bounded", [record(1, ("b", 2))])
    assert pairs(sink.url) == {"a": 1, "b": 2}


# In a pipeline.


def test_a_retracting_pipeline_leaves_the_final_values_in_the_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'test.db'}"
    script = dm.testing.TestStream().add(5, 0, key="a").add(3, 1, key="a").add(1, 70, key="b")
    with dm.Pipeline() as p:
        _ = (
            p
            | script
            | dm.Map(lambda pair: pair).with_output_types(tuple[str, int])
            | dm.Window.into(dm.FixedWindows("1 minute"))
            .trigger(dm.Repeatedly(dm.AfterCount(1)))
            .accumulating_and_retracting()
            | dm.Sum.per_key()
            | "kept" >> dm.Map(lambda pair: pair).with_output_types(tuple[str, int])
            | dm.io.WriteTable(url, table="sums", keys=("key", "window_start"), panes=True)
        )
    actual = [(row["key"], row["value"], row["window_start"], row["pane_index"]) for row in rows(url, "sums")]
    assert actual == [("a", 8, "1970-01-01 00:00:00.000000", 1), ("b", 1, "1970-01-01 00:01:00.000000", 0)]
    assert p.result is not None
    assert p.result.metrics()["WriteTable"]["rows"] == 4


def test_importing_the_package_does_not_import_sqlalchemy() -> None:
    script = "import sys, dataflow_model; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_missing_driver_is_reported_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sink = TableSink(url="postgresql+pg8000://host/db", table="sums", keys="key", schema=PAIRS)
    with pytest.raises(dm.InvalidArgument, match=r"driver is not installed: .*\nHint: run pip install pg8000"):
        sink.check()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"needs SQLAlchemy, .*\nHint: run pip install .*\[sql\]'") as raised:
        TableSink(url="sqlite:///delays.db", table="sums", keys="key", schema=PAIRS)
    assert raised.value.name == "sqlalchemy"


# Tables that others have made.


def test_a_null_in_a_not_null_column_is_a_dead_letter_and_other_rows_are_written(database: str) -> None:
    execute(database, "CREATE TABLE sums (key TEXT PRIMARY KEY, value DOUBLE PRECISION NOT NULL)")
    columns = pa.schema({"key": pa.string(), "value": pa.float64()})
    sink = TableSink(url=database, table="sums", keys="key", schema=columns)
    sink.check()
    messages = commit(sink, "run-0", [record(1, ("a", 1.5)), record(2, ("b", None))], [record(3, ("a", None))])
    assert pairs(sink.url) == {"a": 1.5}
    assert sink.counts(messages) == {"rows": 1, "dead_letters": 2}
    reasons = {row["reason"] for row in rows(database, "sums_dead_letters")}
    assert reasons == {"column 'value' of the table must not be null, and the row has None"}


def test_nan_is_null_in_sqlite_and_a_number_elsewhere(database: str) -> None:
    execute(database, "CREATE TABLE sums (key TEXT PRIMARY KEY, value DOUBLE PRECISION NOT NULL)")
    sink = TableSink(url=database, table="sums", keys="key")
    messages = commit(sink, "run-0", [record(1, ("a", 1.5)), record(2, ("b", float("nan")))])
    bad = 1 if database.startswith("sqlite") else 0
    assert sink.counts(messages) == {"rows": 2 - bad, "dead_letters": bad}
    assert len(pairs(sink.url)) == 2 - bad


def test_null_in_a_list_column_is_written_as_null(database: str) -> None:
    sink = TableSink(
        url=database, table="sums", keys="key", schema=pa.schema({"key": pa.string(), "value": pa.list_(pa.int64())})
    )
    sink.check()
    commit(sink, "run-0", [record(1, ("a", None)), record(2, ("b", [1, None]))])
    assert execute_count(database, "SELECT count(*) FROM sums WHERE value IS NULL") == 1


def test_a_partial_unique_index_is_not_accepted_as_a_key(database: str) -> None:
    execute(
        database, "CREATE TABLE sums (key TEXT, value BIGINT)", "CREATE UNIQUE INDEX k ON sums (key) WHERE value > 5"
    )
    with pytest.raises(dm.DataflowError, match=r"neither its primary key nor a unique constraint is \(key\)"):
        TableSink(url=database, table="sums", keys="key", schema=PAIRS).check()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keys": 5}, "`keys` must be names of columns, got 5"),
        ({"keys": None}, "`keys` must be names of columns, got None"),
        ({"table": 5}, "`table` must be a name, got 5"),
    ],
)
def test_names_of_another_type_than_text_are_refused(options: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"url": "sqlite:///sums.db", "table": "sums", "keys": "key"} | options
    with pytest.raises(dm.InvalidType, match=message):
        TableSink(**given)


# Rows in columns.


CELLS = st.tuples(
    st.sampled_from(["a", "b", "c", "nul\0", None]),
    st.sampled_from([1.5, None, float("nan"), -0.0]),
    st.sampled_from([0, dt.datetime(2013, 1, 1, tzinfo=dt.UTC), 2**58, None]),
)


@given(st.lists(CELLS, max_size=8), st.sampled_from([("key",), ("key", "mean")]), st.integers(1, 4))
def test_rows_in_columns_are_written_as_rows_one_by_one(
    cells: list[Any], keys: tuple[str, ...], rows_of_file: int
) -> None:
    schema = pa.schema({"key": pa.string(), "mean": pa.float64(), "at": pa.timestamp("us", "UTC")})
    columns = [pa.array(values, field.type) for values, field in zip(zip(*cells, strict=True), schema, strict=False)]
    table = pa.table(columns, schema=schema) if cells else schema.empty_table()
    written = []
    for one_by_one in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            for number, start in enumerate(range(0, len(cells) or 1, rows_of_file)):
                pq.write_table(table.slice(start, rows_of_file), f"{folder}/{number}.parquet")
            url = f"sqlite:///{folder}/test.db"
            with dm.Pipeline() as p:
                read = p | dm.io.ReadParquet(f"{folder}/*.parquet", event_time=None)
                read = read | "same" >> dm.Map(lambda row: row._asdict()) if one_by_one else read
                _ = read | dm.io.WriteTable(url, table="sums", keys=keys, schema=schema)
            letters = [letter["reason"] for letter in rows(url, "sums_dead_letters")]
            written.append((rows(url, "sums"), letters, p.result.metrics()["WriteTable"]["rows"]))
    assert repr(written[0]) == repr(written[1])


def test_a_message_of_an_earlier_version_can_be_committed(sink: TableSink) -> None:
    moves: list[Any] = [
        ((2,), False, ("a", 2)),
        ((1,), False, ("a", 1)),
        ((0,), False, ("b", 1)),
        ((3,), True, ("b", 1)),
    ]
    old = PendingRows(PAIRS, PAIRS.names, moves, [("row", "reason", False)])
    sink.commit("run-0", [pickles.dump(old)])
    assert pairs(sink.url) == {"a": 2}
    assert sink.counts([pickles.dump(old)]) == {"rows": 4, "dead_letters": 1}


def test_the_types_of_a_task_that_has_inferred_others_are_widened(database: str) -> None:
    sink = TableSink(url=database, table="sums", keys="key")
    commit(sink, "run-0", [record(1, {"key": "a", "value": 2**40})], [record(2, {"key": "b", "more": "x"})])
    assert [(row["key"], row["value"], row["more"]) for row in rows(database, "sums")] == [
        ("a", 2**40, None),
        ("b", None, "x"),
    ]


@given(
    st.lists(st.none() | st.datetimes(), max_size=5),
    st.sampled_from([None, "UTC", "America/New_York"]),
    st.sampled_from(["s", "ms", "us"]),
)
def test_instants_in_sqlite_are_the_text_that_sqlalchemy_writes(
    instants: list[dt.datetime | None], zone: str | None, unit: str
) -> None:
    column = pa.array(instants, pa.timestamp("us")).cast(pa.timestamp(unit, zone), safe=False)
    processor: Any = sa.DateTime().dialect_impl(sqlite.dialect()).bind_processor(sqlite.dialect())
    assert instants_as_text(column) == list(map(processor, column_values(column)))
