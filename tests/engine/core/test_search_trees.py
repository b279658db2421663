"""The open windows of a key are found by their starts, in few steps however many there are."""

from __future__ import annotations

import random
from array import array
from bisect import bisect_left, bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.core.cells import CellTable
from dataflow_model.runners.engine.core.search_trees import SearchTrees

Steps = list[tuple[str, int, int]]

STARTS = st.integers(0, 20) | st.integers(-(2**62), 2**62)
STEPS: st.SearchStrategy[Steps] = st.lists(
    st.tuples(st.sampled_from(["open", "open", "close", "find"]), st.integers(0, 1), STARTS)
)


def linked() -> CellTable:
    table = CellTable(words=1, counters=0, deadlines=0, domains=1, never=2**63 - 1, linked=True)
    table.admit_keys(2)
    return table


def opened(table: CellTable, key: int, start: int) -> int:
    slot = int(table.open(key, start, start + 1, 0))
    table.link(slot)
    return slot


def listed(table: CellTable, key: int) -> list[int]:
    slots = []
    slot = table.first_of_key[key]
    while slot >= 0:
        slots.append(slot)
        slot = table.after[slot]
    return slots


def depth(trees: SearchTrees, slot: int) -> int:
    steps = 0
    while trees.above[slot] >= 0:
        slot = trees.above[slot]
        steps += 1
    return steps


@pytest.mark.parametrize("planted", [False, True])
@given(steps=STEPS)
def test_windows_are_in_order_of_their_starts_with_a_tree_and_without(planted: bool, steps: Steps) -> None:
    table = linked()
    slots: dict[int, list[int]] = {0: [], 1: []}
    starts: dict[int, list[int]] = {0: [], 1: []}
    for step, key, start in steps:
        index = bisect_right(starts[key], start)
        if step == "open":
            slots[key].insert(index, opened(table, key, start))
            starts[key].insert(index, start)
            if planted and not table.has_tree(key):
                table.plant(key)
        elif step == "close" and slots[key]:
            index %= len(slots[key])
            table.close(slots[key].pop(index))
            starts[key].pop(index)
            table.recycle()
        found = table.last_before(key, start)
        before = bisect_left(starts[key], start)
        assert found == (slots[key][before - 1] if before else -1)
        assert listed(table, key) == slots[key]
        assert table.has_tree(key) == (planted and bool(slots[key]))


@pytest.mark.parametrize("order", ["ascending", "descending", "shuffled", "alternating"])
def test_a_key_with_many_windows_gets_a_tree_that_is_not_deep(order: str) -> None:
    starts = list(range(4_000))
    if order == "descending":
        starts.reverse()
    elif order == "shuffled":
        random.Random(1).shuffle(starts)
    elif order == "alternating":
        starts = [start if start % 2 else -start for start in starts]
    table = linked()
    slots = [opened(table, 1, start) for start in starts]
    assert [table.start[slot] for slot in listed(table, 1)] == sorted(starts)
    assert table.last_before(1, 0) == -1 or order == "alternating"
    assert table.has_tree(1)
    assert max(depth(table.trees, slot) for slot in slots) < 40
    for slot in slots[::2]:
        table.close(slot)
    assert [table.start[slot] for slot in listed(table, 1)] == sorted(starts[1::2])
    assert max(depth(table.trees, slot) for slot in slots[1::2]) < 40
    assert not table.has_tree(0)
    table.clear()
    assert not table.has_tree(1)


ELEMENTS = st.lists(st.tuples(st.integers(0, 1), st.integers(-6, 6), st.integers(-4, 4), st.integers(-4, 4)))


@given(elements=ELEMENTS, removed=st.sets(st.integers(0, 20)))
def test_each_element_finds_those_of_the_other_key_that_came_before_it_and_are_within_its_bounds(
    elements: list[tuple[int, int, int, int]], removed: set[int]
) -> None:
    trees = SearchTrees()
    trees.reserve(keys=2, slots=len(elements))
    keys, starts, firsts, lasts = ([element[part] for element in elements] for part in range(4))
    others = [1 - key for key in keys]
    slots = list(range(len(elements)))
    columns = [array("q", part) for part in (keys, slots, starts, others, firsts, lasts)]
    count = trees.join(len(elements), *columns)
    expected = []
    for row, (key, _, first, last) in enumerate(elements):
        before = [slot for slot in range(row) if keys[slot] != key and first <= starts[slot] <= last]
        expected += [(row, slot) for slot in sorted(before, key=starts.__getitem__)]
    assert list(zip(list(trees.rows[:count]), list(trees.slots[:count]), strict=True)) == expected

    gone = [slot for slot in slots if slot in removed]
    trees.remove_all(len(gone), array("q", [keys[slot] for slot in gone]), array("q", gone))
    count = trees.walk(2, array("q", [1, 0]))
    left = [[slot for slot in slots if keys[slot] == key and slot not in removed] for key in (1, 0)]
    walked = [(row, slot) for row, of_key in enumerate(left) for slot in sorted(of_key, key=starts.__getitem__)]
    assert list(zip(list(trees.rows[:count]), list(trees.slots[:count]), strict=True)) == walked
