"""Beam's `TestStream` as a script of ours."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.portability.api import beam_runner_api_pb2
from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.utils import proto_utils

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, ScriptSource, Step, WatermarkStep
from dataflow_model.runners.beam.functions.times import our_instant, our_time
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
        UnsupportedOnRunner: for one with an endpoint, or with elements that are in windows already.
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


def _steps(label: str, events: Any, coder: Any) -> Iterator[tuple[str | None, Step]]:
    """Yield the steps, each with the tag of its output; one of the clock is for all of them."""
    clock = 0
    for event in events:
        match event.WhichOneof("event"):
            case "element_event":
                elements = [
                    (coder.decode(each.encoded_element), EventTime(our_time(each.timestamp * _MILLISECOND)))
                    for each in event.element_event.elements
                ]
                placed = [value for value, _ in elements if isinstance(value, WindowedValueHolder)]
                if placed:
                    raise UnsupportedOnRunner(
                        f"{label!r} adds {placed[0]!r}, already in a window, which this runner does not support",
                        hint="add a TimestampedValue, and use WindowInto behind the TestStream",
                    )
                if elements:
                    yield event.element_event.tag, AddStep(tuple(elements))
            case "watermark_event":
                reached = our_instant(event.watermark_event.new_watermark * _MILLISECOND)
                yield event.watermark_event.tag, WatermarkStep(EventTime(reached))
            case "processing_time_event":
                clock += event.processing_time_event.advance_duration * _MILLISECOND
                yield None, ClockStep(ProcessingTime(clock))
