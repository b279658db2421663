"""Joins: the combinations of both sides in each key and window, and what late partners do to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, strategies
from tests.support.retractions.accounts import Account, batch, elements_of, retracting, run

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS: dict[str, Callable[[], dm.Join]] = {"inner": dm.Join.inner, "left": dm.Join.left, "full": dm.Join.full}
EACH = dm.Repeatedly(dm.AfterCount(1))
TREES = [
    EACH,
    dm.Repeatedly(dm.AfterCount(2)),
    dm.Repeatedly(dm.AfterProcessingTime(5)),
    dm.AfterWatermark(early=dm.AfterProcessingTime(3), late=dm.AfterCount(1)),
    dm.DefaultTrigger(),
]
LEFT = [("a", 1), ("a", 2), ("b", 3)]
RIGHT = [("a", "x"), ("a", "y"), ("c", "z")]


def joined(kind: str, left: list[Any], right: list[Any]) -> list[Any]:
    def build(p: dm.Pipeline) -> None:
        sides = p | "left" >> dm.Create(left), p | "right" >> dm.Create(right)
        _ = sides | KINDS[kind]() | dm.io.Collect()

    return sorted((record.value for record in run(build).collected("Collect")), key=repr)


BOTH = [("a", (number, letter)) for number in (1, 2) for letter in "xy"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("inner", BOTH),
        ("left", [*BOTH, ("b", (3, None))]),
        ("full", [*BOTH, ("b", (3, None)), ("c", (None, "z"))]),
    ],
)
def test_each_kind_of_join_emits_the_expected_pairs(kind: str, expected: list[Any]) -> None:
    assert joined(kind, LEFT, RIGHT) == sorted(expected, key=repr)


def test_a_value_that_is_none_counts_as_a_partner() -> None:
    assert joined("inner", [("a", None)], [("a", None)]) == [("a", (None, None))]
    assert joined("left", [("a", None)], [("b", 1)]) == [("a", (None, None))]


def by_hand(kind: str, left: TestStream, right: TestStream, fn: dm.WindowFn) -> list[Any]:
    """Join by definition, all data in hand at once."""
    groups: dict[Any, tuple[list[Any], list[Any]]] = {}
    sided = [
        (key, (side, value), at) for side, script in enumerate((left, right)) for key, value, at in elements_of(script)
    ]
    for key, window, values in batch(sided, fn):
        lists = groups.setdefault((key, window), ([], []))
        for side, value in values:
            lists[side].append(value)
    actual = []
    for (key, window), (lefts, rights) in groups.items():
        left_values = lefts or ([None] if kind == "full" else [])
        right_values = rights or ([None] if kind != "inner" else [])
        actual += [
            (window, (key, (left_value, right_value))) for left_value in left_values for right_value in right_values
        ]
    return sorted(actual, key=repr)


@pytest.mark.parametrize("kind", KINDS)
@given(
    left=strategies.test_streams(max_steps=8),
    right=strategies.test_streams(max_steps=8),
    strategy=strategies.windowing_strategies(trees=st.sampled_from(TREES), lateness=st.just("1000 days")).map(
        retracting
    ),
)
def test_the_final_result_is_the_join_of_all_data(
    kind: str, left: TestStream, right: TestStream, strategy: Any
) -> None:
    note(f"{left.steps}\n{right.steps}")

    def build(p: dm.Pipeline) -> None:
        sides = tuple(
            p | f"{name} script" >> script | f"{name} windows" >> dm.Window.into(strategy)
            for name, script in (("left", left), ("right", right))
        )
        _ = sides | KINDS[kind]() | dm.io.Collect()

    standing = Account().book(run(build).collected("Collect")).standing
    actual = sorted(((record.window, record.value) for record in standing), key=repr)
    assert actual == by_hand(kind, left, right, strategy.window_fn)


def test_a_query_without_a_click_is_retracted_when_its_click_arrives() -> None:
    """The log join: a query without a click is said to have none until the click's log arrives."""
    queries = TestStream().add("shoes", 10, key="q1").add("hats", 20, key="q2").watermark(120)
    clicks = TestStream().watermark(50).processing_time(5).add("ad 7", 12, key="q1").watermark(120)
    windowing = (
        dm.Window.into(dm.FixedWindows("1 minute"))
        .trigger(dm.AfterWatermark(late=dm.AfterCount(1)))
        .allowed_lateness("1 hour")
        .accumulating_and_retracting()
    )

    def build(p: dm.Pipeline) -> None:
        sides = (
            p | "queries" >> queries | "queries by minute" >> windowing,
            p | "clicks" >> clicks | "clicks by minute" >> windowing,
        )
        _ = sides | dm.Join.left() | dm.io.Collect()

    shown = [(record.is_retraction, record.value) for record in run(build).collected("Collect")]
    assert shown == [
        (False, ("q1", ("shoes", "ad 7"))),
        (False, ("q2", ("hats", None))),
    ]
    clicks = TestStream().watermark(120).processing_time(5).add("ad 7", 12, key="q1")
    shown = [(record.is_retraction, record.value) for record in run(build).collected("Collect")]
    assert shown == [
        (False, ("q1", ("shoes", None))),
        (False, ("q2", ("hats", None))),
        (True, ("q1", ("shoes", None))),
        (False, ("q1", ("shoes", "ad 7"))),
    ]


