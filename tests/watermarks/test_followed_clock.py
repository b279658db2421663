"""A followed folder under a replay clock: a file that has been read to its end does not hold the clock."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed
from dataflow_model.runners.sharded.tasks.shard_state import ShardState
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from tests.support.folders import Folder
from tests.support.micro_batches import Streamed
from tests.support.watermarks.files import summed, write

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dataflow_model.plan.watermarks.estimators import Arrival

MINUTE = 60


def hour_of(folder: Path, number: int) -> None:
    """Write a file of one hour, a row a minute, sorted by the clock."""
    seconds = [number * 3_600 + minute * MINUTE for minute in range(60)]
    write(folder / f"hour-{number:05d}.parquet", [(second, second, 1, "p") for second in seconds])


def metas(streamed: Streamed) -> list[Any]:
    return [
        ShardState.open(Task(streamed.program, ProcessCache()), *key, store).meta
        for key, store in streamed.stores.items()
    ]


def followed(folder: Path, **options: Any) -> Any:
    windowing = dm.Window.into(dm.FixedWindows("10 minutes"))
    return summed(folder, windowing, follow=True, **options)


@pytest.mark.parametrize("rows", [7, 1_000])
def test_files_that_follow_each_other_advance_the_clock(tmp_path: Path, rows: int) -> None:
    hour_of(tmp_path / "in", 0)
    streamed = Streamed(followed(tmp_path / "in"), tmp_path, rows)
    for number in range(1, 5):
        for _ in range(60 // rows + 2):
            streamed.step()
        panes = len(streamed.collected("kept"))
        assert panes == 6 * number - 1  # the last tick waits for a later one, in case that it has more rows
        hour_of(tmp_path / "in", number)
    assert sum(len(meta.waiting) for meta in metas(streamed)) <= len(streamed.stores)
    for _ in range(60 // rows + 2):
        streamed.step()
    streamed.step(drain=True)
    assert [record.value[1] for record in streamed.collected("kept")] == [10] * 30
    assert streamed.metrics()["sum"].get("behind_clock", 0) == 0


def test_rows_of_the_last_tick_in_a_later_file_are_not_behind_the_clock(tmp_path: Path) -> None:
    write(tmp_path / "in" / "a.parquet", [(0, 0, 1, "p"), (5, 5, 1, "p")])
    streamed = Streamed(followed(tmp_path / "in"), tmp_path)
    streamed.step()
    write(tmp_path / "in" / "b.parquet", [(5, 5, 1, "p"), (9, 9, 1, "p")])
    streamed.step()
    streamed.step(drain=True)
    assert [record.value[1] for record in streamed.collected("kept")] == [4]
    assert streamed.metrics()["sum"].get("behind_clock", 0) == 0


def test_files_that_are_present_together_are_read_in_the_order_of_the_clock(tmp_path: Path) -> None:
    for name, start in (("a", 0), ("b", 1)):
        write(tmp_path / "in" / f"{name}.parquet", [(start + 2 * row, start + 2 * row, 1, name) for row in range(300)])
    streamed = Streamed(followed(tmp_path / "in"), tmp_path, rows=11)
    for _ in range(80):
        streamed.step()
    streamed.step(drain=True)
    assert [record.value[1] for record in streamed.collected("kept")] == [600]
    assert streamed.metrics()["sum"].get("behind_clock", 0) == 0


def test_rows_behind_the_clock_are_incorporated_at_the_current_tick_and_counted(tmp_path: Path) -> None:
    hour_of(tmp_path / "in", 3)
    streamed = Streamed(followed(tmp_path / "in"), tmp_path)
    streamed.step()
    hour_of(tmp_path / "in", 2)
    streamed.step()
    hour_of(tmp_path / "in", 4)
    streamed.step()
    streamed.step(drain=True)
    assert streamed.metrics()["sum"]["behind_clock"] == 60
    read = streamed.metrics()["rows"]["elements_out"]
    in_panes = sum(record.value[1] for record in streamed.collected("kept"))
    assert read == 180 == in_panes + streamed.metrics()["sum"]["dropped_because_late"]


@pytest.mark.parametrize(
    "options",
    [
        {"processing_time": "seen"},
        {"processing_time": None},
        {"processing_time": None, "watermark_origin": "file"},
        {"processing_time": "seen", "watermark_origin": "file", "max_skew": "1 day"},
        {
            "processing_time": None,
            "watermark": dm.OldestFile(lambda name: f"2013-01-01T00:00:{int(name[5:10]) % 60:02}Z"),
        },
    ],
)
def test_the_state_of_a_shard_does_not_grow_with_removed_files(tmp_path: Path, options: dict[str, Any]) -> None:
    folder = tmp_path / "in"
    if isinstance(options.get("watermark"), dm.OldestFile):
        options = {**options, "watermark_origin": "file"}
    streamed = Streamed(followed(folder, **options, schema=_schema()), tmp_path)
    sizes = []
    for number in range(40):
        write(folder / f"hour-{number:05d}.parquet", [(number, number, 1, "p")])
        streamed.step()
        (folder / f"hour-{number:05d}.parquet").unlink()
        sizes.append(sum(len(pickle.dumps(meta)) for meta in metas(streamed)))
    assert max(sizes[10:]) <= max(sizes[:10]) + 50


def _schema() -> pa.Schema:
    return pa.schema({"at": pa.int64(), "seen": pa.int64(), "value": pa.int64(), "partition": pa.string()})


@attrs.frozen
class Partitions(ColumnSource):
    """Partitions of a log, which may get more rows at any time."""

    event_time: str | Arrival | None = "at"
    processing_time: str | None = "seen"
    is_bounded: bool = False

    def origins(self) -> list[Origin]:
        return [Origin("a", 3), Origin("b", 5)]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        raise NotImplementedError

    def schema(self) -> pa.Schema:
        return _schema()


def test_a_partition_that_may_get_more_rows_holds_the_clock_when_all_have_been_read() -> None:
    pipeline = dm.Pipeline()
    _ = pipeline | "rows" >> dm.Read(Partitions()) | dm.io.Collect()
    feed = Feed(cut_into_stages(pipeline.plan()).sources, 100, 1)
    start = Offset()
    for _ in range(3):
        end = feed.next(start, drain=False)
        assert sorted(feed.control(start, end).open_origins) == [("rows", "a"), ("rows", "b")]
        start = end
    assert not feed.slices(start, feed.next(start, drain=False))


def test_lines_appended_to_a_completely_read_file_are_incorporated(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "in", "csv")
    folder.put("log", [1_000_000])

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadCsv(str(folder.path), event_time="at", processing_time="at", follow=True)
        pairs = rows | dm.Map(lambda row: ("k", 1)) | dm.Window.into(dm.FixedWindows(10))
        _ = pairs | "sum" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()

    streamed = Streamed(build, tmp_path)
    for second in (2, 3, 12, 13, 25, 26):
        streamed.step()
        folder.append("log", [second * 1_000_000])
    streamed.step()
    assert [record.value[1] for record in streamed.collected("kept")] == [3, 2]
    assert streamed.metrics()["sum"].get("behind_clock", 0) == 0
