"""Rounds of pipelines with several groupings: what is grouped again is corrected, and everything else sees values."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.pipelines import plan_warnings, run, seen

Build: TypeAlias = Callable[[Any], Any]

NUMBERS = TestStream()
for number in range(6):
    NUMBERS = NUMBERS.add(2**number, 0, key="ab"[number % 2]).processing_time(number + 1)
MODES = {
    "discarding": dm.Window.into(dm.GlobalWindows()),
    "accumulating": dm.Window.into(dm.GlobalWindows()).trigger(dm.Always()).accumulating(),
}


def records(build: Build, **options: Any) -> list[Any]:
    """Return what the panes of sums by key become, in rounds of two seconds."""

    def whole(p: dm.Pipeline) -> None:
        _ = build(p | NUMBERS | "sums" >> dm.Sum.per_key()) | "out" >> dm.io.Collect()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".* have the end of time as their event time")
        kept: list[Any] = run(dm.LocalRunner(mode="microbatch", interval=2, clock=0, **options), whole).collected("out")
    assert not any(record.is_retraction for record in kept)
    return kept


def values(build: Build) -> list[Any]:
    return [record.value for record in records(build)]


def in_all(sums: Any) -> Any:
    return sums | "in all" >> dm.MapTuple(lambda _, total: ("all", total)) | "total" >> dm.Sum.per_key()


@pytest.mark.parametrize("windowing", MODES.values(), ids=MODES)
def test_each_micro_batch_of_a_second_grouping_has_the_newest_panes_of_the_first(windowing: dm.WindowInto) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = in_all(p | NUMBERS | windowing | "sums" >> dm.Sum.per_key()) | "out" >> dm.io.Collect()

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the mode does not apply
        kept = run(dm.LocalRunner(mode="microbatch", interval=2), build).collected("out")
    assert [(record.value, record.is_retraction) for record in kept] == [
        (("all", 1), False),
        (("all", 1 + 2 + 4), False),
        (("all", 1 + 2 + 4 + 8 + 16), False),
        (("all", 63), False),
    ]


def test_a_second_grouping_emits_in_the_tick_that_brings_the_panes_of_the_first() -> None:
    first, second = records(lambda sums: sums), records(in_all)
    ticks = sorted({int(record.processing_time) // 10**6 for record in first})
    assert ticks == [0, 2, 4, 6]
    assert [int(record.processing_time) // 10**6 for record in second] == [1, 3, 5, 6]


def test_sinks_see_values_where_the_next_grouping_sees_retractions() -> None:
    def build(p: dm.Pipeline) -> None:
        sums = p | NUMBERS | "sums" >> dm.Sum.per_key()
        _ = sums | "sums of keys" >> dm.io.Collect()
        doubled = sums | "double" >> dm.MapTuple(lambda key, total: (key, 2 * total))
        _ = doubled | "doubled" >> dm.io.Collect()
        _ = in_all(doubled) | "out" >> dm.io.Collect()

    result = run(dm.LocalRunner(mode="microbatch", interval=2, clock=0), build)
    alone = records(lambda sums: sums)
    assert seen(result.collected("sums of keys")) == seen(alone)
    assert [record.value for record in result.collected("doubled")] == [
        (record.value[0], 2 * record.value[1]) for record in alone
    ]
    assert [record.value for record in result.collected("out")][-1] == ("all", 126)


def test_a_retracting_strategy_retracts_in_micro_batch_mode() -> None:
    def build(p: dm.Pipeline) -> None:
        windowing = dm.Window.into(dm.GlobalWindows()).accumulating_and_retracting()
        _ = p | NUMBERS | windowing | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()

    kept = run(dm.LocalRunner(mode="microbatch", interval=2), build).collected("out")
    signed = [(-1 if record.is_retraction else 1) * record.value[1] for record in kept if record.value[0] == "a"]
    assert signed == [1, -1, 5, -5, 21]


class Running(dm.DoFn):
    """Sums what it is given: values, or values and retractions."""

    total: Any = dm.ValueStateSpec(default=0)

    def process(self, pair: Any, total: dm.ValueState[Any]) -> Any:
        total.write(total.read() + pair[1])
        yield pair[0], total.read()


FINAL: dict[str, tuple[Build, Any]] = {
    "distinct sums": (lambda sums: sums | dm.Values() | dm.Distinct() | dm.Count.globally(), 2),
    "a memoised function": (
        lambda sums: in_all(sums | dm.Map(lambda pair: (pair, uuid.uuid4())).retractable("memoised") | dm.Keys()),
        ("all", 63),
    ),
    "a reshuffle": (lambda sums: in_all(sums | dm.Reshuffle()), ("all", 63)),
    "other windows": (lambda sums: in_all(sums | dm.Window.into(dm.SlidingWindows(5, 5))), ("all", 63)),
    "the first panes, which a function chooses": (
        lambda sums: in_all(sums | dm.Filter(lambda _, pane: pane.is_first)),
        ("all", 1 + 2),
    ),
    "the first of each key": (lambda sums: in_all(sums | dm.Deduplicate(lambda pair: pair[0], horizon=9)), ("all", 3)),
    "the whole output of a stateful function": (
        lambda sums: sums | dm.ParDo(Running()),
        ("b", 2 + (2 + 8) + (2 + 8 + 32)),
    ),
    "a side input": (
        lambda sums: (
            sums.pipeline
            | "late" >> TestStream().processing_time(9).watermark_to_infinity().add(0, 0)
            | dm.Map(lambda _, sums: sums, sums=dm.AsDict(sums))
        ),
        {"a": 21, "b": 42},
    ),
}


@pytest.mark.parametrize("name", FINAL)
def test_transforms_after_a_grouping_have_the_correct_final_result_in_micro_batch_mode(name: str) -> None:
    build, answer = FINAL[name]
    assert values(build)[-1] == answer


def test_distinct_emits_each_element_once_in_micro_batch_mode() -> None:
    def distinct(windowing: dm.WindowInto) -> list[tuple[str, bool]]:
        def build(p: dm.Pipeline) -> None:
            _ = p | NUMBERS | dm.Keys() | windowing | dm.Distinct() | "out" >> dm.io.Collect()

        kept = run(dm.LocalRunner(mode="microbatch", interval=2), build).collected("out")
        return [(record.value, record.is_retraction) for record in kept]

    assert distinct(MODES["discarding"]) == distinct(MODES["accumulating"]) == [("a", False), ("b", False)]
    standing = distinct(MODES["accumulating"].accumulating_and_retracting())
    assert [key for key, _ in standing[:3]] == ["a", "a", "a"]
    for key in "ab":
        assert sum(-1 if is_retraction else 1 for shown, is_retraction in standing if shown == key) == 1


def test_transforms_that_cannot_be_corrected_are_warned_about_in_micro_batch_mode() -> None:
    def between(transform: Any) -> list[str]:
        p = dm.Pipeline(runner=dm.LocalRunner(mode="microbatch", interval=2))
        _ = in_all(p | NUMBERS | "sums" >> dm.Sum.per_key() | "between" >> transform)
        return [message for message in plan_warnings(p) if "have the end of time as their event time" not in message]

    for transform in (dm.Map(lambda pair: pair).retractable(False), dm.Window.into(dm.Sessions(5))):
        (message,) = between(transform)
        assert message.startswith("'total' groups the accumulating panes of 'sums'. Under Repeatedly(AtPeriod(")
        assert message.endswith(
            "Hint: use mode='streaming', or between the two only functions that retractions may pass through, "
            "and windows that do not merge"
        )
    assert between(dm.Map(lambda pair: pair)) == []
