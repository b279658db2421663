"""What a grouping of scripted elements comes to, all data in hand at once."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

from dataflow_model.plan.endpoints.scripts import AddStep

if TYPE_CHECKING:
    from collections.abc import Iterator

    import dataflow_model as dm
    from dataflow_model.testing import TestStream


def elements_of(script: TestStream) -> Iterator[tuple[Any, Any, dm.EventTime]]:
    """Yield key, value and event time."""
    for step in script.steps:
        if isinstance(step, AddStep):
            for (key, value), at in step.elements:
                yield key, value, at


def batch_answer(script: TestStream, fn: dm.WindowFn) -> dict[tuple[Any, Any], int]:
    """Group and sum by hand."""
    placed: defaultdict[Any, list[tuple[Any, int]]] = defaultdict(list)
    for key, value, at in elements_of(script):
        placed[key] += [(window, value) for window in fn.assign(at, (key, value))]
    sums: Counter[tuple[Any, Any]] = Counter()
    for key, placed_values in placed.items():
        windows = sorted({window for window, _ in placed_values}, key=lambda window: (window.start, window.end))
        homes = {window: window for window in windows}
        for members, merged in fn.merge(windows) if fn.is_merging else ():
            homes |= dict.fromkeys(members, merged)
        for window, value in placed_values:
            sums[key, homes[window]] += value
    return dict(sums)
