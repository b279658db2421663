"""Rows as instances of a class: what sinks write of it is read back as it, and what does not fit is a bad row."""

from __future__ import annotations

import dataclasses
import datetime as dt
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import hypothesis.strategies as st
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, SourceError, UserCodeError

AT = dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)


class Named(NamedTuple):
    at: dt.datetime
    carrier: str
    delay: int | None


@dataclasses.dataclass(frozen=True)
class Data:
    at: dt.datetime
    carrier: str
    delay: int | None = None


@attrs.frozen(kw_only=True)
class Attrs:
    at: dt.datetime
    delay: int | None
    carrier: str = attrs.field(validator=attrs.validators.max_len(2))


CLASSES: tuple[Any, ...] = (Named, Data, Attrs)


class Gate(NamedTuple):
    name: str
    size: int | None


class Nested(NamedTuple):
    at: dm.EventTime
    wait: dm.Duration | None
    gates: tuple[Gate, ...]
    first: Gate | None
    sizes: dict[str, int]
    seen: frozenset[int]


GATES = st.builds(Gate, st.text("ab", min_size=1, max_size=2), st.none() | st.integers(-9, 9))
NESTED = st.builds(
    Nested,
    st.integers(0, 2**50).map(dm.EventTime),
    st.none() | st.integers(0, 2**40).map(lambda micros: dm.Duration(micros=micros)),
    st.lists(GATES, max_size=2).map(tuple),
    st.none() | GATES,
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 9), max_size=2),
    st.frozensets(st.integers(0, 9), max_size=2),
)
FORMATS = [
    (dm.io.WriteCsv, dm.io.ReadCsv),
    (dm.io.WriteJson, dm.io.ReadJson),
    (dm.io.WriteParquet, dm.io.ReadParquet),
]


def read(source: Any, runner: Any = None) -> tuple[list[Any], list[str]]:
    """Return the rows, and the reasons of the bad ones."""
    p = dm.Pipeline(runner)
    rows, bad = p | "read" >> source.with_exception_handling()
    _ = rows | "rows" >> dm.io.Collect()
    _ = bad | dm.Map(lambda letter: letter.reason) | "bad" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    values = [[record.value for record in result.collected(label)] for label in ("rows", "bad")]
    return values[0], values[1]


def sources(folder: Path, table: pa.Table, kind: Any) -> list[Any]:
    """Return a table as a source of each kind."""
    for name in ("csv", "json", "parquet"):
        Path(folder, name).mkdir()
    rows = table.to_pylist()
    pq.write_table(table, folder / "parquet" / "a")
    text = "\n".join(",".join("" if value is None else str(value) for value in row.values()) for row in rows)
    Path(folder, "csv", "a").write_text(f"{','.join(table.column_names)}\n{text}\n")
    with dm.Pipeline() as p:
        made = p | dm.Create(rows)
        _ = made | dm.io.WriteJson(folder / "json" / "out", schema=table.schema)
    json = folder / "json" / "out"
    return [
        dm.io.ReadCsv(folder / "csv", event_time="at", row_type=kind),
        dm.io.ReadJson(json, event_time="at", row_type=kind),
        dm.io.ReadParquet(folder / "parquet", event_time="at", row_type=kind),
        dm.io.ReadTable(table, event_time="at", row_type=kind),
    ]


def table_of(*rows: tuple[Any, ...]) -> pa.Table:
    schema = pa.schema({"at": pa.timestamp("us", "UTC"), "delay": pa.int64(), "carrier": pa.string()})
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_reader_creates_instances_of_row_type(kind: Any, tmp_path: Path) -> None:
    expected = [kind(at=AT, carrier="UA", delay=4), kind(at=AT, carrier="AA", delay=None)]
    for source in sources(tmp_path, table_of((AT, 4, "UA"), (AT, None, "AA")), kind):
        rows, bad = read(source)
        assert [type(row) for row in rows] == [kind, kind]
        assert (rows, bad) == (expected, [])


