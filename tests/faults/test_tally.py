"""What counts faults finds what is lost and what comes twice."""

from __future__ import annotations

import pytest

from tests.support.faults.tally import Count, Tally


def test_faults_that_change_nothing_are_added_up_by_kind() -> None:
    tally = Tally()
    for _ in range(2):
        tally.judge("killed", 3, {"panes": [1, 2]}, {"panes": [1, 2]})
    assert tally.counts == {"killed": Count(6, 0, 0)}


@pytest.mark.parametrize(
    ("actual", "lost", "duplicated"), [([1, 3], 1, 0), ([1, 2, 2, 3], 0, 1), ([1, 7, 3], 1, 1), ([2, 1, 3], 0, 0)]
)
def test_what_is_lost_or_there_twice_or_in_another_order_is_counted_and_fails(
    actual: list[int], lost: int, duplicated: int
) -> None:
    tally = Tally()
    with pytest.raises(AssertionError, match="killed, 3 faults, panes: 3 expected"):
        tally.judge("killed", 3, {"panes": [1, 2, 3]}, {"panes": actual})
    assert tally.counts == {"killed": Count(3, lost, duplicated)}


def test_a_run_to_which_nothing_has_happened_proves_nothing() -> None:
    with pytest.raises(AssertionError, match="nothing went wrong"):
        Tally().judge("killed", 0, {}, {})
