"""Joins by distance in event time: who is a partner, for how long an element waits, and where outputs stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

Timed = list[tuple[str, int]]


def seconds(record: Any) -> int:
    return int(record.event_time) // 1_000_000


def joined(transform: dm.PTransform, left: Timed, right: Timed) -> list[tuple[Any, int]]:
    """Join elements of one key, and return the pairs with their event times in seconds."""
    with dm.Pipeline() as p:
        sides = [
            p | name >> dm.Create([dm.TimestampedValue(("k", value), at) for value, at in timed])
            for name, timed in (("left", left), ("right", right))
        ]
        _ = tuple(sides) | transform | "out" >> dm.io.Collect()
    assert p.result is not None
    return sorted(((record.value[1], seconds(record)) for record in p.result.collected("out")), key=repr)


def test_partners_are_no_further_apart_than_the_distance_either_way() -> None:
    left, right = [("a", 10)], [("x", 5), ("y", 15), ("z", 16), ("u", 4)]
    assert joined(dm.Join(within=5), left, right) == [(("a", "x"), 10), (("a", "y"), 15)]
    assert joined(dm.Join.inner(within=0), left, [("x", 10), ("y", 11)]) == [(("a", "x"), 10)]


@pytest.mark.parametrize(("windows", "copies"), [(dm.FixedWindows(10), 1), (dm.SlidingWindows(10, 5), 4)], ids=repr)
def test_windows_do_not_matter_but_an_element_in_two_windows_counts_twice(windows: dm.WindowFn, copies: int) -> None:
    def in_windows(p: dm.Pipeline, name: str, at: int) -> Any:
        element = p | name >> dm.Create([dm.TimestampedValue(("k", name), at)])
        return element | f"windows of {name}" >> dm.Window.into(windows)

    with dm.Pipeline() as p:
        _ = (in_windows(p, "left", 9), in_windows(p, "right", 11)) | dm.Join(within=5) | "out" >> dm.io.Collect()
    assert p.result is not None
    joined = [(record.value, record.window) for record in p.result.collected("out")]
    assert joined == [(("k", ("left", "right")), dm.GLOBAL_WINDOW)] * copies


def test_an_element_without_a_partner_is_emitted_at_its_own_event_time() -> None:
    left, right = [("a", 0), ("b", 100)], [("x", 103), ("y", 200)]
    assert joined(dm.Join.left(within=5), left, right) == [(("a", None), 0), (("b", "x"), 103)]
    assert joined(dm.Join.full(within=5), left, right) == [(("a", None), 0), (("b", "x"), 103), ((None, "y"), 200)]


def test_elements_without_event_times_are_partners_of_each_other() -> None:
    with dm.Pipeline() as p:
        left = p | "left" >> dm.Create([("k", "a"), ("alone", "b")])
        right = p | "right" >> dm.Create([("k", "x")])
        _ = (left, right) | dm.Join.left(within="5 minutes") | "out" >> dm.io.Collect()
    records = p.result.collected("out")
    assert {record.value for record in records} == {("k", ("a", "x")), ("alone", ("b", None))}
    assert {record.event_time for record in records} == {dm.MIN_TIMESTAMP}


def plain(left: Timed, right: Timed, between: tuple[int, int], keeps: tuple[bool, bool]) -> list[tuple[Any, int]]:
    """Join by comparing all with all."""
    least, greatest = between
    pairs = [((v, w), max(s, t)) for v, s in left for w, t in right if least <= t - s <= greatest]
    alone: list[Any] = [
        ((v, None), s) for v, s in left if keeps[0] and not any(least <= t - s <= greatest for _, t in right)
    ]
    alone += [((None, w), t) for w, t in right if keeps[1] and not any(least <= t - s <= greatest for _, s in left)]
    return sorted([*pairs, *alone], key=repr)


SIDES = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 30)), max_size=6)
FORMS: list[tuple[Callable[..., dm.Join], tuple[bool, bool]]] = [
    (dm.Join.inner, (False, False)),
    (dm.Join.left, (True, False)),
    (dm.Join.full, (True, True)),
]


@pytest.mark.parametrize(("form", "keeps"), FORMS, ids=["inner", "left", "full"])
@given(left=SIDES, right=SIDES, bounds=st.tuples(st.integers(-12, 12), st.integers(-12, 12)))
def test_an_interval_join_equals_the_comparison_of_all_pairs(
    form: Any, keeps: tuple[bool, bool], left: Timed, right: Timed, bounds: tuple[int, int]
) -> None:
    between = min(bounds), max(bounds)
    assert joined(form(between=between), left, right) == plain(left, right, between, keeps)
    assert joined(form(within=between[1] - between[0]), left, right) == plain(
        left, right, (between[0] - between[1], between[1] - between[0]), keeps
    )


def sides(p: dm.Pipeline, left: TestStream, right: TestStream, lateness: int = 0) -> tuple[Any, Any]:
    windowing = dm.Window.into(dm.GlobalWindows()).allowed_lateness(lateness)
    return p | "left" >> left | "wait" >> windowing, p | "right" >> right


def test_an_element_is_kept_until_no_partner_can_arrive() -> None:
    with dm.Pipeline() as p:
        left = TestStream().add("a", 10, key="k").watermark(100)
        right = TestStream().watermark(15).add("x", 15, key="k").watermark(16).add("y", 16, key="k").watermark(100)
        _ = sides(p, left, right) | dm.Join.left(within=5) | "out" >> dm.io.Collect()
    assert p.result is not None
    assert [(record.value[1], seconds(record)) for record in p.result.collected("out")] == [(("a", "x"), 15)]


def test_a_late_partner_is_accepted_within_the_allowed_lateness_and_otherwise_dropped_and_counted() -> None:
    def run(lateness: int) -> tuple[list[Any], int]:
        with dm.Pipeline() as p:
            left = TestStream().add("a", 10, key="k").watermark(100)
            right = TestStream().watermark(100).add("x", 12, key="k")
            _ = sides(p, left, right, lateness) | dm.Join.left(within=5) | "out" >> dm.io.Collect()
        assert p.result is not None
        counters = p.result.metrics()["Join.Left/partners"]
        return [record.value[1] for record in p.result.collected("out")], counters.get("dropped_because_late", 0)

    assert run(88) == ([("a", "x")], 0)
    assert run(87) == ([("a", None)], 1)


def test_a_payment_is_paired_with_an_earlier_order_and_not_with_a_later_one() -> None:
    left, right = [("order", 100)], [("early", 99), ("at once", 100), ("in time", 115), ("too late", 116)]
    found = joined(dm.Join.full(between=("0 s", "15 s")), left, right)
    assert found == sorted(
        [
            (("order", "at once"), 100),
            (("order", "in time"), 115),
            ((None, "early"), 99),
            ((None, "too late"), 116),
        ],
        key=repr,
    )


def test_each_side_waits_only_as_long_as_a_partner_may_arrive() -> None:
    left = TestStream().add("order", 100, key="k").watermark(100).watermark(110).watermark(200)
    right = TestStream().add("early", 95, key="k").watermark(100).watermark(110).watermark(200)
    with dm.Pipeline() as p:
        _ = sides(p, left, right) | dm.Join.full(between=(0, 15)) | dm.Map(_seen_at) | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == [((None, "early"), 95), (("order", None), 100)]
    assert p.result.metrics()["Join.Full/partners"].get("dropped_because_late", 0) == 0


def _seen_at(pair: Any, timestamp: dm.EventTime) -> Any:
    return pair[1], int(timestamp) // 1_000_000


@on_hosts("process")
@pytest.mark.parametrize("distance", [{"within": 3}, {"between": (0, 4)}, {"between": (-6, -2)}], ids=str)
def test_a_stream_joins_the_same_pairs_as_a_bounded_job(
    host: str, distance: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def answers(runner: Any) -> list[Any]:
        p = dm.Pipeline(runner=runner)
        left, right = TestStream(), TestStream()
        for number in range(60):
            left = left.processing_time(number).add(f"l{number}", number * 3 % 50, key="ab"[number % 2])
            right = right.processing_time(number).add(f"r{number}", number * 7 % 50, key="ab"[number % 2])
            if number % 10 == 9:
                left, right = left.watermark(number // 3), right.watermark(number // 2)
        _ = sides(p, left, right, 20) | dm.Join.full(**distance) | "out" >> dm.io.Collect()
        result = p.run()
        result.wait_until_finish(60)
        return sorted((repr(record.value), int(record.event_time)) for record in result.collected("out"))

    assert answers(runner_on(host, request, tmp_path / "checkpoint")) == answers(dm.LocalRunner())


def test_a_negative_distance_is_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"`within` must not be negative, got '-5 seconds'\nHint: "):
        dm.Join(within=-5)


def test_bounds_that_are_not_an_ordered_pair_of_durations_are_refused() -> None:
    with pytest.raises(
        dm.InvalidArgument, match=r"must not be greater than the second, got \(5, '0 s'\)\nHint: use bet"
    ):
        dm.Join(between=(5, "0 s"))
    wrong: Any = "15 minutes"
    with pytest.raises(dm.InvalidType, match=r"`between` must be a pair of durations, got '15 minutes'\nHint: "):
        dm.Join.left(between=wrong)
    with pytest.raises(
        dm.InvalidArgument, match=r"either `within` or `between`, got within=5 and between=\(0, 5\)\nHint"
    ):
        dm.Join(within=5, between=(0, 5))


def test_the_plan_in_words_shows_the_distance_of_a_join() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("k", 1)])
    _ = (pairs, pairs) | "near" >> dm.Join(within=5)
    _ = (pairs, pairs) | "paid" >> dm.Join.left(between=("0 s", "15 minutes"))
    explained = explain(p.plan())
    assert "near/partners: partners at most 5 seconds apart; " in explained
    assert "paid/partners: right partners 0 seconds to 15 minutes after the left ones; " in explained


def test_the_repr_of_a_join_shows_its_distance() -> None:
    assert repr("near" >> dm.Join(within=300)) == "<Join 'near', within='5 minutes'>"
    assert repr(dm.Join.full(between=("0 s", 900))) == "<Join 'Join.Full', between=('0 seconds', '15 minutes')>"
    assert repr(dm.Join.left()) == "<Join 'Join.Left'>"


def test_a_join_without_a_distance_joins_by_window() -> None:
    p = dm.Pipeline()
    left, right = p | "l" >> dm.Create([("k", 1)]), p | "r" >> dm.Create([("k", 2)])
    _ = (left, right) | dm.Join()
    assert [node.label for node in p.plan().nodes][2:4] == ["Join/CoGroupByKey/0", "Join/CoGroupByKey/1"]
