"""Moving event times back: what is refused, and what a declared horizon lets through."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.logical.stages import cut_into_stages
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
def test_moving_event_times_back_without_a_declaration_is_refused_with_the_option_to_declare_it(
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
def test_a_declared_horizon_allows_earlier_event_times_and_holds_back_the_watermark(transform: dm.ParDo) -> None:
    declared = transform.late_data_horizon("10 minutes")
    assert run(declared) == [HOUR - 600]
    feed = cut_into_stages(pipeline(declared).plan()).feeds["kept"]
    assert feed == {"Create": 600_000_000}


def test_moving_event_times_further_back_than_declared_is_refused() -> None:
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


class AtTheEnd(dm.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield element

    def finish_bundle(self) -> Iterator[Any]:
        yield "plain"
        yield dm.TimestampedValue("timed", 95)


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_outputs_of_finish_bundle_are_in_the_windows_of_the_last_element(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint")) as p:
        elements = p | dm.Create([dm.TimestampedValue("a", 5), dm.TimestampedValue("b", 15)])
        _ = elements | dm.Window.into(dm.FixedWindows(10)) | dm.ParDo(AtTheEnd()) | "kept" >> dm.io.Collect()
    assert p.result is not None
    placed = {(str(r.value), r.event_time, r.window) for r in p.result.collected("kept")}
    last = dm.IntervalWindow(10, 20)  # several bundles may have ended earlier
    assert {("plain", dm.event_time(15), last), ("timed", dm.event_time(95), last)} <= placed


def before(row: Any, timestamp: dm.EventTime) -> bool:
    return timestamp < dm.event_time(50)


def after(row: Any, timestamp: dm.EventTime) -> bool:
    return not before(row, timestamp)


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_splitting_the_input_at_the_end_of_a_window_loses_nothing(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    rows = [dm.TimestampedValue(("k", 2**number), at) for number, at in enumerate([3, 47, 52, 49, 50, 12, 71])]

    def sums(name: str, keep: Any = None) -> set[Any]:
        with dm.Pipeline(runner=runner_on(host, request, tmp_path / name)) as p:
            pairs = p | dm.Create(rows)
            pairs = pairs if keep is None else pairs | "cut" >> dm.Filter(keep)
            windows = dm.Window.into(dm.FixedWindows(25)).allowed_lateness(100)
            _ = pairs | windows | "sums" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()
        assert p.result is not None
        return {(record.window, record.value) for record in p.result.collected("kept")}

    whole, finished, newer = sums("whole"), sums("before", before), sums("after", after)
    assert finished | newer == whole
    assert not finished & newer
    assert len(whole) == 3
