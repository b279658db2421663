"""A grouping with state in columns goes on after an upgrade in which its columns have got other types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

SECOND = 1_000_000
WINDOWS = {"fixed": dm.FixedWindows(100), "sessions": dm.Sessions(50)}
COMBINERS = {"Sum": dm.Sum, "Mean": dm.Mean, "Max": dm.Max, "Count": dm.Count}


def arrive(folder: Path, name: str, seconds: Sequence[int], key: Any, value: Any, types: pa.Schema) -> None:
    """Let a file appear whole."""
    folder.mkdir(exist_ok=True)
    columns = {
        "at": [at * SECOND for at in seconds],
        "key": [key] * len(seconds),
        "n": [value] * len(seconds),
    }
    pq.write_table(pa.table(columns, types), folder / f".{name}")
    (folder / f".{name}").rename(folder / f"{name}.parquet")


def schema(key: pa.DataType, value: pa.DataType) -> pa.Schema:
    return pa.schema({"at": pa.int64(), "key": key, "n": value})


def summing(folder: Path, types: pa.Schema, windows: str, combine: str) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=types)
        windowed = rows | dm.WithKeys("key", value="n") | dm.Window.into(WINDOWS[windows])
        _ = windowed | "panes" >> COMBINERS[combine].per_key() | "out" >> dm.io.Collect()

    return build


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize(
    ("combine", "before", "after", "expected"),
    [
        ("Sum", (pa.string(), "a", pa.int64(), 1), (pa.string(), "a", pa.float64(), 1.5), {"a": 2.5}),
        ("Sum", (pa.string(), "a", pa.float64(), 1.5), (pa.string(), "a", pa.int64(), 2), {"a": 3.5}),
        ("Sum", (pa.int64(), 7, pa.int64(), 1), (pa.string(), "7", pa.int64(), 2), {7: 1, "7": 2}),
        ("Sum", (pa.int32(), 7, pa.int64(), 1), (pa.int64(), 7, pa.int64(), 2), {7: 3}),
        ("Mean", (pa.string(), "a", pa.int64(), 1), (pa.string(), "a", pa.float64(), 1.5), {"a": 1.25}),
        ("Max", (pa.string(), "a", pa.int64(), 1), (pa.large_string(), "a", pa.float64(), 1.5), {"a": 1.5}),
        ("Count", (pa.bool_(), True, pa.int64(), 1), (pa.string(), "a", pa.int64(), 1), {True: 1, "a": 1}),
    ],
)
def test_a_grouping_in_columns_resumes_with_other_types(
    tmp_path: Path,
    windows: str,
    combine: str,
    before: tuple[pa.DataType, Any, pa.DataType, Any],
    after: tuple[pa.DataType, Any, pa.DataType, Any],
    expected: dict[Any, Any],
) -> None:
    (old_key, key, old_type, value), (new_key, other_key, new_type, other) = before, after
    old_types, new_types = schema(old_key, old_type), schema(new_key, new_type)
    arrive(tmp_path / "in", "00", [1], key, value, old_types)
    Stepped(summing(tmp_path / "in", old_types, windows, combine), tmp_path / "old").steps()
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "new"))
    stepped = Stepped(summing(tmp_path / "in", new_types, windows, combine), tmp_path / "new")
    arrive(tmp_path / "in", "01", [1], other_key, other, new_types)
    stepped.steps()
    arrive(tmp_path / "in", "02", [1_000], other_key, other, new_types)
    stepped.steps()
    assert dict(record.value for record in stepped.collected("out")) == expected


@pytest.mark.parametrize("combine", COMBINERS)
def test_many_stored_batches_of_several_types_are_merged(tmp_path: Path, combine: str) -> None:
    old_types, new_types = schema(pa.string(), pa.int64()), schema(pa.string(), pa.float64())
    arrive(tmp_path / "in", "00", [1], "a", 1, old_types)
    Stepped(summing(tmp_path / "in", old_types, "fixed", combine), tmp_path / "old").steps()
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "new"))
    stepped = Stepped(summing(tmp_path / "in", new_types, "fixed", combine), tmp_path / "new")
    for number in range(1, 12):
        arrive(tmp_path / "in", f"{number:02}", [1], "a", number + 0.5, new_types)
        stepped.steps()
    arrive(tmp_path / "in", "99", [1_000], "a", 0.5, new_types)
    stepped.steps()
    values = [1.0, *(number + 0.5 for number in range(1, 12))]
    expected = {"Sum": sum(values), "Mean": sum(values) / 12, "Max": 11.5, "Count": 12}[combine]
    assert [record.value for record in stepped.collected("out")] == [("a", expected)]
