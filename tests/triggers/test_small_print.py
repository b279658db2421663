"""What is easily got wrong in a trigger tree and seldom seen: examples for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream, run_script
from dataflow_model.triggers import OrFinally, TimeDomain
from tests.support.triggers.playing import Play, fires_at, merged

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.triggers import TriggerContext

COUNT = dm.AfterCount


@attrs.frozen
class WhenEven(dm.Trigger):
    """Looks at the value two seconds after each element; signals throw it away, or look at it at once."""

    def on_element(self, context: TriggerContext) -> None:
        at = dm.ProcessingTime(int(context.now(TimeDomain.PROCESSING_TIME)) + 2_000_000)
        context.set_timer("look", at, TimeDomain.PROCESSING_TIME)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        if len(context.peek_value()) % 2 == 0:
            context.trigger()

    def on_signal(self, context: TriggerContext, name: str) -> None:
        if name == "clear":
            context.clear()
        elif len(context.peek_value()) == 1:
            context.trigger()

    def on_merge(self, context: TriggerContext) -> None:
        """Remembers nothing."""


def test_a_trigger_can_read_the_value_when_a_timer_fires() -> None:
    assert fires_at(WhenEven(), "e 1@1, p 3, e 2@1, p 6") == ["p 6"]


def test_a_trigger_can_clear_at_a_signal() -> None:
    play = Play(WhenEven())
    play.play("e 1@1, s clear")
    assert [outcome.cleared for _, outcome in play.fired] == [True]
    assert play.value == []


def test_a_trigger_can_read_the_value_at_a_signal() -> None:
    assert fires_at(WhenEven(), "e 1@1, s look") == ["s look"]


def test_conditions_met_in_one_of_two_merged_windows_count() -> None:
    both = dm.AfterAll(dm.Repeatedly(COUNT(2)), dm.Repeatedly(dm.AfterSignal("go")), dm.Repeatedly(COUNT(1)))
    for scripts in (["s go", "e 1@0, e 2@0"], ["e 1@0, e 2@0", "s go"]):
        play = merged(both, [((0, 10), scripts[0]), ((5, 15), scripts[1])])
        assert play.play("e 4@7") == ["e 4@7"]


def test_a_merged_sequence_keeps_the_counts_of_the_child_in_its_turn() -> None:
    sequence = dm.AfterEach(COUNT(1), COUNT(3))
    play = merged(sequence, [((0, 10), "e 1@0, e 2@1"), ((5, 15), "e 4@5, e 8@6")])
    assert play.play("e 16@7") == ["e 16@7"]
    assert play.finished


@pytest.mark.parametrize("percentile", [0.5, 1, 100])
def test_every_percentile_above_0_is_accepted(percentile: float) -> None:
    assert dm.AfterWatermark(percentile=percentile).percentile == percentile


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: dm.AfterAny(COUNT(1), 5), "`argument 2` must be a trigger, got 5 of type int"),  # type: ignore[arg-type]
        (lambda: dm.RepeatCount("x", 1), "`trigger` must be a trigger, got 'x'"),  # type: ignore[arg-type]
        (lambda: dm.RepeatUntil("x", COUNT(1)), "`trigger` must be a trigger, got 'x'"),  # type: ignore[arg-type]
        (lambda: dm.RepeatUntil(COUNT(1), "x"), "`until` must be a trigger, got 'x'"),  # type: ignore[arg-type]
        (lambda: OrFinally(COUNT(1), "x"), "`until` must be a trigger, got 'x'"),  # type: ignore[arg-type]
        (lambda: dm.AfterWatermark(early="x"), "`early` must be a trigger, got 'x'"),  # type: ignore[arg-type]
        (lambda: dm.AfterWatermark(late="x"), "`late` must be a trigger, got 'x'"),  # type: ignore[arg-type]
        (lambda: dm.AfterBytes(0), r"Hint: pass a number of bytes: AfterBytes\(1_000_000\)"),
        (lambda: dm.RepeatCount(COUNT(1), 0), r"Hint: use RepeatCount\(trigger, 3\)"),
    ],
)
def test_the_error_for_a_wrong_argument_of_a_trigger_names_it(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(dm.DataflowError, match=said):
        make()


@attrs.frozen
class Misled(dm.Trigger):
    """Gives an argument of its context as text."""

    how: str

    def on_element(self, context: TriggerContext) -> None:
        text: Any = "PROCESSING_TIME"
        if self.how == "set_timer":
            context.set_timer("due", context.event_time, text)
        elif self.how == "now":
            context.now(text)
        else:
            context.trigger(text)

    def may_finish(self, *, allowed_lateness: dm.Duration) -> bool:
        del allowed_lateness
        return False


@pytest.mark.parametrize("how", ["set_timer", "now", "trigger"])
def test_a_domain_or_a_mode_that_is_text_is_refused(how: str) -> None:
    script = TestStream().add(1, 1, key="k")
    with pytest.raises(dm.UserCodeError, match=r"must be a TimeDomain, got 'PROC|takes a FiringMode, got 'PROC"):
        run_script(script, dm.Window.into(dm.FixedWindows(10)).trigger(Misled(how)))


@pytest.mark.parametrize("name", ["accumulation_mode", "on_time", "closing", "timestamp_combiner", "late_data"])
def test_a_windowing_strategy_accepts_only_members_of_its_enums(name: str) -> None:
    text: Any = {name: "ACCUMULATE_ALWAYS"}
    with pytest.raises(dm.InvalidType, match=rf"`{name}` must be a member of \w+, got 'ACC.*\nHint: use \w+\.\w+"):
        dm.WindowingStrategy(**text)
