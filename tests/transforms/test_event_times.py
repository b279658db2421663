"""Moving event times back: what is refused, and what a declared horizon lets through."""

from __future__ import annotations

import re
from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.stages import cut_into_stages

HOUR = 3600


def earlier(element: tuple[str, int]) -> dm.TimestampedValue:
    """Stamp a landing with its departure."""
    return dm.TimestampedValue(element, HOUR - element[1])


class Earlier(dm.DoFn):
    def process(self, element: Any) -> Any:
        yield earlier(element)


def pipeline(transform: Any) -> dm.Pipeline:
    p = dm.Pipeline(dm.LocalRunner())
    landed = p | dm.Create([dm.TimestampedValue(("UA", 600), HOUR)])
    _ = landed | transform | "kept" >> dm.io.Collect()
    return p


def run(transform: Any) -> list[float]:
    result = pipeline(transform).run()
    result.wait_until_finish()
    return [int(record.event_time) / 1e6 for record in result.collected("kept")]


def flat(element: tuple[str, int]) -> list[dm.TimestampedValue]:
    return [earlier(element)]


@pytest.mark.parametrize(
    ("transform", "way_out"),
    [
        (dm.Map(earlier), "dm.Map(…).late_data_horizon('1 hour')"),
        (dm.FlatMap(flat), "dm.FlatMap(…).late_data_horizon('1 hour')"),
        (dm.ParDo(Earlier()), "dm.ParDo(…).late_data_horizon('1 hour')"),
        (dm.WithTimestamps(lambda e: HOUR - e[1]), "dm.WithTimestamps(…, late_data_horizon='1 hour')"),
    ],
    ids=["Map", "FlatMap", "ParDo", "WithTimestamps"],
)
def test_an_undeclared_move_back_is_refused_with_what_declares_it_on_that_transform(
    transform: dm.PTransform, way_out: str
) -> None:
    with pytest.raises(
        dm.DataflowError, match=r"moves an event time backward from .*, but declares no bound\n"
    ) as raised:
        run(transform)
    assert re.search(re.escape(way_out), str(raised.value))


@pytest.mark.parametrize(
    "transform",
    [dm.Map(earlier), dm.FlatMap(flat), dm.ParDo(Earlier())],
    ids=["Map", "FlatMap", "ParDo"],
)
def test_a_declared_horizon_lets_outputs_lie_that_far_back_and_holds_the_watermark(transform: dm.ParDo) -> None:
    declared = transform.late_data_horizon("10 minutes")
    assert run(declared) == [HOUR - 600]
    feed = cut_into_stages(pipeline(declared).plan()).feeds["kept"]
    assert feed == {"Create": 600_000_000}


def test_a_move_further_back_than_declared_is_refused() -> None:
    with pytest.raises(dm.DataflowError, match="but declares a smaller bound\n"):
        run(dm.Map(earlier).late_data_horizon("9 minutes"))


def test_a_negative_horizon_is_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match="must not be negative"):
        dm.Map(earlier).late_data_horizon(-1)


def test_a_negative_horizon_of_a_class_is_refused() -> None:
    class Backward(dm.DoFn):
        late_data_horizon = dm.duration(-5)

    with pytest.raises(dm.InvalidArgument, match="`late_data_horizon` must not be negative"):
        dm.ParDo(Backward())
