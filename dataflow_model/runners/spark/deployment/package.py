"""This package on executors: their own if it is the same and compiled, otherwise the driver's, which is sent to them.

What is sent contains the compiled core of the driver, which an executor uses if its platform and its Python are those
of the driver; elsewhere the core runs as Python.
"""

from __future__ import annotations

import functools
import io
import pathlib
import platform
import sysconfig
import weakref
import zipfile
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.runners.engine.core.build import RECORD, extension_names, is_fresh, source_digest
from dataflow_model.runners.runs.run_folder import RunFolder
from dataflow_model.runners.sharded.checkpoint.durable import make_folder, write_file
from dataflow_model.runners.spark.deployment.session import is_local

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

_shipped: weakref.WeakKeyDictionary[Any, RunFolder] = weakref.WeakKeyDictionary()
"""The sessions that have the package, with the folder of its archive, which their executors may ask for at any time."""
_PACKAGE: Final = pathlib.Path(__file__).resolve().parents[3]
_CORE: Final = "runners/engine/core"


@attrs.frozen
class Package:
    """How executors get the package.

    Attributes:
        file: the path of its archive, or the name under which Spark distributes it; empty if they have it, as with a
            local session.
        is_distributed: whether Spark distributes the archive.
    """

    file: str = ""
    is_distributed: bool = False

    def finder(self, owner: Any) -> Callable[[], Any]:
        """Return a function that imports a class or function of this package wherever it is called.

        It is pickled by value, so it can be called where the package is not installed.

        Args:
            owner: what to import; it must be at the top level of its module.
        """
        if not self.file:
            return _installed_finder(owner.__module__, owner.__name__)
        core = (source_digest(), tuple(extension_names()))
        prepare = _preparing(self.file, self.is_distributed, _digest(), core, _build())
        return _finder(owner.__module__, owner.__name__, prepare)


INSTALLED: Final = Package()
"""The package where it is installed, as with a local session."""


def ship_package(spark: SparkSession) -> Package:
    """Let Spark distribute the package to a session's executors, once per session; in local mode they have it.

    What a session of Spark Connect has shipped is not seen by its streams: those use `share_package`.
    """
    if is_local(spark):
        return INSTALLED
    if spark not in _shipped:
        folder = RunFolder("package")
        archive = folder.path / _name()
        archive.write_bytes(_archive())
        spark.addArtifacts(str(archive), file=True)
        _shipped[spark] = folder
    return Package(_name(), is_distributed=True)


def share_package(spark: SparkSession, folder: pathlib.Path) -> Package:
    """Write the package to a folder that driver and executors share; in local mode they have it."""
    if is_local(spark):
        return INSTALLED
    make_folder(folder)
    write_file(folder / _name(), _archive())
    return Package(str(folder / _name()))


@functools.cache
def _digest() -> str:
    digest: str = _digester()(str(_PACKAGE))
    return digest


def _name() -> str:
    return f"dataflow_model-{_digest()[:16]}.zip"


@functools.cache
def _archive() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.rglob("*.pxd"), *_extensions()]):
            packed.write(path, path.relative_to(_PACKAGE.parent))
        packed.write(_PACKAGE / "py.typed", "dataflow_model/py.typed")
    return content.getvalue()


def _extensions() -> list[pathlib.Path]:
    """Return the files of the compiled core, if it was compiled from its present source."""
    if not is_fresh():
        return []
    core = _PACKAGE / _CORE
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    return [core / RECORD, *(path for path in core.glob(f"*{suffix}") if path.is_file())]


def _build() -> tuple[str, tuple[str, str]] | None:
    """Return for which Python and C library the driver's core is compiled; `None` if it is not."""
    return (str(sysconfig.get_config_var("EXT_SUFFIX")), platform.libc_ver()) if is_fresh() else None


def _digester() -> Callable[[str], str]:
    """Return a function that computes the digest of the source of a package; it is pickled by value."""

    def digest_of(folder: str) -> str:
        import hashlib
        import pathlib

        root, digest = pathlib.Path(folder), hashlib.sha256()
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.pxd")]):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
        return digest.hexdigest()

    return digest_of


# The functions below are local to others, so they are pickled by value; they must not refer to names of this module,
# which is not available where they are unpickled.


def _installed_finder(module: str, name: str) -> Callable[[], Any]:
    def find() -> Any:
        import importlib

        return getattr(importlib.import_module(module), name)

    return find


def _finder(module: str, name: str, prepare: Callable[[], None]) -> Callable[[], Any]:
    def find() -> Any:
        import importlib

        prepare()
        return getattr(importlib.import_module(module), name)

    return find


