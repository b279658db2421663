"""`check_trigger` takes the built-in triggers and finds what is wrong with others."""

from __future__ import annotations

import itertools
from typing import Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.testing import check_trigger
from tests.support.triggers.odd import IsOdd

WAITS = pytest.mark.slow
pytestmark = pytest.mark.usefixtures("cases_of_the_profile")


@pytest.mark.parametrize(
    "trigger",
    [
        dm.AfterEach(dm.AfterCount(1), dm.AfterAny(dm.AfterCount(2), dm.AfterEventTime(2))),
        *(
            pytest.param(trigger, marks=WAITS)
            for trigger in (
                dm.Repeatedly(dm.AfterCount(2)),
                dm.AfterWatermark(early=dm.AfterProcessingTime(2), late=dm.AfterCount(1)),
                dm.AfterCount(2),
                dm.AfterBytes(10),
                dm.AfterAll(dm.AfterCount(2), dm.AfterWatermark()),
                dm.AfterWatermark(percentile=90),
                dm.RepeatCount(dm.AfterCount(2), 2),
                dm.RepeatUntil(dm.AfterCount(2), dm.AfterProcessingTime(2)),
                dm.AtPeriod(2),
                dm.AfterSignal("go"),
                dm.DefaultTrigger(),
                dm.Always(),
                dm.Never(),
            )
        ),
    ],
    ids=repr,
)
def test_the_built_in_triggers_keep_the_rules(trigger: dm.Trigger) -> None:
    check_trigger(trigger)


@attrs.frozen
class Every(dm.Trigger):
    """A good trigger, for others to spoil: fires at every n-th element."""

    n: int = 2

    def on_element(self, context: Any) -> None:
        count = context.lookup_state("n", 0) + 1
        context.store_state("n", count % self.n)
        if count >= self.n:
            context.trigger()

    def on_merge(self, context: Any) -> None:
        context.store_state("n", sum(context.lookup_source_state(window, "n", 0) for window in context.sources))

    def may_finish(self, *, allowed_lateness: dm.Duration) -> bool:
        return False


@WAITS  # the page on testing, whose code runs in the quick suite, shows the same
def test_a_correct_trigger_of_the_user_passes() -> None:
    check_trigger(Every(3), elements="abc")


class ByIdentity(dm.Trigger):
    """No value: two of them differ."""

    def on_element(self, context: Any) -> None:
        context.trigger()


_COUNTER = itertools.count()


@attrs.frozen
class RemembersOutside(Every):
    """Counts over all windows."""

    def on_element(self, context: Any) -> None:
        if next(_COUNTER) % 3 == 2:
            context.trigger()


@attrs.frozen
class StoresAGenerator(Every):
    """Stores what does not pickle."""

    def on_element(self, context: Any) -> None:
        context.store_state("n", (letter for letter in "abc"))


@attrs.frozen
class FinishesUnasked(Every):
    """Promises not to finish, and does."""

    def on_element(self, context: Any) -> None:
        context.trigger()
        context.done()


@attrs.frozen
class TakesTheFirst(Every):
    """Keeps only the count of whichever window comes first when windows merge."""

    def on_merge(self, context: Any) -> None:
        context.store_state("n", context.lookup_source_state(context.sources[0], "n", 0))


@attrs.frozen
class GivesUp(Every):
    """Finishes when windows merge: what comes then is dropped."""

    def on_merge(self, context: Any) -> None:
        context.done()


@attrs.frozen
class Continues(Every):
    """Continues as whatever it is told."""

    following: Any = None

    def continuation(self) -> Any:
        return self.following() if callable(self.following) else self.following


@pytest.mark.parametrize(
    ("trigger", "words"),
    [
        (ByIdentity(), "must equal its pickled copy and have the same hash and repr"),
        (RemembersOutside(), "must behave the same every time"),
        (StoresAGenerator(), "raises TypeError: cannot pickle 'generator' object"),
        (FinishesUnasked(), "declares that it may not finish"),
        (TakesTheFirst(), "must not depend on the order in which windows merge"),
        (GivesUp(), "law 5, conservation does not hold"),
        (Continues(), "the continuation of .* must be a trigger, got None"),
        (Continues(following=ByIdentity), "the continuation of .* must be the same every time"),
        (Continues(following=dm.AfterCount(2)), r"the continuation of .* must never finish, got AfterCount\(2\)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_triggers_that_break_a_rule_are_found(trigger: dm.Trigger, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_trigger(trigger)


def test_the_events_shown_are_the_smallest_that_break_the_rule() -> None:
    with pytest.raises(AssertionError, match=r"window 0: element 1\n"):
        check_trigger(FinishesUnasked())


@attrs.frozen
class Unmerged(dm.Trigger):
    """Says nothing of merging."""

    def on_element(self, context: Any) -> None:
        context.trigger()


def test_by_default_a_trigger_without_on_merge_is_checked_on_windows_that_do_not_merge() -> None:
    check_trigger(Unmerged())
    with pytest.raises(dm.InvalidArgument, match="on_merge"):
        check_trigger(Unmerged(), merging=True)


def test_a_trigger_may_use_the_value_of_a_combiner() -> None:
    check_trigger(dm.Repeatedly(IsOdd()), combine=dm.Sum())


def test_a_check_without_elements_is_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match="check_trigger draws from `elements`, got none"):
        check_trigger(dm.Always(), elements=())
