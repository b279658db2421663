"""Beam's `TestStream` as a script of ours."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.coders.coders import GlobalWindowCoder
from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.utils import proto_utils

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, ScriptSource, Step, WatermarkStep
from dataflow_model.runners.beam.functions.placed import Placed
from dataflow_model.runners.beam.functions.times import BeamWindow, Windows, our_instant, our_pane, our_time
from dataflow_model.time import EventTime, ProcessingTime

if TYPE_CHECKING:
    from collections.abc import Iterator

_MILLISECOND: Final = 1_000


def scripts_of(transform: Any, context: Any) -> dict[str, ScriptSource]:
    """Return the script of each output of a `TestStream`, by its tag; their steps take turns as its events do.

    Args:
        transform: Beam's description of it.
        context: Beam's context, which decodes its elements.

    Raises:
        UnsupportedOnRunner: for one with an endpoint, or with elements in windows of a class of the program's own.
    """
    payload = proto_utils.parse_Bytes(transform.spec.payload, beam_runner_api_pb2.TestStreamPayload)
    label = transform.unique_name
    if payload.HasField("endpoint") and payload.endpoint.url:
        raise UnsupportedOnRunner(
            f"{label!r} reads its events from a service at {payload.endpoint.url}, which this runner does not support",
            hint="add its events to the TestStream",
        )
    coder = context.coders.get_by_id(payload.coder_id)
    events = list(_steps(label, payload.events, coder))
    scripts = {}
    for tag in transform.outputs:
        own = [(step, turn) for turn, (of, step) in enumerate(events) if of in {None, tag}]
        scripts[tag] = ScriptSource(tuple(step for step, _ in own), tuple(turn for _, turn in own))
    return scripts


def adds_placed(script: ScriptSource) -> bool:
    """Return whether a script adds elements that are in windows already."""
    added = [step.elements for step in script.steps if isinstance(step, AddStep)]
    return any(isinstance(value, Placed) for elements in added for value, _ in elements)


def _steps(label: str, events: Any, coder: Any) -> Iterator[tuple[str | None, Step]]:
    """Yield the steps, each with the tag of its output; those of the clock are for all of them.

    Beam runs what is due on the clock, which an element may have set to earlier, before each event, and ours when its
    clock moves. So each event is a microsecond after the one before it, which is less than Beam's clock can tell.
    """
    clock = 0
    for event in events:
        if event.HasField("processing_time_event"):
            clock += event.processing_time_event.advance_duration * _MILLISECOND
        clock += 1
        yield None, ClockStep(ProcessingTime(clock))
        match event.WhichOneof("event"):
            case "element_event":
                elements = [
                    _element(label, coder.decode(each.encoded_element), each.timestamp * _MILLISECOND)
                    for each in event.element_event.elements
                ]
                if elements:
                    yield event.element_event.tag, AddStep(tuple(elements))
            case "watermark_event":
                reached = our_instant(event.watermark_event.new_watermark * _MILLISECOND)
                yield event.watermark_event.tag, WatermarkStep(EventTime(reached))


def _element(label: str, value: Any, micros: int) -> tuple[Any, EventTime]:
    """Return an element with its event time; one that is in windows already has its own."""
    if not isinstance(value, WindowedValueHolder):
        return value, EventTime(our_time(micros))
    placed = value.windowed_value
    windows = Windows(GlobalWindowCoder()).from_beam(tuple(placed.windows))
    if any(isinstance(window, BeamWindow) for window in windows):
        raise UnsupportedOnRunner(
            f"{label!r} adds {placed.value!r} in {list(placed.windows)}, which the coder of its windows cannot encode",
            hint="add it in an IntervalWindow that is not empty, or use WindowInto behind the TestStream",
        )
    at = EventTime(our_time(placed.timestamp.micros))
    return Placed(placed.value, windows, our_pane(placed.pane_info)), at
