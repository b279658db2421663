"""The log of a shard's state without Spark: what is appended is read back, and what is damaged or superseded is not."""

from __future__ import annotations

import copy
import zlib
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import CheckpointMismatch, StateCorruption
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.sharded.checkpoint import durable as durable_records
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT, seal
from dataflow_model.runners.sharded.state import log as state_log
from dataflow_model.runners.sharded.state.log import FAN_IN, Contents, Delta, Entries, StateLog
from dataflow_model.runners.sharded.tasks import task as tasks
from dataflow_model.runners.sharded.tasks.program import Program
from dataflow_model.runners.sharded.tasks.shard_state import ShardState
from dataflow_model.runners.sharded.tasks.task import Task
from dataflow_model.testing.proving.micro_batches import MemoryStore

OwnerKey = tuple[str, bytes]


def by_owner(entries: dict[OwnerKey, Any]) -> Entries:
    divided: Entries = {}
    for (owner, key), entry in entries.items():
        divided.setdefault(owner, {})[key] = entry
    return divided


def by_owner_and_key(entries: Entries) -> dict[OwnerKey, Any]:
    return {(owner, key): entry for owner, of_owner in entries.items() for key, entry in of_owner.items()}


@attrs.define
class Worker:
    """What a worker keeps beside the log: its copy of the state, and which keys each record holds."""

    entries: dict[OwnerKey, Any] = attrs.field(factory=dict)
    contents: Contents = attrs.field(factory=Contents)
    token: str = ""

    def append(self, store: MemoryStore, changes: dict[OwnerKey, Any], meta: Any = None) -> None:
        log = opened(store)
        self._apply([by_owner(changes)])
        self.token = log.append(
            Delta(meta, by_owner(changes)), lambda owner: lambda key: self.entries.get((owner, key)), self.contents
        )
        assert list(self.contents.keys) == [record.identity for record in log.records]
        assert by_owner_and_key(self.contents.newest).keys() == self.entries.keys()

    def catch_up(self, store: MemoryStore) -> None:
        log = opened(store)
        missed = log.since(self.token)
        if missed is None:
            self.entries, self.contents, missed = {}, Contents(), log.since("")
            assert missed is not None
        self.contents.keep_only(log.records[: len(log.records) - len(missed)])
        deltas = list(map(log.read, missed))
        for record, delta in zip(missed, deltas, strict=True):
            self.contents.note(record, delta.entries)
        self.token = log.open()
        self._apply([delta.entries for delta in deltas])

    def _apply(self, deltas: list[Entries]) -> None:
        for entries in deltas:
            self.entries |= by_owner_and_key(entries)
        self.entries = {owner_key: entry for owner_key, entry in self.entries.items() if entry is not None}


def opened(store: MemoryStore) -> StateLog:
    log = StateLog(store, "shard 3 of stage 1")
    log.open()
    return log


def deltas_since(store: MemoryStore, token: str) -> list[Delta]:
    log = opened(store)
    missed = log.since(token)
    assert missed is not None
    return list(map(log.read, missed))


def owner_key(name: str) -> OwnerKey:
    return "sums", name.encode()


def contents(store: MemoryStore) -> dict[OwnerKey, Any]:
    fresh = Worker()
    fresh.catch_up(store)
    return fresh.entries


# Append and read.


def test_a_new_shard_has_no_token_and_no_entries() -> None:
    log = StateLog(MemoryStore(), "new")
    assert log.open() == ""
    assert log.since("") == []


def test_reading_the_log_returns_the_newest_entry_of_each_key() -> None:
    store, worker = MemoryStore(), Worker()
    worker.append(store, {owner_key("a"): 1, owner_key("b"): 1}, meta="first")
    worker.append(store, {owner_key("a"): 2, owner_key("b"): None}, meta="second")
    assert contents(store) == {owner_key("a"): 2}
    deltas = deltas_since(store, "")
    assert deltas[-1].meta == "second"


