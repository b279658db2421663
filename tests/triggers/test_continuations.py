"""What a grouping inherits behind a grouping: the continuation of the trigger, which does not wait a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, strategies
from dataflow_model.triggers import TriggerMachine
from tests.support.inputs import write_seconds
from tests.support.scripting import fixed, script

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataflow_model.triggers import TriggerContext

A = dm.AfterProcessingTime(0)
EVERY_TICK = dm.Repeatedly(A)
EVERY_TICK_AND_ON_TIME = dm.AfterWatermark(early=A, late=A)


@attrs.frozen
class Plain(dm.Trigger):
    """Fires at each element; says nothing of its continuation."""

    def on_element(self, context: TriggerContext) -> None:
        context.trigger()

    def on_merge(self, context: TriggerContext) -> None:
        """Remembers nothing."""


@attrs.frozen
class Continued(Plain):
    """A user's trigger that says how it continues."""

    following: Any

    def continuation(self) -> Any:
        return self.following


@pytest.mark.parametrize(
    ("trigger", "continuation"),
    [
        (dm.AfterWatermark(), dm.DefaultTrigger()),
        (dm.DefaultTrigger(), dm.DefaultTrigger()),
        (dm.AfterWatermark(early=dm.AfterCount(9)), EVERY_TICK_AND_ON_TIME),
        (dm.AfterWatermark(late=dm.AfterCount(9)), dm.AfterWatermark(late=A)),
        (dm.AfterWatermark(early=dm.AfterCount(9), late=Plain()), EVERY_TICK_AND_ON_TIME),
        (dm.AfterWatermark(percentile=95), EVERY_TICK),
        (dm.Always(), dm.Always()),
        (dm.Never(), dm.Never()),
        (dm.AfterCount(9), EVERY_TICK),
        (dm.AfterBytes(9), EVERY_TICK),
        (dm.AfterEventTime(9), EVERY_TICK),
        (dm.AfterProcessingTime(9), EVERY_TICK),
        (dm.AtPeriod(9), EVERY_TICK),
        (dm.AfterSignal("go"), EVERY_TICK),
        (dm.AfterPunctuation(str.isupper), EVERY_TICK),
        (dm.Repeatedly(dm.AfterCount(9)), EVERY_TICK),
        (dm.RepeatCount(dm.AfterCount(9), 2), EVERY_TICK),
        (dm.AfterAny(dm.AfterCount(9), dm.AfterWatermark(percentile=95)), EVERY_TICK),
        (dm.AfterAny(dm.AfterCount(9), dm.AfterWatermark()), EVERY_TICK_AND_ON_TIME),
        (dm.AfterAll(dm.AfterCount(9), dm.DefaultTrigger()), EVERY_TICK_AND_ON_TIME),
        (dm.AfterEach(dm.AfterCount(9), dm.Repeatedly(dm.AfterWatermark())), EVERY_TICK_AND_ON_TIME),
        (dm.RepeatUntil(dm.AfterCount(9), dm.AfterWatermark()), EVERY_TICK_AND_ON_TIME),
        (dm.AfterCount(9).or_finally(dm.AfterWatermark()), EVERY_TICK_AND_ON_TIME),
        (dm.AfterCount(9).or_finally(dm.AfterCount(10)), EVERY_TICK),
        (dm.Repeatedly(Plain()), EVERY_TICK),
        (Plain(), EVERY_TICK),
        (Continued(dm.DefaultTrigger()), dm.DefaultTrigger()),
    ],
    ids=repr,
)
def test_each_trigger_has_the_continuation_of_its_rule(trigger: dm.Trigger, continuation: dm.Trigger) -> None:
    assert trigger.continuation() == continuation


@given(strategies.windowing_strategies())
def test_a_continuation_is_valid_never_finishes_and_continues_as_itself(strategy: dm.WindowingStrategy) -> None:
    behind = strategy.after_grouping("first")
    assert not behind.may_lose_data
    assert not behind.trigger.may_finish(allowed_lateness=behind.allowed_lateness)
    assert behind.after_grouping("second") == behind
    TriggerMachine(behind.trigger)  # can be evaluated
    assert attrs.evolve(behind, merged=False).trigger == behind.trigger  # and goes with windows that merge


def chain(p: dm.Pipeline, source: Any, windowing: dm.WindowInto) -> None:
    """Sum by key, then by nothing, and collect the panes of both."""
    sums = p | "script" >> source | "windows" >> windowing | "first" >> dm.Sum.per_key()
    _ = sums | "first panes" >> dm.io.Collect()
    regrouped = sums | dm.MapTuple(lambda _, total: ("all", total)) | "second" >> dm.Sum.per_key()
    _ = regrouped | "panes" >> dm.io.Collect()


