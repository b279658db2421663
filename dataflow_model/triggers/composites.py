"""The composites of the trigger tree: repetition, sequence, any, all, until."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from dataflow_model.errors import InvalidArgument, explain
from dataflow_model.triggers.base import CompositeTrigger, Trigger, TriggerContext, check_trigger_type
from dataflow_model.triggers.leaves import repeated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import Duration

__all__ = ["AfterAll", "AfterAny", "AfterEach", "OrFinally", "Repeatedly"]

_MET: Final = "met"


@attrs.frozen(repr=False)
class Repeatedly(CompositeTrigger):
    """Fire whenever the child fires, and begin a new turn of it whenever it finishes; never finish.

    Source: the papers' Repeat; Beam's `Repeatedly`.

    Example:
        >>> from dataflow_model.triggers import AfterCount
        >>> Repeatedly(AfterCount(2))
        Repeatedly(AfterCount(2))
    """

    passes_elements_on: ClassVar[bool] = True

    child: Trigger = attrs.field(validator=lambda _s, _a, value: check_trigger_type(value, "child"))

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """The one child."""
        return (self.child,)

    def on_element(self, context: TriggerContext) -> None:
        """Pass it on."""
        self.on_child_timer(context, 0)

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Fire with the child, and start it over when it finishes."""
        result = context.invoke_child(child)
        if result.fired:
            context.trigger()
        if result.finished:
            context.reset_child(child)

    def on_merge(self, context: TriggerContext) -> None:
        """Start a child over that came out finished."""
        if context.is_finished(0):
            context.reset_child(0)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Never."""
        del children
        return False

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Never."""
        del allowed_lateness
        return False

    def describe(self) -> str:
        """Say in words when it fires."""
        return repeated(self.child)

    def __repr__(self) -> str:
        return f"Repeatedly({self.child!r})"


