"""Sources from functions: each event takes effect once, although the function answers differently when asked again."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import decimal
import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import attrs
import pandas as pd
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.testing import CrashPoint
from tests.support.asking import EVENTS, build, events, several_events
from tests.support.faults.killed_jobs import collected_after_kills
from tests.support.pipelines import run, start, streaming
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


def check_each_event_once(result: Any) -> None:
    check_collected({sink: [record.value for record in result.collected(sink)] for sink in ("a", "b")})


def check_collected(collected: dict[str, Any]) -> None:
    first, second = sorted(collected["a"]), sorted(collected["b"])
    assert [number for number, _ in first] == list(range(EVENTS))
    assert first == second


@pytest.mark.parametrize(
    "runner",
    [
        pytest.param(lambda _: dm.LocalRunner(), id="in process"),
        pytest.param(lambda _: dm.LocalRunner(workers=2), id="workers"),
        pytest.param(lambda folder: dm.LocalRunner(checkpoint=folder / "checkpoint"), id="stream"),
    ],
)
def test_a_bounded_run_reads_each_event_once(tmp_path: Path, runner: Callable[[Path], dm.LocalRunner]) -> None:
    check_each_event_once(run(runner(tmp_path), lambda p: build(p, several_events(folder=str(tmp_path)))))


@pytest.mark.parametrize("mode", ["batch", "streaming"])
@pytest.mark.parametrize("read", [several_events, events])
def test_spark_reads_each_event_once(spark: SparkSession, tmp_path: Path, mode: str, read: Any) -> None:
    if (mode, read) == ("batch", events):
        return
    runner = dm.SparkRunner(spark) if mode == "batch" else streaming(spark, tmp_path / "checkpoint")
    check_each_event_once(run(runner, lambda p: build(p, read(folder=str(tmp_path)))))


@pytest.mark.parametrize("points", [CrashPoint.POINTS[::3], pytest.param(CrashPoint.POINTS, marks=pytest.mark.slow)])
def test_a_killed_stream_reads_each_event_once(tmp_path: Path, points: tuple[str, ...]) -> None:
    check_collected(collected_after_kills("tests.support.asking", tmp_path, points))


@pytest.mark.parametrize(
    "point",
    [
        "after_publishing",
        *(pytest.param(point, marks=pytest.mark.slow) for point in ("after_state", "after_writing", "after_progress")),
    ],
)
def test_a_killed_stream_on_spark_reads_each_event_once(spark: SparkSession, tmp_path: Path, point: str) -> None:
    runner = streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=20)
    with CrashPoint(point, micro_batch=2) as crash:
        result: Any = start(runner, lambda p: build(p, events(folder=str(tmp_path))), until="drained")
        with contextlib.suppress(Exception):  # Spark says in several ways that a process has ended
            result.wait_until_finish()
    assert crash.was_reached
    check_each_event_once(run(runner, lambda p: build(p, events(folder=str(tmp_path)))))


def test_rows_in_the_inbox_are_removed_once_they_are_read(tmp_path: Path) -> None:
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint")
    run(runner, lambda p: build(p, events(folder=str(tmp_path))))
    assert not list((tmp_path / "checkpoint" / "dataflow" / "inbox").rglob("*.pickle"))


class Reading(NamedTuple):
    """A row as a named tuple."""

    at: dt.datetime
    degrees: float


@dataclasses.dataclass
class DataclassReading:
    """A row as a dataclass."""

    at: dt.datetime
    degrees: float


@attrs.frozen
class AttrsReading:
    """A row as an attrs class."""

    at: dt.datetime
    degrees: float


class DictReading(TypedDict):
    """A row as a dict."""

    at: dt.datetime
    degrees: float


AT = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
SCHEMA = pa.schema({"at": pa.timestamp("us", "UTC"), "degrees": pa.float64()})


def of(rows: Any, hint: Any = None, **options: Any) -> Any:
    """Return a transform that reads these rows."""

    def several(cursor: Any, limit: int) -> Any:
        return rows, None

    if hint is not None:
        several.__annotations__["return"] = hint
    return dm.io.source(event_time="at", bounded=True, **options)(several)()


def read(transform: Any) -> list[Any]:
    with dm.Pipeline() as p:
        _ = p | "events" >> transform | "rows" >> dm.io.Collect()
    assert p.result is not None
    return [record.value for record in p.result.collected("rows")]


@pytest.mark.parametrize("kind", [Reading, DataclassReading, AttrsReading])
def test_rows_are_instances_of_the_class_in_the_annotation(kind: Any) -> None:
    assert read(of([kind(AT, 20.5)], tuple[list[kind], int])) == [kind(AT, 20.5)]


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        ([{"at": AT, "degrees": 20.5}], {"hint": tuple[list[DictReading], int]}),
        ([{"degrees": 20.5, "at": AT}], {"schema": SCHEMA}),
        (pa.table({"at": pa.array([AT], SCHEMA.field("at").type), "degrees": [20.5]}), {"schema": SCHEMA}),
        (pa.record_batch({"degrees": [20.5], "at": pa.array([AT], pa.timestamp("ms", "UTC"))}), {"schema": SCHEMA}),
    ],
)
def test_rows_are_dicts_or_tables(rows: Any, options: dict[str, Any]) -> None:
    assert [tuple(row) for row in read(of(rows, **options))] == [(AT, 20.5)]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (
            [{"at": AT, "degrees": "warm"}],
            r"row 0 that several returned behind the cursor None does not fit column 'degre",
        ),
        (
            [{"at": AT, "degrees": 1.0}, {"at": "noon", "degrees": 2.0}],
            r"row 1 that several .* does not fit column 'at'",
        ),
        ([(AT, 1.0)], r"a row of several must be a dict, a named tuple, or an instance of a dataclass"),
        ({"at": AT}, r"the rows of several must be a list or a table of Arrow, got {'at'"),
        (pa.table({"at": [AT]}), r"several returned a table with other columns: the field 'degrees' is missing"),
        (pa.table({"at": [AT], "degrees": ["warm"]}), r"several returned a table that does not fit its columns"),
    ],
)
def test_rows_that_do_not_fit_are_an_error_that_names_them(rows: Any, problem: str) -> None:
    with pytest.raises(dm.DataflowError, match=problem) as raised:
        read(of(rows, schema=SCHEMA))
    assert "Hint: " in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int64(), decimal.Decimal("1.5")),
        (pa.list_(pa.int64()), [1.5]),
        (pa.timestamp("us", "UTC"), 1700000000.5),
        (pa.timestamp("s", "UTC"), AT.replace(microsecond=5)),
        (pa.date32(), AT.replace(hour=3)),
    ],
)
def test_a_value_that_its_column_would_cut_is_an_error(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "value": kind})
    rows = [{"at": AT, "value": None}, {"at": AT, "value": value}]
    with pytest.raises(dm.DataflowError, match=r"row 1 that several .* does not fit column 'value'"):
        read(of(rows, schema=schema))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int64(), 3.0, 3),
        (pa.timestamp("s", "UTC"), AT, AT),
        (pa.timestamp("s", "UTC"), 5, AT.replace(1970, second=5)),
    ],
)
def test_a_value_that_its_column_holds_exactly_is_read(kind: pa.DataType, value: Any, expected: Any) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "value": kind})
    assert [row.value for row in read(of([{"at": AT, "value": value}], schema=schema))] == [expected]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.timestamp("us", "UTC"), AT.replace(tzinfo=None)),
        (pa.timestamp("s", "Europe/Berlin"), AT.replace(tzinfo=None)),
        (pa.timestamp("ns", "UTC"), pd.Timestamp(AT).tz_localize(None)),
        (pa.list_(pa.timestamp("us", "UTC")), [AT, AT.replace(tzinfo=None)]),
        (pa.struct({"seen": pa.timestamp("us", "UTC")}), {"seen": AT.replace(tzinfo=None)}),
    ],
)
def test_a_datetime_without_a_zone_is_not_taken_as_utc(kind: pa.DataType, value: Any) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "value": kind})
    rows = [{"at": AT, "value": None}, {"at": AT, "value": value}]
    problem = r"row 1 that several .* does not fit column 'value', .*: an instant needs a time zone; the row is {'at'"
    with pytest.raises(dm.DataflowError, match=problem + r".*\n.*add one in the function: value\.replace\(tzinfo"):
        read(of(rows, schema=schema))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.timestamp("us"), AT.replace(tzinfo=None), AT.replace(tzinfo=None)),
        (pa.timestamp("us", "UTC"), AT.astimezone(dt.timezone(dt.timedelta(hours=2))), AT),
    ],
)
def test_instants_in_a_column_without_a_zone_and_those_of_other_zones_are_read(
    kind: pa.DataType, value: Any, expected: Any
) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "value": kind})
    assert [row.value for row in read(of([{"at": AT, "value": value}], schema=schema))] == [expected]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"at": AT, "vaule": 1}, "there is no column 'vaule'; the columns are at, value"),
        ({"at": AT, "value": 1, "more": 2}, "there is no column 'more'; the columns are at, value"),
        ({"at": AT}, "the field 'value' is missing; the columns are at, value"),
    ],
)
@pytest.mark.parametrize("as_table", [False, True])
def test_a_row_with_a_field_too_few_or_too_many_is_an_error(row: dict[str, Any], problem: str, as_table: bool) -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "value": pa.int64()})
    rows = [{"at": AT, "value": 1}, row]
    with pytest.raises(dm.DataflowError, match=re.escape(problem)) as raised:
        read(of(pa.Table.from_pylist([row]) if as_table else rows, schema=schema))
    assert as_table or "row 1 that several returned" in str(raised.value)
    assert "Hint: return a value for each column" in str(raised.value)


def test_a_nat_of_pandas_is_null() -> None:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "value": pa.timestamp("us", "UTC")})
    rows = [{"at": AT, "value": value} for value in (pd.NaT, AT, None)]
    assert [row.value for row in read(of(rows, schema=schema))] == [None, AT, None]


def forever(returned: Callable[[Any], Any], folder: Path) -> None:
    def unending(cursor: Any, limit: int) -> Any:
        return returned(cursor)

    transform = dm.io.source(schema=SCHEMA, event_time="at")(unending)()
    run(dm.LocalRunner(checkpoint=folder), lambda p: p | "events" >> transform | dm.io.Collect())


@pytest.mark.parametrize(
    ("returned", "problem"),
    [
        (lambda _: ([], object()), "the next cursor of unending must be a JSON value, got <object object"),
        (lambda _: ([], float("nan")), "the next cursor of unending must be a JSON value, got nan"),
        (
            lambda _: ([], {"pages": [{1: 2}]}),
            "the next cursor of unending must be a JSON value, got {'pages': [{1: 2}]}: the key 1 is not text",
        ),
        (lambda _: [], r"unending must return rows and the next cursor, got \[\]"),
        (
            lambda _: ([{"at": AT, "degrees": 1.0}], None),
            "unending returned 1 rows with the next cursor None, which is the beginning",
        ),
    ],
)
def test_an_answer_without_a_cursor_is_an_error(tmp_path: Path, returned: Callable[[Any], Any], problem: str) -> None:
    with pytest.raises(dm.DataflowError, match=re.escape(problem) if "\\[" not in problem else problem) as raised:
        forever(returned, tmp_path)
    assert "Hint: " in str(raised.value)


def test_a_bounded_source_that_returns_no_rows_and_the_same_cursor_is_an_error() -> None:
    def stuck(cursor: Any, limit: int) -> Any:
        return [], 5

    with pytest.raises(dm.DataflowError, match="stuck returned no rows and the cursor that it was given, 5"):
        read(dm.io.source(schema=SCHEMA, event_time="at", bounded=True)(stuck)())


async def later(cursor: Any, limit: int) -> Any:
    """Return nothing in time."""


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: dm.io.source(5), "dm.io.source decorates a function, got 5"),  # type: ignore[call-overload]
        (lambda: dm.io.source(lambda cursor, limit: ([], 1)), "the types of the rows of <lambda> are not known"),
        (lambda: dm.io.source(schema={"at": int}), "`schema` must be a schema of Arrow"),
        (lambda: dm.io.source(schema=SCHEMA, limit=0), "`limit` must be a positive number of rows, got 0"),
        (lambda: dm.io.source(schema=SCHEMA, poll_interval="-1 s"), "`poll_interval` must not be negative"),
        (lambda: dm.io.source(schema=SCHEMA, retry_for="-1 s"), "`retry_for` must not be negative"),
        (lambda: dm.io.source(schema=SCHEMA, event_time="when"), "'when', which does not exist"),
        (lambda: dm.io.source(schema=SCHEMA, poll="1 s"), "dm.io.source has no argument 'poll'"),  # type: ignore[call-overload]
        (lambda: dm.io.source(schema=SCHEMA)(later), "async"),
    ],
)
def test_mistakes_are_found_when_the_source_is_made(make: Callable[[], Any], problem: str) -> None:
    def nothing(cursor: Any, limit: int) -> Any:
        return [], None

    with pytest.raises(dm.DataflowError, match=problem):
        make()(nothing)()


@dm.io.source(schema=SCHEMA, event_time="at", bounded=True)
def departures(cursor: Any, limit: int, airport: str) -> Any:
    """Return nothing from an airport."""
    assert airport
    return [], None


def test_arguments_of_a_source_by_position_are_an_error_that_names_them() -> None:
    with pytest.raises(
        dm.InvalidType, match=r"departures takes arguments by name .*, got 'JFK'\n.*departures\(airport='JFK'\)$"
    ):
        departures("JFK")
    assert read(departures(airport="JFK")) == []


def test_a_source_that_is_applied_without_a_call_is_an_error_that_says_so() -> None:
    wrong: Any = departures
    with pytest.raises(dm.InvalidType, match=r"applies only transforms, .*\nHint: call it: departures\(…\)$"):
        _ = dm.Pipeline() | wrong


def test_a_function_is_called_without_a_pause_while_it_returns_full_pages(tmp_path: Path) -> None:
    asked: list[Any] = []

    def pages(cursor: Any, limit: int) -> Any:
        asked.append(cursor)
        first = cursor or 0
        rows = [{"at": AT, "degrees": float(number)} for number in range(first, min(first + limit, 25))]
        return rows, first + len(rows)

    transform = dm.io.source(schema=SCHEMA, event_time="at", limit=10, poll_interval="1 hour")(pages)()
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path))
    _ = p | transform | "rows" >> dm.io.Collect()
    result: Any = p.run()
    wait_for(result, lambda: len(result.collected("rows")) == 25)
    result.stop()
    assert asked == [None, 10, 20]


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_damaged_rows_in_the_inbox_end_the_run(tmp_path: Path, damage: str) -> None:
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1)
    result: Any = start(runner, lambda p: build(p, several_events(folder=str(tmp_path))))
    wait_for(result, lambda: bool(result.collected("a")))
    result.stop()
    [*_, last] = sorted((tmp_path / "checkpoint").rglob("inbox/*/*/*/*.pickle"))
    if damage == "missing":
        last.unlink()
    else:
        last.write_bytes(last.read_bytes()[:-10] + b"0123456789")
    with pytest.raises(dm.StateCorruption, match=r"is missing|is damaged"):
        run(runner, lambda p: build(p, several_events(folder=str(tmp_path))))
