"""Stored entries, cut for another number of shards."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.lanes.ipc import to_ipc
from dataflow_model.runners.engine.state.id_segments import Segment
from dataflow_model.runners.engine.state.id_store import ADDRESS
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.runners.engine.state.resharding import Share, count_keys
from dataflow_model.values import encode_key, shard_hash


@given(st.integers(), st.integers(1, 12), st.integers(1, 12))
def test_the_new_shard_of_a_key_reads_its_old_shard(key: int, old: int, new: int) -> None:
    hashed = shard_hash(encode_key(key))
    assert Share(hashed % new, new).takes(encode_key(key))
    assert Share(hashed % new, new).meets(hashed % old, old)


@pytest.mark.parametrize("shards", [1, 2, 3, 8])
def test_with_an_unchanged_number_of_shards_each_one_reads_only_its_own_files(shards: int) -> None:
    for index in range(shards):
        assert [other for other in range(shards) if Share(index, shards).meets(other, shards)] == [index]


def test_an_upgrade_counts_the_keys_and_ids_that_it_carries_over() -> None:
    keys = {b"a": StoredKey(b"", (1, None), None).packed(), b"b": StoredKey(b"", (None, None), None).packed()}
    ids = {ADDRESS.pack(3, 0): StoredKey(Segment.of([b"x", b"y", b"z"]).packed, (), None).packed()}
    assert (count_keys(keys), count_keys(ids), count_keys({b"\1": (None, {(b"k", 0, 1): ("k", 5)})})) == (2, 3, 1)


def test_a_key_counts_once_in_however_many_windows_and_micro_batches_it_is() -> None:
    first = pa.table({"key": pa.array(["UA", "UA", "AA"]).dictionary_encode(), "window_start": [0, 5, 0]})
    second = pa.table({"key": pa.array(["AA"]).dictionary_encode(), "window_start": [5]})
    folded = {(encode_key("UA"), 0, 5): ("UA", 1), (encode_key("B6"), 0, 5): ("B6", 1)}
    assert count_keys({b"\1": (to_ipc(first), {}), b"\2": (to_ipc(second), folded)}) == 3
