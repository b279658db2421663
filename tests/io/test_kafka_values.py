"""The values of messages in columns: what is read, what is a bad row, and for which reason; without a broker."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.io.topics.decoding.values import FunctionValues, JsonValues, in_columns

COLUMNS = pa.schema({"carrier": pa.string(), "delay": pa.int64()})


def rows(values: list[bytes | None], form: Any = None, columns: pa.Schema = COLUMNS) -> list[dict[str, Any] | str]:
    """Return the fields of each value, or why it is a bad row."""
    table = in_columns(pa.array(values, pa.binary()), form or JsonValues(), columns)
    return [
        row["__bad__"]["reason"] if row.get("__bad__") else {name: row[name] for name in columns.names}
        for row in table.to_pylist()
    ]


def texts(values: list[bytes | None], form: Any = None) -> list[str | None]:
    table = in_columns(pa.array(values, pa.binary()), form or JsonValues(), COLUMNS)
    return [None if mark is None else mark["text"] for mark in table["__bad__"].to_pylist()]


def test_fields_are_read_by_name_and_others_are_ignored() -> None:
    assert rows([b'{"delay": 4, "gate": [1], "carrier": "UA"}', b"{}"]) == [
        {"carrier": "UA", "delay": 4},
        {"carrier": None, "delay": None},
    ]


def test_a_tombstone_is_a_row_of_nulls_at_any_position() -> None:
    nulls = {"carrier": None, "delay": None}
    good = {"carrier": "UA", "delay": 4}
    value = b'{"carrier": "UA", "delay": 4}'
    assert rows([None]) == [nulls]
    assert rows([None, value, None]) == [nulls, good, nulls]
    assert rows([None, b"5", None, value])[2:] == [nulls, good]


def test_an_object_may_extend_over_several_lines() -> None:
    pretty = b'{\r\n  "carrier": "UA",\n  "delay": 4\n}\n'
    assert rows([pretty, b'{"delay": 5}', pretty]) == [
        {"carrier": "UA", "delay": 4},
        {"carrier": None, "delay": 5},
        {"carrier": "UA", "delay": 4},
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "it is not JSON: Expecting value"),
        (b"null", "it is not an object"),
        (b"[5]", "it is not an object"),
        (b"{}{}", "it is not JSON: Extra data"),
        (b'{"delay": 4}\n{"delay": 5}', "it is not JSON: Extra data"),
        (b'{"carrier": "U\nA"}', "it is not JSON: Invalid control character"),
        (b'{"delay": "four"}', "column 'delay' is int64 and cannot hold 'four'"),
        (b'{"delay": 1e400}', "column 'delay' is int64 and cannot hold 1e400"),
        (b'{"carrier": "\xe9"}', "it is not UTF-8"),
        (b"\x00\x00\x00\x00\x07avro", "it is not JSON"),
    ],
)
def test_only_values_that_are_not_one_object_with_fields_of_the_types_are_bad_rows(value: bytes, reason: str) -> None:
    good = b'{"delay": 4}'
    for values in ([value], [good, value, good], [None, value, good], [b"{\n}", value, good]):
        found = rows(list(values))
        index = values.index(value)
        assert isinstance(found[index], str)
        assert str(found[index]).startswith(reason)
        assert not any(isinstance(row, str) for at, row in enumerate(found) if at != index)


def test_the_text_of_a_bad_row_is_the_value() -> None:
    assert texts([b'{"delay": 4}', b'{"delay":\n "x",\n}', b"\xff"]) == [None, '{"delay":\n "x",\n}', "\\xff"]


@given(st.lists(st.none() | st.integers(-9, 9) | st.sampled_from(["{", "5\n", '{"delay":\n"x"}', ""]), max_size=40))
def test_each_value_is_read_as_it_would_be_alone(drawn: list[Any]) -> None:
    values: list[bytes | None] = [
        None if value is None else (value if isinstance(value, str) else json.dumps({"delay": value})).encode()
        for value in drawn
    ]
    assert rows(values) == [row for value in values for row in rows([value])]


def test_a_function_of_the_user_can_read_the_fields() -> None:
    def parse(value: bytes) -> dict[str, Any]:
        carrier, delay = value.decode().split(",")
        return {"carrier": carrier, "delay": int(delay)}

    found = rows([b"UA,4", None, b"UA", b"UA,x"], FunctionValues(parse))
    assert found[:2] == [{"carrier": "UA", "delay": 4}, {"carrier": None, "delay": None}]
    assert found[2] == "the function raised ValueError: not enough values to unpack (expected 2, got 1)"
    assert str(found[3]).startswith("the function raised ValueError: invalid literal for int()")


def test_a_function_that_does_not_return_a_dict_that_fits_the_columns_gives_a_bad_row() -> None:
    results = {
        b"a": 5,
        b"b": {"carrier": None, "delay": 0.5},
        b"c": {"carrier": None, "delay": 7},
        b"d": None,
        b"e": {"carrier": "UA", "dealy": 7},
        b"f": {"delay": 7},
    }
    assert rows([*results], FunctionValues(lambda value: results[value])) == [  # type: ignore[arg-type,return-value]
        "the function must return a dict of the fields, got 5",
        "column 'delay' is int64 and cannot hold 0.5 of type float",
        {"carrier": None, "delay": 7},
        "the function must return a dict of the fields, got None",
        "the function returned other fields: there is no column 'dealy'; the columns are carrier, delay",
        "the function returned other fields: the field 'carrier' is missing; the columns are carrier, delay",
    ]


@pytest.mark.parametrize("nested", [False, True])
def test_an_instant_without_a_time_zone_gives_a_bad_row(nested: bool) -> None:
    aware, kind = dt.datetime(2013, 1, 1, tzinfo=dt.UTC), pa.timestamp("us", "UTC")
    columns = pa.schema({"at": pa.list_(kind) if nested else kind})

    def found(at: Any) -> Any:
        table = in_columns(pa.array([b"x"]), FunctionValues(lambda _: {"at": [at] if nested else at}), columns)
        return table.column(1).to_pylist()[0]["reason"] if table.num_columns > 1 else table["at"].to_pylist()

    reason = found(aware.replace(tzinfo=None))
    assert "cannot hold" in reason
    assert "an instant needs a time zone, as value.replace(tzinfo=datetime.UTC) has" in reason
    assert found(aware) == [[aware] if nested else aware]
    if not nested:
        assert found(pd.NaT) == [None]


def test_an_error_of_this_package_that_a_function_raises_ends_the_run() -> None:
    def parse(value: bytes) -> dict[str, Any]:
        raise dm.SourceError(f"there is no registry for {value!r}", hint="start it")

    with pytest.raises(dm.SourceError, match="no registry"):
        rows([b"1"], FunctionValues(parse))