@given(st.lists(NESTED, min_size=1, max_size=4), st.sampled_from(FORMATS))
def test_instances_written_by_a_sink_are_read_back_as_equal_instances(rows: list[Nested], way: Any) -> None:
    write, reader = way
    with tempfile.TemporaryDirectory() as folder:
        with dm.Pipeline() as p:
            _ = p | dm.Create(rows).with_output_types(Nested) | write(Path(folder, "out"))
        back, bad = read(reader(Path(folder, "out"), event_time="at", row_type=Nested))
    assert bad == []
    assert sorted(map(repr, back)) == sorted(map(repr, rows))


def test_null_is_accepted_only_by_a_field_whose_type_includes_none(tmp_path: Path) -> None:
    table = table_of((AT, 4, None), (AT, None, "AA"))
    [good], [reason] = read(dm.io.ReadTable(table, event_time="at", row_type=Named))
    assert good == Named(AT, "AA", None)
    assert reason == "ValueError: null does not fit Named.carrier, which is str; str | None would hold it"
    p = dm.Pipeline()
    _ = p | dm.io.ReadTable(table, event_time="at", row_type=Named) | dm.io.Collect()
    with pytest.raises(UserCodeError, match=r"null does not fit Named\.carrier"):
        p.run().wait_until_finish()


def test_a_row_that_the_class_rejects_is_a_bad_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"at,delay,carrier\n{AT},1,UA\n{AT},2,UAL\n{AT},x,UA\n")
    [row], reasons = read(dm.io.ReadCsv(path, event_time="at", row_type=Attrs))
    assert row == Attrs(at=AT, delay=1, carrier="UA")
    assert len(reasons) == 2
    assert any("Length of 'carrier' must be <= 2" in reason for reason in reasons)
    assert any("column 'delay' is int64 and cannot hold 'x'" in reason for reason in reasons)


