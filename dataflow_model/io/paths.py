"""Which files a path means: a file, a directory, a glob or a list of these."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import InvalidArgument, InvalidType, explain

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PathLike", "absolute_path", "absolute_paths", "list_files", "root_of"]

PathLike = str | os.PathLike[str]

_WILD: Final = "*?["


def absolute_path(path: PathLike) -> str:
    """Return a path that means the same in every process of this machine.

    Raises:
        InvalidArgument: for a URL: files must be mounted where every worker sees them.
        InvalidType: for something that is no path.

    Example:
        >>> absolute_path("s3://bucket/flights")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: 's3://bucket/flights' is a URL, and only mounted file systems are read
        Hint: mount it, or read it with Spark and hand the DataFrame to ReadDataFrame
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(explain(f"a path is wanted, got {path!r}", hint="give text or a pathlib.Path"))
    text = os.fspath(path)
    text = text.removeprefix("file://") if text.startswith("file:///") else text
    if "://" in text:
        raise InvalidArgument(
            explain(
                f"{text!r} is a URL, and only mounted file systems are read",
                hint="mount it, or read it with Spark and hand the DataFrame to ReadDataFrame",
            )
        )
    if not text:
        raise InvalidArgument("a path must not be empty, got ''")
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - pathlib would follow links


def absolute_paths(path: PathLike | Iterable[PathLike]) -> tuple[str, ...]:
    """Return one path or several as absolute ones.

    Raises:
        InvalidArgument: for an empty list.
    """
    several = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not several:
        raise InvalidArgument(explain("a list of paths must not be empty, got []", hint="name a file or a directory"))
    return tuple(absolute_path(one) for one in several)


def root_of(paths: tuple[str, ...]) -> str:
    """Return the deepest directory that holds whatever the paths can mean.

    Example:
        >>> root_of(("/nowhere/2013/*/part-*.parquet", "/nowhere/2014/*.parquet"))
        '/nowhere'
    """
    bases = []
    for path in paths:
        base = path
        while any(sign in base for sign in _WILD) and not os.path.exists(base):  # noqa: PTH110 - text is enough
            base = os.path.dirname(base)  # noqa: PTH120
        bases.append(base if os.path.isdir(base) else os.path.dirname(base))  # noqa: PTH112, PTH120
    return os.path.commonpath(bases)


def list_files(paths: tuple[str, ...]) -> list[str]:
    """Return the files that the paths mean now, sorted, each relative to `root_of(paths)`.

    Files found in a directory or by a glob are left out when they, or a directory between, begin with `_` or `.`.
    """
    root = root_of(paths)
    found: set[str] = set()
    for path in paths:
        if os.path.isfile(path):  # noqa: PTH113
            found.add(os.path.relpath(path, root))
        elif os.path.isdir(path):  # noqa: PTH112
            found.update(os.path.relpath(file, root) for file in _walk(path))
        else:
            for hit in glob.iglob(path, recursive=True):  # noqa: PTH207 - takes absolute patterns
                if not _hidden(os.path.relpath(hit, root)):
                    files = _walk(hit) if os.path.isdir(hit) else [hit]  # noqa: PTH112
                    found.update(os.path.relpath(file, root) for file in files)
    return sorted(found)


def _walk(directory: str) -> list[str]:
    files: list[str] = []
    for place, inner, names in os.walk(directory):
        inner[:] = [name for name in inner if not name.startswith(("_", "."))]
        files.extend(os.path.join(place, name) for name in names if not name.startswith(("_", ".")))  # noqa: PTH118
    return files


def _hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in Path(name).parts)
