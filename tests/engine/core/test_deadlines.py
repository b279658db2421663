"""The queue of deadlines gives out what was put in, earliest deadline first."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.core.deadlines import DeadlineQueue

TIMES = st.integers(-(2**63) + 1, 2**63 - 2) | st.integers(0, 3) | st.integers(0, 200).map(lambda end: end * 10_000_000)
STEPS = st.lists(
    st.tuples(st.just("push"), TIMES) | st.tuples(st.just("pop"), st.just(0)) | st.tuples(st.just("until"), TIMES)
)


@given(STEPS)
def test_entries_are_popped_in_order_of_their_deadlines(steps: list[tuple[str, int]]) -> None:
    queue = DeadlineQueue()
    entries: dict[int, int] = {}
    for slot, (step, time) in enumerate(steps):
        if step == "push":
            queue.push(time, slot)
            entries[slot] = time
        elif step == "until":
            due = {slot for slot, deadline in entries.items() if deadline <= time}
            count = queue.pop_until(time)
            assert count == len(due)
            assert dict(zip(queue.popped[:count], queue.popped_at[:count], strict=True)) == {
                slot: entries[slot] for slot in due
            }
            entries = {slot: deadline for slot, deadline in entries.items() if slot not in due}
        elif entries:
            assert queue.first_time() == min(entries.values()) == entries.pop(queue.first_slot())
            queue.pop()
        assert queue.size == len(entries)
    count = queue.pop_until(2**63 - 1)
    popped = [entries[slot] for slot in queue.popped[:count]]
    assert popped == sorted(entries.values())
