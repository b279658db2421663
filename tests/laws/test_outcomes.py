"""Each combination of mode, firings, windows and reader is what the rules say: right, warned about or rejected."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.outcomes import RULES, Firings, Reader, Verdict, Windows, outcome
from dataflow_model.plan.logical.refinements import firings_of
from tests.support.laws.taking_panes import Case, Step, cases, difference, expected, panes, take, windowing

ELEMENTS = st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 170))
STEPS = st.lists(st.one_of(ELEMENTS, st.integers(1, 250)), max_size=9).map(lambda rest: [("a", 5, 30), *rest])
LATE_FOR_AN_OLDER_WINDOW: list[Step] = [
    ("a", 5, 10),
    ("b", 2, 15),
    ("a", 3, 50),
    60,
    ("a", 7, 70),
    ("b", 4, 80),
    120,
    ("a", 1, 25),
    ("a", 2, 75),
    ("b", 3, 20),
    ("b", 6, 88),
]


def steps_for(case: Case, steps: list[Step]) -> list[Step]:
    """Return the steps, without watermarks where it is not told here which sessions drop elements."""
    whole = case.windows is not Windows.MERGE or case.firings in {Firings.LATE, Firings.EARLY_AND_LATE}
    return steps if whole or case.firings is Firings.REOPENED else [step for step in steps if not isinstance(step, int)]


def check(case: Case, steps: list[Step]) -> None:
    """Run a case, and assert that it is what the rules say."""
    answer = outcome(case.mode, case.firings, case.windows, case.reader)
    steps, seen = steps_for(case, steps), list[Any]()
    with tempfile.TemporaryDirectory() as name:
        p, folder = dm.Pipeline(), Path(name)
        take(p, case, panes(p, case, steps), folder, seen)
        with warnings.catch_warnings(record=True) as shown:
            warnings.simplefilter("always")
            if answer.verdict is Verdict.REJECTED:
                with pytest.raises(dm.PlanError) as raised:
                    p.run()
                assert answer.why in str(raised.value)
                assert answer.way_out in str(raised.value)
                return
            result = p.run()
            result.wait_until_finish()
        messages = [str(warning.message) for warning in shown if "'out'" in str(warning.message)]
        if answer.verdict is Verdict.WARNED:
            assert len(messages) == 1
            assert answer.why in messages[0]
            assert answer.way_out.replace("{grouping}", "'sums'") in messages[0]
            return
        assert answer.verdict is Verdict.RIGHT
        assert messages == []
        if (case.firings, case.windows) != (
            Firings.ONCE,
            Windows.VANISH,
        ):  # which elements are dropped is not told here
            assert difference(case, expected(case, steps), result, folder, seen) == ""


@pytest.mark.parametrize("reader", Reader)
def test_each_combination_of_strategy_and_reader_has_the_outcome_of_its_rule(reader: Reader) -> None:
    for case in cases():
        if case.reader is reader:
            check(case, LATE_FOR_AN_OLDER_WINDOW)


@given(st.sampled_from(cases()), STEPS)
def test_each_combination_of_strategy_and_reader_has_the_outcome_of_its_rule_for_any_input(
    case: Case, steps: list[Step]
) -> None:
    check(case, steps)


@given(st.sampled_from([case for case in cases() if case.reader is Reader.NEWEST_ROW]), STEPS)
def test_a_row_without_the_window_in_its_key_is_that_of_the_newest_window(case: Case, steps: list[Step]) -> None:
    check(case, steps)


def test_each_rule_of_outcomes_is_used_and_each_wrong_outcome_has_a_way_out() -> None:
    deciding = {outcome(case.mode, case.firings, case.windows, case.reader) for case in cases()}
    assert deciding == {rule.outcome for rule in RULES}
    assert all(bool(rule.outcome.way_out) is (rule.outcome.verdict is not Verdict.RIGHT) for rule in RULES)


def test_the_strategies_of_these_tests_fire_as_their_names_say() -> None:
    for case in cases():
        if case.windows is not Windows.VANISH:
            assert case.firings in firings_of(windowing(case).strategy), case
