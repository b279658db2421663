"""A stream in process that reads numbers from a topic and writes them to another with random draws, and kills itself.

Usage: python -m tests.support.kafka.job SERVERS FROM TO FOLDER STEP MARKS LABEL. STEP is one of `STEPS`, at which the
program is killed in the second micro-batch that it publishes. With `go on` in place of a step, it reads what is there
and ends; with `follow`, it goes on until somebody kills it. If there are files in the folder `history` beside the
checkpoint, it reads these up to `SEAM`, and then the topic from there on.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import confluent_kafka
import pyarrow as pa

import dataflow_model as dm
from dataflow_model.runners.sharded.tasks import faults
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HISTORY", "NUMBERS", "ROWS", "SEAM", "SECOND", "SINK", "STEPS", "build_job", "job_command", "run_job"]

OF_KAFKA: Final = ("among the rows", "before the mark", "before the commit", "after the commit")
STEPS: Final = (*(point for point in faults.POINTS if not point.endswith("_state")), *OF_KAFKA)
"""There is no state, since nothing is grouped."""
ROWS: Final = pa.schema({"n": pa.int64(), "draw": pa.float64()})
HISTORY: Final = "history"
SINK: Final = "out"
"""The label of the sink, unless another one is given."""
NUMBERS: Final = pa.schema({"at": pa.int64(), "n": pa.int64()})
"""The columns of the files, and the fields of the messages behind them: a number, and the time of so many seconds."""
SECOND: Final = 1_000_000
SEAM: Final = 5
"""The second from which on rows are those of the topic."""
_ROWS_PER_BATCH: Final = 3
_ROWS_FOLLOWED: Final = 500
"""The same where nothing is killed at a step, so that the program keeps up."""
_STRIKES_AT: Final = 2
"""The micro-batch in which the program is killed, counted by those that it publishes."""


def run_job(
    servers: str,
    source: str,
    target: str,
    folder: Path,
    step: str = "go on",
    *,
    marks: str = "group",
    label: str = SINK,
) -> int:
    """Run the program, whose sink has a label; return its exit status."""
    command = job_command(servers, source, target, folder, step, marks, label)
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode in {0, -signal.SIGKILL}, done.stderr
    return done.returncode


def job_command(
    servers: str, source: str, target: str, folder: Path, step: str, marks: str, label: str = SINK
) -> list[str]:
    """Return the command that runs the program."""
    return [sys.executable, "-m", "tests.support.kafka.job", servers, source, target, str(folder), step, marks, label]


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@attrs.frozen
class _Crash(faults.Fault):
    """Kills the process at a point; `published` has the micro-batches that it has begun to publish."""

    step: str
    published: list[int] = attrs.field(factory=list)

    def reach(self, point: str, micro_batch: int) -> None:
        if point == "before_publishing":
            self.published.append(micro_batch)
        comes_before = faults.POINTS.index(point) < faults.POINTS.index("before_publishing")
        if point == self.step and len(self.published) == _STRIKES_AT - comes_before:
            _die()


class _Producer(confluent_kafka.Producer):
    """Kills the process at a step of the transaction with the rows of a micro-batch."""

    step: ClassVar[str] = ""
    crash: ClassVar[_Crash] = _Crash("")

    def produce(self, topic: str, *args: Any, **options: Any) -> None:
        is_mark = topic.endswith("-marks")
        if is_mark:
            self._reach("before the mark")
        super().produce(topic, *args, **options)
        if not is_mark:
            self._reach("among the rows")

    def send_offsets_to_transaction(self, positions: Any, group_metadata: Any, timeout: float = -1) -> None:
        self._reach("before the mark")
        super().send_offsets_to_transaction(positions, group_metadata, timeout)

    def commit_transaction(self, timeout: float = -1) -> None:
        self._reach("before the commit")
        super().commit_transaction(timeout)
        self._reach("after the commit")

    def _reach(self, step: str) -> None:
        if step == self.step and len(self.crash.published) == _STRIKES_AT:
            self.flush(10)
            _die()


def _draw(row: Any) -> dict[str, Any]:
    number = row.n if hasattr(row, "n") else int(row.value)
    return {"n": number, "draw": random.random()}


def _read(servers: str, source: str, history: Path) -> Any:
    if not history.exists():
        return dm.io.ReadKafka(source, bootstrap_servers=servers)
    files = dm.io.ReadParquet(history, event_time="at")
    fields: dict[str, Any] = {"value": "json", "schema": NUMBERS, "event_time": "at"}
    live = dm.io.ReadKafka(source, bootstrap_servers=servers, **fields)
    return dm.io.Then(files, live, at=dm.EventTime(SEAM * SECOND))


def build_job(p: dm.Pipeline, servers: str, source: str, target: str, folder: Path, marks: Any, label: str) -> None:
    """Build the stream, whose sink has a label."""
    drawn = p | _read(servers, source, folder / HISTORY) | dm.Map(_draw)
    _ = drawn | label >> dm.io.WriteKafka(target, bootstrap_servers=servers, schema=ROWS, marks=marks)


def main(arguments: Sequence[str]) -> None:
    """Run the stream."""
    servers, source, target, folder, step, marks, label = arguments
    _Producer.step, _Producer.crash = step, _Crash(step)
    confluent_kafka.Producer = _Producer  # type: ignore[misc]
    faults.arm(_Producer.crash)
    rows = _ROWS_PER_BATCH if step in STEPS else _ROWS_FOLLOWED
    runner = dm.LocalRunner(checkpoint=Path(folder, "checkpoint"), max_rows_per_batch=rows)
    p = dm.Pipeline(runner=runner)
    build_job(p, servers, source, target, Path(folder), marks, label)
    (p.run() if step == "follow" else p.run(until="drained")).wait_until_finish()


if __name__ == "__main__":
    main(sys.argv[1:])