class _ManyTriggers(CompositeTrigger):
    """What the composites over several children have in common."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        if not parts:
            raise InvalidArgument(
                explain(f"{type(self).__name__}() needs at least one trigger", hint="pass it as an argument")
            )
        for place, part in enumerate(parts):
            check_trigger_type(part, f"argument {place + 1}")
        self.__attrs_init__(parts)  # type: ignore[attr-defined]

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """The parts, in order."""
        return self.parts

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.parts))})"


@attrs.frozen(repr=False, init=False)
class AfterEach(_ManyTriggers):
    """Fire as each child does in turn; the next child's turn begins when the one before has finished.

    The element that finishes a child is not shown to the next. Merged windows resume at the first child that is
    unfinished in the merged window.

    Source: the papers' SequenceOf; Beam's `AfterEach`.

    Example:
        >>> from dataflow_model.triggers import AfterCount
        >>> AfterEach(AfterCount(1), AfterCount(2))
        AfterEach(AfterCount(1), AfterCount(2))
    """

    passes_elements_on: ClassVar[bool] = True

    parts: tuple[Trigger, ...]

    def on_element(self, context: TriggerContext) -> None:
        """Show it to the child whose turn it is."""
        for child in range(len(self.parts)):
            if not context.is_finished(child):
                self.on_child_timer(context, child)
                return

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Fire with the child; with the last one's finish, finish."""
        if not all(context.is_finished(earlier) for earlier in range(child)):
            return  # its turn has not begun
        result = context.invoke_child(child)
        if result.fired:
            context.trigger()
        if not result.finished:
            return
        if child == len(self.parts) - 1:
            context.done()
        else:
            context.reset_child(child + 1)

    def in_turn(self, children: Sequence[int], finished: int) -> Sequence[int]:
        """Only the first child that has not finished."""
        return [child for child in children if not finished >> child & 1][:1]

    def on_merge(self, context: TriggerContext) -> None:
        """Leave only one child in its turn: the first one unfinished; those after it have not begun."""
        finished = [context.is_finished(child) for child in range(len(self.parts))]
        if not all(finished):
            for child in range(finished.index(False) + 1, len(self.parts)):
                context.reset_child(child)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """With the last child."""
        return all(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Only if every child may."""
        return all(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def describe(self) -> str:
        """Say in words when it fires."""
        return "; then ".join(part.describe() for part in self.parts)


@attrs.frozen(repr=False, init=False)
class AfterAny(_ManyTriggers):
    """Fire whenever any child fires, and finish when a child that fired finishes.

    Source: the papers' FirstOf; Beam's `AfterAny`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterAny(AfterCount(100), AfterProcessingTime("1 minute"))
        AfterAny(AfterCount(100), AfterProcessingTime('1 minute'))
    """

    passes_elements_on: ClassVar[bool] = True

    parts: tuple[Trigger, ...]

    def on_element(self, context: TriggerContext) -> None:
        """Show it to every child."""
        self._pass_on(context, range(len(self.parts)))

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Hand it down."""
        self._pass_on(context, (child,))

    def _pass_on(self, context: TriggerContext, children: Sequence[int]) -> None:
        done = False
        for child in children:
            result = context.invoke_child(child)
            if result.fired:
                context.trigger()
                done = done or result.finished
        if done:
            context.done()

    def finished_from(self, children: Sequence[bool]) -> bool:
        """With any child."""
        return any(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """If any child may."""
        return any(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def describe(self) -> str:
        """Say in words when it fires."""
        return "at the first of: " + ", or ".join(part.describe() for part in self.parts)


@attrs.frozen(repr=False, init=False)
class AfterAll(_ManyTriggers):
    """Fire when every unfinished child has become ready, and finish when all have finished.

    A condition once met stays met until it fires; conditions met in windows that merge are united.

    Source: the papers' and; Beam's `AfterAll`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterAll(AfterCount(100), AfterProcessingTime("1 minute")).describe()
        'once all hold: at 100 elements, and 1 minute of processing time after the first element'
    """

    passes_elements_on: ClassVar[bool] = True

    parts: tuple[Trigger, ...]

    def on_element(self, context: TriggerContext) -> None:
        """Show it to every child."""
        self._pass_on(context, range(len(self.parts)))

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Hand it down."""
        self._pass_on(context, (child,))

    def _pass_on(self, context: TriggerContext, children: Sequence[int]) -> None:
        met: frozenset[int] = context.lookup_state(_MET, frozenset())
        fired = {child for child in children if context.invoke_child(child).fired}
        met |= fired
        ready = met and all(child in met or context.is_finished(child) for child in range(len(self.parts)))
        context.store_state(_MET, frozenset() if ready else met)
        if ready:
            context.trigger()
        if all(context.is_finished(child) for child in range(len(self.parts))):
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Unite the conditions met."""
        met: frozenset[int] = frozenset().union(
            *(context.lookup_source_state(window, _MET, frozenset()) for window in context.sources)
        )
        context.store_state(_MET, met)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """With every child."""
        return all(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Only if every child may."""
        return all(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def describe(self) -> str:
        """Say in words when it fires."""
        return "once all hold: " + ", and ".join(part.describe() for part in self.parts)


@attrs.frozen(repr=False)
class OrFinally(CompositeTrigger):
    """Fire as `first` does, until `until` fires; that pane is the last. Made by `trigger.or_finally(until)`.

    Where both are ready `until` wins: one pane, finished. Its clock starts with the window, not with a pane.

    Source: Beam Java's `orFinally`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterWatermark
        >>> Repeatedly(AfterCount(1)).or_finally(AfterWatermark())
        Repeatedly(AfterCount(1)).or_finally(AfterWatermark())
    """

    passes_elements_on: ClassVar[bool] = True

    first: Trigger
    until: Trigger

    def __attrs_post_init__(self) -> None:
        """Check the parts."""
        check_trigger_type(self.first, "first")
        check_trigger_type(self.until, "until")

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """The two, in order."""
        return (self.first, self.until)

    def on_element(self, context: TriggerContext) -> None:
        """Show it to both."""
        self._pass_on(context, (0, 1))

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Hand it down."""
        self._pass_on(context, (child,))

    def _pass_on(self, context: TriggerContext, children: Sequence[int]) -> None:
        for child in children:
            result = context.invoke_child(child)
            if result.fired:
                context.trigger()
            if result.finished or (child == 1 and result.fired):
                context.done()

    def finished_from(self, children: Sequence[bool]) -> bool:
        """With either."""
        return any(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """If either may."""
        return any(part.may_finish(allowed_lateness=allowed_lateness) for part in self.children)

    def describe(self) -> str:
        """Say in words when it fires."""
        return f"{self.first.describe()}; until and with: {self.until.describe()}"

    def __repr__(self) -> str:
        return f"{self.first!r}.or_finally({self.until!r})"
