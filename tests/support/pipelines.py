"""Pipelines as functions, run here and there, and what their sinks have received in a form that compares."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal

from hypothesis import HealthCheck, Phase, given, seed, settings

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hypothesis.strategies import SearchStrategy
    from pyspark.sql import SparkSession

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.runner import PipelineResult, Runner


def run(runner: Runner, build: Callable[[dm.Pipeline], Any], until: Literal["drained"] | None = "drained") -> Any:
    """Build a pipeline, run it to its end and return the result."""
    result = start(runner, build, until)
    result.wait_until_finish()
    return result


def start(
    runner: Runner, build: Callable[[dm.Pipeline], Any], until: Literal["drained"] | None = None
) -> PipelineResult:
    """Build a pipeline and start it."""
    pipeline = dm.Pipeline(runner=runner)
    build(pipeline)
    return pipeline.run(until=until)


def plan_warnings(pipeline: dm.Pipeline) -> list[str]:
    """Run a pipeline to its end and return the messages of its warnings, which are all about the plan."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        pipeline.run().wait_until_finish()
    assert all(warning.category is dm.PlanWarning for warning in shown)
    return [str(warning.message) for warning in shown]


def streaming(spark: SparkSession, checkpoint: Path, **options: Any) -> dm.SparkRunner:
    """Return a streaming runner."""
    return dm.SparkRunner(spark, mode="streaming", checkpoint=str(checkpoint), **options)


def seen(records: Sequence[Record]) -> list[tuple[Any, ...]]:
    """Return all that a sink can tell of records, in order."""
    return [
        (
            record.value,
            record.window,
            record.pane,
            int(record.event_time),
            int(record.processing_time),
            record.is_retraction,
        )
        for record in records
    ]


def counters(result: PipelineResult) -> dict[str, dict[str, Any]]:
    """Return the counters of a run that are not 0."""
    return {
        label: {name: count for name, count in counts.items() if count} for label, counts in result.metrics().items()
    }


def difference(expected: Sequence[Any], actual: Sequence[Any]) -> str:
    """Say what is lost, what is there twice or wrongly, and where the order first differs; `""` for equal sequences."""
    if list(expected) == list(actual):
        return ""
    left = [repr(entry) for entry in actual]
    lost = []
    for entry in map(repr, expected):
        if entry in left:
            left.remove(entry)
        else:
            lost.append(entry)
    lines = [f"{len(expected)} expected, {len(actual)} there: {len(lost)} lost, {len(left)} too many"]
    lines += [f"  lost: {entry}" for entry in lost[:5]]
    lines += [f"  too many: {entry}" for entry in left[:5]]
    if not lost and not left:
        index = next(index for index, pair in enumerate(zip(expected, actual, strict=True)) if pair[0] != pair[1])
        lines += [f"  the order differs from {index} on:", f"    {expected[index]!r}", f"    {actual[index]!r}"]
    return "\n".join(lines)


def draw(strategy: SearchStrategy[Any], count: int, number: int) -> list[Any]:
    """Draw many cases at once: a Spark job is too slow for one each. The same `number`, the same cases."""
    drawn: list[Any] = []

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
    @given(strategy)
    def collect(case: Any) -> None:
        drawn.append(case)

    collect()
    return drawn[:count]