def test_a_worker_with_an_older_copy_reads_only_the_newer_records() -> None:
    store, worker = MemoryStore(), Worker()
    worker.append(store, {owner_key("a"): 1})
    token = worker.token
    worker.append(store, {owner_key("b"): 2})
    assert deltas_since(store, token) == [Delta(None, by_owner({owner_key("b"): 2}))]
    assert deltas_since(store, worker.token) == []


def test_a_worker_with_an_unknown_token_cannot_catch_up_by_changes() -> None:
    store = MemoryStore()
    Worker().append(store, {owner_key("a"): 1})
    assert opened(store).since("another attempt's") is None


def test_a_worker_with_changes_of_a_superseded_attempt_cannot_catch_up() -> None:
    store, zombie = MemoryStore(), Worker()
    zombie.append(store, {owner_key("a"): 1})
    committed = store.copied()
    zombie.append(store, {owner_key("a"): 666})  # never became durable
    other = Worker()
    other.catch_up(committed)
    other.append(committed, {owner_key("a"): 2})
    assert opened(committed).since(zombie.token) is None
    zombie.catch_up(committed)
    assert zombie.entries == {owner_key("a"): 2}


# Merging.


def test_the_number_of_records_stays_small_however_many_are_appended() -> None:
    store, worker = MemoryStore(), Worker()
    for number in range(200):
        worker.append(store, {owner_key(str(number % 10)): number})
    records = opened(store).records
    assert len(records) <= 4 * (FAN_IN - 1)
    assert len(store.parts) == sum(len(record.checksums) for record in records)
    assert contents(store) == {owner_key(str(digit)): 190 + digit for digit in range(10)}


def test_merging_the_oldest_records_forgets_removed_keys() -> None:
    store, worker = MemoryStore(), Worker()
    worker.append(store, {owner_key("a"): 1, owner_key("b"): 1})
    for _ in range(FAN_IN - 1):
        worker.append(store, {owner_key("a"): None})
    (record,) = opened(store).records
    assert record.level == 1
    assert deltas_since(store, "") == [Delta(None, by_owner({owner_key("b"): 1}))]
    assert list(worker.contents.keys.values()) == [{"sums": (b"b",)}]
    assert by_owner_and_key(worker.contents.newest).keys() == {owner_key("b")}


def test_a_key_that_was_created_and_removed_within_a_merge_is_forgotten() -> None:
    store, worker = MemoryStore(), Worker()
    for changes in ({}, {}, {owner_key("a"): None, owner_key("d"): 0}, {owner_key("d"): None}):
        worker.append(store, changes)
    (record,) = opened(store).records
    assert record.level == 1
    assert worker.contents == Contents({record.identity: {"sums": ()}}, {"sums": {}})


def test_a_worker_that_read_a_record_since_merged_does_not_miss_deletions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "FEW_OUTDATED", 0)
    store, worker, behind = MemoryStore(), Worker(), Worker()
    behind.append(store, {owner_key("a"): 0})
    worker.catch_up(store)
    for changes in ({}, {}, {owner_key("a"): None, owner_key("b"): None}, {}):
        worker.append(store, changes)
    behind.catch_up(store)
    assert behind.entries == {}


def test_merging_newer_records_keeps_the_deletions_of_entries_in_older_ones() -> None:
    store, worker = MemoryStore(), Worker()
    for number in range(FAN_IN):
        worker.append(store, {owner_key("a"): number})
    for _ in range(FAN_IN - 1):
        worker.append(store, {owner_key("a"): None})
    worker.append(store, {owner_key("b"): 1})
    assert [record.level for record in opened(store).records] == [1, 1]
    assert contents(store) == {owner_key("b"): 1}


