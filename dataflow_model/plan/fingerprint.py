"""The fingerprint of a plan: what durable state depends on, as lines of text by label."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.nodes import (
    AssignTimestamps,
    AssignWindows,
    Flatten,
    GroupByKeyAndWindow,
    Node,
    ParDo,
    Read,
    Reshuffle,
    ToPairs,
    Write,
)
from dataflow_model.time import duration_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.plan.graph import Plan

__all__ = ["differences", "fingerprint"]


def fingerprint(plan: Plan) -> dict[str, str]:
    """Return what each transform contributes: labels, edges, window functions, triggers, modes; not function bodies.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key()
        >>> fingerprint(p.plan())["Sum.PerKey"][:77]
        'grouping of Create.main with Sum under GlobalWindows(), DefaultTrigger(), cle'
    """
    return {node.label: _line(node) for node in plan.nodes}


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return how two fingerprints differ, a line for each label.

    Example:
        >>> differences({"Sum": "grouping"}, {"Count": "grouping"})
        ["'Count' is new: grouping", "'Sum' is gone; it was: grouping"]
    """
    lines = [f"{label!r} is new: {line}" for label, line in after.items() if label not in before]
    lines += [f"{label!r} is gone; it was: {line}" for label, line in before.items() if label not in after]
    lines += [
        f"{label!r} was: {before[label]}; it is: {line}"
        for label, line in after.items()
        if label in before and before[label] != line
    ]
    return lines


def _line(node: Node) -> str:
    reads = " and ".join(f"{ref.label}.{ref.tag}" for ref in node.inputs)
    match node:
        case Read():
            source = node.source
            origins = f", {source.watermark_origins.describe()}".removesuffix(", ")
            return (
                f"source {type(source).__name__}, event time {source.event_time}, "
                f"clock {source.processing_time or 'wall'}, watermark {source.watermark!r}"
                f"{origins}"
            )
        case GroupByKeyAndWindow():
            strategy = node.strategy
            return (
                f"grouping of {reads} with {type(node.combine).__name__} under {strategy.window_fn!r}, "
                f"{strategy.trigger!r}, {strategy.accumulation_mode.value}"
                f"{' and retracting' if strategy.retracting else ''}, "
                f"lateness {duration_text(strategy.allowed_lateness)}, "
                f"on time {strategy.on_time.value}, closing {strategy.closing.value}, "
                f"late data {strategy.late_data.value if strategy.late_data else 'default'}, "
                f"timestamp {strategy.timestamp_combiner.value}"
            )
        case AssignWindows():
            return f"windows for {reads}: {node.strategy.window_fn!r}" if node.assigns else f"trigger for {reads}"
        case ParDo() if node.is_stateful:
            return f"stateful ParDo of {reads} with {node.declaration.describe()}"
        case ParDo() | ToPairs() | AssignTimestamps() | Flatten() | Reshuffle():
            return f"{type(node).__name__} of {reads}"
        case Write():
            return f"sink {type(node.sink).__name__} of {reads}"
