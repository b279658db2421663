"""What a micro-batch costs on Spark by the number of shards: `python -m benchmarks.cost_model --spark`.

Each micro-batch is small, so its time is what Spark and this package take whatever the data. The parts are those that
Spark reports. All of them but the run of the tasks are on the driver, one after the other.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

import dataflow_model as dm
from benchmarks.cost_of_shards import build, write_files
from benchmarks.session import open_session

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import SparkSession

__all__ = ["Parts", "SparkCost", "measured_on_spark", "spark_table"]

_SHARDS: Final = (1, 2, 4, 8)
_CORES: Final = 2
_MICRO_BATCHES: Final = 9
_WARM: Final = 2
_PATIENCE: Final = 120.0
_PARTS: Final = ("latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "triggerExecution")
_TASKS: Final = (200, 2_000)


Parts: TypeAlias = dict[str, float]
"""The medians of the parts of a micro-batch, in milliseconds, by Spark's names."""


@attrs.frozen
class SparkCost:
    """What Spark takes whatever the data, in seconds.

    Attributes:
        fixed: a micro-batch of one shard.
        task: a further task, which the driver starts and whose end it notices.
    """

    fixed: float
    task: float


def _measured(spark: SparkSession, shards: int) -> Parts:
    """Return the medians of the parts of a micro-batch, in milliseconds."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "in").mkdir()
        pipeline = dm.Pipeline(
            runner=dm.SparkRunner(spark, mode="streaming", checkpoint=str(folder / "checkpoint"), shards=shards)
        )
        build(pipeline, folder)
        write_files(folder, shards, 0)
        run: Any = pipeline.run()
        try:
            parts: list[Any] = []
            for number in range(1, 1 + _WARM + _MICRO_BATCHES):
                done = _next_progress(run.query, -1 if not parts else parts[-1].batchId)
                parts.append(done)
                write_files(folder, shards, number)
        finally:
            run.stop()
    times = [progress.durationMs for progress in parts[_WARM:]]
    return {name: statistics.median(float(part.get(name, 0)) for part in times) for name in _PARTS}


def _next_progress(query: Any, after: int) -> Any:
    """Wait for a micro-batch with input after another one, and return its progress."""
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        for progress in query.recentProgress:
            if progress.batchId > after and progress.numInputRows > 0:
                return progress
        time.sleep(0.02)
    raise TimeoutError(f"no micro-batch after {after} has ended within {_PATIENCE:.0f} s")


def _task_cost(spark: SparkSession) -> float:
    """Return the seconds that a task takes that does nothing, from jobs with few and with many of them."""
    spark.range(0, _TASKS[0], 1, _TASKS[0]).write.format("noop").mode("overwrite").save()
    times = []
    for count in _TASKS:
        start = time.perf_counter()
        spark.range(0, count, 1, count).write.format("noop").mode("overwrite").save()
        times.append(time.perf_counter() - start)
    return (times[1] - times[0]) / (_TASKS[1] - _TASKS[0])


def measured_on_spark() -> tuple[SparkCost, dict[int, Parts]]:
    """Return the cost of Spark itself, and the parts of a micro-batch by the number of shards."""
    spark = open_session(_CORES)
    try:
        parts = {shards: _measured(spark, shards) for shards in _SHARDS}
        least = parts[min(_SHARDS)]
        return SparkCost(least["triggerExecution"] / 1_000, _task_cost(spark)), parts
    finally:
        spark.stop()


def spark_table(cost: SparkCost, parts: Mapping[int, Parts]) -> Iterator[str]:
    """Yield the table in Markdown, line by line."""
    yield f"| shards | {', ms | '.join(_PARTS)}, ms |"
    yield "|---:|" + "---:|" * len(_PARTS)
    for shards, of_shards in parts.items():
        yield f"| {shards} | {' | '.join(f'{of_shards[name]:,.0f}' for name in _PARTS)} |"
    yield ""
    yield f"A task that does nothing takes {cost.task * 1e3:.2f} ms."
