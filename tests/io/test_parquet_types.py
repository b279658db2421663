"""Parquet files of one folder whose types differ: what is read as the decided types, and what is a bad row."""

from __future__ import annotations

import datetime as dt
import math
import tempfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.io.parquet.parquet_source import ParquetSource
from dataflow_model.io.parquet.parquet_types import can_hold, fitted, widened

UTC = dt.UTC
WHOLE = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
NUMBERS = (*WHOLE, pa.float16(), pa.float32(), pa.float64(), pa.decimal128(6, 0), pa.decimal128(9, 2))
TEXTS = (pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.binary())
INSTANTS = tuple(pa.timestamp(unit, "UTC") for unit in ("s", "ms", "us", "ns"))
LENGTHS = tuple(pa.duration(unit) for unit in ("s", "ms", "us", "ns"))
LEAVES: tuple[tuple[tuple[pa.DataType, ...], st.SearchStrategy[Any]], ...] = (
    (NUMBERS, st.integers(0, 100)),
    (TEXTS, st.sampled_from(["", "UA", "ü"])),
    (INSTANTS, st.integers(0, 10**9).map(lambda second: dt.datetime.fromtimestamp(second, UTC))),
    (LENGTHS, st.integers(-(10**6), 10**6).map(lambda second: dt.timedelta(seconds=second))),
)


def nested(kind: pa.DataType, shape: str, draw: st.DrawFn) -> pa.DataType:
    nullable = draw(st.booleans())
    field = pa.field("x", kind, nullable)
    if shape == "struct":
        more = [pa.field("y", pa.string())] if draw(st.booleans()) else []
        return pa.struct(draw(st.permutations([field, *more])))
    if shape == "list":
        return draw(st.sampled_from([pa.list_, pa.large_list]))(field)
    return pa.map_(pa.string(), field) if shape == "map" else kind


def value_in(value: Any, shape: str) -> Any:
    return {"struct": {"x": value}, "list": [value, value], "map": [("k", value)]}.get(shape, value)


@st.composite
def drifted_files(draw: st.DrawFn) -> tuple[list[list[Any]], list[pa.DataType | None], pa.DataType]:
    """Draw the values of files, the type of each file's column (`None` if it has none), and the type to read."""
    kinds, values = draw(st.sampled_from(LEAVES))
    shape = draw(st.sampled_from(["plain", "struct", "list", "map"]))
    rows: list[list[Any]] = []
    types: list[pa.DataType | None] = []
    for _ in range(draw(st.integers(1, 4))):
        form = draw(st.sampled_from(["typed", "typed", "typed", "null", "missing"]))
        count = draw(st.integers(0, 4))
        if form == "typed":
            kind = nested(draw(st.sampled_from(kinds)), shape, draw)
            rows.append([value_in(draw(values), shape) if draw(st.booleans()) else None for _ in range(count)])
            types.append(kind)
        else:
            rows.append([None] * count)
            types.append(pa.null() if form == "null" else None)
    plain = {"struct": pa.struct({"x": kinds[3]}), "list": pa.list_(kinds[3]), "map": pa.map_(pa.string(), kinds[3])}
    wide = {NUMBERS: pa.int64(), TEXTS: pa.string(), INSTANTS: pa.timestamp("us", "UTC"), LENGTHS: pa.duration("us")}
    target = wide[kinds]
    plain = {"struct": pa.struct({"x": target}), "list": pa.list_(target), "map": pa.map_(pa.string(), target)}
    return rows, types, plain.get(shape, target)


def put(folder: Path, rows: list[list[Any]], types: list[pa.DataType | None], *, groups: int = 2) -> None:
    for number, (values, kind) in enumerate(zip(rows, types, strict=True)):
        columns: dict[str, Any] = {"at": pa.array(range(len(values)), pa.int64())}
        if kind is not None:
            columns["v"] = pa.array(values, kind)
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", row_group_size=groups)


def read(folder: Path, schema: pa.Schema | None = None) -> tuple[list[Any], list[str]]:
    """Read a folder; return the values and the reasons of the dead letters."""
    p = dm.Pipeline()
    rows, dead = p | dm.io.ReadParquet(folder, event_time=None, schema=schema).with_exception_handling()
    _ = rows | "rows" >> dm.io.Collect()
    _ = dead | "dead" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    values = [record.value.v for record in result.collected("rows")]
    return values, [record.value.reason for record in result.collected("dead")]


