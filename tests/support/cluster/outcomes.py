"""What the flights give on a cluster, and what they must give."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

__all__ = ["check", "kill_under_way", "outcome_of"]


def outcome_of(job: subprocess.Popen[str]) -> Mapping[str, Any]:
    """Wait for the end of a job, and return the object that it printed, which Spark's log lines may follow."""
    output, errors = job.communicate(timeout=800)
    lines = [line for line in errors.splitlines() if not line.startswith("\tat ")]  # without the JVM's stacks
    assert job.returncode == 0, "\n".join(lines[-150:])
    outcome: Mapping[str, Any] = json.loads([line for line in output.splitlines() if line.startswith("{")][-1])
    return outcome


def check(outcome: Mapping[str, Any], mode: str, python: str, *, place: str) -> None:
    """Compare the panes, and require that executors run the compiled core of a place."""
    assert not outcome["differences"]
    assert outcome["timings"]["ON_TIME"] > 500
    assert (outcome["timings"].get("EARLY", 0) > 500) is (mode == "streaming")
    assert outcome["who"]
    for executable, file, build in outcome["who"]:
        assert executable == python
        assert place in file
        assert build == "COMPILED"
    assert outcome["notes"] == []


def kill_under_way(
    job: subprocess.Popen[str], checkpoint: Path, victims: Sequence[Callable[[], None]]
) -> Mapping[str, Any]:
    """Kill a victim after each of the first micro-batches of a job; return what the job gives in spite of it.

    Args:
        job: a stream that runs.
        checkpoint: its checkpoint.
        victims: functions that kill something, one for each micro-batch.
    """
    for number, kill in enumerate(victims):
        while not (checkpoint / "spark/commits" / str(number)).exists():
            if job.poll() is not None:  # too early: its error is more useful than ours
                outcome_of(job)
                raise AssertionError(f"the job has ended before micro-batch {number} was committed")
            time.sleep(0.1)
        kill()
    return outcome_of(job)
