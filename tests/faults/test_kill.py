"""Law 3: a run that is killed anywhere and resumed commits what the uninterrupted run commits, pane for pane."""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.dataset as ds
import pytest

import dataflow_model as dm
from dataflow_model.demo.running import first_rows
from tests.faults.flights_job import LABELS, build
from tests.runners.jobs import difference, run, seen

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark

JOB = Path(__file__).with_name("flights_job.py")
ROWS = 20_000
ROWS_PER_BATCH = 2_500
PATIENCE = 400
"""Seconds that one run may take at most."""


@pytest.fixture(scope="module")
def departures(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return first_rows(repository / "data/flights.parquet", ROWS, tmp_path_factory.mktemp("flights") / "flights.parquet")


@pytest.fixture(scope="module")
def uninterrupted(departures: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """Return what a run commits that nobody kills; the local one, whose panes are those of Spark."""
    out = tmp_path_factory.mktemp("uninterrupted")
    result = run(dm.LocalRunner(), lambda p: build(p, str(departures), str(out)))
    return {"files": files_of(out)} | {label: seen(result.collected(label)) for label in LABELS}


def files_of(out: Path) -> list[str]:
    """Return the rows of all files in a fixed order."""
    return sorted(map(repr, ds.dataset(out, format="parquet").to_table().to_pylist()))


class Victim:
    """The job in a session of its own, so that driver, JVM and workers can all be killed at once."""

    def __init__(self, java_home: str, log: Path, *arguments: str | Path) -> None:
        environment = {**os.environ, "JAVA_HOME": java_home, "PYSPARK_PYTHON": sys.executable}
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, JOB, *arguments],
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def kill(self) -> None:
        """Kill every process of the session; workers may still be starting while the first ones die."""
        while pids := list(self._alive()):
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.poll()
        self.process.wait()

    def _alive(self) -> Iterator[int]:
        """Yield the processes of the session that live; workers leave the process group, never the session."""
        listed = subprocess.run(
            ["ps", "-o", "pid=,stat=", "-s", str(self.process.pid)], capture_output=True, text=True, check=False
        )
        for line in listed.stdout.splitlines():
            pid, state = line.split()
            if not state.startswith("Z"):
                yield int(pid)


def kill_at(victim: Victim, offset: Path, delay: float) -> bool:
    """Kill once a micro-batch has begun, and so long after; `False` if the run has ended before."""
    pause = threading.Event()
    give_up = time.monotonic() + PATIENCE
    while victim.process.poll() is None and not offset.exists():
        assert time.monotonic() < give_up, f"{offset} has not come"
        pause.wait(0.01)
    try:
        victim.process.wait(delay)
    except subprocess.TimeoutExpired:
        victim.kill()
        return True
    victim.kill()
    return False


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_a_run_killed_at_random_moments_commits_what_an_uninterrupted_one_does(
    java_home: str, tmp_path: Path, departures: Path, uninterrupted: dict[str, list[Any]], seed: int
) -> None:
    rng = random.Random(seed)
    kills = rng.randint(2, 3) if seed else 1
    log, checkpoint, out, kept = (tmp_path / name for name in ("log", "checkpoint", "out", "kept.pickle"))
    arguments = (departures, checkpoint, out, kept, str(ROWS_PER_BATCH))
    moments = [(number, rng.uniform(0, 1.5)) for number in sorted(rng.sample(range(ROWS // ROWS_PER_BATCH), kills))]
    killed = []
    for number, delay in moments:
        victim = Victim(java_home, log, *arguments)
        try:
            if kill_at(victim, checkpoint / "spark" / "offsets" / str(number), delay):
                killed.append((number, delay))
        finally:
            victim.kill()
    last = Victim(java_home, log, *arguments)
    try:
        assert last.process.wait(PATIENCE) == 0, log.read_text()[-5_000:]
    finally:
        last.kill()
    assert killed, f"the run was over before each of {moments}"
    told = f"seed {seed}, killed in micro-batch and after seconds: {killed}"
    collected = pickle.loads(kept.read_bytes())
    for label in LABELS:
        problem = difference(uninterrupted[label], seen(collected[label]))
        assert not problem, f"{label}, {told}: {problem}"
    problem = difference(uninterrupted["files"], files_of(out))
    assert not problem, f"files, {told}: {problem}"
