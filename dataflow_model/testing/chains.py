"""Chains of groupings as values, which the strategy `chains` draws and `prove` or a property test runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.logical.strategy import LateData
from dataflow_model.transforms import CombinePerKey, GroupByKey, MapTuple, Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.transforms import PCollection, WindowInto


def by_remainder(key: Any, value: Any) -> tuple[Any, Any]:
    """Key a number by its remainder modulo three, so that a value and its refinement may get different keys.

    Example:
        >>> by_remainder("a", 5)
        (2, 5)
    """
    del key
    return value % 3, value


def all_together(key: Any, value: Any) -> tuple[Any, Any]:
    """Give all values the same key.

    Example:
        >>> all_together("a", 5)
        ('all', 5)
    """
    del key
    return "all", value


@attrs.frozen
class ChainedGrouping:
    """One grouping of a chain.

    Attributes:
        windowing: the windowing strategy; `None` inherits that of the input.
        combine: a combiner; with `None` a pane's value is the list of its elements.
        rekey: a function from the key and value of the input to the pair to group; `None` keeps the pair.
        keeps_windows: whether elements keep their windows, so that only the rest of `windowing` is applied.
    """

    windowing: WindowingStrategy | None = None
    combine: CombineFn[Any, Any, Any] | None = None
    rekey: Callable[[Any, Any], tuple[Any, Any]] | None = None
    keeps_windows: bool = False

    def apply(self, pcoll: PCollection, label: str) -> PCollection:
        """Apply the grouping; the labels of its parts start with `label`."""
        if self.rekey is not None:
            pcoll = pcoll | f"{label} keys" >> MapTuple(self.rekey)
        if self.windowing is not None:
            windows = _when_and_how(self.windowing) if self.keeps_windows else Window.into(self.windowing)
            pcoll = pcoll | f"{label} windows" >> windows
        grouped: PCollection = pcoll | label >> (GroupByKey() if self.combine is None else CombinePerKey(self.combine))
        return grouped


@attrs.frozen
class Chain:
    """Several groupings, each over the panes of the one before.

    Calling a chain with a collection of pairs applies the groupings and returns the panes of the last one, so it can be
    passed to `prove` as a pipeline.

    Attributes:
        groupings: the groupings, in order.

    Example:
        >>> import dataflow_model as dm
        >>> from dataflow_model.testing import TestStream
        >>> minutes, hours = dm.WindowingStrategy(dm.FixedWindows(60)), dm.WindowingStrategy(dm.FixedWindows(3_600))
        >>> chain = Chain((ChainedGrouping(minutes, dm.Sum()), ChainedGrouping(hours, dm.Max())))
        >>> with dm.Pipeline() as p:
        ...     _ = chain(p | TestStream().add(3, 0, key="a").add(4, 1, key="a").add(5, 70, key="a")) | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [('a', 7)]
    """

    groupings: tuple[ChainedGrouping, ...]

    @property
    def labels(self) -> list[str]:
        """The labels of the groupings: `"grouping 1"` and so on."""
        return [f"grouping {number}" for number in range(1, len(self.groupings) + 1)]

    def __call__(self, pcoll: PCollection) -> PCollection:
        """Apply the groupings."""
        for label, grouping in zip(self.labels, self.groupings, strict=True):
            pcoll = grouping.apply(pcoll, label)
        return pcoll


def _when_and_how(strategy: WindowingStrategy) -> WindowInto:
    """Return the transform that applies a strategy except for its windows."""
    return (
        Window.trigger(strategy.trigger, may_lose_data=strategy.may_lose_data)
        .allowed_lateness(strategy.allowed_lateness)
        .on_time(strategy.on_time)
        .closing(strategy.closing)
        .late_data(strategy.late_data or LateData.DROP)
        .timestamp_combiner(strategy.timestamp_combiner)
        .accumulation(strategy.accumulation_mode, retracting=strategy.retracting)
    )
