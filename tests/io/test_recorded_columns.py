"""A stream keeps the columns that its sources had when it started, whichever files are there later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FIRST = "at,zip,v\n2024-01-01T10:05Z,01234,1\n2024-01-01T10:06Z,D-80331,2\n"
SECOND = "at,zip,v\n2024-01-01T10:15Z,01234,10\n"
LAST = [("01234", 11), ("D-80331", 2)]


def put(folder: Path, name: str, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f".{name}").write_text(text)
    return (folder / f".{name}").rename(folder / name)


def sums(folder: Path, *, by_name: bool = False, schema: pa.Schema | None = None) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadCsv(folder, event_time="at", follow=True, schema=schema)
        pairs = rows | (
            "pairs" >> dm.WithKeys("zip", value="v") if by_name else "pairs" >> dm.Map(lambda row: (row.zip, row.v))
        )
        hourly = dm.Window.into(dm.FixedWindows("1 hour")).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
        _ = pairs | hourly | "sums" >> dm.Sum.per_key() | "collected" >> dm.io.Collect()

    return build


def last_values(stream: Stepped) -> list[Any]:
    """Return the last value of each key, in order."""
    return sorted(dict(record.value for record in stream.collected("collected")).items(), key=str)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("is_first_there", [False, True])
def test_columns_remain_those_of_the_first_file_after_it_is_removed(
    tmp_path: Path, by_name: bool, is_first_there: bool
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    stream = Stepped(sums(folder, by_name=by_name), tmp_path / "checkpoint")
    if not is_first_there:
        with stream.opened() as opened:
            opened.step()
            first = put(folder, "1.csv", FIRST)
            opened.step()
            first.unlink()
            put(folder, "2.csv", SECOND)  # read by the same start, as text, too
            opened.step()
        assert last_values(stream) == LAST
        return
    first = put(folder, "1.csv", FIRST)
    stream.steps()
    first.unlink()
    stream.steps(1)
    put(folder, "2.csv", SECOND)
    stream.steps()
    assert last_values(stream) == LAST


def test_columns_recorded_by_a_start_without_a_commit_are_not_final(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    bad = put(folder, "1.csv", "at,zip,v\n2024-01-01T10:05Z,1,1\n")
    stream = Stepped(sums(folder), tmp_path / "checkpoint")
    with stream.opened():
        pass
    bad.unlink()
    put(folder, "1.csv", FIRST)
    stream.steps()
    assert last_values(stream) == [("01234", 1), ("D-80331", 2)]


def test_changed_columns_in_the_program_are_rejected_until_the_run_is_upgraded(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder, "1.csv", SECOND.replace("01234", "81234"))  # a number
    old = Stepped(sums(folder, by_name=True), tmp_path / "old")
    old.steps()
    text = pa.schema({"at": pa.timestamp("us", "UTC"), "zip": pa.string(), "v": pa.int64()})
    with pytest.raises(dm.CheckpointMismatch, match=r"'zip' was int64 and is string now\nHint: (.|\n)*upgrade .*old"):
        Stepped(sums(folder, by_name=True, schema=text), tmp_path / "old").steps()
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "inferred"))
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "stated"))
    put(folder, "1.csv", "at,zip,v\n")  # so that nothing says any more what a zip is
    (folder / "1.csv").unlink()
    put(folder, "2.csv", "at,zip,v\n2024-01-01T10:16Z,81234,1\n2024-01-01T10:16Z,D-80331,2\n")
    new = Stepped(sums(folder, schema=text), tmp_path / "stated")
    new.steps()
    assert ("81234", 1) in last_values(new)
    with pytest.raises(dm.SourceError, match="D-80331"):  # it does not fit the columns that were carried over
        Stepped(sums(folder), tmp_path / "inferred").steps()


def test_columns_may_be_added_and_removed_in_the_program(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    first = put(folder, "1.csv", FIRST)
    Stepped(sums(folder), tmp_path / "checkpoint").steps()
    first.unlink()
    put(folder, "2.csv", "at,zip,v,w\n2024-01-01T10:15Z,01234,10,1\n")
    columns = {"at": pa.timestamp("us", "UTC"), "zip": pa.string(), "v": pa.int64(), "w": pa.int64()}
    more = Stepped(sums(folder, schema=pa.schema(columns)), tmp_path / "checkpoint")
    more.steps()
    assert last_values(more) == LAST


def test_a_leading_zero_does_not_fit_a_column_of_numbers_after_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder, "1.csv", "at,zip,v\n2024-01-01T10:05Z,81234,1\n")
    stream = Stepped(sums(folder), tmp_path / "checkpoint")
    stream.steps()
    put(folder, "2.csv", "at,zip,v\n2024-01-01T10:06Z,01234,2\n")
    with pytest.raises(
        dm.SourceError, match=r"line 2 of 2\.csv: column 'zip' holds '01234', but was inferred as int64"
    ):
        Stepped(sums(folder), tmp_path / "checkpoint").steps()
