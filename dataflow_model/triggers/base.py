"""What a trigger is: callbacks on the events of one window, and the context through which it acts.

A trigger is a frozen value; what it remembers of a window lives in the context's state, under its own place in the
tree. So one trigger value serves every key and window, and state pickles.

Source: the trigger API of the Dataflow Model's source design: `on_element`, `on_merge`, `on_timer`, `reset`, and for
composites `on_child_timer`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import attrs

from dataflow_model.errors import InvalidType, explain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import Duration, Instant
    from dataflow_model.triggers.composites import OrFinally
    from dataflow_model.values import Window

__all__ = ["ChildResult", "CompositeTrigger", "TimeDomain", "Trigger", "TriggerContext"]


class TimeDomain(enum.Enum):
    """The two clocks that a timer can wait for: the watermark or the processing clock."""

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"


@attrs.frozen
class ChildResult:
    """What a child did with an event."""

    fired: bool
    finished: bool


class TriggerContext(Protocol):
    """What a callback can see and do. State and timers are those of the trigger's own place in the tree."""

    @property
    def window(self) -> Window:
        """The window; on a merge the merged one."""
        ...

    @property
    def element(self) -> Any:
        """The element that has just been incorporated (in `on_element`)."""
        ...

    @property
    def sources(self) -> Sequence[Window]:
        """The windows that have merged (in `on_merge`); the arriving element's own is not among them."""
        ...

    def now(self, domain: TimeDomain) -> Instant:
        """Return the watermark, or the processing clock."""
        ...

    def lookup_state(self, tag: str, default: Any = None) -> Any:
        """Return what was stored under `tag`."""
        ...

    def store_state(self, tag: str, value: Any) -> None:
        """Remember a picklable value."""
        ...

    def lookup_source_state(self, window: Window, tag: str, default: Any = None) -> Any:
        """Return what this trigger had stored for one of the merged windows."""
        ...

    def set_timer(self, tag: str, time: Instant, domain: TimeDomain) -> None:
        """Ask for `on_timer` when the clock of `domain` reaches `time`; replaces the timer of the same tag."""
        ...

    def get_timer(self, tag: str) -> Instant | None:
        """Return when the timer of this tag is due, or `None`."""
        ...

    def delete_timer(self, tag: str) -> None:
        """Forget a timer."""
        ...

    def trigger(self) -> None:
        """Fire: at the root this emits a pane, below it tells the parent."""
        ...

    def done(self) -> None:
        """Finish: nothing more is shown to this trigger in this window unless its parent resets it."""
        ...

    def is_finished(self, child: int | None = None) -> bool:
        """Tell whether this trigger, or its child at that place, has finished."""
        ...

    def invoke_child(self, child: int) -> ChildResult:
        """Show the event in hand to a child; a finished child sees nothing."""
        ...

    def reset_child(self, child: int) -> None:
        """Begin a new turn of a child: its state, timers and finish are gone, and those below it."""
        ...

    def reopen(self) -> None:
        """Take back a finish that the merged windows had brought along (in `on_merge`)."""
        ...


class Trigger:
    """When to emit; subclass `Trigger` for a leaf, `CompositeTrigger` for one with children.

    Source: the Dataflow Model paper, section 2.3.
    """

    children: ClassVar[tuple[Trigger, ...]] = ()
    waits_for_timer: ClassVar[bool] = False
    """Whether `on_element` does nothing while its timer without a tag is set; the evaluator then skips elements."""
    passes_elements_on: ClassVar[bool] = False
    """Whether `on_element` does nothing but show the element to the children whose turn it is."""

    def on_element(self, context: TriggerContext) -> None:
        """See an element as it is incorporated."""
        raise NotImplementedError

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """See one of its own timers."""
        raise NotImplementedError

    def on_merge(self, context: TriggerContext) -> None:
        """Build the state of the merged window from its sources; it starts out finished if every source was."""
        raise NotImplementedError

    def reset(self, context: TriggerContext) -> None:
        """Begin a new turn; state and timers have been cleared."""

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Tell whether it may finish in a window that has not expired, so that later data would be dropped."""
        del allowed_lateness
        return True

    def in_turn(self, children: Sequence[int], finished: int) -> Sequence[int]:
        """Return which children see elements; `finished` has a bit for each place that has finished."""
        del finished
        return children

    def lowered(self) -> Trigger:
        """Return the tree that is evaluated in its place; most triggers are their own."""
        return self

    def describe(self) -> str:
        """Say in words when it fires."""
        return repr(self)

    def or_finally(self, until: Trigger) -> OrFinally:
        """Fire as this one does, until `until` fires; then finish.

        Source: Beam Java's `orFinally`; the papers' RepeatUntil is `Repeatedly(t).or_finally(u)`.
        """
        from dataflow_model.triggers.composites import OrFinally

        return OrFinally(self, until)


class CompositeTrigger(Trigger):
    """A trigger over children, each with its own state, timers and finish; children are known by their place."""

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """See a timer that belongs to a child, or to something below it; `invoke_child(child)` hands it down."""
        raise NotImplementedError

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Tell whether it has finished, from which of its children have; asked after a merge."""
        raise NotImplementedError

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Composites set no timers of their own unless they say otherwise."""
        raise NotImplementedError

    def on_merge(self, context: TriggerContext) -> None:
        """Children have been merged already, in order; most composites have nothing to add."""


def check_trigger_type(value: object, name: str) -> Trigger:
    """Return `value` if it is a trigger; else an error that says what was given where."""
    if not isinstance(value, Trigger):
        raise InvalidType(
            explain(
                f"`{name}` must be a trigger, got {value!r} of type {type(value).__name__}",
                hint="for example dm.AfterCount(1)",
            )
        )
    return value
