"""The base classes of triggers: callbacks on the events of one window.

A trigger is a frozen value. What it remembers about a window is in the context's state, under the trigger's place in
the tree. So one trigger value serves every key and window, and the state can be pickled.

Source: the trigger API of the Dataflow Model's source design: `on_element`, `on_merge`, `on_timer`, `reset`, and for
composites `on_child_timer`.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.triggers.percentiles import check_named_percentiles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.time import Duration
    from dataflow_model.triggers.contexts import TriggerContext
    from dataflow_model.triggers.repetition import OrFinally

_DEEPEST: Final = 100
"""How deep triggers may be nested: their callbacks, `repr` and pickles go from one to the next."""


_CALLS: Final = {
    "on_element": ("context",),
    "on_retraction": ("context",),
    "on_timer": ("context", "tag"),
    "on_signal": ("context", "name"),
    "on_merge": ("context",),
    "reset": ("context",),
    "on_child_timer": ("context", "child"),
    "on_child_timers": ("context", "children"),
    "finished_from": ("children",),
    "may_finish": ("*", "allowed_lateness"),
    "may_fire": ("*", "allowed_lateness"),
}


def _check_declarations(cls: type[Trigger]) -> None:
    """Reject class attributes and methods of a user's trigger that the engine could not use."""
    percentiles, signals = vars(cls).get("percentiles", ()), vars(cls).get("signals", ())
    # Anything else computes what it names, such as a property or a field of attrs.
    if isinstance(percentiles, int | float | Collection):
        check_named_percentiles(percentiles, f"`percentiles` of {cls.__name__}", allows_low_watermark=True)
    is_one = isinstance(signals, str | int | float)
    if is_one or (isinstance(signals, Collection) and not all(isinstance(name, str) for name in signals)):
        raise InvalidType(
            f"`signals` of {cls.__name__} must be a collection of names, got {signals!r}",
            hint="write signals = frozenset({'flush'})",
        )
    check_calls(cls, _CALLS)


def check_calls(cls: type[Trigger], calls: Mapping[str, tuple[str, ...]]) -> None:
    """Reject methods of a user's trigger that cannot be called as the engine calls them.

    Args:
        cls: the class.
        calls: the arguments with which methods are called; those behind `"*"` are passed by name.

    Raises:
        InvalidType: for a method with other parameters.
    """
    for name, arguments in calls.items():
        method = vars(cls).get(name)
        if not inspect.isfunction(method):
            continue
        signature = inspect.signature(method)
        positional = list(itertools.takewhile(lambda argument: argument != "*", arguments))
        try:
            signature.bind(None, *positional, **dict.fromkeys(arguments[len(positional) + 1 :]))
        except TypeError as error:
            raise InvalidType(
                f"`{name}{signature}` of {cls.__name__} cannot be called with ({', '.join(arguments)}): {error}",
                hint=f"write def {name}({', '.join(['self', *arguments])}): …",
            ) from error


