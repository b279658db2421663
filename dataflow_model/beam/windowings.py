"""Windowing strategies of ours as Beam's; `runners.beam.strategies` is the opposite direction."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam.runners.pipeline_context import PipelineContext
from apache_beam.transforms import core
from apache_beam.transforms import trigger as beam_trigger
from apache_beam.transforms import window as beam_window
from apache_beam.utils.timestamp import Duration as BeamDuration
from apache_beam.utils.timestamp import Timestamp

from dataflow_model import triggers
from dataflow_model.plan.logical.strategy import TimestampCombiner
from dataflow_model.runners.beam.strategies import AS_IT_IS, BeamWindowFn, OwnWindowFn, strategy_of
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.windowing import FixedWindows, GlobalWindows, Sessions, SlidingWindows

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.time import Duration
    from dataflow_model.windowing import WindowFn

_SECOND: Final = 1_000_000
_TIMESTAMPS: Final = {
    TimestampCombiner.END_OF_WINDOW: beam_window.TimestampCombiner.OUTPUT_AT_EOW,
    TimestampCombiner.EARLIEST: beam_window.TimestampCombiner.OUTPUT_AT_EARLIEST,
    TimestampCombiner.LATEST: beam_window.TimestampCombiner.OUTPUT_AT_LATEST,
}
_SEVERAL: Final[dict[type[triggers.Trigger], Any]] = {
    triggers.AfterEach: beam_trigger.AfterEach,
    triggers.AfterAny: beam_trigger.AfterAny,
    triggers.AfterAll: beam_trigger.AfterAll,
}


def windowing_of(strategy: WindowingStrategy) -> Any:
    """Return a strategy as Beam's `Windowing`; what Beam has no word for travels inside of its window function.

    Example:
        >>> from dataflow_model.plan.logical.strategy import WindowingStrategy
        >>> windowing_of(WindowingStrategy(FixedWindows(60))).windowfn.size
        Duration(60)
        >>> from dataflow_model.triggers import AfterSignal, Repeatedly
        >>> signalled = WindowingStrategy(FixedWindows(60), Repeatedly(AfterSignal("go")))
        >>> strategy_of_windowing(windowing_of(signalled), "sums") == signalled
        True
    """
    try:
        windowing = _said(strategy)
    except LookupError:
        windowing = None
    if windowing is not None and _is_whole(windowing, strategy):
        return windowing
    return core.Windowing(OwnWindowFn(strategy), AS_IT_IS, _mode(strategy), _TIMESTAMPS[strategy.timestamp_combiner])


def _is_whole(windowing: Any, strategy: WindowingStrategy) -> bool:
    """Return whether a windowing says all of a strategy, and is one that Beam's groupings accept, as ours have."""
    loses = windowing.triggerfn.may_lose_data(windowing) != beam_trigger.DataLossReason.NO_POTENTIAL_LOSS
    return not loses and strategy_of_windowing(windowing, "") == attrs.evolve(strategy, may_lose_data=True)


def strategy_of_windowing(windowing: Any, label: str) -> WindowingStrategy:
    """Return a `Windowing` of Beam's as ours.

    Args:
        windowing: Beam's `Windowing`.
        label: the label of a transform with that windowing, for errors.

    Raises:
        UnsupportedOnRunner: for a trigger that is not among ours.
    """
    context = PipelineContext()
    return strategy_of(windowing.to_runner_api(context), context, label)


def _said(strategy: WindowingStrategy) -> Any:
    return core.Windowing(
        _window_fn(strategy.window_fn),
        _trigger(strategy.trigger),
        _mode(strategy),
        _TIMESTAMPS[strategy.timestamp_combiner],
        _duration(strategy.allowed_lateness),
    )


def _mode(strategy: WindowingStrategy) -> Any:
    modes = beam_trigger.AccumulationMode
    return modes.ACCUMULATING if strategy.accumulates else modes.DISCARDING


def _trigger(trigger: triggers.Trigger) -> Any:
    match trigger:
        case triggers.DefaultTrigger():
            return beam_trigger.DefaultTrigger()
        case triggers.Always():
            return beam_trigger.Always()
        case triggers.AfterCount(n=n):
            return beam_trigger.AfterCount(n)
        case triggers.AfterProcessingTime(delay=delay) if int(delay) % _SECOND == 0:  # Beam's are in whole seconds
            return beam_trigger.AfterProcessingTime(int(delay) // _SECOND)
        case triggers.AfterWatermark(early=early, late=late, percentile=percentile) if percentile == LOW_WATERMARK:
            return beam_trigger.AfterWatermark(early and _trigger(early), late and _trigger(late))
        case triggers.Repeatedly(trigger=part):
            return beam_trigger.Repeatedly(_trigger(part))
        case triggers.OrFinally(first=first, until=until):
            return beam_trigger.OrFinally(_trigger(first), _trigger(until))
        case triggers.AfterEach(parts=parts) | triggers.AfterAny(parts=parts) | triggers.AfterAll(parts=parts):
            return _SEVERAL[type(trigger)](*map(_trigger, parts))
        case _:
            raise LookupError(trigger)


def _window_fn(fn: WindowFn) -> Any:
    match fn:
        case BeamWindowFn():
            return fn.fn
        case GlobalWindows():
            return beam_window.GlobalWindows()
        case FixedWindows(size=size, offset=offset):
            return beam_window.FixedWindows(_duration(size), _instant(offset))
        case SlidingWindows(size=size, period=period, offset=offset):
            return beam_window.SlidingWindows(_duration(size), _duration(period), _instant(offset))
        case Sessions(gap=gap):
            return beam_window.Sessions(_duration(gap))
        case _:
            raise LookupError(fn)


def _duration(duration: Duration) -> Any:
    return BeamDuration(micros=int(duration))


def _instant(offset: Duration) -> Any:
    return Timestamp(micros=int(offset))
