"""Numbers in text files and event times: kept exactly or refused as bad rows, never rounded or taken for infinity."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.plan.columns.source_columns import split_columns
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    import pathlib

LARGE = 2**63


def _read(source: Any) -> tuple[list[Any], list[Any]]:
    """Return the elements, and the reasons of the bad rows."""
    with dm.Pipeline() as p:
        good, bad = p | source.with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    letters = [record.value for record in p.result.collected("bad")]
    return [record.value for record in p.result.collected("good")], [letter.reason for letter in letters]


def _write(path: pathlib.Path, kind: str, column: str, numbers: list[str]) -> Any:
    if kind == "csv":
        path.write_text(f"at,{column}\n" + "".join(f"{at},{number}\n" for at, number in enumerate(numbers)))
        return dm.io.ReadCsv(str(path), event_time="at")
    path.write_text("".join(f'{{"at": {at}, "{column}": {number}}}\n' for at, number in enumerate(numbers)))
    return dm.io.ReadJson(str(path), event_time="at")


KINDS = pytest.mark.parametrize("kind", ["csv", "json"])


@KINDS
def test_whole_numbers_up_to_64_bits_without_a_sign_are_kept_exactly(tmp_path: pathlib.Path, kind: str) -> None:
    source = _write(tmp_path / "rows", kind, "id", ["7", str(LARGE), str(2**64 - 1)])
    rows, reasons = _read(source)
    assert [row.id for row in rows] == [7, LARGE, 2**64 - 1]
    assert not reasons


@KINDS
@pytest.mark.parametrize(
    "number", [str(2**64), str(-(2**63) - 1), "9" * 5_000], ids=["2**64", "-2**63-1", "5,000 digits"]
)
def test_a_whole_number_beyond_64_bits_is_a_bad_row_with_a_reason(
    tmp_path: pathlib.Path, kind: str, number: str
) -> None:
    rows, [reason] = _read(_write(tmp_path / "rows", kind, "id", ["-7", number, "9007199254740993"]))
    assert [row.id for row in rows] == [-7, 9_007_199_254_740_993]
    assert "column 'id' is int64 and cannot hold " in reason
    assert reason.endswith("; pa.decimal128(38, 0) in `schema` could") == (len(number) <= 38)


@KINDS
def test_a_column_with_fractions_is_one_of_floats(tmp_path: pathlib.Path, kind: str) -> None:
    rows, reasons = _read(_write(tmp_path / "rows", kind, "share", ["0.5", "1", str(2**70)]))
    assert [row.share for row in rows] == [0.5, 1.0, float(2**70)]
    assert not reasons


def test_whole_numbers_inside_json_values_are_kept_exactly(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows"
    path.write_text(json.dumps({"at": 1, "a": {"ids": [1, LARGE], "share": 0.5}}) + "\n")
    rows, _ = _read(dm.io.ReadJson(str(path), event_time="at"))
    assert rows[0].a == {"ids": [1, LARGE], "share": 0.5}


@pytest.mark.parametrize("micros", [2**63 - 1, -(2**63)])
def test_an_event_time_at_infinity_is_a_bad_row(tmp_path: pathlib.Path, micros: int) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"at": [5, micros], "v": [1, 2]}), path)
    rows, [reason] = _read(dm.io.ReadParquet(str(path), event_time="at"))
    assert [row.v for row in rows] == [1]
    assert (
        reason == f"rows.parquet, row 1: column 'at' holds {micros}, which is not an instant: the row has no event time"
    )


@pytest.mark.parametrize(
    "column",
    [
        pa.array([2**63 - 1, -(2**63)]),
        pa.array([2**63 - 1, 2**63], pa.uint64()),
        pa.array([2**63 - 1, -(2**63)]).cast(pa.timestamp("us", "UTC")),
        pa.array([2**62, -(2**62)], pa.timestamp("s")),
        pa.array([2**63 - 1, None]),
    ],
    ids=lambda column: str(column.type),
)
def test_instants_that_would_equal_infinity_are_bad_rows(column: pa.Array) -> None:
    columns = split_columns(pa.record_batch({"at": column, "v": [1, 2]}), "at", None)
    assert [bad.index for bad in columns.bad] == [0, 1]
    clocked = split_columns(pa.record_batch({"at": [1, 2], "seen": column}), "at", "seen")
    assert [bad.index for bad in clocked.bad] == [0, 1]


def test_the_last_instants_before_infinity_are_event_times() -> None:
    columns = split_columns(pa.record_batch({"at": [2**63 - 2, -(2**63) + 1]}), "at", None)
    assert columns.event_times is not None
    assert columns.event_times.tolist() == [2**63 - 2, -(2**63) + 1]
    assert not columns.bad


def test_an_element_cannot_have_the_event_time_of_the_end() -> None:
    for infinity in (dm.MAX_TIMESTAMP, "+inf", float("inf")):
        with pytest.raises(dm.InvalidArgument, match=r"cannot have the event time \+∞, got .*\nHint: "):
            dm.TimestampedValue("a", infinity)
        with pytest.raises(dm.InvalidArgument, match=r"cannot have the event time \+∞"):
            TestStream().add("a", infinity)
    with pytest.raises(dm.UserCodeError, match=r"(?s)\+∞.*transform: 'WithTimestamps'"), dm.Pipeline() as p:
        _ = p | dm.Create([1]) | dm.WithTimestamps(lambda _: dm.MAX_TIMESTAMP) | dm.io.Collect()


def test_an_element_may_have_the_event_time_of_the_beginning() -> None:
    assert dm.TimestampedValue("a", dm.MIN_TIMESTAMP).event_time == dm.MIN_TIMESTAMP
    TestStream().add("a", dm.MIN_TIMESTAMP)


def _deep(depth: int) -> str:
    return "[" * depth + "]" * depth


def test_a_json_line_that_is_nested_too_deep_is_a_bad_row(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows"
    brackets = json.dumps("[{" * 2_000 + '"')  # in text they nest nothing
    path.write_text(
        f'{{"at": 1, "a": [[1]], "b": {brackets}}}\n{{"at": 2, "a": {_deep(2_000)}}}\n{{"at": 3, "a": {_deep(2)}}}\n'
    )
    rows, [reason] = _read(dm.io.ReadJson(str(path), event_time="at"))
    assert [(int(row.at), row.a) for row in rows] == [(1, [[1]]), (3, [[]])]
    assert "it is nested more than 100 deep" in reason


@pytest.mark.parametrize("schema", [None, pa.schema({"a": pa.list_(pa.int64())})], ids=["inferred", "given"])
def test_a_value_that_is_nested_too_deep_is_a_dead_letter_of_a_sink(tmp_path: pathlib.Path, schema: Any) -> None:
    with dm.Pipeline() as p:
        _ = p | dm.Create([{"a": [1]}, {"a": json.loads(_deep(900))}]) | dm.io.WriteJson(str(tmp_path), schema=schema)
    [file] = tmp_path.glob("part-*")
    assert json.loads(file.read_text()) == {"a": [1]}
    [letters] = (tmp_path / "_dead_letters").iterdir()
    letter = json.loads(letters.read_text())
    assert "cannot hold" in letter["reason"]
    assert letter["label"] == "WriteJson"


def test_a_time_beyond_datetime_in_a_clock_is_shown_as_a_number() -> None:
    column = pa.array([2**63 - 1, 0]).cast(pa.timestamp("us", "UTC"))
    [bad] = split_columns(pa.record_batch({"at": column}), "at", None).bad
    assert bad.reason.startswith(f"column 'at' holds {2**63 - 1}, which is not an instant")
    assert bad.row == {"at": 2**63 - 1}


@pytest.mark.parametrize("schema", [None, pa.schema({"at": pa.int64(), "a": pa.int64()})], ids=["inferred", "given"])
def test_a_json_line_that_is_null_is_a_bad_row_wherever_it_is(tmp_path: pathlib.Path, schema: pa.Schema | None) -> None:
    for index in range(3):
        lines = ['{"at": 1, "a": 1}', '{"at": 2, "a": null}']
        lines.insert(index, " null")
        (tmp_path / "rows.json").write_text("".join(f"{line}\n" for line in lines))
        good, reasons = _read(dm.io.ReadJson(str(tmp_path / "rows.json"), event_time="at", schema=schema))
        assert ([row.a for row in good], len(reasons)) == ([1, None], 1)
        assert "it is not an object" in reasons[0]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_written_in_the_unit_of_the_column_or_are_dead_letters(tmp_path: pathlib.Path, unit: str) -> None:
    schema = pa.schema({"value": pa.duration(unit)})
    with dm.Pipeline() as p:
        lasting = p | dm.Create([dm.duration(5), dm.duration(7), dm.duration(0.0005)])
        _ = lasting | "out" >> dm.io.WriteParquet(str(tmp_path), schema=schema)
    assert p.result is not None
    written = sum(int(value) for value in pq.read_table(tmp_path)["value"].cast(pa.int64()).to_pylist())
    fits = unit in {"us", "ns"}
    factor = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    assert written == 12 * factor + (factor // 2_000 if fits else 0)
    assert p.result.metrics()["out"].get("dead_letters", 0) == int(not fits)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.list_(pa.int64()), [1, 1.5]),
        (pa.struct({"a": pa.int64()}), {"a": 1.5}),
        (pa.map_(pa.string(), pa.int64()), {"a": 1.5}),
        (pa.list_(pa.list_(pa.float64())), [[True]]),
        (pa.list_(pa.date32()), [dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)]),
        (pa.time32("s"), dt.time(1, 2, 3, 4)),
        (pa.duration("s"), dt.timedelta(milliseconds=1)),
    ],
    ids=str,
)
def test_a_value_that_a_column_would_change_is_a_dead_letter(
    tmp_path: pathlib.Path, kind: pa.DataType, value: Any
) -> None:
    with dm.Pipeline() as p:
        rows = p | dm.Create([{"v": value}])
        _ = rows | "out" >> dm.io.WriteParquet(str(tmp_path), schema=pa.schema({"v": kind}))
    assert p.result is not None
    assert p.result.metrics()["out"]["dead_letters"] == 1


def test_a_first_line_that_is_null_behind_a_byte_order_mark_is_a_bad_row(tmp_path: pathlib.Path) -> None:
    (tmp_path / "rows.json").write_bytes(b'\xef\xbb\xbfnull\n{"at": 1, "a": 1}\n')
    good, reasons = _read(dm.io.ReadJson(str(tmp_path / "rows.json"), event_time="at"))
    assert ([row.a for row in good], len(reasons)) == ([1], 1)


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["+1", "2", "-3"], [1.0, 2.0, -3.0]),
        (["+1.5"], [1.5]),
        (["1", "+18446744073709551615"], ["1", "+18446744073709551615"]),
    ],
)
def test_whole_numbers_with_a_plus_sign_are_floats_or_text_if_floats_would_round_them(
    tmp_path: pathlib.Path, texts: list[str], values: list[Any]
) -> None:
    (tmp_path / "a.csv").write_text("\n".join(["n", *texts, ""]))
    source = CsvSource(paths=tmp_path, event_time=None).bound()
    [batch] = source.read("a.csv", 0, None)
    assert [row.n for row in source.decode(batch).values] == values
