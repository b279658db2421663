"""Attempts at one shard's micro-batch: however many there are, and whoever survives, its state is that of one."""

from __future__ import annotations

import copy
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.spark import shard_state
from dataflow_model.runners.spark.keyed_stage import run_shard
from tests.exactly_once.job import SCRIPT
from tests.runners.jobs import seen
from tests.watermarks import streamed
from tests.watermarks.streamed import Streamed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.runners.spark.program import Program
    from dataflow_model.runners.spark.rows import Row

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
    caches: list[dict[Any, Any]] = attrs.field(factory=lambda: [{} for _ in range(WORKERS)])
    turn: int = 0

    def run(self, program: Program, depth: int, shard: int, rows: Iterable[Row], store: Any) -> list[Row]:
        failures, worker = self.turns[self.turn % len(self.turns)]
        self.turn += 1
        given = list(rows)
        halted = []
        for attempt in failures:
            going = run_shard(program, depth, shard, given, copy.deepcopy(store))
            with self.working(attempt.worker):
                for _, _ in zip(range(attempt.rows), going, strict=False):
                    continue
            halted.append((attempt, going))
        with self.working(worker):
            out = list(run_shard(program, depth, shard, given, store))
        for attempt, going in halted:
            with self.working(attempt.worker):
                if attempt.goes_on:
                    list(going)
                else:
                    going.close()  # type: ignore[attr-defined] # a generator
        return out

    @contextmanager
    def working(self, worker: int) -> Iterator[None]:
        before = dict(shard_state._cache)
        shard_state._cache.clear()
        shard_state._cache.update(self.caches[worker])
        yield
        self.caches[worker] = dict(shard_state._cache)
        shard_state._cache.clear()
        shard_state._cache.update(before)


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    return seen(Streamed(build, tmp_path_factory.mktemp("calm"), rows=18).run().collected("Collect"))


@settings(max_examples=25)
@given(TURNS)
def test_attempts_that_fail_or_come_too_late_leave_no_trace(
    calm: list[Any], turns: list[tuple[list[Attempt], int]]
) -> None:
    shard_state._cache.clear()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(streamed, "run_shard", Cluster(turns).run)
        assert seen(Streamed(build, Path(folder), rows=18).run().collected("Collect")) == calm


def test_the_state_that_a_late_attempt_leaves_in_its_worker_is_not_believed(calm: list[Any], tmp_path: Path) -> None:
    late = Attempt(worker=0, rows=1, goes_on=True)
    with pytest.MonkeyPatch.context() as patch:
        shards = 4  # two of each of two stages
        cluster = Cluster([([late], 1)] * shards + [([], 0)] * shards)
        patch.setattr(streamed, "run_shard", cluster.run)
        run = Streamed(build, tmp_path, rows=18).run()
    assert seen(run.collected("Collect")) == calm
    assert set(run.progress()["cache"]) == {"void", "behind"}  # it is never fresh
