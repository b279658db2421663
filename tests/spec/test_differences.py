"""Where LocalRunner once did something else than the specification: the smallest case of each."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm
from tests.support.scripting import fixed, script, sessions
from tests.support.spec.comparing import by_specification, on_runner
from tests.support.spec.drawing import Case
from tests.support.spec.triggers_of_users import FiresWith, Timeout

CLEAR, BY_DEFAULT = dm.FiringMode.CLEAR, dm.AccumulationMode.ACCUMULATE_BY_DEFAULT
EACH, NEVER, IN_FIVE = dm.Repeatedly(dm.AfterCount(1)), dm.Repeatedly(dm.Never()), dm.AfterProcessingTime(5)
CLEAR_IN_FIVE = Timeout(5, dm.TimeDomain.PROCESSING_TIME, CLEAR)
REOPENED_AT_THREE = script("e 1@1, w 20, e 2@1, p 3").watermark(25, percentile=50).processing_time(4)


def everything(trigger: dm.Trigger) -> dm.WindowInto:
    return dm.Window.into(dm.GlobalWindows()).trigger(trigger, may_lose_data=True)


def agree(steps: Any, windowings: list[dm.WindowInto]) -> bool:
    stream = script(steps) if isinstance(steps, str) else steps
    case = Case(stream, tuple(windowing.strategy for windowing in windowings), dm.Sum())
    return on_runner(case) == by_specification(case)


DIFFERENCES: list[tuple[str, Any, list[dm.WindowInto]]] = [
    # Not `until`'s finishing ends it but its firing; an `AfterAny` finishes with a child that fired.
    ("a user's that finishes in silence", "e 1@1, e 2@1", [fixed(EACH.or_finally(FiresWith(("done",))))]),
    # A clock value is one event: where both are ready, `until` wins, with what it asks for, …
    (
        "two timers ready at once",
        "e 1@1, p 9, e 2@1",
        [fixed(dm.Repeatedly(IN_FIVE.or_finally(CLEAR_IN_FIVE))).accumulation(BY_DEFAULT)],
    ),
    # … and has finished where the merged window asks.
    (
        "two timers ready at once",
        "e 1@0, p 9, e 2@1",
        [sessions(NEVER.or_finally(dm.RepeatUntil(IN_FIVE, IN_FIVE)))],
    ),
    # Whether a window is reopened at a percentile should not depend on whether some trigger names that one.
    (
        "reopened at a percentile",
        REOPENED_AT_THREE,
        [fixed(dm.AfterWatermark(percentile=50)).late_data("duplicate_window")],
    ),
    # A retraction whose window has expired is dropped together with its replacement.
    (
        "updates of reopened windows",
        "e 1@1, w 20, e 3@1",
        [
            everything(EACH).accumulating_and_retracting().timestamp_combiner("earliest"),
            fixed(EACH).late_data("duplicate_window"),
        ],
    ),
    # 4 − 1 is left, not nothing.
    (
        "what was cleared is taken back",
        "e 1@1, e 3@1",
        [
            everything(EACH).accumulating_and_retracting(),
            everything(FiresWith((CLEAR, CLEAR))).accumulation(BY_DEFAULT, retracting=True),
        ],
    ),
    # What a window has not emitted goes out when it expires, however its trigger finished.
    ("a user's that finishes in silence", "e 1@1", [fixed(FiresWith(("done",)))]),
    # The same: 16 has not been emitted when the completions of the two windows add up to the last one.
    (
        "RepeatCount where windows merge",
        "e 1@0, e 2@0, e 4@15, e 8@15, e 16@0, e 32@8",
        [sessions(dm.RepeatCount(dm.AfterCount(2), 2))],
    ),
    # The merge ends the second turn of the outer one, and 16 is emitted in the third.
    (
        "a turn of RepeatCount that ends where windows merge",
        "e 1@0, e 2@0, e 4@0, e 8@15, e 16@8",
        [sessions(dm.RepeatCount(dm.RepeatCount(dm.AfterCount(1), 2), 3))],
    ),
    # Without retractions, nothing is owed for the pane of a window that has grown since, so a cleared one stays silent.
    (
        "a window that grows and is cleared",
        "e 1@15, e 2@8",
        [sessions(FiresWith((dm.FiringMode.DEFAULT, "clear"))).accumulation(BY_DEFAULT)],
    ),
]


@pytest.mark.parametrize(("name", "steps", "windowings"), DIFFERENCES, ids=[name for name, *_ in DIFFERENCES])
def test_cases_that_once_differed_agree_with_the_specification(
    name: str, steps: Any, windowings: list[dm.WindowInto]
) -> None:
    assert agree(steps, windowings)
