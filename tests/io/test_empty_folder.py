"""A followed folder that is empty at the start needs no schema: its first file with rows decides, once and for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from tests.support.micro_batches import Streamed
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

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
def test_the_first_file_decides_also_after_a_restart(
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
def test_so_it_does_on_several_shards(tmp_path: Path, kind: str, way: str) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    streamed = Streamed(summing(folder, kind, way), tmp_path / "checkpoint")
    put(folder, kind, "1", [1])
    streamed.step()
    assert [record.value for record in streamed.collected("sums")] == [("a", 1)]
