"""What counts faults finds what is lost and what comes twice."""

from __future__ import annotations

import pytest

from tests.support.faults.tally import Count, Tally


def test_faults_that_change_no_result_are_counted_by_kind() -> None:
    tally = Tally()
    for _ in range(2):
        tally.judge("killed", 3, {"panes": [1, 2]}, {"panes": [1, 2]})
    assert tally.counts == {"killed": Count(6, 0, 0)}


@pytest.mark.parametrize(
    ("actual", "lost", "duplicated"), [([1, 3], 1, 0), ([1, 2, 2, 3], 0, 1), ([1, 7, 3], 1, 1), ([2, 1, 3], 0, 0)]
)
def test_lost_repeated_and_reordered_records_are_counted_and_fail_the_test(
    actual: list[int], lost: int, duplicated: int
) -> None:
    tally = Tally()
    with pytest.raises(AssertionError, match="killed, 3 faults, panes: 3 expected"):
        tally.judge("killed", 3, {"panes": [1, 2, 3]}, {"panes": actual})
    assert tally.counts == {"killed": Count(3, lost, duplicated)}


def test_a_run_without_any_fault_fails_the_test() -> None:
    with pytest.raises(AssertionError, match="nothing went wrong"):
        Tally().judge("killed", 0, {}, {})
