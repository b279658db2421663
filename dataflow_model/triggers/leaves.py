"""The leaves of the trigger tree: the watermark, a delay, a count."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType, NotYetSupported, explain
from dataflow_model.time import Duration, DurationLike, ProcessingTime, duration, duration_text
from dataflow_model.triggers.base import TimeDomain, Trigger, TriggerContext, check_trigger_type

__all__ = ["AfterCount", "AfterProcessingTime", "AfterWatermark", "DefaultTrigger"]

_TAG: Final = ""


@attrs.frozen(repr=False)
class AfterWatermark(Trigger):
    """Fire when the watermark passes the end of the window; once, or with refinements before and after.

    Alone it fires once. With `early=` that trigger repeats until then; with `late=` that one repeats from then on.
    A turn that begins when the watermark is already past fires at the next element.

    Args:
        early: fires speculative panes until the watermark passes the end of the window.
        late: fires refinements for late data; without it the trigger finishes with the on-time pane.
        percentile: which percentile of the watermark to wait for; 100, the low watermark, is the one there is yet.

    Raises:
        InvalidType: when `early` or `late` is no trigger.
        InvalidArgument: for a percentile outside `(0, 100]`.

    Source: the papers' AtWatermark; Beam's `AfterWatermark(early, late)`.

    Example:
        >>> AfterWatermark(early=AfterProcessingTime("1 minute"), late=AfterCount(1))
        AfterWatermark(early=AfterProcessingTime('1 minute'), late=AfterCount(1))
    """

    waits_for_timer: ClassVar[bool] = True

    early: Trigger | None = None
    late: Trigger | None = None
    percentile: float = attrs.field(default=100, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the parts."""
        for name in ("early", "late"):
            if getattr(self, name) is not None:
                check_trigger_type(getattr(self, name), name)
        if not 0 < self.percentile <= 100:  # noqa: PLR2004 - a percentage
            raise InvalidArgument(f"`percentile` must be in (0, 100], got {self.percentile!r}")
        if self.percentile != 100:  # noqa: PLR2004
            raise NotYetSupported(explain("percentile watermarks are not there yet", hint="leave `percentile` at 100"))

    def lowered(self) -> Trigger:
        """Return the tree of its parts; see the class."""
        from dataflow_model.triggers.composites import AfterEach, OrFinally, Repeatedly

        if self.early is None and self.late is None:
            return self
        first: Trigger = AfterWatermark()
        if self.early is not None:
            first = OrFinally(Repeatedly(self.early), first)
        return first if self.late is None else AfterEach(first, Repeatedly(self.late))

    def on_element(self, context: TriggerContext) -> None:
        """Wait for the end of the window, or fire at once where it has passed."""
        end = context.window.end
        if context.now(TimeDomain.EVENT_TIME) >= end:
            context.trigger()
            context.done()
        elif context.get_timer(_TAG) is None:
            context.set_timer(_TAG, end, TimeDomain.EVENT_TIME)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Fire: the watermark has passed the end."""
        del tag
        context.trigger()
        context.done()

    def reset(self, context: TriggerContext) -> None:
        """Wait for the end of the window from the turn's beginning: it may pass before another element comes."""
        if context.now(TimeDomain.EVENT_TIME) < context.window.end:
            context.set_timer(_TAG, context.window.end, TimeDomain.EVENT_TIME)

    def on_merge(self, context: TriggerContext) -> None:
        """Rewind to unfired where the merged window ends ahead of the watermark."""
        if context.window.end > context.now(TimeDomain.EVENT_TIME):
            context.reopen()
        if not context.is_finished():
            context.set_timer(_TAG, context.window.end, TimeDomain.EVENT_TIME)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Finishing with the watermark loses data only where late data are allowed and no `late=` waits for them."""
        return self.late is None and allowed_lateness > Duration(0)

    def describe(self) -> str:
        """Say in words when it fires."""
        words = ["on time: when the watermark passes the end of the window"]
        if self.early is not None:
            words.insert(0, f"early: {repeated(self.early)}")
        if self.late is not None:
            words.append(f"late: {repeated(self.late)}")
        return "; ".join(words)

    def __repr__(self) -> str:
        parts = [f"{name}={value!r}" for name in ("early", "late") if (value := getattr(self, name)) is not None]
        return f"AfterWatermark({', '.join(parts)})"


@attrs.frozen
class DefaultTrigger(Trigger):
    """Fire each time the watermark passes the end of the window: once on time, then for each late element.

    Source: Beam's `DefaultTrigger`; it is `Repeatedly(AfterWatermark())`.

    Example:
        >>> DefaultTrigger().lowered()
        Repeatedly(AfterWatermark())
    """

    def lowered(self) -> Trigger:
        """Return `Repeatedly(AfterWatermark())`."""
        from dataflow_model.triggers.composites import Repeatedly

        return Repeatedly(AfterWatermark())

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Never."""
        del allowed_lateness
        return False

    def describe(self) -> str:
        """Say in words when it fires."""
        return "on time: when the watermark passes the end of the window; late: at each element"


