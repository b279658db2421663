"""Look at the executors of a cluster when a run starts: what they have, and what is missing there."""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import LOG, SourceError, UnsupportedOnRunner
from dataflow_model.runners.engine.core.build import CoreBuild, build_of_core

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from pyspark.sql import SparkSession

    from dataflow_model.plan.logical.stages import StagedPlan
    from dataflow_model.runners.spark.deployment.package import Package

_MANY: Final = 1_024
"""The number of rows; Spark divides them by the number of cores."""
_LIBRARIES: Final = ("attrs", "cloudpickle", "fastdigest", "numpy", "pandas", "pendulum", "pyarrow")
"""What this package imports on executors."""
_OF_STREAMS: Final = ("google.protobuf",)
_PIP_NAMES: Final = {"google.protobuf": "protobuf"}
"""The names under which pip knows libraries, where these are others."""
_MOST_OFF: Final = 2.0
"""The seconds by which the clock of an executor may differ from the driver's without a note."""
_VERSION_MISMATCH: Final = "PYTHON_VERSION_MISMATCH"
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
        core: how the core runs there, as the name of a `CoreBuild`; empty if something is missing.
        missing: the libraries that cannot be imported.
        unreachable: the paths that cannot be read, with the reasons.
        clock: the time there, in seconds.
    """

    host: str
    python: str
    core: str
    missing: tuple[str, ...] = attrs.field(default=(), converter=tuple)
    unreachable: dict[str, str] = attrs.field(factory=dict)
    clock: float | None = None

    @property
    def location(self) -> str:
        """What errors call it."""
        return f"{self.host} ({self.python})"


def check_executors(
    spark: SparkSession, package: Package, staged: StagedPlan, *, is_stream: bool = False
) -> tuple[str, ...]:
    """Check that the executors that a session has now can run a plan, by a small task on each core.

    Local sessions, whose executors are this process, are not checked.

    Args:
        spark: the session.
        package: how its executors get this package.
        staged: the plan.
        is_stream: whether it is run as a stream.

    Returns:
        What the user should know about the executors, which is logged too: an uncompiled core, or a clock that differs.

    Raises:
        UnsupportedOnRunner: if they run another Python than this one, or lack libraries.
        SourceError: if they cannot read the checkpoint, or inputs that the driver can read.
    """
    if not package.file:
        return ()
    libraries = [*_LIBRARIES, *(_OF_STREAMS if is_stream else ())]
    own = [read.source for read in staged.sources] + [write.sink for write in staged.sinks]
    # Those of the user may be beside the program or shipped; a worker that does not find them names them.
    modules = sorted({type(part).__module__ for part in own if type(part).__module__.startswith("dataflow_model.")})
    paths = [path for read in staged.sources for path in read.source.shared_paths]
    if not package.is_distributed:
        paths.insert(0, package.file)  # which is in the folder of the checkpoint
    _, notes = _checked(spark, package, libraries, modules, paths)
    for note in notes:
        LOG.warning("%s", note)
    return notes


def list_executors(spark: SparkSession, package: Package) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the executors that a session has now, as texts, and what to know about them; see `check_executors`.

    Local sessions are checked too: their Python workers are processes of their own.

    Args:
        spark: the session.
        package: how its executors get this package.

    Raises:
        UnsupportedOnRunner: if they run another Python than this one, or lack libraries.
    """
    executors, notes = _checked(spark, package, [*_LIBRARIES, *_OF_STREAMS], [], [])
    locations = sorted({f"{executor.location}, core {CoreBuild[executor.core].name.lower()}" for executor in executors})
    return tuple(locations), notes


def _checked(
    spark: SparkSession, package: Package, libraries: Sequence[str], modules: Sequence[str], paths: Sequence[str]
) -> tuple[list[_Executor], tuple[str, ...]]:
    """Return what tasks on the executors have found, and notes about it, if nothing is missing."""
    began = time.time()
    executors = _looked_at(spark, _looking(package.finder(build_of_core), libraries, modules, paths))
    _check_libraries(executors)
    _check_paths(executors, paths)
    return executors, (*_slow(executors), *_off(executors, began, time.time()))