def brief(result: Any, label: str = "panes") -> list[tuple[Any, str, float]]:
    """Return value, timing and processing time of what a sink has received."""
    return [
        (record.value[1], record.pane.timing.name, int(record.processing_time) / 1e6)
        for record in result.collected(label)
    ]


def ran(source: Any, windowing: dm.WindowInto) -> Any:
    with dm.Pipeline() as p:
        chain(p, source, windowing)
    return p.result


def test_a_second_grouping_does_not_wait_for_the_count_again() -> None:
    result = ran(
        script("p 1, e 1@1, e 2@2, p 2, e 4@3, p 3, e 8@4, p 4, w +inf"),
        fixed(dm.Repeatedly(dm.AfterCount(2))),
    )
    assert brief(result, "first panes") == [(3, "EARLY", 1), (12, "EARLY", 3)]
    assert brief(result) == [(3, "EARLY", 1), (12, "EARLY", 3)]


def test_a_second_grouping_does_not_wait_for_the_delay_again() -> None:
    result = ran(
        script("p 1, e 1@1, p 70, e 2@2, p 200, p 201, w +inf"),
        fixed(dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute"), late=dm.AfterCount(1))),
    )
    first = brief(result, "first panes")
    assert first[:2] == [(1, "EARLY", 61), (2, "EARLY", 130)]  # emitted at 70 and at 200, when the clock had moved on
    assert brief(result) == [(1, "EARLY", 70), (2, "EARLY", 200), (0, "ON_TIME", 201)]


def test_all_panes_of_one_tick_are_one_pane_of_the_second_grouping() -> None:
    steps = TestStream()
    for second in (1, 2):
        steps = steps.processing_time(second)
        for key in "abc":
            steps = steps.add(second, 1, key=key)
    result = ran(steps.processing_time(3), fixed(dm.Repeatedly(dm.AfterCount(1))))
    assert len(result.collected("first panes")) == 6
    assert brief(result) == [(3, "EARLY", 1), (6, "EARLY", 2)]


def test_a_tick_without_panes_adds_none_to_the_second_grouping() -> None:
    result = ran(script("p 1, e 1@1, p 2, p 3, e 2@2, p 4"), fixed(dm.Repeatedly(dm.AfterCount(2))))
    assert [(value, clock) for value, _, clock in brief(result)] == [(3, 3)]


def test_late_panes_pass_the_second_grouping_in_their_tick() -> None:
    windowing = fixed(dm.AfterWatermark(late=dm.AfterCount(1)), lateness=60)
    result = ran(script("p 1, e 1@1, w 10, p 5, e 2@2, e 4@3, p 7, e 8@4, p 8"), windowing)
    assert brief(result) == [(1, "ON_TIME", 1), (6, "LATE", 5), (8, "LATE", 7)]


def test_a_replayed_tick_gives_the_second_grouping_one_pane(tmp_path: Path) -> None:
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (1, 100, 2), (1, 103, 4), (2, 103, 8), (3, 104, 16)])
    with dm.Pipeline() as p:
        rows = p | dm.io.ReadParquet(tmp_path, event_time="at", processing_time="seen")
        pairs = rows | dm.Map(lambda row: (row.value % 3, row.value))
        sums = pairs | fixed(dm.Repeatedly(dm.AfterCount(1))) | "first" >> dm.Sum.per_key()
        regrouped = sums | dm.MapTuple(lambda _, total: ("all", total)) | "second" >> dm.Sum.per_key()
        _ = regrouped | "panes" >> dm.io.Collect()
    assert brief(p.result) == [(3, "EARLY", 100), (12, "EARLY", 103), (16, "EARLY", 104)]


def test_the_wall_clock_of_a_bounded_input_has_one_tick() -> None:
    with dm.Pipeline() as p:
        pairs = p | dm.Create([("a", 1), ("b", 2), ("a", 4)]) | fixed(dm.Repeatedly(dm.AfterCount(1)))
        sums = pairs | "first" >> dm.Sum.per_key()
        regrouped = sums | dm.MapTuple(lambda _, total: ("all", total)) | "second" >> dm.Sum.per_key()
        _ = regrouped | "panes" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value for record in p.result.collected("panes")] == [("all", 7)]


