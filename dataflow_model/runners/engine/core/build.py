"""Find out whether the compiled core runs, and whether it was built from the present source.

`setup.py` runs this file by itself, so it imports nothing but the standard library.
"""

from __future__ import annotations

import enum
import hashlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import pathlib
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType

RECORD: Final = "compiled.txt"
"""The file beside the extensions that holds the digest of the source they were built from."""
SHARED: Final = "shared_code"
"""The extension that holds what all others need of Cython; it has no source here."""
SWITCH: Final = "DATAFLOW_MODEL_COMPILED"
"""An environment variable: if it is `no`, the core runs as Python even if it is compiled."""
_HERE: Final = pathlib.Path(__file__).parent


class CoreBuild(enum.Enum):
    """How the core runs."""

    COMPILED = "compiled"
    STALE = "not compiled from its present source, and so runs as Python, slower; install the package again"
    SWITCHED_OFF = f"switched off by {SWITCH}, and so runs as Python, slower"
    PYTHON = "not compiled, and so runs as Python, slower; install the package where there is a C compiler"


def compiled_modules(folder: pathlib.Path = _HERE) -> list[str]:
    """Return the names of the modules that are compiled: those with a `.pxd` of C types beside them.

    Example:
        >>> "machine" in compiled_modules(), "grouping" in compiled_modules()
        (True, False)
    """
    return sorted(path.stem for path in folder.glob("*.pxd"))


def extension_names(folder: pathlib.Path = _HERE) -> list[str]:
    """Return the names of the extensions: those of the compiled modules, and the one that they share."""
    return [*compiled_modules(folder), SHARED]


def source_digest(folder: pathlib.Path = _HERE) -> str:
    """Return a digest of the source of all compiled modules."""
    digest = hashlib.sha256()
    for name in compiled_modules(folder):
        for suffix in (".py", ".pxd"):
            text = (folder / (name + suffix)).read_text(encoding="utf-8")
            digest.update(f"{name}{suffix} {len(text)}\n{text}".encode())
    return digest.hexdigest()


def has_extensions() -> bool:
    """Return whether there are all extensions for this Python, whatever source they were built from."""
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    return all(any((_HERE / (name + suffix)).is_file() for suffix in suffixes) for name in extension_names())


def is_fresh() -> bool:
    """Return whether there are extensions that were built from the present source."""
    record = _HERE / RECORD
    if not record.is_file() or record.read_text(encoding="utf-8").strip() != source_digest():
        return False
    return has_extensions()


def choose_modules() -> None:
    """Make Python import the `.py` files if the extensions beside them are stale or switched off."""
    if os.environ.get(SWITCH) == "no" or not is_fresh():
        sys.meta_path.insert(0, _SourceFinder())


def build_of_core() -> CoreBuild:
    """Return how the core runs in this process.

    Example:
        >>> build_of_core() in CoreBuild
        True
    """
    suffixes = tuple(importlib.machinery.EXTENSION_SUFFIXES)
    files = [importlib.import_module(f"{__package__}.{name}").__file__ or "" for name in compiled_modules()]
    if files and all(file.endswith(suffixes) for file in files):
        return CoreBuild.COMPILED
    if os.environ.get(SWITCH) == "no":
        return CoreBuild.SWITCHED_OFF
    return CoreBuild.STALE if has_extensions() and files else CoreBuild.PYTHON


class _SourceFinder(importlib.abc.MetaPathFinder):
    """Finds the `.py` file of a compiled module."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of the `.py` file if the module is one of those compiled."""
        del path, target
        package, _, name = fullname.rpartition(".")
        if package != __package__ or name not in compiled_modules():
            return None
        return importlib.util.spec_from_file_location(fullname, _HERE / f"{name}.py")
