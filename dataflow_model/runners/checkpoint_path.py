"""The directory of a run's checkpoint, as users name it."""

from __future__ import annotations

import os
import re
from typing import Final

from dataflow_model.errors import InvalidArgument

__all__ = ["checkpoint_path"]

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")


def checkpoint_path(checkpoint: object) -> str:
    """Return the option `checkpoint` as a path; `~` is the home directory, and `file:///data` is `/data`.

    Raises:
        InvalidArgument: for anything but the path of a directory, and for URLs: taken for a relative path, a URL would
            be a different directory for each working directory, and a run started elsewhere would begin anew.

    Example:
        >>> checkpoint_path("file:///data/checkpoints/delays")
        '/data/checkpoints/delays'
        >>> checkpoint_path("s3://bucket/delays")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `checkpoint` must be a directory of a mounted file system, got the URL
            's3://bucket/delays'
        Hint: mount it, and pass the path of the directory there, such as checkpoint='/mnt/bucket/delays'
    """
    if not isinstance(checkpoint, str | os.PathLike) or not os.fspath(checkpoint):
        raise InvalidArgument(
            f"`checkpoint` must be the path of a directory, got {checkpoint!r}",
            hint="pass a directory of this pipeline's own, such as checkpoint='checkpoints/delays'",
        )
    path = os.fspath(checkpoint)
    for scheme in ("file://", "file:"):
        if path.startswith(scheme + "/"):
            path = path.removeprefix(scheme)
    if _URL.match(path):
        raise InvalidArgument(
            f"`checkpoint` must be a directory of a mounted file system, got the URL {path!r}",
            hint="mount it, and pass the path of the directory there, such as checkpoint='/mnt/bucket/delays'",
        )
    return os.path.expanduser(path)  # noqa: PTH111 - the path as the user has named it otherwise
