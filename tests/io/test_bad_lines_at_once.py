"""Bad rows of JSON lines that are found with one look at each line are those that are found one by one."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

from dataflow_model.io.json import json_parsing, json_source
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.text import parsing

KINDS = {
    "n": pa.int64(),
    "small": pa.int8(),
    "count": pa.uint64(),
    "f": pa.float64(),
    "s": pa.string(),
    "b": pa.bool_(),
    "at": pa.timestamp("us", "UTC"),
    "local": pa.timestamp("ms"),
    "day": pa.date32(),
    "price": pa.decimal128(5, 2),
    "items": pa.list_(pa.int64()),
}
VALUES = st.sampled_from(
    [
        *("1", "-1", "-0", "1.0", "1e2", "200", "256", "9223372036854775807", "9223372036854775808", "1e400", "0.1"),
        *("18446744073709551616", "1" * 50, "123456789.123456789", "null", "true", "[1]", '["a"]', '{"a": 1}', "NaN"),
        *('"x"', '"1"', '""', '"NaN"', '"Infinity"', '"2013-01-01"', '"2013-01-01T05:00:00Z"', '"2013-01-01 05:00:00"'),
        *('"2013-02-30T05:00:00Z"', '"2013-01-01T05:00:00+01:00"', '"2013-01-01T24:00:00"', '"\\ud800"', '"é"', '"'),
    ]
)
LINES = st.lists(st.tuples(st.sampled_from(list(KINDS)), VALUES), max_size=3).map(
    lambda pairs: "{" + ", ".join(f'"{name}": {value}' for name, value in pairs) + "}"
) | st.sampled_from(
    ["null", "[1]", "5", '{"n": 1} {"n": 2}', '{"n": 1', '{"n": 1}}', " ", "[" * 120 + "]" * 120, '"a"']
)


def read(content: bytes, kinds: dict[str, pa.DataType], mixed: str | None) -> tuple[list[Any], list[Any]]:
    """Return the rows, and place, text and reason of the bad ones."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.json")
        path.write_bytes(content)
        source: Any = JsonSource(paths=str(path), event_time=None, given=pa.schema(kinds), mixed=mixed)  # type: ignore[arg-type]
        [origin] = source.origins()
        decoded = [source.decode(batch) for batch in source.read(origin.name, 0, None)]
    rows = [tuple(row) for part in decoded for row in part.values]
    return rows, [(bad.index, bad.row, bad.reason) for part in decoded for bad in part.bad]


@given(
    st.lists(LINES, min_size=1, max_size=10),
    st.lists(st.sampled_from(list(KINDS)), min_size=1, max_size=3, unique=True),
    st.sampled_from([None, "text"]),
    st.sampled_from([b"\n", b"\r\n", b"\n\xff\n"]),
)
@example(['{"n": "x"}', '{"n": 1, "n": "x"}', '{"s": 5}', '{"s": "a"}'], ["n", "s"], "text", b"\n")
@example(['{"f": "NaN"}', '{"f": 1e400}', '{"f": "x", "n": 1e400}'], ["n", "f"], None, b"\n")
def test_bad_lines_found_in_bulk_equal_those_found_one_by_one(
    lines: list[str], names: list[str], mixed: str | None, end: bytes
) -> None:
    content = end.join([*(line.encode() for line in lines), b""])
    kinds = {name: KINDS[name] for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "_FEW", 1)
        at_once = read(content, kinds, mixed)
        patch.setattr(json_source, "bad_lines", lambda *_, **__: {})
        one_by_one = read(content, kinds, mixed)
    assert repr(at_once) == repr(one_by_one)  # NaN equals itself


def test_many_bad_lines_are_not_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    original = json_parsing.parse_lines

    def counted(data: bytes, columns: pa.Schema, *, mixed: bool = False) -> pa.Table:
        parsed.append(len(data))
        return original(data, columns, mixed=mixed)

    monkeypatch.setattr(json_source, "parse_lines", counted)
    bad = ['{"n": "x"}', '{"n": 1', "[5]", '{"small": 300}', '{"s": true}', '{"n": 99999999999999999999}', "no"]
    lines = ['{"n": 1, "s": "a"}', *bad] * 300
    rows, found = read("\n".join(lines).encode(), {name: KINDS[name] for name in ("n", "small", "s")}, None)
    assert (len(rows), len(found)) == (300, 300 * len(bad))
    assert len(parsed) < 10
