"""Joins by distance against the same joins as a function of one element: outputs, their order, and what is dropped."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.joins_by_element import FORMS, MODES, MOVES, Move, both, windowing
from tests.support.retractions.accounts import run

RESTARTS = frozenset(range(1, 40, 2))
SCHEDULES = [
    None,
    Schedule(1),
    Schedule(2, cuts=(1, 3), restarts=RESTARTS),
    Schedule(1, cuts=(2,), restarts=RESTARTS, max_state_memory=1),
    Schedule(3, cuts=(1,), max_state_memory=1),
]


def shown(records: list[Any]) -> list[Any]:
    return [
        (record.value, record.event_time, record.window, record.pane, record.is_retraction, record.processing_time)
        for record in records
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@given(
    moves=MOVES,
    bounds=st.tuples(st.integers(-8, 8), st.integers(-8, 8)),
    lateness=st.sampled_from([0, 4, 1_000]),
    schedule=st.sampled_from(SCHEDULES),
)
def test_a_join_emits_and_drops_what_a_function_of_one_element_would(
    form: str, mode: str, moves: list[Move], bounds: tuple[int, int], lateness: int, schedule: Schedule | None
) -> None:
    join = FORMS[form](between=(min(bounds), max(bounds)))
    runner: Any = None if schedule is None else MicroBatchRunner(schedule)
    result = run(lambda p: both(p, moves, join, windowing(mode, lateness)), runner)
    assert shown(result.collected("joined")) == shown(result.collected("expected"))
    dropped = [record.value.element for record in result.collected("dropped")]
    late = [(key, value) for key, (_, value) in (record.value for record in result.collected("late"))]
    assert dropped == late