def test_a_delta_of_several_values_is_assembled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "PART_BYTES", 1_000)
    store, worker = MemoryStore(), Worker()
    worker.append(store, {owner_key("a"): bytes(range(256)) * 20})
    assert len(store.parts) > 5
    assert contents(store) == {owner_key("a"): bytes(range(256)) * 20}
    for _ in range(FAN_IN):
        worker.append(store, {owner_key("a"): 1})
    assert len(store.parts) == len(opened(store).records)


def test_each_micro_batch_writes_in_proportion_to_its_changes_and_the_log_to_the_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_log, "MOST_MERGED", 4)
    monkeypatch.setattr(state_log, "FEW_OUTDATED", 4)
    store, worker = MemoryStore(), Worker()
    worker.append(store, {owner_key(str(number)): 0 for number in range(100)})
    written = []
    for number in range(1, 200):
        worker.append(store, {owner_key(str((7 * number + step) % 100)): number for step in range(8)})
        written.append(len(opened(store).read(opened(store).records[-1]).entries["sums"]))
    assert max(written) <= 16
    assert worker.contents.count() <= 2 * 100 + 4 + 16
    assert len(store.parts) == len(opened(store).records) <= 200 / 8 + 3
    assert contents(store) == worker.entries


def test_removed_keys_do_not_reappear_when_old_records_are_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_log, "MOST_MERGED", 0)
    monkeypatch.setattr(state_log, "FEW_OUTDATED", 2)
    store, worker = MemoryStore(), Worker()
    worker.append(store, {owner_key("a"): 1, owner_key("b"): 1, owner_key("c"): 1})
    worker.append(store, {owner_key("a"): None})
    for number in range(20):
        worker.append(store, {owner_key("b"): number})
        assert contents(store) == {owner_key("b"): number, owner_key("c"): 1}
    assert len(opened(store).records) < 10


OWNERS = ("sums", "counts")
CHANGES = st.dictionaries(
    st.sampled_from([(owner, name.encode()) for owner in OWNERS for name in "abcd"]),
    st.none() | st.integers(),
    max_size=4,
)


