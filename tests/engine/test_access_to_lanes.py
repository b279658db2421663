"""Machines read the columns of their input as a whole: making an item of a column alone takes long."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.runners.engine.grouping.pane_lanes import PaneOrders, PaneUpdates
from dataflow_model.runners.engine.lanes.lanes import Integers, Lane
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ELEMENTS = 400
READ_BY_INSTANT = (InstantLane, Integers, WatermarkLane)
"""Columns with a row for each instant, of which a script has as many as elements."""
EARLY = dm.Window.into(dm.FixedWindows(1_000)).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))


def panes(p: dm.Pipeline, *, retracting: bool = False) -> Any:
    """Return a pane for each of some elements, with 20 keys."""
    windowing = EARLY.accumulating_and_retracting() if retracting else EARLY.accumulating()
    timed = [dm.TimestampedValue((number % 20, number), number) for number in range(ELEMENTS)]
    return p | "timed" >> dm.Create(timed) | windowing | dm.Sum.per_key()


def script(p: dm.Pipeline) -> Any:
    return p | "side" >> TestStream().add(1, 5)


def sums_of_a_script(p: dm.Pipeline) -> Any:
    """Return a side input of panes that are retracted."""
    stream = TestStream()
    for number in range(ELEMENTS):
        stream = stream.add((number % 20, number), number)
    return p | "side" >> stream | "each" >> EARLY.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()


class Asking(dm.DoFn):
    def process(
        self, element: Any, timestamp: Any, pane: Any, trigger: Any, production_time: Any, is_retraction: bool
    ) -> Iterator[Any]:
        yield element, int(timestamp), pane.index, str(trigger), int(production_time), is_retraction


class Remembering(dm.DoFn):
    retractable = "memoised"

    def process(self, element: Any) -> Iterator[Any]:
        yield element


class Keeping(dm.DoFn):
    count = dm.ValueStateSpec[int](default=0)

    def process(self, pair: Any, count: dm.ValueState[int], is_retraction: bool) -> Iterator[Any]:
        count.write(count.read() + 1)
        yield pair, is_retraction


class Tagging(dm.DoFn):
    def process(self, element: Any) -> Iterator[Any]:
        yield dm.TaggedOutput("odd", element) if element[0] % 2 else element


def _tagged(element: Any) -> list[Any]:
    return [dm.TaggedOutput("odd", element) if element[0] % 2 else element]


BUILDS: dict[str, Callable[[dm.Pipeline], Any]] = {
    "a side input that changes": lambda p: panes(p) | dm.Map(lambda pair, side: pair, dm.AsSingleton(script(p))),
    "a side input that is retracted": lambda p: (
        p
        | "main" >> dm.Create([dm.TimestampedValue(1, 5)])
        | dm.Window.into(dm.FixedWindows(1_000))
        | dm.Map(lambda _, side: len(side), dm.AsList(sums_of_a_script(p)))
    ),
    "metadata": lambda p: panes(p, retracting=True) | dm.ParDo(Asking()),
    "kept outputs": lambda p: panes(p, retracting=True) | dm.ParDo(Remembering()),
    "state": lambda p: panes(p, retracting=True) | dm.ParDo(Keeping()),
    "tagged outputs": lambda p: (panes(p) | dm.ParDo(Tagging()).with_outputs("odd", main="even"))["even"],
    "tagged outputs of FlatMap": lambda p: (panes(p) | dm.FlatMap(_tagged).with_outputs("odd", main="even"))["even"],
    "partitions": lambda p: (panes(p) | dm.Partition(lambda pair, count: pair[0] % count, 2))[0],
    "ids": lambda p: panes(p) | dm.Deduplicate(lambda pair: pair, horizon=5_000),
    "another grouping": lambda p: panes(p, retracting=True) | "again" >> dm.GroupByKey(),
    "a maximum": lambda p: panes(p, retracting=True) | "again" >> dm.Max.per_key(),
    "distinct": lambda p: panes(p, retracting=True) | dm.Distinct(),
    "event times": lambda p: panes(p) | dm.WithTimestamps(lambda pair: 999_999),
    "latest": lambda p: panes(p, retracting=True) | dm.Latest.per_key(),
}


@on_hosts("local", "process")
@pytest.mark.parametrize("title", BUILDS)
def test_items_of_columns_are_not_made_one_by_one(
    title: str, host: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    get_item, get_update = Lane.__getitem__, PaneUpdates.__getitem__

    def counted(self: Any, row: Any) -> Any:
        if not isinstance(row, slice) and not isinstance(self, READ_BY_INSTANT):
            made.append(type(self).__name__)
        found: Any = get_item(self, row)
        return found

    def counted_update(self: Any, row: int) -> Any:
        made.append("PaneUpdates")
        return get_update(self, row)

    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    _ = BUILDS[title](p) | "out" >> dm.io.Collect()
    monkeypatch.setattr(Lane, "__getitem__", counted)
    monkeypatch.setattr(PaneUpdates, "__getitem__", counted_update)
    result = p.run()
    result.wait_until_finish(120)
    assert result.collected("out")
    assert len(made) < ELEMENTS // 10, made[:20]


def test_the_order_of_a_pane_is_found_without_looking_at_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    orders: list[PaneOrders] = []
    make = PaneOrders.__init__

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        orders.append(self)

    monkeypatch.setattr(PaneOrders, "__init__", noted)
    with dm.Pipeline() as p:
        _ = panes(p, retracting=True) | dm.io.Collect()
    monkeypatch.setattr(PaneOrders, "select", None)
    assert sum(map(len, orders)) > 2 * ELEMENTS
    for lane in orders:
        assert [lane[row] for row in range(len(lane))] == list(lane)