def _looked_at(spark: SparkSession, look: Callable[[Any], str]) -> list[_Executor]:
    """Run a function on the executors; without Arrow, which they may lack."""
    from pyspark.sql.functions import col, udf

    try:
        rows = spark.range(_MANY).select(udf(look, "string", useArrow=False)(col("id")).alias("found"))
        answers = {row.found for row in rows.collect()}
    except Exception as error:
        if _VERSION_MISMATCH in str(error):
            raise UnsupportedOnRunner(
                f"executors run another version of Python than the driver, which runs {sys.version.split()[0]}: "
                f"{str(error).splitlines()[0]}",
                hint=f"set PYSPARK_PYTHON (or spark.pyspark.python) to a Python {sys.version_info[0]}."
                f"{sys.version_info[1]} on the executors before the session is built",
            ) from error
        raise
    return sorted((_Executor(**json.loads(answer)) for answer in answers), key=lambda executor: executor.location)


def _check_libraries(executors: Sequence[_Executor]) -> None:
    lacking = {executor.location: executor.missing for executor in executors if executor.missing}
    if lacking:
        names = sorted({_PIP_NAMES.get(name, name) for missing in lacking.values() for name in missing})
        raise UnsupportedOnRunner(
            "executors lack packages that this run needs: "
            + "; ".join(f"{location} lacks {', '.join(missing)}" for location, missing in lacking.items()),
            hint=f"install them for the Python of the executors: pip install {' '.join(names)}",
        )


def _check_paths(executors: Sequence[_Executor], paths: Iterable[str]) -> None:
    for path in paths:
        hosts = {executor.host: executor.unreachable[path] for executor in executors if path in executor.unreachable}
        if hosts:
            raise SourceError(
                f"executors cannot read {path!r}, which the driver can read: "
                + "; ".join(f"{host}: {reason}" for host, reason in hosts.items()),
                hint="put the checkpoint and the inputs in a folder that the driver and all executors share under the "
                "same path, and run them as users who may read it",
            )


def _slow(executors: Iterable[_Executor]) -> list[str]:
    """Return a sentence for each way in which the core runs uncompiled somewhere."""
    notes = []
    for build, way_out in _WAY_OUT.items():
        locations = sorted({executor.location for executor in executors if executor.core == build.name})
        if locations:
            notes.append(
                f"executors run the core of dataflow_model uncompiled, about 30 times slower: {', '.join(locations)}; "
                f"{way_out}"
            )
    return notes


def _off(executors: Iterable[_Executor], began: float, ended: float) -> list[str]:
    """Return a sentence for each machine whose clock showed a time outside that of the check."""
    off: dict[str, float] = {}
    for executor in executors:
        if executor.clock is not None:
            ahead = max(executor.clock - ended, 0.0) + min(executor.clock - began, 0.0)
            if abs(ahead) > _MOST_OFF:
                off[executor.host] = ahead
    return [
        f"the clock of {host} is at least {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} the driver's, "
        "which shifts processing times; synchronise the clocks of the machines"
        for host, ahead in off.items()
    ]


def _looking(
    find: Callable[[], Any], libraries: Sequence[str], modules: Sequence[str], paths: Sequence[str]
) -> Callable[[Any], str]:
    """Return the function of the tasks, which looks once in each; it is pickled by value.

    It must not refer to names of this module, which is not available where it is unpickled.
    """
    known: dict[str, str] = {}

    def look(_: Any) -> str:
        if not known:
            known["found"] = looked()
        return known["found"]

    def looked() -> str:
        import importlib
        import importlib.util
        import json
        import pathlib
        import socket
        import sys
        import time

        answer: dict[str, Any] = {"host": socket.gethostname(), "python": sys.executable, "core": ""}
        answer["clock"] = time.time()
        missing = []
        for name in libraries:
            try:
                is_there = importlib.util.find_spec(name) is not None
            except ModuleNotFoundError:  # its package is missing
                is_there = False
            if not is_there:
                missing.append(name)
        if not missing:
            answer["core"] = find()().name
            for name in modules:
                try:
                    importlib.import_module(name)
                except ModuleNotFoundError as error:
                    missing.append(error.name or name)
        answer["missing"] = missing
        unreachable = {}
        for path in paths:
            try:
                location = pathlib.Path(path)
                if location.is_dir():
                    next(location.iterdir(), None)
                else:
                    location.open("rb").close()
            except OSError as error:
                unreachable[path] = error.strerror or str(error)
        answer["unreachable"] = unreachable
        return json.dumps(answer)

    return look
