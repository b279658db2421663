"""The windowing strategy: windows, trigger and accumulation mode as one reusable value."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.time import Duration, duration_text
from dataflow_model.triggers import DefaultTrigger, Trigger
from dataflow_model.windowing import GlobalWindows, WindowFn


class AccumulationMode(enum.Enum):
    """How a pane relates to the panes before it.

    `DISCARDING` and `ACCUMULATING`, Beam's names, are `CLEAR_ALWAYS` and `ACCUMULATE_ALWAYS`. With the two modes in
    between, a trigger's `FiringMode` can override the default.

    Example:
        >>> AccumulationMode.DISCARDING
        <AccumulationMode.CLEAR_ALWAYS: 'clear_always'>
    """

    CLEAR_ALWAYS = "clear_always"
    CLEAR_BY_DEFAULT = "clear_by_default"
    ACCUMULATE_BY_DEFAULT = "accumulate_by_default"
    ACCUMULATE_ALWAYS = "accumulate_always"
    DISCARDING = CLEAR_ALWAYS
    ACCUMULATING = ACCUMULATE_ALWAYS


class TimestampCombiner(enum.Enum):
    """The event time of a pane: that of its window's end, or of its earliest or latest element that was not late.

    `OUTPUT_AT_EOW`, `OUTPUT_AT_EARLIEST` and `OUTPUT_AT_LATEST` are Beam's names for them.
    """

    END_OF_WINDOW = "end_of_window"
    EARLIEST = "earliest"
    LATEST = "latest"
    OUTPUT_AT_EOW = END_OF_WINDOW
    OUTPUT_AT_EARLIEST = EARLIEST
    OUTPUT_AT_LATEST = LATEST


class OnTimeBehavior(enum.Enum):
    """Whether the firing when the watermark passes the end of the window emits a pane even if it has nothing new."""

    FIRE_ALWAYS = "fire_always"
    FIRE_IF_NON_EMPTY = "fire_if_non_empty"


class ClosingBehavior(enum.Enum):
    """Whether a window that expires emits a last pane even if it has nothing new."""

    FIRE_ALWAYS = "fire_always"
    FIRE_IF_NON_EMPTY = "fire_if_non_empty"


class LateData(enum.Enum):
    """What happens to an element whose window has expired: it is dropped and counted, or starts its window again."""

    DROP = "drop"
    DUPLICATE_WINDOW = "duplicate_window"


_OPTIONS: Final[dict[str, type[enum.Enum]]] = {
    "accumulation_mode": AccumulationMode,
    "on_time": OnTimeBehavior,
    "closing": ClosingBehavior,
    "timestamp_combiner": TimestampCombiner,
    "late_data": LateData,
}
"""The parts of a strategy that are members of an enum."""


@attrs.frozen
class WindowingStrategy:
    """How a collection is windowed and grouped, as one reusable value.

    Attributes:
        window_fn: the window function, which assigns elements to windows.
        trigger: when panes are emitted.
        accumulation_mode: how a pane relates to the panes before it.
        retracting: whether a pane retracts the pane before it.
        allowed_lateness: how long after the end of a window late elements are still accepted.
        on_time: whether an on-time pane is emitted even if it has nothing new.
        closing: whether a last pane is emitted at expiry even if it has nothing new.
        timestamp_combiner: how the event time of a pane is determined.
        late_data: what happens to elements of expired windows; `None` means the pipeline's default, which is to drop
            and count them.
        may_lose_data: whether a trigger that may finish before its window expires is accepted.
        merged: whether the windows have been merged by an earlier grouping, so that they do not merge again.

    Raises:
        InvalidType: for a part of another type.
        InvalidArgument: for a negative lateness, retractions with a clearing mode, or a trigger that may finish and
            lose data without `may_lose_data`.

    Source: Beam's `Windowing`; the papers' window function and trigger strategy in one.

    Example:
        >>> import dataflow_model as dm
        >>> hourly = dm.WindowingStrategy(dm.FixedWindows("1 hour"), allowed_lateness=dm.duration("10 minutes"))
        >>> numbers = dm.Pipeline() | dm.Create([1, 2]) | dm.Window.into(hourly)
        >>> numbers.strategy == hourly
        True
    """

    window_fn: WindowFn = attrs.field(factory=GlobalWindows)
    trigger: Trigger = attrs.field(factory=DefaultTrigger)
    accumulation_mode: AccumulationMode = AccumulationMode.CLEAR_ALWAYS
    retracting: bool = False
    allowed_lateness: Duration = Duration(0)
    on_time: OnTimeBehavior = OnTimeBehavior.FIRE_ALWAYS
    closing: ClosingBehavior = ClosingBehavior.FIRE_IF_NON_EMPTY
    timestamp_combiner: TimestampCombiner = TimestampCombiner.END_OF_WINDOW
    late_data: LateData | None = None
    may_lose_data: bool = False
    merged: bool = False

    def __attrs_post_init__(self) -> None:
        """Check the parts against each other."""
        if not isinstance(self.window_fn, WindowFn):
            raise InvalidType(
                f"`window_fn` must be a window function, got {self.window_fn!r}",
                hint="pass dm.FixedWindows('1 hour'), for example",
            )
        if not isinstance(self.trigger, Trigger):
            raise InvalidType(
                f"`trigger` must be a trigger, got {self.trigger!r}", hint="pass dm.AfterWatermark(), for example"
            )
        for name, options in _OPTIONS.items():
            value = getattr(self, name)
            if not isinstance(value, options) and (value is not None or name != "late_data"):
                raise InvalidType(
                    f"`{name}` must be a member of {options.__name__}, got {value!r}",
                    hint=f"use {next(iter(options))}, for example",
                )
        if self.allowed_lateness < Duration(0):
            raise InvalidArgument(
                f"`allowed_lateness` must not be negative, got {duration_text(self.allowed_lateness)!r}",
                hint="use 0 to drop all late data",
            )
        if self.retracting and not self.accumulates:
            raise InvalidArgument(
                f"a retracting strategy must accumulate, got {self.accumulation_mode}",
                hint="use AccumulationMode.ACCUMULATE_ALWAYS",
            )
        self.trigger.check_for(merging=self.merges)
        if not self.may_lose_data and self.trigger.may_finish(allowed_lateness=self.allowed_lateness):
            raise InvalidArgument(
                f"{self.trigger!r} may finish before its window expires, and later elements would be dropped",
                hint="wrap it in dm.Repeatedly(…), or accept the loss with trigger(…, may_lose_data=True)",
            )

    @property
    def accumulates(self) -> bool:
        """Whether a pane contains the elements of its window's earlier panes, unless a trigger overrides it."""
        return self.accumulation_mode in {AccumulationMode.ACCUMULATE_ALWAYS, AccumulationMode.ACCUMULATE_BY_DEFAULT}

    @property
    def merges(self) -> bool:
        """Whether windows of one key may still merge in the next grouping."""
        return self.window_fn.is_merging and not self.merged

    def after_grouping(self, label: str) -> WindowingStrategy:
        """Return the strategy of a grouping's output, with the trigger's continuation and without merging.

        Args:
            label: the label of the grouping, for errors.

        Raises:
            InvalidType: if a user's `continuation()` does not return a trigger.
            InvalidArgument: if the continuation may finish, so that later data would be dropped.

        Source: Beam's `getContinuationTrigger`.

        Example:
            >>> from dataflow_model.triggers import AfterCount, Repeatedly
            >>> WindowingStrategy(trigger=Repeatedly(AfterCount(9))).after_grouping("sums").trigger
            Repeatedly(AfterProcessingTime('0 seconds'))
        """
        trigger: object = self.trigger.continuation()
        if not isinstance(trigger, Trigger):
            raise InvalidType(
                f"the continuation of {self.trigger!r} after {label!r} must be a trigger, got {trigger!r}",
                hint=f"return one from {type(self.trigger).__name__}.continuation(), "
                "such as dm.Repeatedly(dm.AfterProcessingTime(0))",
            )
        if trigger.may_finish(allowed_lateness=self.allowed_lateness):
            raise InvalidArgument(
                f"{trigger!r}, which continues {self.trigger!r} after {label!r}, may finish before its window "
                "expires, and later elements would be dropped",
                hint=f"wrap it in dm.Repeatedly(…) in {type(self.trigger).__name__}.continuation()",
            )
        return attrs.evolve(self, trigger=trigger, may_lose_data=False, merged=self.merged or self.window_fn.is_merging)


DEFAULT_STRATEGY: Final = WindowingStrategy()
"""Global windows, default trigger, lateness 0, discarding."""
