"""Ids made at the source: one for each element, the same however it is read, and refused where there are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession


def ids_of(build: Callable[[dm.Pipeline], dm.PCollection]) -> list[Any]:
    """Return the values of a collection that a pipeline makes."""

    def kept(p: dm.Pipeline) -> None:
        _ = build(p) | "kept" >> dm.io.Collect()

    return [record.value for record in run(dm.LocalRunner(), kept).collected("kept")]


def the_id(element: Any, record_id: tuple[Any, ...]) -> tuple[Any, Any]:
    return element, record_id


def write_table(folder: Path, name: str, rows: list[int]) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"at": rows, "n": rows}), folder / name)


def test_the_id_of_a_record_in_a_file_is_the_file_and_the_row(tmp_path: Path) -> None:
    write_table(tmp_path, "a.parquet", [7, 8])
    write_table(tmp_path, "b.parquet", [9])
    read = dm.io.ReadParquet(tmp_path, event_time="at")
    record_ids = ids_of(lambda p: p | "rows" >> read | "n" >> dm.Map(lambda row: row.n) | dm.Map(the_id))
    assert record_ids == [
        (7, ("rows", "a.parquet", 0, 0)),
        (8, ("rows", "a.parquet", 1, 0)),
        (9, ("rows", "b.parquet", 0, 0)),
    ]


@pytest.mark.slow
def test_the_id_of_a_record_may_be_columns_of_any_name(spark: SparkSession) -> None:
    columns = ("meta.id", "__n__")
    frame = spark.createDataFrame([(0, 7, 1), (0, 8, 2)], "at long, `meta.id` long, `__n__` long").coalesce(1)

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadDataFrame(frame, event_time="at", id_columns=columns)
        _ = rows | "n" >> dm.Map(lambda row: row["__n__"]) | dm.Map(the_id) | "kept" >> dm.io.Collect()
        _ = rows | "once" >> dm.Deduplicate(horizon=60) | "unique" >> dm.io.Collect()

    result = run(dm.SparkRunner(spark), build)
    assert [record.value for record in result.collected("kept")] == [
        (1, ("rows", 7, 1, 0)),
        (2, ("rows", 8, 2, 0)),
    ]
    assert len(result.collected("unique")) == 2


def test_pairs_that_are_read_as_columns_have_the_ids_of_their_rows(tmp_path: Path) -> None:
    write_table(tmp_path, "a.parquet", [7, 8])
    read = dm.io.ReadParquet(tmp_path, event_time="at")
    record_ids = ids_of(lambda p: p | "rows" >> read | dm.WithKeys("n", value="at") | dm.Map(the_id))
    assert record_ids == [((7, 7), ("rows", "a.parquet", 0, 0)), ((8, 8), ("rows", "a.parquet", 1, 0))]


def test_outputs_of_a_function_for_one_record_have_different_ids() -> None:
    record_ids = ids_of(lambda p: p | "words" >> dm.Create(["to be", "or"]) | dm.FlatMap(str.split) | dm.Map(the_id))
    assert record_ids == [("to", ("words", 0, 0)), ("be", ("words", 0, 1)), ("or", ("words", 1, 0))]


def test_copies_of_an_element_in_several_windows_have_different_ids() -> None:
    def build(p: dm.Pipeline) -> dm.PCollection:
        placed = p | "in" >> TestStream().add("x", 5) | dm.Window.into(dm.SlidingWindows(10, 5))
        parts: dm.PCollection = placed | "part" >> dm.Map(lambda x, window: (x, int(window.start) // 1_000_000))
        once: dm.PCollection = parts | dm.Deduplicate(horizon=60)
        return once

    assert ids_of(build) == [("x", 0), ("x", 5)]


def test_a_stateful_function_does_not_receive_record_ids() -> None:
    class Counting(dm.DoFn):
        count = dm.ValueStateSpec[int](default=0)

        def process(self, element: Any, count: dm.ValueState[int], record_id: Any) -> Any:
            count.write(count.read() + 1)
            yield record_id

    with pytest.raises(dm.PlanError, match="'ParDo' asks for 'record_id', but runs after 'ParDo'"):
        ids_of(lambda p: p | dm.Create([("a", 1)]) | dm.ParDo(Counting()))


@pytest.mark.parametrize(
    "cut", [dm.Reshuffle(), dm.Deduplicate(lambda pair: pair, horizon=1), dm.Sum.per_key()], ids=lambda cut: cut.label
)
def test_record_ids_are_not_available_after_elements_were_shuffled(cut: Any) -> None:
    with pytest.raises(dm.PlanError, match=r"'once/ids' asks for 'record_id', but runs after 'cut'"):
        ids_of(lambda p: p | dm.Create([("a", 1)]) | "cut" >> cut | "once" >> dm.Deduplicate(horizon=1))


def test_record_ids_are_refused_if_one_record_arrives_by_two_paths() -> None:
    def build(p: dm.Pipeline) -> dm.PCollection:
        even, odd = p | "numbers" >> dm.Create([1, 2]) | dm.Partition(lambda x, n: x % n, 2)
        together: dm.PCollection = (even, odd) | dm.Flatten()
        once: dm.PCollection = together | dm.Deduplicate(horizon=1)
        return once

    with pytest.raises(dm.PlanError, match="the records of 'numbers' reach it in 2 ways"):
        ids_of(build)


def test_records_of_different_sources_have_different_ids() -> None:
    def build(p: dm.Pipeline) -> dm.PCollection:
        together: dm.PCollection = (p | "one" >> dm.Create([1]), p | "other" >> dm.Create([2])) | dm.Flatten()
        once: dm.PCollection = together | dm.Deduplicate(horizon=1)
        return once

    assert ids_of(build) == [1, 2]
