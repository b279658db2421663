"""Deadlines: what is due, and how much is kept of those that no longer hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.state.queues import Deadlines, Dues, WaitingKeys

if TYPE_CHECKING:
    from collections.abc import Mapping

KEYS = [b"a", b"b", b"c"]
DUES = st.tuples(*[st.none() | st.integers(0, 3)] * 2)
STEPS = st.lists(
    st.tuples(st.just("wait"), st.dictionaries(st.sampled_from(KEYS), DUES))
    | st.tuples(st.just("load"), st.sets(st.sampled_from(KEYS)))
    | st.tuples(st.just("take"), st.tuples(st.integers(0, 1), st.integers(0, 3)))
)
CHANGES = st.lists(
    st.tuples(st.integers(0, 9), st.none() | st.tuples(*[st.none() | st.integers(0, 20)] * 2)), max_size=200
)


def least(deadlines: Mapping[Any, Dues], domain: int) -> int | None:
    return min((due for dues in deadlines.values() if (due := dues[domain]) is not None), default=None)


@given(CHANGES, st.integers(0, 20))
def test_due_entries_do_not_depend_on_deadlines_that_were_replaced(
    changes: list[tuple[int, tuple[int | None, int | None] | None]], until: int
) -> None:
    deadlines: Deadlines[int] = Deadlines(2)
    model: dict[int, tuple[int | None, ...]] = {}
    for key, dues in changes:
        model.pop(key, None)
        if dues is None:
            deadlines.remove(key)
        else:
            deadlines.set(key, dues)
            model[key] = dues
        assert [deadlines.first(domain) for domain in range(2)] == [least(model, domain) for domain in range(2)]
    due = {key for key, (first, _) in model.items() if first is not None and first <= until}
    assert set(deadlines.take(0, until)) == due
    assert deadlines.first(0) == least({key: dues for key, dues in model.items() if key not in due}, 0)
    assert deadlines.first(1) == least(model, 1)
    for key in due:  # is due again once it is said when
        deadlines.set(key, model[key])
    assert set(deadlines.take(0, until)) == due


def test_replaced_deadlines_do_not_accumulate_while_nothing_is_due() -> None:
    deadlines: Deadlines[int] = Deadlines(2)
    deadlines.set(-1, (0, 0))  # stays at the top, in front of all stale entries
    for _ in range(100):
        for index in range(100):
            deadlines.set(index, (1_000 + index, None))
        for index in range(100):
            deadlines.remove(index)
    assert sum(domain.size for domain in deadlines._waiting._domains) < 500


@given(STEPS)
def test_keys_wait_for_the_deadlines_that_are_current_when_they_are_due(steps: list[tuple[str, object]]) -> None:
    current: dict[bytes, Dues] = {}
    waiting = WaitingKeys(2, current.get)
    for step in steps:
        match step:
            case "wait", dict() as keys:
                current |= keys
                for encoded, dues in keys.items():
                    waiting.add(dues, [encoded])
            case "load", set() as loaded:
                for encoded in loaded:
                    current.pop(encoded, None)
            case "take", (int() as domain, int() as until):
                taken = waiting.take(domain, until)
                due_keys = [(due, encoded) for encoded, dues in current.items() if (due := dues[domain]) is not None]
                assert sorted(taken) == sorted(encoded for due, encoded in due_keys if due <= until)
                dues_in_order = [current[encoded][domain] for encoded in taken]
                assert dues_in_order == sorted(due for due, _ in due_keys if due <= until)
                for encoded in taken:
                    del current[encoded]
        assert [waiting.first(domain) for domain in range(2)] == [least(current, domain) for domain in range(2)]


def test_keys_that_wait_again_and_again_take_no_further_memory() -> None:
    waiting: WaitingKeys[bytes] = WaitingKeys(1, lambda _: (7,))
    for _ in range(100):
        waiting.add((7,), KEYS)
    assert not waiting.are_mostly_outdated(0)
    assert waiting.take(0, 7) == KEYS
