"""Send the package as a zip to executors that do not have it, and to Spark's planner."""

from __future__ import annotations

import io
import pathlib
import pickle
import tempfile
import weakref
import zipfile
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.runners.sharded.checkpoint.durable import make_folder, write_file
from dataflow_model.runners.sharded.program import PackedProgram

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSource
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

__all__ = ["MOST_ALONG", "processor", "register", "ship_package", "ship_program"]

_shipped: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
_PACKAGE: Final = pathlib.Path(__file__).resolve().parents[2]

MOST_ALONG: Final = 1 << 20
"""The maximum size in bytes of a program inside each command; Spark broadcasts larger commands."""


def ship_package(spark: SparkSession) -> None:
    """Send the package to a session's executors, once per session; in local mode they already have it."""
    if _shipped.get(id(spark)) is spark:  # another session may have the same id
        return
    _shipped[id(spark)] = spark
    if _is_local(spark):
        return
    archive = pathlib.Path(tempfile.mkdtemp(prefix="dataflow_model-"), "dataflow_model.zip")
    archive.write_bytes(_zipped())
    spark.addArtifacts(str(archive), pyfile=True)


def ship_program(spark: SparkSession, packed: PackedProgram, folder: pathlib.Path, *, shared: bool) -> PackedProgram:
    """Return a program in the form for commands; a large program is written to a file, which each worker loads.

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
    file = folder / f"{packed.digest}.pickle"
    write_file(file, packed.blob)
    if shared or _is_local(spark):
        return PackedProgram(packed.digest, file=str(file))
    spark.addArtifacts(str(file), file=True)
    return DistributedProgram(packed.digest, file=file.name)


@attrs.frozen
class DistributedProgram(PackedProgram):
    """A program in a file that Spark distributes to its workers, identified by its name."""

    def path(self) -> pathlib.Path:
        """Return the path of the distributed file on this machine."""
        from pyspark import SparkFiles

        return pathlib.Path(SparkFiles.get(self.file))


def register(spark: SparkSession, provider: type[DataSource]) -> None:
    """Register a provider together with the package, since Spark's planner does not see artifacts."""
    spark.dataSource.register(provider if _is_local(spark) else _travelling(provider, _zipped()))


def _zipped() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(_PACKAGE.rglob("*.py")):
            packed.write(path, path.relative_to(_PACKAGE.parent))
        packed.write(_PACKAGE / "py.typed", "dataflow_model/py.typed")
    return content.getvalue()


def processor(spark: SparkSession, kind: type[StatefulProcessor], *arguments: Any) -> StatefulProcessor:
    """Create a stateful processor together with the package, since the driver's worker does not see artifacts."""
    if _is_local(spark):
        return kind(*arguments)
    return _travelling_processor(kind, pickle.dumps(arguments), _zipped())


# The classes below are local to their functions, so they are pickled by value; they must not refer to names of this
# module, which is not available where they are unpickled.


def _finder(owner: type, package: bytes) -> Callable[[], Any]:
    """Return a function that imports a class of this package, from the zip if the package is not installed."""
    module, place = owner.__module__, owner.__name__

    def find() -> Any:
        import importlib
        import importlib.util
        import pathlib
        import sys
        import tempfile

        if importlib.util.find_spec("dataflow_model") is None:
            archive = pathlib.Path(tempfile.mkdtemp(prefix="dataflow_model-"), "dataflow_model.zip")
            archive.write_bytes(package)
            sys.path.insert(0, str(archive))
            importlib.invalidate_caches()
        return getattr(importlib.import_module(module), place)

    return find


def _travelling(provider: type[DataSource], package: bytes) -> type[DataSource]:
    """Return a provider that contains the package."""
    from pyspark.sql.datasource import DataSource

    title, find = provider.name(), _finder(provider, package)

    class Travelling(DataSource):
        @classmethod
        def name(cls) -> str:
            return title

        def schema(self) -> Any:
            return find()(self.options).schema()

        def reader(self, schema: Any) -> Any:
            return find()(self.options).reader(schema)

        def streamReader(self, schema: Any) -> Any:  # noqa: N802 - Spark's name
            return find()(self.options).streamReader(schema)

        def streamWriter(self, schema: Any, overwrite: bool) -> Any:  # noqa: FBT001, N802
            return find()(self.options).streamWriter(schema, overwrite)

    return Travelling


def _travelling_processor(kind: type[StatefulProcessor], arguments: bytes, package: bytes) -> StatefulProcessor:
    """Return a processor that contains the package."""
    from pyspark.sql.streaming.stateful_processor import StatefulProcessor

    find = _finder(kind, package)

    class Travelling(StatefulProcessor):
        def init(self, handle: Any) -> None:
            import pickle

            own = find()
            self.own = own(*pickle.loads(arguments))
            self.own.init(handle)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:  # noqa: N802, N803
            return self.own.handleInputRows(key, rows, timerValues)

        def close(self) -> None:
            self.own.close()

    return Travelling()


def _is_local(spark: SparkSession) -> bool:
    master: Any = spark.conf.get("spark.master", "")
    return str(master).startswith("local[") or str(master) == "local"
