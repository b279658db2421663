"""Functions inside the engine whose outputs have event times, windows and panes of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.functions.dofn import FlatMapFn, MapFn
from dataflow_model.plan.logical.nodes import Flatten, GroupByKeyAndWindow, Ref, SideInput
from dataflow_model.plan.logical.strategy import WindowingStrategy
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.windowed import EARLY, LATE, SECOND, Counting, Placing, numbers, par_do, placed, plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.logical.graph import Plan


@pytest.fixture(params=["bounded", "workers", "stream"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> dm.LocalRunner:
    match request.param:
        case "bounded":
            return dm.LocalRunner()
        case "workers":
            return dm.LocalRunner(workers=2)
        case _:
            return dm.LocalRunner(checkpoint=tmp_path / "checkpoint")


def collected(runner: dm.LocalRunner, plan: Plan, label: str = "out") -> list[tuple[Any, int, str, dm.PaneInfo]]:
    result = runner.run(plan)
    result.wait_until_finish()
    return [
        (record.value, int(record.event_time), str(record.window), record.pane) for record in result.collected(label)
    ]


def expected(*values: int, added: int = 0) -> list[tuple[Any, int, str, dm.PaneInfo]]:
    return [
        (value + added, time, str(window), pane)
        for value in values
        for time, windows, pane in [placed(value)]
        for window in windows
    ]


def test_outputs_have_event_times_windows_and_panes_of_their_own(runner: dm.LocalRunner) -> None:
    plan = plan_of(
        numbers(1, 2, 3), par_do("placed", Ref("numbers"), Placing(), tags=("even",)),
        sinks={"out": Ref("placed"), "even": Ref("placed", "even")},
    )  # fmt: skip
    result = runner.run(plan)
    result.wait_until_finish()
    assert [(record.value, record.pane) for record in result.collected("out")] == [
        (1, EARLY), (1, EARLY), (2, LATE), (3, EARLY), (3, EARLY)
    ]  # fmt: skip
    assert [(record.value, int(record.event_time)) for record in result.collected("even")] == [(2, 2 * SECOND)]


def test_functions_behind_see_the_windows_and_panes_of_the_outputs(runner: dm.LocalRunner) -> None:
    seen = MapFn(lambda value, window, pane, timestamp: (value, str(window), pane.index, int(timestamp)))
    plan = plan_of(
        numbers(2, 1),
        par_do("placed", Ref("numbers"), Placing(), tags=("even",)),
        par_do("same", Ref("placed"), MapFn(lambda value: value)),
        par_do("seen", Ref("same"), seen),
        sinks={"out": Ref("seen")},
    )
    assert [value for value, *_ in collected(runner, plan)] == [
        (value, window, pane.index, time) for value, time, window, pane in expected(2, 1)
    ]


def test_a_flatten_keeps_the_panes_of_both_inputs(runner: dm.LocalRunner) -> None:
    plan = plan_of(
        numbers(2, 1),
        par_do("placed", Ref("numbers"), Placing(), tags=("even",)),
        par_do("twice", Ref("placed"), FlatMapFn(lambda value: [value, value])),
        Flatten(label="both", inputs=(Ref("numbers"), Ref("twice"))),
        sinks={"out": Ref("both")},
    )
    timings = [(value, pane.timing.name) for value, _, _, pane in collected(runner, plan)]
    assert timings == [(2, "LATE")] * 2 + [(2, "UNKNOWN")] + [(1, "EARLY")] * 4 + [(1, "UNKNOWN")]


def test_a_grouping_behind_uses_the_windows_of_the_outputs(runner: dm.LocalRunner) -> None:
    strategy = WindowingStrategy(dm.FixedWindows(1))
    plan = plan_of(
        numbers(1, 3, 1),
        par_do("placed", Ref("numbers"), Placing(), tags=("even",)),
        par_do("pairs", Ref("placed"), MapFn(lambda value: ("key", value))),
        GroupByKeyAndWindow(label="grouped", input=Ref("pairs"), strategy=strategy, combine=dm.Sum()),
        sinks={"out": Ref("grouped")},
    )
    sums = {window: value for (_, value), _, window, _ in collected(runner, plan)}
    windows = {value: [window for _, _, window, _ in expected(value)] for value in (1, 3)}
    assert sums == dict.fromkeys(windows[1], 2) | dict.fromkeys(windows[3], 3)


def test_a_function_sees_its_side_input_by_the_window_of_the_element(runner: dm.LocalRunner) -> None:
    plan = plan_of(
        numbers(1, 2),
        numbers(10, 20, label="side"),
        par_do("placed", Ref("numbers"), Placing(), args=(SideInput(Ref("side"), "iter"),), tags=("even",)),
        sinks={"out": Ref("placed")},
    )
    assert collected(runner, plan) == expected(1, 2, added=30)


def test_a_stateful_function_emits_into_other_windows_from_elements_timers_and_the_end_of_a_bundle(
    runner: dm.LocalRunner,
) -> None:
    plan = plan_of(
        numbers(("k", 1), ("k", 4)),
        par_do("counted", Ref("numbers"), Counting(), tags=("flushed", "ended")),
        sinks={"out": Ref("counted"), "flushed": Ref("counted", "flushed"), "ended": Ref("counted", "ended")},
    )
    result = runner.run(plan)
    result.wait_until_finish()

    def of(label: str) -> list[tuple[Any, int, str, dm.PaneInfo]]:
        return [
            (record.value, int(record.event_time), str(record.window), record.pane)
            for record in result.collected(label)
        ]

    assert of("out") == expected(1, 4)
    assert of("flushed") == expected(2)
    assert of("ended")
    assert {each[0] for each in of("ended")} == {7}


@pytest.mark.parametrize("restarts", [frozenset(), frozenset(range(100))], ids=["goes on", "starts anew"])
@pytest.mark.parametrize("steps", [1, 2, 3, 7])
def test_outputs_at_the_end_of_a_bundle_of_elements_or_timers_stand_behind_them(
    steps: int, restarts: frozenset[int]
) -> None:
    """In some instants only a timer is run, or the elements are fewer than before and too late."""
    script = TestStream().add(1, 0, key="k").add(4, 0, key="k").add(2, 0, key="m").watermark(49.5)
    script = script.add(3, 70, key="k").watermark(60).add(5, 0, key="n").watermark(80)
    p = dm.Pipeline()
    _ = p | "numbers" >> script
    ends = {"ended": Ref("counted", "ended"), "flushed": Ref("counted", "flushed"), "out": Ref("counted")}
    plan = plan_of(
        *p.plan().nodes, par_do("counted", Ref("numbers"), Counting(), tags=("flushed", "ended")), sinks=ends
    )
    result = MicroBatchRunner(Schedule(shards=2, cuts=(steps,), restarts=restarts)).run(plan)
    records = [record for label in ends for record in result.collected(label)]
    assert {record.value for record in result.collected("out")} == {1, 2, 3, 4, 5}
    assert {record.value for record in result.collected("flushed")} == {1, 3}
    orders = [(record.processing_time, record.order, record.window) for record in records]
    assert len({*orders}) == len(orders)


def test_a_stateful_function_with_plain_outputs_at_the_end_of_a_bundle_is_rejected() -> None:
    class Plain(Counting):
        def finish_bundle(self) -> list[int]:  # type: ignore[override]
            return [7]

    plan = plan_of(
        numbers(("k", 1)),
        par_do("counted", Ref("numbers"), Plain(), tags=("flushed", "ended")),
        sinks={"out": Ref("counted")},
    )
    with pytest.raises(dm.InvalidType, match="its outputs must belong to a key and a window, got 7 from finish_bundle"):
        dm.LocalRunner().run(plan).wait_until_finish()
