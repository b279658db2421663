"""Bad rows that are found on whole columns are those that are found one by one, for the same reasons."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

from dataflow_model.io.csv import text_sources
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.io.text import parsing
from tests.support.laws.examples import share_of_examples

KINDS = {
    "whole": pa.int64(),
    "small": pa.int8(),
    "count": pa.uint16(),
    "share": pa.float64(),
    "text": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "day": pa.date32(),
    "price": pa.decimal128(5, 2),
}
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    *(st.integers(limit - 2, limit + 2) for limit in (2**7, -(2**7), 2**16, 2**63, -(2**63), 2**64)),
).map(str)
WORDS = st.sampled_from(
    [
        "x1",
        "0x1F",
        "nan",
        "NA",
        "null",
        "inf",
        "-Infinity",
        "nan(snan)",
        "1.5",
        "-0",
        "007",
        "+5",
        "1e5",
        "1e400",
        "1_000",
        "1,5",
        "é",
        "true",
        "-",
        ".",
        "5.",
        ".5",
        "0.10",
        "1f",
        "--1",
    ]
) | st.sampled_from(["", " 5 ", "a b", "leading"])
TIMES = st.sampled_from(
    [
        "2013-01-01T05:00:00Z",
        "2013-01-01",
        "2013-10-27T02:30:00",
        "soon",
        "9999-12-31T00:00:00Z",
        "0000-01-01",
        "2013-1-1",
    ]
) | st.sampled_from(
    ["2013-01-01 05:00:00", "2013-02-30 05:00:00Z", "2013-01-01 24:00:00Z", "2013-01-01 05:00:00.123456Z"]
)
QUOTED = st.sampled_from(['"NA"', '"5"', '"a,b"', '"two\nlines"', '"open', 'in"side', '""'])
VALUES = NUMBERS | WORDS | TIMES | QUOTED
ROWS = st.lists(st.lists(VALUES, min_size=1, max_size=4).map(",".join), min_size=1, max_size=12)
OPTIONS = st.sampled_from(
    [
        CsvOptions(),
        CsvOptions(null_values=["NA", "soon"]),
        CsvOptions(zone="Europe/Berlin"),
        CsvOptions(thousands="'", decimal_point="."),
        CsvOptions(quote=None),
        CsvOptions(comment="-"),
        CsvOptions(ragged="pad"),
        CsvOptions(ragged="pad", null_values=["NA", "soon"], zone="Europe/Berlin"),
        CsvOptions(ragged="pad", thousands="'", quote=None),
    ]
)


def read(
    content: str, kinds: dict[str, pa.DataType], options: CsvOptions, **further: Any
) -> tuple[list[Any], list[Any]]:
    """Return the rows, and text and reason of the bad ones."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.csv")
        path.write_text(content, newline="")
        source = CsvSource(paths=str(path), event_time=None, given=pa.schema(kinds), options=options, **further)
        [origin] = source.origins()
        decoded = [source.decode(batch) for batch in source.read(origin.name, 0, None)]
    rows = [tuple(row) for part in decoded for row in part.values]
    return rows, [(bad.index, bad.row, bad.reason) for part in decoded for bad in part.bad]


@share_of_examples(0.5)
@given(
    ROWS,
    st.lists(st.sampled_from(list(KINDS)), min_size=2, max_size=3, unique=True),
    OPTIONS,
    st.sampled_from(["\n", "\r\n", "\n\n"]),
    st.booleans(),
)
@example(["1,2", "1", "x,y", "1,2,3"], ["whole", "small"], CsvOptions(), "\n\n", False)
@example(["soon,x", "2013-01-01,x1"], ["at", "whole"], CsvOptions(), "\n", True)
@example(["nan(snan),1", "nan,x", "1e400,x"], ["share", "whole"], CsvOptions(), "\n", True)
@example(["x", "1", "1,2,3", "y,2", "5"], ["whole", "text"], CsvOptions(ragged="pad"), "\n", False)
def test_bad_rows_found_in_bulk_equal_those_found_one_by_one(
    rows: list[str], names: list[str], options: CsvOptions, end: str, is_inferred: bool
) -> None:
    content = end.join([",".join(names), *rows, ""])
    kinds = {name: KINDS[name] for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parsing, "_FEW", 1)
        at_once = read(content, kinds, options, is_inferred=is_inferred)
        patch.setattr(text_sources, "bad_rows", lambda *_: {})
        one_by_one = read(content, kinds, options, is_inferred=is_inferred)
    assert repr(at_once) == repr(one_by_one)  # NaN equals itself


def test_many_bad_rows_are_not_parsed_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    original = CsvOptions.read

    def counted(self: CsvOptions, data: bytes, *args: Any, **options: Any) -> pa.Table:
        parsed.append(len(data))
        return original(self, data, *args, **options)

    monkeypatch.setattr(CsvOptions, "read", counted)
    bad = [
        "99999999999999999999,1,a",
        "9223372036854775808,1,a",
        "1,2",
        "1,2,3,4",
        "x,1,a",
        "1,1000,a",
        "1,y,a",
        "1.5,1,a",
    ]
    content = "\n".join(["whole,small,text", *(["1,2,b", *bad] * 500), ""])
    kinds = {name: KINDS[name] for name in ("whole", "small", "text")}
    rows, found = read(content, kinds, CsvOptions())
    assert (len(rows), len(found)) == (500, 500 * len(bad))
    assert len(parsed) < 10
