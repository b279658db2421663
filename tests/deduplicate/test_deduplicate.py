"""Deduplicate: what it passes, what it counts, what it refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import UserCodeError
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.order import of_rows
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.machines.deduplicating import DeduplicatingMachine
from dataflow_model.runners.engine.machines.shard import StageShard
from dataflow_model.testing import TestStream
from tests.support.instants import run_instant
from tests.support.pipelines import run


def passed(script: TestStream, horizon: Any = "16 seconds", **options: Any) -> tuple[list[Any], dict[str, Any]]:
    def build(p: dm.Pipeline) -> None:
        _ = p | script | "once" >> dm.Deduplicate(lambda x: x, horizon=horizon, **options) | "kept" >> dm.io.Collect()

    result = run(dm.LocalRunner(), build)
    values = [(record.value, int(record.event_time) // 1_000_000) for record in result.collected("kept")]
    return values, dict(result.metrics()["once"])


def test_the_first_element_in_the_order_of_events_is_kept_whatever_its_event_time() -> None:
    values, counts = passed(TestStream().add("x", 9).add("x", 4).add("y", 2).add("x", 9))
    assert values == [("x", 9), ("y", 2)]
    assert counts["duplicates"] == 2


def test_an_id_is_forgotten_once_the_watermark_has_passed_its_horizon_and_slice() -> None:
    values, counts = passed(TestStream().add("x", 0).watermark(16).add("x", 20).watermark(17).add("x", 21))
    assert values == [("x", 0), ("x", 21)]
    assert counts["duplicates"] == 1


def test_an_element_behind_the_horizon_is_dropped_and_counted() -> None:
    values, counts = passed(TestStream().add("x", 0).watermark(17).add("x", 0).add("y", 0).add("z", 1))
    assert values == [("x", 0), ("z", 1)]
    assert counts["dropped_because_late"] == 2
    assert counts["duplicates"] == 0


def test_ids_of_different_types_are_different_as_keys_are() -> None:
    values, _ = passed(TestStream().add(1, 0).add(1.0, 0).add(True, 0).add(1, 0))
    assert [value for value, _ in values] == [1, 1.0, True]
    assert [type(value) for value, _ in values] == [int, float, bool]


def test_an_element_keeps_its_window_and_pane() -> None:
    def build(p: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))
        script = TestStream().add(1, 3, key="a").watermark(11).add(1, 12, key="a")
        sums = p | script | windows.accumulating() | dm.Sum.per_key()
        _ = sums | "all" >> dm.io.Collect()
        _ = sums | "once" >> dm.Deduplicate(lambda pair: pair, horizon=60) | "first" >> dm.io.Collect()

    result = run(dm.LocalRunner(), build)
    everything, first = result.collected("all"), result.collected("first")
    assert len(everything) == 4
    [record] = first
    assert (record.value, record.window, record.pane, record.event_time) == (
        everything[0].value, everything[0].window, everything[0].pane, everything[0].event_time
    )  # fmt: skip


def test_state_is_empty_once_the_watermark_has_passed_the_horizon() -> None:
    pipeline = dm.Pipeline()
    _ = pipeline | "in" >> dm.Create([1]) | "once" >> dm.Deduplicate(lambda x: x, horizon="16 us") | dm.io.Collect()
    shard = StageShard(cut_into_stages(pipeline.plan()), 1)
    engine = shard.machines["once"]
    assert isinstance(engine, DeduplicatingMachine)
    most = 0
    for turn in range(200):
        elements = [(number, number) for number in range(turn * 10, turn * 10 + 10)]
        orders = of_rows("in", [number for number, _ in elements])
        bundle = Bundle.fresh(elements, [turn] * 10, orders, turn)
        run_instant(shard, turn, {"once": bundle}, {"in": Watermarks(turn)})
        engine.settle()
        most = max(most, len(engine.ids))
        assert engine.counters["ids"] == len(engine.ids)
    assert most <= 10 * 18
    assert engine.counters["id_bytes"] > 0
    run_instant(shard, 200, {}, {"in": Watermarks(250)})
    assert len(engine.ids) == engine.counters["ids"] == engine.counters["id_bytes"] == 0
    assert all(entry is None for entry in engine.settle().values())


def test_an_id_that_cannot_be_a_key_is_refused_with_the_element() -> None:
    for value in ([1], math.nan):
        with pytest.raises(UserCodeError, match="transform: 'once'"):
            passed(TestStream().add(value, 0))


def test_an_exception_of_id_fn_is_reported_with_the_element() -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([{"no": 1}]) | "once" >> dm.Deduplicate(lambda row: row["id"], horizon=1) | dm.io.Collect()

    with pytest.raises(UserCodeError, match=r"(?s)KeyError: 'id'.*transform: 'once/ids'.*element: \{'no': 1\}"):
        run(dm.LocalRunner(), build)


@pytest.mark.parametrize("horizon", [0, -5, "0 seconds"])
def test_a_horizon_that_is_not_positive_is_refused(horizon: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match="`horizon` must be positive"):
        dm.Deduplicate(horizon=horizon)


def test_an_id_fn_that_is_not_a_function_is_refused() -> None:
    with pytest.raises(dm.InvalidType, match=r"`id_fn` must be a function of the element, got 'number'"):
        dm.Deduplicate("number", horizon=1)  # type: ignore[call-overload]


def test_an_id_may_contain_the_window_and_is_then_kept_once_for_each_window() -> None:
    def build(p: dm.Pipeline) -> None:
        placed = p | TestStream().add("x", 7).add("x", 7).add("x", 12) | dm.Window.into(dm.FixedWindows(10))
        once = placed | dm.Deduplicate(lambda x, window: (x, window), horizon=60)
        _ = once | "kept" >> dm.io.Collect()

    kept = run(dm.LocalRunner(), build).collected("kept")
    assert [int(record.event_time) // 1_000_000 for record in kept] == [7, 12]


def test_an_id_fn_with_a_parameter_that_nothing_fills_is_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match="has an unknown parameter 'salt'"):
        dm.Deduplicate(lambda x, salt: (x, salt), horizon=1)


def test_the_local_runner_in_micro_batches_passes_each_id_once() -> None:
    def build(p: dm.Pipeline) -> None:
        script = TestStream().processing_time(1).add("x", 0, key="k").processing_time(5).add("x", 0, key="k")
        once = p | script | dm.Deduplicate(lambda pair: pair, horizon=60)
        _ = once | dm.Count.per_key() | "counts" >> dm.io.Collect()

    result = run(dm.LocalRunner(mode="microbatch", interval=3), build)
    assert {record.value for record in result.collected("counts")} == {("k", 1)}


def test_deduplicate_refuses_an_input_with_retractions() -> None:
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    minutes = dm.Window.into(dm.FixedWindows(60)).accumulating_and_retracting()
    sums = pipeline | dm.Create([("a", 1)]) | minutes | "sums" >> dm.Sum.per_key()
    _ = sums | "once" >> dm.Deduplicate(lambda pair: pair, horizon=1) | dm.io.Collect()
    with pytest.raises(dm.PlanError, match="'once' keeps one element per id, but 'sums' emits retractions"):
        pipeline.run()


def test_the_plan_and_its_fingerprint_name_the_horizon() -> None:
    from dataflow_model.plan.logical.fingerprint import fingerprint
    from dataflow_model.plan.rewrites.explain import explain

    pipeline = dm.Pipeline()
    once = pipeline | "in" >> dm.Create([1]) | "once" >> dm.Deduplicate(lambda x: x, horizon="1 hour")
    assert "  once: the first element with each id; ids are kept for 1 hour" in explain(pipeline.plan()).splitlines()
    assert fingerprint(pipeline.plan())["once"] == "Deduplicate of once/ids.main for 1 hour"
    assert once.element_type is int


def test_a_function_after_deduplicate_receives_the_percentile_of_the_watermark() -> None:
    def build(p: dm.Pipeline) -> None:
        once = p | TestStream().watermark(10).add("x", 12).add("y", 3) | dm.Deduplicate(lambda x: x, horizon=60)
        _ = once | dm.Map(lambda x, watermark_percentile: (x, watermark_percentile)) | "told" >> dm.io.Collect()

    percentiles = [record.value for record in run(dm.LocalRunner(), build).collected("told")]
    assert percentiles == [("x", 1.0), ("y", None)]
