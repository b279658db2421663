"""A trigger's `repr` evaluates to itself, and `describe` says in words when it fires."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model import triggers
from dataflow_model.testing import strategies

NAMES: dict[str, Any] = {
    **vars(triggers),
    "AfterTotal": strategies.AfterTotal,
    "is_mark": strategies.is_mark,
}


@given(strategies.triggers())
def test_the_repr_of_a_tree_evaluates_to_itself(trigger: dm.Trigger) -> None:
    again = eval(repr(trigger), dict(NAMES))  # noqa: S307 - that is what a repr is for
    assert again == trigger
    assert hash(again) == hash(trigger)
    assert repr(again) == repr(trigger)


@given(strategies.triggers())
def test_every_trigger_tree_is_described_without_names_of_built_in_classes(trigger: dm.Trigger) -> None:
    words = trigger.describe()
    assert words
    assert "(" not in words.replace("AfterTotal(", "")


def double(element: Any) -> Any:
    return element


class Marks:
    """A predicate without a repr of its own."""

    def __call__(self, element: Any) -> bool:
        return True


@pytest.mark.parametrize(
    ("trigger", "shown"),
    [
        (dm.AfterPunctuation(double), "AfterPunctuation(double)"),
        (dm.AfterPunctuation(str.isupper), "AfterPunctuation(str.isupper)"),
        (dm.AfterPunctuation(lambda element: element), "AfterPunctuation(<lambda>)"),
        (dm.AfterPunctuation(Marks()), "AfterPunctuation(Marks())"),
        (dm.AtPeriod("1 hour", reference=0), "AtPeriod('1 hour')"),
        (dm.AtPeriod("24 hours", reference=0.5), "AtPeriod('1 day', reference='1970-01-01T00:00:00.500000')"),
        (
            # The second of two half past ones.
            dm.AtPeriod("1 hour", reference="2013-11-03T06:30Z", timezone="America/New_York"),
            "AtPeriod('1 hour', reference='2013-11-03T06:30:00+00:00', timezone='America/New_York')",
        ),
        (
            dm.AtPeriod("36 months", domain=dm.TimeDomain.EVENT_TIME, timezone="UTC"),
            "AtPeriod('3 years', domain=TimeDomain.EVENT_TIME, timezone='UTC')",
        ),
        (dm.AfterWatermark(percentile=99.5), "AfterWatermark(percentile=99.5)"),
        (dm.Always().or_finally(dm.Never()), "Always().or_finally(Never())"),
    ],
)
def test_reprs_of_triggers_are_short_and_the_same_in_every_process(trigger: dm.Trigger, shown: str) -> None:
    assert repr(trigger) == shown
    if "<lambda>" not in shown and "Marks" not in shown:
        assert eval(shown, {**NAMES, "double": double}) == trigger  # noqa: S307


def test_a_partial_function_in_a_trigger_is_shown_like_python_shows_it() -> None:
    assert repr(dm.AfterPunctuation(functools.partial(int, base=2))).startswith("AfterPunctuation(functools.partial(")
    assert repr(dm.AfterPunctuation(functools.partial(double))) == "AfterPunctuation(partial())"


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (
            dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute"), late=dm.AfterCount(1)),
            ("early: every minute of processing time, from the first new element; "
            "on time: when the watermark passes the end of the window; late: at each element"),
        ),
        (dm.AfterWatermark(percentile=90), "when the 90 % watermark passes the end of the window"),
        (dm.Repeatedly(dm.AfterEventTime("2 hours")), "every 2 hours of event time, from the first new element"),
        (dm.AfterEventTime("2 days"), "when the watermark is 2 days past the first element"),
        (dm.Repeatedly(dm.AtPeriod("1 hour")), "every full hour of processing time"),
        (
            dm.Repeatedly(dm.AtPeriod("1 day", reference="1970-01-01T08:00", timezone="Europe/Paris")),
            "every day of processing time at 08:00 in Europe/Paris",
        ),
        (
            dm.AtPeriod("1 month", domain=dm.TimeDomain.EVENT_TIME, reference="2013-01-15T08:00", timezone="UTC"),
            "at the next month of event time, counted from 2013-01-15 08:00 in UTC",
        ),
        (dm.AfterBytes(1_000_000), "at 1,000,000 bytes"),
        (dm.Repeatedly(dm.AfterPunctuation(double)), "at each element that satisfies double"),
        (dm.Repeatedly(strategies.AfterTotal(9)), "when AfterTotal(least=9) decides"),
        (dm.RepeatCount(dm.AfterCount(2), 3), "at every 2 elements, 3 times"),
        (
            dm.RepeatUntil(dm.Always(), dm.AfterSignal("stop")),
            "at each element; the last time: at the signal 'stop'",
        ),
        (dm.Repeatedly(dm.Never()), "never before the window expires"),
        (dm.AfterEach(dm.AfterSignal("go"), dm.AfterCount(1)), "at the signal 'go'; then at an element"),
        (dm.Repeatedly(dm.AfterAny(dm.AfterCount(3), dm.AfterSignal("go"))),
         "repeatedly: at the first of: at 3 elements, or at the signal 'go'"),
    ],
)  # fmt: skip
def test_describe_says_when_a_trigger_fires(trigger: dm.Trigger, words: str) -> None:
    assert trigger.describe() == words
