"""An argument that a reader does not have is rejected, with the argument that was probably meant."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidType

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("time;celsius\n2024-05-01T12:00:10Z;21\n")
    return str(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("separator", "use `delimiter`"),
        ("sep", "use `delimiter`"),
        ("time_zone", "use `zone`"),
        ("na_values", "use `null_values`"),
        ("delimeter", "use `delimiter`"),
        ("folow", "use `follow`"),
        ("max_skeww", "use `max_skew`"),
    ],
)
def test_a_misspelt_argument_of_read_csv_names_the_right_one(path: str, given: str, hint: str) -> None:
    wrong: Any = {given: ";"}
    with pytest.raises(InvalidType, match=f"^ReadCsv has no argument '{given}'\nHint: {re.escape(hint)}$"):
        dm.io.ReadCsv(path, event_time="time", **wrong)


def test_an_argument_like_no_other_gets_the_list_of_those_there_are(path: str) -> None:
    wrong: Any = {"qqq": 1}
    with pytest.raises(
        InvalidType, match=r"ReadCsv has no argument 'qqq'\nHint: its arguments are .*`delimiter`, .*`zone`"
    ):
        dm.io.ReadCsv(path, event_time="time", **wrong)


@pytest.mark.parametrize("reader", [dm.io.ReadParquet, dm.io.ReadJson])
def test_the_other_readers_of_files_reject_them_too(path: str, reader: Any) -> None:
    with pytest.raises(InvalidType, match=rf"{reader.__name__} has no argument 'folow'\nHint: use `follow`"):
        reader(path, event_time="time", folow=True)


def test_a_table_in_memory_rejects_them_too() -> None:
    wrong: Any = {"watermark_origins": "file"}
    with pytest.raises(
        InvalidType, match=r"ReadTable has no argument 'watermark_origins'\nHint: use `watermark_origin`"
    ):
        dm.io.ReadTable(pa.table({"time": [1]}), event_time="time", **wrong)
