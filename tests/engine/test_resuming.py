"""Functions whose work on an element outlasts the input: the run goes on with them, and so does the watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.functions.dofn import MapFn
from dataflow_model.plan.logical.nodes import Ref, SideInput
from dataflow_model.testing import TestStream
from tests.support.resuming import Counting, counted, sums
from tests.support.windowed import numbers, par_do, plan_of

if TYPE_CHECKING:
    from pathlib import Path

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node

ENDS = ("a", 25), ("b", 3), ("c", 0)


@pytest.fixture(params=["bounded", "stream"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> dm.LocalRunner:
    return dm.LocalRunner() if request.param == "bounded" else dm.LocalRunner(checkpoint=tmp_path / "checkpoint")


def counting(*ends: tuple[str, int], fn: Counting | None = None) -> Plan:
    return plan_of(numbers(*ends), *counted(Ref("numbers"), fn), sinks={"out": Ref("sums"), "each": Ref("counting")})


def panes_of(result: Any) -> list[tuple[str, int, int]]:
    records = result.collected("out")
    assert all(record.pane.timing is dm.PaneTiming.ON_TIME and record.pane.index == 0 for record in records)
    return sorted(
        (key, int(record.window.start) // 1_000_000, total) for record in records for key, total in [record.value]
    )


def test_a_run_ends_when_the_work_that_outlasts_its_input_has_ended(runner: dm.LocalRunner) -> None:
    result = runner.run(counting(*ENDS))
    assert result.wait_until_finish() is dm.RunnerState.DONE
    assert panes_of(result) == sums(*ENDS)
    assert len(result.collected("each")) == 28
    assert result.watermarks() == dict.fromkeys(("numbers", "counting", "sums"), dm.MAX_TIMESTAMP)


def test_a_run_that_is_stopped_goes_on_with_the_work_that_is_left(tmp_path: Path) -> None:
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint")
    plan = counting(*ENDS, fn=Counting(pause=2_000))
    for _ in range(3):
        result = runner.run(plan)
        result.wait_until_finish(0.1)
        result.stop()
    assert runner.run(plan).wait_until_finish() is dm.RunnerState.DONE
    result = runner.run(plan)
    assert result.wait_until_finish() is dm.RunnerState.DONE, "a run that is over stays over"
    assert panes_of(result) == sums(*ENDS)


def test_work_that_never_ends_runs_until_it_is_stopped_and_the_watermark_follows_it(runner: dm.LocalRunner) -> None:
    result = runner.run(counting(("a", 1 << 40), fn=Counting(pause=100)))
    while result.watermarks().get("counting", dm.MIN_TIMESTAMP) < dm.event_time(25):
        assert result.wait_until_finish(0.01) is dm.RunnerState.RUNNING
    result.stop()
    assert result.wait_until_finish() is dm.RunnerState.STOPPED


def test_a_drained_stream_ends_the_work_that_is_left(tmp_path: Path) -> None:
    result = dm.LocalRunner(checkpoint=tmp_path / "checkpoint").run(counting(("a", 1 << 40), fn=Counting(pause=100)))
    while result.watermarks().get("counting", dm.MIN_TIMESTAMP) < dm.event_time(25):
        assert result.wait_until_finish(0.01) is dm.RunnerState.RUNNING
    result.drain()
    assert result.wait_until_finish() is dm.RunnerState.DRAINED
    assert panes_of(result)[:2] == sums(("a", 20))
    assert result.watermarks()["sums"] == dm.MAX_TIMESTAMP


def test_a_drain_does_not_wait_until_the_work_is_due(tmp_path: Path) -> None:
    hour = 3_600_000_000
    result = dm.LocalRunner(checkpoint=tmp_path / "checkpoint").run(counting(("a", 5), fn=Counting(pause=hour)))
    assert result.wait_until_finish(0.3) is dm.RunnerState.RUNNING
    result.drain()
    assert result.wait_until_finish(60) is dm.RunnerState.DRAINED
    assert panes_of(result) == sums(("a", 1))


def test_a_stream_rests_until_the_work_is_due(tmp_path: Path) -> None:
    hour = 3_600_000_000
    result = dm.LocalRunner(checkpoint=tmp_path / "checkpoint").run(counting(("a", 5), fn=Counting(pause=hour)))
    result.wait_until_finish(0.5)
    commits = result.report().commits
    result.wait_until_finish(0.5)
    assert result.report().commits == commits <= 3
    result.stop()


def test_late_elements_are_worked_on_too_and_keep_the_run_going() -> None:
    p = dm.Pipeline()
    _ = p | "numbers" >> TestStream().watermark(1_000).add(4, 0, key="a").add(2, 0, key="b")
    result = dm.LocalRunner().run(plan_of(*p.plan().nodes, *counted(Ref("numbers")), sinks={"each": Ref("counting")}))
    assert result.wait_until_finish() is dm.RunnerState.DONE
    values = sorted(record.value for record in result.collected("each"))
    assert values == [("a", 0), ("a", 1), ("a", 2), ("a", 3), ("b", 0), ("b", 1)]


def test_a_collection_behind_such_work_is_a_side_input_that_changes(runner: dm.LocalRunner) -> None:
    side = SideInput(Ref("sums"), "iter")
    main: list[Node] = [
        numbers("x", label="main"),
        par_do("paired", Ref("main"), MapFn(lambda x, sums: (x, len(list(sums)))), args=(side,)),
    ]
    plan = plan_of(numbers(("a", 25)), *counted(Ref("numbers")), *main, sinks={"out": Ref("paired")})
    result = runner.run(plan)
    assert result.wait_until_finish() is dm.RunnerState.DONE
    assert len(result.collected("out")) == 1


def test_several_processes_reject_such_work_before_anything_runs() -> None:
    with pytest.raises(dm.UnsupportedOnRunner, match="'counting' needs splittable functions"):
        dm.LocalRunner(workers=2).run(counting(*ENDS))


@pytest.mark.spark
def test_a_stream_on_spark_goes_on_with_such_work_after_its_input_and_when_it_is_started_again(
    spark: Any, tmp_path: Path
) -> None:
    ends = ("a", 5), ("b", 2)
    plan = counting(*ends)
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=str(tmp_path / "checkpoint"))
    result = runner.run(plan)
    while result.watermarks().get("counting", dm.MIN_TIMESTAMP) < dm.event_time(1):
        assert result.wait_until_finish(0.01) is dm.RunnerState.RUNNING
    result.stop()
    for _ in range(2):  # a run that is over stays over
        result = runner.run(plan)
        assert result.wait_until_finish() is dm.RunnerState.DONE
        assert panes_of(result) == sums(*ends)
