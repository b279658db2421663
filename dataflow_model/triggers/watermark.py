"""Triggers that wait for the watermark to pass the end of the window."""

from __future__ import annotations

from typing import ClassVar, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import Duration
from dataflow_model.triggers.base import Trigger, check_trigger_type
from dataflow_model.triggers.contexts import LOW_WATERMARK, TimeDomain, TriggerContext

__all__ = ["AfterWatermark", "DefaultTrigger"]

_TAG: Final = ""
_EVENT_TIME: Final = TimeDomain.EVENT_TIME


@attrs.frozen(repr=False)
class AfterWatermark(Trigger):
    """Fire when the watermark passes the end of the window; once, or with refinements before and after.

    Alone it fires once. With `early=` that trigger repeats until then; with `late=` that one repeats from then on.
    A turn that begins when the watermark is already past fires at the next element.

    Args:
        early: fires speculative panes until the watermark passes the end of the window.
        late: fires refinements for late data; without it the trigger finishes with the on-time pane.
        percentile: which percentile of the watermark to wait for; 100 is the low watermark. `early` and `late` go
            with that one only.

    Raises:
        InvalidType: when `early` or `late` is no trigger.
        InvalidArgument: for a percentile outside `(0, 100]`, or one below 100 beside `early` or `late`.

    Source: the papers' AtWatermark and WatermarkPercentile; Beam's `AfterWatermark(early, late)`.

    Example:
        >>> from dataflow_model.triggers import AfterCount, AfterProcessingTime
        >>> AfterWatermark(early=AfterProcessingTime("1 minute"), late=AfterCount(1))
        AfterWatermark(early=AfterProcessingTime('1 minute'), late=AfterCount(1))
        >>> AfterWatermark(percentile=95)
        AfterWatermark(percentile=95)
    """

    waits_for_timer: ClassVar[bool] = True

    early: Trigger | None = None
    late: Trigger | None = None
    percentile: float = attrs.field(default=LOW_WATERMARK, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the parts."""
        for name in ("early", "late"):
            if getattr(self, name) is not None:
                check_trigger_type(getattr(self, name), name)
        if not 0 < self.percentile <= LOW_WATERMARK:
            raise InvalidArgument(
                f"`percentile` must be in (0, 100], got {self.percentile!r}",
                hint="use percentile=95 to wait for 95 of 100 elements, or leave it out to wait for all",
            )
        if self.percentile != LOW_WATERMARK and not (self.early is None and self.late is None):
            raise InvalidArgument(
                f"`early` and `late` require `percentile` 100, the low watermark, got {self.percentile!r}",
                hint="use AfterEach(AfterWatermark(percentile=…), AfterWatermark(…))",
            )

    @property
    def percentiles(self) -> tuple[float, ...]:  # type: ignore[override]
        """The percentile that it waits for, unless that is the low watermark."""
        return () if self.percentile == LOW_WATERMARK else (float(self.percentile),)

    def lowered(self) -> Trigger:
        """Return the tree of its parts; see the class."""
        from dataflow_model.triggers.composites import AfterEach
        from dataflow_model.triggers.repetition import Repeatedly

        if self.early is None and self.late is None:
            return self
        first: Trigger = AfterWatermark()
        if self.early is not None:
            first = Repeatedly(self.early).or_finally(first)
        return first if self.late is None else AfterEach(first, Repeatedly(self.late))

    def on_element(self, context: TriggerContext) -> None:
        """Wait for the end of the window, or fire at once where it has passed."""
        if self._has_passed(context):
            context.trigger()
            context.done()
        elif context.get_timer(_TAG) is None:
            self._wait(context)

    def on_retraction(self, context: TriggerContext) -> None:
        """Do as for an element: the pane has changed."""
        self.on_element(context)

    def on_timer(self, context: TriggerContext, tag: str) -> None:
        """Fire: the watermark has passed the end."""
        del tag
        context.trigger()
        context.done()

    def reset(self, context: TriggerContext) -> None:
        """Wait for the end of the window from the turn's beginning: it may pass before another element comes."""
        if not self._has_passed(context):
            self._wait(context)

    def on_merge(self, context: TriggerContext) -> None:
        """Rewind to unfired where the merged window ends ahead of the watermark."""
        if not self._has_passed(context):
            context.reopen()
        if not context.is_finished():
            self._wait(context)

    def _has_passed(self, context: TriggerContext) -> bool:
        return int(context.now(_EVENT_TIME, self.percentile)) >= int(context.window.end)

    def _wait(self, context: TriggerContext) -> None:
        context.set_timer(_TAG, context.window.end, _EVENT_TIME, self.percentile)

    def may_finish(self, *, allowed_lateness: Duration) -> bool:
        """Finishing with the watermark loses data only where late data are allowed and no `late=` waits for them.

        Another percentile passes before all data are believed seen, and so always may.
        """
        return self.late is None and (allowed_lateness > Duration(0) or self.percentile != LOW_WATERMARK)

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """The low watermark fires it as the window expires, unless late data are allowed."""
        early = self.early is not None and self.early.may_fire(allowed_lateness=allowed_lateness)
        return early or allowed_lateness > Duration(0) or self.percentile != LOW_WATERMARK

    def continuation(self) -> Trigger:
        """Wait for the watermark again, with `AfterProcessingTime(0)` before and after it; see `Trigger.continuation`.

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
        """Check the parts."""
        for part in (self.early, self.late):
            if part is not None:
                part.check_for(merging=merging)

    def describe(self) -> str:
        """Say in words when it fires."""
        if self.percentile != LOW_WATERMARK:
            return f"when the {self.percentile:g} % watermark passes the end of the window"
        words = ["on time: when the watermark passes the end of the window"]
        if self.early is not None:
            words.insert(0, f"early: {self.early.describe_repeated()}")
        if self.late is not None:
            words.append(f"late: {self.late.describe_repeated()}")
        return "; ".join(words)

    def describe_repeated(self) -> str:
        """Say in words when it fires, started over each time."""
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
        """Never."""
        del allowed_lateness
        return False

    def may_fire(self, *, allowed_lateness: Duration) -> bool:
        """As the window expires, unless late data are allowed."""
        return allowed_lateness > Duration(0)

    def describe(self) -> str:
        """Say in words when it fires."""
        return "on time: when the watermark passes the end of the window; late: at each element"
