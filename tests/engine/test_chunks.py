"""Where a run is cut into chunks shows in nothing that comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.bounded.execution import Execution
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle, Produced
from dataflow_model.runners.engine.lanes.order import of_rows
from dataflow_model.testing.strategies import SIGNALS, test_streams, windowing_strategies

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks
    from dataflow_model.testing import TestStream

scripts = test_streams(signals=SIGNALS, percentiles=(50, 90))


def ran(build: Callable[[dm.Pipeline], Any], most: int) -> tuple[dict[str, list[Record]], Any, dict[str, Watermarks]]:
    """Run a pipeline in chunks of at most so many instants; return records, counters and watermarks."""
    pipeline = dm.Pipeline()
    build(pipeline)
    execution = Execution.of(pipeline.plan(), 0, most=most)
    records: dict[str, list[Record]] = {}
    for reached in execution.run():
        for sink, chunk in reached.items():
            records.setdefault(sink, []).extend(chunk)
    return records, execution.metrics(), execution.watermarks


def check(build: Callable[[dm.Pipeline], Any], most: int) -> None:
    """Compare chunks of one instant with larger ones."""
    assert ran(build, most) == ran(build, 1)


@given(scripts, windowing_strategies(), st.integers(2, 40))
def test_the_size_of_chunks_does_not_change_the_output_of_two_groupings_in_sequence(
    script: TestStream, windowing: WindowingStrategy, most: int
) -> None:
    def build(pipeline: dm.Pipeline) -> None:
        sums = pipeline | script | dm.Window.into(windowing) | "sums" >> dm.Sum.per_key()
        _ = sums | "all sums" >> dm.io.Collect()
        _ = sums | dm.Reshuffle() | "greatest" >> dm.Max.per_key() | "all greatest" >> dm.io.Collect()

    check(build, most)


@given(scripts, st.integers(2, 40))
def test_the_size_of_chunks_does_not_change_which_changing_side_input_elements_see(
    script: TestStream, most: int
) -> None:
    def build(pipeline: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows(10))
        early = windows.trigger(dm.AfterWatermark(early=dm.AfterCount(1))).accumulating()
        pairs = pipeline | script
        total = pairs | "values" >> dm.Map(_value) | "early" >> early | "total" >> dm.CombineGlobally(dm.Sum())
        _ = pairs | "windows" >> windows | "seen" >> dm.Map(_both, dm.AsIter(total)) | "all" >> dm.io.Collect()

    check(build, most)


@given(scripts, st.integers(2, 40))
def test_the_size_of_chunks_does_not_change_deduplicated_ids_and_memoised_outputs(
    script: TestStream, most: int
) -> None:
    def build(pipeline: dm.Pipeline) -> None:
        retracting = dm.Window.into(dm.FixedWindows(10)).trigger(
            dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1))
        )
        once = pipeline | script | dm.Deduplicate(_parity, horizon="1 hour")
        sums = once | retracting.accumulating_and_retracting().allowed_lateness(20) | "sums" >> dm.Sum.per_key()
        _ = sums | dm.Map(_doubled).retractable("memoised") | "all" >> dm.io.Collect()

    check(build, most)


def test_elements_are_sorted_by_instant_before_their_order_within_it() -> None:
    placed = PlacedBundle()
    for index, rows in ((1, (0, 3)), (0, (4, 2))):
        placed.add(index, Bundle.fresh([f"{index}.{row}" for row in rows], [0, 0], of_rows("in", rows), 0))
    assert placed.in_order().bundle.values == ["0.2", "0.4", "1.0", "1.3"]
    assert placed.in_order().in_order() == placed.in_order()


def test_an_instant_without_output_is_left_out() -> None:
    produced = Produced()
    produced.add(0, {"main": Bundle()})
    assert produced.outputs == {}


def _value(pair: tuple[str, int]) -> int:
    return pair[1]


def _both(pair: tuple[str, int], totals: list[int]) -> tuple[str, int, list[int]]:
    return *pair, list(totals)


def _parity(pair: tuple[str, int]) -> Any:
    return pair[0], pair[1].bit_length() % 3


def _doubled(pair: tuple[str, int]) -> tuple[str, int]:
    return pair[0], 2 * pair[1]
