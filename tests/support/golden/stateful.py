"""Drawn pipelines with a `DoFn` that keeps state of every kind and sets timers in both domains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep
from dataflow_model.testing import TestStream
from tests.support.golden.parts import collect, long_script
from tests.support.state.actor import Actor, Mourner, Sorter
from tests.support.state.drawing import fitting

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.golden.parts import Built
    from tests.support.spec.drawing import Pick

__all__ = ["stateful"]

_FNS = [dm.FixedWindows(4), dm.FixedWindows(20), dm.SlidingWindows(4, 2), dm.GlobalWindows()]
_TAGS = ["stop", "again", "back", "both"]


def stateful(pick: Pick) -> Built:
    """Draw elements that say what the function does, its windows, and a grouping of what it emits."""
    stream, kind = _acting(pick, long_script(pick)), pick([Actor, Actor, Mourner, Sorter])
    strategy = fitting(kind, dm.WindowingStrategy(pick(_FNS), allowed_lateness=dm.duration(pick([10, 15, 40]))))
    size, lateness = pick([3, 10]), pick([0, 50])
    drops = pick([True, False])

    def build(p: dm.Pipeline, folder: Path) -> None:
        del folder
        windowed = p | "script" >> stream | "windows" >> dm.Window.into(strategy)
        act: Any = dm.ParDo(kind())
        if drops:
            acted, dropped = windowed | "act" >> act.with_dropped_output()
            collect(dropped, "dropped")
        else:
            acted = windowed | "act" >> act
        collect(acted, "out")
        sized = (
            acted
            | "kinds" >> dm.Map(_kind_and_one)
            | "sizes" >> dm.Window.into(dm.FixedWindows(size)).allowed_lateness(lateness)
        )
        collect(sized | "counts" >> dm.Count.per_key(), "panes")

    return (stream.steps, kind.__name__, strategy, size, lateness, drops), build


def _acting(pick: Pick, script: TestStream) -> TestStream:
    """Put actions in the place of the values of a script."""
    steps: list[Any] = []
    for step in script.steps:
        if isinstance(step, AddStep):
            elements = [((key, _actions(pick)), at) for (key, _), at in step.elements]
            steps.append(attrs.evolve(step, elements=tuple(elements)))
        else:
            steps.append(step)
    return TestStream(steps)


def _actions(pick: Pick) -> tuple[Any, ...]:
    return tuple(_action(pick) for _ in range(pick(range(5))))


def _action(pick: Pick) -> tuple[Any, ...]:
    match pick(["keep", "keep", "wipe", "event", "held", "clock", "clear"]):
        case "keep":
            return "keep", pick(range(10))
        case "event":
            return "event", pick(range(-3, 5)), pick(_TAGS), None
        case "held":
            delay = pick(range(5))
            return "event", delay, pick(_TAGS), pick(range(delay + 1))
        case "clock":
            return "clock", max(pick(range(-2, 10)), 0), pick(_TAGS)
        case "clear":
            return "clear", pick(["event", "clock"]), pick(_TAGS)
        case kind:
            return (kind,)


def _kind_and_one(value: Any) -> tuple[str, int]:
    return value[0], 1
