"""The keys of a node: settled as bytes, and decoded only when they are not at hand."""

from __future__ import annotations

import operator
import pickle
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.plan.functions.interval_joins import CorrectedJoinWithin, Distance, Firing, JoinWithin
from dataflow_model.plan.logical.nodes import MAIN, ParDo, Ref
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import Chunk, Instants, PlacedBundle
from dataflow_model.runners.engine.lanes.order import of_rows
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.machines.interval_join import IntervalJoinMachine
from dataflow_model.runners.engine.state.key_store import KEPT_DECODED, KeyStore, StoredKey, dues_of, head_bytes
from dataflow_model.runners.engine.state.resharding import Share
from dataflow_model.values import GLOBAL_WINDOW, encode_key

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


Element = tuple[str, bool, int]
"""The key, whether it is of the right side, and the event time."""
ELEMENTS = st.lists(st.tuples(st.sampled_from("abcd"), st.booleans(), st.integers(0, 20)), max_size=15)


def machine_of(firing: Firing) -> IntervalJoinMachine:
    kind = JoinWithin if firing is Firing.FINAL else CorrectedJoinWithin
    fn = kind(Distance(-2, 5), 6, (True, True), firing)
    return IntervalJoinMachine(ParDo(label="join", input=Ref("pairs"), fn=fn), is_durable=True)


@attrs.frozen
class Part:
    """Elements at one instant, and the watermark after it."""

    elements: list[Element]
    watermark: int
    first: int

    def run(self, machine: IntervalJoinMachine, share: Share) -> list[Any]:
        """Run the elements of a share, and return what is emitted for them, by its order."""
        rows = [row for row, (key, _, _) in enumerate(self.elements) if share.takes(encode_key(key))]
        pairs = [(self.elements[row][0], (self.elements[row][1], self.first + row)) for row in rows]
        times = [self.elements[row][2] for row in rows]
        bundle = Bundle.fresh(pairs, times, of_rows("rows", [self.first + row for row in rows]), 0)
        instants = Instants([self.first], [True])
        chunk = Chunk(instants, PlacedBundle(bundle, [0] * len(rows)), [Watermarks(self.watermark)])
        output = machine.run(chunk).outputs.get(MAIN, PlacedBundle()).bundle
        marks = [output.updates.get(row) for row in range(len(output))]
        return sorted(zip(output.orders, output.values, output.times, marks, strict=True), key=operator.itemgetter(0))


@pytest.mark.parametrize("firing", Firing)
@given(parts=st.lists(st.tuples(ELEMENTS, st.integers(0, 30)), min_size=2, max_size=4), shards=st.integers(1, 3))
def test_machines_that_share_what_was_stored_continue_where_one_machine_was(
    firing: Firing, parts: list[tuple[list[Element], int]], shards: int
) -> None:
    alone, all_keys = machine_of(firing), Share(0, 1)
    shares = [(Share(index, shards), machine_of(firing)) for index in range(shards)]
    stored: dict[bytes, bytes] = {}
    watermark = 0
    for number, (elements, moved) in enumerate(parts):
        watermark = max(watermark, moved)
        part = Part(elements, watermark, 100 * number)
        expected = part.run(alone, all_keys)
        if number == 0:
            outputs = expected
        else:
            outputs = sorted(
                (each for share, machine in shares for each in part.run(machine, share)), key=lambda e: e[0]
            )
        assert outputs == expected
        changes = alone.settle()
        stored = {key: entry for key, entry in {**stored, **changes}.items() if entry is not None}
        assert {key: alone.stored(key) for key in stored} == stored
        assert alone.state_size() == (len(stored), sum(map(len, stored.values())))
        for share, machine in shares:  # which has been elsewhere, or has run the part itself
            machine.apply({**dict.fromkeys(changes), **machine.share([stored], share)})
            machine.set_clocks(**alone.clocks())


def test_nothing_is_left_of_keys_whose_elements_can_have_no_more_partners() -> None:
    machine = machine_of(Firing.FINAL)
    for number in range(50):
        part = Part(
            [(f"k{number}", False, 10 * number), (f"k{number}", True, 10 * number)], 10 * number + 12, number * 2
        )
        part.run(machine, Share(0, 1))
        keys, _ = machine.state_size() or (0, 0)
        assert keys <= 2
        machine.settle()
    assert len(machine._open.time) == 64


def test_what_is_due_next_holds_back_the_percentiles_of_the_watermark_at_each_instant() -> None:
    fn = JoinWithin(Distance(-2, 5), 6, (False, True))
    machine = IntervalJoinMachine(ParDo(label="join", input=Ref("pairs"), fn=fn), (50.0,), is_durable=True)
    pairs = [("a", (False, "left")), ("a", (True, "right"))]
    elements = PlacedBundle(Bundle.fresh(pairs, [12, 16], of_rows("rows", [0, 1]), 0), [0, 1])
    reached = [Watermarks(10, (40,)), Watermarks(11, (40,)), Watermarks(30, (40,))]
    produced = machine.run(Chunk(Instants([0, 1, 2], [True] * 3), elements, reached))
    assert produced.outputs[MAIN].bundle.values == [("a", ("left", "right"))]
    assert list(produced.outputs[MAIN].indices) == [1]
    # The left element can have partners until 24, and the right one until 25.
    assert list(produced.watermarks) == [Watermarks(10, (24,)), Watermarks(11, (24,)), Watermarks(30, (40,))]
