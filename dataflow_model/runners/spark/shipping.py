"""Send the package as a zip to executors that do not have it, and to Spark's planner."""

from __future__ import annotations

import functools
import io
import pathlib
import pickle
import weakref
import zipfile
import zlib
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import attrs

from dataflow_model.runners.run_folder import RunFolder
from dataflow_model.runners.sharded.checkpoint.durable import make_folder, write_file
from dataflow_model.runners.sharded.program import PackedProgram
from dataflow_model.runners.spark.session import is_local

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

__all__ = ["MOST_ALONG", "Stage", "processor", "register_sink", "register_source", "ship_package", "ship_program"]

_shipped: weakref.WeakKeyDictionary[Any, RunFolder | None] = weakref.WeakKeyDictionary()
"""The sessions that have the package, with the folder of its archive, which their executors may ask for at any time."""
_PACKAGE: Final = pathlib.Path(__file__).resolve().parents[2]

MOST_ALONG: Final = (1 << 20) - (1 << 16)
"""The maximum size in bytes of the program and the package inside a command, which has some kilobytes besides them.

Spark broadcasts a command of more than a mebibyte. The process that it asks for the state variables of a processor
cannot read it then, and the query fails with `BROADCAST_VARIABLE_NOT_LOADED`.
"""


class Stage(Protocol):
    """What `processor` makes a stateful processor of: created with its arguments and its state variables by name."""

    VALUES: ClassVar[Mapping[str, StructType]]
    """The schemas of its variables with one value; the JVM would have to parse text once for each task."""
    MAPS: ClassVar[Mapping[str, tuple[StructType, StructType]]]
    """The schemas of keys and values of its variables that are maps."""

    def run(self, key: Any, rows: Iterator[Any]) -> Iterator[Any]:
        """Return the output for the input rows of one key in one micro-batch."""
        ...


def ship_package(spark: SparkSession) -> None:
    """Send the package to a session's executors, once per session; in local mode they already have it."""
    if spark in _shipped:
        return
    folder = None if is_local(spark) else RunFolder("package")
    if folder is not None:
        archive = folder.path / "dataflow_model.zip"
        archive.write_bytes(_zipped())
        spark.addArtifacts(str(archive), pyfile=True)
    _shipped[spark] = folder


def ship_program(spark: SparkSession, packed: PackedProgram, folder: pathlib.Path, *, shared: bool) -> PackedProgram:
    """Return a program in the form for commands; a large program is written to a file, which each worker loads.

    Every stage, source and sink has its own command, and the JVM holds several copies of each. On a cluster commands
    contain the package too.

    Args:
        spark: the session.
        packed: the program.
        folder: the folder of the file.
        shared: whether the session's executors can reach the folder; otherwise Spark distributes the file.
    """
    if len(packed.blob) + len(_package_along(spark)) <= MOST_ALONG:
        return packed
    make_folder(folder)
    file = folder / f"{packed.digest}.pickle"
    write_file(file, packed.blob)
    if shared or is_local(spark):
        return attrs.evolve(packed, blob=b"", file=str(file))
    spark.addArtifacts(str(file), file=True)
    return DistributedProgram(packed.digest, file=file.name, folders=packed.folders)


@attrs.frozen
class DistributedProgram(PackedProgram):
    """A program in a file that Spark distributes to its workers, identified by its name."""

    def path(self) -> pathlib.Path:
        """Return the path of the distributed file on this machine."""
        from pyspark import SparkFiles

        return pathlib.Path(SparkFiles.get(self.file))


def register_source(spark: SparkSession, title: str, schema: StructType, reader: type) -> None:
    """Register a streaming source, whose reader is imported when Spark first asks it for something.

    Spark plans a query in several Python processes, which only pass the reader on: they end sooner, and take less
    memory, without this package. On a cluster they do not see artifacts, so the source contains the package.

    Args:
        spark: the session.
        title: the name of the format.
        schema: the schema of its rows.
        reader: a class at the top level of its module that is created with the options; it has the methods of
            `DataSourceStreamReader`.
    """
    find, installed = _finders(spark, reader)
    spark.dataSource.register(_source(title, schema, find, installed))


def register_sink(spark: SparkSession, title: str, writer: type) -> None:
    """Register a streaming sink; as `register_source`, with the methods of `DataSourceStreamArrowWriter`."""
    find, installed = _finders(spark, writer)
    spark.dataSource.register(_sink(title, find, installed))


def _package_along(spark: SparkSession) -> bytes:
    """Return the package in the form for commands; in local mode they need none."""
    return b"" if is_local(spark) else _compressed()


@functools.cache
def _compressed() -> bytes:
    """Return the zip of the package, compressed as a whole, which makes it a quarter smaller than file by file."""
    return zlib.compress(_zipped(), 9)


def _zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as packed:
        for path in sorted(_PACKAGE.rglob("*.py")):
            packed.write(path, path.relative_to(_PACKAGE.parent))
        packed.write(_PACKAGE / "py.typed", "dataflow_model/py.typed")
    return content.getvalue()


