"""Which groupings the compiled core runs; the others run on Python objects, with the same results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.triggers import (
    AfterAll,
    AfterAny,
    AfterBytes,
    AfterCount,
    AfterEach,
    AfterEventTime,
    AfterProcessingTime,
    AfterPunctuation,
    AfterSignal,
    AfterWatermark,
    Always,
    AtPeriod,
    CompositeTrigger,
    DataTrigger,
    Never,
    OrFinally,
    RepeatCount,
    Repeatedly,
)

if TYPE_CHECKING:
    from dataflow_model.plan.strategy import WindowingStrategy
    from dataflow_model.triggers import Trigger

__all__ = ["is_built_in", "why_not_compiled"]

_LEAVES: Final = frozenset(
    {
        AfterBytes,
        AfterCount,
        AfterEventTime,
        AfterProcessingTime,
        AfterPunctuation,
        AfterSignal,
        AfterWatermark,
        Always,
        AtPeriod,
        Never,
    }
)
_COMPOSITES: Final = frozenset({AfterAll, AfterAny, AfterEach, OrFinally, RepeatCount, Repeatedly})
_CALLBACKS: Final = ("on_element", "on_retraction", "on_signal", "on_merge", "on_timer", "reset", "lowered")


def why_not_compiled(strategy: WindowingStrategy) -> str | None:
    """Return why the compiled core does not run groupings of a strategy; `None` if it does.

    Example:
        >>> from dataflow_model.plan.strategy import WindowingStrategy
        >>> why_not_compiled(WindowingStrategy()) is None
        True
    """
    trigger = _uncompiled_trigger(strategy.trigger)
    return None if trigger is None else f"{trigger!r} is a composite trigger with callbacks of its own"


def is_built_in(tree: Trigger) -> bool:
    """Return whether a lowered trigger is one whose callbacks the compiled core has as operations of its own.

    Example:
        >>> is_built_in(AfterCount(2)), is_built_in(type("Twice", (AfterCount,), {})(2))
        (True, False)
    """
    return type(tree) in _LEAVES | _COMPOSITES or _is_plain_data_trigger(tree)


def _uncompiled_trigger(trigger: Trigger) -> Trigger | None:
    """Return the first trigger of a tree that the compiled core does not run; `None` if it runs them all."""
    tree = trigger.lowered()
    if not is_built_in(tree) and (isinstance(tree, CompositeTrigger) or tree.children):
        return tree
    return next((part for part in map(_uncompiled_trigger, tree.children) if part is not None), None)


def _is_plain_data_trigger(tree: Trigger) -> bool:
    """Return whether a trigger is a `DataTrigger` that overrides none of the callbacks."""
    return isinstance(tree, DataTrigger) and all(
        getattr(type(tree), name) is getattr(DataTrigger, name) for name in _CALLBACKS
    )
