"""Which files a path means: a file, a directory, a glob or a list of these."""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import InvalidArgument, InvalidType, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["PathLike", "absolute_path", "absolute_paths", "list_files", "root_of", "stat_files"]

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
    if not isinstance(path, str | os.PathLike):
        raise InvalidType(
            f"a path must be text or a pathlib.Path, got {path!r}", hint="pass 'data/flights/', for example"
        )
    text = os.fspath(path)
    text = text.removeprefix("file://") if text.startswith("file:///") else text
    if "://" in text:
        raise InvalidArgument(
            f"a path must be on a mounted file system, got the URL {text!r}",
            hint="mount it, or read it with Spark and pass the DataFrame to ReadDataFrame",
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
        raise InvalidArgument("a list of paths must not be empty, got []", hint="pass a file or a directory")
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

    Raises:
        SourceError: when a directory cannot be listed.
    """
    return sorted(_found(paths))


def stat_files(paths: tuple[str, ...]) -> dict[str, os.stat_result]:
    """Return the files that the paths mean now with their sizes and times; files that vanish meanwhile are left out.

    Raises:
        SourceError: when a directory or a file may not be looked at, or a link leads nowhere.
    """
    status: dict[str, os.stat_result] = {}
    for name, entry in _found(paths).items():
        try:
            status[name] = entry.stat() if isinstance(entry, os.DirEntry) else os.stat(entry)  # noqa: PTH116
        except FileNotFoundError as error:
            place = os.fspath(entry)
            if os.path.lexists(place):
                raise SourceError(f"{place} is a link to a file that does not exist", hint="remove the link") from error
        except OSError as error:
            raise _unreadable(os.fspath(entry), error) from error
    return status


def _found(paths: tuple[str, ...]) -> dict[str, os.DirEntry[str] | str]:
    """Return by relative name where each file is."""
    root = root_of(paths)
    cut = len(root.rstrip(os.sep)) + 1
    found: dict[str, os.DirEntry[str] | str] = {}
    for path in paths:
        if os.path.isfile(path):  # noqa: PTH113
            found[path[cut:]] = path
        elif os.path.isdir(path):  # noqa: PTH112
            found.update((entry.path[cut:], entry) for entry in _walk(path))
        else:
            for hit in glob.iglob(path, recursive=True):  # noqa: PTH207 - takes absolute patterns
                if _hidden(hit[cut:]):
                    continue
                if os.path.isdir(hit):  # noqa: PTH112
                    found.update((entry.path[cut:], entry) for entry in _walk(hit))
                else:
                    found[hit[cut:]] = hit
    return found


def _walk(directory: str) -> Iterator[os.DirEntry[str]]:
    """Yield the files below a directory; links to directories are not followed."""
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.startswith(("_", ".")):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _walk(entry.path)
                elif not (entry.is_symlink() and entry.is_dir()):
                    yield entry
    except FileNotFoundError:  # it was removed meanwhile
        return
    except OSError as error:
        raise _unreadable(directory, error) from error


def _unreadable(place: str, error: OSError) -> SourceError:
    return SourceError(f"{place} cannot be read: {error.strerror}", hint="check its permissions")


def _hidden(name: str) -> bool:
    return any(part.startswith(("_", ".")) for part in Path(name).parts)
