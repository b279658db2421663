"""A case on both sides: what a runner gives, what the specification says."""

from __future__ import annotations

import itertools
import warnings
from typing import TYPE_CHECKING, Any

import attrs

import dataflow_model as dm
from dataflow_model.testing import TestStream, panes_of
from tests.support.spec import spec
from tests.support.spec.drawing import rekey

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.logical.runner import Runner
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from tests.support.spec.drawing import Case

DROPPED = ("dropped_because_late", "dropped_because_closed", "dropped_retractions")


@attrs.frozen
class Outcome:
    """Panes in emission order, and what each grouping has dropped."""

    panes: list[dm.Pane]
    dropped: list[dict[str, int]]


def on_runner(case: Case, runner: Runner | None = None) -> Outcome:
    pipeline = dm.Pipeline(runner=runner or dm.LocalRunner())
    labels = ["first", "second", "third"][: len(case.strategies)]
    current: Any = pipeline | "script" >> case.script
    for label, strategy in zip(labels, case.strategies, strict=True):
        current = current if label == "first" else current | f"{label} pairs" >> dm.Map(rekey)
        group: Any = dm.GroupByKey() if case.combine is None else dm.CombinePerKey(case.combine)
        windowing = dm.Window.into(strategy) if label == "first" or case.assigns else changed(strategy)
        current = current | f"{label} windows" >> windowing | label >> group
    _ = current | "panes" >> dm.io.Collect()
    with warnings.catch_warnings():
        # Drawn strategies group accumulating panes as well; the specification says what that gives, and no one needs
        # to be told here that it is seldom meant.
        warnings.simplefilter("ignore", dm.PlanWarning)
        result = pipeline.run(until="drained")
    result.wait_until_finish()
    counters = result.metrics()
    dropped = [{name: counters.get(label, {}).get(name, 0) for name in DROPPED} for label in labels]
    return Outcome([comparable(pane) for pane in panes_of(result.collected("panes"))], dropped)


def changed(strategy: WindowingStrategy) -> dm.WindowInto:
    """Return the when and how of a strategy, over the windows that there are."""
    windowing = dm.Window.trigger(strategy.trigger, may_lose_data=True).allowed_lateness(strategy.allowed_lateness)
    windowing = windowing.on_time(strategy.on_time).closing(strategy.closing)
    windowing = windowing.late_data(strategy.late_data or dm.LateData.DROP)
    windowing = windowing.timestamp_combiner(strategy.timestamp_combiner)
    return windowing.accumulation(strategy.accumulation_mode, retracting=strategy.retracting)


def by_specification(case: Case, kind: Callable[..., spec.Grouping] = spec.Grouping) -> Outcome:
    panes: list[dm.Pane] = []
    groupings = [kind(strategy, case.combine, panes.extend) for strategy in case.strategies]
    for before, after in itertools.pairwise(groupings):
        before.emit = spec.link(after, lambda *pair: rekey(pair), assigns=case.assigns)
    spec.run(case.script, groupings)
    dropped = [{name: grouping.dropped[name] for name in DROPPED} for grouping in groupings]
    return Outcome([comparable(pane) for pane in panes], dropped)


def comparable(pane: dm.Pane) -> dm.Pane:
    """Return the pane; a list in the order of its values, as there is none in which windows merge."""
    return attrs.evolve(pane, value=sorted(pane.value)) if isinstance(pane.value, list) else pane


def smallest(case: Case) -> Case:
    """Return a case that still differs and has no step to spare."""
    index = 0
    while index < len(case.script.steps):
        steps = case.script.steps[:index] + case.script.steps[index + 1 :]
        shorter = attrs.evolve(case, script=TestStream(steps))
        case, index = (shorter, index) if differs(shorter) else (case, index + 1)
    return case


def differs(case: Case) -> bool:
    return on_runner(case) != by_specification(case)
