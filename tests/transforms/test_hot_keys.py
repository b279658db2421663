"""Fan-out: what is rejected, how elements are spread over parts, and what the plan shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
from dataflow_model.testing import TestStream
from tests.support.pipelines import run

if TYPE_CHECKING:
    from collections.abc import Iterable

PER_KEY, GLOBALLY = dm.CombinePerKey(sum), dm.CombineGlobally(sum)
WORDS = [("to", 1)] * 400 + [("be", 1)] * 3


@pytest.mark.parametrize("fanout", [0, -3, 2**32 + 1, 2**63])
def test_a_fanout_below_one_or_above_the_number_of_hashes_is_rejected(fanout: int) -> None:
    with pytest.raises(dm.InvalidArgument, match=f"at least 1 and at most 4,294,967,296, got {fanout}"):
        PER_KEY.with_hot_key_fanout(fanout)
    with pytest.raises(dm.InvalidArgument, match=f"at least 1 and at most 4,294,967,296, got {fanout}"):
        GLOBALLY.with_fanout(fanout)


@pytest.mark.parametrize("fanout", [2.0, True, "2", None, int])
def test_a_fanout_that_is_not_a_number_or_function_is_rejected(fanout: Any) -> None:
    with pytest.raises(dm.InvalidType, match="`fanout` must be an int or a function from a key to an int"):
        PER_KEY.with_hot_key_fanout(fanout)
    with pytest.raises(dm.InvalidType, match="`fanout` must be an int, got"):
        GLOBALLY.with_fanout(fanout)


def test_a_function_as_fanout_is_rejected_for_combining_globally() -> None:
    with pytest.raises(dm.InvalidType, match="`fanout` must be an int, got"):
        GLOBALLY.with_fanout(lambda _: 2)  # type: ignore[arg-type]


def test_a_fanout_function_that_returns_no_int_fails_the_run_with_the_key() -> None:
    with (
        pytest.raises(dm.UserCodeError, match=r"`fanout` must return an int, got 1\.5 for the key 'a'"),
        dm.Pipeline() as p,
    ):
        _ = p | dm.Create([("a", 1)]) | PER_KEY.with_hot_key_fanout(lambda _: 1.5)  # type: ignore[arg-type, return-value]


def test_a_trigger_that_may_finish_is_rejected_with_fanout() -> None:
    once = dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterCount(3), may_lose_data=True)
    pairs = dm.Pipeline() | dm.Create([("a", 1)]) | once
    with pytest.raises(dm.InvalidArgument, match=r"'CombinePerKey' combines in parts, but AfterCount\(3\) may finish"):
        _ = pairs | PER_KEY.with_hot_key_fanout(2)


@pytest.mark.parametrize("elements", [[1, 2], [("a", "x")]])
def test_elements_are_checked_with_fanout_as_without_it(elements: list[Any]) -> None:
    with pytest.raises(dm.InvalidType, match=r"'Sum\.PerKey' "):
        _ = dm.Pipeline() | dm.Create(elements) | dm.Sum.per_key().with_hot_key_fanout(2)


def test_transforms_without_lifting_have_no_fanout() -> None:
    assert not hasattr(dm.GroupByKey(), "with_hot_key_fanout")
    assert not hasattr(GLOBALLY, "with_hot_key_fanout")


def test_with_hot_key_fanout_returns_a_changed_copy() -> None:
    PER_KEY.with_hot_key_fanout(4)
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | PER_KEY
    assert [node.label for node in p.plan().nodes] == ["Create", "CombinePerKey"]


def test_fanout_changes_neither_types_nor_labels() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)])
    assert (pairs | dm.Mean.per_key().with_hot_key_fanout(2)).element_type == tuple[str, float]
    assert (pairs | dm.Values() | dm.Sum.globally().with_fanout(2)).element_type is int
    groupings = [node.label for node in p.plan().nodes if isinstance(node, GroupByKeyAndWindow)]
    assert groupings == [
        "Mean.PerKey/Parts",
        "Mean.PerKey/Total",
        "Sum.Globally/CombinePerKey/Parts",
        "Sum.Globally/CombinePerKey/Total",
    ]


def test_fanout_works_with_a_side_input_and_additional_arguments() -> None:
    def at_most(values: Iterable[int], limit: int) -> int:
        return min(sum(values), limit)

    with dm.Pipeline() as p:
        numbers = p | dm.Create([3, 4, 5])
        total = numbers | dm.CombineGlobally(at_most, 10).with_fanout(2).as_singleton_view()
        _ = numbers | dm.Map(lambda number, total: (number, total), total) | dm.io.Collect()
    assert [record.value for record in p.result.collected("Collect")] == [(3, 10), (4, 10), (5, 10)]


def test_with_fanout_no_elements_give_no_pane_and_a_singleton_view_the_value_for_no_inputs() -> None:
    with dm.Pipeline() as p:
        none = p | dm.Create([1]) | dm.Filter(lambda _: False)
        _ = none | "count" >> dm.Count.globally().with_fanout(3) | "counts" >> dm.io.Collect()
        count = none | "view" >> dm.Count.globally().with_fanout(3).as_singleton_view()
        _ = p | "main" >> dm.Create(["x"]) | dm.Map(lambda text, count: (text, count), count) | dm.io.Collect()
    assert p.result.collected("counts") == []
    assert [record.value for record in p.result.collected("Collect")] == [("x", 0)]


# Parts --------------------------------------------------------------------------------------------------------------


def sizes_of_parts(pairs: Any, fanout: Any) -> dict[Any, list[int]]:
    """Return how many elements each part of a key has, for the elements of a source or of a grouping."""
    p = dm.Pipeline()
    elements = p | dm.Create(WORDS) if pairs is None else pairs(p)
    _ = elements | "count" >> dm.Count.per_key().with_hot_key_fanout(fanout)
    plan = p.plan()
    split = dm.PCollection(
        p,
        next(node.inputs[0] for node in plan.nodes if node.label == "count/Parts"),
        Any,
        plan.strategies[plan["count/Parts"].inputs[0]],
    )
    _ = split | "parts" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    sizes: dict[Any, Counter[int]] = {}
    for record in result.collected("parts"):
        (key, part), _ = record.value
        sizes.setdefault(key, Counter())[part] += 1
    return {key: [count[part] for part in range(max(count) + 1)] for key, count in sizes.items()}


@pytest.mark.parametrize("fanout", [2, 4, 7, 16])
def test_equal_elements_of_a_source_are_spread_evenly(fanout: int) -> None:
    sizes = sizes_of_parts(None, fanout)["to"]
    assert len(sizes) == fanout
    assert max(sizes) < 2 * 400 / fanout


def test_a_key_is_not_split_if_the_fanout_function_returns_less_than_two() -> None:
    sizes = sizes_of_parts(None, lambda key: 4 if key == "to" else 0)
    assert len(sizes["to"]) == 4
    assert sizes["be"] == [3]


def test_the_fanout_function_is_called_once_for_each_key_of_a_bundle_and_its_error_names_the_key() -> None:
    asked: list[str] = []

    def fanout(key: str) -> int:
        asked.append(key)
        return 4

    assert len(sizes_of_parts(None, fanout)["to"]) == 4
    assert sorted(asked) == ["be", "to"]
    with pytest.raises(dm.UserCodeError, match=r"(?s)got 'x' for the key 'be'.*\('be', 1\)"):
        sizes_of_parts(None, lambda key: 4 if key == "to" else "x")


def test_after_a_grouping_elements_are_spread_by_their_values() -> None:
    def behind(p: dm.Pipeline) -> Any:
        pairs = p | dm.Create([(number, number % 100) for number in range(400)])
        return pairs | dm.Sum.per_key() | dm.MapTuple(lambda _, value: ("hot", [value]))  # a list cannot be a key

    sizes = sizes_of_parts(behind, 4)["hot"]
    assert len(sizes) == 4
    assert all(size % 4 == 0 for size in sizes), "four elements of each value"
    assert max(sizes) < 200


# The plan -----------------------------------------------------------------------------------------------------------


def test_the_plan_in_words_shows_both_stages_of_a_fanout() -> None:
    p = dm.Pipeline()
    sessions = dm.Window.into(dm.Sessions(10)).accumulating()
    _ = p | dm.Create([("a", 1)]) | sessions | "mean" >> dm.Mean.per_key().with_hot_key_fanout(4)
    words = p.explain()
    assert "  mean/Parts: combine by Partial(Mean()) per key and window\n" in words
    assert "  mean/Total: combine by Merging(Mean()) per key and window\n      where: Sessions('10 seconds')\n" in words
    assert "when the watermark reaches the earliest new element" in words
    parts, total = words.split("mean/Total:")
    assert "how: discarding" in parts
    assert "how: accumulating" in total


def test_after_a_retracting_grouping_both_stages_of_a_fanout_retract() -> None:
    p = dm.Pipeline()
    retracting = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Always()).accumulating_and_retracting()
    totals = p | TestStream().add(1, 0, key="a") | retracting | "first" >> dm.Sum.per_key()
    _ = totals | "second" >> dm.Sum.per_key().with_hot_key_fanout(2)
    plan: Any = p.plan()
    assert plan["second/Parts"].strategy.retracting
    assert plan["second/Total"].strategy.retracting, "as the strategy of its input"


def test_a_later_grouping_inherits_the_same_strategy_with_and_without_fanout() -> None:
    p = dm.Pipeline()
    sessions = dm.Window.into(dm.Sessions(10)).trigger(dm.Repeatedly(dm.AfterCount(3))).allowed_lateness(5)
    pairs = p | dm.Create([("a", 1)]) | sessions
    direct = pairs | "direct" >> dm.Sum.per_key()
    fanned = pairs | "fanned" >> dm.Sum.per_key().with_hot_key_fanout(2)
    assert fanned.strategy == direct.strategy


def test_reopened_windows_lose_nothing_with_fanout() -> None:
    late = dm.Window.into(dm.FixedWindows(10)).late_data("duplicate_window")
    script = TestStream().bundle([(1, 0), (2, 1), (4, 2)], key="a").watermark(10).bundle([(8, 3), (16, 4)], key="a")

    def build(p: dm.Pipeline) -> None:
        _ = p | script | late | dm.Sum.per_key().with_hot_key_fanout(2) | "sums" >> dm.io.Collect()

    assert sum(record.value[1] for record in run(dm.LocalRunner(), build).collected("sums")) == 31