@given(
    st.lists(st.tuples(st.integers(0, 2), CHANGES, st.booleans()), max_size=60),
    st.sampled_from([0, 4, 1_000]),
    st.integers(0, 8),
)
def test_the_log_behaves_like_a_dict_under_any_sequence_of_changes(
    steps: list[tuple[int, dict[OwnerKey, Any], bool]], most_merged: int, few_outdated: int
) -> None:
    """Three workers take turns; an attempt that is not durable leaves its worker ahead of the log."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_log, "MOST_MERGED", most_merged)
        patch.setattr(state_log, "FEW_OUTDATED", few_outdated)
        check_sequence(steps)


def check_sequence(steps: list[tuple[int, dict[OwnerKey, Any], bool]]) -> None:
    """Compare with a plain dict."""
    store, model = MemoryStore(), dict[OwnerKey, Any]()
    workers = [Worker() for _ in range(3)]
    for number, changes, durable in steps:
        worker = workers[number]
        worker.catch_up(store)
        assert worker.entries == model
        after = store if durable else store.copied()
        worker.append(after, changes)
        if durable:
            model = {name: entry for name, entry in {**model, **changes}.items() if entry is not None}
    assert contents(store) == model


# Damage.


def test_a_value_that_fails_its_checksum_is_an_error_that_names_the_shard() -> None:
    store = MemoryStore()
    Worker().append(store, {owner_key("a"): "x" * 100})
    ((at, payload),) = store.parts.items()
    store.parts[at] = payload[:-1] + bytes([payload[-1] ^ 1])
    with pytest.raises(
        StateCorruption,
        match=r"state of shard 3 of stage 1 is damaged: part 0 of record 0 fails its checksum\nHint: restore",
    ):
        deltas_since(store, "")


def test_a_missing_value_is_an_error_that_names_the_shard() -> None:
    store = MemoryStore()
    Worker().append(store, {owner_key("a"): 1})
    store.parts.clear()
    with pytest.raises(StateCorruption, match="shard 3 of stage 1 is damaged: part 0 of record 0 is missing"):
        deltas_since(store, "")


def test_a_head_without_records_is_an_error_that_names_the_shard() -> None:
    with pytest.raises(StateCorruption, match="shard 3 of stage 1 is damaged: its head names no record"):
        opened(MemoryStore(seal([])))


def test_state_of_a_newer_version_is_refused_with_the_shard_named(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(durable_records, "FORMAT", FORMAT + 1)
    Worker().append(store, {owner_key("a"): 1})
    monkeypatch.undo()
    with pytest.raises(
        CheckpointMismatch,
        match=rf"the state of shard 3 of stage 1 was written in format {FORMAT + 1} by a newer version of "
        rf"dataflow_model; this version reads format {FORMAT}\nHint: run the pipeline with that version",
    ):
        opened(store)


def test_a_record_of_another_format_below_a_head_of_this_one_is_refused_with_the_shard_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, worker = MemoryStore(), Worker()
    worker.append(store, {owner_key("a"): 1})
    (record,) = opened(store).records
    monkeypatch.setattr(durable_records, "FORMAT", FORMAT + 1)
    (at,) = store.parts
    store.parts[at] = seal(Delta(None, by_owner({owner_key("a"): 1})))
    monkeypatch.undo()
    store.put_head(seal([attrs.evolve(record, checksums=(zlib.crc32(store.parts[at]),))]))
    with pytest.raises(CheckpointMismatch, match=f"shard 3 of stage 1 was written in format {FORMAT + 1}"):
        deltas_since(store, "")


def test_a_head_with_any_bit_flipped_or_any_byte_gone_is_an_error_that_names_the_shard() -> None:
    store, worker = MemoryStore(), Worker()
    for number in range(3):
        worker.append(store, {owner_key("a"): number})
    head = store.head
    assert head is not None
    flipped = [
        head[:byte] + bytes([head[byte] ^ 1 << bit]) + head[byte + 1 :] for byte in range(len(head)) for bit in range(8)
    ]
    for damaged in [*flipped, *(head[:length] for length in range(len(head)))]:
        with pytest.raises(StateCorruption, match="shard 3 of stage 1 is damaged: its head fails its checksum"):
            opened(MemoryStore(damaged))


# The cache of a worker.


@pytest.fixture
def task() -> Task:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key() | dm.io.Collect()
    packed = Program(cut_into_stages(p.plan()), {}, (0,), "run").pack()
    return Task(packed.unpack(), tasks.ProcessCache())


def open_shard(task: Task, store: MemoryStore) -> ShardState:
    return ShardState.open(task, 1, 0, store)


def test_a_cache_is_fresh_after_its_commit_behind_after_anothers_and_void_after_a_lost_one(task: Task) -> None:
    store = MemoryStore()
    state = open_shard(task, store)
    assert state.how == "void"
    state.commit(task, 1, 0)
    first = copy.copy(state)

    state = open_shard(task, store)
    assert state.how == "fresh"
    state.meta.latest = (5, 0)
    state.commit(task, 1, 0)  # of this worker, and in another's eyes of another

    before = store.copied()
    stale = open_shard(task, before)
    stale.commit(task, 1, 0)  # an attempt whose state never became durable
    assert open_shard(task, store).how == "void"

    other = attrs.evolve(task, cache=tasks.ProcessCache())
    first.token = _first_token(store)
    other.cache.keep_shard(task.program, 1, 0, first)
    state = open_shard(other, store)
    assert (state.how, state.meta.latest) == ("behind", (5, 0))


def _first_token(store: MemoryStore) -> str:
    return opened(store).records[0].tokens[0]


def test_a_shard_whose_task_fails_is_removed_from_the_cache(task: Task) -> None:
    store = MemoryStore()
    open_shard(task, store).commit(task, 1, 0)
    open_shard(task, store)  # and then the task dies
    assert task.cache.take_shard(task.program, 1, 0) is None
    assert open_shard(task, store).how == "void"
