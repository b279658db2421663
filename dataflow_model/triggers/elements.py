"""Triggers that depend on the elements alone, or on nothing: punctuation, a user's condition, always, never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, refuse_async
from dataflow_model.overriding import override
from dataflow_model.triggers.base import NeverFinishing, Trigger, check_calls
from dataflow_model.values import by_bounds, is_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.time import Duration
    from dataflow_model.triggers.contexts import TriggerContext

_TAG: Final = ""


@attrs.frozen(repr=False)
class AfterPunctuation(Trigger):
    """Fire on an element that satisfies a predicate, such as a record that marks the end of a batch in the data.

    The pane contains that element.

    Args:
        predicate: a function of an element, without its key. Use a named function of a module, so that evaluating the
            trigger's `repr` gives an equal trigger.

    Raises:
        InvalidType: if the predicate cannot be called.

    Source: the papers' punctuation records.

    Example:
        >>> AfterPunctuation(str.isupper)
        AfterPunctuation(str.isupper)
    """

    predicate: Callable[[Any], Any]

    def __attrs_post_init__(self) -> None:
        """Check the predicate."""
        if not callable(self.predicate):
            raise InvalidType(
                f"`predicate` must be a function of an element, got {self.predicate!r}", hint="pass a function"
            )
        refuse_async(self.predicate, "AfterPunctuation")

    def on_element(self, context: TriggerContext) -> None:
        """Fire if the element satisfies the predicate."""
        if self.predicate(context.element):
            context.trigger()
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Do nothing, since the trigger keeps no state."""

    @override
    def describe(self) -> str:
        return f"at an element that satisfies {_name(self.predicate)}"

    @override
    def describe_repeated(self) -> str:
        return f"at each element that satisfies {_name(self.predicate)}"

    def __repr__(self) -> str:
        return f"AfterPunctuation({_name(self.predicate)})"


def _name(function: Callable[..., Any]) -> str:
    """Return the name of a function as code would write it, never its address, which differs between processes."""
    name = getattr(function, "__qualname__", None)
    if name is not None:
        return str(name).rpartition("<locals>.")[2]
    text = repr(function)
    return f"{type(function).__name__}()" if " at 0x" in text else text


class DataTrigger(NeverFinishing):
    """Fire when a condition over the elements so far holds; subclass it to define the condition.

    A subclass defines `should_emit` and, for windows that merge, `merge_state`. The trigger never finishes. Firing
    does not reset its state; only a composite above it does, when it begins a new turn.

    Source: the papers' UserTrigger.

    Example:
        >>> import attrs
        >>> @attrs.frozen
        ... class AfterTotal(DataTrigger):
        ...     least: int
        ...
        ...     def should_emit(self, element, state):
        ...         total = (state or 0) + element
        ...         return (True, 0) if total >= self.least else (False, total)
        ...
        ...     def merge_state(self, states):
        ...         return sum(states)
        >>> AfterTotal(10)
        AfterTotal(least=10)
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check the methods that the subclass defines.

        Raises:
            InvalidType: for a method with the wrong parameters.
        """
        super().__init_subclass__(**kwargs)
        check_calls(cls, {"should_emit": ("element", "state"), "merge_state": ("states",)})

    def should_emit(self, element: Any, state: Any) -> tuple[bool, Any]:
        """Return whether to fire on an element, and the new state.

        Args:
            element: the value, without its key.
            state: the state that the previous call returned; `None` in the first call.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `should_emit(self, element, state)`")

    def merge_state(self, states: Sequence[Any]) -> Any:
        """Return the state of a merged window; called if two or more of the windows have a state.

        The states are in the order of the windows. A window in which the trigger has seen no element has no state.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `merge_state(self, states)`")

    def on_element(self, context: TriggerContext) -> None:
        """Call `should_emit`, and fire if it says so."""
        emits, state = checked_answer(self, self.should_emit(context.element, context.lookup_state(_TAG)))
        context.store_state(_TAG, state)
        if emits:
            context.trigger()

    def on_merge(self, context: TriggerContext) -> None:
        """Merge the states of the windows that have one."""
        windows = sorted(context.sources, key=by_bounds)
        stored = [context.lookup_source_state(window, _TAG, _UNSEEN) for window in windows]
        states = [state for state in stored if state is not _UNSEEN]
        if states:
            context.store_state(_TAG, states[0] if len(states) == 1 else self.merge_state(states))

    def check_for(self, *, merging: bool) -> None:
        """Reject windows that merge if `merge_state` is not defined."""
        if merging and type(self).merge_state is DataTrigger.merge_state:
            raise InvalidArgument(
                f"{self!r} does not define how its states are merged when windows merge",
                hint=f"define merge_state in {type(self).__name__}, or use windows that do not merge",
            )

    @override
    def describe(self) -> str:
        return f"when {self!r} decides"


_UNSEEN: Final = object()


def checked_answer(trigger: DataTrigger, answer: Any) -> tuple[bool, Any]:
    """Return the result of `should_emit` after checking that it is a pair.

    Raises:
        InvalidType: if it is not a pair.
    """
    if not is_pair(answer):
        raise InvalidType(
            f"should_emit of {trigger!r} must return a pair, whether to fire and the new state, got {answer!r}",
            hint="return (False, state) for an element that does not fire",
        )
    emits, state = answer
    return bool(emits), state


@attrs.frozen
class Always(NeverFinishing):
    """Fire at each element; never finish.

    Example:
        >>> Always().describe()
        'at each element'
    """

    def on_element(self, context: TriggerContext) -> None:
        """Fire."""
        context.trigger()

    def on_merge(self, context: TriggerContext) -> None:
        """Do nothing, since the trigger keeps no state."""

    def continuation(self) -> Trigger:
        """Continue as itself."""
        return self

    @override
    def describe(self) -> str:
        return "at each element"


@attrs.frozen
class Never(NeverFinishing):
    """Never fire and never finish; the only pane is emitted when the window expires.

    Example:
        >>> Never().describe()
        'never before the window expires'
    """

    def on_element(self, context: TriggerContext) -> None:
        """Ignore the element."""

    def on_merge(self, context: TriggerContext) -> None:
        """Do nothing, since the trigger keeps no state."""

    def continuation(self) -> Trigger:
        """Continue as itself."""
        return self

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return `False`."""
        del allowed_lateness
        return False

    @override
    def describe(self) -> str:
        return "never before the window expires"
