"""A micro-batch that is run again gives what it gave before, though its functions would give something else."""

from __future__ import annotations

import contextlib
import copy
import pathlib
import shutil
import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import dataflow_model as dm
from dataflow_model.runners.sharded.checkpoint.sequencers import take_sequencer
from dataflow_model.runners.sharded.outputs.commit_ids import commit_id
from dataflow_model.runners.sharded.stages import in_process
from dataflow_model.runners.sharded.stages.keyed_stage import run_shard
from dataflow_model.runners.sharded.tasks.faults import NO_FAULT, Crash
from dataflow_model.runners.sharded.tasks.task import ProcessCache
from dataflow_model.testing import CrashPoint, TestStream
from tests.support.micro_batches import Streamed
from tests.support.pipelines import run as run_to_end
from tests.support.pipelines import streaming
from tests.support.retractions.accounts import net

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

PUBLISHING = [point for point in CrashPoint.POINTS if point.endswith(("publishing", "progress"))]
ROWS = pa.schema({"key": pa.string(), "value": pa.string()})
SCRIPT = TestStream()
for second in range(24):
    SCRIPT = SCRIPT.processing_time(second).add(second, event_time=second, key="abcd"[second % 4]).watermark(second)


def drawn(p: dm.Pipeline, draw: Callable[[Any], Any]) -> Any:
    """Return sums that are taken back, each with what a function has drawn for it."""
    each = dm.Window.into(dm.FixedWindows("24 seconds")).trigger(dm.Repeatedly(dm.AfterCount(1)))
    sums = p | "script" >> SCRIPT | each.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
    return sums | "draw" >> dm.Map(draw).with_output_types(tuple[str, str]).retractable("memoised")


def named_anew(pair: Any) -> tuple[str, str]:
    return pair[0], f"{pair[1]} {uuid.uuid4().hex}"


def builder(folder: Path, draw: Callable[[Any], Any] = named_anew) -> Callable[[dm.Pipeline], None]:
    """Build with two sinks of files, of which the first commit stands, and one that keeps the last."""

    def build(p: dm.Pipeline) -> None:
        names = drawn(p, draw)
        for label in ("one", "two"):
            _ = names | label >> dm.io.WriteJson(f"{folder}/{label}", schema=ROWS, panes=True)
        _ = names | "kept" >> dm.io.Collect()

    return build


def agree(folder: Path, kept: list[Any]) -> None:
    """Check that each sink has what the others have, and that what it takes back stands there."""
    assert sum(record.is_retraction for record in kept) == 20
    assert sorted(value[0] for value in net(kept)) == ["a", "b", "c", "d"]
    expected = Counter((*record.value, record.is_retraction) for record in kept)
    for label in ("one", "two"):
        assert Counter(rows_of(folder, label)) == expected, label


def rows_of(folder: Path, label: str) -> list[tuple[str, str, bool]]:
    rows = ds.dataset(folder / label, format="json").to_table().to_pylist()
    return [(row["key"], row["value"], row["is_retraction"]) for row in rows]


class Died(Exception):
    """The process is dead."""


@attrs.frozen
class Death(Crash):
    """A crash that leaves the test alive."""

    def reach(self, point: str, micro_batch: int) -> None:
        if point == self.point and micro_batch == self.micro_batch:
            raise Died(point)


class Mortal(Streamed):
    """A stream of micro-batches that dies and is started again, on other workers."""

    weak: bool = False
    planned: tuple[int, int] | None = None

    def begin(self, death: Crash | None = None, build: Callable[[dm.Pipeline], Any] | None = None) -> None:
        """Start, or start again."""
        self.cache = ProcessCache()
        made = self.program if build is None else Streamed(build, self.folder).program
        pathlib.Path(self.directory).mkdir(exist_ok=True)
        sequencer = take_sequencer(self.directory)
        self.program = attrs.evolve(
            made,
            directory=self.directory,
            sequencer=sequencer,
            planned=self.planned,
            fault=death or NO_FAULT,
            weak=self.weak,
            digest=uuid.uuid4().hex,
        )

    def die(self) -> None:
        """Run one micro-batch into death; what it has done to state is lost."""
        before = copy.deepcopy(self.stores)
        number = self.offset.batch + 1
        if self.planned is None or self.planned[0] != number:
            self.planned = number, self.program.sequencer
        with pytest.raises(Died):
            self.step()
        self.stores = before


@pytest.fixture
def mortal(tmp_path: Path) -> Mortal:
    made = Mortal(builder(tmp_path), tmp_path, rows=18)
    made.begin()
    return made


def kept_files(run: Mortal) -> list[str]:
    return [path.parent.name for path in pathlib.Path(run.directory).glob("draws/*/*/*")]


@pytest.mark.parametrize("point", PUBLISHING)
@pytest.mark.parametrize("times", [1, 2])
def test_outputs_retracted_after_a_crash_equal_those_published_before_it(
    mortal: Mortal, tmp_path: Path, point: str, times: int
) -> None:
    mortal.step()
    for _ in range(times):
        mortal.begin(Death(point, 2, ""))
        mortal.die()
    mortal.begin()
    mortal.finish()
    agree(tmp_path, mortal.collected("kept"))


