"""A damaged checkpoint: no run that goes on from it is wrong, and each error names the part and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.faults.damage import Damage, damages, our_files
from tests.support.faults.damaged_local import ENDINGS, StoppedRun
from tests.support.faults.damaged_spark import StoppedSpark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.faults.tally import Tally

KIND = "checkpoint damaged"
PARTS = {"ahead", "progress.json", "collected", "requests", "source_columns", "sequencers"}
"""What every checkpoint has here."""
NOT_REQUIRED = ("sequencers", "local", "publishing.json", "signals")
"""Files in process whose damage need not be noticed, where it changes nothing."""


def outcomes(
    stopped: StoppedRun | StoppedSpark, drawn: Iterable[Damage], go_on: Callable[[], dict[str, Any]]
) -> tuple[int, list[str]]:
    """Damage a checkpoint in several ways, and go on each time; return how often, and what is wrong.

    Args:
        stopped: the run.
        drawn: the damage, one by one.
        go_on: goes on from the checkpoint, and returns what comes of it.
    """
    stopped.restore()
    expected = go_on()
    problems: list[str] = []
    applied = 0
    for damage in drawn:
        stopped.restore()
        if not damage.apply(stopped.checkpoint, stopped.earlier / "checkpoint"):
            continue
        applied += 1
        try:
            actual = go_on()
        except dm.StateCorruption as error:
            names = (f"'{stopped.checkpoint}", "the state of shard ")
            if "\nHint: " not in str(error) or not any(name in str(error) for name in names):
                problems.append(f"{damage} is reported without the part or the way out: {error}")
        except Exception as error:  # noqa: BLE001 - errors that are not ours are what this looks for
            problems.append(f"{damage} raises {type(error).__name__}: {error}")
        else:
            problems += [f"{damage} changes {name!r}" for name in expected if actual[name] != expected[name]]
    return applied, problems


def parts_of(checkpoint: Path) -> set[str]:
    return {path.parts[1] for path in our_files(checkpoint)}


@pytest.mark.parametrize("ending", ENDINGS)
def test_damage_to_the_checkpoint_of_a_stream_in_process_is_an_error_or_changes_nothing(
    ending: str, tmp_path: Path, tally: Tally
) -> None:
    stopped = StoppedRun(tmp_path, ending)
    assert parts_of(stopped.kept / "checkpoint") >= PARTS | ({"seed"} if ending == "upgraded" else {"run.json"})
    applied, problems = outcomes(stopped, damages(stopped.kept / "checkpoint", 10, 1), stopped.finish)
    assert not problems, "\n".join(problems)
    tally.judge(KIND, applied, {}, {})


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_much_damage_to_the_checkpoint_of_a_stream_in_process_is_an_error_or_changes_nothing(
    ending: str, tmp_path: Path, tally: Tally
) -> None:
    stopped = StoppedRun(tmp_path, ending)
    applied, problems = outcomes(stopped, damages(stopped.kept / "checkpoint", 400, 2), stopped.finish)
    assert not problems, "\n".join(problems)
    tally.judge(KIND, applied, {}, {})


@pytest.mark.parametrize("ending", ["stopped", "upgraded"])
def test_a_file_with_a_flipped_bit_or_without_its_end_is_reported_by_name(ending: str, tmp_path: Path) -> None:
    stopped = StoppedRun(tmp_path, ending)
    files = [path for path in our_files(stopped.kept / "checkpoint") if not set(NOT_REQUIRED) & set(path.parts)]
    for number, path in enumerate(files):
        stopped.restore()
        Damage("flip" if number % 2 else "truncate", path, number=40 + number).apply(
            stopped.checkpoint, stopped.earlier
        )
        with pytest.raises(dm.StateCorruption, match=rf"{path.name}' is damaged|in '.*{path.name}'"):
            stopped.finish()


@pytest.mark.parametrize("ending", ["after_commit", "after_publishing"])
def test_the_loss_of_the_record_of_a_published_commit_is_detected(ending: str, tmp_path: Path) -> None:
    stopped = StoppedRun(tmp_path, ending)
    stopped.restore()
    expected = stopped.finish()
    stopped.restore()
    log = stopped.checkpoint / "local" / "run.sqlite-wal"
    log.write_bytes(log.read_bytes()[:-1])  # which ends with the last commit
    if ending == "after_commit":
        assert stopped.finish() == expected
        return
    problem = rf"'{stopped.checkpoint}' is damaged: the commit of micro-batch 5, which was published, is missing"
    with pytest.raises(dm.StateCorruption, match=problem):
        stopped.finish()
    with pytest.raises(dm.StateCorruption, match=problem):
        dm.upgrade(stopped.checkpoint, tmp_path / "next")


def test_collected_records_of_which_a_file_is_missing_are_not_returned(tmp_path: Path) -> None:
    stopped = StoppedRun(tmp_path, "stopped")
    folder = stopped.checkpoint / "dataflow" / "collected" / "counted"
    first, *_, last = sorted(folder.iterdir())
    for lost, number in ((first, 0), (last, 4)):
        stopped.restore()
        lost.unlink()
        problem = rf"'{folder}' is damaged: files missing: 1, the first has the number {number}\nHint: "
        with pytest.raises(dm.StateCorruption, match=problem):
            stopped.finish()


def test_a_signal_request_that_is_lost_before_it_takes_effect_is_reported_by_name(tmp_path: Path) -> None:
    stopped = StoppedRun(tmp_path, "stopped")
    (request,) = (stopped.checkpoint / "dataflow" / "requests" / "signals").iterdir()
    request.unlink()
    with pytest.raises(dm.StateCorruption, match="the request for the signal 'flush' is missing\nHint: "):
        stopped.finish()


@pytest.mark.slow
def test_damage_to_the_checkpoint_of_a_stream_on_spark_is_an_error_or_changes_nothing(
    spark: SparkSession, tmp_path: Path, tally: Tally
) -> None:
    on_spark = StoppedSpark(spark, tmp_path, is_older=False)
    assert parts_of(on_spark.kept / "checkpoint") >= PARTS | {"run.json", "publishing.json", "inputs", "draws"}
    applied, problems = outcomes(on_spark, damages(on_spark.kept / "checkpoint", 40, 1), on_spark.opened)
    assert not problems, "\n".join(problems)
    tally.judge(KIND, applied, {}, {})


@pytest.mark.slow
def test_much_damage_to_the_checkpoint_of_a_stream_on_spark_is_an_error_or_changes_nothing(
    spark: SparkSession, tmp_path: Path, tally: Tally
) -> None:
    on_spark = StoppedSpark(spark, tmp_path, is_older=True)
    applied, problems = outcomes(on_spark, damages(on_spark.kept / "checkpoint", 500, 2), on_spark.opened)
    again, wrong = outcomes(on_spark, damages(on_spark.kept / "checkpoint", 20, 4), on_spark.finish)
    assert not problems + wrong, "\n".join(problems + wrong)
    tally.judge(KIND, applied + again, {}, {})
