"""A followed folder that is empty at the start needs no schema: its first file with rows decides, once and for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from tests.support.micro_batches import Streamed
from tests.support.pipelines import start, streaming
from tests.support.runners.local_streams import Stepped
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

READERS: dict[str, Any] = {"csv": dm.io.ReadCsv, "json": dm.io.ReadJson, "parquet": dm.io.ReadParquet}
formats = pytest.mark.parametrize("kind", READERS)
ways = pytest.mark.parametrize("way", ["rows", "names", "fields", "group_by", "no_grouping"])


def put(folder: Path, kind: str, name: str, numbers: list[int]) -> None:
    """Let a file appear; without numbers, one that has no rows."""
    folder.mkdir(exist_ok=True)
    fresh = folder / f".{name}"
    match kind:
        case "csv":
            fresh.write_text("".join(["at,k,n\n", *(f"2024-01-01T00:00:00Z,a,{number}\n" for number in numbers)]))
        case "json":
            row = '{{"at": "2024-01-01T00:00:00Z", "k": "a", "n": {}}}\n'
            fresh.write_text("".join(row.format(number) for number in numbers))
        case _:
            schema = pa.schema({"at": pa.timestamp("us", "UTC"), "k": pa.string(), "n": pa.int64()})
            rows = [{"at": 1_704_067_200_000_000, "k": "a", "n": number} for number in numbers]
            pq.write_table(pa.Table.from_pylist(rows, schema), fresh)
    fresh.rename(folder / f"{name}.{kind}")


def summing(folder: Path, kind: str, way: str) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        rows: Any = p | "rows" >> READERS[kind](folder, event_time="at", follow=True)
        windows = dm.Window.into(dm.FixedWindows("1 hour")).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
        match way:
            case "rows":
                sums = rows | dm.Map(lambda row: (row.k, row.n)) | windows | dm.Sum.per_key()
            case "names":
                sums = rows | dm.WithKeys("k", value="n") | windows | dm.Sum.per_key()
            case "fields":
                sums = rows | dm.Map(lambda row: (row["k"], row["n"])) | windows | dm.Sum.per_key()
            case "group_by":
                sums = rows | windows | dm.GroupBy("k").aggregate_field("n", dm.Sum(), "n")
            case _:
                sums = rows | dm.Map(lambda row: (row.k, row.n))
        _ = sums | dm.Map(tuple) | "sums" >> dm.io.Collect()

    return build


@formats
@ways
@pytest.mark.parametrize("before", [None, []], ids=["empty", "a file without rows"])
def test_the_first_file_decides_the_columns_even_if_it_appears_after_a_restart(
    tmp_path: Path, kind: str, way: str, before: list[int] | None
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    if before is not None:
        put(folder, kind, "0", before)
    stepped = Stepped(summing(folder, kind, way), tmp_path / "checkpoint")
    stepped.steps()  # nothing is there
    put(folder, kind, "1", [1])
    stepped.steps()
    put(folder, kind, "2", [10])
    stepped.steps()
    values = [record.value for record in stepped.collected("sums")]
    assert values == [("a", 1), ("a", 10 if way == "no_grouping" else 11)]


@formats
@ways
def test_the_first_file_decides_the_columns_on_several_shards(tmp_path: Path, kind: str, way: str) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    streamed = Streamed(summing(folder, kind, way), tmp_path / "checkpoint")
    put(folder, kind, "1", [1])
    streamed.step()
    assert [record.value for record in streamed.collected("sums")] == [("a", 1)]


@pytest.mark.slow
def test_on_spark_the_first_file_decides_the_columns_and_an_incomplete_line_waits(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    runner = streaming(spark, tmp_path / "checkpoint", shards=2)
    result = start(runner, summing(folder, "csv", "names"))
    put(folder, "csv", "1", [1])
    file = folder / "1.csv"
    with file.open("a") as log:
        log.write("2024-01-01T00:00:00Z,a,1")
    wait_for(result, lambda: len(result.collected("sums")) == 1)
    with file.open("a") as log:
        log.write("0\n2024-01-01T00:0")
    wait_for(result, lambda: len(result.collected("sums")) == 2)
    result.stop()
    assert result.metrics()["rows"]["lines_unfinished"] == 1
    with file.open("a") as log:
        log.write("0:00Z,a,100\n2024-01-01T00:00:00Z,a,1000")
    result = start(runner, summing(folder, "csv", "names"), "drained")
    result.wait_until_finish()
    assert [record.value for record in result.collected("sums")][:3] == [("a", 1), ("a", 11), ("a", 111)]
    assert result.collected("sums")[-1].value == ("a", 1_111)
