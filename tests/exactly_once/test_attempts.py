"""Attempts at one shard's micro-batch: however many there are, and whoever survives, its state is that of one."""

from __future__ import annotations

import copy
import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.overriding import override
from dataflow_model.plan.functions.resuming import AwaitsCommit
from dataflow_model.runners.sharded.stages import in_process
from dataflow_model.runners.sharded.stages.keyed_stage import run_shard
from dataflow_model.runners.sharded.tasks.task import ProcessCache
from tests.support.exactly_once.job import SCRIPT
from tests.support.laws.examples import share_of_examples
from tests.support.micro_batches import Streamed
from tests.support.pipelines import seen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.runners.sharded.tasks.rows import Row
    from dataflow_model.runners.sharded.tasks.task import Task

WORKERS = 3


def build(p: dm.Pipeline) -> None:
    eager = dm.Window.into(dm.FixedWindows("8 seconds")).trigger(dm.Repeatedly(dm.AfterCount(1)))
    sums = p | SCRIPT | eager.accumulating_and_retracting() | dm.Sum.per_key()
    by_total = sums | "by total" >> dm.Map(lambda pair: (pair[1] % 2, pair[0]))
    _ = by_total | "again" >> eager.accumulating_and_retracting() | dm.Count.per_key() | dm.io.Collect()


@attrs.frozen
class Attempt:
    """One attempt that comes to nothing.

    Attributes:
        worker: which process runs it.
        rows: after how many rows it halts; it goes on, if it does, when another attempt has made the state durable.
        goes_on: whether it does, and writes state that no one will read.
    """

    worker: int
    rows: int
    goes_on: bool


FAILURES = st.lists(st.builds(Attempt, st.integers(0, WORKERS - 1), st.integers(0, 3), st.booleans()), max_size=2)
TURNS = st.lists(st.tuples(FAILURES, st.integers(0, WORKERS - 1)), min_size=1, max_size=12)


@attrs.define
class Cluster:
    """Workers with a memory each, which run shards as the turns say."""

    turns: list[tuple[list[Attempt], int]]
    workers: list[ProcessCache] = attrs.field(factory=lambda: [ProcessCache() for _ in range(WORKERS)])
    turn: int = 0

    def run(self, task: Task, depth: int, shard: int, rows: Iterable[Row], store: Any) -> list[Row]:
        failures, worker = self.turns[self.turn % len(self.turns)]
        self.turn += 1
        given = list(rows)
        halted = []
        for attempt in failures:
            going = run_shard(self.task(task, attempt.worker), depth, shard, given, copy.deepcopy(store))
            for _, _ in zip(range(attempt.rows), going, strict=False):
                continue
            halted.append((attempt, going))
        out = list(run_shard(self.task(task, worker), depth, shard, given, store))
        for attempt, going in halted:
            if attempt.goes_on:
                list(going)
            else:
                going.close()  # type: ignore[attr-defined] # a generator
        return out

    def task(self, task: Task, worker: int) -> Task:
        return attrs.evolve(task, cache=self.workers[worker])


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return seen(Streamed(build, tmp_path_factory.mktemp("calm"), rows=18).finish().collected("Collect"))


@share_of_examples(0.5)
@given(TURNS)
def test_attempts_that_fail_or_finish_too_late_change_nothing(
    calm: list[Any], turns: list[tuple[list[Attempt], int]]
) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process, "run_shard", Cluster(turns).run)
        assert seen(Streamed(build, Path(folder), rows=18).finish().collected("Collect")) == calm


def test_cached_state_of_a_superseded_attempt_is_not_used(calm: list[Any], tmp_path: Path) -> None:
    late = Attempt(worker=0, rows=1, goes_on=True)
    with pytest.MonkeyPatch.context() as patch:
        shards = 4  # two of each of two stages
        cluster = Cluster([([late], 1)] * shards + [([], 0)] * shards)
        patch.setattr(in_process, "run_shard", cluster.run)
        run = Streamed(build, tmp_path, rows=18).finish()
    assert seen(run.collected("Collect")) == calm
    assert set(run.progress()["cache"]) == {"void", "behind"}  # it is never fresh


SHARDS = 4
"""The shards of a micro-batch below: two of each of two stages."""
PROCESSED: list[bool] = []
"""Whether the attempt that processed an element has become durable, by the number of the element."""
ACKNOWLEDGED: list[int] = []
"""The numbers of the elements for which functions were called after their commit."""


class Acknowledging(dm.DoFn, AwaitsCommit):
    """Acknowledges elements once they are committed."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def process(self, value: Any) -> Any:
        self.numbers.append(len(PROCESSED))
        PROCESSED.append(Superseded.is_durable)
        yield value

    @override
    def take_uncommitted(self) -> Callable[[], None] | None:
        numbers, self.numbers = self.numbers, []
        return functools.partial(ACKNOWLEDGED.extend, numbers) if numbers else None


class Superseded(Cluster):
    """Every other micro-batch is run to its end by worker 0 before worker 1 runs it, whose state is the durable one."""

    is_durable: ClassVar[bool] = True

    def task(self, task: Task, worker: int) -> Task:
        is_repeated = (self.turn - 1) // SHARDS % 2 == 1
        Superseded.is_durable = worker == 1 or not is_repeated
        return super().task(task, worker)


def test_what_waits_for_a_commit_is_called_only_for_attempts_that_became_durable(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        counts = p | SCRIPT | dm.Window.into(dm.FixedWindows("8 seconds")) | dm.Count.per_key()
        _ = counts | dm.Reshuffle() | dm.ParDo(Acknowledging()) | dm.io.Collect()

    PROCESSED.clear()
    ACKNOWLEDGED.clear()
    late = Attempt(worker=0, rows=1_000, goes_on=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(in_process, "run_shard", Superseded([([], 0)] * SHARDS + [([late], 1)] * SHARDS).run)
        Streamed(build, tmp_path, rows=3).finish()
    assert ACKNOWLEDGED
    assert len(set(ACKNOWLEDGED)) == len(ACKNOWLEDGED)
    assert all(PROCESSED[number] for number in ACKNOWLEDGED)
    assert not all(PROCESSED)
