"""Retractions through the transforms between groupings, and what each kind of grouping makes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.functions.combine import GroupFn
from dataflow_model.runners.engine.functions.uncombining import MultisetFn
from dataflow_model.testing import TestStream, strategies
from tests.support.retractions.accounts import Account, batch, elements_of, net, run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

EACH = dm.Repeatedly(dm.AfterCount(1))
HOURLY = dm.Window.into(dm.FixedWindows("1 hour")).on_time("fire_if_non_empty")
RETRACTING = HOURLY.trigger(EACH).accumulating_and_retracting()
SCRIPTS = strategies.test_streams(keys=("a", "b", "c"), max_steps=12)


def counted(p: dm.Pipeline, script: TestStream, name: str = "") -> Any:
    """Return sums that change with every element."""
    return p | f"{name}script" >> script | f"{name}windows" >> RETRACTING | f"{name}sums" >> dm.Sum.per_key()


def collected(build: Callable[[dm.Pipeline], Any], label: str = "out") -> list[Any]:
    """Return (is retraction, value) of what a sink has received."""

    def with_sink(p: dm.Pipeline) -> None:
        _ = build(p) | label >> dm.io.Collect()

    return [(record.is_retraction, record.value) for record in run(with_sink).collected(label)]


def sums_of(script: TestStream) -> dict[str, int]:
    """Return the sums that stand in the end."""
    groups = batch([(key, value, dm.event_time(0)) for key, value, _ in elements_of(script)], dm.GlobalWindows())
    return {key: sum(values) for key, _, values in groups}


TWICE = TestStream().add(1, 0, key="a").add(2, 0, key="a")


# Element-wise.


def test_outputs_of_a_function_for_a_retraction_are_retractions() -> None:
    assert collected(lambda p: counted(p, TWICE) | dm.MapTuple(lambda key, n: f"{key}{n}")) == [
        (False, "a1"),
        (True, "a1"),
        (False, "a3"),
    ]


class AtEnd(dm.DoFn):
    """Emits the elements of a bundle, and how many it has, when it ends."""

    def start_bundle(self) -> None:
        self.elements: list[Any] = []

    def process(self, element: Any) -> None:
        self.elements.append(element)

    def finish_bundle(self) -> Any:
        return [(*element, len(self.elements)) for element in self.elements]


@given(SCRIPTS)
def test_where_elements_may_be_retracted_each_is_a_bundle_of_a_function_that_emits_at_its_end(
    script: TestStream,
) -> None:
    def grouped(function: Any) -> tuple[Callable[[dm.Pipeline], Any], Callable[[dm.Pipeline], Any]]:
        def build(p: dm.Pipeline) -> Any:
            return counted(p, script) | "function" >> function()

        def build_grouped(p: dm.Pipeline) -> Any:
            values = build(p) | dm.MapTuple(lambda key, value, number: (number, value))
            return values | "again" >> RETRACTING | dm.Sum.per_key()

        return build, build_grouped

    at_end = [collected(build) for build in grouped(lambda: dm.ParDo(AtEnd()))]
    assert at_end == [collected(build) for build in grouped(lambda: dm.Map(lambda pair: (*pair, 1)))]


def test_side_outputs_partitions_and_dead_letters_carry_retractions() -> None:
    def split(pair: tuple[str, int]) -> Iterator[Any]:
        yield pair
        if pair[1] == 1:
            yield dm.TaggedOutput("ones", pair[0])

    def fail_at_one(pair: tuple[str, int]) -> Any:
        if pair[1] == 1:
            raise ValueError("one")
        return pair

    def build(p: dm.Pipeline) -> None:
        sums = counted(p, TWICE)
        _ = (sums | dm.FlatMap(split).with_outputs("ones", main="all")).ones | "ones" >> dm.io.Collect()
        parts = sums | dm.Partition(lambda pair, n: pair[1] % n, 2)
        _ = parts[0] | "even" >> dm.io.Collect()
        _ = parts[1] | "odd" >> dm.io.Collect()
        good, dead = sums | "fails" >> dm.Map(fail_at_one).with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = dead | "dead" >> dm.io.Collect()

    result = run(build)
    shown = {
        label: [record.is_retraction for record in result.collected(label)]
        for label in ("ones", "even", "odd", "good", "dead")
    }
    assert shown == {
        "ones": [False, True],
        "even": [],
        "odd": [False, True, False],
        "good": [False],
        "dead": [False, True],
    }


def test_a_function_can_ask_whether_its_element_is_a_retraction() -> None:
    def tell(pair: tuple[str, int], is_retraction: bool) -> tuple[int, bool]:
        return pair[1], is_retraction

    assert collected(lambda p: counted(p, TWICE) | dm.Map(tell)) == [
        (False, (1, False)),
        (True, (1, True)),
        (False, (3, False)),
    ]


def test_a_reshuffle_keeps_retractions() -> None:
    assert [back for back, _ in collected(lambda p: counted(p, TWICE) | dm.Reshuffle())] == [False, True, False]


# Groupings.


@given(SCRIPTS, SCRIPTS)
def test_flattening_a_retracting_and_a_plain_collection_ends_with_the_values_of_both(
    script: TestStream, plain: TestStream
) -> None:
    note(f"{script.steps}\n{plain.steps}")

    def build(p: dm.Pipeline) -> None:
        sums = counted(p, script)
        both = (sums, p | "plain" >> plain | "plain windows" >> RETRACTING) | dm.Flatten()
        again = both | dm.MapTuple(lambda key, value: ("all", (key, value))) | "again" >> dm.Window.into(FOREVER)
        _ = again | dm.ToList.per_key() | "out" >> dm.io.Collect()

    expected = [*sums_of(script).items(), *((key, value) for key, value, _ in elements_of(plain))]
    standing = Account().book(run(build).collected("out")).values()
    assert sorted(value for _, values in standing for value in values) == sorted(expected)


FOREVER = (
    dm.Window.into(dm.GlobalWindows()).trigger(EACH).on_time("fire_if_non_empty").accumulating_and_retracting().strategy
)


@given(SCRIPTS, SCRIPTS)
def test_cogroupbykey_removes_retracted_values_of_each_input(left: TestStream, right: TestStream) -> None:
    def build(p: dm.Pipeline) -> None:
        sides = {
            name: counted(p, script, f"{name} ") | f"{name} again" >> dm.Window.into(FOREVER)
            for name, script in (("left", left), ("right", right))
        }
        _ = sides | dm.CoGroupByKey() | "out" >> dm.io.Collect()

    actual = dict(Account().book(run(build).collected("out")).values())
    keys = sums_of(left).keys() | sums_of(right).keys()
    assert actual == {
        key: {
            name: [sums_of(script)[key]] if key in sums_of(script) else []
            for name, script in (("left", left), ("right", right))
        }
        for key in keys
    }


def test_cogroupbykey_receives_an_element_before_the_sum_that_it_changes() -> None:
    def build(p: dm.Pipeline) -> Any:
        each = RETRACTING.trigger(dm.Always())  # behind a grouping too
        elements = p | TestStream().bundle([(1, 0), (2, 0)], key="a") | each
        return {"plain": elements, "sums": elements | dm.Sum.per_key()} | dm.CoGroupByKey()

    actual = [("-" if back else "+", value["plain"], value["sums"]) for back, (_, value) in collected(build)]
    assert actual == [
        ("+", [1], []),
        ("-", [1], []),
        ("+", [1], [1]),
        ("-", [1], [1]),
        ("+", [1, 2], [1]),
        ("-", [1, 2], [1]),
        ("+", [1, 2], [3]),
    ]


def last_value(key: Any, value: Any) -> tuple[str, Any]:
    del key
    return "all", value


@pytest.mark.parametrize(
    ("combine", "expected"),
    [
        (dm.Sum(), 3 + 4),
        (dm.Count(), 2),
        (dm.Mean(), 3.5),
        (dm.Max(), 4),
        (dm.Min(), 3),
        (dm.Top(1), [4]),
        (dm.Top(1, reverse=True), [3]),
        (dm.ToList(), [4, 3]),
        (dm.ToSet(), {3, 4}),
        (dm.Together(n=dm.Count(), most=dm.Max()), (2, 4)),
        (dm.Together(n=dm.Count(), total=dm.Sum()), (2, 7)),
    ],
    ids=repr,
)
def test_each_combiner_removes_retracted_inputs(combine: Any, expected: Any) -> None:
    script = TestStream().add(1, 0, key="a").add(4, 0, key="b").add(2, 0, key="a")
    actual = collected(lambda p: counted(p, script) | dm.MapTuple(last_value) | dm.CombinePerKey(combine))
    assert actual[-1] == (False, ("all", expected))


@pytest.mark.parametrize("trigger", [EACH, dm.Repeatedly(dm.AfterProcessingTime(0)), dm.DefaultTrigger()], ids=repr)
@given(script=SCRIPTS)
def test_distinct_keeps_an_element_while_any_equal_one_remains(trigger: dm.Trigger, script: TestStream) -> None:
    def build(p: dm.Pipeline) -> None:
        odd = counted(p, script) | dm.MapTuple(lambda _, value: value % 3)
        again = odd | "again" >> dm.Window.trigger(trigger)
        _ = again | "distinct" >> dm.Distinct() | "out" >> dm.io.Collect()
        _ = again | "counts" >> dm.Count.per_element() | "counted" >> dm.io.Collect()

    result = run(build)
    actual: dict[Any, set[int]] = {}
    hours = dm.FixedWindows("1 hour")
    for _, window, values in batch(elements_of(script), hours):
        actual.setdefault(window, set()).add(sum(values) % 3)
    standing = Account().book(result.collected("out")).standing
    assert sorted((record.window.start, record.value) for record in standing) == sorted(
        (window.start, value) for window, values in actual.items() for value in values
    )
    counts = Account().book(result.collected("counted")).by_window()
    assert {place[0] for place in counts} == {value for values in actual.values() for value in values}


def test_distinct_emits_an_element_again_after_it_was_retracted_and_readded() -> None:
    script = TestStream().add(1, 0, key="a").add(1, 0, key="a").add(-1, 0, key="a")
    actual = collected(lambda p: counted(p, script) | dm.Values() | dm.Distinct())
    assert net_of(actual) == [1]


def net_of(shown: list[tuple[bool, Any]]) -> list[Any]:
    standing: list[Any] = []
    for back, value in shown:
        if back:
            standing.remove(value)
        else:
            standing.append(value)
    return sorted(standing)


def test_a_counting_trigger_counts_a_retraction_and_its_replacement_as_one_element() -> None:
    script = TestStream().add(1, 0, key="a").add(1, 0, key="b").add(1, 0, key="a").add(1, 0, key="b")

    def build(p: dm.Pipeline) -> Any:
        pairs = counted(p, script) | dm.MapTuple(last_value)
        twos = pairs | "twos" >> dm.Window.trigger(dm.Repeatedly(dm.AfterCount(2)))
        return twos | "total" >> dm.Sum.per_key()

    assert collected(build) == [(False, ("all", 2)), (True, ("all", 2)), (False, ("all", 4))]


def test_a_value_that_moves_to_another_key_is_retracted_under_its_old_key() -> None:
    def build(p: dm.Pipeline) -> Any:
        moved = counted(p, TWICE) | dm.MapTuple(lambda key, value: (value, key))
        return moved | "again" >> dm.Window.trigger(dm.Repeatedly(dm.AfterProcessingTime(0))) | dm.ToList.per_key()

    assert net_of(collected(build)) == [(3, ["a"])]


def test_a_value_that_moves_to_another_window_is_retracted_in_its_old_window() -> None:
    script = TestStream().add(1, 0, key="a").add(2, 5, key="a")
    sessions = dm.Window.into(dm.Sessions(10)).trigger(EACH).accumulating_and_retracting()
    short = dm.Window.into(dm.FixedWindows(12)).trigger(dm.Repeatedly(dm.AfterProcessingTime(0)))

    def build(p: dm.Pipeline) -> None:
        sums = p | script | sessions | dm.Sum.per_key()
        _ = sums | "short" >> short.accumulating_and_retracting() | dm.Count.per_element() | "out" >> dm.io.Collect()

    records = run(build).collected("out")
    standing = Account().book(records).standing
    assert [(record.value, int(record.window.start)) for record in standing] == [((("a", 3), 1), 12_000_000)]


@pytest.mark.parametrize("mode", ["accumulating", "discarding"])
def test_a_grouping_that_does_not_retract_still_applies_retractions(mode: str) -> None:
    def build(p: dm.Pipeline) -> Any:
        pairs = counted(p, TWICE) | dm.MapTuple(last_value)
        windowing = dm.Window.into(dm.FixedWindows("1 hour")).trigger(EACH)
        return pairs | "again" >> getattr(windowing, mode)() | "total" >> dm.Sum.per_key()

    # Discarding panes hold what has changed: 3 in the place of 1.
    second = 3 if mode == "accumulating" else 2
    assert collected(build) == [(False, ("all", 1)), (False, ("all", second))]


@pytest.mark.parametrize(
    ("value", "equal_value"),
    [
        ({0, 8}, {8, 0}),
        ([{"a": 1, "b": 2}], [{"b": 2, "a": 1}]),
        (("k", ["x", "x"]), ("k", ["x", str(b"x", "ascii")])),
        ((float("nan"), [1]), (-float("-nan"), [1])),
    ],
)
def test_equal_values_are_the_same_whatever_their_history(value: Any, equal_value: Any) -> None:
    kept = MultisetFn(GroupFn())
    assert kept.extract_output(kept.subtract_input(kept.add_input(kept.create_accumulator(), value), equal_value)) == []


@given(st.lists(st.tuples(st.sampled_from("ab"), st.sets(st.sampled_from(["x", "y", "zz", "longer"]))), max_size=12))
def test_values_that_are_sets_lists_and_dicts_can_be_retracted(elements: list[tuple[str, set[str]]]) -> None:
    script = TestStream()
    for key, members in elements:
        script = script.add(tuple(sorted(members)), 0, key=key)

    def build(p: dm.Pipeline) -> None:
        flat = p | script | RETRACTING | dm.FlatMapTuple(lambda key, members: [(key, member) for member in members])
        sets = flat | "sets" >> dm.ToSet.per_key()
        wrapped = sets | dm.MapTuple(lambda _, members: ("all", {"of": [frozenset(members), set(members)]}))
        _ = wrapped | "all" >> dm.GroupByKey() | "out" >> dm.io.Collect()

    groups: dict[str, set[str]] = {}
    for key, members in elements:
        if members:
            groups.setdefault(key, set()).update(members)
    standing = net(run(build).collected("out"))
    actual = [entry["of"][1] for _, entries in standing for entry in entries]
    assert sorted(map(sorted, actual)) == sorted(map(sorted, groups.values()))
