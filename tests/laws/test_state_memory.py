"""A bound on the memory of state changes neither panes nor metrics nor durable state, and the state stays within it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.runners.engine.grouping.stored.durable import _CELL_BYTES, DurableMachine
from dataflow_model.runners.engine.protocol.keyed import StoreMachine
from dataflow_model.runners.engine.state.key_store import KeyStore, StoredKey
from dataflow_model.runners.engine.state.settled import SettledKeys
from dataflow_model.runners.sharded.state.log import StateLog
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.micro_batches import MicroBatches, Schedule
from tests.support.hosts import on_hosts, runner_on
from tests.support.laws.chains import Case, as_stream, of_seed, outcome_of
from tests.support.laws.examples import share_of_cases, share_of_examples
from tests.support.pipelines import seen
from tests.support.reference.states import key_state
from tests.support.state import actor

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.logical.strategy import WindowingStrategy

BOUNDS = (1, 3_000, 20_000)
"""Too little for any entry, for a few on each shard, and for most."""


def durable_state(stream: MicroBatches) -> dict[tuple[int, int], dict[Any, Any]]:
    """Return all that a restart would read, by shard and key."""
    state: dict[tuple[int, int], dict[Any, Any]] = {}
    for cell, store in stream.stores.items():
        log = StateLog(store, str(cell))
        log.open()
        entries: dict[Any, Any] = {}
        for record in log.since("") or []:
            for owner, changes in log.read(record).entries.items():
                entries |= {(owner, key): entry for key, entry in changes.items()}
        state[cell] = {name: entry for name, entry in entries.items() if entry is not None}
    return state


def decoded(stream: MicroBatches) -> dict[Any, tuple[Any, ...]]:
    """Return the durable state of a chain, with the state of each key decoded, as a restart would.

    Its bytes are no measure: a pickle is shorter if two values are the same object, which no decoded value is.
    """
    plan = stream.program.staged.plan
    retracted = retracted_collections(plan)
    cells: dict[Any, tuple[Any, ...]] = {}
    for key, entries in durable_state(stream).items():
        for (name, encoded), entry in entries.items():
            node = plan[name]
            assert isinstance(node, GroupByKeyAndWindow)
            stored = StoredKey.unpacked(entry)
            state = key_state(node, stored.state, takes_back=node.inputs[0] in retracted)
            cells[key, name, encoded] = repr(state.key), state.cells, state.reopened, stored.dues, stored.hold
    return cells


def reported(stream: MicroBatches) -> list[list[dict[str, Any]]]:
    """Return the metrics of each micro-batch, without the number of bytes of state."""
    return [
        [
            metrics | {"state": {name: keys for name, (keys, _) in metrics.get("state", {}).items()}}
            for metrics in each.metrics
        ]
        for each in stream.micro_batches
    ]


def assert_bound_changes_nothing(drawn: Case, bound: int) -> None:
    free = as_stream(drawn)
    bounded = as_stream(attrs.evolve(drawn, schedule=attrs.evolve(drawn.schedule, max_state_memory=bound)))
    assert outcome_of(drawn, bounded).panes == outcome_of(drawn, free).panes
    assert reported(bounded) == reported(free)
    assert decoded(bounded) == decoded(free)


@pytest.mark.parametrize("part", range(3))
def test_chains_on_several_shards_give_the_same_panes_with_any_memory_bound_and_restarts(part: int) -> None:
    for seed in range(part, share_of_cases(15), 3):
        assert_bound_changes_nothing(of_seed(seed), BOUNDS[part])


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_chains_give_the_same_panes_with_any_memory_bound(part: int) -> None:
    for seed in range(10_000 + part, 11_000, 10):
        assert_bound_changes_nothing(of_seed(seed), BOUNDS[seed % 3])


@given(actor.scripts(), actor.strategies(), st.sampled_from(BOUNDS), st.booleans())
@share_of_examples(0.25)
def test_a_stateful_function_gives_the_same_outputs_with_any_memory_bound(
    script: TestStream, strategy: WindowingStrategy, bound: int, restarts: bool
) -> None:
    def run(most: int | None) -> tuple[Any, Any]:
        schedule = Schedule(
            shards=2, cuts=(2,), restarts=frozenset(range(0, 100, 3) if restarts else ()), max_state_memory=most
        )
        pipeline = dm.Pipeline()
        actor.build(pipeline, script, strategy, actor.Actor())
        stream = MicroBatches.of(pipeline.plan(), schedule).finish()
        return [micro_batch.records for micro_batch in stream.micro_batches], durable_state(stream)

    (records, state), (others, other_state) = run(bound), run(None)
    assert [{name: seen(of) for name, of in each.items()} for each in records] == [
        {name: seen(of) for name, of in each.items()} for each in others
    ]
    assert state == other_state


# What stays in memory.


def memory_of(stream: MicroBatches) -> int:
    """Return the bytes of state that the cached shards hold in memory: those of entries, and of cells in columns."""
    held = 0
    for state in stream.cache._shards.values():
        for machine in state.shard.machines.values():
            if isinstance(machine, DurableMachine):
                used = machine._grouping.machine.cells.used
                assert not used or not machine._grouping.has_objects()
                assert isinstance(machine._stored.entries, SettledKeys)
                held += machine._stored.entries.held_bytes + used * _CELL_BYTES
            else:
                assert isinstance(machine, StoreMachine)
                assert isinstance(machine._store, KeyStore)
                assert not machine._store._decoded
                held += machine._store._settled.held_bytes
    return held


class Remember(dm.DoFn[Any, Any]):
    """Keep what has arrived."""

    texts: dm.BagStateSpec[str] = dm.BagStateSpec()

    def process(self, element: Any, texts: dm.BagState[str]) -> Any:
        texts.add(element[1])
        yield element[0]


@pytest.mark.parametrize("shards", [1, 3])
def test_state_that_is_many_times_the_memory_bound_stays_within_it_in_memory(shards: int) -> None:
    keys, bound = 400, 60_000
    script = TestStream()
    for turn in range(3):
        for key in range(keys):
            script = script.add(f"{turn}-{key}" * 40, 0, key=key)
    pipeline = dm.Pipeline()
    texts = pipeline | "script" >> script
    _ = texts | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()
    _ = texts | "remember" >> dm.ParDo(Remember()) | "remembered" >> dm.io.Collect()
    stream = MicroBatches.of(pipeline.plan(), Schedule(shards=shards, cuts=(60,), max_state_memory=bound))
    stored = 0
    while not stream.offset.last:
        stream.step()
        assert memory_of(stream) <= bound
        sizes = [metrics.get("state", {}) for metrics in stream.micro_batches[-1].metrics]
        stored = max(stored, sum(size for of_shard in sizes for _, size in of_shard.values()))
    assert stored > 5 * bound
    values = [record.value for batch in stream.micro_batches for record in batch.records.get("panes", ())]
    assert sorted((key, len(texts)) for key, texts in values) == [(key, 3) for key in range(keys)]


def test_accumulators_that_are_objects_are_not_kept_in_columns_under_a_memory_bound() -> None:
    script = TestStream().add("text", 0, key="a").watermark(1).add("text", 1, key="a")
    pipeline = dm.Pipeline()
    _ = pipeline | "script" >> script | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()
    stream = MicroBatches.of(pipeline.plan(), Schedule(cuts=(1,), max_state_memory=1_000_000))
    for _ in range(3):
        stream.step()
    (state,) = stream.cache._shards.values()
    machine = state.shard.machines["lists"]
    assert isinstance(machine, DurableMachine)
    assert isinstance(machine._stored.entries, SettledKeys)
    assert machine._stored.entries.held_bytes > 0
    assert machine._grouping.machine.cells.used == 0


@on_hosts("process", slow=("streaming",))
def test_a_run_with_a_tiny_memory_bound_gives_the_same_panes_as_a_run_in_memory(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def answers(runner: Any) -> list[Any]:
        with dm.Pipeline(runner=runner) as p:
            _ = p | dm.Create([(number % 50, number) for number in range(500)]) | dm.GroupByKey() | dm.io.Collect()
        return sorted((record.value[0], sorted(record.value[1])) for record in p.result.collected("Collect"))

    bounded = runner_on(host, request, tmp_path / "checkpoint", max_rows_per_batch=100, max_state_memory="1 kB")
    assert answers(bounded) == answers(dm.LocalRunner())


def test_the_entries_that_were_used_least_recently_are_moved_to_disk() -> None:
    keys = SettledKeys()
    keys.bound(4_000)
    for name in (b"a", b"b", b"c", b"d"):
        keys[name] = bytes(1_000)
    assert keys[b"a"] == bytes(1_000)
    keys.spill()
    assert list(keys._held) == [b"d", b"a"]
    assert keys.held_bytes <= 4_000
    assert (len(keys), keys.bytes, set(keys)) == (4, 4_000, {b"a", b"b", b"c", b"d"})
    assert keys.peek(b"b") == bytes(1_000)
    assert b"b" in keys
    assert list(keys._held) == [b"d", b"a"]


def test_entries_on_disk_are_replaced_and_removed_like_those_in_memory() -> None:
    keys = SettledKeys()
    keys.bound(1)
    keys[b"a"], keys[b"b"] = b"xxx", b"yyyy"
    keys.spill()
    assert (keys.held_bytes, keys.bytes) == (0, 7)
    keys[b"a"] = b"x"
    keys.spill()
    assert (keys[b"a"], keys.bytes) == (b"x", 5)
    assert keys.pop(b"b") == b"yyyy"
    assert keys.pop(b"b", None) is None
    with pytest.raises(KeyError):
        keys[b"b"]
    with pytest.raises(KeyError):
        del keys[b"b"]
    del keys[b"a"]
    assert (len(keys), keys.bytes, keys.held_bytes, list(keys)) == (0, 0, 0, [])


def test_a_temporary_file_that_cannot_grow_is_an_error_that_names_the_way_out() -> None:
    keys = SettledKeys()
    keys.bound(1)
    assert keys._spilled is not None
    keys._spilled._database.execute("PRAGMA max_page_count = 4")
    keys[b"a"] = bytes(100_000)
    with pytest.raises(dm.SinkError, match=r"beyond `max_state_memory` cannot be used.*\nHint: free space"):
        keys.spill()


def test_a_run_whose_temporary_file_cannot_grow_fails_with_that_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spill(keys: SettledKeys) -> None:
        raise dm.SinkError("the temporary file cannot be used: database or disk is full", hint="free space")

    monkeypatch.setattr(SettledKeys, "spill", spill)
    p = dm.Pipeline(dm.LocalRunner(checkpoint=tmp_path, max_state_memory="1 kB"))
    _ = p | dm.Create([("a", 1)]) | dm.Window.into(dm.FixedWindows(10)) | dm.GroupByKey() | dm.io.Collect()
    with pytest.raises(dm.SinkError, match="the temporary file cannot be used: database or disk is full"):
        p.run().wait_until_finish()


@pytest.mark.parametrize("most", [None, 1])
def test_entries_stored_in_bulk_count_like_entries_stored_singly(most: int | None) -> None:
    keys = SettledKeys()
    if most is not None:
        keys.bound(most)
    keys[b"a"] = b"xxx"
    keys.spill()
    keys.put({b"a": b"x", b"b": b"yyyy"})
    assert (keys.bytes, len(keys)) == (5, 2)
    assert keys.joined([b"a", b"c", b"b"]) == ([b"a", b"b"], b"xyyyy", [1, 5])