def _preparing(
    file: str,
    is_distributed: bool,  # noqa: FBT001
    wanted: str,
    core: tuple[str, tuple[str, ...]],
    build: tuple[str, tuple[str, str]] | None,
) -> Callable[[], None]:
    """Return a function after which this process imports the package as the driver has it.

    Args:
        file: see `Package`.
        is_distributed: see `Package`.
        wanted: the digest of the driver's package.
        core: the digest of the source of the compiled modules, and the names of the extensions.
        build: for what the driver's core is compiled, if it is.
    """
    digest_of, unpacked = _digester(), _unpacking(file, is_distributed, wanted)
    location, record = _CORE, RECORD

    def is_compiled(folder: Any, suffix: str) -> bool:
        if not (folder / record).is_file() or (folder / record).read_text().strip() != core[0]:
            return False
        return all((folder / (name + suffix)).is_file() for name in core[1])

    def prepare() -> None:
        import importlib
        import importlib.util
        import pathlib
        import platform
        import sys
        import sysconfig

        known = sys.modules.get("dataflow_model")
        if getattr(known, "_matches_driver", None) == wanted:
            return
        suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
        fits = build == (suffix, platform.libc_ver())
        spec = importlib.util.find_spec("dataflow_model")
        own = None if spec is None or spec.origin is None else pathlib.Path(spec.origin).parent
        is_same = own is not None and own.is_dir() and digest_of(str(own)) == wanted
        if own is None or not is_same or (fits and not is_compiled(own / location, suffix)):
            for name in [name for name in sys.modules if name.partition(".")[0] == "dataflow_model"]:
                del sys.modules[name]  # another version
            sys.path.insert(0, unpacked(fits))
            importlib.invalidate_caches()
        importlib.import_module("dataflow_model").__dict__["_matches_driver"] = wanted

    return prepare


def _unpacking(file: str, is_distributed: bool, wanted: str) -> Callable[[bool], str]:  # noqa: FBT001
    """Return a function that returns a folder with the unpacked archive.

    The workers of an executor share it, with the bytecode that they leave there; it is in the executor's folder, and
    is removed with it. A process that is no worker has one of its own until it ends.
    """

    def unreadable(path: str, error: OSError) -> Exception:
        import socket

        kind: Any = type("SourceError", (Exception,), {"__module__": "dataflow_model.errors"})  # which is not there
        reason: Exception = kind(
            f"an executor on {socket.gethostname()} cannot read the package in {path!r}: {error}\n"
            "Hint: make sure that the driver and all executors share the checkpoint directory and run as the same user"
        )
        return reason

    def own_folder() -> str:
        import atexit
        import contextlib
        import fcntl
        import os
        import pathlib
        import shutil
        import tempfile

        made = tempfile.mkdtemp(prefix="new-dataflow_model-package-")  # as `RunFolder` makes its own
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(os.open(made, os.O_RDONLY), fcntl.LOCK_SH)  # until the process ends
        folder = str(pathlib.Path(made).rename(made.replace("new-dataflow_model-", "dataflow_model-")))
        owner = os.getpid()

        def remove() -> None:
            if os.getpid() == owner:  # a process that a function forks calls this at its end too
                shutil.rmtree(folder, ignore_errors=True)

        atexit.register(remove)
        return folder

    def extract(folder: str, with_core: bool) -> None:  # noqa: FBT001
        import zipfile

        from pyspark import SparkFiles

        path = SparkFiles.get(file) if is_distributed else file
        try:
            with zipfile.ZipFile(path) as packed:
                names = packed.namelist()
                packed.extractall(folder, [name for name in names if with_core or name.endswith((".py", ".pxd"))])
        except OSError as error:
            raise unreadable(path, error) from error

    def unpacked(with_core: bool) -> str:  # noqa: FBT001
        import contextlib
        import pathlib
        import shutil
        import tempfile

        from pyspark import SparkFiles, TaskContext

        if TaskContext.get() is None:
            folder = own_folder()
            extract(folder, with_core)
            return folder
        parent = pathlib.Path(SparkFiles.getRootDirectory()).absolute()
        target = parent / f"dataflow_model-{wanted[:16]}"
        if not target.is_dir():
            fresh = pathlib.Path(tempfile.mkdtemp(prefix=".dataflow_model-", dir=parent))
            extract(str(fresh), with_core)
            with contextlib.suppress(OSError):  # another worker was faster
                fresh.rename(target)
            shutil.rmtree(fresh, ignore_errors=True)
        return str(target)

    return unpacked
