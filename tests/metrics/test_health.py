"""The health of a run: alive, committing, with a watermark that moves."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.metrics.health import HealthCheck

LIMIT = dm.duration("1 minute")


@attrs.define
class Run:
    """A run whose report a test makes."""

    state: dm.RunnerState = dm.RunnerState.RUNNING
    is_stream: bool = True
    lag: str = "0 seconds"
    watermark: str | None = "2013-01-01T00:00Z"
    fails: bool = False

    def report(self) -> dm.metrics.RunReport:
        if self.fails:
            raise dm.SinkError("the checkpoint is gone")
        at = None if self.watermark is None else dm.event_time(self.watermark)
        transforms = {
            "rows": dm.metrics.TransformReport(label="rows", stage=0, watermark=at),
            "sums": dm.metrics.TransformReport(label="sums", stage=1, watermark=dm.MAX_TIMESTAMP),
            "map": dm.metrics.TransformReport(label="map", stage=1),
        }
        now = dm.processing_time("2013-01-01T00:00Z")
        return dm.metrics.RunReport(
            at=now, clock=now, commits=3, system_lag=dm.duration(self.lag), transforms=transforms, stages={}
        )


def fetch(server: dm.metrics.MetricsServer, path: str) -> tuple[int, dict[str, Any]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_run_that_commits_is_healthy_and_its_lowest_watermark_is_reported() -> None:
    with dm.metrics.serve(Run(), port=0) as server:
        assert fetch(server, "/health") == (
            200,
            {
                "healthy": True,
                "state": "running",
                "is_alive": True,
                "is_committing": True,
                "is_watermark_moving": True,
                "system_lag_seconds": 0.0,
                "commits": 3,
                "watermark": "2013-01-01T00:00:00Z",
                "watermark_still_seconds": pytest.approx(0, abs=300),
            },
        )


@pytest.mark.parametrize("state", [dm.RunnerState.FAILED, dm.RunnerState.STOPPED])
def test_a_run_that_has_failed_or_was_stopped_is_not_alive(state: dm.RunnerState) -> None:
    with dm.metrics.serve(Run(state), port=0) as server:
        status, facts = fetch(server, "/health")
    assert (status, facts["is_alive"], facts["state"]) == (503, False, state.value)


@pytest.mark.parametrize("state", [dm.RunnerState.DONE, dm.RunnerState.DRAINED])
def test_a_run_whose_input_has_ended_is_healthy(state: dm.RunnerState) -> None:
    assert HealthCheck(Run(state, watermark=None), LIMIT).check().is_healthy


def test_a_micro_batch_that_takes_longer_than_the_limit_is_not_committing() -> None:
    with dm.metrics.serve(Run(lag="61 seconds"), port=0, stalled_after="1 minute") as server:
        status, facts = fetch(server, "/health")
    assert (status, facts["is_alive"], facts["is_committing"]) == (503, True, False)
    assert HealthCheck(Run(lag="60 seconds"), LIMIT).check().is_committing


def test_a_bounded_run_counts_as_committing_however_long_it_takes() -> None:
    assert HealthCheck(Run(is_stream=False, lag="3 hours"), LIMIT).check().is_healthy
    with dm.Pipeline() as p:
        _ = p | dm.Create([1]) | dm.io.Collect()
    assert not p.result.is_stream  # type: ignore[attr-defined]


def test_a_watermark_that_does_not_advance_is_reported_but_is_no_reason_to_restart() -> None:
    now = [0.0]
    run = Run(watermark=None)
    checks = HealthCheck(run, LIMIT, clock=lambda: now[0])
    run.watermark = "2013-01-01T00:00Z"
    assert checks.check().is_watermark_moving
    now[0] = 60.0
    assert checks.check().is_watermark_moving
    now[0] = 61.0
    still = checks.check()
    assert (still.is_watermark_moving, still.watermark_still_seconds, still.is_healthy) == (False, 61.0, True)
    run.watermark = "2013-01-01T00:01Z"
    assert checks.check().is_watermark_moving


def test_a_watermark_at_the_end_of_time_need_not_advance() -> None:
    now = [0.0]
    run = Run()
    checks = HealthCheck(run, LIMIT, clock=lambda: now[0])
    checks.check()
    run.watermark = None
    now[0] = 1_000.0
    checks.check()
    now[0] = 2_000.0
    assert checks.check().is_watermark_moving


def test_the_health_path_of_the_watermark_requires_that_it_advances() -> None:
    with dm.metrics.serve(Run(), port=0, stalled_after=dm.Duration(micros=1)) as server:
        fetch(server, "/health")
        assert fetch(server, "/health")[0] == 200
        assert fetch(server, "/health/watermark")[0] == 503
    with dm.metrics.serve(Run(), port=0) as server:
        assert fetch(server, "/health/watermark")[0] == 200


def test_a_run_whose_report_cannot_be_created_is_not_healthy() -> None:
    with dm.metrics.serve(Run(fails=True), port=0) as server:
        status, facts = fetch(server, "/health")
    assert (status, facts) == (503, {"healthy": False, "error": "SinkError: the checkpoint is gone"})


def test_a_limit_that_is_not_positive_is_rejected() -> None:
    with pytest.raises(dm.InvalidArgument, match="`stalled_after` must be positive, got '0 seconds'"):
        dm.metrics.serve(Run(), port=0, stalled_after=0)
