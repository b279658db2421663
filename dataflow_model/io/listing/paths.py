"""Which files a path means: a file, a directory, a glob or a list of these."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Final

from dataflow_model.arguments import local_path
from dataflow_model.errors import InvalidArgument, InvalidType

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
        dataflow_model.errors.InvalidArgument: a path must be on a mounted file system, got the URL
            's3://bucket/flights'
        Hint: mount it, or read it with Spark and pass the DataFrame to ReadDataFrame
    """
    given: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(given, str):
        decoded = f"decode it: os.fsdecode({bytes(given)!r})" if isinstance(given, bytes | bytearray) else None
        raise InvalidType(
            f"a path must be text or a pathlib.Path, got {path!r}",
            hint=decoded or "pass 'data/flights/', for example",
        )
    text = local_path(given)
    if text is None:
        raise InvalidArgument(
            f"a path must be on a mounted file system, got the URL {given!r}",
            hint="mount it, or read it with Spark and pass the DataFrame to ReadDataFrame",
        )
    if not text:
        raise InvalidArgument(
            "a path must not be empty, got ''", hint="pass the path of a file or folder, such as 'data/'"
        )
    return os.path.abspath(os.path.expanduser(text))  # noqa: PTH100, PTH111 - pathlib would follow links


def absolute_paths(path: PathLike | Iterable[PathLike]) -> tuple[str, ...]:
    """Return one path or several as a tuple of absolute paths.

    Raises:
        InvalidArgument: for an empty list.
        InvalidType: for what is neither a path nor several.
    """
    if not isinstance(path, str | os.PathLike | Iterable):
        raise InvalidType(
            f"a path must be text, a pathlib.Path or a list of these, got {path!r}",
            hint="pass 'data/flights/', for example",
        )
    several = [path] if isinstance(path, str | os.PathLike | bytes | bytearray) else list(path)
    if not several:
        raise InvalidArgument("a list of paths must not be empty, got []", hint="pass a file or a directory")
    return tuple(absolute_path(each_path) for each_path in several)


def root_of(paths: tuple[str, ...]) -> str:
    """Return the deepest directory that holds whatever the paths can mean.

    Example:
        >>> root_of(("/nowhere/2013/*/part-*.parquet", "/nowhere/2014/*.parquet"))
        '/nowhere'
    """
    return os.path.commonpath([_folder_of(path) for path in paths])


def file_below(paths: tuple[str, ...], name: str) -> str:
    """Return the path of a file that was listed under a name below `root_of(paths)`.

    A folder that is gone looks like a file that is gone, so `root_of` now returns the folder above it; but only one of
    the two can have contained a file of this name.

    Example:
        >>> file_below(("/nowhere/in",), "part.parquet"), file_below(("/nowhere/in",), "in")
        ('/nowhere/in/part.parquet', '/nowhere/in')
    """
    now, before = (os.path.join(root, name) for root in (root_of(paths), os.path.commonpath(paths)))  # noqa: PTH118
    return before if not _is_meant(paths, now) and _is_meant(paths, before) else now


def _folder_of(path: str) -> str:
    """Return the deepest folder that a path, which may be a glob, can mean or have files in."""
    base = path
    while any(sign in base for sign in _WILD) and not os.path.exists(base):  # noqa: PTH110 - text is enough
        base = os.path.dirname(base)  # noqa: PTH120
    is_folder = base != path or os.path.isdir(base)  # noqa: PTH112 - that of a glob is one, whether it is there or not
    return base if is_folder else os.path.dirname(base)  # noqa: PTH120


def _is_meant(paths: tuple[str, ...], file: str) -> bool:
    """Return whether a file is one of the paths, below one, or where a glob looks for files."""
    return any(
        file == path or file.startswith(os.path.join(base, ""))  # noqa: PTH118
        for path in paths
        for base in (path, _folder_of(path) if any(sign in path for sign in _WILD) else path)
    )
