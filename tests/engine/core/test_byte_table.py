"""The table of stored keys, against a plain dictionary."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.core.byte_table import ByteTable
from dataflow_model.runners.engine.grouping.stored.joined import Joined

KEYS = [b"", *(b"i%d" % number for number in range(40))]
SIZES = st.integers(1, 20) | st.sampled_from([40_000, 65_000, 70_000, 600_000])
PUTS = st.dictionaries(st.sampled_from(KEYS), st.tuples(st.integers(0, 255), SIZES))
STEPS = st.lists(st.tuples(PUTS, st.lists(st.sampled_from(KEYS))), max_size=8)
SEGMENT = 1 << 18


def _entries(table: ByteTable, keys: list[bytes]) -> dict[bytes, bytes]:
    joined = Joined.of(*table.joined(keys))
    return {encoded: joined.entry(index) for index, encoded in enumerate(joined.keys) if encoded is not None}


@given(STEPS)
def test_a_byte_table_behaves_like_a_dict(steps: list[tuple[dict[bytes, tuple[int, int]], list[bytes]]]) -> None:
    table, known = ByteTable(), dict[bytes, bytes]()
    for puts, removed in steps:
        entries = {key: bytes([byte]) * size for key, (byte, size) in puts.items()}
        table.put(entries)
        known |= entries
        for key in removed:
            assert table.pop(key) == known.pop(key, None)
        assert _entries(table, KEYS) == known
        assert [table.peek(key) for key in KEYS] == [known.get(key) for key in KEYS]
        assert [key in table for key in KEYS] == [key in known for key in KEYS]
        assert sorted(table) == sorted(known)
        assert (len(table), table.bytes) == (len(known), sum(map(len, known.values())))


def test_growing_the_entries_of_a_byte_table_leaves_little_memory_unused() -> None:
    keys = [b"i%d" % number for number in range(2_000)]
    table, needed = ByteTable(), 0
    for size in range(50, 2_050, 50):
        table.put({key: bytes([size % 251]) * size for key in keys})
        needed = len(keys) * size + sum(map(len, keys))
        assert table.reserved <= 1.5 * needed + 3 * SEGMENT
    assert len(table.memory) <= 2 * needed + 4 * SEGMENT
    assert _entries(table, keys) == dict.fromkeys(keys, bytes([2_000 % 251]) * 2_000)


def test_memory_of_removed_keys_is_used_again() -> None:
    table = ByteTable()
    for number in range(20):
        keys = [b"%d %d" % (number, index) for index in range(1_000)]
        table.put(dict.fromkeys(keys, bytes(600)))
        for key in keys:
            assert table.pop(key) == bytes(600)
    assert (len(table), table.bytes) == (0, 0)
    assert len(table.memory) <= 6 * SEGMENT