@attrs.frozen(repr=False, init=False)
class AfterProcessingTime(Trigger):
    """Fire when the processing clock reaches the time of the first element since its turn began, plus a delay.

    A pane that a sibling fires does not reset the delay; windows that merge keep the earliest deadline.

    Args:
        delay: how long after the first element; not negative.

    Source: the papers' AfterDelay(delay, WALL_TIME); Beam's `AfterProcessingTime`.

    Example:
        >>> AfterProcessingTime("90 seconds")
        AfterProcessingTime('90 seconds')
    """

    waits_for_timer: ClassVar[bool] = True

    delay: Duration

    def __init__(self, delay: DurationLike = 0) -> None:
        length = duration(delay)
        if length < Duration(0):
            raise InvalidArgument(f"`delay` must not be negative, got {length!r}")
        self.__attrs_init__(length)  # pyright: ignore[reportAttributeAccessIssue] - attrs makes it

    def on_element(self, context: TriggerContext) -> None:
        """Set the deadline at the first element of the turn."""
        if context.get_timer(_TAG) is None:
            now = context.now(TimeDomain.PROCESSING_TIME)
            context.set_timer(_TAG, ProcessingTime(now) + self.delay, TimeDomain.PROCESSING_TIME)
            context.store_state(_TAG, int(now) + int(self.delay))

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Fire: the delay is over."""
        del tag
        context.trigger()
        context.done()

    def on_merge(self, context: TriggerContext) -> None:
        """Keep the earliest deadline."""
        deadlines = [context.lookup_source_state(window, _TAG) for window in context.sources]
        pending = [deadline for deadline in deadlines if deadline is not None]
        if pending and not context.is_finished():
            context.store_state(_TAG, min(pending))
            context.set_timer(_TAG, ProcessingTime(min(pending)), TimeDomain.PROCESSING_TIME)

    def describe(self) -> str:
        """Say in words when it fires."""
        return f"{duration_text(self.delay)} of processing time after the first element"

    def __repr__(self) -> str:
        return f"AfterProcessingTime({duration_text(self.delay)!r})"


@attrs.frozen(repr=False)
class AfterCount(Trigger):
    """Fire once n elements have come in its turn.

    Elements count one by one, wherever bundles are cut; counts of windows that merge add up.

    Args:
        n: how many; at least 1.

    Source: the papers' AtCount; Beam's `AfterCount`, which sees whole bundles.

    Example:
        >>> AfterCount(2)
        AfterCount(2)
    """

    n: int

    def __attrs_post_init__(self) -> None:
        """Check the number."""
        given: object = self.n
        if not isinstance(given, int) or isinstance(given, bool):
            raise InvalidType(f"`n` must be an int, got {given!r}")
        if given < 1:
            raise InvalidArgument(
                explain(f"`n` must be at least 1, got {given!r}", hint="AfterCount(1) fires at each element")
            )

    def on_element(self, context: TriggerContext) -> None:
        """Count, and fire at the n-th."""
        count = context.lookup_state(_TAG, 0) + 1
        if count >= self.n:
            context.trigger()
            context.done()
        else:
            context.store_state(_TAG, count)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Sets no timers."""

    def on_merge(self, context: TriggerContext) -> None:
        """Add up."""
        if not context.is_finished():
            context.store_state(_TAG, sum(context.lookup_source_state(window, _TAG, 0) for window in context.sources))

    def describe(self) -> str:
        """Say in words when it fires."""
        return "at an element" if self.n == 1 else f"at {self.n} elements"

    def __repr__(self) -> str:
        return f"AfterCount({self.n})"


def repeated(trigger: Trigger) -> str:
    """Say in words when a trigger fires that starts over each time."""
    match trigger:
        case AfterCount(n=1):
            return "at each element"
        case AfterCount(n=n):
            return f"at every {n} elements"
        case AfterProcessingTime(delay=delay):
            return f"every {duration_text(delay).removeprefix('1 ')} of processing time, from the first new element"
        case AfterWatermark(early=None, late=None):
            return DefaultTrigger().describe()
        case _:
            return f"again and again, {trigger.describe()}"
