"""Windowing strategies of Beam's as ours: window functions, triggers and modes."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders import coders
from apache_beam.portability.api import beam_runner_api_pb2 as proto
from apache_beam.transforms import trigger as beam_trigger
from apache_beam.transforms import window as beam_window

from dataflow_model import triggers
from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.logical.strategy import (
    AccumulationMode,
    ClosingBehavior,
    OnTimeBehavior,
    TimestampCombiner,
    WindowingStrategy,
)
from dataflow_model.runners.beam.functions.times import Windows, beam_timestamp, our_time
from dataflow_model.time import Duration, EventTime
from dataflow_model.windowing import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dataflow_model.values import Window

_MILLISECOND: Final = 1_000
_FOREVER: Final = 1 << 62
"""The greatest lateness, in microseconds."""
_ON_TIME: Final = {proto.OnTimeBehavior.FIRE_ALWAYS: OnTimeBehavior.FIRE_ALWAYS}
_TIMESTAMPS: Final = {
    proto.OutputTime.END_OF_WINDOW: TimestampCombiner.END_OF_WINDOW,
    proto.OutputTime.EARLIEST_IN_PANE: TimestampCombiner.EARLIEST,
    proto.OutputTime.LATEST_IN_PANE: TimestampCombiner.LATEST,
}


class BeamWindowFn(WindowFn):
    """A window function of a user of Beam's, or one that is not among ours.

    Args:
        fn: the function.
    """

    def __init__(self, fn: Any) -> None:
        self.fn = fn

    @property
    def coder(self) -> Any:
        """Beam's coder of its windows."""
        return self.fn.get_window_coder()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BeamWindowFn) and bool(self.fn == other.fn)

    def __hash__(self) -> int:
        return hash(type(self.fn))

    def __repr__(self) -> str:
        return f"{type(self.fn).__name__} of Beam"

    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        """Return the windows of an element."""
        context = beam_window.WindowFn.AssignContext(beam_timestamp(int(event_time)), element)
        return Windows(self.coder).from_beam(tuple(self.fn.assign(context)))


class BeamMergingFn(BeamWindowFn):
    """A window function of a user of Beam's whose windows merge."""

    is_merging = True
    merges_apart = True  # Beam's runners show it all windows of a key

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        """Return pairs: the windows to merge, and the window that they become."""
        convert = Windows(self.coder)
        merged: list[tuple[list[Any], Any]] = []

        class Context(beam_window.WindowFn.MergeContext):  # type: ignore[misc] # Beam ships no types that mypy takes
            def merge(self, to_be_merged: Iterable[Any], merge_result: Any) -> None:
                merged.append((list(to_be_merged), merge_result))

        self.fn.merge(Context([convert.one_to_beam(window) for window in windows]))
        given = set(windows)
        for parts, whole in merged:  # the coder tells windows apart: a class of a user's may have no equality
            ours = [convert.one_from_beam(part) for part in parts]
            yield [part for part in ours if part in given], convert.one_from_beam(whole)


class OwnWindowFn(beam_window.WindowFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """A windowing strategy of ours inside one of Beam's, for whose windows or trigger Beam has no word.

    It stands beside the trigger `AS_IT_IS`; behind a grouping Beam puts the continuation of that trigger in its place.

    Args:
        strategy: the strategy.
    """

    def __init__(self, strategy: WindowingStrategy) -> None:
        self.strategy = strategy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnWindowFn) and self.strategy == other.strategy

    def __hash__(self) -> int:
        return hash(type(self.strategy.window_fn))

    def __repr__(self) -> str:
        return repr(self.strategy.window_fn)

    def assign(self, assign_context: Any) -> Iterable[Any]:
        """Return the windows of an element."""
        at = EventTime(our_time(assign_context.timestamp.micros))
        windows = self.strategy.window_fn.assign(at, assign_context.element)
        converted: Iterable[Any] = Windows(self.get_window_coder()).to_beam(tuple(windows))
        return converted

    def merge(self, merge_context: Any) -> None:
        """Do nothing: the engine merges."""

    def is_merging(self) -> bool:
        """Return whether windows merge."""
        return self.strategy.merges

    def get_window_coder(self) -> Any:
        """Return the coder of its windows."""
        fn = self.strategy.window_fn
        if isinstance(fn, BeamWindowFn):
            return fn.coder
        return coders.GlobalWindowCoder() if type(fn) is GlobalWindows else coders.IntervalWindowCoder()


AS_IT_IS: Final = beam_trigger.AfterWatermark(early=beam_trigger.AfterCount(2))
"""The trigger beside an `OwnWindowFn`: Beam's continuation of it, which has another count, says it has been grouped."""


