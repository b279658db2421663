"""The keys of a node: settled as bytes, and decoded only when they are not at hand."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.state.key_store import KEPT_DECODED, KeyStore, StoredKey, dues_of, head_bytes
from dataflow_model.values import GLOBAL_WINDOW

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.runners.engine.state.queues import Dues
    from dataflow_model.values import Window


class Lists(KeyStore[list[Any]]):
    """A list per key, which counts how often one is decoded."""

    def __init__(self) -> None:
        self.decoded = 0
        super().__init__(2)

    def _loaded(self, state: bytes) -> list[Any]:
        self.decoded += 1
        return super()._loaded(state)

    def _new(self, key: Any) -> list[Any]:
        return [key]

    def _windows(self, state: list[Any]) -> Collection[Window]:
        return (GLOBAL_WINDOW,) if state else ()

    def _dues(self, state: list[Any], window: Window) -> Dues | None:
        del window
        return (len(state), None, None)

    def add(self, encoded: bytes, value: Any) -> None:
        """Append a value to a key's list."""
        self.open(encoded, "key").append(value)
        self.mark(encoded, GLOBAL_WINDOW)

    def micro_batch(self, *keys: bytes) -> dict[bytes, bytes | None]:
        """Append to the lists of some keys, and settle them."""
        for key in keys:
            self.add(key, "value")
        return self.settle()


def number(key: int) -> bytes:
    return key.to_bytes(4, "big")


def test_a_recently_stored_key_is_not_decoded_when_it_is_used_again() -> None:
    store = Lists()
    for _ in range(2):
        store.micro_batch(b"a", b"b")
    changes = store.micro_batch(b"a", b"b")
    assert store.decoded == 0
    assert [pickle.loads(StoredKey.unpacked(entry).state) for entry in changes.values() if entry] == [
        ["key", *["value"] * 3]
    ] * 2
    assert store.next_dues() == (4, None)


def test_only_the_keys_that_were_used_last_are_kept_decoded() -> None:
    store = Lists()
    store.micro_batch(b"first")
    store.micro_batch(*map(number, range(KEPT_DECODED)))
    store.add(b"first", "value")
    assert store.decoded == 1
    assert store.open(b"first") == ["key", "value", "value"]


def test_a_key_that_another_worker_has_changed_is_decoded_from_the_change() -> None:
    store, other = Lists(), Lists()
    store.micro_batch(b"a")
    other.micro_batch(b"a")
    store.apply(other.micro_batch(b"a"))
    store.apply({b"b": None})
    assert store.open(b"a") == ["key", "value", "value"]
    assert store.decoded == 1


@given(st.binary(), st.lists(st.none() | st.integers(-(2**63), 2**63 - 1), max_size=5), st.none() | st.integers(0, 9))
def test_the_bytes_of_an_entry_keep_its_state_its_deadlines_and_its_hold(
    state: bytes, dues: list[int | None], hold: int | None
) -> None:
    entry = StoredKey(state, tuple(dues), hold)
    assert StoredKey.unpacked(entry.packed()) == entry
    assert dues_of(entry.packed()[: head_bytes(len(dues) + 1)]) == (*dues, hold)


def test_the_deadlines_of_a_key_are_the_same_whether_it_is_kept_decoded_or_not() -> None:
    decoded, stored = Lists(), Lists()
    for key in (b"a", b"b", b"b"):
        stored.apply(decoded.micro_batch(key))
    assert decoded.next_dues() == stored.next_dues() == (2, None)
    assert [entry[:2] for entry in decoded.take_due({0: 2})] == [(b"a", GLOBAL_WINDOW)]
    assert [entry[:2] for entry in stored.take_due({0: 2})] == [(b"a", GLOBAL_WINDOW)]
    assert decoded.next_dues() == stored.next_dues() == (2, None)
    assert (decoded.decoded, stored.decoded) == (0, 1)
    for store in (decoded, stored):
        store.apply({b"a": None})
        assert store.next_dues() == (3, None)
        store.apply({b"b": None})
        assert store.next_dues() == (None, None)


def test_the_deadlines_of_a_key_that_is_no_longer_kept_decoded_remain() -> None:
    store = Lists()
    store.micro_batch(b"first")
    for _ in range(2):
        store.micro_batch(*map(number, range(KEPT_DECODED)))
    assert store.next_dues() == (2, None)
    assert [encoded for encoded, _, _ in store.take_due({0: 2})] == [b"first"]
    assert store.decoded == 1
