"""What Deduplicate keeps: the filter never forgets, the exact set is exact, and its bytes say all of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule

import dataflow_model as dm
from dataflow_model.runners.engine.state import id_segments
from dataflow_model.runners.engine.state.bloom import BloomFilter
from dataflow_model.runners.engine.state.id_segments import Segment, hashes_of
from dataflow_model.runners.engine.state.id_store import IdStore, Slices
from dataflow_model.values import encode_key

HASHES = st.lists(st.integers(0, 2**64 - 1), unique=True)
IDS = st.lists(st.binary(max_size=3), unique=True)


@given(HASHES, HASHES, st.integers(1, 50))
def test_a_bloom_filter_has_no_false_negatives(added: list[int], others: list[int], capacity: int) -> None:
    seen = BloomFilter(capacity)
    seen.add(np.array(added, np.uint64))
    asked = np.array([*added, *others], np.uint64)
    answers = seen.may_hold(asked).tolist()
    assert all(answers[: len(added)])
    assert answers == [seen.may_hold_one(int(number)) for number in asked]


def test_a_full_bloom_filter_has_at_most_one_percent_false_positives() -> None:
    numbers = np.random.default_rng(1).integers(0, 2**64, 60_000, np.uint64)
    seen = BloomFilter(10_000)
    seen.add(numbers[:10_000])
    assert seen.may_hold(numbers[10_000:]).mean() < 0.01


@given(IDS, IDS, st.lists(st.binary(max_size=3)))
def test_a_segment_finds_exactly_the_ids_that_it_contains(
    first: list[bytes], second: list[bytes], asked: list[bytes]
) -> None:
    second = [element for element in second if element not in first]
    merged = Segment.merged([Segment.of(first), Segment.of(second)])
    again = Segment.read(merged.packed)
    assert sorted(again) == sorted([*first, *second])
    actual = again.finds(asked, hashes_of(asked), np.arange(len(asked)))
    assert actual.tolist() == [element in first or element in second for element in asked]


def test_ids_with_equal_hashes_are_distinguished(monkeypatch: Any) -> None:
    monkeypatch.setattr(id_segments, "hashes_of", lambda ids: np.full(len(list(ids)), 7, np.uint64))
    segment = Segment.of([b"one", b"two", b"three"])
    asked = [b"three", b"four", b"two", b"one"]
    assert segment.finds(asked, np.full(4, 7, np.uint64), np.arange(4)).tolist() == [True, False, True, True]


def test_an_id_is_kept_for_the_horizon_and_a_sixteenth_more_at_most() -> None:
    slices = Slices(int(dm.duration("16 minutes")))
    for time in range(0, int(dm.duration("3 minutes")), 7_654_321):
        kept = dm.Duration(micros=slices.expiry(slices.of(time)) - time)
        assert dm.duration("16 minutes") < kept <= dm.duration("17 minutes")


def test_ids_at_the_ends_of_time_are_forgotten_with_the_last_watermark_only() -> None:
    slices = Slices(10)
    assert slices.expiry(slices.of(int(dm.MAX_TIMESTAMP))) == dm.MAX_TIMESTAMP
    assert slices.expiry(slices.of(int(dm.MIN_TIMESTAMP))) > int(dm.MIN_TIMESTAMP)


HORIZON = 48


class StoreMachine(RuleBasedStateMachine):
    """A store of ids beside a dict of them; moving it to another worker by its bytes is one of the rules."""

    elements = Bundle("elements")

    @initialize(seal_at=st.integers(1, 20))
    def begin(self, seal_at: int) -> None:
        self.seal_at = seal_at
        self.store = IdStore(Slices(HORIZON), seal_at)
        self.known: dict[bytes, int] = {}
        self.durable: dict[bytes, Any] = {}
        self.watermark = 0

    @rule(target=elements, numbers=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 60)), max_size=40))
    def elements_come(self, numbers: list[tuple[int, int]]) -> Any:
        return self.take([(encode_key(number), self.watermark + ahead) for number, ahead in numbers])

    @rule(elements=st.lists(elements, max_size=40))
    def elements_come_again(self, elements: list[tuple[bytes, int]]) -> None:
        self.take(elements)

    def take(self, elements: list[tuple[bytes, int]]) -> Any:
        slices = self.store.slices
        elements = [(element, time) for element, time in elements if slices.expiry(slices.of(time)) > self.watermark]
        sealed = self.store.sealed([element for element, _ in elements])
        for (element, time), known in zip(elements, sealed, strict=True):
            new = not known and self.store.add(element, slices.of(time))
            assert new is (element not in self.known)
            self.known.setdefault(element, slices.of(time))
        self.store.seal_if_many()
        return multiple(*elements)

    @rule(step=st.integers(0, 50))
    def the_watermark_goes_on(self, step: int) -> None:
        self.watermark += step
        self.store.forget_behind(self.watermark)
        expiry = self.store.slices.expiry
        self.known = {element: number for element, number in self.known.items() if expiry(number) > self.watermark}

    @rule()
    def all_is_made_durable(self) -> None:
        changes = self.store.settle()
        self.durable |= changes
        self.durable = {key: entry for key, entry in self.durable.items() if entry is not None}
        assert all(self.store.stored(key) == entry for key, entry in changes.items())

    @rule()
    def another_worker_goes_on(self) -> None:
        self.all_is_made_durable()
        self.store = IdStore(Slices(HORIZON), self.seal_at)
        self.store.apply(self.durable)
        assert not self.store.settle()

    @invariant()
    def as_many_are_there_as_are_known(self) -> None:
        if hasattr(self, "store"):
            assert len(self.store) == len(self.known)


TestStore = StoreMachine.TestCase


def test_a_worker_with_older_ids_catches_up_by_applying_the_changes() -> None:
    ahead, behind = IdStore(Slices(HORIZON)), IdStore(Slices(HORIZON))
    for turn in range(30):
        for number in range(turn, turn + 5):
            ahead.add(encode_key((turn, number)), ahead.slices.of(turn))
        ahead.forget_behind(2 * turn)
        behind.apply(ahead.settle())
        assert len(behind) == len(ahead)
        asked = [encode_key((past, past)) for past in range(turn + 1)]
        assert behind.sealed(asked) == ahead.sealed(asked)


def test_adding_ids_writes_the_new_ids_and_not_all_of_them_again() -> None:
    store = IdStore(Slices(HORIZON))
    written = 0
    for turn in range(256):
        for number in range(100):
            store.add(encode_key(turn * 1_000 + number), 0)
        written += sum(len(entry) for entry in store.settle().values() if entry is not None)
    assert written < 10 * store.nbytes
    assert len(store.settle()) == 0
