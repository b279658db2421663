"""Pipelines that combine the same elements with and without fan-out, and the final answers of both."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import attrs
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import strategies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

DIRECT, FANNED = "direct", "fanned"
ENDLESS = strategies.triggers(2).map(dm.Repeatedly)


def parts_of_a(key: str) -> int:
    """Split `a` alone."""
    return 3 if key == "a" else 0


def movable_by_none(strategy: WindowingStrategy) -> WindowingStrategy:
    """Return a strategy with event times of panes that late elements do not move, since fan-out rejects others."""
    at = strategy.timestamp_combiner
    if strategy.merges:
        at = dm.TimestampCombiner.END_OF_WINDOW
    elif at is dm.TimestampCombiner.LATEST:
        at = dm.TimestampCombiner.EARLIEST
    return attrs.evolve(strategy, timestamp_combiner=at)


@st.composite
def windowings(draw: st.DrawFn, fns: Any = None) -> WindowingStrategy:
    """Draw a strategy that fan-out accepts: its triggers never finish, and panes do not have the latest event time."""
    strategy = movable_by_none(draw(strategies.windowing_strategies(fns=fns, trees=ENDLESS)))
    return attrs.evolve(strategy, retracting=strategy.accumulates and draw(st.booleans()))


class Extent(dm.CombineFn[int, Any, Any]):
    """Count, total, smallest and greatest, in Python, with a list as accumulator that is changed in place."""

    def create_accumulator(self) -> Any:
        return [0, 0, math.inf, -math.inf]

    def add_input(self, accumulator: Any, element: int) -> Any:
        return self._change(accumulator, 1, element, element, element)

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        first, *others = accumulators
        for other in others:
            first = self._change(first, *other)
        return first

    def extract_output(self, accumulator: Any) -> Any:
        return tuple(accumulator)

    @staticmethod
    def _change(accumulator: Any, count: int, total: int, least: float, most: float) -> Any:
        accumulator[0] += count
        accumulator[1] += total
        accumulator[2] = min(accumulator[2], least)
        accumulator[3] = max(accumulator[3], most)
        return accumulator


class Tally(dm.CombineFn[int, Any, Any]):
    """How often each element occurs, in Python; less than never if it is taken back in another pane."""

    def create_accumulator(self) -> Any:
        return {}

    def add_input(self, accumulator: Any, element: int) -> Any:
        return self._change(accumulator, {element: 1})

    def subtract_input(self, accumulator: Any, element: int) -> Any:
        return self._change(accumulator, {element: -1})

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        first, *others = accumulators
        for other in others:
            first = self._change(first, other)
        return first

    def extract_output(self, accumulator: Any) -> Any:
        return sorted(accumulator.items())

    @staticmethod
    def _change(accumulator: Any, by: Any) -> Any:
        for element, count in by.items():
            changed = accumulator.pop(element, 0) + count
            if changed:
                accumulator[element] = changed
        return accumulator


def of_tuple(values: Sequence[Any]) -> Any:
    """Fold the outputs of `Extent`."""
    return Extent().extract_output(Extent().merge_accumulators([[0, 0, math.inf, -math.inf], *map(list, values)]))


def greatest(values: Sequence[Any]) -> Any:
    """Fold the outputs of `Max`."""
    return max((value for value in values if value is not None), default=None)


def collected(values: Sequence[Any]) -> Any:
    """Fold lists, in any order."""
    return sorted(element for value in values for element in value)


def tallied(values: Sequence[Any]) -> Any:
    """Fold the outputs of `Tally`."""
    return Tally().extract_output(Tally().merge_accumulators([{}, *map(dict, values)]))


def two_greatest(values: Sequence[Any]) -> Any:
    """Fold the outputs of `Top`."""
    return collected(values)[-2:]


@attrs.frozen
class Combining:
    """A combiner, and how the outputs of discarding panes make up the output of all their elements.

    Attributes:
        combine: the combiner, or what is passed for one.
        fold: the function of the outputs; `None` if they do not say enough.
        arguments: further arguments.
    """

    combine: Any
    fold: Callable[[Sequence[Any]], Any] | None
    arguments: tuple[Any, ...] = ()

    def per_key(self) -> dm.CombinePerKey[Any, Any]:
        return dm.CombinePerKey(self.combine, *self.arguments)


def total_from(values: Iterable[int], start: int) -> int:
    """Add up; a function with a further argument."""
    return sum(values, start)


COMBINERS = [
    Combining(sum, sum),
    Combining(max, greatest),
    Combining(dm.Count(), sum),
    Combining(dm.Mean(), None),
    Combining(dm.Top(2), two_greatest),
    Combining(dm.ToList(), collected),
    Combining(Extent(), of_tuple),
    Combining(Tally(), tallied),
    Combining(total_from, sum, (0,)),
    Combining(dm.Together(total=dm.Sum(), mean=dm.Mean(), most=dm.Max()), None),
]


def both_ways(
    script: TestStream, windows: WindowingStrategy, combining: Combining, fanout: Any
) -> Callable[[dm.Pipeline], None]:
    """Return what builds a pipeline that combines a script directly and in parts."""

    def build(pipeline: dm.Pipeline) -> None:
        pairs = pipeline | script | dm.Window.into(windows)
        combine_both_ways(pairs, combining, fanout)

    return build


def combine_both_ways(pairs: dm.PCollection, combining: Combining, fanout: Any) -> tuple[Any, Any]:
    """Combine pairs directly and in parts, each with a sink."""
    direct = pairs | DIRECT >> combining.per_key()
    fanned = pairs | FANNED >> combining.per_key().with_hot_key_fanout(fanout)
    for name, collection in ((DIRECT, direct), (FANNED, fanned)):
        _ = collection | f"{name} panes" >> dm.io.Collect()
    return direct, fanned


def final_answers(records: Iterable[Record], strategy: WindowingStrategy, combining: Combining) -> dict[Any, Any]:
    """Return the final answer of each key and window that has not merged into another one."""
    values: defaultdict[tuple[Any, Any], list[Any]] = defaultdict(list)
    for record in records:
        key, value = record.value
        cell = (key, record.window)
        if record.is_retraction:
            assert values.pop(cell) == [value]
        elif strategy.accumulates:
            values[cell] = [value]
        else:
            values[cell].append(value)
    homes: defaultdict[tuple[Any, Any], list[Any]] = defaultdict(list)
    for (key, window), panes in values.items():
        around = [
            other
            for of, other in values
            if of == key and other.start <= window.start and window.end <= other.end and strategy.window_fn.is_merging
        ]
        home = max(around, key=lambda other: int(other.end) - int(other.start), default=window)
        if home == window or not strategy.accumulates:
            homes[key, home] += panes
    return {cell: comparable(_folded(panes, strategy, combining)) for cell, panes in homes.items()}


def _folded(panes: list[Any], strategy: WindowingStrategy, combining: Combining) -> Any:
    if strategy.accumulates:
        (value,) = panes
        return value
    assert combining.fold is not None
    return combining.fold(panes)


def comparable(value: Any) -> Any:
    """Return an output in a form that is equal if the outputs are."""
    if isinstance(value, list):
        return sorted(value)
    return repr(value)  # NaN is NaN
