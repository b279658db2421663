"""The queue of deadlines: what is due, and what it keeps of what no longer holds."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.queues import DeadlineQueue

CHANGES = st.lists(st.tuples(st.integers(0, 9), st.none() | st.integers(0, 20)), max_size=200)


@given(CHANGES, st.integers(0, 20))
def test_a_queue_gives_what_is_due_whatever_was_set_before(changes: list[tuple[int, int | None]], until: int) -> None:
    queue: DeadlineQueue[int] = DeadlineQueue()
    deadlines: dict[int, int] = {}
    for place, when in changes:
        queue.set(place, when)
        deadlines.pop(place, None)
        if when is not None:
            deadlines[place] = when
        assert queue.first() == min(deadlines.values(), default=None)
    due = {place for place, when in deadlines.items() if when <= until}
    assert set(queue.take(until)) == due
    assert queue.first() == min((when for place, when in deadlines.items() if place not in due), default=None)


def test_a_queue_does_not_grow_while_nothing_becomes_due() -> None:
    queue: DeadlineQueue[int] = DeadlineQueue()
    queue.set(-1, 0)  # stays at the top, in front of all stale entries
    for _ in range(100):
        for place in range(100):
            queue.set(place, 1_000 + place)
        for place in range(100):
            queue.set(place, None)
    assert len(queue._heap) < 500
