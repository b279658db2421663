"""What a plan may not do with retractions: said before any data are read, with the label, the rule and the way out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Iterator

EACH = dm.Repeatedly(dm.AfterCount(1))


def retracted(p: dm.Pipeline, name: str = "", lateness: str = "1 hour") -> Any:
    """Return sums that take one another back for an hour."""
    windowing = dm.Window.into(dm.FixedWindows("1 minute")).trigger(EACH).allowed_lateness(lateness)
    pairs = p | f"{name}Create" >> dm.Create([("a", 1)]) | f"{name}windows" >> windowing.accumulating_and_retracting()
    return pairs | f"{name}sums" >> dm.Sum.per_key()


def refused(p: dm.Pipeline, *parts: str) -> None:
    """Check that the plan is refused with these words, in this order."""
    with pytest.raises(dm.PlanError) as caught:
        check(p.plan())
    message, at = str(caught.value), 0
    for part in parts:
        assert part in message[at:], f"{part!r} is not in {message!r}"
        at = message.index(part, at)


def test_less_allowed_lateness_downstream_of_retractions_is_refused() -> None:
    p = dm.Pipeline()
    windowing = dm.Window.into(dm.FixedWindows("1 hour")).allowed_lateness("10 minutes").accumulating()
    _ = retracted(p) | windowing | "again" >> dm.Sum.per_key()
    refused(
        p,
        "'again' allows 10 minutes of lateness",
        "'sums'",
        "for 1 hour",
        "Hint: use .allowed_lateness('1 hour') or more",
    )


def test_the_global_window_downstream_of_retractions_needs_no_allowed_lateness() -> None:
    p = dm.Pipeline()
    everywhere = dm.Window.into(dm.GlobalWindows()).accumulating()
    _ = retracted(p) | everywhere | "again" >> dm.Sum.per_key() | dm.io.Collect()
    check(p.plan())


def test_equal_allowed_lateness_downstream_is_accepted_and_is_inherited() -> None:
    p = dm.Pipeline()
    again = retracted(p) | "again" >> dm.Sum.per_key()
    _ = again | dm.Window.into(dm.FixedWindows("1 day")).allowed_lateness("2 hours").accumulating() | dm.Max.per_key()
    check(p.plan())


def test_the_greatest_allowed_lateness_of_flattened_collections_decides() -> None:
    p = dm.Pipeline()
    hour = dm.Window.trigger(EACH).allowed_lateness("1 hour")
    short, long = retracted(p, "short ", "1 minute"), retracted(p, "long ", "2 hours")
    _ = (short | "short hour" >> hour, long | "long hour" >> hour) | dm.Flatten() | "again" >> dm.Sum.per_key()
    refused(p, "'again' allows 1 hour", "'long sums'", "2 hours")


def test_merging_windows_downstream_of_retractions_are_refused() -> None:
    p = dm.Pipeline()
    sessions = dm.Window.into(dm.Sessions("1 minute")).allowed_lateness("1 hour").accumulating()
    _ = retracted(p) | sessions | "again" >> dm.Sum.per_key()
    refused(p, "'again' merges windows (Sessions('1 minute'))", "'sums' emits retractions", "Hint: use windows that do")


def test_windows_that_were_merged_by_an_earlier_grouping_are_accepted() -> None:
    p = dm.Pipeline()
    sessions = dm.Window.into(dm.Sessions("1 minute")).trigger(EACH).accumulating_and_retracting()
    _ = p | dm.Create([("a", 1)]) | sessions | "first" >> dm.Sum.per_key() | "second" >> dm.Sum.per_key()
    check(p.plan())


def test_discarding_downstream_is_refused_where_the_combiner_cannot_subtract() -> None:
    p = dm.Pipeline()
    discarding = dm.Window.into(dm.FixedWindows("1 hour")).allowed_lateness("1 hour").trigger(EACH).discarding()
    placed = retracted(p) | discarding
    _ = placed | "fine" >> dm.Sum.per_key()
    check(p.plan())
    _ = placed | "most" >> dm.Max.per_key()
    refused(p, "'most' discards", "Max cannot subtract", "'sums'", "Hint: use .accumulating()", "`subtract_input`")


class Careful(dm.DoFn):
    retractable = False

    def process(self, element: Any) -> Iterator[Any]:
        yield element


def test_a_function_that_is_not_retractable_is_refused() -> None:
    p = dm.Pipeline()
    _ = retracted(p) | "careful" >> dm.ParDo(Careful())
    refused(p, "'careful' is declared not retractable", "'sums' emits retractions", "Hint: use .accumulating()")


def test_a_function_that_is_not_retractable_is_accepted_if_nothing_is_retracted() -> None:
    p = dm.Pipeline()
    _ = p | "plain" >> dm.Create([1]) | dm.ParDo(Careful())
    _ = (
        retracted(p)
        | dm.Window.trigger(EACH).accumulating()
        | "again" >> dm.Sum.per_key()
        | "too" >> dm.ParDo(Careful())
    )
    check(p.plan())


def test_a_changing_side_input_is_refused_after_retractions_and_a_static_one_accepted() -> None:
    p = dm.Pipeline()
    sums = retracted(p)
    fixed = p | "fixed" >> dm.Create([10])
    _ = sums | "scaled" >> dm.Map(lambda pair, by: (pair[0], pair[1] * by), dm.AsSingleton(fixed))
    check(p.plan())
    changing = p | "changing" >> TestStream().add(3, 0)
    _ = sums | "shaky" >> dm.Map(lambda pair, by: (pair[0], pair[1] * by), dm.AsSingleton(changing))
    refused(
        p, "'shaky' processes retractions of 'sums'", "its side input changes", "Hint: join the two with dm.CoGroup"
    )


def test_retractions_end_at_a_grouping_that_does_not_retract() -> None:
    p = dm.Pipeline()
    sums = retracted(p)
    tagged = sums | "split" >> dm.Map(lambda pair: pair).with_outputs("odd", main="all")
    last = tagged.odd | dm.Window.trigger(EACH).accumulating() | "last" >> dm.Sum.per_key()
    actual = retracted_collections(p.plan())
    assert {ref: node.label for ref, node in actual.items() if ref.label == "split"} == {
        tagged.odd.ref: "sums",
        tagged["all"].ref: "sums",
    }
    assert last.ref not in actual


@pytest.mark.parametrize(
    ("windowing", "how"),
    [
        (dm.Window.trigger(EACH), "discarding"),
        (dm.Window.trigger(EACH).accumulating(), "accumulating"),
        (dm.Window.trigger(EACH).accumulating_and_retracting(), "accumulating and retracting"),
        (
            dm.Window.trigger(EACH).accumulation("accumulate_by_default", retracting=True),
            "accumulating unless the trigger says otherwise, and retracting",
        ),
        (dm.Window.trigger(EACH).accumulation("clear_by_default"), "discarding unless the trigger says otherwise"),
    ],
)
def test_the_plan_in_words_says_how_the_panes_of_a_window_relate(windowing: dm.WindowInto, how: str) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | windowing | dm.Sum.per_key()
    assert f"      how: {how}" in explain(p.plan()).splitlines()