def test_retracting_a_partner_leaves_the_other_element_without_one() -> None:
    script = TestStream().add(1, 0, key="a").add(1, 0, key="a")
    windowing = dm.Window.into(dm.FixedWindows(60)).trigger(EACH).accumulating_and_retracting()

    def build(p: dm.Pipeline) -> None:
        odd = p | script | "s" >> windowing | dm.Sum.per_key() | dm.Filter(lambda pair: pair[1] % 2 == 1)
        left = p | "left" >> TestStream().add("one", 0, key="a") | "l" >> windowing
        both = (left, odd)
        ticks = tuple(
            side | f"ticks {n}" >> dm.Window.trigger(dm.Repeatedly(dm.AfterProcessingTime(0)))
            for n, side in enumerate(both)
        )
        _ = ticks | dm.Join.left() | dm.io.Collect()

    assert Account().book(run(build).collected("Collect")).values() == [("a", ("one", None))]


def test_the_type_of_a_join_is_derived_from_the_types_of_its_sides() -> None:
    p = dm.Pipeline()
    left, right = p | "l" >> dm.Create([("a", 1)]), p | "r" >> dm.Create([("a", "x")])
    assert ((left, right) | dm.Join.inner()).element_type == tuple[str, tuple[int, str]]
    assert ((left, right) | dm.Join.left()).element_type == tuple[str, tuple[int, str | None]]
    assert ((left, right) | dm.Join.full()).element_type == tuple[str, tuple[int | None, str | None]]


def test_a_discarding_strategy_of_several_panes_is_refused() -> None:
    p = dm.Pipeline()
    windowing = dm.Window.into(dm.FixedWindows(60)).trigger(EACH)
    sides = tuple(p | f"c{n}" >> dm.Create([("a", n)]) | f"w{n}" >> windowing for n in range(2))
    message = (
        r"'Join.Inner' joins only elements of the same pane(.|\n)*Repeatedly\(AfterCount\(1\)\)(.|\n)*Hint: use .accum"
    )
    with pytest.raises(dm.InvalidArgument, match=message):
        _ = sides | dm.Join.inner()


def test_a_join_of_anything_but_two_collections_is_refused() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)])
    with pytest.raises(dm.InvalidType, match=r"'Join.Left' joins two collections(.|\n)*CoGroupByKey"):
        _ = (pairs,) | dm.Join.left()
    with pytest.raises(dm.InvalidType, match="joins two collections"):
        _ = {"l": pairs, "r": pairs} | dm.Join.left()  # type: ignore[operator]
    with pytest.raises(dm.InvalidType, match="takes pairs"):
        _ = (pairs, p | "numbers" >> dm.Create([1])) | dm.Join.left()  # type: ignore[operator]


def test_a_join_of_collections_with_different_windows_is_refused() -> None:
    p = dm.Pipeline()
    sides = tuple(
        p | f"c{n}" >> dm.Create([("a", n)]) | f"w{n}" >> dm.Window.into(dm.FixedWindows(60 + n)) for n in range(2)
    )
    with pytest.raises(dm.InvalidArgument, match="windowed differently"):
        _ = sides | dm.Join.inner()


def test_a_collection_may_be_joined_with_itself() -> None:
    def build(p: dm.Pipeline) -> None:
        pairs = p | dm.Create([("a", 1), ("a", 2)])
        _ = (pairs, pairs) | dm.Join.inner() | dm.io.Collect()

    assert len(run(build).collected("Collect")) == 4
