"""Numbers of CSV: codes with leading zeros are text, and nothing is read as another number than it is."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

from dataflow_model.io.csv import csv_numbers
from dataflow_model.io.csv.csv_numbers import columns_with_zeros
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.io.text import unpacking
from tests.support.laws.examples import share_of_examples

CELLS = st.sampled_from(["0", "7", "007", "-07", "0.5", "00.5", "1E5", "10", "a0b", " 05", "2013-01-05 05:00", ""])


def read(folder: str | Path, content: str, **options: Any) -> tuple[CsvSource, list[tuple[Any, ...]], list[str]]:
    """Return the source, its rows, and the reasons of the bad ones."""
    path = Path(folder, "a.csv")
    path.write_text(content)
    source = CsvSource(paths=str(path), event_time=None, **options).bound()
    rows: list[tuple[Any, ...]] = []
    reasons: list[str] = []
    for batch in source.read("a.csv", 0, None):
        decoded = source.decode(batch)
        rows.extend(map(tuple, decoded.values))
        reasons.extend(bad.reason for bad in decoded.bad)
    return source, rows, reasons


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["007", "7"], pa.string()),
        (["-07", "7"], pa.string()),
        (["00"], pa.string()),
        (["01.5", "2"], pa.string()),
        (['"02139"', "94107"], pa.string()),
        ([" 07", "7"], pa.string()),
        (["0", "10", "-5"], pa.int64()),
        (["0.5", "-0.25", "0"], pa.float64()),
        (["1E5", "2e-3", "0"], pa.float64()),
        (["NA", "007"], pa.string()),
    ],
)
@pytest.mark.parametrize("place", ["first", "middle", "last", "only"])
def test_a_column_with_a_leading_zero_in_its_sample_is_text(
    tmp_path: Path, texts: list[str], kind: pa.DataType, place: str
) -> None:
    form = {"first": "{},x,1", "middle": "1,{},x", "last": "x,1,{}", "only": "{}"}[place]
    header = form.format("code").replace("x", "a").replace("1", "b")
    source, rows, reasons = read(tmp_path, "\n".join([header, *map(form.format, texts), ""]))
    assert source.schema().field("code").type == kind
    assert (len(rows), reasons) == (len(texts), [])
    if pa.types.is_string(kind):
        at = source.schema().get_field_index("code")
        assert [row[at] for row in rows] == [text.strip('"') for text in texts]


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1, max_size=8), st.booleans(), st.integers(1, 9))
def test_the_columns_that_are_read_again_are_those_with_leading_zeros(
    rows: list[tuple[str, str, str]], is_quoted: bool, part: int
) -> None:
    form = '"{}","{}","{}"\n' if is_quoted else "{},{},{}\n"
    data = "".join(form.format(*row) for row in rows).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_numbers, "_PART", part + 1)
        found = set(columns_with_zeros(data, 3, len(rows), CsvOptions()))
    padded = {"007", "-07", "00.5", " 05"}
    assert {index for row in rows for index, cell in enumerate(row) if cell in padded} <= found


def test_columns_without_leading_zeros_are_not_read_again() -> None:
    data = b"1,02139,2013-01-05 05:00,0\n0,94107,2013-10-05 05:00,0.5\n"
    assert columns_with_zeros(data, 4, 2, CsvOptions()) == [1]
    assert not columns_with_zeros(b"10,0,0.05\n-0.5,100,2013-01-05\n", 3, 2, CsvOptions())


def test_a_later_leading_zero_in_a_column_of_numbers_is_a_bad_row(tmp_path: Path) -> None:
    content = "code,share,name\n" + "7,0.5,0x\n" * 20_000 + '007,1,a\n8,01.5,"b, c"\n-9,0,"007"\n'
    source, rows, reasons = read(tmp_path, content)
    assert source.schema().types == [pa.int64(), pa.float64(), pa.string()]
    assert rows[20_000:] == [(-9, 0.0, "007")]
    inferred = (
        "but was inferred as {0}, which has no leading zeros; pa.string() in `schema` keeps them, pa.{0}() drops them"
    )
    assert reasons == [
        f"column 'code' holds '007', {inferred.format('int64')}",
        f"column 'share' holds '01.5', {inferred.format('double')}",
    ]


def test_a_column_that_is_stated_as_a_number_reads_leading_zeros(tmp_path: Path) -> None:
    _, rows, reasons = read(tmp_path, "month\n01\n12\n", given=pa.schema({"month": pa.int64()}))
    assert (rows, reasons) == ([(1,), (12,)], [])


@share_of_examples(0.4)
@given(st.lists(CELLS, min_size=1, max_size=30), st.integers(1, 30))
def test_types_and_rows_do_not_depend_on_how_the_file_is_cut(cells: list[str], block: int) -> None:
    content = "code,n\n" + "".join(f"{cell},1\n" for cell in cells)
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        source, *expected = read(folder, content)
        for name in ("BLOCK", "_FIRST"):
            patch.setattr(unpacking, name, block)
        cut, *actual = read(folder, content + "\n")
        assert (cut.schema(), actual) == (source.schema(), expected)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1e39", pa.float32()),
        ("1e400", pa.float64()),
        ("-" + "1" * 400, pa.float64()),
        ("70000", pa.float16()),
        ("1e400", pa.float16()),
    ],
)
def test_a_number_that_would_be_infinite_is_a_bad_row_and_the_word_is_infinite(
    tmp_path: Path, text: str, kind: pa.DataType
) -> None:
    schema = pa.schema({"at": pa.string(), "v": kind})
    _, rows, [reason] = read(tmp_path, f'at,v\na,1\nb,{text}\nc,Infinity\nd,"-inf"\n', given=schema)
    assert rows == [("a", 1.0), ("c", math.inf), ("d", -math.inf)]
    assert reason.startswith(f"column 'v' is {kind} and cannot hold '{text[:9]}")


def test_numbers_in_lists_of_csv_are_not_read_as_infinity(tmp_path: Path) -> None:
    schema = pa.schema({"v": pa.list_(pa.float64())})
    _, rows, [reason] = read(tmp_path, 'v\n"[1, 0.5]"\n"[1e400]"\n', given=schema)
    assert rows == [([1.0, 0.5],)]
    assert reason.startswith("column 'v' is list")
