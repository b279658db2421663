"""Triggers that go by what the elements say, or by nothing: punctuation, a user's condition, always, never."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.triggers.base import Trigger
from dataflow_model.values import encode_window, is_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dataflow_model.time import Duration
    from dataflow_model.triggers.contexts import TriggerContext
    from dataflow_model.values import Window

__all__ = ["AfterPunctuation", "Always", "DataTrigger", "Never"]

_TAG: Final = ""


@attrs.frozen(repr=False)
class AfterPunctuation(Trigger):
    """Fire on an element that satisfies a predicate: a mark in the data that says that something is complete.

    The mark itself is in the pane.

    Args:
        predicate: takes an element, without its key. A named function of a module shows in the trigger's `repr`, which
            evaluates to itself then.

    Raises:
        InvalidType: when the predicate cannot be called.

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

    def on_element(self, context: TriggerContext) -> None:
        """Fire at a mark."""
        if self.predicate(context.element):
            context.trigger()
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Remembers nothing."""

    def describe(self) -> str:
        """Say in words when it fires."""
        return f"at an element that satisfies {_name(self.predicate)}"

    def describe_repeated(self) -> str:
        """Say in words when it fires, started over each time."""
        return f"at each element that satisfies {_name(self.predicate)}"

    def __repr__(self) -> str:
        return f"AfterPunctuation({_name(self.predicate)})"


def _name(function: Callable[..., Any]) -> str:
    """Name a function as code would; never by an address, which would differ from process to process."""
    name = getattr(function, "__qualname__", None)
    if name is not None:
        return str(name).rpartition("<locals>.")[2]
    shown = repr(function)
    return f"{type(function).__name__}()" if " at 0x" in shown else shown


class DataTrigger(Trigger):
    """Fire when the data say so: a user's condition over the elements so far.

    Subclass it and define `should_emit`, and for windows that merge `merge_state`. It never finishes; its state lives
    until a composite above starts it over, which its own firing does not.

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

    def should_emit(self, element: Any, state: Any) -> tuple[bool, Any]:
        """Return whether to fire on an element, and the state from here on.

        Args:
            element: the value, without its key.
            state: what the call before has returned; `None` at first.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `should_emit(self, element, state)`")

    def merge_state(self, states: Sequence[Any]) -> Any:
        """Return the state of a merged window; called with the states, in the windows' order, where there are several.

        Windows in which the trigger has seen no element bring none.
        """
        raise NotImplementedError(f"{type(self).__name__} must define `merge_state(self, states)`")

    def on_element(self, context: TriggerContext) -> None:
        """Ask."""
        emits, state = checked_answer(self, self.should_emit(context.element, context.lookup_state(_TAG)))
        context.store_state(_TAG, state)
        if emits:
            context.trigger()

    def on_merge(self, context: TriggerContext) -> None:
        """Merge the states that there are."""
        windows = sorted(context.sources, key=_by_bounds)
        stored = [context.lookup_source_state(window, _TAG, _UNSEEN) for window in windows]
        states = [state for state in stored if state is not _UNSEEN]
        if states:
            context.store_state(_TAG, states[0] if len(states) == 1 else self.merge_state(states))

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Never."""
        del allowed_lateness
        return False

    def check_for(self, *, merging: bool) -> None:
        """Refuse windows that merge, without `merge_state`."""
        if merging and type(self).merge_state is DataTrigger.merge_state:
            raise InvalidArgument(
                f"{self!r} does not define how its states are merged when windows merge",
                hint=f"define merge_state in {type(self).__name__}, or use windows that do not merge",
            )

    def describe(self) -> str:
        """Say in words when it fires."""
        return f"when {self!r} decides"

    def describe_repeated(self) -> str:
        """Say in words when it fires; it repeats anyway."""
        return self.describe()


_UNSEEN: Final = object()


def checked_answer(trigger: DataTrigger, answer: Any) -> tuple[bool, Any]:
    """Return what `should_emit` has returned, if it is a pair.

    Raises:
        InvalidType: when it is anything else.
    """
    if not is_pair(answer):
        raise InvalidType(
            f"should_emit of {trigger!r} must return a pair, whether to fire and the new state, got {answer!r}",
            hint="return (False, state) for an element that does not fire",
        )
    emits, state = answer
    return bool(emits), state


@attrs.frozen
class Always(Trigger):
    """Fire at each element; never finish.

    Example:
        >>> Always().describe()
        'at each element'
    """

    def on_element(self, context: TriggerContext) -> None:
        """Fire."""
        context.trigger()

    def on_merge(self, context: TriggerContext) -> None:
        """Remembers nothing."""

    def continuation(self) -> Trigger:
        """Continue as itself."""
        return self

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Never."""
        del allowed_lateness
        return False

    def describe(self) -> str:
        """Say in words when it fires."""
        return "at each element"

    def describe_repeated(self) -> str:
        """Say in words when it fires; it repeats anyway."""
        return self.describe()


@attrs.frozen
class Never(Trigger):
    """Never fire, nor finish: what there is goes out when the window expires.

    Example:
        >>> Never().describe()
        'never before the window expires'
    """

    ignores_elements: ClassVar[bool] = True

    def on_element(self, context: TriggerContext) -> None:
        """Take no notice."""

    def on_merge(self, context: TriggerContext) -> None:
        """Remembers nothing."""

    def continuation(self) -> Trigger:
        """Continue as itself."""
        return self

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Never."""
        del allowed_lateness
        return False

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Never."""
        del allowed_lateness
        return False

    def describe(self) -> str:
        """Say in words when it fires."""
        return "never before the window expires"

    def describe_repeated(self) -> str:
        """Say in words when it fires; never is never."""
        return self.describe()


def _by_bounds(window: Window) -> tuple[int, int, bytes]:
    return int(window.start), int(window.end), encode_window(window)