def strategy_of(given: Any, context: Any, label: str) -> WindowingStrategy:
    """Return a windowing strategy of Beam's as ours.

    Beam's Python SDK also asks for panes without elements when windows close, which its own runners in process do not
    emit; nor does this one.

    Args:
        given: the strategy.
        context: Beam's context, which decodes its parts.
        label: the label of a transform with that strategy, for errors.

    Raises:
        UnsupportedOnRunner: for retractions, and for a trigger that is not among ours.
    """
    if given.accumulation_mode == proto.AccumulationMode.RETRACTING:
        raise UnsupportedOnRunner(
            f"{label!r} needs retracting panes, which functions of Beam's cannot tell from others",
            hint="use AccumulationMode.ACCUMULATING",
        )
    fn = beam_window.WindowFn.from_runner_api(given.window_fn, context)
    if isinstance(fn, OwnWindowFn) and given.trigger == AS_IT_IS.to_runner_api(context):
        return fn.strategy
    if isinstance(fn, OwnWindowFn) and given.trigger == AS_IT_IS.get_continuation_trigger().to_runner_api(context):
        return fn.strategy.after_grouping(label)
    accumulates = given.accumulation_mode == proto.AccumulationMode.ACCUMULATING
    return WindowingStrategy(
        window_fn_of(fn),
        trigger=_trigger(given.trigger, label),
        accumulation_mode=AccumulationMode.ACCUMULATING if accumulates else AccumulationMode.DISCARDING,
        allowed_lateness=Duration(micros=min(given.allowed_lateness * _MILLISECOND, _FOREVER)),
        on_time=_ON_TIME.get(given.on_time_behavior, OnTimeBehavior.FIRE_IF_NON_EMPTY),
        closing=ClosingBehavior.FIRE_IF_NON_EMPTY,
        timestamp_combiner=_TIMESTAMPS[given.output_time or proto.OutputTime.END_OF_WINDOW],
        may_lose_data=True,
        merged=given.merge_status == proto.MergeStatus.ALREADY_MERGED,
    )


def window_fn_of(fn: Any) -> WindowFn:
    """Return a window function of Beam's as ours.

    Example:
        >>> window_fn_of(beam_window.FixedWindows(60))
        FixedWindows('1 minute')
    """
    kind = type(fn)
    if isinstance(fn, OwnWindowFn):
        return fn.strategy.window_fn
    if kind is beam_window.GlobalWindows:
        return GlobalWindows()
    if kind is beam_window.FixedWindows:
        return FixedWindows(Duration(micros=fn.size.micros), offset=Duration(micros=fn.offset.micros))
    if kind is beam_window.SlidingWindows and fn.period.micros <= fn.size.micros:
        period = fn.period.micros
        return SlidingWindows(
            Duration(micros=fn.size.micros), Duration(micros=period), offset=Duration(micros=fn.offset.micros % period)
        )
    if kind is beam_window.Sessions:
        return Sessions(Duration(micros=fn.gap_size.micros))
    return (BeamMergingFn if fn.is_merging() else BeamWindowFn)(fn)


def _trigger(given: Any, label: str) -> triggers.Trigger:
    def each(several: Iterable[Any]) -> list[triggers.Trigger]:
        return [_trigger(one, label) for one in several]

    kind = given.WhichOneof("trigger")
    part: Any = None if kind is None else getattr(given, kind)
    match kind:
        case None | "default":
            return triggers.DefaultTrigger()
        case "never":
            return triggers.Never()
        case "always":
            return triggers.Always()
        case "element_count":
            return triggers.AfterCount(max(part.element_count, 1))
        case "after_all":
            return triggers.AfterAll(*each(part.subtriggers))
        case "after_any":
            return triggers.AfterAny(*each(part.subtriggers))
        case "after_each":
            return triggers.AfterEach(*each(part.subtriggers))
        case "repeat":
            return triggers.Repeatedly(_trigger(part.subtrigger, label))
        case "or_finally":
            return triggers.OrFinally(_trigger(part.main, label), _trigger(getattr(part, "finally"), label))
        case "after_end_of_window":
            early = _trigger(part.early_firings, label) if part.HasField("early_firings") else None
            late = _trigger(part.late_firings, label) if part.HasField("late_firings") else None
            return triggers.AfterWatermark(early=early, late=late)
        case "after_processing_time" if not any(each.HasField("align_to") for each in part.timestamp_transforms):
            delay = sum(each.delay.delay_millis for each in part.timestamp_transforms)
            return triggers.AfterProcessingTime(Duration(micros=delay * _MILLISECOND))
        case "after_synchronized_processing_time":
            return triggers.AfterProcessingTime(Duration(0))
    raise UnsupportedOnRunner(
        f"{label!r} has a trigger that this runner does not support: {kind}",
        hint="use AfterWatermark, AfterCount, AfterProcessingTime, Repeatedly, AfterEach, AfterAny or AfterAll",
    )