def test_narrower_columns_and_additional_columns_are_accepted(tmp_path: Path) -> None:
    table = pa.table(
        {
            "gate": [1],
            "delay": pa.array([4], pa.int16()),
            "at": pa.array([AT], pa.timestamp("ms", "UTC")),
            "carrier": pa.array(["UA"]).dictionary_encode(),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    for source in (
        dm.io.ReadTable(table, event_time="at", row_type=Named),
        dm.io.ReadParquet(tmp_path, event_time="at", row_type=Named),
    ):
        assert read(source) == ([Named(AT, "UA", 4)], [])


def test_the_event_time_may_be_a_column_that_is_not_a_field() -> None:
    class Carrier(NamedTuple):
        carrier: str

    p = dm.Pipeline()
    _ = p | dm.io.ReadTable(table_of((AT, 4, "UA")), event_time="at", row_type=Carrier) | "rows" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    [record] = result.collected("rows")
    assert (record.value, record.event_time.to_datetime()) == (Carrier("UA"), AT)


@pytest.mark.parametrize("runner", [dm.LocalRunner(), dm.LocalRunner(workers=2)])
def test_sinks_know_the_columns_on_every_local_runner(runner: Any, tmp_path: Path) -> None:
    p = dm.Pipeline(runner)
    rows = p | dm.io.ReadTable(table_of((AT, 4, "UA")), event_time="at", row_type=Named)
    assert rows.element_type is Named
    _ = rows | dm.io.WriteParquet(tmp_path / "out")
    p.run().wait_until_finish()
    assert pq.read_table(tmp_path / "out").to_pylist() == [{"at": AT, "carrier": "UA", "delay": 4}]


def test_a_stream_creates_instances_of_row_type(tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.mkdir()
    Path(path, "a.csv").write_text(f"at,delay,carrier\n{AT},1,UA\n{AT},,\n{AT},x,UA\n")
    p = dm.Pipeline(dm.LocalRunner(checkpoint=str(tmp_path / "checkpoint")))
    source = dm.io.ReadCsv(path, event_time="at", follow=True, row_type=Named).with_exception_handling()
    rows, bad = p | source
    as_text = dm.Map(lambda row: f"{type(row).__name__} {row.carrier}").with_output_types(str)
    _ = rows | as_text | "rows" >> dm.io.WriteText(tmp_path / "rows")
    _ = bad | dm.Map(lambda letter: letter.reason).with_output_types(str) | dm.io.WriteText(tmp_path / "bad")
    p.run(until="drained").wait_until_finish()
    assert lines(tmp_path / "rows") == ["Named ", "Named UA"]  # an empty value of a text column is empty text
    [reason] = lines(tmp_path / "bad")
    assert "column 'delay' is int64 and cannot hold 'x'" in reason


def lines(folder: Path) -> list[str]:
    return sorted(line for file in folder.rglob("*.txt") for line in file.read_text().splitlines())


@pytest.mark.spark
def test_spark_creates_instances_of_row_type(spark: Any) -> None:
    table = table_of((AT, 4, None), (AT, None, "AA"))
    runner = dm.SparkRunner(spark)
    assert read(dm.io.ReadTable(table, event_time="at", row_type=Named), runner) == (
        [Named(AT, "AA", None)],
        ["ValueError: null does not fit Named.carrier, which is str; str | None would hold it"],
    )
    frame = spark.createDataFrame([(AT, 1, "UA")], "at timestamp, delay int, carrier string")
    assert read(dm.io.ReadDataFrame(frame, event_time="at", row_type=Data), runner) == ([Data(AT, "UA", 1)], [])


# ------------------------------------------------------------------------------------------------------------ errors


class Odd(NamedTuple):
    at: int
    number: complex


class Other(NamedTuple):
    at: dt.datetime
    gate: int


class Wrong(NamedTuple):
    at: dt.datetime
    carrier: int


@dataclasses.dataclass
class Computed:
    at: int
    double: int = dataclasses.field(init=False)


class Nothing(NamedTuple):
    pass


@pytest.mark.parametrize(
    ("kind", "error", "text"),
    [
        (Odd, InvalidType, r"no column has the type of Odd\.number, complex"),
        (Computed, InvalidType, r"Computed cannot be created from its fields at, double"),
        (Nothing, InvalidType, r"`row_type` must have at least one field, but Nothing has none"),
        (dict, InvalidType, r"`row_type` must be a NamedTuple, a dataclass or an attrs class, got <class 'dict'>"),
        (Other, InvalidArgument, r"Other has a field 'gate', but there is no such column"),
        (Wrong, InvalidArgument, r"column 'carrier' is string, but Wrong\.carrier is int"),
    ],
)
def test_a_row_type_that_does_not_fit_the_columns_is_rejected_when_the_pipeline_is_built(
    kind: Any, error: Any, text: str
) -> None:
    with pytest.raises(error, match=text):
        dm.io.ReadTable(table_of((AT, 4, "UA")), event_time="at", row_type=kind)


def test_a_schema_together_with_row_type_is_rejected(tmp_path: Path) -> None:
    reader: Any = dm.io.ReadCsv
    with pytest.raises(InvalidArgument, match="the fields of `row_type` are the columns, so there must be no `schema`"):
        reader(tmp_path, event_time="at", row_type=Named, schema=table_of().schema)


def test_the_error_for_a_time_without_an_offset_names_the_option(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("at,delay,carrier\n2013-01-01 05:00:00,1,UA\n")
    p = dm.Pipeline()
    _ = p | dm.io.ReadCsv(path, event_time="at", row_type=Named) | dm.io.Collect()
    with pytest.raises(SourceError, match="Hint: pass zone='UTC'"):
        p.run().wait_until_finish()
    assert read(dm.io.ReadCsv(path, event_time="at", row_type=Named, zone="UTC")) == ([Named(AT, "UA", 1)], [])
