"""A few hundred cases that never change, against the executable specification: quick, and the same for everyone."""

from __future__ import annotations

import pytest

from tests.support.laws.examples import share_of_cases
from tests.support.spec.comparing import differs
from tests.support.spec.drawing import case as one_grouping
from tests.support.spec.drawing import chain, random_case

CASES, PARTS = share_of_cases(600), 20


@pytest.mark.parametrize("part", range(PARTS))
def test_the_fixed_cases_give_the_panes_of_the_specification(part: int) -> None:
    for number in range(part, CASES, PARTS):
        drawn = random_case(number, chain if number % 5 == 0 else one_grouping)
        assert not differs(drawn), f"case {number}: {drawn}"
