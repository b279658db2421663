"""Triggers that wait for a delay after the first element of their turn, in either time domain."""

from __future__ import annotations

from typing import Final

import attrs

from dataflow_model.arguments import nonnegative_duration
from dataflow_model.overriding import override
from dataflow_model.time import (
    Duration,
    DurationLike,
    EventTime,
    Instant,
    ProcessingTime,
    duration_text,
)
from dataflow_model.triggers.base import Trigger
from dataflow_model.triggers.contexts import TimeDomain, TriggerContext

_TAG: Final = ""


class Deadline(Trigger):
    """The base of triggers that fire at a deadline which the first element of their turn sets."""

    @property
    def _domain(self) -> TimeDomain:
        raise NotImplementedError

    def _deadline(self, context: TriggerContext) -> int:
        """Return the deadline that the current element sets."""
        raise NotImplementedError

    def on_element(self, context: TriggerContext) -> None:
        """Set the deadline at the first element of the turn."""
        if context.get_timer(_TAG) is None:
            self._wait_until(context, self._deadline(context))

    def on_retraction(self, context: TriggerContext) -> None:
        """Handle it like an element, since the pane has changed."""
        self.on_element(context)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Fire, since the deadline has been reached."""
        del tag
        context.trigger()
        context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Keep the earliest deadline."""
        deadlines = [context.lookup_source_state(window, _TAG) for window in context.sources]
        pending = [deadline for deadline in deadlines if deadline is not None]
        if pending and not context.is_finished():
            self._wait_until(context, min(pending))

    def _wait_until(self, context: TriggerContext, deadline: int) -> None:
        at: Instant = (EventTime if self._domain is TimeDomain.EVENT_TIME else ProcessingTime)(deadline)
        context.store_state(_TAG, deadline)  # for a window into which this one may merge
        context.set_timer(_TAG, at, self._domain)


class _Delay(Deadline):
    """The base of the two delays."""

    delay: Duration

    def __init__(self, delay: DurationLike = 0) -> None:
        hint = "use 0 to fire at the end of the tick, or a delay such as '1 minute'"
        length = nonnegative_duration("delay", delay, hint)
        self.__attrs_init__(length)  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({duration_text(self.delay)!r})"


@attrs.frozen(repr=False, init=False)
class AfterProcessingTime(_Delay):
    """Fire when the processing clock reaches the time of the first element since its turn began, plus a delay.

    A pane that a sibling fires does not reset the delay; windows that merge keep the earliest deadline.

    Args:
        delay: the time to wait after the first element.

    Raises:
        InvalidArgument: for a negative delay.

    Source: the papers' AfterDelay(delay, WALL_TIME); Beam's `AfterProcessingTime`.

    Example:
        >>> AfterProcessingTime("90 seconds")
        AfterProcessingTime('90 seconds')
    """

    delay: Duration

    @property
    def _domain(self) -> TimeDomain:
        return TimeDomain.PROCESSING_TIME

    def _deadline(self, context: TriggerContext) -> int:
        return int(ProcessingTime(context.now(TimeDomain.PROCESSING_TIME)) + self.delay)

    @override
    def describe(self) -> str:
        if not self.delay:
            return "at the end of the tick in which the first element arrives"
        return f"{duration_text(self.delay)} of processing time after the first element"

    @override
    def describe_repeated(self) -> str:
        if not self.delay:
            return "at the end of each tick in which elements arrive"
        return f"every {duration_text(self.delay).removeprefix('1 ')} of processing time, from the first new element"


@attrs.frozen(repr=False, init=False)
class AfterEventTime(_Delay):
    """Fire when the watermark reaches the event time of the first element since its turn began, plus a delay.

    If the watermark is already that far past the element, the trigger fires immediately. A pane that a sibling fires
    does not reset the delay; windows that merge keep the earliest deadline.

    Args:
        delay: the time to wait after the first element's event time. For an element without one the wait is over at
            once, since its event time is −∞.

    Raises:
        InvalidArgument: for a negative delay.

    Source: the papers' AfterDelay(delay, STREAM_TIME).

    Example:
        >>> AfterEventTime("2 days")
        AfterEventTime('2 days')
    """

    delay: Duration

    @property
    def _domain(self) -> TimeDomain:
        return TimeDomain.EVENT_TIME

    def _deadline(self, context: TriggerContext) -> int:
        return int(context.event_time + self.delay)

    @override
    def describe(self) -> str:
        return f"when the watermark is {duration_text(self.delay)} past the first element"

    @override
    def describe_repeated(self) -> str:
        return f"every {duration_text(self.delay).removeprefix('1 ')} of event time, from the first new element"
