"""Injectors: what seeds the watermark of files that follow each other, and of partitions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.computations.scribe import run
from tests.support.micro_batches import Streamed
from tests.support.pipelines import difference, seen, streaming
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

COLUMNS = pa.schema({"at": pa.int64(), "seen": pa.int64(), "centre": pa.string()})
SECOND = 1_000_000


def write(folder: Path, name: str, *rows: tuple[int, int]) -> None:
    """Let a file appear whole, with rows of event time and clock in seconds."""
    folder.mkdir(exist_ok=True)
    lines = [{"at": at * SECOND, "seen": seen * SECOND, "centre": name} for at, seen in rows]
    fresh = folder / f"_{name}"
    fresh.write_text("".join(json.dumps(line) + "\n" for line in lines))
    fresh.rename(folder / name)


def rows(folder: Path, **options: Any) -> dm.Read:
    return dm.io.ReadJson(folder, event_time="at", schema=COLUMNS, **options)


class Low(dm.Computation):
    """Tells the watermark that each row meets, in seconds."""

    def process_record(self, record: dm.StreamRecord) -> None:
        low = self.low_watermark()
        value = int(record.value.at) // SECOND, None if low == dm.MIN_TIMESTAMP else int(low) // SECOND
        self.produce(dm.StreamRecord(record.key, value, record.timestamp), "told")


def telling(injector: dm.PTransform) -> dm.Topology:
    topology = dm.Topology()
    topology.inject("rows", injector)
    topology.add(Low(), subscribe={"rows": lambda row: row.centre}, produces=["told"])
    topology.sink("told", dm.io.Collect())
    return topology


def of_name(name: str) -> int:
    return int(name.removesuffix(".json").rpartition("/")[2])


def test_the_watermark_is_when_the_oldest_unfinished_file_was_created(tmp_path: Path) -> None:
    write(tmp_path, "000.json", (1, 1), (9, 12))
    write(tmp_path, "010.json", (11, 11), (19, 25))
    write(tmp_path, "020.json", (21, 21), (22, 30))
    injector = dm.FileInjector(rows(tmp_path, processing_time="seen"), created=of_name)
    watermarks = [record.value[1] for record in run(telling(injector)).collected("told")]
    assert watermarks == [(1, None), (11, 0), (9, 0), (21, 10), (19, 10), (22, 20)]


def test_a_file_that_is_read_last_holds_the_watermark_back_from_the_start(tmp_path: Path) -> None:
    write(tmp_path, "b.json", (15, 1), (16, 2), (17, 3))
    write(tmp_path, "a.json", (7, 4))
    created = {"a.json": 5, "b.json": 10}
    injector = dm.FileInjector(rows(tmp_path, processing_time="seen"), created=created.__getitem__)
    assert [record.value[1] for record in run(telling(injector)).collected("told")] == [
        (15, None),
        (16, 5),
        (17, 5),
        (7, 5),
    ]


def test_a_file_whose_name_has_no_creation_time_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    write(tmp_path, "misc.json", (1, 1))
    with pytest.raises(
        dm.SourceError, match=r"cannot tell from its name when the file 'misc.json' was created(.|\n)*fix created"
    ):
        run(telling(dm.FileInjector(rows(tmp_path), created="%Y%m%d.json")))


def test_required_partitions_hold_the_watermark_back_until_they_report(tmp_path: Path) -> None:
    write(tmp_path, "east", (5, 1), (9, 2))
    write(tmp_path, "west", (3, 3), (20, 4))
    clocked = rows(tmp_path, processing_time="seen")
    partitioned = dm.Injector(clocked, partition_by="centre", partitions=["east", "west"], watermark=dm.Monotonic())
    assert [it.value[1] for it in run(telling(partitioned)).collected("told")] == [
        (5, None),
        (9, None),
        (3, None),
        (20, 3),
    ]
    assert [it.value[1] for it in run(telling(dm.Injector(clocked))).collected("told")] == [
        (5, None),
        (9, 5),
        (3, 9),
        (20, 9),
    ]


def test_an_injector_keeps_options_of_its_source_that_it_has_no_argument_for(tmp_path: Path) -> None:
    paced = rows(tmp_path, watermark_origin="file", max_skew="1 hour", weight="records")
    for injector in (dm.FileInjector(paced, created=of_name), dm.Injector(paced, partition_by="centre")):
        origins = injector.source.watermark_origins
        assert (origins.max_skew, origins.weight) == (dm.duration("1 hour"), "records")


def test_an_injector_without_partitions_says_what_its_own_argument_is_called(tmp_path: Path) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"Hint: pass watermark_origin= \(of dm.Injector, partition_by=\)"):
        dm.Injector(rows(tmp_path), idle_after="1 minute")


def test_an_injector_refuses_a_source_that_has_a_watermark_of_its_own(tmp_path: Path) -> None:
    own: list[Any] = [dm.Create([1]), TestStream(), dm.io.Collect()]
    for source in own:
        with pytest.raises(dm.InvalidType, match="expected a source of rows, got"):
            dm.Injector(source)
    with pytest.raises(dm.InvalidArgument, match="there is no column 'center'"):
        dm.Injector(rows(tmp_path), partition_by="center")
    with pytest.raises(
        dm.InvalidArgument, match=r"needs a watermark for each file, but the origins here are the whole sou"
    ):
        rows(tmp_path, watermark=dm.OldestFile("%Y.json"))
    with pytest.raises(dm.InvalidType, match="`created` must be a pattern of file names, or a function of one, got 5"):
        dm.OldestFile(5)


@pytest.mark.parametrize("most", [1, 2, 100])
def test_replayed_files_give_the_same_output_however_they_are_cut_into_micro_batches(tmp_path: Path, most: int) -> None:
    for name, clock in (("000.json", 2), ("010.json", 3), ("020.json", 5), ("030.json", 4)):
        write(tmp_path / "in", name, *((of_name(name) + n, clock + 10 * n + of_name(name)) for n in range(5)))
    topology = telling(dm.FileInjector(rows(tmp_path / "in", processing_time="seen"), created=of_name))
    expected = run(topology).collected("told")
    assert {record.value[1][1] for record in expected} == {None, 0, 10, 20, 30}
    assert not difference(seen(expected), seen(Streamed(topology.build, tmp_path, most).finish().collected("told")))


def test_listed_files_that_are_not_read_yet_hold_the_watermark_back(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    created = {"a.json": 10, "b.json": 50, "c.json": 40}
    write(folder, "a.json", (11, 0), (12, 0))
    injector = dm.FileInjector(rows(folder, follow=True), created=created.__getitem__)
    stream = Streamed(telling(injector).build, tmp_path, rows=2)

    def low_after_a_step() -> int:
        stream.step()
        watermark: int = stream.progress()["watermarks"]["Inject.rows"]
        return watermark // SECOND

    assert low_after_a_step() == 10  # all there is has been read: what comes is newer
    write(folder, "b.json", (51, 0), (52, 0))
    write(folder, "c.json", (41, 0))
    stream.rows = 1
    assert [low_after_a_step() for _ in range(3)] == [40, 40, 50]  # b, though it is read first, is the newer one
    stream.step(drain=True)
    assert stream.progress()["watermarks"]["Inject.rows"] == dm.MAX_TIMESTAMP


def test_a_file_with_an_incomplete_last_line_holds_the_watermark_back(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    write(folder, "a.json", (11, 0))
    stream = Streamed(telling(dm.FileInjector(rows(folder, follow=True), created=of_name)).build, tmp_path, rows=5)

    def low_after_a_step() -> int:
        stream.step()
        watermark: int = stream.progress()["watermarks"]["Inject.rows"]
        return watermark // SECOND

    folder.joinpath("010.json").write_text(folder.joinpath("a.json").read_text() + '{"at": 1200')
    folder.joinpath("a.json").unlink()
    write(folder, "020.json", (21, 0))
    assert [low_after_a_step() for _ in range(2)] == [10, 10]
    with folder.joinpath("010.json").open("a") as file:
        file.write('0000, "seen": 0, "centre": "a"}\n')
    assert low_after_a_step() == 20
    folder.joinpath("030.json").write_text('{"at": 31')
    assert low_after_a_step() == 30
    folder.joinpath("030.json").unlink()
    write(folder, "040.json", (41, 0))
    assert low_after_a_step() == 40


@pytest.mark.slow
def test_the_watermark_of_a_followed_folder_advances_as_files_appear(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    write(folder, "010.json", (11, 1), (19, 1))
    topology = telling(dm.FileInjector(rows(folder, follow=True), created=of_name))
    result = topology.run(streaming(spark, tmp_path / "checkpoint"))
    wait_for(result, lambda: result.watermarks().get("Inject.rows") == dm.event_time(10))
    write(folder, "020.json", (21, 1))
    wait_for(result, lambda: result.watermarks()["Inject.rows"] == dm.event_time(20))
    write(folder, "030.json", (31, 1))
    result.drain()
    watermarks = [record.value[1] for record in result.collected("told")]
    assert watermarks[:3] == [(11, None), (19, None), (21, 10)]
