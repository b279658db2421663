"""Run drawn pipelines on each host."""

from __future__ import annotations

import contextlib
import logging
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

import dataflow_model as dm
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule, can_stream
from tests.support.golden.drawing import drawn
from tests.support.golden.outcomes import Outcome, outcome_of
from tests.support.runners.shard_threads import ThreadedRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["HOSTS", "Host", "quietly"]


@attrs.frozen
class Host:
    """A host, and what it shows of a run.

    Attributes:
        name: its name.
        runner: makes the runner for a pipeline; of its number and a folder for a checkpoint.
        counts: whether it counts what passes transforms before the first grouping.
        reads_files: whether it reads files.
    """

    name: str
    runner: Callable[[int, Path], Any]
    counts: bool = True
    reads_files: bool = True

    def outcome(self, number: int) -> Outcome | None:
        """Return what the pipeline of a number shows here; `None` if this host does not run it."""
        with tempfile.TemporaryDirectory() as name, quietly():
            folder = Path(name)
            plan = drawn(number).plan(folder)
            if not self.reads_files and not can_stream(plan):
                return None
            result = self.runner(number, folder / "checkpoint").run(plan, until="drained")
            result.wait_until_finish()
            return outcome_of(plan, result, folder)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Leave out the warnings about drawn plans, and the messages about what runs have dropped."""
    log = logging.getLogger("dataflow_model")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dm.PlanWarning)
            yield
    finally:
        log.setLevel(level)


def _stream(number: int, checkpoint: Path) -> Any:
    """Return a stream whose micro-batches are cut otherwise for each pipeline."""
    return dm.LocalRunner(clock=0, checkpoint=checkpoint, max_rows_per_batch=(1, 3, 7, 1_000)[number // 10 % 4])


def _sharded(shards: int) -> Callable[[int, Path], Any]:
    def runner(number: int, checkpoint: Path) -> Any:
        del checkpoint
        restarts = frozenset({1, 3}) if number // 10 % 3 == 0 else frozenset[int]()
        return MicroBatchRunner(Schedule(shards, ((3,), (2, 5), (1_000,))[number // 10 % 3], restarts, seed=number))

    return runner


HOSTS: Final = {
    host.name: host
    for host in (
        Host("in process", lambda *_: dm.LocalRunner(clock=0)),
        Host("stream", _stream),
        Host("workers", lambda *_: ThreadedRunner(2)),
        Host("2 shards", _sharded(2), counts=False, reads_files=False),
        Host("3 shards", _sharded(3), counts=False, reads_files=False),
    )
}
"""The hosts without Java, by name; the first is the one whose digests are kept."""
