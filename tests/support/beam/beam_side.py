"""Beam's side of the comparison: our scripts, strategies and panes in its terms, on its DirectRunner or on Prism."""

# Beam may not be installed, and ships no types.
# pyright: reportMissingImports=false

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING, Any

import attrs
from apache_beam import DoFn, GroupByKey, Map, ParDo, Pipeline, WindowInto
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.runners.portability.prism_runner import PrismRunner
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.transforms import trigger as beam_trigger
from apache_beam.transforms import window as beam_window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, Duration, Timestamp

import dataflow_model as dm
from dataflow_model.plan.endpoints.scripts import AddStep, WatermarkStep
from dataflow_model.triggers import OrFinally

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.testing import TestStream

SECOND = 1_000_000
_TIMINGS = {0: "EARLY", 1: "ON_TIME", 2: "LATE"}
_RECEIVED: dict[int, list[Pane]] = {}
_NUMBERS = itertools.count()


@attrs.frozen
class Pane:
    """What both sides can say of a pane; a window's bounds and the event time in microseconds.

    `window` is `None` for the global window, whose bounds are the runner's own business.
    """

    key: Any
    window: tuple[int, int] | None
    value: int
    index: int
    on_time_index: int
    timing: str
    is_last: bool


class _Keep(DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Keep what comes, in this process: the runner is one that stays in it."""

    def __init__(self, number: int) -> None:
        self.number = number

    def process(self, element: Any, window: Any = DoFn.WindowParam, pane: Any = DoFn.PaneInfoParam) -> None:
        key, values = element
        bounds = None if isinstance(window, beam_window.GlobalWindow) else (window.start.micros, window.end.micros)
        _RECEIVED[self.number].append(
            Pane(
                key,
                bounds,
                sum(values),
                pane.index,
                pane.nonspeculative_index,
                _TIMINGS[pane.timing],
                pane.is_last,
            )
        )


def run_on_beam(
    script: TestStream, strategy: WindowingStrategy, *, groupings: int = 1, prism: Path | None = None
) -> list[Pane]:
    """Sum a script's values by key and window, once or several times; each element of `add` is a bundle of its own.

    Args:
        script: the script.
        strategy: where, when and how.
        groupings: how many times.
        prism: the program of Prism, if that runs it; its functions run in threads of this process.
    """
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    number = next(_NUMBERS)
    _RECEIVED[number] = []
    lateness: Any = Duration(micros=int(strategy.allowed_lateness))  # declared as whole seconds
    options: dict[str, Any] = {"streaming": True, "allow_unsafe_triggers": True}
    if prism is not None:
        options |= {"prism_location": str(prism), "environment_type": "LOOPBACK"}
    runner = BundleBasedDirectRunner() if prism is None else PrismRunner()
    pipeline = Pipeline(runner=runner, options=PipelineOptions(**options))
    grouped = (
        pipeline
        | _stream(script)
        | WindowInto(
            _window_fn(strategy.window_fn),
            trigger=trigger_on_beam(strategy.trigger),
            accumulation_mode=(
                beam_trigger.AccumulationMode.ACCUMULATING
                if strategy.accumulates
                else beam_trigger.AccumulationMode.DISCARDING
            ),
            allowed_lateness=lateness,
        )
        | GroupByKey()
    )
    for again in range(1, groupings):
        sums = grouped | f"sums {again}" >> Map(lambda pair: ("all", sum(pair[1])))
        grouped = sums | f"group {again}" >> GroupByKey()
    _ = grouped | ParDo(_Keep(number))
    try:
        pipeline.run().wait_until_finish()
    except TypeError as error:
        # The runner has found that it stalls at the end of the input, because data that no trigger has let out hold
        # the watermark, and raises what is no exception. All panes are there.
        if "BaseException" not in str(error):
            raise
    return _RECEIVED.pop(number)


def ours(panes: list[dm.Pane]) -> Iterator[Pane]:
    """Say of our panes what Beam says of its own."""
    for pane in panes:
        bounds = None if pane.window == dm.GLOBAL_WINDOW else (int(pane.window.start), int(pane.window.end))
        info = pane.info
        yield Pane(pane.key, bounds, pane.value, info.index, info.on_time_index, info.timing.name, info.is_last)


def _stream(script: TestStream) -> Any:
    stream = BeamTestStream()
    for step in script.steps:
        match step:
            case AddStep():
                stream.add_elements(
                    [beam_window.TimestampedValue(element, Timestamp(micros=int(at))) for element, at in step.elements]
                )
            case WatermarkStep():
                stream.advance_watermark_to(min(Timestamp(micros=int(step.watermark)), MAX_TIMESTAMP))
            case _:
                raise AssertionError(f"{step!r} is not of the subset that is compared")
    return stream.advance_watermark_to_infinity()


def _window_fn(fn: dm.WindowFn) -> Any:
    match fn:
        case dm.FixedWindows():
            return beam_window.FixedWindows(_seconds(fn.size), _seconds(fn.offset))
        case dm.SlidingWindows():
            return beam_window.SlidingWindows(_seconds(fn.size), _seconds(fn.period), _seconds(fn.offset))
        case dm.Sessions():
            return beam_window.Sessions(_seconds(fn.gap))
        case dm.GlobalWindows():
            return beam_window.GlobalWindows()
        case _:
            raise AssertionError(f"{fn!r} is not of the subset that is compared")


def _seconds(duration: dm.Duration) -> float:
    return int(duration) / SECOND


def trigger_on_beam(trigger: dm.Trigger) -> Any:
    """Translate a tree."""
    match trigger:
        case dm.AfterCount(n=n):
            return beam_trigger.AfterCount(n)
        case dm.DefaultTrigger():
            return beam_trigger.DefaultTrigger()
        case dm.AfterWatermark(early=early, late=late):
            return beam_trigger.AfterWatermark(
                early and trigger_on_beam(early),
                late and trigger_on_beam(late),
            )
        case dm.Repeatedly(trigger=child):
            return beam_trigger.Repeatedly(trigger_on_beam(child))
        case dm.AfterEach(parts=parts):
            return beam_trigger.AfterEach(*map(trigger_on_beam, parts))
        case dm.AfterAny(parts=parts):
            return beam_trigger.AfterAny(*map(trigger_on_beam, parts))
        case dm.AfterAll(parts=parts):
            return beam_trigger.AfterAll(*map(trigger_on_beam, parts))
        case OrFinally(first=first, until=until):
            return beam_trigger.OrFinally(trigger_on_beam(first), trigger_on_beam(until))
        case _:
            raise AssertionError(f"{trigger!r} is not of the subset that is compared")