def test_outputs_that_an_older_start_did_not_publish_are_computed_again(mortal: Mortal, tmp_path: Path) -> None:
    def mended(pair: Any) -> tuple[str, str]:
        return pair[0], f"{pair[1]} mended {uuid.uuid4().hex}"

    mortal.step()
    mortal.begin(Death("after_writing", 2, ""))
    mortal.die()
    mortal.begin(build=builder(tmp_path, mended))
    before = len(mortal.collected("kept"))
    mortal.step()
    fresh = [record for record in mortal.collected("kept")[before:] if not record.is_retraction]
    assert fresh
    assert all("mended" in record.value[1] for record in fresh)
    mortal.finish()
    agree(tmp_path, mortal.collected("kept"))


def test_retractions_after_a_crash_match_weak_productions_of_an_unpublished_micro_batch(
    mortal: Mortal, tmp_path: Path
) -> None:
    mortal.weak = True
    mortal.step()
    mortal.begin(Death("after_writing", 2, ""))
    before = len(rows_of(tmp_path, "one"))
    mortal.die()
    published = rows_of(tmp_path, "one")
    assert len(published) > before
    mortal.begin()
    mortal.finish()
    agree(tmp_path, mortal.collected("kept"))
    assert set(published) <= set(rows_of(tmp_path, "one"))


def test_later_attempts_reuse_the_memoised_outputs_of_a_failed_attempt(
    mortal: Mortal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a worker is lost with its output after others have read it."""

    def run_twice(task: Any, depth: int, shard: int, rows: Any, store: Any) -> Iterator[Any]:
        lost = list(run_shard(task, depth, shard, rows, copy.deepcopy(store)))
        again = list(run_shard(task, depth, shard, rows, store))
        assert [row for row in lost if row.kind == "output"] == [row for row in again if row.kind == "output"]
        yield from again

    monkeypatch.setattr(in_process, "run_shard", run_twice)
    mortal.finish()
    agree(tmp_path, mortal.collected("kept"))


def test_of_two_concurrent_attempts_only_the_faster_one_continues(
    mortal: Mortal, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def run_two(task: Any, depth: int, shard: int, rows: Any, store: Any) -> list[Any]:
        slow = run_shard(task, depth, shard, rows, copy.deepcopy(store))
        first_rows = [row for _, row in zip(range(1), slow, strict=False)]
        task.cache.forget_shards()
        records = list(run_shard(task, depth, shard, rows, store))
        try:
            list(slow)
        except dm.SupersededRun as error:
            assert first_rows
            refused.append(str(error))
        return records

    monkeypatch.setattr(in_process, "run_shard", run_two)
    mortal.step()
    assert refused
    assert all("another attempt of this micro-batch has kept different outputs" in message for message in refused)
    assert not list(pathlib.Path(mortal.directory).glob("draws/*/.*"))


def test_recorded_outputs_are_removed_once_they_are_committed(mortal: Mortal) -> None:
    for number in (1, 2):
        mortal.step()
        assert {name.partition(".")[0] for name in kept_files(mortal)} == {commit_id(mortal.program, number)}


def test_damaged_records_of_memoised_outputs_stop_the_run(mortal: Mortal) -> None:
    mortal.begin(Death("after_publishing", 1, ""))
    mortal.die()
    for path in pathlib.Path(mortal.directory).glob("draws/*/*/*"):
        path.write_bytes(path.read_bytes()[:-1])
    mortal.begin()
    with pytest.raises(dm.StateCorruption, match=r"fails its checksum\nHint: restore the checkpoint directory"):
        mortal.step()


@pytest.mark.parametrize("lost", ["*", "*/*/*"])
def test_missing_records_of_published_memoised_outputs_stop_the_run(mortal: Mortal, lost: str) -> None:
    mortal.begin(Death("while_publishing", 1, ""))
    mortal.die()
    for path in pathlib.Path(mortal.directory, "draws").glob(lost):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    mortal.begin()
    with pytest.raises(dm.StateCorruption, match=r"draws/2-.*missing\nHint: restore the checkpoint directory"):
        mortal.step()


def test_the_run_stops_if_memoised_outputs_cannot_be_recorded(mortal: Mortal) -> None:
    pathlib.Path(mortal.directory, "draws").write_text("in the way")
    with pytest.raises(dm.SinkError, match=r"cannot be written: .*\nHint: check free space"):
        mortal.step()


def test_no_outputs_are_recorded_if_no_function_is_memoised(tmp_path: Path) -> None:
    def plain(p: dm.Pipeline) -> None:
        _ = p | SCRIPT | dm.Window.into(dm.FixedWindows(5)) | dm.Sum.per_key() | dm.io.Collect()

    run = Mortal(plain, tmp_path, rows=18)
    run.begin()
    run.step()
    assert not pathlib.Path(run.directory, "draws").exists()


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_that_crashed_while_publishing_retracts_what_it_had_published(
    spark: SparkSession, tmp_path: Path
) -> None:
    def runner() -> dm.SparkRunner:
        return streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=18)

    with CrashPoint("while_publishing", micro_batch=1) as crash:
        with contextlib.suppress(Exception):
            run_to_end(runner(), builder(tmp_path), None)
        assert crash.was_reached
        result = run_to_end(runner(), builder(tmp_path), None)
    agree(tmp_path, result.collected("kept"))
