"""Triggers and values that are nested deep: they work up to a limit, and beyond it an error names it."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, PlanError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DEEPEST = 100

COMPOSITES: dict[str, Callable[[dm.Trigger], dm.Trigger]] = {
    "Repeatedly": dm.Repeatedly,
    "RepeatCount": lambda trigger: dm.RepeatCount(trigger, 2),
    "RepeatUntil": lambda trigger: dm.RepeatUntil(dm.Never(), trigger),
    "OrFinally": lambda trigger: trigger.or_finally(dm.AfterCount(9)),
    "AfterAny": lambda trigger: dm.AfterAny(trigger, trigger),
    "AfterAll": lambda trigger: dm.AfterAll(dm.AfterCount(1), trigger),
    "AfterEach": dm.AfterEach,
}


def nested(make: Callable[[dm.Trigger], dm.Trigger], depth: int) -> dm.Trigger:
    trigger: dm.Trigger = dm.AfterCount(1)
    for _ in range(depth - 1):
        trigger = make(trigger)
    return trigger


@pytest.mark.parametrize("name", COMPOSITES)
def test_triggers_may_be_nested_a_hundred_deep_and_no_deeper(name: str) -> None:
    trigger = nested(COMPOSITES[name], DEEPEST)
    with pytest.raises(
        InvalidArgument, match=r"triggers may be nested at most 100 deep, and `.*` is nested deeper\nHint"
    ):
        COMPOSITES[name](trigger)
    if name != "AfterAny":  # its parts are the same trigger twice, so its text would have 2^100 parts
        assert repr(trigger)
        assert pickle.loads(pickle.dumps(trigger)) == trigger


def test_triggers_that_are_nested_a_hundred_deep_run() -> None:
    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        _ = (
            p
            | dm.Create([("a", 1)] * 3)
            | dm.Window.into(dm.FixedWindows(10)).trigger(nested(dm.Repeatedly, DEEPEST)).discarding()
            | dm.Sum.per_key()
            | "out" >> dm.io.Collect()
        )
    assert [record.value for record in p.result.collected("out")] == [("a", 1)] * 3


@pytest.mark.parametrize("options", [{"workers": 2}, {"checkpoint": "checkpoint"}], ids=["workers", "stream"])
def test_a_value_that_is_nested_too_deep_for_pickle_is_reported_with_that_reason(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    def deep(_: int) -> Any:
        value: Any = 1
        for _ in range(1_000):
            value = [value]
        return 1, value

    if "checkpoint" in options:
        options = {"checkpoint": tmp_path}
    p = dm.Pipeline(runner=dm.LocalRunner(**options))
    _ = p | dm.Create([1]) | dm.Map(deep) | dm.GroupByKey() | "out" >> dm.io.Collect()
    with pytest.raises((InvalidType, PlanError), match=r"RecursionError(?s:.*)\nHint: the value is nested too deep"):
        p.run().wait_until_finish()