@given(
    strategies.windowing_strategies(),
    strategies.test_streams(),
    st.sampled_from([dm.FixedWindows(10), dm.SlidingWindows(20, 10), dm.Sessions(5), dm.GlobalWindows()]),
)
def test_a_chain_of_two_discarding_groupings_loses_nothing(
    strategy: dm.WindowingStrategy, steps: TestStream, fn: dm.WindowFn
) -> None:
    discarding = attrs.evolve(
        strategy,
        window_fn=fn,
        accumulation_mode=dm.AccumulationMode.CLEAR_ALWAYS,
        allowed_lateness=dm.duration("1 day"),
    )
    result = ran(steps, dm.Window.into(discarding))
    dropped = result.metrics()["second"]
    note(f"{dropped}")
    assert not dropped.get("dropped_because_closed", 0)
    assert not dropped.get("dropped_because_late", 0)
    received = sum(record.value[1] for record in result.collected("first panes"))
    assert sum(record.value[1] for record in result.collected("panes")) == received


@pytest.mark.parametrize(
    ("following", "error", "says"),
    [
        ("tomorrow", dm.InvalidType, r"the continuation of Continued\(.*\) after 'Sum.PerKey' must be a trigger"),
        (dm.AfterCount(2), dm.InvalidArgument, r"AfterCount\(2\), which continues Continued\(.*\) after 'Sum.PerKey'"),
        (Plain(), dm.InvalidArgument, r"Plain\(\), which continues .* may finish"),
    ],
)
def test_a_users_continuation_that_is_none_or_loses_data_is_refused(
    following: object, error: type[Exception], says: str
) -> None:
    windowing = dm.Window.trigger(Continued(following), may_lose_data=True)
    with pytest.raises(error, match=says):
        _ = dm.Pipeline() | dm.Create([("a", 1)]) | windowing | dm.Sum.per_key()


def built(make: Callable[[dm.Pipeline], Any]) -> dm.PCollection:
    collection: dm.PCollection = make(dm.Pipeline())
    return collection


def test_a_trigger_that_is_set_after_a_grouping_replaces_the_continuation() -> None:
    counting = fixed(dm.Repeatedly(dm.AfterCount(2)))

    def sums(p: dm.Pipeline) -> Any:
        return p | dm.Create([("a", 1)]) | counting | "first" >> dm.Sum.per_key()

    again = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(3)))
    assert built(sums).strategy.trigger == EVERY_TICK
    assert built(lambda p: sums(p) | again).strategy.trigger == dm.Repeatedly(dm.AfterCount(3))
    anew = built(lambda p: sums(p) | "anew" >> dm.Window.into(dm.FixedWindows(60))).strategy
    assert anew == dm.WindowingStrategy(window_fn=dm.FixedWindows(60))


COUNTING = dm.Repeatedly(dm.AfterCount(2))
PUT_TOGETHER: dict[str, Callable[[tuple[Any, Any]], Any]] = {
    "Flatten": lambda both: both | dm.Flatten(),
    "CoGroupByKey": lambda both: both | dm.CoGroupByKey(),
    "Join.Inner": lambda both: both | dm.Join.inner(),
}


@pytest.mark.parametrize("label", PUT_TOGETHER)
@pytest.mark.parametrize("swapped", [False, True])
def test_flattening_collections_with_different_triggers_is_refused(label: str, swapped: bool) -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)])
    counted = pairs | "counted" >> dm.Window.trigger(COUNTING).accumulating()
    always = pairs | "always" >> dm.Window.trigger(dm.Always()).accumulating()
    named = r"'counted' by Repeatedly\(AfterCount\(2\)\)", r"'always' by Always\(\)"
    both = (always, counted) if swapped else (counted, always)
    said = f"'{label}' merges collections .* triggered differently: {', '.join(named[:: -1 if swapped else 1])}"
    with pytest.raises(dm.InvalidArgument, match=said):
        PUT_TOGETHER[label](both)


@pytest.mark.parametrize("label", PUT_TOGETHER)
@pytest.mark.parametrize("swapped", [False, True])
def test_flattening_a_continuation_with_its_trigger_uses_the_continuation(label: str, swapped: bool) -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)]) | dm.Window.trigger(COUNTING).accumulating()
    sums = pairs | dm.Sum.per_key()
    both = (sums, pairs) if swapped else (pairs, sums)
    assert PUT_TOGETHER[label](both).strategy.trigger == EVERY_TICK


def test_each_two_of_three_flattened_collections_must_have_compatible_triggers() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)])
    counted = pairs | "counted" >> dm.Window.trigger(COUNTING)
    tens = pairs | "tens" >> dm.Window.trigger(dm.Repeatedly(dm.AfterCount(10)))
    both = counted | dm.Sum.per_key()  # carries the continuation of either
    for number, several in enumerate([(counted, tens, both), (counted, both, tens), (both, counted, tens)]):
        with pytest.raises(dm.InvalidArgument, match=r"'counted' by .*, 'tens' by"):
            _ = several | f"all {number}" >> dm.Flatten()
