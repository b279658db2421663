"""Create: what it takes as values, tables of other libraries among them."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.endpoints.program_sources import ElementsSource
from dataflow_model.testing import ManualClock
from tests.support.pipelines import run, streaming

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


def elements(values: Any) -> tuple[Any, ...]:
    source = dm.Create(values).source
    assert isinstance(source, ElementsSource)
    return source.elements


class PolarsLike:
    """What Create needs of a Polars DataFrame, which is not installed here."""

    __module__ = "polars.dataframe.frame"

    def __iter__(self) -> Iterator[Any]:
        raise AssertionError("a DataFrame of Polars iterates over its columns")

    def to_arrow(self) -> pa.Table:
        return pa.table({"carrier": pa.array(["UA"], pa.large_string())})


PolarsLike.__name__ = "DataFrame"


class SparkLike:
    __module__ = "pyspark.sql.classic.dataframe"

    def __getitem__(self, item: int) -> Any:
        raise AssertionError("a DataFrame of Spark iterates over its columns")


SparkLike.__name__ = "DataFrame"


def test_the_rows_of_a_pandas_dataframe_are_elements_with_attributes() -> None:
    frame = pd.DataFrame({"carrier": ["UA", None], "delay": [4, -2]})
    assert [(row.carrier, row.delay) for row in elements(frame)] == [("UA", 4), (None, -2)]


def test_a_named_index_of_pandas_is_a_column_and_an_unnamed_one_is_left_out() -> None:
    frame = pd.DataFrame({"carrier": ["UA", "AA"], "delay": [4, -2]})
    assert [row._asdict() for row in elements(frame.set_index("carrier"))] == [
        {"carrier": "UA", "delay": 4},
        {"carrier": "AA", "delay": -2},
    ]
    assert [row._asdict() for row in elements(frame[frame.delay < 0])] == [{"carrier": "AA", "delay": -2}]


def test_nan_in_a_pandas_column_is_none() -> None:
    assert [row.delay for row in elements(pd.DataFrame({"delay": [1.5, float("nan")]}))] == [1.5, None]


def test_arrow_tables_batches_and_arrays_give_rows_and_values() -> None:
    table = pa.table({"carrier": ["UA", "AA"]})
    assert [row.carrier for row in elements(table)] == ["UA", "AA"]
    assert [row.carrier for row in elements(table.to_batches()[0])] == ["UA", "AA"]
    assert elements(table["carrier"]) == elements(table["carrier"].combine_chunks()) == ("UA", "AA")


def test_the_rows_of_a_polars_dataframe_are_elements() -> None:
    assert [row.carrier for row in elements(PolarsLike())] == ["UA"]


def test_a_dataframe_of_spark_is_refused_with_what_reads_it() -> None:
    with pytest.raises(dm.InvalidType, match=r"got a Spark DataFrame\nHint: read it with dm.io.ReadDataFrame"):
        dm.Create(SparkLike())  # type: ignore[call-overload]


def test_a_pandas_column_of_mixed_types_is_refused_with_the_column() -> None:
    with pytest.raises(dm.InvalidType, match=r"column mixed(.|\n)*Hint: .*itertuples"):
        dm.Create(pd.DataFrame({"mixed": [1, "x"]}))


def test_a_column_whose_name_cannot_be_an_attribute_is_read_by_name() -> None:
    [row] = elements(pd.DataFrame({"dep delay": [1]}))
    assert row["dep delay"] == 1


def test_a_dict_gives_its_items_and_text_is_refused() -> None:
    assert elements({"UA": 1}) == (("UA", 1),)
    for text in ("UA", b"UA"):
        with pytest.raises(dm.InvalidType, match=r"an iterable of values, got the text b?'UA'"):
            dm.Create(text)


def test_an_exception_in_a_users_generator_is_not_reported_as_a_value_that_cannot_be_iterated() -> None:
    def values() -> Iterator[int]:
        yield 1 + None  # type: ignore[operator]

    with pytest.raises(TypeError, match="unsupported operand") as raised:
        dm.Create(values())
    assert not isinstance(raised.value, dm.InvalidType)


def test_create_does_not_import_pandas() -> None:
    code = "import sys, dataflow_model as dm; dm.Create([1]); sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_rows_of_a_table_can_be_processed_by_a_pipeline() -> None:
    with dm.Pipeline(dm.LocalRunner()) as p:
        frame = pd.DataFrame({"carrier": ["UA", "UA", "AA"], "delay": [4, 6, 1]})
        means = p | dm.Create(frame) | dm.WithKeys("carrier", value="delay") | dm.Mean.per_key()
        _ = means | "kept" >> dm.io.Collect()
    assert p.result is not None
    assert sorted(record.value for record in p.result.collected("kept")) == [("AA", 1.0), ("UA", 5.0)]


def arrived(runner: dm.LocalRunner | dm.SparkRunner) -> list[tuple[Any, int]]:
    """Return what an element's function is told of its time, and the time of its record."""

    def build(p: dm.Pipeline) -> None:
        told = p | dm.Create(["x"]) | dm.Map(lambda _, production_time: int(production_time))
        _ = told | "out" >> dm.io.Collect()

    return [(record.value, int(record.processing_time)) for record in run(runner, build).collected("out")]


def test_elements_arrive_at_the_first_tick_of_the_clock(tmp_path: Path) -> None:
    at = "2020-01-01T00:00Z"
    expected = [(int(dm.event_time(at)),) * 2]
    assert arrived(dm.LocalRunner(clock=at)) == expected
    assert arrived(dm.LocalRunner(clock=at, workers=2)) == expected
    assert arrived(dm.LocalRunner(clock=ManualClock(at), checkpoint=str(tmp_path))) == expected


@pytest.mark.parametrize("mode", ["batch", pytest.param("streaming", marks=pytest.mark.slow)])
def test_on_spark_created_elements_arrive_at_the_time_of_the_wall_clock(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    before = time.time_ns() // 1_000
    on_spark = dm.SparkRunner(spark, mode="batch") if mode == "batch" else streaming(spark, tmp_path / "checkpoint")
    ((told, recorded),) = arrived(on_spark)
    assert told == recorded
    assert before <= told <= time.time_ns() // 1_000
