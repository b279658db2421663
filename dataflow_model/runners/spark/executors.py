"""Look at the executors of a cluster when a run starts: what they have, and what is missing there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import LOG
from dataflow_model.runners.engine.core.build import CoreBuild, build_of_core

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    from dataflow_model.runners.spark.package import Package

__all__ = ["check_executors"]

_MANY: Final = 1_000_000
"""Rows enough for Spark to start a task on each core."""
_WAY_OUT: Final = {
    CoreBuild.PYTHON: "install this version of dataflow_model there, with a C compiler or from a wheel, or give driver "
    "and executors the same platform and Python: then they use the compiled core of the driver, if it has one",
    CoreBuild.STALE: "install dataflow_model there again",
    CoreBuild.SWITCHED_OFF: "unset DATAFLOW_MODEL_COMPILED there",
}


@attrs.frozen
class _Executor:
    """What one task has found where it ran.

    Attributes:
        host: the name of the machine.
        python: the Python that runs there.
        core: how the core runs there, as the name of a `CoreBuild`.
    """

    host: str
    python: str
    core: str


def check_executors(spark: SparkSession, package: Package) -> tuple[str, ...]:
    """Look at the executors that a session has now, and return what the user should know about them; it is logged too.

    Local sessions, whose executors are this process, are not looked at.

    Args:
        spark: the session.
        package: how its executors get this package.
    """
    if not package.file:
        return ()
    found = _looked_at(spark, package)
    notes = tuple(_slow(found))
    for note in notes:
        LOG.warning("%s", note)
    return notes


def _looked_at(spark: SparkSession, package: Package) -> list[_Executor]:
    look = _looking(package.finder(build_of_core))
    rows = spark.range(_MANY).mapInArrow(look, "found string").distinct().collect()
    return sorted((_Executor(**json.loads(row.found)) for row in rows), key=attrs.astuple)


def _slow(found: Sequence[_Executor]) -> list[str]:
    """Return a sentence for each way in which the core runs uncompiled somewhere."""
    notes = []
    for build, way_out in _WAY_OUT.items():
        places = sorted({f"{executor.host} ({executor.python})" for executor in found if executor.core == build.name})
        if places:
            notes.append(
                f"executors run the core of dataflow_model uncompiled, about 30 times slower: {', '.join(places)}; "
                f"{way_out}"
            )
    return notes


def _looking(find: Callable[[], Any]) -> Callable[[Any], Any]:
    """Return the function of the tasks; it is pickled by value, and must not refer to names of this module."""

    def look(batches: Any) -> Any:
        import json
        import socket
        import sys

        import pyarrow as pa

        for _ in batches:
            pass
        found = {"host": socket.gethostname(), "python": sys.executable, "core": find()().name}
        yield pa.RecordBatch.from_pydict({"found": [json.dumps(found)]})

    return look