class Trigger:
    """The base class of triggers, which decide when to emit panes of a window.

    Subclass `Trigger` for a leaf and `CompositeTrigger` for a trigger with children. A subclass must be a frozen attrs
    class, so that evaluating its `repr`, by which panes name it, gives an equal trigger.

    Source: the Dataflow Model paper, section 2.3.
    """

    children: ClassVar[tuple[Trigger, ...]] = ()
    signals: ClassVar[frozenset[str]] = frozenset()
    """The names of the signals that `on_signal` waits for."""
    percentiles: ClassVar[tuple[float, ...]] = ()
    """The percentiles of the watermark, below 100, that the trigger uses."""
    reads_history: ClassVar[bool] = False
    """Whether the trigger calls `trigger_history()`; a window's panes are remembered only for triggers that do."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Check what the subclass declares.

        Raises:
            InvalidType: for `percentiles` or `signals` that are no collection of numbers or of names, or a method with
                the wrong parameters.
            InvalidArgument: for a percentile out of range.
        """
        super().__init_subclass__(**kwargs)
        _check_declarations(cls)

    def on_element(self, context: TriggerContext) -> None:
        """Handle an element when it is incorporated into the window."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_element(self, context)`")

    def on_retraction(self, context: TriggerContext) -> None:
        """Handle an element that retracts an earlier one without a replacement; ignored by default."""

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Handle one of the trigger's own timers that is due."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_timer(self, context, tag)`")

    def on_signal(self, context: TriggerContext, name: str) -> None:
        """Handle a signal from outside; every trigger of the tree gets every signal, whatever its name."""

    def on_merge(self, context: TriggerContext) -> None:
        """Build the merged window's state from its sources; the trigger starts finished if it was in every source."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_merge(self, context)`")

    def reset(self, context: TriggerContext) -> None:
        """Begin a new turn; the trigger's state and timers have been cleared."""

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether the trigger may finish before the window expires, so that later data would be dropped."""
        del allowed_lateness
        return True

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether the trigger may fire before the window expires."""
        del allowed_lateness
        return True

    def continuation(self) -> Trigger:
        """Return the trigger that the next grouping inherits; `Repeatedly(AfterProcessingTime(0))` unless overridden.

        A grouping whose input comes from another grouping, without a `Window.into` or `Window.trigger` between the
        two, does not wait for this trigger a second time: it emits a pane at the end of each tick in which elements
        arrived. Override this method if your trigger should continue differently. The returned trigger must never
        finish; otherwise a grouping rejects it, since data would be lost.

        The built-in triggers continue as follows, where `A` is `AfterProcessingTime(0)`:

        * `AfterWatermark(early, late)` as `AfterWatermark(early=A, late=A)`, or without `early` if it has no `early`;
          `AfterWatermark()` and `DefaultTrigger()` as `DefaultTrigger()`;
        * `Always()` and `Never()` as themselves;
        * other trees as `AfterWatermark(early=A, late=A)` if one of their leaves waits for the low watermark, else as
          `Repeatedly(A)`.

        So the continuation of a built-in continuation is the continuation itself.

        Source: Beam's continuation triggers (`getContinuationTrigger`), which keep the tree's shape.

        Example:
            >>> from dataflow_model.triggers import AfterCount, AfterWatermark
            >>> AfterCount(100).continuation()
            Repeatedly(AfterProcessingTime('0 seconds'))
            >>> AfterWatermark(late=AfterCount(1)).continuation()
            AfterWatermark(late=AfterProcessingTime('0 seconds'))
        """
        from dataflow_model.triggers.continuation import EVERY_TICK

        return EVERY_TICK

    def check_for(self, *, merging: bool) -> None:
        """Reject a window function with which the tree cannot be used.

        Args:
            merging: whether the function's windows may merge.

        Raises:
            InvalidArgument: if windows may merge and a trigger does not define how its state is merged.
            InvalidType: if a child is not a trigger.
        """
        tree = self.lowered()
        if merging and type(tree).on_merge is Trigger.on_merge:
            raise InvalidArgument(
                f"{self!r} does not define how its state is merged when windows merge",
                hint=f"define on_merge in {type(self).__name__}, or use windows that do not merge",
            )
        for index, child in enumerate(tree.children):
            check_trigger_type(child, f"children[{index}]").check_for(merging=merging)

    def lowered(self) -> Trigger:
        """Return the tree that is evaluated instead of this trigger; by default the trigger itself."""
        return self

    def describe(self) -> str:
        """Describe when the trigger fires."""
        return repr(self)

    def describe_repeated(self) -> str:
        """Describe when the trigger fires if it is restarted whenever it finishes."""
        return f"repeatedly: {self.describe()}"

    def or_finally(self, until: Trigger) -> OrFinally:
        """Return a trigger that fires when this one does, until `until` fires; then it finishes.

        Source: Beam Java's `orFinally`; the papers' RepeatUntil is `Repeatedly(t).or_finally(u)`.
        """
        from dataflow_model.triggers.repetition import OrFinally

        return OrFinally(self, until)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class NeverFinishing(Trigger):
    """The base class of triggers that never finish, so that they repeat without being restarted."""

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return `False`."""
        del allowed_lateness
        return False

    def describe_repeated(self) -> str:
        """Describe when the trigger fires."""
        return self.describe()


class CompositeTrigger(Trigger):
    """The base class of triggers with children.

    Each child has its own state and timers and finishes on its own; it is identified by its index. A subclass has a
    field or property `children`, a tuple. By default signals and retractions are passed to `on_element` too: whatever
    the event is, `invoke_child(child)` passes it on to a child.
    """

    def on_retraction(self, context: TriggerContext) -> None:
        """Handle an element that retracts an earlier one; calls `on_element` by default."""
        self.on_element(context)

    def on_signal(self, context: TriggerContext, name: str) -> None:
        """Handle a signal from outside; calls `on_element` by default."""
        del name
        self.on_element(context)

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Handle a due timer of a child or of one of its descendants; `invoke_child(child)` passes it on."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_child_timer(self, context, child)`")

    def on_child_timers(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Handle the timers of several children that are due in one event; by default one child after the other."""
        for child in children:
            self.on_child_timer(context, child)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Return whether the trigger has finished, given which children have; called after a merge."""
        raise NotImplementedError(f"{type(self).__name__} must define `finished_from(self, children)`")

    def on_merge(self, context: TriggerContext) -> None:
        """Handle a merge; the children have already been merged, in order. Does nothing by default."""

    def check_for(self, *, merging: bool) -> None:
        """Reject a window function with which the tree cannot be used; see `Trigger.check_for`."""
        if merging and type(self).finished_from is CompositeTrigger.finished_from:
            raise InvalidArgument(
                f"{self!r} does not define whether it has finished when windows merge",
                hint=f"define finished_from in {type(self).__name__}, or use windows that do not merge",
            )
        super().check_for(merging=merging)


class BuiltInTree(Trigger):
    """The base class of built-in triggers with children, which continue at the end of each tick.

    They also continue on time if one of their leaves waits for the low watermark.
    """

    def continuation(self) -> Trigger:
        """Emit a pane at the end of each tick, and on time if a leaf waits for the low watermark."""
        from dataflow_model.triggers.continuation import continuation_of_tree

        return continuation_of_tree(self)


class ParallelTrigger(CompositeTrigger):
    """The base class of composites whose children run in parallel: all that an event concerns receive it."""

    def on_element(self, context: TriggerContext) -> None:
        """Pass the element to every child."""
        self._pass_to(context, range(len(self.children)))

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Pass the timer to the child."""
        self._pass_to(context, (child,))

    def on_child_timers(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Pass the timers to the children together."""
        self._pass_to(context, children)

    def _pass_to(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Pass the current event to some children, then fire or finish depending on their results."""
        raise NotImplementedError(f"{type(self).__name__} must define `_pass_to(self, context, children)`")


def check_trigger_type(value: object, name: str) -> Trigger:
    """Return `value` if it can be a part of a trigger.

    Raises:
        InvalidType: with the argument's name, if it is not a trigger.
        InvalidArgument: if its parts are nested too deep.
    """
    if not isinstance(value, Trigger):
        raise InvalidType(
            f"`{name}` must be a trigger, got {value!r} of type {type(value).__name__}",
            hint="pass dm.AfterCount(1), for example",
        )
    level, depth = [value], 1
    while level and depth < _DEEPEST:
        level, depth = list({id(part): part for trigger in level for part in _parts(trigger)}.values()), depth + 1
    if level:
        raise InvalidArgument(
            f"triggers may be nested at most {_DEEPEST} deep, and `{name}` is nested deeper",
            hint="pass several triggers to one dm.AfterAny, dm.AfterAll or dm.AfterEach; Repeatedly(Repeatedly(t)) is "
            "Repeatedly(t)",
        )
    return value


def _parts(trigger: Trigger) -> list[Trigger]:
    """Return the triggers inside a trigger: its children, and its fields, from which some make their children later."""
    children: Any = trigger.children
    listed = list(children) if isinstance(children, tuple | list) else []
    kind: Any = type(trigger)
    if attrs.has(kind):
        listed += [getattr(trigger, field.name, None) for field in attrs.fields(kind)]
    return [part for part in listed if isinstance(part, Trigger)]
