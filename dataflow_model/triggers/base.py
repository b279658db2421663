"""What a trigger is: callbacks on the events of one window.

A trigger is a frozen value; what it remembers of a window lives in the context's state, under its own place in the
tree. So one trigger value serves every key and window, and state pickles.

Source: the trigger API of the Dataflow Model's source design: `on_element`, `on_merge`, `on_timer`, `reset`, and for
composites `on_child_timer`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.triggers.contexts import ChildResult, FiringMode, Outcome, Sight, TimeDomain, TriggerContext

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import Duration
    from dataflow_model.triggers.repetition import OrFinally

__all__ = [
    "ChildResult",
    "CompositeTrigger",
    "FiringMode",
    "Outcome",
    "Sight",
    "TimeDomain",
    "Trigger",
    "TriggerContext",
]


class Trigger:
    """When to emit; subclass `Trigger` for a leaf, `CompositeTrigger` for one with children.

    A subclass is a frozen attrs class, so that its `repr`, which names it in panes, evaluates to itself.

    Source: the Dataflow Model paper, section 2.3.
    """

    children: ClassVar[tuple[Trigger, ...]] = ()
    signals: ClassVar[frozenset[str]] = frozenset()
    """The names of the signals that `on_signal` waits for."""
    percentiles: ClassVar[tuple[float, ...]] = ()
    """The percentiles of the watermark, below 100, that it asks for."""
    reads_history: ClassVar[bool] = False
    """Whether it calls `trigger_history()`: the panes of a window are remembered only for triggers that do."""
    waits_for_timer: ClassVar[bool] = False
    """Whether `on_element` does nothing while its timer without a tag is set; the evaluator then skips elements."""
    ignores_elements: ClassVar[bool] = False
    """Whether `on_element` and `on_retraction` do nothing at all; the evaluator then skips elements."""
    passes_elements_on: ClassVar[bool] = False
    """Whether `on_element` does nothing but show the element to the children whose turn it is."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Drop what a base class declares of its `on_element` where the subclass has one of its own."""
        super().__init_subclass__(**kwargs)
        if "on_element" in vars(cls):
            for name in {"waits_for_timer", "ignores_elements", "passes_elements_on"} - vars(cls).keys():
                setattr(cls, name, False)

    def on_element(self, context: TriggerContext) -> None:
        """See an element as it is incorporated."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_element(self, context)`")

    def on_retraction(self, context: TriggerContext) -> None:
        """See an element that takes an earlier one back and brings none instead; most triggers take no notice."""

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """See one of its own timers."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_timer(self, context, tag)`")

    def on_signal(self, context: TriggerContext, name: str) -> None:
        """See a signal from outside; every trigger of the tree is shown it, whatever its name."""

    def on_merge(self, context: TriggerContext) -> None:
        """Build the state of the merged window from its sources; it starts out finished if every source was."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_merge(self, context)`")

    def reset(self, context: TriggerContext) -> None:
        """Begin a new turn; state and timers have been cleared."""

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Tell whether it may finish in a window that has not expired, so that later data would be dropped."""
        del allowed_lateness
        return True

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Tell whether it may fire in a window that has not expired."""
        del allowed_lateness
        return True

    def continuation(self) -> Trigger:
        """Return the trigger that the next grouping inherits; `Repeatedly(AfterProcessingTime(0))` unless overridden.

        A grouping whose input comes from another grouping, without a `Window.into` or `Window.trigger` between the
        two, does not wait for this trigger a second time: it emits a pane at the end of each tick that brought
        something. Override this for a trigger that should continue as something else. What is returned must never
        finish; a grouping refuses it otherwise, since data would be lost.

        The built-in triggers continue as follows, where `A` is `AfterProcessingTime(0)`:

        * `AfterWatermark(early, late)` as `AfterWatermark(early=A, late=A)`, without `early` if it has none;
          `AfterWatermark()` and `DefaultTrigger()` as `DefaultTrigger()`;
        * `Always()` and `Never()` as themselves;
        * other trees as `AfterWatermark(early=A, late=A)` if one of their leaves waits for the low watermark, else as
          `Repeatedly(A)`.

        So the continuation of such a continuation is itself.

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
        """Refuse a window function that the tree cannot go with.

        Args:
            merging: whether windows of the function may merge.

        Raises:
            InvalidArgument: where windows merge and a trigger does not say what becomes of its state then.
        """
        tree = self.lowered()
        if merging and type(tree).on_merge is Trigger.on_merge:
            raise InvalidArgument(
                f"{self!r} does not define how its state is merged when windows merge",
                hint=f"define on_merge in {type(self).__name__}, or use windows that do not merge",
            )
        for child in tree.children:
            child.check_for(merging=merging)

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

    def describe_repeated(self) -> str:
        """Say in words when it fires if it is started over each time that it finishes."""
        return f"repeatedly: {self.describe()}"

    def or_finally(self, until: Trigger) -> OrFinally:
        """Fire as this one does, until `until` fires; then finish.

        Source: Beam Java's `orFinally`; the papers' RepeatUntil is `Repeatedly(t).or_finally(u)`.
        """
        from dataflow_model.triggers.repetition import OrFinally

        return OrFinally(self, until)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class CompositeTrigger(Trigger):
    """A trigger over children, each with its own state, timers and finish; children are known by their place.

    A subclass has a field or property `children`, a tuple. Unless it says otherwise it sees signals and retractions in
    `on_element` too: whatever the event is, `invoke_child(child)` shows it to a child.
    """

    def on_retraction(self, context: TriggerContext) -> None:
        """See an element that takes an earlier one back."""
        self.on_element(context)

    def on_signal(self, context: TriggerContext, name: str) -> None:
        """See a signal from outside."""
        del name
        self.on_element(context)

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """See a timer that belongs to a child, or to something below it; `invoke_child(child)` hands it down."""
        raise NotImplementedError(f"{type(self).__name__} must define `on_child_timer(self, context, child)`")

    def on_child_timers(self, context: TriggerContext, children: Sequence[int]) -> None:
        """See the timers of several children that are due in one event; unless it says otherwise, one by one."""
        for child in children:
            self.on_child_timer(context, child)

    def finished_from(self, children: Sequence[bool]) -> bool:
        """Tell whether it has finished, from which of its children have; asked after a merge."""
        raise NotImplementedError(f"{type(self).__name__} must define `finished_from(self, children)`")

    def on_merge(self, context: TriggerContext) -> None:
        """Children have been merged already, in order; most composites have nothing to add."""

    def check_for(self, *, merging: bool) -> None:
        """Refuse a window function that the tree cannot go with; see `Trigger.check_for`."""
        if merging and type(self).finished_from is CompositeTrigger.finished_from:
            raise InvalidArgument(
                f"{self!r} does not define whether it has finished when windows merge",
                hint=f"define finished_from in {type(self).__name__}, or use windows that do not merge",
            )
        super().check_for(merging=merging)


class SideBySide(CompositeTrigger):
    """A composite that shows each event to all the children that it concerns, at once."""

    passes_elements_on: ClassVar[bool] = True

    def on_element(self, context: TriggerContext) -> None:
        """Show it to every child."""
        self.show(context, range(len(self.children)))

    def on_child_timer(self, context: TriggerContext, child: int) -> None:
        """Hand it down."""
        self.show(context, (child,))

    def on_child_timers(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Hand them down together."""
        self.show(context, children)

    def show(self, context: TriggerContext, children: Sequence[int]) -> None:
        """Show the event in hand to some children, and do what follows from what they did."""
        raise NotImplementedError(f"{type(self).__name__} must define `show(self, context, children)`")


def check_trigger_type(value: object, name: str) -> Trigger:
    """Return `value` if it is a trigger; else an error that says what was given where."""
    if not isinstance(value, Trigger):
        raise InvalidType(
            f"`{name}` must be a trigger, got {value!r} of type {type(value).__name__}",
            hint="pass dm.AfterCount(1), for example",
        )
    return value
