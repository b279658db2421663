"""Composite triggers of several children: in sequence, any of them, all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.overriding import override
from dataflow_model.triggers.base import BuiltInTree, CompositeTrigger, ParallelTrigger, Trigger, check_trigger_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import Duration
    from dataflow_model.triggers.contexts import FiringMode, TriggerContext

CONDITIONS_MET: Final = "met"
"""The state tag of the children whose condition has been met."""


class _ManyTriggers(CompositeTrigger, BuiltInTree):
    """The base of the composites of several children."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        if not parts:
            raise InvalidArgument(
                f"{type(self).__name__}() needs at least one trigger, got none",
                hint=f"pass the triggers as arguments: {type(self).__name__}(dm.AfterWatermark(), …)",
            )
        for index, part in enumerate(parts):
            check_trigger_type(part, f"argument {index + 1}")
        self.__attrs_init__(parts)  # type: ignore[attr-defined]

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """The children, in order."""
        return self.parts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


@attrs.frozen(repr=False, init=False)
class AfterEach(_ManyTriggers):
    """Fire as the children do, one after the other; a child's turn begins when the child before it has finished.

    The element that finishes a child is not passed to the next child. When windows merge, the trigger resumes at the
    first child that is unfinished in the merged window.

    Raises:
        InvalidArgument: without triggers.
        InvalidType: for an argument that is not a trigger.

    Source: the papers' SequenceOf; Beam's `AfterEach`.

    Example:
        >>> from dataflow_model.triggers import AfterCount
        >>> AfterEach(AfterCount(1), AfterCount(2))
        AfterEach(AfterCount(1), AfterCount(2))
    """

    parts: tuple[Trigger, ...]

    def on_element(self, context: TriggerContext) -> None:
        """Pass the element to the child whose turn it is."""
        for child in range(len(self.parts)):
            if not context.is_finished(child):
                self._pass_to(context, child)
                return

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Pass the timer to the child, if its turn has begun."""
        if all(context.is_finished(earlier) for earlier in range(child)):
            self._pass_to(context, child)

    def _pass_to(self, context: TriggerContext, child: int) -> None:
        """Pass the event to the child; fire when it fires, and finish when the last child finishes."""
        result = context.invoke_child(child)
        if result.fired:
            context.trigger(result.mode)
        if not result.finished:
            return
        if child == len(self.parts) - 1:
            context.done()
        else:
            context.reset_child(child + 1)

    def on_child_timers(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Pass the timers to the child whose turn it is; the children after it have none yet."""
        for child in children:
            if not context.is_finished(child):
                self.on_child_timer(context, child)
                return

    def on_merge(self, context: TriggerContext) -> None:
        """Give the turn to the first unfinished child, and reset the children after it."""
        finished = [context.is_finished(child) for child in range(len(self.parts))]
        if not all(finished):
            for child in range(finished.index(False) + 1, len(self.parts)):
                context.reset_child(child)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Return whether all children have finished."""
        return all(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether every child may."""
        return all(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether the first child may; the others wait for it."""
        return self.parts[0].may_fire(allowed_lateness=allowed_lateness)

    @override
    def describe(self) -> str:
        return "; then ".join(part.describe() for part in self.parts)


@attrs.frozen(repr=False, init=False)
class AfterAny(ParallelTrigger, _ManyTriggers):
    """Fire whenever any child fires, and finish when a child that fired finishes.

    Raises:
        InvalidArgument: without triggers.
        InvalidType: for an argument that is not a trigger.

    Source: the papers' FirstOf; Beam's `AfterAny`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterAny(AfterCount(100), AfterProcessingTime("1 minute"))
        AfterAny(AfterCount(100), AfterProcessingTime('1 minute'))
    """

    parts: tuple[Trigger, ...]

    def _pass_to(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Pass on the event, and fire and finish as the class describes."""
        done = False
        for child in children:
            result = context.invoke_child(child)
            if result.fired:
                context.trigger(result.mode)
                done = done or result.finished
        if done:
            context.done()

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Return whether any child has finished."""
        return any(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether any child may."""
        return any(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether any child may."""
        return any(part.may_fire(allowed_lateness=allowed_lateness) for part in self.parts)

    @override
    def describe(self) -> str:
        return "at the first of: " + ", or ".join(part.describe() for part in self.parts)


@attrs.frozen(repr=False, init=False)
class AfterAll(ParallelTrigger, _ManyTriggers):
    """Fire when every unfinished child has become ready, and finish when all have finished.

    A child that has become ready stays ready until the trigger fires, also in a window that merges with others. It
    starts its next turn at once: elements that arrive while the others are waited for count in that turn.

    Raises:
        InvalidArgument: without triggers.
        InvalidType: for an argument that is not a trigger.

    Source: the papers' `and`; Beam's `AfterAll`, where a child that is ready goes on only when the trigger fires.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterAll(AfterCount(100), AfterProcessingTime("1 minute")).describe()
        'once all hold: at 100 elements, and 1 minute of processing time after the first element'
    """

    parts: tuple[Trigger, ...]

    def _pass_to(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Pass on the event, and fire and finish as the class describes."""
        met: dict[int, FiringMode] = dict(context.lookup_state(CONDITIONS_MET, {}))
        last: int | None = None
        for child in children:
            result = context.invoke_child(child)
            if result.fired:
                if child not in met and result.at is not None:
                    last = result.at if last is None else max(last, result.at)
                met[child] = result.mode
        ready = met and all(child in met or context.is_finished(child) for child in range(len(self.parts)))
        context.store_state(CONDITIONS_MET, {} if ready else met)
        if ready:
            for mode in met.values():
                context.trigger(mode, last)
        if all(context.is_finished(child) for child in range(len(self.parts))):
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Keep the children that were ready in any of the windows."""
        met: dict[int, FiringMode] = {}
        for window in context.sources:
            met |= context.lookup_source_state(window, CONDITIONS_MET, {})
        context.store_state(CONDITIONS_MET, met)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Return whether every child has finished."""
        return all(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether every child may."""
        return all(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether every child may."""
        return all(part.may_fire(allowed_lateness=allowed_lateness) for part in self.parts)

    @override
    def describe(self) -> str:
        return "once all hold: " + ", and ".join(part.describe() for part in self.parts)
