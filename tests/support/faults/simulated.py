"""A stream without Spark that goes wrong all the time: what Spark does about a fault, done by hand to stores in memory.

A micro-batch that fails is run again over the state that the last one has committed. Its workers live on, with what
they remember of the attempt that failed; only the one in which a task failed dies, as Spark's do. Each attempt of a
task goes to whichever worker is free, and sees its rows in an order of its own. Some tasks have a second attempt that
runs beside the first, as speculation starts them: what it writes is thrown away, what its worker remembers is not.
"""

from __future__ import annotations

import contextlib
import copy
import random
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.runners.sharded.stages import in_process
from dataflow_model.runners.sharded.stages.keyed_stage import run_shard
from dataflow_model.runners.sharded.tasks import faults
from dataflow_model.runners.sharded.tasks.task import ProcessCache, Task
from tests.support.faults.injected import InjectedFailure
from tests.support.micro_batches import Streamed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    import pytest

    import dataflow_model as dm
    from dataflow_model.runners.sharded.state.log import StateStore
    from dataflow_model.runners.sharded.tasks.rows import Row

__all__ = ["Simulation"]

WORKERS = 3
SHARE_IDLE = 0.1
SHARE_TWICE = 0.1


@attrs.frozen
class Chance(faults.Fault):
    """Any point may be the last that an attempt passes.

    Attributes:
        rng: decides.
        share: of the passes that end there.
        struck: the points at which attempts have ended.
    """

    rng: random.Random
    share: float
    struck: list[str] = attrs.field(factory=list)

    def reach(self, point: str, micro_batch: int) -> None:
        """Fail, or do not."""
        del micro_batch
        if self.rng.random() < self.share:
            self.struck.append(point)
            raise InjectedFailure(point)


class Simulation:
    """A run in which anything that may fail does so, with a seed.

    Args:
        build: builds the pipeline.
        folder: where it keeps its progress.
        seed: decides what fails.
        share: how much of it.
        rows: how many rows a micro-batch reads.
    """

    def __init__(
        self, build: Callable[[dm.Pipeline], Any], folder: Path, seed: int, *, share: float = 0.05, rows: int = 12
    ) -> None:
        self.rng = random.Random(seed)
        faults.arm(Chance(random.Random(seed), share))
        try:
            self.streamed = Streamed(build, folder, rows)
        finally:
            faults.disarm()
        self.workers = [ProcessCache() for _ in range(WORKERS)]
        self.worker = 0
        self.speculated = 0

    @property
    def struck(self) -> list[str]:
        """Where attempts have failed so far."""
        fault = self.streamed.program.fault
        assert isinstance(fault, Chance)
        return fault.struck

    def run(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Run to the end, whatever happens."""
        while self.step(monkeypatch):
            pass

    def step(self, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Run one micro-batch until it gets through; `False` at the end of the input."""
        with monkeypatch.context() as patch:
            patch.setattr(in_process, "run_shard", self._run_shard)
            committed = {key: (store.head, dict(store.parts)) for key, store in self.streamed.stores.items()}
            while not self.streamed.offset.last:
                try:
                    self.streamed.step()
                except InjectedFailure as failure:
                    if str(failure) in {"before_state", "after_state"}:
                        self.workers[self.worker].forget_shards()
                    for key, (head, parts) in committed.items():
                        store = self.streamed.stores[key]
                        store.head, store.parts = head, dict(parts)
                else:
                    break
        return not self.streamed.offset.last

    def _run_shard(self, task: Task, depth: int, label: int, rows: Iterable[Row], store: StateStore) -> list[Row]:
        rows = list(rows)
        if self.rng.random() < SHARE_TWICE:
            self.speculated += 1
            with contextlib.suppress(InjectedFailure):
                self._attempt(task, depth, label, rows, copy.deepcopy(store))
        return self._attempt(task, depth, label, rows, store)

    def _attempt(self, task: Task, depth: int, label: int, rows: list[Row], store: StateStore) -> list[Row]:
        self.worker = self.rng.randrange(WORKERS)
        worker = self.workers[self.worker]
        if self.rng.random() < SHARE_IDLE:  # it was idle, and is another now
            worker.forget_shards()
        task = attrs.evolve(task, cache=worker)
        return list(run_shard(task, depth, label, self.rng.sample(rows, len(rows)), store))
