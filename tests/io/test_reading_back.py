"""What the sinks of CSV and JSON write is read back as it was, given the schema."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
import tempfile
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.parquet.parquet_source import ParquetSource
from dataflow_model.io.sinks.file_sinks import CsvSink, FileSink, JsonSink, ParquetSink
from dataflow_model.plan.columns.records import Record
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dataflow_model.io.files.file_source import FileSource

_TIMES = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))  # noqa: DTZ001
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5) | st.sampled_from(["NaN", '"NaN"', "NA", ""])
_DURATIONS = st.timedeltas(dt.timedelta(days=-36_500), dt.timedelta(days=36_500))


def _cut(time: Any) -> Any:
    """Return a time in whole milliseconds."""
    return time.replace(microsecond=time.microsecond // 1_000 * 1_000)


COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "flag": (pa.bool_(), st.booleans()),
    "number": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "share": (pa.float64(), st.floats()),
    "text": (pa.string(), _TEXTS),
    "data": (pa.binary(), st.binary(max_size=5)),
    "at": (pa.timestamp("us", "UTC"), _TIMES.map(lambda time: time.replace(tzinfo=dt.UTC))),
    "local": (pa.timestamp("us"), _TIMES),
    "day": (pa.date32(), st.dates()),
    "clock": (pa.time64("us"), st.times()),
    "length": (pa.duration("us"), _DURATIONS),
    "at in ms": (pa.timestamp("ms", "UTC"), _TIMES.map(lambda time: _cut(time).replace(tzinfo=dt.UTC))),
    "clock in ms": (pa.time32("ms"), st.times().map(_cut)),
    "half": (pa.float16(), st.floats(width=16)),
    "length in ms": (pa.duration("ms"), st.integers(-(2**40), 2**40).map(lambda ms: dt.timedelta(milliseconds=ms))),
    "length in ns": (pa.duration("ns"), st.integers(-(2**62), 2**62).map(lambda ns: pd.Timedelta(ns, "ns"))),
    "price": (pa.decimal128(10, 2), st.decimals(-1000, 1000, places=2)),
    "shares": (pa.list_(pa.float64()), st.lists(st.floats() | st.none(), max_size=2)),
    "days": (pa.list_(pa.date32()), st.lists(st.dates(), max_size=2)),
    "moments": (pa.list_(pa.timestamp("ms")), st.lists(_TIMES.map(_cut), max_size=2)),
    "lengths": (pa.map_(pa.string(), pa.duration("us")), st.dictionaries(_TEXTS, _DURATIONS, max_size=2)),
    "row": (
        pa.struct({"text": pa.string(), "data": pa.binary(), "share": pa.float64()}),
        st.fixed_dictionaries({"text": _TEXTS, "data": st.binary(max_size=2), "share": st.floats() | st.none()}),
    ),
}
SCHEMA = pa.schema({name: kind for name, (kind, _) in COLUMNS.items()})
ROWS = st.lists(st.fixed_dictionaries({name: values | st.none() for name, (_, values) in COLUMNS.items()}), max_size=4)


def write(sink: FileSink, values: Sequence[dict[str, Any]]) -> None:
    writer = sink.open("0", "0")
    writer.write([Record(value, EventTime(0), GLOBAL_WINDOW, NO_FIRING) for value in values])
    message = writer.close()
    assert sink.counts([message])["dead_letters"] == 0
    sink.commit("0", [message])


def read(source: FileSource) -> list[str]:
    """Return the rows as texts, in which NaN is equal to itself."""
    parts = [source.decode(batch) for origin in source.origins() for batch in source.read(origin.name, 0, None)]
    assert not [bad for part in parts for bad in part.bad]
    return [repr(row) for part in parts for row in part.values]


@given(ROWS)
def test_all_formats_give_the_rows_that_were_written(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(ParquetSink(path=f"{folder}/parquet", schema=SCHEMA), rows)
        write(JsonSink(path=f"{folder}/json", schema=SCHEMA), rows)
        write(CsvSink(path=f"{folder}/csv", schema=SCHEMA, null="NA"), rows)
        if not rows:
            return
        expected = read(ParquetSource(paths=f"{folder}/parquet", event_time=None, given=SCHEMA))
        assert read(JsonSource(paths=f"{folder}/json", event_time=None, given=SCHEMA)) == expected
        options = CsvOptions(null_values=["NA"])
        assert read(CsvSource(paths=f"{folder}/csv", event_time=None, given=SCHEMA, options=options)) == expected


def test_lines_of_json_have_words_for_infinities_inside_lists(tmp_path: Path) -> None:
    write(JsonSink(path=tmp_path), [{"shares": [math.inf, 0.5], "row": {"share": -math.inf}}])
    [file] = tmp_path.glob("part-*")
    assert json.loads(file.read_text(), parse_constant=pytest.fail) == {
        "shares": ["Infinity", 0.5],
        "row": {"share": "-Infinity"},
    }


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.date32(), "2013-02-30"),
        (pa.date32(), 15706),
        (pa.time64("us"), "25:00"),
        (pa.duration("us"), "soon"),
        (pa.binary(), "no base64!"),
        (pa.float64(), "infinite"),
        (pa.map_(pa.string(), pa.int64()), [["a", 0.5]]),
        (pa.map_(pa.string(), pa.int64()), 5),
        (pa.map_(pa.string(), pa.float64()), [["a", True]]),
        (pa.map_(pa.string(), pa.string()), ["ab"]),
        (pa.large_list(pa.string()), "text"),
        (pa.list_(pa.date32()), ["today"]),
        (pa.struct({"day": pa.date32()}), {"day": "today"}),
    ],
)
def test_a_json_value_in_another_form_makes_its_row_a_bad_row(tmp_path: Path, kind: pa.DataType, value: Any) -> None:
    schema = pa.schema({"n": pa.int64(), "value": kind})
    (tmp_path / "a.json").write_text(f'{{"n": 1}}\n{json.dumps({"n": 2, "value": value})}\n{{"n": 3}}\n')
    source = JsonSource(paths=tmp_path, event_time=None, given=schema)
    [part] = [source.decode(batch) for batch in source.read("a.json", 0, None)]
    assert [row.n for row in part.values] == [1, 3]
    assert [bad.reason for bad in part.bad] == [f"column 'value' is {kind} and cannot hold {value!r}"]


def test_a_csv_value_in_another_form_makes_its_row_a_bad_row(tmp_path: Path) -> None:
    schema = pa.schema({"days": pa.list_(pa.date32()), "length": pa.duration("us"), "data": pa.binary()})
    (tmp_path / "a.csv").write_text('days,length,data\n[],1.5,VUE=\n[,1,VUE=\n[],x,VUE=\n[],,é\n"[""2013-01-01""]",,\n')
    source = CsvSource(paths=tmp_path, event_time=None, given=schema)
    [part] = [source.decode(batch) for batch in source.read("a.csv", 0, None)]
    assert part.values == [([], dt.timedelta(seconds=1.5), b"UA"), ([dt.date(2013, 1, 1)], None, b"")]
    assert [bad.reason.partition(" is ")[0] for bad in part.bad] == [
        "column 'days'",
        "column 'length'",
        "column 'data'",
    ]


def test_numbers_of_json_are_decimals_and_large_whole_numbers_floats(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '{"price": 12345678901234567890123, "share": 12345678901234567890123}\n{"share": "NaN"}\n'
    )
    schema = pa.schema({"price": pa.decimal128(38, 0), "share": pa.float64()})
    source = JsonSource(paths=tmp_path, event_time=None, given=schema)
    [part] = [source.decode(batch) for batch in source.read("a.json", 0, None)]
    assert part.values[0] == (decimal.Decimal(12345678901234567890123), 1.2345678901234568e22)
    assert math.isnan(part.values[1].share)


FINE: list[tuple[pa.DataType, Any, Any]] = [
    (pa.timestamp("ms"), "2013-01-01T05:00:00.000500", "2013-01-01T05:00:00.500000"),
    (pa.timestamp("s", "UTC"), "2013-01-01T05:00:00.500000Z", "2013-01-01T05:00:00.000000Z"),
    (pa.time32("ms"), "05:00:00.000500", "05:00:00.500000"),
    (pa.duration("ms"), 0.0005, 0.5),
]


@pytest.mark.parametrize(("kind", "finer", "held"), FINE)
@pytest.mark.parametrize("form", ["json", "csv"])
def test_a_fraction_that_is_too_fine_for_its_column_makes_a_bad_row(
    tmp_path: Path, form: str, kind: pa.DataType, finer: Any, held: Any
) -> None:
    lines = ["value", str(finer), str(held)] if form == "csv" else [json.dumps({"value": v}) for v in (finer, held)]
    (tmp_path / f"a.{form}").write_text("\n".join([*lines, ""]))
    source_type = CsvSource if form == "csv" else JsonSource
    source = source_type(paths=tmp_path, event_time=None, given=pa.schema({"value": kind}))
    [part] = [source.decode(batch) for batch in source.read(f"a.{form}", 0, None)]
    shown = repr(str(finer) if form == "csv" else finer)
    assert [bad.reason for bad in part.bad] == [f"column 'value' is {kind} and cannot hold {shown}"]
    assert part.positions.tolist() == [1]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.map_(pa.string(), pa.int64()), [("a", 1), ("b", None)]),
        (pa.list_(pa.map_(pa.string(), pa.list_(pa.int64()))), [[("a", [1, 2])], []]),
        (pa.large_list(pa.map_(pa.string(), pa.struct({"n": pa.int8()}))), [[("a", {"n": 1})]]),
        (pa.list_(pa.struct({"n": pa.int8()}), 1), [{"n": 1}]),
    ],
)
def test_rows_that_a_function_has_passed_on_are_written_as_they_were_read(
    tmp_path: Path, kind: pa.DataType, value: Any
) -> None:
    table = pa.table({"at": [1], "v": pa.array([value], kind)})
    with dm.Pipeline() as p:
        rows = p | dm.io.ReadTable(table, event_time="at") | dm.Map(lambda row: {"at": row.at, "v": row.v})
        _ = rows | dm.io.WriteParquet(tmp_path, schema=table.schema)
    assert pq.read_table(tmp_path).equals(table)


def test_texts_of_two_characters_are_not_taken_for_pairs_of_a_map(tmp_path: Path) -> None:
    with dm.Pipeline() as p:
        rows = p | dm.Create([{"v": ["ab"]}, {"v": [["a", "b"]]}])
        _ = rows | dm.io.WriteParquet(tmp_path, schema=pa.schema({"v": pa.map_(pa.string(), pa.string())}))
    assert pq.read_table(tmp_path).to_pylist() == [{"v": [("a", "b")]}]