def processor(spark: SparkSession, stage: type[Stage], *arguments: Any) -> StatefulProcessor:
    """Create the stateful processor of a stage, which imports this package when its first rows arrive.

    When a query starts, Spark starts a Python process for each processor, only to learn its state variables. That
    process ends sooner without the package, and on a cluster it does not see artifacts.

    Args:
        spark: the session.
        stage: the class of the stage; it must be at the top level of its module.
        arguments: what the stage is created with.
    """
    return _travelling_processor(
        _finder(stage, _package_along(spark)), stage.VALUES, stage.MAPS, pickle.dumps(arguments)
    )


# The classes below are local to their functions, so they are pickled by value; they must not refer to names of this
# module, which is not available where they are unpickled.


def _finder(owner: type, package: bytes) -> Callable[[], Any]:
    """Return a function that imports a class of this package, from the compressed zip if it is not installed."""
    module, place = owner.__module__, owner.__name__

    def find() -> Any:
        import atexit
        import contextlib
        import fcntl
        import importlib
        import importlib.util
        import os
        import pathlib
        import shutil
        import sys
        import tempfile
        import zlib

        if package and importlib.util.find_spec("dataflow_model") is None:
            made = tempfile.mkdtemp(prefix="new-dataflow_model-package-")  # as `RunFolder` makes its own
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(os.open(made, os.O_RDONLY), fcntl.LOCK_SH)  # until the process ends
            folder = str(pathlib.Path(made).rename(made.replace("new-dataflow_model-", "dataflow_model-")))
            owner = os.getpid()

            def remove() -> None:
                if os.getpid() == owner:  # a process that a function forks calls this at its end too
                    shutil.rmtree(folder, ignore_errors=True)

            atexit.register(remove)
            archive = pathlib.Path(folder, "dataflow_model.zip")
            archive.write_bytes(zlib.decompress(package))
            sys.path.insert(0, str(archive))
            importlib.invalidate_caches()
        return getattr(importlib.import_module(module), place)

    return find


def _finders(spark: SparkSession, owner: type) -> tuple[Callable[[], Any] | None, Callable[[], Any]]:
    """Return two functions that import a class: one for Spark's planner, one for executors, which have the package.

    The planner's is `None` in local mode, where nothing has to be imported first.
    """
    return None if is_local(spark) else _finder(owner, _package_along(spark)), _finder(owner, b"")


def _source(
    title: str, rows: StructType, find: Callable[[], Any] | None, installed: Callable[[], Any]
) -> type[DataSource]:
    """Return a source that contains what it needs to find its reader."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader

    class Reader(DataSourceStreamReader):
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options
            self.ours: Any = None

        def reader(self) -> Any:
            if self.ours is None:
                self.ours = installed()(self.options)
            return self.ours

        def initialOffset(self) -> Any:  # noqa: N802 - Spark's name
            return self.reader().initialOffset()

        def latestOffset(self, start: Any, limit: Any = None) -> Any:  # noqa: N802
            return self.reader().latestOffset(start, limit)

        def partitions(self, start: Any, end: Any) -> Any:
            return self.reader().partitions(start, end)

        def read(self, partition: Any) -> Any:
            return self.reader().read(partition)

        def commit(self, end: Any) -> None:
            self.reader().commit(end)

    class Source(DataSource):
        @classmethod
        def name(cls) -> str:
            return title

        def schema(self) -> Any:
            return rows

        def streamReader(self, schema: Any) -> Any:  # noqa: N802
            del schema
            if find is not None:
                find()  # from here on the package can be imported
            return Reader(dict(self.options))

    return Source


def _sink(title: str, find: Callable[[], Any] | None, installed: Callable[[], Any]) -> type[DataSource]:
    """Return a sink that contains what it needs to find its writer."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter

    class Writer(DataSourceStreamArrowWriter):
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

        def writer(self) -> Any:
            return installed()(self.options)

        def write(self, iterator: Any) -> Any:
            return self.writer().write(iterator)

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            self.writer().commit(messages, batchId)

        def abort(self, messages: Any, batchId: int) -> None:  # noqa: N803
            self.writer().abort(messages, batchId)

    class Sink(DataSource):
        @classmethod
        def name(cls) -> str:
            return title

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: FBT001, N802
            import gc

            del schema, overwrite
            if not gc.get_freeze_count():
                gc.freeze()  # Spark's process looks through all objects after each micro-batch, modules included
            if find is not None:
                find()  # from here on the package can be imported
            return Writer(dict(self.options))

    return Sink


def _travelling_processor(
    find: Callable[[], Any],
    values: Mapping[str, StructType],
    maps: Mapping[str, tuple[StructType, StructType]],
    arguments: bytes,
) -> StatefulProcessor:
    """Return a processor that contains what it needs to find its stage."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    class Travelling(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.state = {name: handle.getValueState(name, schema) for name, schema in values.items()}
            self.state |= {name: handle.getMapState(name, *schemas) for name, schemas in maps.items()}
            self.stage: Any = None

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            import pickle

            del timerValues
            if self.stage is None:
                self.stage = find()(*pickle.loads(arguments), **self.state)
            return self.stage.run(key, rows)

        def close(self) -> None:
            """Do nothing, since the cache of the worker outlives the micro-batch."""

    return Travelling()
