"""Sinks behind a retracting strategy say which rows take others back; without one nothing is added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dataflow_model as dm
from dataflow_model.io.sinks.bundles import ArrowTableSink
from dataflow_model.io.sinks.file_sinks import FileSink
from dataflow_model.plan.columns.records import Record
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.testing import TestStream
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
from tests.support.retractions.accounts import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EACH = dm.Repeatedly(dm.AfterCount(1))
MINUTES = dm.Window.into(dm.FixedWindows("1 minute")).trigger(EACH)
SCRIPT = TestStream().add(5, 0, key="a").add(3, 1, key="a")
ROWS = [("a", 5, False), ("a", 5, True), ("a", 8, False)]


def summed(p: dm.Pipeline, windowing: dm.WindowInto) -> Any:
    pairs = p | SCRIPT | dm.Map(_same).with_output_types(tuple[str, int])
    return pairs | windowing | dm.Sum.per_key()


def _same(pair: tuple[str, int]) -> tuple[str, int]:
    return pair


def written(path: Path, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = ds.dataset(path, format=kind).to_table().to_pylist()
    return rows


def sink_of(p: dm.Pipeline, label: str) -> Any:
    node = p.plan()[label]
    assert isinstance(node, Write)
    return node.sink


@pytest.mark.parametrize(("write", "kind"), [(dm.io.WriteParquet, "parquet"), (dm.io.WriteJson, "json")])
@pytest.mark.parametrize("typed", [True, False])
def test_files_have_a_column_that_marks_retractions(
    tmp_path: Path, write: Callable[..., Any], kind: str, typed: bool
) -> None:
    def build(p: dm.Pipeline) -> None:
        sums = summed(p, MINUTES.accumulating_and_retracting())
        _ = (sums if typed else sums | "untyped" >> dm.Map(lambda pair: pair)) | write(tmp_path / "out")

    run(build)
    rows = written(tmp_path / "out", kind)
    assert [(row["key"], row["value"], row["is_retraction"]) for row in rows] == ROWS
    assert list(rows[0]) == ["key", "value", "is_retraction"]


def test_the_column_of_retractions_is_in_the_schema_before_the_first_row() -> None:
    p = dm.Pipeline()
    sums = summed(p, MINUTES.accumulating_and_retracting())
    _ = sums | dm.Filter(bool) | dm.io.WriteParquet("out/", panes=True)
    sink = sink_of(p, "WriteParquet")
    assert isinstance(sink, FileSink)
    assert sink.full_schema is not None
    assert sink.full_schema.names == [
        "key",
        "value",
        "window_start",
        "window_end",
        "pane_index",
        "pane_timing",
        "is_retraction",
    ]
    assert sink.full_schema.field("is_retraction").type == pa.bool_()


def test_no_column_of_retractions_is_added_without_retractions(tmp_path: Path) -> None:
    run(lambda p: summed(p, MINUTES) | dm.io.WriteParquet(tmp_path / "out"))
    assert written(tmp_path / "out", "parquet") == [{"key": "a", "value": 5}, {"key": "a", "value": 3}]
    # A retracting strategy says what the next grouping does; before it there is nothing to take back.
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)]) | MINUTES.accumulating_and_retracting()
    _ = pairs | dm.io.WriteParquet("out/")
    assert not sink_of(p, "WriteParquet").retractions


def test_the_column_of_retractions_is_kept_after_window_and_flatten() -> None:
    p = dm.Pipeline()
    sums = summed(p, MINUTES.accumulating_and_retracting()) | "daily" >> dm.Window.into(dm.FixedWindows("1 day"))
    plain = p | dm.Create([("b", 1)]) | "daily too" >> dm.Window.into(dm.FixedWindows("1 day"))
    _ = (plain, sums) | dm.Flatten() | dm.io.WriteParquet("out/")
    assert sink_of(p, "WriteParquet").retractions


def test_a_dataframe_has_the_column_of_retractions_with_and_without_a_schema() -> None:
    records = [
        Record(("a", 5), dm.EventTime(0), GLOBAL_WINDOW, NO_FIRING, is_retraction=back) for back in (False, True)
    ]
    expected = {"key": ["a", "a"], "value": [5, 5], "is_retraction": [False, True]}
    assert ArrowTableSink(retractions=True).table(records).to_pydict() == expected
    schema = pa.schema({"key": pa.string(), "value": pa.int64()})
    assert ArrowTableSink(schema=schema, retractions=True).table(records).to_pydict() == expected
    assert ArrowTableSink(schema=schema, retractions=True).table([]).schema.names[-1] == "is_retraction"


class Flagged(NamedTuple):
    key: str
    is_retraction: bool


def test_a_field_with_the_name_of_the_column_of_retractions_is_refused_if_columns_are_known() -> None:
    p = dm.Pipeline()
    sums = summed(p, MINUTES.accumulating_and_retracting())
    flagged = sums | dm.MapTuple(lambda key, _: Flagged(key, is_retraction=True)).with_output_types(Flagged)
    message = r"already have a column 'is_retraction', and 'out' adds one .* 'Sum.PerKey' emits retractions\nHint: ren"
    with pytest.raises(dm.InvalidArgument, match=message):
        _ = flagged | "out" >> dm.io.WriteParquet("out/")
    plain = p | dm.Create([Flagged("a", is_retraction=True)])
    _ = plain | "fine" >> dm.io.WriteParquet("out/")


def test_a_field_with_the_name_of_the_column_of_retractions_makes_a_dead_letter_otherwise(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        sums = summed(p, MINUTES.accumulating_and_retracting())
        _ = sums | dm.MapTuple(lambda _, value: {"n": value, "is_retraction": 1}) | dm.io.WriteParquet(tmp_path / "out")

    run(build)
    letters = written(tmp_path / "out/_dead_letters", "json")
    assert [letter["is_retraction"] for letter in letters] == [False, True, False]
    assert "a field 'is_retraction', which is the name of the column" in letters[0]["reason"]


def test_a_dead_letter_says_whether_it_was_a_retraction(tmp_path: Path) -> None:
    schema = pa.schema({"key": pa.string(), "value": pa.string()})

    def build(p: dm.Pipeline) -> None:
        sums = summed(p, MINUTES.accumulating_and_retracting())
        _ = sums | dm.io.WriteParquet(tmp_path / "out", schema=schema)

    run(build)
    letters = written(tmp_path / "out/_dead_letters", "json")
    assert [(letter["row"], letter["is_retraction"]) for letter in letters] == [
        ("('a', 5)", False),
        ("('a', 5)", True),
        ("('a', 8)", False),
    ]


def test_collected_records_say_whether_they_are_retractions() -> None:
    seen: list[Any] = []

    def build(p: dm.Pipeline) -> None:
        sums = summed(p, MINUTES.accumulating_and_retracting())
        _ = sums | dm.io.Collect()
        _ = sums | dm.io.ForeachBundle(seen.extend, whole_records=True)

    collected = run(build).collected("Collect")
    for records in (collected, seen):
        assert [(*record.value, record.is_retraction) for record in records] == ROWS
