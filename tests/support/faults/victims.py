"""A job in a process of its own, whose processes a test may kill: all, the executors, the Python workers."""

from __future__ import annotations

import os
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Final, Self, TypeVar

import attrs
import psutil

from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from tests.support.faults.flights_job import StreamJob

__all__ = [
    "EXECUTOR",
    "PATIENCE",
    "PYTHON",
    "WORKER",
    "Victim",
    "descendants",
    "kill",
    "kill_drivers",
    "kill_while_it_runs",
]

AnyJob = TypeVar("AnyJob", bound="StreamJob")

PATIENCE: Final = 400
"""Seconds that anything may take at most."""
EXECUTOR: Final = "CoarseGrainedExecutorBackend"
WORKER: Final = r"daemon(\.py)? pyspark\.worker"
PYTHON: Final = WORKER + r"|python_streaming_(source|sink)_runner"
"""What the command lines of Python processes match: workers and what forks them, what plans and what commits."""


class Victim:
    """The job in a session of its own, so that driver, JVM and workers can all be killed at once.

    As a context manager it is dead at the end, whatever has happened.
    """

    def __init__(self, java_home: str, job: StreamJob) -> None:
        self.job = job
        job.folder.mkdir(parents=True, exist_ok=True)
        (job.folder / "job.pickle").write_bytes(pickle.dumps(job))
        self._starts = job.started()
        environment = {
            **os.environ,
            "JAVA_HOME": java_home,
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": str(REPOSITORY),
            "SPARK_LOCAL_DIRS": str(job.folder / "local"),
        }
        with job.log.open("ab") as file:
            self.process = subprocess.Popen(
                [sys.executable, "-m", job.program, job.folder],
                cwd=REPOSITORY,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def runs(self) -> bool:
        """Whether the program has not ended."""
        return self.process.poll() is None

    def until(self, met: Callable[[], bool], what: str) -> bool:
        """Wait for something; `False` if the program ends before."""
        pause = threading.Event()
        give_up = time.monotonic() + PATIENCE
        while not met():
            if not self.runs:
                return False
            assert time.monotonic() < give_up, f"{what}: not within {PATIENCE} seconds\n{self.output()}"
            pause.wait(0.01)
        return self.runs

    def comes_to(self, micro_batches: int) -> bool:
        """Wait until so many micro-batches have begun; `False` if the program ends before."""
        return self.until(lambda: self.job.micro_batches() >= micro_batches, f"{micro_batches} micro-batches")

    def fails(self, times: int) -> bool:
        """Wait until the run has failed so often; `False` if the program ends before."""
        return self.until(lambda: self.job.failed() >= times, f"{times} failures")

    def lives(self, seconds: float) -> bool:
        """Wait for some seconds, and tell whether the program has not ended."""
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return True
        return False

    def has_started(self) -> bool:
        """Tell whether this process has got as far as to start the run."""
        return self.job.started() > self._starts

    def finish(self) -> None:
        """Wait for the end, which must be a good one."""
        assert self.process.wait(PATIENCE) == 0, self.output()

    def output(self) -> str:
        """Return the last of what Spark has said."""
        return self.job.log.read_text()[-5_000:]

    def processes(self, name: str = "") -> list[int]:
        """Return the processes of the session that live and whose command line this expression matches."""
        return [
            process.pid
            for process in processes()
            if process.session == self.process.pid and re.search(name, process.command)
        ]

    def kill_one(self, name: str, rng: random.Random) -> bool:
        """Kill one of the processes that match; `False` if there is none."""
        pids = self.processes(name)
        return bool(pids) and kill(rng.choice(pids))

    def kill(self) -> None:
        """Kill every process of the session; workers may still be starting while the first ones die."""
        while pids := self.processes():
            for pid in pids:
                kill(pid)
            self.process.poll()
        self.process.wait()


def kill_drivers(
    java_home: str, new_job: Callable[[], AnyJob], *, kills: int, seed: int
) -> Iterator[tuple[AnyJob, int]]:
    """Kill the driver of a job at random moments, and start it again; yield each job that has ended, and its kills.

    A moment is in the start of a run, or in a micro-batch soon after it, also on a machine that is slow.

    Args:
        java_home: where Java is.
        new_job: creates a job, whenever one has ended before all kills were made.
        kills: how many kills in all.
        seed: selects the moments.
    """
    rng = random.Random(seed)
    job, killed, left = new_job(), 0, kills
    while left:
        with Victim(java_home, job) as victim:
            started = victim.until(victim.has_started, "the run has started")
            micro_batches = job.micro_batches() + rng.randrange(3)
            if started and victim.comes_to(micro_batches) and victim.lives(rng.uniform(0, 1.5)):
                killed, left = killed + 1, left - 1
                continue
            victim.finish()
        if killed:
            yield job, killed
        job, killed = new_job(), 0
    with Victim(java_home, job) as victim:
        victim.finish()
    yield job, killed


def kill_while_it_runs(java_home: str, job: StreamJob, name: str, *, kills: int, seed: int) -> int:
    """Kill one process after another, each after a micro-batch has begun since the last; return how many.

    Args:
        java_home: where Java is.
        job: the job, which tries tasks again.
        name: what the command lines of the processes match.
        kills: how many kills at most.
        seed: selects the processes and the moments.
    """
    rng = random.Random(seed)
    killed = 0
    with Victim(java_home, job) as victim:
        reached = 0
        while killed < kills:
            if not victim.comes_to(reached + 1) or not victim.lives(rng.uniform(0, 1)):
                break
            reached = job.micro_batches()
            killed += victim.kill_one(name, rng)
        victim.finish()
    return killed


@attrs.frozen
class Process:
    """A process that lives.

    Attributes:
        pid: its number.
        parent: of what has started it.
        session: of the first process of its session, which workers never leave, unlike its process group.
        command: its command line.
    """

    pid: int
    parent: int
    session: int
    command: str


def processes() -> list[Process]:
    """Return the processes of this machine that live."""
    running = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                session, command = os.getsid(process.pid), " ".join(process.cmdline())
                running.append(Process(process.pid, process.ppid(), session, command))
        except (psutil.Error, ProcessLookupError):
            continue  # it has ended since
    return running


def descendants(name: str) -> list[Process]:
    """Return the processes that this one has started, itself or through others, whose command line this matches."""
    mine, living = {os.getpid()}, processes()
    while more := {process.pid for process in living if process.parent in mine} - mine:
        mine |= more
    return [process for process in living if process.pid in mine and re.search(name, process.command)]


def kill(pid: int) -> bool:
    """Kill a process; `False` if it is gone already."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
