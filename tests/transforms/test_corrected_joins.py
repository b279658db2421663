"""Joins by distance that emit elements without a partner early, and take them back when a partner arrives."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.functions.interval_joins import Firing
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.joined_sides import Move, joined, scripted
from tests.support.retractions.accounts import Account, run

if TYPE_CHECKING:
    from collections.abc import Callable

EVERYWHERE = dm.Window.into(dm.GlobalWindows()).allowed_lateness(1_000)
MODES: dict[str, dm.WindowInto] = {
    "final": EVERYWHERE,
    "on time": EVERYWHERE.accumulating_and_retracting(),
    "at once": EVERYWHERE.trigger(dm.Always()).accumulating_and_retracting(),
}
FORMS: dict[str, tuple[Callable[..., dm.Join[Any, Any]], tuple[bool, bool]]] = {
    "left": (dm.Join.left, (True, False)),
    "right": (dm.Join.right, (False, True)),
    "full": (dm.Join.full, (True, True)),
}


def by_hand(moves: list[Move], between: tuple[int, int], keeps: tuple[bool, bool]) -> Counter[Any]:
    """Return each key and pair, with its event time, by comparing all with all."""
    least, greatest = between
    lefts, rights = ([(at, value) for side, at, value in moves if side == name] for name in ("left", "right"))
    pairs: Counter[Any] = Counter()
    met: set[Any] = set()
    for left in enumerate(lefts):
        for right in enumerate(rights):
            (number, (at, value)), (other_number, (other_at, other)) = left, right
            if value % 2 == other % 2 and least <= other_at - at <= greatest:
                pairs["ab"[value % 2], (value, other), max(at, other_at)] += 1
                met |= {("left", number), ("right", other_number)}
    for number, (at, value) in enumerate(lefts):
        if keeps[0] and ("left", number) not in met:
            pairs["ab"[value % 2], (value, None), at] += 1
    for number, (at, value) in enumerate(rights):
        if keeps[1] and ("right", number) not in met:
            pairs["ab"[value % 2], (None, value), at] += 1
    return pairs


MOVES = st.lists(
    st.tuples(st.sampled_from(["left", "right", "left", "right", "watermark"]), st.integers(0, 40), st.integers(0, 3)),
    max_size=12,
)
TENS = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Always()).allowed_lateness(1_000).accumulating_and_retracting()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@given(moves=MOVES, bounds=st.tuples(st.integers(-8, 8), st.integers(-8, 8)), is_cut=st.booleans())
def test_what_stands_in_the_end_is_the_comparison_of_all_pairs_in_every_mode(
    form: str, mode: str, moves: list[Move], bounds: tuple[int, int], is_cut: bool
) -> None:
    join, keeps = FORMS[form]
    between = min(bounds), max(bounds)

    def build(p: dm.Pipeline) -> None:
        pairs = joined(p, moves, join(between=between), MODES[mode])
        _ = pairs | "pairs" >> dm.io.Collect()
        _ = pairs | "tens" >> TENS | "count" >> dm.Count.per_key() | "counts" >> dm.io.Collect()

    runner: Any = MicroBatchRunner(Schedule(2, cuts=(1, 3), restarts=frozenset(range(1, 40, 2))))
    result = run(build, runner if is_cut else None)
    expected = by_hand(moves, between, keeps)
    standing = Account().book(result.collected("pairs")).standing
    assert Counter((*record.value, int(record.event_time) // 1_000_000) for record in standing) == expected
    counts: Counter[Any] = Counter()
    for (key, _, at), count in expected.items():
        counts[key, at // 10 * 10] += count
    by_window = Account().book(result.collected("counts")).by_window()
    shown = {(key, int(window.start) // 1_000_000): count for (key, window), count in by_window.items()}
    assert {home: count for home, count in shown.items() if count} == counts


def shown(moves: list[Move], join: dm.Join[Any, Any], mode: str) -> list[str]:
    result = run(lambda p: joined(p, moves, join, MODES[mode]) | "pairs" >> dm.io.Collect())
    return [f"{'-' if record.is_retraction else '+'}{record.value[1]}" for record in result.collected("pairs")]


LATE_PARTNER: list[Move] = [("left", 10, 1), ("watermark", 12, 0), ("watermark", 20, 0), ("right", 11, 3)]


def test_an_element_is_emitted_without_a_partner_at_once_under_a_trigger_that_fires_at_each_element() -> None:
    moves: list[Move] = [("left", 10, 1), ("right", 11, 3)]
    assert shown(moves, dm.Join.left(within=5), "at once") == ["+(1, None)", "-(1, None)", "+(1, 3)"]
    assert shown(moves, dm.Join.left(within=5), "on time") == ["+(1, 3)"]


def test_an_element_with_several_partners_is_taken_back_once() -> None:
    moves: list[Move] = [("left", 10, 1), ("right", 11, 3), ("left", 10, 1), ("right", 9, 1)]
    assert shown(moves, dm.Join.left(within=5), "at once") == [
        "+(1, None)",
        "-(1, None)",
        "+(1, 3)",
        "+(1, 3)",
        "+(1, 1)",
        "+(1, 1)",
    ]


def test_an_element_is_emitted_without_a_partner_on_time_and_taken_back_for_a_late_one() -> None:
    assert shown(LATE_PARTNER, dm.Join.left(within=5), "on time") == ["+(1, None)", "-(1, None)", "+(1, 3)"]
    assert shown(LATE_PARTNER, dm.Join.left(within=5), "final") == ["+(1, 3)"]


@pytest.mark.parametrize(
    "trigger",
    [dm.Repeatedly(dm.AfterCount(1)), dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1))],
)
def test_triggers_that_fire_at_each_element_are_the_same_for_a_join(trigger: dm.Trigger) -> None:
    p = dm.Pipeline()
    pairs = joined(p, LATE_PARTNER, dm.Join.full(within=5), EVERYWHERE.trigger(trigger).accumulating_and_retracting())
    assert p.plan()["join/partners"].fn.firing is Firing.AT_ONCE  # type: ignore[union-attr]
    del pairs


@pytest.mark.parametrize(
    ("windowing", "message"),
    [
        (EVERYWHERE.trigger(dm.Always()), "could not take that back: its sides do not retract"),
        (EVERYWHERE.trigger(dm.Always()).accumulating(), "could not take that back: its sides do not retract"),
        (
            EVERYWHERE.trigger(dm.Repeatedly(dm.AfterCount(2))).accumulating_and_retracting(),
            r"at once, on time, or when it is final, but its sides are triggered by Repeatedly\(AfterCount\(2\)\)",
        ),
    ],
)
def test_a_trigger_that_a_left_join_by_distance_cannot_follow_is_rejected_when_it_is_built(
    windowing: dm.WindowInto, message: str
) -> None:
    with pytest.raises(dm.InvalidArgument, match=message):
        joined(dm.Pipeline(), LATE_PARTNER, dm.Join.left(within=5), windowing)
    joined(dm.Pipeline(), LATE_PARTNER, dm.Join.inner(within=5), windowing)


def test_sides_of_a_full_join_that_would_be_emitted_at_different_times_are_rejected() -> None:
    p = dm.Pipeline()
    left = p | "left" >> scripted([("left", 10, 1)]) | "at once" >> MODES["at once"]
    right = p | "right" >> scripted([("right", 10, 1)]) | "on time" >> MODES["on time"]
    with pytest.raises(dm.InvalidArgument, match=r"left side without a partner at once, .* right side on time"):
        _ = (left, right) | dm.Join.full(within=5)
    _ = (left, right) | dm.Join.left(within=5)


def test_a_right_join_by_window_keeps_the_right_side() -> None:
    with dm.Pipeline() as p:
        left, right = p | "left" >> dm.Create([("a", 1)]), p | "right" >> dm.Create([("a", 2), ("b", 3)])
        _ = (left, right) | dm.Join.right() | "out" >> dm.io.Collect()
    assert sorted(record.value for record in p.result.collected("out")) == [("a", (1, 2)), ("b", (None, 3))]
