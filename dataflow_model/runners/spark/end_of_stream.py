"""The end of a stream on Spark: its workers tear down the functions that they keep between micro-batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dataflow_model.errors import LOG
from dataflow_model.plan.functions.combine import CombineFn, owners_of
from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.plan.functions.state import CombiningStateSpec
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, ParDo
from dataflow_model.runners.spark.deployment.failures import reported
from dataflow_model.runners.spark.deployment.shipping import travelling
from dataflow_model.runners.spark.tasks import CACHE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.spark.deployment.package import Package

_TASKS_A_SHARD: Final = 8
_LEAST_TASKS: Final = 32
"""Spark gives a task to the worker that has been idle longest, so more tasks than workers reach all of them."""


def has_teardown(plan: Plan) -> bool:
    """Return whether a function of a plan defines `teardown`."""
    bases: Any = (DoFn.teardown, CombineFn.teardown)
    return any(type(owner).teardown not in bases for fn in _functions(plan) for owner in owners_of(fn))


def tear_down_workers(spark: SparkSession, package: Package, digest: str, shards: int) -> None:
    """Tear down the functions of a program in the idle workers of a session; errors of `teardown` are logged.

    Args:
        spark: the session, whose stream has ended.
        package: how executors get the package.
        digest: identifies the program.
        shards: the number of shards of the stream.
    """
    tasks = max(_LEAST_TASKS, _TASKS_A_SHARD * shards)
    rows = (
        spark.range(0, tasks, 1, tasks).mapInArrow(travelling(package, _forgetting, digest), "error string").collect()
    )
    for row in rows:
        LOG.error("a function could not be torn down after a stream:\n%s", row.error)


def _forgetting(digest: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    @reported
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"error": pa.array(_errors_of_forgetting(digest), pa.string())})

    return run


def _errors_of_forgetting(digest: str) -> list[str]:
    """Forget a program in this process; a function that Spark gets by name, as it would get a copy of the cache."""
    try:
        CACHE.forget(digest)
    except Exception as error:  # noqa: BLE001 - the user's `teardown` may raise anything
        return [str(error)]
    return []


def _functions(plan: Plan) -> Iterable[DoFn | CombineFn[Any, Any, Any]]:
    for node in plan.nodes:
        if isinstance(node, GroupByKeyAndWindow):
            yield node.combine
        elif isinstance(node, ParDo):
            yield node.fn
            states = node.declaration.states.values()
            yield from (spec.combine for spec in states if isinstance(spec, CombiningStateSpec))
