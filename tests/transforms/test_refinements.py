"""What `run()` warns about: groupings of panes that refine each other, and retractions that may be late."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.refinements import may_refine
from dataflow_model.testing import TestStream
from tests.support.pipelines import plan_warnings

MINUTES = dm.Window.into(dm.FixedWindows("1 minute"))
EACH = dm.Repeatedly(dm.AfterCount(1))
ACCUMULATING = MINUTES.trigger(EACH).accumulating()
SCRIPT = TestStream().add(1, 0, key="a").add(2, 0, key="b").add(4, 0, key="a")

Between: TypeAlias = Callable[[Any], Any]


def same(sums: Any) -> Any:
    return sums


def warned(windowing: dm.WindowInto, between: Between = same) -> list[str]:
    """Return the warnings of a run with sums by key, something between, and a sum of all."""
    p = dm.Pipeline()
    sums = p | SCRIPT | windowing | "sums" >> dm.Sum.per_key()
    _ = between(sums) | dm.MapTuple(lambda _, total: ("all", total)) | "total" >> dm.Sum.per_key()
    return plan_warnings(p)


def test_grouping_accumulating_panes_is_warned_about_once_with_both_labels_and_the_way_out() -> None:
    (message,) = warned(ACCUMULATING)
    assert message == (
        "'total' groups the accumulating panes of 'sums'. Under Repeatedly(AfterCount(1)), a window may emit several "
        "panes, and each pane contains the elements of the previous ones, so these are counted more than once\n"
        "Hint: use .accumulating_and_retracting() before 'sums'; .discarding() is right only where combining the panes "
        "combines the elements, as in a sum of sums or counts, or the greatest of the greatest, but not in a mean of "
        "means"
    )


def test_accumulating_panes_that_are_warned_about_are_indeed_counted_repeatedly() -> None:
    def total(windowing: dm.WindowInto) -> list[Any]:
        with dm.Pipeline() as p:
            sums = p | SCRIPT | windowing | "sums" >> dm.Sum.per_key()
            regrouped = sums | dm.MapTuple(lambda _, total: ("all", total)) | "total" >> dm.Sum.per_key()
            _ = regrouped | "out" >> dm.io.Collect()
        assert p.result is not None
        return [record.value[1] for record in p.result.collected("out")]

    with pytest.warns(dm.PlanWarning, match="'total' groups the accumulating panes of 'sums'"):
        assert total(ACCUMULATING) == [1 + 2 + (1 + 4)]
    assert total(MINUTES.trigger(EACH).accumulating_and_retracting()) == [7]
    assert total(MINUTES.trigger(EACH)) == [7]


@pytest.mark.parametrize(
    "windowing",
    [
        MINUTES.trigger(EACH),
        MINUTES.trigger(EACH).accumulating_and_retracting(),
        MINUTES.accumulating(),
        MINUTES.trigger(dm.AfterWatermark()).accumulating(),
        MINUTES.trigger(dm.Never()).allowed_lateness("1 day").accumulating(),
        MINUTES.trigger(dm.AfterAny(dm.AfterCount(2), dm.AfterWatermark()), may_lose_data=True).accumulating(),
    ],
)
def test_panes_that_do_not_repeat_others_are_not_warned_about(windowing: dm.WindowInto) -> None:
    assert warned(windowing) == []


def newest(sums: Any) -> Any:
    return sums | "last" >> dm.Filter(lambda _, pane: pane.is_last)


def deduplicated(sums: Any) -> Any:
    return sums | dm.Deduplicate(lambda pair: pair[0], horizon="1 day")


@pytest.mark.parametrize("between", [newest, deduplicated])
def test_transforms_that_can_select_panes_are_not_warned_about(between: Between) -> None:
    assert warned(ACCUMULATING, between) == []


@pytest.mark.parametrize(
    "between",
    [
        lambda sums: sums | dm.Map(lambda pair: pair) | dm.Reshuffle(),
        lambda sums: (sums,) | dm.Flatten(),
        lambda sums: sums | "anew" >> dm.Window.into(dm.FixedWindows("1 hour")),
    ],
)
def test_panes_are_followed_through_transforms_that_pass_each_of_them(between: Between) -> None:
    assert len(warned(ACCUMULATING, between)) == 1


def test_each_of_three_groupings_is_warned_about_by_its_own_label() -> None:
    shown = warned(ACCUMULATING, lambda sums: sums | "again" >> dm.Sum.per_key())
    assert [message.partition(". Under")[0] for message in shown] == [
        "'again' groups the accumulating panes of 'sums'",
        "'total' groups the accumulating panes of 'again'",
    ]


@pytest.mark.parametrize("at", ["earliest", "latest"])
def test_retractions_with_event_times_of_elements_are_warned_about_before_a_grouping(at: Any) -> None:
    retracting = MINUTES.trigger(EACH).accumulating_and_retracting()
    (message,) = warned(retracting.timestamp_combiner(at))
    assert message.startswith(
        f"'total' groups the panes of 'sums', which emits retractions at the event time of the {at} element: "
    )
    assert message.endswith(f"Hint: leave out .timestamp_combiner('{at}') before 'sums'")
    assert warned(retracting) == []
    assert warned(MINUTES.trigger(EACH).timestamp_combiner(at)) == []
    assert warned(MINUTES.accumulating_and_retracting().timestamp_combiner(at)) == []  # one pane, never taken back


@attrs.frozen
class OfUser(dm.DataTrigger):
    """A user's trigger, of which nothing is known."""


@pytest.mark.parametrize(
    ("windowing", "several"),
    [
        (MINUTES, False),
        (MINUTES.allowed_lateness(1), True),
        (MINUTES.trigger(dm.AfterCount(3), may_lose_data=True), False),
        (MINUTES.trigger(dm.AfterCount(3).or_finally(dm.AfterWatermark()), may_lose_data=True), False),
        (MINUTES.trigger(dm.AfterAll(dm.AfterCount(3), dm.Always()), may_lose_data=True), True),
        (MINUTES.trigger(dm.AfterEach(dm.AfterCount(3), dm.AfterWatermark()), may_lose_data=True), True),
        (MINUTES.trigger(dm.AfterWatermark(early=dm.AfterCount(3))), True),
        (MINUTES.trigger(dm.AfterWatermark(), may_lose_data=True).allowed_lateness(1), False),
        (MINUTES.trigger(OfUser()), True),
        (dm.Window.into(dm.Sessions(9)), False),
        # A session that a late element prolongs has a pane of its own.
        (dm.Window.into(dm.Sessions(9)).trigger(dm.AfterWatermark(), may_lose_data=True).allowed_lateness(1), True),
    ],
)
def test_it_is_known_which_windows_may_have_several_panes(windowing: dm.WindowInto, several: bool) -> None:
    assert may_refine(windowing.strategy) is several


def test_the_plan_in_words_says_what_a_grouping_inherits() -> None:
    p = dm.Pipeline()
    sums = p | dm.Create([("a", 1)]) | MINUTES.trigger(dm.Repeatedly(dm.AfterCount(9))) | "sums" >> dm.Sum.per_key()
    _ = sums | "inherits" >> dm.Count.per_key()
    _ = sums | dm.Window.trigger(dm.Always()) | "has its own" >> dm.Count.per_key()
    words = p.explain()
    assert (
        "      when: at the end of each tick in which elements arrive; late elements are dropped\n"
        "        inherited: Repeatedly(AfterProcessingTime('0 seconds')), "
        "the continuation of Repeatedly(AfterCount(9)) of 'sums'\n"
    ) in words
    assert "      when: at each element; late elements are dropped\n      how:" in words
