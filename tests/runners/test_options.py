"""Options of runners: numbers out of range, and options of streams that a bounded run would ignore."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"max_rows_per_batch": 0}, "`max_rows_per_batch` must be a positive int, got 0"),
        ({"max_rows_per_batch": "10"}, "`max_rows_per_batch` must be a positive int, got '10'"),
        ({"shards": True}, "`shards` must be a positive int, got True"),
        ({"trigger_interval": "-1 second"}, "`trigger_interval` must not be negative, got"),
    ],
)
def test_numbers_out_of_range_are_rejected(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(dm.InvalidArgument, match=problem):
        dm.SparkRunner(None, mode="streaming", checkpoint="checkpoint", **options)


@pytest.mark.parametrize(
    "option",
    [
        {"checkpoint": "checkpoint"},
        {"trigger_interval": "1 second"},
        {"max_rows_per_batch": 10},
        {"max_state_memory": "1 MB"},
    ],
)
def test_a_bounded_job_on_spark_rejects_options_of_streams(option: dict[str, Any]) -> None:
    (name,) = option
    problem = (
        rf"`{name}` applies only to streams, got .* with mode='batch'\nHint: leave it out, or use mode='streaming'"
    )
    with pytest.raises(dm.InvalidArgument, match=problem):
        dm.SparkRunner(None, **option)


@pytest.mark.parametrize("option", [{"poll_interval": 1}, {"max_rows_per_batch": 10}, {"max_state_memory": "1 MB"}])
def test_a_run_in_process_rejects_options_of_streams_without_a_checkpoint(option: dict[str, Any]) -> None:
    (name,) = option
    problem = rf"`{name}` applies only to streams, got .* with no checkpoint\nHint: leave it out, or pass checkpoint="
    with pytest.raises(dm.InvalidArgument, match=problem):
        dm.LocalRunner(**option)


def test_both_runners_read_as_many_rows_by_default() -> None:
    on_spark = dm.SparkRunner(None, mode="streaming", checkpoint="checkpoint", max_rows_per_batch=None)
    assert on_spark.max_rows_per_batch == 400_000
    with pytest.raises(dm.InvalidArgument, match="`max_rows_per_batch` must be a positive int, got 0"):
        dm.LocalRunner(checkpoint="checkpoint", max_rows_per_batch=0)
