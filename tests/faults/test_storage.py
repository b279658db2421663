"""A checkpoint that cannot be written for a while, a disk that is full, state that is damaged."""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from dataflow_model.errors import StateCorruption
from tests.support.faults.injected import DamagedState, marks
from tests.support.faults.outcomes import outcome_of
from tests.support.faults.summing import SINK, Sums
from tests.support.faults.victims import Victim
from tests.support.pipelines import seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from pyspark.sql import SparkSession

    from tests.support.faults.flights_job import Job
    from tests.support.faults.tally import Tally

TIMES = 5


@contextlib.contextmanager
def refusing(directory: Path) -> Iterator[None]:
    """Let nothing be made, renamed or removed in a directory and those below it; root writes where others may not."""
    refused: list[Path] = []
    set_refusal(directory, refuses=True)  # nothing new can come into it while those below are walked
    try:
        refused.append(directory)
        for folder, names, _ in os.walk(directory):
            for name in names:
                below = directory / folder / name
                set_refusal(below, refuses=True)
                refused.append(below)
        yield
    finally:
        for path in refused:
            set_refusal(path, refuses=False)


def set_refusal(directory: Path, *, refuses: bool) -> None:
    if os.geteuid():
        directory.chmod(0o555 if refuses else 0o755)
    else:
        subprocess.run(["chattr", "+i" if refuses else "-i", directory], check=True, capture_output=True)


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    """Leave no room on a disk."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4_096)):
            pass
    try:
        yield
    finally:
        ballast.unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a small disk; skip where none may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", disk], check=False, capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no disk of its own may be mounted: {mounted.stderr}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)


def hurt(victim: Victim, hurting: Callable[[], AbstractContextManager[None]], seed: int) -> int:
    """Let something be wrong at random moments until the run has failed by it; return how often it has."""
    rng, job, failed = random.Random(seed), victim.job, 0
    for _ in range(TIMES):
        assert victim.comes_to(job.micro_batches() + 2)
        assert victim.lives(rng.uniform(0, 1))
        before = job.failed()
        with hurting():
            assert victim.fails(before + 1)
            victim.lives(rng.uniform(0, 2))  # it tries again in vain
            failed += job.failed() - before
    return failed


@pytest.mark.slow
@pytest.mark.spark
def test_a_checkpoint_that_refuses_writes_for_a_while_changes_nothing(
    java_home: str,
    new_job: Callable[..., Job],
    uninterrupted: dict[str, list[Any]],
    tally: Tally,
    tmp_path: Path,
) -> None:
    try:
        with refusing(tmp_path), pytest.raises(PermissionError):
            (tmp_path / "new").touch()
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        pytest.skip(f"the file system does not refuse root's writes: {error}")
    job = new_job(resumes=500)
    with Victim(java_home, job) as victim:
        failed = hurt(victim, lambda: refusing(job.checkpoint), seed=1)
        victim.finish()
    tally.judge("checkpoint refuses writes", failed, uninterrupted, outcome_of(job))


@pytest.mark.slow
@pytest.mark.spark
def test_a_full_disk_changes_nothing_once_there_is_room_again(
    java_home: str, new_job: Callable[..., Job], uninterrupted: dict[str, list[Any]], tally: Tally, disk: Path
) -> None:
    job = new_job(resumes=500, disk=disk)
    with Victim(java_home, job) as victim:
        failed = hurt(victim, lambda: full(disk), seed=2)
        victim.finish()
    tally.judge("disk full", failed, uninterrupted, outcome_of(job))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("flipped", r"part 0 of record \d+ fails its checksum"),
        pytest.param("truncated", r"part 0 of record \d+ fails its checksum", marks=pytest.mark.slow),
        pytest.param("lost", r"part 0 of record \d+ is missing", marks=pytest.mark.slow),
        pytest.param("head", "its head fails its checksum", marks=pytest.mark.slow),
    ],
)
def test_damaged_state_is_reported_with_its_shard_and_no_wrong_output_is_committed(
    spark: SparkSession, tmp_path: Path, tally: Tally, how: str, reason: str
) -> None:
    sums = Sums(tmp_path)
    fault = DamagedState(str(tmp_path / "marks"), how, micro_batch=1)
    with pytest.raises(Exception, match=r"InjectedFailure|is damaged"):  # another worker may have to read it at once
        sums.run(spark, fault)
    damaged = marks(fault.folder)
    with pytest.raises(
        StateCorruption, match=rf"the state of shard \d+ of stage \d is damaged: {reason}\nHint: restore"
    ):
        sums.run(spark)
    committed = seen(sums.committed())
    expected = sums.uninterrupted()[SINK]
    assert 0 < len(committed) < len(expected)
    tally.judge("state damaged", len(damaged), {SINK: expected[: len(committed)]}, {SINK: committed})
