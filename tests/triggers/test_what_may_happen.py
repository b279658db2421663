"""What a tree may do before its window expires: fire, finish. Plans are checked by it."""

from __future__ import annotations

import pytest

import dataflow_model as dm
from dataflow_model.triggers import OrFinally

NEVER, ALWAYS, COUNT, PASSED = dm.Never(), dm.Always(), dm.AfterCount(1), dm.AfterWatermark()


@pytest.mark.parametrize(
    ("trigger", "fires", "finishes"),
    [
        (COUNT, True, True),
        (ALWAYS, True, False),
        (NEVER, False, False),
        (dm.AfterProcessingTime(5), True, True),
        (dm.AfterSignal("go"), True, True),
        (dm.AfterPunctuation(bool), True, True),
        (dm.AfterWatermark(percentile=50), True, True),
        (dm.Repeatedly(COUNT), True, False),
        (dm.Repeatedly(NEVER), False, False),
        (dm.AfterEach(COUNT, COUNT), True, True),
        (dm.AfterEach(COUNT, NEVER), True, False),
        (dm.AfterEach(NEVER, COUNT), False, False),
        (dm.AfterEach(ALWAYS, COUNT), True, False),
        (dm.AfterAny(COUNT, NEVER), True, True),
        (dm.AfterAny(NEVER, COUNT), True, True),
        (dm.AfterAny(ALWAYS, NEVER), True, False),
        (dm.AfterAny(NEVER, NEVER), False, False),
        (dm.AfterAll(COUNT, COUNT), True, True),
        (dm.AfterAll(COUNT, NEVER), False, False),
        (dm.AfterAll(NEVER, COUNT), False, False),
        (dm.AfterAll(COUNT, ALWAYS), True, False),
        (dm.RepeatCount(COUNT, 2), True, True),
        (dm.RepeatCount(ALWAYS, 2), True, False),
        (dm.RepeatCount(NEVER, 2), False, False),
        (OrFinally(dm.Repeatedly(COUNT), NEVER), True, False),
        (OrFinally(COUNT, NEVER), True, True),
        (OrFinally(NEVER, COUNT), True, True),
        (OrFinally(NEVER, ALWAYS), True, True),
        (OrFinally(NEVER, NEVER), False, False),
        (dm.RepeatUntil(COUNT, NEVER), True, False),
        (dm.RepeatUntil(NEVER, COUNT), True, True),
        (dm.RepeatUntil(NEVER, NEVER), False, False),
    ],
    ids=repr,
)
@pytest.mark.parametrize("lateness", [0, 5])
def test_it_is_known_whether_a_trigger_may_fire_and_finish(
    trigger: dm.Trigger, lateness: int, fires: bool, finishes: bool
) -> None:
    assert trigger.may_fire(allowed_lateness=dm.duration(lateness)) is fires
    assert trigger.may_finish(allowed_lateness=dm.duration(lateness)) is finishes


@pytest.mark.parametrize(
    ("trigger", "finishes"),
    [
        (PASSED, True),
        (dm.AfterWatermark(late=COUNT), False),
        (dm.DefaultTrigger(), False),
        (dm.Repeatedly(PASSED), False),
        (dm.AfterEach(PASSED, PASSED), True),
        (dm.AfterAny(PASSED, NEVER), True),
        (dm.AfterAll(PASSED, PASSED), True),
        (dm.RepeatCount(PASSED, 1), True),
        (OrFinally(NEVER, PASSED), True),
        (dm.RepeatUntil(NEVER, PASSED), True),
    ],
    ids=repr,
)
def test_triggers_that_wait_for_the_end_of_the_window_fire_before_its_expiry_only_with_lateness(
    trigger: dm.Trigger, finishes: bool
) -> None:
    """Without lateness the window expires as it passes, and nothing is lost."""
    none, five_microseconds = dm.duration(0), dm.duration(5)
    assert not trigger.may_finish(allowed_lateness=none)
    assert not trigger.may_fire(allowed_lateness=none)
    assert trigger.may_finish(allowed_lateness=five_microseconds) is finishes
    assert trigger.may_fire(allowed_lateness=five_microseconds)


@pytest.mark.parametrize(
    "trigger", [dm.AfterWatermark(early=COUNT), dm.AfterWatermark(early=COUNT, late=COUNT)], ids=repr
)
def test_early_panes_may_come_before_the_window_passes(trigger: dm.Trigger) -> None:
    assert trigger.may_fire(allowed_lateness=dm.duration(0))
    assert not trigger.may_finish(allowed_lateness=dm.duration(0))
