"""The windowing chain: last call wins, order does not matter, checked when complete."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument

if TYPE_CHECKING:
    from collections.abc import Callable

HOURLY = dm.FixedWindows("1 hour")


def test_a_chain_of_window_options_is_immutable_and_its_last_call_wins() -> None:
    chain = dm.Window.into(HOURLY).accumulating()
    assert chain.discarding().strategy.accumulation_mode is dm.AccumulationMode.CLEAR_ALWAYS
    assert chain.strategy.accumulation_mode is dm.AccumulationMode.ACCUMULATE_ALWAYS


def test_updating_sets_the_usual_trigger_lateness_and_accumulation() -> None:
    hours = dm.Window.into(dm.FixedWindows("1 hour"))
    for options, trigger, lateness in (
        ({"early": "1 minute"}, dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute")), 0),
        ({"late": "1 day"}, dm.AfterWatermark(late=dm.AfterCount(1)), "1 day"),
        ({"early": 0, "late": 60}, dm.AfterWatermark(dm.AfterProcessingTime(0), dm.AfterCount(1)), 60),
    ):
        usual = hours.trigger(trigger).allowed_lateness(lateness).accumulating()
        updating: Any = hours.updating
        assert updating(**options).strategy == usual.strategy
        assert updating(**options).accumulating_and_retracting().strategy.retracting


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"updating\(\) needs `early` or `late`, got early=None and late=0\nHint: use updating\(early="),
        ({"late": -1}, "`late` must not be negative"),
        ({"early": "-1 s", "late": 1}, "`delay` must not be negative"),
    ],
)
def test_updates_that_could_never_be_emitted_are_rejected(options: dict[str, Any], message: str) -> None:
    updating: Any = dm.Window.into(dm.FixedWindows("1 hour")).updating
    with pytest.raises(InvalidArgument, match=message):
        updating(**options)


def test_lateness_may_be_set_before_or_after_the_trigger() -> None:
    on_time_only = dm.AfterWatermark()
    before = dm.Window.into(HOURLY).allowed_lateness("1 hour").trigger(on_time_only).allowed_lateness(0)
    after = dm.Window.into(HOURLY).trigger(on_time_only)
    assert before.strategy == after.strategy


def test_a_trigger_that_may_lose_data_is_refused_when_the_chain_is_used() -> None:
    chain = dm.Window.into(HOURLY).trigger(dm.AfterWatermark()).allowed_lateness("1 hour")
    with pytest.raises(dm.InvalidArgument, match="may finish before its window expires"):
        _ = chain.strategy
    with pytest.raises(dm.InvalidArgument, match="may finish before its window expires"):
        _ = dm.Pipeline() | dm.Create([1]) | chain
    assert chain.trigger(dm.AfterWatermark(), may_lose_data=True).strategy.may_lose_data


def test_a_chain_is_shown_as_it_is_written() -> None:
    early = dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1))
    chain = dm.Window.into(HOURLY).trigger(early).allowed_lateness("1 day").late_data("duplicate_window")
    assert repr(chain.accumulating_and_retracting()) == (
        f"Window.into(FixedWindows('1 hour')).trigger({early!r}).allowed_lateness('1 day')"
        ".late_data('duplicate_window').accumulating_and_retracting()"
    )
    once = dm.Window.trigger(dm.AfterCount(1), may_lose_data=True).discarding()
    assert repr(once) == "Window.trigger(AfterCount(1), may_lose_data=True).discarding()"
    assert repr(dm.WindowInto(HOURLY)) == "Window.into(FixedWindows('1 hour'))"


def test_options_may_be_text_or_members_of_enums() -> None:
    as_text = dm.Window.into(HOURLY).on_time("fire_if_non_empty").closing("fire_always").late_data("duplicate_window")
    as_members = (
        dm.Window.into(HOURLY)
        .on_time(dm.OnTimeBehavior.FIRE_IF_NON_EMPTY)
        .closing(dm.ClosingBehavior.FIRE_ALWAYS)
        .late_data(dm.LateData.DUPLICATE_WINDOW)
    )
    assert as_text.timestamp_combiner("EARLIEST").strategy == (  # type: ignore[arg-type] # in capitals
        as_members.timestamp_combiner(dm.TimestampCombiner.EARLIEST).strategy
    )


def test_a_whole_strategy_is_applied_and_changed() -> None:
    strategy = dm.Window.into(HOURLY).accumulating().strategy
    assert dm.Window.into(strategy).strategy == strategy
    assert dm.Window.into(strategy).allowed_lateness("1 hour").strategy.accumulates


@pytest.mark.parametrize(
    ("ask", "mode", "retracting"),
    [
        (lambda chain: chain.discarding(), dm.AccumulationMode.CLEAR_ALWAYS, False),
        (lambda chain: chain.accumulating(), dm.AccumulationMode.ACCUMULATE_ALWAYS, False),
        (lambda chain: chain.accumulating_and_retracting(), dm.AccumulationMode.ACCUMULATE_ALWAYS, True),
        (lambda chain: chain.accumulation("clear_by_default"), dm.AccumulationMode.CLEAR_BY_DEFAULT, False),
        (
            lambda chain: chain.accumulation("accumulate_by_default", retracting=True),
            dm.AccumulationMode.ACCUMULATE_BY_DEFAULT,
            True,
        ),
        (
            lambda chain: chain.accumulating_and_retracting().discarding(),
            dm.AccumulationMode.CLEAR_ALWAYS,
            False,
        ),
    ],
)
def test_the_modes_say_how_panes_relate(ask: Any, mode: dm.AccumulationMode, retracting: bool) -> None:
    strategy = ask(dm.Window.into(HOURLY)).strategy
    assert strategy.accumulation_mode is mode
    assert strategy.retracting is retracting


@pytest.mark.parametrize(
    ("ask", "problem"),
    [
        (lambda: dm.Window.into("1 hour"), "Window.into takes a window function, got '1 hour'"),  # type: ignore[arg-type]
        (lambda: dm.Window.into(HOURLY).trigger(1), "`trigger` must be a trigger, got 1"),  # type: ignore[arg-type]
        (lambda: dm.Window.into(HOURLY).allowed_lateness(-1), "`allowed_lateness` must not be negative"),
        (lambda: dm.Window.into(HOURLY).on_time("sometimes"), "`on_time` must be 'fire_always' or"),  # type: ignore[arg-type]
        (lambda: dm.Window.into(HOURLY).accumulation("clear_always", retracting=True), "must accumulate"),
    ],
)
def test_wrong_values_of_window_options_are_refused_at_construction(ask: Any, problem: str) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType), match=problem):
        ask()


def test_a_trigger_alone_keeps_the_window_function_of_the_input() -> None:
    p = dm.Pipeline()
    windowed = p | dm.Create([1]) | dm.Window.into(HOURLY).allowed_lateness("2 hours")
    changed = windowed | dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
    assert changed.strategy.window_fn == HOURLY
    assert changed.strategy.allowed_lateness == dm.duration("2 hours")
    assert changed.strategy.accumulates
    node: Any = p.plan()["Window.trigger"]
    assert not node.assigns


def test_a_new_window_function_resets_merging_and_accumulation() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)]) | dm.Window.into(dm.Sessions("1 hour")).accumulating() | dm.Sum.per_key()
    again = pairs | "again" >> dm.Window.into(dm.Sessions("2 hours"))
    assert again.strategy.merges
    assert not again.strategy.accumulates


def test_windows_merged_by_a_grouping_do_not_merge_again() -> None:
    p = dm.Pipeline()
    sessions = p | dm.Create([("a", 1)]) | dm.Window.into(dm.Sessions("1 hour"))
    grouped = sessions | dm.GroupByKey()
    node: Any = p.plan()["GroupByKey"]
    assert node.strategy.merges
    assert not grouped.strategy.merges
    assert p.plan().strategy(grouped.ref) == grouped.strategy


def test_flattening_collections_with_different_window_functions_is_refused() -> None:
    p = dm.Pipeline()
    hourly = p | "a" >> dm.Create([1]) | "hours" >> dm.Window.into(HOURLY)
    daily = p | "b" >> dm.Create([1]) | "days" >> dm.Window.into(dm.FixedWindows("1 day"))
    with pytest.raises(dm.InvalidArgument, match=r"windowed differently: 'hours' by .*1 hour.*'days' by"):
        _ = (hourly, daily) | dm.Flatten()


SETTINGS: dict[str, tuple[Callable[[dm.WindowInto], dm.WindowInto], str]] = {
    "allowed_lateness": (lambda windows: windows.allowed_lateness("2 days"), "'other' has 2 days"),
    "accumulation_mode": (lambda windows: windows.accumulating(), "'other' has AccumulationMode.ACCUMULATE_ALWAYS"),
    "timestamp_combiner": (
        lambda windows: windows.timestamp_combiner("latest"),
        "'other' has TimestampCombiner.LATEST",
    ),
    "on_time": (lambda windows: windows.on_time("fire_if_non_empty"), "'other' has OnTimeBehavior.FIRE_IF_NON_EMPTY"),
    "closing": (lambda windows: windows.closing("fire_always"), "'other' has ClosingBehavior.FIRE_ALWAYS"),
    "late_data": (lambda windows: windows.late_data("duplicate_window"), "'other' has LateData.DUPLICATE_WINDOW"),
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("merge", [dm.Flatten(), dm.CoGroupByKey(), dm.Join.inner()], ids=lambda merge: merge.label)
def test_flattening_collections_with_different_window_options_is_refused(name: str, merge: Any) -> None:
    change, message = SETTINGS[name]
    pairs = dm.Pipeline() | dm.Create([("a", 1)])
    plain = dm.Window.into(HOURLY)
    one = pairs | "one" >> plain
    with pytest.raises(dm.InvalidArgument, match=f"different `{name}`: 'one' has .*{message}"):
        _ = (one, pairs | "other" >> change(plain)) | merge
    _ = (one, pairs | "the same" >> plain) | merge


def test_flattening_retracting_and_accumulating_collections_is_refused() -> None:
    pairs = dm.Pipeline() | dm.Create([("a", 1)])
    accumulating = pairs | "one" >> dm.Window.into(HOURLY).accumulating()
    retracting = pairs | "other" >> dm.Window.into(HOURLY).accumulating_and_retracting()
    with pytest.raises(dm.InvalidArgument, match="different `retracting`: 'one' has False, 'other' has True"):
        _ = (accumulating, retracting) | dm.Flatten()


class ByIdentity(dm.WindowFn):
    def assign(self, event_time: dm.EventTime, element: Any) -> Any:
        return HOURLY.assign(event_time, element)


def test_window_functions_without_equality_are_reported_with_the_way_to_give_them_one() -> None:
    p = dm.Pipeline()
    one = p | "a" >> dm.Create([1]) | "one" >> dm.Window.into(ByIdentity())
    other = p | "b" >> dm.Create([1]) | "other" >> dm.Window.into(ByIdentity())
    with pytest.raises(
        dm.InvalidArgument, match=r"windowed differently: .*\nHint: decorate the class .*@attrs\.frozen"
    ):
        _ = (one, other) | dm.Flatten()


def test_the_arguments_of_window_into_are_the_methods_of_the_chain() -> None:
    late = dm.AfterWatermark(late=dm.AfterCount(1))
    chain = dm.Window.into(dm.FixedWindows(10)).trigger(late).allowed_lateness(60).accumulating()
    arguments = dm.WindowInto(
        dm.FixedWindows(10), trigger=late, accumulation_mode=dm.AccumulationMode.ACCUMULATING, allowed_lateness=60
    )
    assert arguments.strategy == chain.strategy
    latest = dm.WindowInto(chain.strategy, timestamp_combiner="latest", accumulation_mode="discarding")
    assert latest.strategy == chain.discarding().timestamp_combiner(dm.TimestampCombiner.LATEST).strategy
    assert dm.WindowInto(dm.FixedWindows(10)).strategy == dm.Window.into(dm.FixedWindows(10)).strategy


def test_the_arguments_of_window_into_are_checked_as_in_the_chain() -> None:
    with pytest.raises(dm.InvalidType, match=r"takes a window function, got 60\nHint: pass dm.FixedWindows"):
        dm.WindowInto(60)  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidType, match="`trigger` must be a trigger"):
        dm.WindowInto(dm.FixedWindows(10), trigger="late")  # type: ignore[arg-type] # the point
    with pytest.raises(
        dm.InvalidArgument,
        match=r"`accumulation_mode` must be 'discarding' or 'accumulating' .*, got 'retracting'\nHint: .* dm.Acc",
    ):
        dm.WindowInto(dm.FixedWindows(10), accumulation_mode="retracting")  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidArgument, match="`allowed_lateness` must not be negative"):
        dm.WindowInto(dm.FixedWindows(10), allowed_lateness=-1)
