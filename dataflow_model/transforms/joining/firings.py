"""When joins by event time emit an element: what the triggers and modes of their sides say, and what is rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.functions.interval_joins import Firing
from dataflow_model.time import Duration
from dataflow_model.triggers import AfterCount, AfterWatermark, Always, DefaultTrigger, Repeatedly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.triggers import Trigger


def firing_alone(strategies: Sequence[WindowingStrategy], lateness: Duration, label: str) -> Firing:
    """Return when the elements of sides are emitted without a partner.

    Args:
        strategies: the strategies of the sides that keep their elements.
        lateness: how late an element may be.
        label: the join, for errors.

    Raises:
        InvalidArgument: for a trigger that fires early but not at each element, or whose panes are not taken back, and
            for sides that do not agree.
    """
    firings = [_firing_of_side(strategy, lateness, label, _ALONE) for strategy in strategies]
    if len(set(firings)) > 1:
        raise InvalidArgument(
            f"{label!r} emits elements of its left side without a partner {firings[0].value}, and those of its right "
            f"side {firings[1].value}: it takes back the elements of both sides or of none",
            hint="use the same trigger and mode on both sides",
        )
    return firings[0] if firings else Firing.FINAL


def firing_as_of(left: WindowingStrategy, right: WindowingStrategy, lateness: Duration, label: str) -> Firing:
    """Return when the left elements of an as-of join are emitted: the left side says it.

    Args:
        left: the strategy of the left side.
        right: that of the right side.
        lateness: how late an element may be.
        label: the join, for errors.

    Raises:
        InvalidArgument: as for `firing_alone`, and for a right side with another trigger or mode of its own.
    """
    firing = _firing_of_side(left, lateness, label, _AS_OF)
    if right.retracting or right.trigger.may_fire(allowed_lateness=Duration(0)):
        of_right = _firing_of_side(right, lateness, label, _AS_OF)
        if of_right is not firing:
            raise InvalidArgument(
                f"{label!r} emits elements when its left side says so, which is {firing.value}, but its right side "
                f"says {of_right.value}",
                hint="use the same trigger and mode on both sides, or leave them out on the right side",
            )
    return firing


@attrs.frozen
class _Words:
    """How errors describe what a join emits.

    Attributes:
        element: what is emitted.
        too_early: before what it would be emitted.
        until: when nothing has to be taken back.
    """

    element: str
    too_early: str
    until: str


_ALONE: Final = _Words(
    "an element without a partner",
    "an element before its partner",
    "an element is emitted without a partner only when none can arrive",
)
_AS_OF: Final = _Words(
    "a left element", "a left element before its row is certain", "it is emitted when no other row can belong to it"
)


def _firing_of_side(strategy: WindowingStrategy, lateness: Duration, label: str, words: _Words) -> Firing:
    trigger = strategy.trigger
    is_early = trigger.may_fire(allowed_lateness=Duration(0))
    if not strategy.retracting:
        if not is_early:
            return Firing.FINAL
        raise InvalidArgument(
            f"under {trigger!r}, {label!r} would emit {words.too_early}, and could not take that back: its sides do "
            "not retract",
            hint="use .accumulating_and_retracting() on both sides, or dm.Window.trigger(dm.AfterWatermark()) so that "
            f"{words.until}",
        )
    if is_early and _fires_at_each(trigger):
        return Firing.AT_ONCE
    if not is_early and _fires_on_time(trigger):
        return Firing.ON_TIME if lateness > Duration(0) else Firing.FINAL
    raise InvalidArgument(
        f"{label!r} emits {words.element} at once, on time, or when it is final, but its sides are triggered by "
        f"{trigger!r}",
        hint="use dm.Window.trigger(dm.Always()) or dm.Window.trigger(dm.DefaultTrigger()) on both sides",
    )


def _fires_at_each(trigger: Trigger | None) -> bool:
    """Return whether a trigger fires at each element."""
    match trigger:
        case Always() | AfterCount(n=1):
            return True
        case Repeatedly():
            return _fires_at_each(trigger.trigger)
        case AfterWatermark():
            return _fires_at_each(trigger.early) and (trigger.late is None or _fires_at_each(trigger.late))
        case _:
            return False


def _fires_on_time(trigger: Trigger) -> bool:
    """Return whether a trigger fires when the watermark passes the end of a window, and at each late element."""
    match trigger:
        case DefaultTrigger():
            return True
        case AfterWatermark():
            waits_for_all = trigger.percentile == AfterWatermark().percentile
            return waits_for_all and trigger.early is None and (trigger.late is None or _fires_at_each(trigger.late))
        case _:
            return False
