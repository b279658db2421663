"""Weak productions are published before the state that made them is durable: what may repeat, and what refuses them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.runners.sharded.tasks.shard_state import ShardState
from tests.support.exactly_once.tables import PAIRS
from tests.support.exactly_once.weak import SCRIPT, builder, printed, published
from tests.support.micro_batches import Streamed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Weak(Streamed):
    """A stream with weak productions, whose tasks know their micro-batch."""

    def __init__(self, build: Callable[[dm.Pipeline], Any], folder: Path, rows: int) -> None:
        super().__init__(build, folder, rows)
        for write in self.program.staged.sinks:
            write.sink.check()
        self.program = attrs.evolve(self.program, weak=True).pack().unpack()


@pytest.fixture
def weak(tmp_path: Path) -> Weak:
    return Weak(builder(tmp_path), tmp_path, rows=18)


def test_without_failures_weak_productions_publish_the_same_rows_as_strong_ones(tmp_path: Path, weak: Weak) -> None:
    weak.finish()
    (tmp_path / "strong").mkdir()
    strong = Streamed(builder(tmp_path / "strong"), tmp_path / "strong", rows=18)
    for write in strong.program.staged.sinks:
        write.sink.check()
    strong.finish()
    assert published(tmp_path) == published(tmp_path / "strong")
    kept = [record.value for record in strong.collected("kept")]
    assert [record.value for record in weak.collected("kept")] == kept
    assert sorted(value for _, value in printed(tmp_path)) == sorted(repr(list(value)) for value in kept)
    for label in ("files", "table"):
        assert weak.metrics()[label]["rows"] == strong.metrics()[label]["rows"] == len(kept)
    assert not (tmp_path / "files" / "_pending").exists()


def test_weak_productions_are_published_before_state_is_durable_and_before_the_commit(
    tmp_path: Path, weak: Weak, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    commit = ShardState.commit

    def look(self: Any, task: Any, depth: int, label: int) -> None:
        seen.append(len(printed(tmp_path)) if (tmp_path / "lines").exists() else 0)
        commit(self, task, depth, label)

    monkeypatch.setattr(ShardState, "commit", look)
    weak.step()
    assert max(seen) == len(printed(tmp_path)) > 0


def test_only_weak_productions_of_a_micro_batch_that_did_not_commit_are_repeated(tmp_path: Path, weak: Weak) -> None:
    weak.step()
    before = len(printed(tmp_path))
    lost = copy.deepcopy((weak.offset, weak.stores))
    weak.step()  # published, and then the driver dies: neither offset nor state of it is committed
    once, batch = printed(tmp_path)[before:], weak.offset.batch
    weak.offset, weak.stores = lost
    weak.cache.forget_shards()
    weak.finish()
    lines = printed(tmp_path)
    twice = [line for index, line in enumerate(lines) if line in lines[:index]]
    assert sorted(twice) == sorted(once)
    assert {number for number, _ in twice} == {batch}
    # Files take the place of those that were there, and rows of a table are changed to what they are.
    (tmp_path / "calm").mkdir()
    calm = Streamed(builder(tmp_path / "calm"), tmp_path / "calm", rows=18)
    for write in calm.program.staged.sinks:
        write.sink.check()
    calm.finish()
    assert published(tmp_path) == published(tmp_path / "calm")
    assert [record.value for record in weak.collected("kept")] == [record.value for record in calm.collected("kept")]


def test_sinks_that_cannot_publish_at_once_stay_strong(
    tmp_path: Path, weak: Weak, monkeypatch: pytest.MonkeyPatch
) -> None:
    committed: list[int] = []
    monkeypatch.setattr(
        "dataflow_model.runners.sharded.commits.publishing.write_part", lambda *given, **_: committed.append(len(given))
    )
    weak.step()
    assert not list(tmp_path.rglob("collected"))
    assert committed == [3]


# What is refused.


def runner(mode: Any = "streaming", **options: Any) -> dm.SparkRunner:
    return dm.SparkRunner(None, mode=mode, checkpoint="checkpoint", productions="weak", **options)


def test_the_option_productions_is_strong_or_weak_and_bounded_jobs_are_strong() -> None:
    with pytest.raises(dm.InvalidArgument, match="`productions` must be 'strong' or 'weak', got 'lazy'"):
        dm.SparkRunner(None, mode="streaming", checkpoint="checkpoint", productions="lazy")  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidArgument, match=r"mode='batch' has no weak productions.*\nHint: use mode='streaming'"):
        dm.SparkRunner(None, productions="weak")


def test_weak_productions_of_values_that_may_be_retracted_are_refused() -> None:
    p = dm.Pipeline(runner=runner())
    retracting = dm.Window.into(dm.FixedWindows(8)).accumulating_and_retracting()
    _ = p | SCRIPT | retracting | dm.Sum.per_key() | dm.io.WriteJson("out/", schema=PAIRS)
    with pytest.raises(
        dm.PlanError, match=r"'WriteJson' would immediately publish values that 'Sum.PerKey' may retract"
    ):
        p.run()


def test_weak_productions_that_would_change_nothing_are_refused() -> None:
    p = dm.Pipeline(runner=runner())
    _ = p | SCRIPT | dm.io.Collect()
    with pytest.raises(dm.PlanError, match="has no effect here: none of 'Collect' can publish immediately"):
        p.run()
