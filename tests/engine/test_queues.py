"""Deadlines: what is due, and how much is kept of those that no longer hold."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.state.queues import Deadlines

CHANGES = st.lists(
    st.tuples(st.integers(0, 9), st.none() | st.tuples(*[st.none() | st.integers(0, 20)] * 2)), max_size=200
)


def least(deadlines: dict[int, tuple[int | None, ...]], line: int) -> int | None:
    return min((due for dues in deadlines.values() if (due := dues[line]) is not None), default=None)


@given(CHANGES, st.integers(0, 20))
def test_due_entries_do_not_depend_on_deadlines_that_were_replaced(
    changes: list[tuple[int, tuple[int | None, int | None] | None]], until: int
) -> None:
    deadlines: Deadlines[int] = Deadlines(2)
    model: dict[int, tuple[int | None, ...]] = {}
    for place, dues in changes:
        model.pop(place, None)
        if dues is None:
            deadlines.remove(place)
        else:
            deadlines.set(place, dues)
            model[place] = dues
        assert [deadlines.first(line) for line in range(2)] == [least(model, line) for line in range(2)]
    due = {place for place, (first, _) in model.items() if first is not None and first <= until}
    assert set(deadlines.take(0, until)) == due
    assert deadlines.first(0) == least({place: dues for place, dues in model.items() if place not in due}, 0)
    assert deadlines.first(1) == least(model, 1)
    for place in due:  # is due again once it is said when
        deadlines.set(place, model[place])
    assert set(deadlines.take(0, until)) == due


def test_replaced_deadlines_do_not_accumulate_while_nothing_is_due() -> None:
    deadlines: Deadlines[int] = Deadlines(2)
    deadlines.set(-1, (0, 0))  # stays at the top, in front of all stale entries
    for _ in range(100):
        for index in range(100):
            deadlines.set(index, (1_000 + index, None))
        for index in range(100):
            deadlines.remove(index)
    assert sum(map(len, deadlines._heaps)) < 500
