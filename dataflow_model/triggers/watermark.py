"""Triggers that wait for the watermark to pass the end of the window."""

from __future__ import annotations

from typing import Final, SupportsFloat

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.overriding import override
from dataflow_model.time import Duration, EventTime
from dataflow_model.triggers.base import Trigger, check_trigger_type
from dataflow_model.triggers.contexts import LOW_WATERMARK, TimeDomain, TriggerContext

_TAG: Final = ""
_EVENT_TIME: Final = TimeDomain.EVENT_TIME


@attrs.frozen(repr=False)
class AfterWatermark(Trigger):
    """Fire when the watermark passes the end of the window; once, or with refinements before and after.

    Without arguments it fires once. The trigger `early` repeats until the watermark passes the end of the window, and
    the trigger `late` repeats from then on. If the watermark has already passed the end when a turn begins, the trigger
    fires at the next element.

    Args:
        early: emits speculative panes until the watermark passes the end of the window.
        late: emits refinements for late data; without it the trigger finishes with the on-time pane.
        percentile: the percentile of the watermark to wait for; 100 is the low watermark, the only one that can be
            combined with `early` and `late`.

    Raises:
        InvalidType: if `early` or `late` is not a trigger, or the percentile is no number.
        InvalidArgument: for a percentile outside `(0, 100]`, or one below 100 beside `early` or `late`.

    Source: the papers' AtWatermark and WatermarkPercentile; Beam's `AfterWatermark(early, late)`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterWatermark(early=AfterProcessingTime("1 minute"), late=AfterCount(1))
        AfterWatermark(early=AfterProcessingTime('1 minute'), late=AfterCount(1))
        >>> AfterWatermark(percentile=95)
        AfterWatermark(percentile=95)
    """

    early: Trigger | None = None
    late: Trigger | None = None
    percentile: float = attrs.field(default=LOW_WATERMARK, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check `early` and `late`."""
        for name in ("early", "late"):
            if getattr(self, name) is not None:
                check_trigger_type(getattr(self, name), name)
        if not isinstance(self.percentile, SupportsFloat):
            raise InvalidType(
                f"`percentile` must be a number, got {self.percentile!r}",
                hint="use percentile=95, or leave it out to wait for all of the source's origins",
            )
        if not 0 < self.percentile <= LOW_WATERMARK:
            raise InvalidArgument(
                f"`percentile` must be in (0, 100], got {self.percentile!r}",
                hint="use percentile=95 to wait for 95 % of the source's origins, or leave it out to wait for all",
            )
        if self.percentile != LOW_WATERMARK and not (self.early is None and self.late is None):
            raise InvalidArgument(
                f"`early` and `late` require `percentile` 100, the low watermark, got {self.percentile!r}",
                hint="use AfterEach(AfterWatermark(percentile=…), AfterWatermark(…))",
            )

    @property
    def percentiles(self) -> tuple[float, ...]:  # type: ignore[override]
        """The percentile to wait for; empty for the low watermark."""
        return () if self.percentile == LOW_WATERMARK else (float(self.percentile),)

    def lowered(self) -> Trigger:
        """Return the equivalent tree of `early`, on-time and `late` triggers."""
        from dataflow_model.triggers.composites import AfterEach
        from dataflow_model.triggers.repetition import Repeatedly

        if self.early is None and self.late is None:
            return self
        first: Trigger = AfterWatermark()
        if self.early is not None:
            first = Repeatedly(self.early).or_finally(first)
        return first if self.late is None else AfterEach(first, Repeatedly(self.late))

    def on_element(self, context: TriggerContext) -> None:
        """Wait for the end of the window, or fire immediately if the watermark has passed it."""
        if self._has_passed(context):
            context.trigger()
            context.done()
        elif context.get_timer(_TAG) is None:
            self._wait(context)

    def on_retraction(self, context: TriggerContext) -> None:
        """Handle it like an element, since the pane has changed."""
        self.on_element(context)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Fire, since the watermark has passed the end of the window."""
        del tag
        context.trigger()
        context.done()

    def reset(self, context: TriggerContext) -> None:
        """Wait for the end of the window right away: the watermark may pass it before another element arrives."""
        if not self._has_passed(context):
            self._wait(context)

    def on_merge(self, context: TriggerContext) -> None:
        """Become unfinished again if the merged window ends after the watermark."""
        if not self._has_passed(context):
            context.reopen()
        if not context.is_finished():
            self._wait(context)

    def _has_passed(self, context: TriggerContext) -> bool:
        return int(context.now(_EVENT_TIME, self.percentile)) >= int(context.window.end)

    def _wait(self, context: TriggerContext) -> None:
        context.set_timer(_TAG, EventTime(context.window.end), _EVENT_TIME, self.percentile)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return whether data may arrive after the trigger has finished.

        For the low watermark that is so if late data are allowed and there is no `late` trigger. Another percentile
        passes the end of the window before all data are believed to have arrived, so the result is always `True`.
        """
        return self.late is None and (allowed_lateness > Duration(0) or self.percentile != LOW_WATERMARK)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether the trigger may fire before expiry: for the low watermark, only if late data are allowed."""
        early = self.early is not None and self.early.may_fire(allowed_lateness=allowed_lateness)
        return early or allowed_lateness > Duration(0) or self.percentile != LOW_WATERMARK

    def continuation(self) -> Trigger:
        """Return `AfterWatermark` with `AfterProcessingTime(0)` as `early` and `late`; see `Trigger.continuation`.

        Example:
            >>> from dataflow_model.triggers import AfterCount
            >>> AfterWatermark(early=AfterCount(100)).continuation()
            AfterWatermark(early=AfterProcessingTime('0 seconds'), late=AfterProcessingTime('0 seconds'))
            >>> AfterWatermark().continuation()
            DefaultTrigger()
        """
        from dataflow_model.triggers.continuation import END_OF_TICK

        if self.percentile != LOW_WATERMARK:
            return super().continuation()
        if self.early is None and self.late is None:
            return DefaultTrigger()
        return AfterWatermark(early=None if self.early is None else END_OF_TICK, late=END_OF_TICK)

    def check_for(self, *, merging: bool) -> None:
        """Check `early` and `late`."""
        for part in (self.early, self.late):
            if part is not None:
                part.check_for(merging=merging)

    @override
    def describe(self) -> str:
        if self.percentile != LOW_WATERMARK:
            return f"when the {self.percentile:g} % watermark passes the end of the window"
        words = ["on time: when the watermark passes the end of the window"]
        if self.early is not None:
            words.insert(0, f"early: {self.early.describe_repeated()}")
        if self.late is not None:
            words.append(f"late: {self.late.describe_repeated()}")
        return "; ".join(words)

    @override
    def describe_repeated(self) -> str:
        if self.early is None and self.late is None and self.percentile == LOW_WATERMARK:
            return DefaultTrigger().describe()
        return super().describe_repeated()

    def __repr__(self) -> str:
        parts = [f"{name}={value!r}" for name in ("early", "late") if (value := getattr(self, name)) is not None]
        if self.percentile != LOW_WATERMARK:
            parts.append(f"percentile={self.percentile!r}")
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
        from dataflow_model.triggers.repetition import Repeatedly

        return Repeatedly(AfterWatermark())

    def continuation(self) -> Trigger:
        """Continue as itself."""
        return self

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Return `False`."""
        del allowed_lateness
        return False

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """Return whether late data are allowed; otherwise the window expires when the trigger fires."""
        return allowed_lateness > Duration(0)

    @override
    def describe(self) -> str:
        return "on time: when the watermark passes the end of the window; late: at each element"