@given(drifted_files())
def test_files_with_drifted_types_are_read_with_one_common_type(
    case: tuple[list[list[Any]], list[pa.DataType | None], pa.DataType],
) -> None:
    rows, types, kind = case
    expected = pa.array([value for values in rows for value in values], kind)
    with tempfile.TemporaryDirectory() as folder:
        put(Path(folder), rows, types)
        source = ParquetSource(paths=folder, event_time=None, given=pa.schema({"at": pa.int64(), "v": kind}))
        batches = [
            batch
            for origin in source.origins()
            for start in range(0, origin.row_count, 3)
            for batch in source.read(origin.name, start, min(start + 3, origin.row_count))
        ]
    assert all(batch.schema == source.schema() for batch in batches)
    assert [value for batch in batches for value in batch.column("v").to_pylist()] == expected.to_pylist()


@given(st.lists(st.sampled_from(WHOLE), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_the_order_of_files_does_not_decide_the_width_of_a_column(kinds: list[pa.DataType], random: Any) -> None:
    if pa.uint64() in kinds and any(pa.types.is_signed_integer(kind) for kind in kinds):
        return  # no type of whole numbers holds both
    shuffled = random.sample(kinds, len(kinds))

    def decided(kinds: list[pa.DataType]) -> pa.DataType:
        kind = kinds[0]
        for other in kinds[1:]:
            kind = widened(kind, other)
        return kind

    for kind in kinds:
        assert fitted(pa.array([2**kind.bit_width // 4], kind), decided(kinds)).to_pylist() == [2**kind.bit_width // 4]
    assert decided(kinds).bit_width == decided(shuffled).bit_width


@example(2**53 + 1, pa.int64(), pa.float64())
@example(2**63 - 1, pa.int64(), pa.float64())
@example(2**60, pa.int64(), pa.float64())
@given(st.integers(-(2**63), 2**64 - 1), st.sampled_from(WHOLE), st.sampled_from(NUMBERS))
def test_a_number_is_converted_exactly_or_its_row_is_bad(number: int, kind: pa.DataType, other: pa.DataType) -> None:
    try:
        column = pa.array([number], kind)
    except (pa.ArrowInvalid, OverflowError):
        return
    try:
        [result] = fitted(column, other).to_pylist()
    except ValueError:
        assert not pa.types.is_integer(other) or not _is_within(number, other)
    else:
        assert result == number


def _is_within(number: int, kind: pa.DataType) -> bool:
    signed = pa.types.is_signed_integer(kind)
    bits = kind.bit_width - signed
    return bool((-(2**bits) if signed else 0) <= number < 2**bits)


@given(st.floats(), st.sampled_from([pa.float32(), pa.float64()]), st.sampled_from(NUMBERS))
def test_a_fraction_is_converted_exactly_or_its_row_is_bad(
    number: float, kind: pa.DataType, other: pa.DataType
) -> None:
    column = pa.array([number]).cast(kind, safe=False)
    [number] = column.to_pylist()
    try:
        [result] = fitted(column, other).to_pylist()
    except ValueError:
        assert other not in (kind, pa.float64())
    else:
        [again] = pa.array([float(result)]).cast(kind, safe=False).to_pylist()
        assert again == number or math.isnan(number)


@pytest.mark.parametrize(
    ("first", "second", "values", "reason"),
    [
        (pa.int64(), pa.float64(), [1.0, 1.5, None], "column 'v' is int64 and cannot hold 1.5"),
        (pa.int32(), pa.float64(), [1.0, 2.0**31, None], "column 'v' is int32 and cannot hold 2147483648.0"),
        (pa.float64(), pa.int64(), [1, 2**53 + 1, None], "column 'v' is double and cannot hold 9007199254740993"),
        (pa.float64(), pa.decimal128(18, 0), [1, 2**53 + 1, None], "is double and cannot hold Decimal('9007"),
        (pa.timestamp("us"), pa.timestamp("ns"), [1000, 1001, None], "is timestamp[us] and cannot hold Timestamp("),
        (pa.timestamp("ns"), pa.timestamp("us"), [1000, 2**62, None], "is timestamp[ns] and cannot hold 46116860184"),
        (pa.string(), pa.binary(), [b"x", b"\xff", None], r"column 'v' holds b'\xff', which is not UTF-8"),
        (pa.list_(pa.int8()), pa.list_(pa.int64()), [[1], [1, 300], None], "cannot hold [1, 300]"),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_makes_its_row_a_bad_row(
    first: pa.DataType, second: pa.DataType, values: list[Any], reason: str, tmp_path: Path
) -> None:
    put(tmp_path, [[None]], [first])
    pq.write_table(pa.table({"at": [1, 2, 3], "v": pa.array(values, second)}), tmp_path / "1.parquet")
    schema = pa.schema({"at": pa.int64(), "v": first})
    rows, letters = read(tmp_path, schema)
    assert len(rows) == 3
    assert rows[0] is rows[2] is None
    [letter] = letters
    assert letter.startswith("1.parquet, row 1: ")
    assert reason in letter
    with pytest.raises(dm.SourceError) as error, dm.Pipeline() as p:
        _ = p | "rows" >> dm.io.ReadParquet(tmp_path, event_time=None, schema=schema)
    assert str(error.value).startswith("'rows' cannot read row 1 of 1.parquet: column 'v' ")
    assert ".with_exception_handling()" in str(error.value)
    assert "schema=" in str(error.value) or "UTF-8" in str(error.value)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [
        (pa.string(), "b'?'"),
        (pa.dictionary(pa.int32(), pa.string()), "b'?'"),
        (pa.struct({"x": pa.large_string()}), "{'x': b'?'}"),
        (pa.list_(pa.string()), "[b'?', b'?']"),
        (pa.map_(pa.string(), pa.string()), "[(b'k', b'?')]"),
    ],
    ids=str,
)
def test_text_that_is_not_utf_8_makes_its_row_a_bad_row(kind: pa.DataType, shape: str, tmp_path: Path) -> None:
    name = {"s": "struct", "l": "list", "m": "map"}[str(kind)[0]] if pa.types.is_nested(kind) else "plain"
    values = [value_in(text, name) for text in ("UA", "AA\1", "ü", "UA")]
    pq.write_table(pa.table({"at": range(4), "v": pa.array(values, kind)}), tmp_path / "0.parquet", compression="none")
    content = (tmp_path / "0.parquet").read_bytes()
    (tmp_path / "0.parquet").write_bytes(content.replace(b"AA\1", b"AA\xff"))
    rows, [letter] = read(tmp_path)
    assert rows == [values[place] for place in (0, 2, 3)]
    held = shape.replace("?", "AA\\xff")
    assert letter == f"0.parquet, row 1: column 'v' holds {held}, which is not UTF-8"
    with (
        pytest.raises(dm.SourceError, match=r"row 1 of 0\.parquet: column 'v' holds .*, which is not UTF-8"),
        dm.Pipeline() as p,
    ):
        _ = p | dm.io.ReadParquet(tmp_path, event_time=None)
    source = ParquetSource(paths=tmp_path, event_time=None).bound()
    bad = [sum(len(source.decode(batch).bad) for batch in source.read("0.parquet", row, row + 1)) for row in range(4)]
    assert bad == [0, 1, 0, 0]


def test_a_row_that_does_not_fit_is_bad_even_if_its_column_is_not_needed(tmp_path: Path) -> None:
    put(tmp_path, [[1], [1.5, 2.0]], [pa.int64(), pa.float64()])
    source = ParquetSource(paths=tmp_path, event_time="at").bound()
    columns = source.project(["at"])
    assert columns.schema().names == ["at"]
    decoded = [columns.decode(batch) for batch in columns.read("1.parquet", 0, None)]
    assert [bad.reason for rows in decoded for bad in rows.bad] == ["column 'v' is int64 and cannot hold 1.5"]


def test_types_are_inferred_from_all_files_present_at_the_start(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[None], [1], [300], [2**40], [1.0, None]]
    put(tmp_path, rows, [pa.null(), pa.int8(), pa.int16(), pa.int64(), pa.float64()])
    none = pa.table({"at": pa.array([], pa.string()), "v": pa.array([], pa.string()), "w": pa.array([], pa.string())})
    pq.write_table(none, tmp_path / "-1.parquet")
    (tmp_path / "-2.parquet").write_text("no Parquet")
    assert ParquetSource(paths=tmp_path, event_time="at").schema() == pa.schema({"at": pa.int64(), "v": pa.int64()})
    (tmp_path / "-2.parquet").unlink()
    assert read(tmp_path) == ([value for values in rows for value in values], [])


def test_columns_that_a_file_lacks_are_null_and_those_that_it_adds_are_ignored(tmp_path: Path) -> None:
    inner = pa.struct({"x": pa.int64(), "y": pa.string()})
    put(tmp_path, [[{"x": 1, "y": "a"}]], [inner])
    pq.write_table(pa.table({"w": [7], "at": [1], "v": [{"z": 1, "x": 2}]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"at": [1]}), tmp_path / "2.parquet")
    assert read(tmp_path) == ([{"x": 1, "y": "a"}, {"x": 2, "y": None}, None], [])


def test_timestamps_of_type_int96_are_read_in_microseconds_even_together_with_utc_timestamps(tmp_path: Path) -> None:
    instants = [dt.datetime(9999, 12, 31, tzinfo=UTC), dt.datetime(1600, 1, 1, tzinfo=UTC), None]
    column = pa.array(instants, pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"v": column}), tmp_path / "0.parquet")
    plain = pa.table({"v": column.cast(pa.timestamp("us"))})
    pq.write_table(plain, tmp_path / "1.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    assert read(tmp_path) == (instants * 2, [])
    (tmp_path / "0.parquet").unlink()
    source = ParquetSource(paths=tmp_path, event_time="v").bound()
    [rows] = [source.decode(batch) for batch in source.read("1.parquet", 0, 2)]
    assert rows.event_times is not None
    assert rows.event_times.tolist() == [253402214400000000, -11676096000000000]
    pq.write_table(plain, tmp_path / "0.parquet")  # this time without a zone, and not INT96
    pq.write_table(pa.table({"v": column}), tmp_path / "2.parquet")
    _, [letter] = read(tmp_path)
    assert letter.endswith("column 'v' is timestamp[us, tz=UTC], not timestamp[us]")


def test_rows_are_counted_by_row_groups_and_not_by_the_footer(tmp_path: Path) -> None:
    file = tmp_path / "0.parquet"
    pq.write_table(pa.table({"at": range(6), "v": range(6)}), file, row_group_size=4)
    data = file.read_bytes()
    index = data.rfind(b"\x16\x0c\x19")  # the number of rows in the footer, before the list of row groups
    assert index > 0
    file.write_bytes(data[: index + 1] + b"\x00" + data[index + 2 :])
    assert pq.ParquetFile(file).metadata.num_rows == 0
    source = ParquetSource(paths=tmp_path, event_time="at").bound()
    assert source.row_count() == 6
    assert [row for batch in source.read("0.parquet", 3, 5) for row in batch.column("v").to_pylist()] == [3, 4]
    assert read(tmp_path) == (list(range(6)), [])


def test_files_without_columns_rows_or_row_groups_have_no_rows(tmp_path: Path) -> None:
    put(tmp_path, [[1]], [pa.int64()])
    pq.write_table(pa.table({}), tmp_path / "1.parquet")
    schema = pa.schema({"at": pa.int64(), "v": pa.int64()})
    with pq.ParquetWriter(tmp_path / "2.parquet", schema) as writer:
        empty = schema.empty_table()
        writer.write_table(empty)
        writer.write_table(pa.table({"at": [1], "v": [2]}, schema))
        writer.write_table(empty)
    with pq.ParquetWriter(tmp_path / "3.parquet", schema):
        pass
    pq.write_table(pa.table({"at": pa.array([], pa.string())}), tmp_path / "4.parquet")
    assert read(tmp_path) == ([1, 2], [])


def test_decimals_of_several_scales_are_read_exactly(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[Decimal("1.25")], [Decimal(12345678901)], [3], [0.5]]
    put(tmp_path, rows, [pa.decimal128(5, 2), pa.decimal128(11, 0), pa.int64(), pa.float64()])
    assert ParquetSource(paths=tmp_path, event_time="at").schema().field("v").type == pa.decimal128(13, 2)
    assert read(tmp_path) == ([Decimal("1.25"), Decimal(12345678901), Decimal(3), Decimal("0.5")], [])


@pytest.mark.parametrize(
    ("kind", "other"),
    [
        (pa.int64(), pa.string()),
        (pa.int64(), pa.bool_()),
        (pa.int64(), pa.timestamp("us")),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.date32(), pa.timestamp("us")),
        (pa.struct({"x": pa.int64()}), pa.struct({"y": pa.int64()})),
        (pa.list_(pa.int64()), pa.list_(pa.string())),
        (pa.list_(pa.int64()), pa.int64()),
    ],
    ids=str,
)
def test_incompatible_types_are_not_unified(kind: pa.DataType, other: pa.DataType) -> None:
    assert not can_hold(kind, other)
    assert not can_hold(other, kind)
    assert widened(kind, other) == kind
