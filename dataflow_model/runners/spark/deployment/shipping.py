"""Send programs, and the functions of this package that run them, to executors and to Spark's planner."""

from __future__ import annotations

import hashlib
import pathlib
import secrets
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import attrs

from dataflow_model.runners.sharded.checkpoint.durable import make_folder, write_file
from dataflow_model.runners.sharded.tasks.program import PackedProgram, encrypted
from dataflow_model.runners.spark.deployment.session import is_local
from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor
    from pyspark.sql.types import StructType

    from dataflow_model.runners.spark.deployment.package import Package

MOST_ALONG: Final = (1 << 20) - (1 << 16)
"""The maximum size in bytes of the program inside a command, which has some kilobytes besides it.

Spark broadcasts a command of more than a mebibyte. The process that it asks for the state variables of a processor
cannot read it then, and the query fails with `BROADCAST_VARIABLE_NOT_LOADED`.
"""

_KEY_BYTES: Final = 32


class Stage(Protocol):
    """What `processor` makes a stateful processor of: created with its arguments and its state variables by name."""

    VALUES: ClassVar[Mapping[str, StructType]]
    """The schemas of its variables with one value; the JVM would have to parse text once for each task."""
    MAPS: ClassVar[Mapping[str, tuple[StructType, StructType]]]
    """The schemas of keys and values of its variables that are maps."""

    def run(self, key: Any, rows: Iterator[Any]) -> Iterator[Any]:
        """Return the output for the input rows of one key in one micro-batch."""
        ...


def ship_program(spark: SparkSession, packed: PackedProgram, folder: pathlib.Path, *, shared: bool) -> PackedProgram:
    """Return a program in the form for commands; a large program is written to a file, which each worker loads.

    The file is encrypted, and its key is in the commands alone, which Spark keeps in no checkpoint.

    Every stage, source and sink has its own command, and the JVM holds several copies of each.

    Args:
        spark: the session.
        packed: the program.
        folder: the folder of the file.
        shared: whether the session's executors can reach the folder; otherwise Spark distributes the file.
    """
    if len(packed.blob) <= MOST_ALONG:
        return packed
    make_folder(folder)
    key = secrets.token_bytes(_KEY_BYTES)
    file = folder / f"{hashlib.sha256(key).hexdigest()}.program"  # Spark distributes a file of a name once
    write_file(file, encrypted(packed.blob, key))
    if shared or is_local(spark):
        return attrs.evolve(packed, blob=b"", file=str(file), key=key)
    spark.addArtifacts(str(file), file=True)
    return DistributedProgram(packed.digest, file=file.name, folders=packed.folders, key=key)


@attrs.frozen
class DistributedProgram(PackedProgram):
    """A program in a file that Spark distributes to its workers, identified by its name."""

    def path(self) -> pathlib.Path:
        """Return the path of the distributed file on this machine."""
        from pyspark import SparkFiles

        return pathlib.Path(SparkFiles.get(self.file))


def travelling(
    package: Package,
    make: Callable[..., Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]],
    *arguments: Any,
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `mapInArrow` that imports this package on the executor, and runs what `make` returns there.

    Args:
        package: how executors get the package.
        make: a function at the top level of its module.
        arguments: what it is called with, on the executor.
    """
    return _travelling_function(package.finder(make), dump(arguments))


def register_source(spark: SparkSession, package: Package, title: str, schema: StructType, reader: type) -> None:
    """Register a streaming source, whose reader is imported when Spark first asks it for something.

    Spark plans a query in several Python processes, which only pass the reader on: they end sooner, and take less
    memory, without this package. Neither they nor the executors of a stream see what Spark Connect has shipped, so the
    source contains what it needs to find the package.

    Args:
        spark: the session.
        package: how executors get the package.
        title: the name of the format.
        schema: the schema of its rows.
        reader: a class at the top level of its module that is created with the options; it has the methods of
            `DataSourceStreamReader`.
    """
    spark.dataSource.register(_source(title, schema, package.finder(reader)))


def register_sink(spark: SparkSession, package: Package, title: str, writer: type) -> None:
    """Register a streaming sink; as `register_source`, with the methods of `DataSourceStreamArrowWriter`."""
    spark.dataSource.register(_sink(title, package.finder(writer), comes_along=bool(package.file)))


def processor(package: Package, stage: type[Stage], *arguments: Any) -> StatefulProcessor:
    """Create the stateful processor of a stage, which imports this package when its first rows arrive.

    When a query starts, Spark starts a Python process for each processor, only to learn its state variables. That
    process ends sooner without the package.

    Args:
        package: how executors get the package.
        stage: the class of the stage; it must be at the top level of its module.
        arguments: what the stage is created with.
    """
    return _travelling_processor(package.finder(stage), stage.VALUES, stage.MAPS, dump(arguments))


# The classes below are local to their functions, so they are pickled by value; they must not refer to names of this
# module, which is not available where they are unpickled.


def _travelling_function(
    find: Callable[[], Any], arguments: bytes
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Any) -> Any:
        make = find()
        from dataflow_model.values.pickles import load

        return make(*load(arguments))(batches)

    return run


def _source(title: str, rows: StructType, find: Callable[[], Any]) -> type[DataSource]:
    """Return a source that contains what it needs to find its reader; so do its partitions, which are only bytes."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition

    class Reader(DataSourceStreamReader):
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options
            self.ours: Any = None

        def reader(self) -> Any:
            if self.ours is None:
                self.ours = find()(self.options)
            return self.ours

        def initialOffset(self) -> Any:  # noqa: N802 - Spark's name
            return self.reader().initialOffset()

        def latestOffset(self, start: Any, limit: Any = None) -> Any:  # noqa: N802
            return self.reader().latestOffset(start, limit)

        def partitions(self, start: Any, end: Any) -> Any:
            parts = self.reader().partitions(start, end)
            from dataflow_model.values.pickles import dump

            return [InputPartition(dump(part)) for part in parts]

        def read(self, partition: Any) -> Any:
            reader = self.reader()
            from dataflow_model.values.pickles import load

            return reader.read(load(partition.value))

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
            return Reader(dict(self.options))

    return Source


def _sink(title: str, find: Callable[[], Any], *, comes_along: bool) -> type[DataSource]:
    """Return a sink that contains what it needs to find its writer."""
    from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter

    class Writer(DataSourceStreamArrowWriter):
        def __init__(self, options: dict[str, str]) -> None:
            self.options = options

        def writer(self) -> Any:
            return find()(self.options)

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
            if comes_along:
                find()  # from here on the package can be imported, which the messages of tasks need
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
            del timerValues
            if self.stage is None:
                stage = find()
                from dataflow_model.values.pickles import load

                self.stage = stage(*load(arguments), **self.state)
            return self.stage.run(key, rows)

        def close(self) -> None:
            """Do nothing, since the cache of the worker outlives the micro-batch."""

    return Travelling()
