"""The composites over several children: in sequence, any of them, all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.triggers.base import CompositeTrigger, SideBySide, Trigger, check_trigger_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import Duration
    from dataflow_model.triggers.contexts import FiringMode, TriggerContext

__all__ = ["AfterAll", "AfterAny", "AfterEach"]

_MET: Final = "met"


class _ManyTriggers(CompositeTrigger):
    """What the composites over several children have in common."""

    parts: tuple[Trigger, ...]

    def __init__(self, *parts: Trigger) -> None:
        if not parts:
            raise InvalidArgument(
                f"{type(self).__name__}() needs at least one trigger, got none",
                hint=f"pass the triggers as arguments: {type(self).__name__}(dm.AfterWatermark(), …)",
            )
        for place, part in enumerate(parts):
            check_trigger_type(part, f"argument {place + 1}")
        self.__attrs_init__(parts)  # type: ignore[attr-defined]

    @property
    def children(self) -> tuple[Trigger, ...]:  # type: ignore[override]
        """The parts, in order."""
        return self.parts

    def continuation(self) -> Trigger:
        """Emit at the end of each tick; on time too if a leaf waits for the low watermark."""
        from dataflow_model.triggers.continuation import continuation_of_tree

        return continuation_of_tree(self)

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
            context.trigger(result.mode)
        if not result.finished:
            return
        if child == len(self.parts) - 1:
            context.done()
        else:
            context.reset_child(child + 1)

    def on_child_timers(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Show them to the child whose turn it is; the others have none yet."""
        for child in children:
            if not context.is_finished(child):
                self.on_child_timer(context, child)
                return

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

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """If the first may: the others wait for it."""
        return self.parts[0].may_fire(allowed_lateness=allowed_lateness)

    def describe(self) -> str:
        """Say in words when it fires."""
        return "; then ".join(part.describe() for part in self.parts)


@attrs.frozen(repr=False, init=False)
class AfterAny(SideBySide, _ManyTriggers):
    """Fire whenever any child fires, and finish when a child that fired finishes.

    Source: the papers' FirstOf; Beam's `AfterAny`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterAny(AfterCount(100), AfterProcessingTime("1 minute"))
        AfterAny(AfterCount(100), AfterProcessingTime('1 minute'))
    """

    parts: tuple[Trigger, ...]

    def show(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Fire with the children that make it fire, and finish with those that finish it."""
        done = False
        for child in children:
            result = context.invoke_child(child)
            if result.fired:
                context.trigger(result.mode)
                done = done or result.finished
        if done:
            context.done()

    def finished_from(self, children: Sequence[bool]) -> bool:
        """With any child."""
        return any(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """If any child may."""
        return any(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """If any child may."""
        return any(part.may_fire(allowed_lateness=allowed_lateness) for part in self.parts)

    def describe(self) -> str:
        """Say in words when it fires."""
        return "at the first of: " + ", or ".join(part.describe() for part in self.parts)


@attrs.frozen(repr=False, init=False)
class AfterAll(SideBySide, _ManyTriggers):
    """Fire when every unfinished child has become ready, and finish when all have finished.

    A condition once met stays met until it fires; conditions met in windows that merge are united.

    Source: the papers' and; Beam's `AfterAll`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterAll(AfterCount(100), AfterProcessingTime("1 minute")).describe()
        'once all hold: at 100 elements, and 1 minute of processing time after the first element'
    """

    parts: tuple[Trigger, ...]

    def show(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Fire with the children that make it fire, and finish with those that finish it."""
        met: dict[int, FiringMode] = dict(context.lookup_state(_MET, {}))
        last: int | None = None
        for child in children:
            result = context.invoke_child(child)
            if result.fired:
                if child not in met and result.at is not None:
                    last = result.at if last is None else max(last, result.at)
                met[child] = result.mode
        ready = met and all(child in met or context.is_finished(child) for child in range(len(self.parts)))
        context.store_state(_MET, {} if ready else met)
        if ready:
            for mode in met.values():
                context.trigger(mode, last)
        if all(context.is_finished(child) for child in range(len(self.parts))):
            context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Unite the conditions met."""
        met: dict[int, FiringMode] = {}
        for window in context.sources:
            met |= context.lookup_source_state(window, _MET, {})
        context.store_state(_MET, met)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """With every child."""
        return all(children)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Only if every child may."""
        return all(part.may_finish(allowed_lateness=allowed_lateness) for part in self.parts)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """If every child may."""
        return all(part.may_fire(allowed_lateness=allowed_lateness) for part in self.parts)

    def describe(self) -> str:
        """Say in words when it fires."""
        return "once all hold: " + ", and ".join(part.describe() for part in self.parts)
