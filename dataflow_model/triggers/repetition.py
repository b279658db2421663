"""Composite triggers that repeat: forever, a number of times, or until another trigger fires."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.overriding import override
from dataflow_model.triggers.base import (
    BuiltInTree,
    CompositeTrigger,
    NeverFinishing,
    ParallelTrigger,
    Trigger,
    check_trigger_type,
)
from dataflow_model.triggers.counts import check_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import Duration
    from dataflow_model.triggers.contexts import TriggerContext

COMPLETIONS: Final = "completions"
"""The state tag of the number of completions."""


class _Repetition(CompositeTrigger, BuiltInTree):
    """The base of triggers that repeat one child: they fire when it fires, and restart it when it finishes."""

    def on_element(self, context: TriggerContext) -> None:
        """Pass the element to the child."""
        self._pass_to(context, 0)

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Pass the timer to the child."""
        self._pass_to(context, child)

    def _pass_to(self, context: TriggerContext, child: int) -> None:
        """Pass the event to the child, and fire if the child fires."""
        result = context.invoke_child(child)
        if result.fired:
            context.trigger(result.mode)
        if result.finished:
            self._child_finished(context)

    def _child_finished(self, context: TriggerContext) -> None:
        """Begin another turn of the child, or finish."""
        raise NotImplementedError


@calls_explained({"underlying": "use `trigger`"})
@attrs.frozen(repr=False)
class Repeatedly(NeverFinishing, _Repetition):
    """Fire whenever the child fires, and restart the child whenever it finishes; never finish.

    Raises:
        InvalidType: if `trigger` is not a trigger.

    Source: the papers' Repeat; Beam's `Repeatedly`.

    Example:
        >>> from dataflow_model.triggers import AfterCount
        >>> Repeatedly(AfterCount(2))
        Repeatedly(AfterCount(2))
    """

    trigger: Trigger = attrs.field(validator=lambda _s, _a, value: check_trigger_type(value, "trigger"))

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """A tuple with the one child."""
        return (self.trigger,)

    def _child_finished(self, context: TriggerContext) -> None:
        context.reset_child(0)

    def on_merge(self, context: TriggerContext) -> None:
        """Restart the child if it is finished after the merge."""
        if context.is_finished(0):
            context.reset_child(0)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Return `False`."""
        del children
        return False

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether the child may."""
        return self.trigger.may_fire(allowed_lateness=allowed_lateness)

    @override
    def describe(self) -> str:
        return self.trigger.describe_repeated()

    def __repr__(self) -> str:
        return f"Repeatedly({self.trigger!r})"


