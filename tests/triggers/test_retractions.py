"""What a trigger makes of an element that takes an earlier one back and brings none instead."""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import pytest

import dataflow_model as dm
from tests.support.triggers.playing import Play, fires_at

ARMED = [
    (dm.AfterProcessingTime(5), "p 6"),
    (dm.AfterEventTime(5), "w 7"),
    (dm.AtPeriod(5), "p 6"),
    (dm.AtPeriod(5, domain=dm.TimeDomain.EVENT_TIME), "w 5"),
    (dm.AfterWatermark(), "w 10"),
    (dm.AfterWatermark(percentile=50), "w50 10"),
]


@pytest.mark.parametrize(("trigger", "step"), ARMED, ids=repr)
def test_a_retraction_starts_triggers_that_wait_for_a_clock(trigger: dm.Trigger, step: str) -> None:
    first = dm.Repeatedly(dm.AfterEach(dm.AfterSignal("go"), trigger))
    assert fires_at(first, f"e 1@2, s go, r 1@2, {step}") == ["s go", step]


@pytest.mark.parametrize(
    "trigger",
    [dm.AfterCount(1), dm.AfterBytes(1), dm.AfterPunctuation(bool), dm.Always(), dm.Never(), dm.AfterSignal("go")],
    ids=repr,
)
def test_a_retraction_is_not_an_element_for_other_triggers(trigger: dm.Trigger) -> None:
    play = Play(trigger)
    play.value.append(1)
    assert play.play("r 1@1") == []
    assert play.state.finished == 0


def test_a_retraction_behind_the_watermark_fires_after_watermark() -> None:
    assert fires_at(dm.Repeatedly(dm.AfterWatermark()), "e 1@1, w 10, r 1@1") == ["w 10", "r 1@1"]


def test_composites_pass_a_retraction_to_the_child_whose_turn_it_is() -> None:
    each = dm.AfterEach(dm.AfterCount(1), dm.AfterProcessingTime(5))
    assert fires_at(each, "e 1@1, p 3, r 1@1, p 9") == ["e 1@1", "p 9"]


def test_a_retraction_neither_resets_a_count_nor_adds_to_it() -> None:
    assert fires_at(dm.Repeatedly(dm.AfterCount(2)), "e 1@1, r 1@1, e 2@1") == ["e 2@1"]


@attrs.frozen
class AfterRetraction(dm.Trigger):
    """Fire at each retraction; a composite tells it apart."""

    seen: ClassVar[list[Any]] = []

    def on_element(self, context: Any) -> None:
        assert not context.is_retraction

    def on_retraction(self, context: Any) -> None:
        assert context.is_retraction
        self.seen.append((context.element, int(context.event_time)))
        context.trigger()

    def on_merge(self, context: Any) -> None:
        """Remembers nothing."""


def test_a_users_trigger_may_react_to_a_retraction() -> None:
    assert fires_at(dm.Repeatedly(AfterRetraction()), "e 1@1, e 2@1, r 1@1") == ["r 1@1"]
    assert AfterRetraction.seen == [(1, 1_000_000)]
