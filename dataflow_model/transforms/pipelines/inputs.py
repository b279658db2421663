"""The common windowing strategy of several input collections."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import Duration, duration_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.transforms.pipelines.pcollection import PCollection
    from dataflow_model.triggers import Trigger
    from dataflow_model.windowing import WindowFn

_AS_VALUES: Final = (
    "decorate the class of the window function with @attrs.frozen, so that two with equal fields are equal; or pass "
    "one and the same window function to each dm.Window.into(…)"
)
_PARTS: Final = (
    "allowed_lateness",
    "accumulation_mode",
    "retracting",
    "timestamp_combiner",
    "on_time",
    "closing",
    "late_data",
)
"""What must be the same for all inputs, besides windows and triggers."""


def common_strategy(inputs: Sequence[PCollection], label: str) -> WindowingStrategy:
    """Return the windowing strategy of several merged collections: that of each, with the common trigger.

    Args:
        inputs: the collections, at least one.
        label: the transform that puts them together, for errors.

    Raises:
        InvalidArgument: when window functions, modes or lateness differ, or triggers of which neither is the other's
            continuation.
    """
    first = inputs[0]
    holding = first
    triggered: list[PCollection] = []  # one for each trigger
    for member in inputs:
        if not _windowed_alike(first.strategy, member.strategy):
            raise InvalidArgument(
                f"{label!r} merges collections that are windowed differently: "
                f"{first.ref.label!r} by {_windowed(first)}, {member.ref.label!r} by {_windowed(member)}",
                hint=_AS_VALUES
                if _lack_equality(first.strategy.window_fn, member.strategy.window_fn)
                else "apply the same dm.Window.into(…) to each of them first",
            )
        if all(other.strategy.trigger != member.strategy.trigger for other in triggered):
            triggered.append(member)
    for earlier, other in itertools.combinations(triggered, 2):
        if not (_continues(earlier, other) or _continues(other, earlier)):
            raise InvalidArgument(
                f"{label!r} merges collections that are triggered differently: "
                f"{earlier.ref.label!r} by {earlier.strategy.trigger!r}, "
                f"{other.ref.label!r} by {other.strategy.trigger!r}",
                hint="apply the same dm.Window.trigger(…) to each of them first",
            )
    for member in inputs:
        for name in _PARTS:
            if getattr(first.strategy, name) != getattr(member.strategy, name):
                raise InvalidArgument(
                    f"{label!r} merges collections with different `{name}`: "
                    f"{first.ref.label!r} has {_part(first, name)}, {member.ref.label!r} has {_part(member, name)}",
                    hint="apply the same dm.Window.into(…) to each of them first, or dm.Window.trigger(…) with the "
                    "same settings",
                )
    for member in triggered:
        if _continues(member, holding):
            holding = member
    strategy = holding.strategy
    return attrs.evolve(first.strategy, trigger=strategy.trigger, may_lose_data=strategy.may_lose_data)


def _lack_equality(left: WindowFn, right: WindowFn) -> bool:
    return type(left) is type(right) and type(left).__eq__ is object.__eq__


def _windowed_alike(left: WindowingStrategy, right: WindowingStrategy) -> bool:
    return left.window_fn == right.window_fn and left.merges == right.merges


def _continues(left: PCollection, right: PCollection) -> bool:
    """Return whether one's trigger is the continuation of the other's."""
    continuation: Trigger = right.strategy.trigger.continuation()
    return left.strategy.trigger == continuation


def _part(collection: PCollection, name: str) -> str:
    part = getattr(collection.strategy, name)
    return duration_text(part) if isinstance(part, Duration) else str(part)


def _windowed(collection: PCollection) -> str:
    strategy = collection.strategy
    merged = ", merged by a grouping" if strategy.window_fn.is_merging and not strategy.merges else ""
    return f"{strategy.window_fn!r}{merged}"