@attrs.frozen(repr=False)
class RepeatCount(_Repetition):
    """Fire whenever the child fires, restart the child when it finishes, and finish when it has finished `n` times.

    When windows merge, their counts are added. With a child that never finishes, such as `Always()`, this trigger
    never finishes either.

    Args:
        trigger: the child.
        n: how often the child must finish; at least 1.

    Raises:
        InvalidType: if `trigger` is not a trigger, or `n` not an int.
        InvalidArgument: if `n` is less than 1.

    Source: the papers' RepeatCount.

    Example:
        >>> from dataflow_model.triggers import AfterCount
        >>> RepeatCount(AfterCount(2), 3)
        RepeatCount(AfterCount(2), 3)
    """

    trigger: Trigger
    n: int

    def __attrs_post_init__(self) -> None:
        """Check the children and arguments."""
        check_trigger_type(self.trigger, "trigger")
        check_number(self.n, "use RepeatCount(trigger, 3), for example")

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """A tuple with the one child."""
        return (self.trigger,)

    def _child_finished(self, context: TriggerContext) -> None:
        self._complete(context, 1 + context.lookup_state(COMPLETIONS, 0))

    def on_merge(self, context: TriggerContext) -> None:
        """Add up the completions of the unfinished sources; if there are none, the child's state decides."""
        if all(context.is_source_finished(window) for window in context.sources):
            return
        completions = sum(context.lookup_source_state(window, COMPLETIONS, 0) for window in context.sources)
        context.reopen()
        self._complete(context, completions + context.is_finished(0))
        if context.lookup_state(COMPLETIONS) is None:
            context.finish_child(0)  # so that a later merge sees it as finished, although none of its turns has ended

    def _complete(self, context: TriggerContext, completions: int) -> None:
        if completions >= self.n:
            context.done()
            return
        if context.is_finished(0):
            context.reset_child(0)
        context.store_state(COMPLETIONS, completions)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Return whether the child has finished, which it stays only after its last completion."""
        return children[0]

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether the child may."""
        return self.trigger.may_finish(allowed_lateness=allowed_lateness)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether the child may."""
        return self.trigger.may_fire(allowed_lateness=allowed_lateness)

    @override
    def describe(self) -> str:
        return f"{self.trigger.describe_repeated()}, {'once' if self.n == 1 else f'{self.n} times'}"

    def __repr__(self) -> str:
        return f"RepeatCount({self.trigger!r}, {self.n})"


@attrs.frozen(repr=False)
class RepeatUntil(BuiltInTree):
    """Fire whenever `trigger` fires, restarting it when it finishes, until `until` fires; that pane is the last.

    `until` starts with the window; panes do not restart it.

    Raises:
        InvalidType: if an argument is not a trigger.

    Source: the papers' RepeatUntil; it is `Repeatedly(trigger).or_finally(until)`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterWatermark
        >>> RepeatUntil(AfterCount(2), AfterWatermark()).lowered()
        Repeatedly(AfterCount(2)).or_finally(AfterWatermark())
    """

    trigger: Trigger
    until: Trigger

    def __attrs_post_init__(self) -> None:
        """Check the children and arguments."""
        check_trigger_type(self.trigger, "trigger")
        check_trigger_type(self.until, "until")

    def lowered(self) -> Trigger:
        """Return `Repeatedly(trigger).or_finally(until)`."""
        return OrFinally(Repeatedly(self.trigger), self.until)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether `until` may fire."""
        return self.until.may_fire(allowed_lateness=allowed_lateness)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether either trigger may."""
        return self.lowered().may_fire(allowed_lateness=allowed_lateness)

    def check_for(self, *, merging: bool) -> None:
        """Check the children and arguments."""
        self.lowered().check_for(merging=merging)

    @override
    def describe(self) -> str:
        return self.lowered().describe()

    def __repr__(self) -> str:
        return f"RepeatUntil({self.trigger!r}, {self.until!r})"


@attrs.frozen(repr=False)
class OrFinally(ParallelTrigger, BuiltInTree):
    """Fire when `first` does, until `until` fires; that pane is the last. Created by `trigger.or_finally(until)`.

    If both are ready, `until` wins: one pane is emitted, and the trigger finishes. `until` starts with the window;
    panes do not restart it.

    Source: Beam Java's `orFinally`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterWatermark
        >>> Repeatedly(AfterCount(1)).or_finally(AfterWatermark())
        Repeatedly(AfterCount(1)).or_finally(AfterWatermark())
    """

    first: Trigger
    until: Trigger

    def __attrs_post_init__(self) -> None:
        """Check the children and arguments."""
        check_trigger_type(self.first, "first")
        check_trigger_type(self.until, "until")

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """Both triggers, in order."""
        return (self.first, self.until)

    def _pass_to(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Fire with the children that make it fire, and finish with those that finish it."""
        for child in children:
            result = context.invoke_child(child)
            if result.fired:
                context.trigger(result.mode, at=result.at if child == 1 else None)  # the deadline of `until` wins
            if result.fired and (result.finished or child == 1):
                context.done()

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Return whether either trigger has finished."""
        return any(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether `first` may finish or `until` may fire, even if `until` itself does not finish."""
        return self.first.may_finish(allowed_lateness=allowed_lateness) or self.until.may_fire(
            allowed_lateness=allowed_lateness
        )

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether either trigger may."""
        return any(part.may_fire(allowed_lateness=allowed_lateness) for part in self.children)

    @override
    def describe(self) -> str:
        return f"{self.first.describe()}; the last time: {self.until.describe()}"

    def __repr__(self) -> str:
        return f"{self.first!r}.or_finally({self.until!r})"
