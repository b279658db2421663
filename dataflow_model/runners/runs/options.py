"""The options of runners, as users write them."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from dataflow_model.arguments import local_path, positive_int
from dataflow_model.errors import InvalidArgument, InvalidType

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROWS_PER_BATCH: Final = 400_000

_UNITS: Final = {
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KIB": 2**10,
    "MIB": 2**20,
    "GIB": 2**30,
    "TIB": 2**40,
}
_MEMORY: Final = re.compile(r"\s*(\d{1,20}(?:\.\d{1,20})?)\s*([A-Za-z]+)\s*")


def reject_options_of_streams(options: Mapping[str, object], bounded: str, way_out: str) -> None:
    """Reject options that only streams have: `bounded` is what makes the run bounded, `way_out` makes it a stream.

    Raises:
        InvalidArgument: for an option that is not `None`.

    Example:
        >>> reject_options_of_streams({"poll_interval": "1 second"}, "no checkpoint", "pass checkpoint='checkpoints/a'")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `poll_interval` applies only to streams, got '1 second' with no
            checkpoint
        Hint: leave it out, or pass checkpoint='checkpoints/a'
    """
    for name, value in options.items():
        if value is not None:
            raise InvalidArgument(
                f"`{name}` applies only to streams, got {value!r} with {bounded}", hint=f"leave it out, or {way_out}"
            )


def checkpoint_path(checkpoint: object) -> str:
    """Return the option `checkpoint` as a path; `~` is the home directory, and `file:///data` is `/data`.

    Raises:
        InvalidArgument: for anything but the path of a directory, and for other URLs; see `local_path`.

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
    given = os.fspath(checkpoint) if isinstance(checkpoint, os.PathLike) else checkpoint
    if not isinstance(given, str) or not given:
        raise InvalidArgument(
            f"`checkpoint` must be the path of a directory, got {checkpoint!r}",
            hint="pass a directory of this pipeline's own, such as checkpoint='checkpoints/delays'",
        )
    path = local_path(given)
    if path is None:
        raise InvalidArgument(
            f"`checkpoint` must be a directory of a mounted file system, got the URL {given!r}",
            hint="mount it, and pass the path of the directory there, such as checkpoint='/mnt/bucket/delays'",
        )
    return os.path.expanduser(path)  # noqa: PTH111 - the path as the user has named it otherwise


def rows_per_batch(most: object) -> int:
    """Return the option `max_rows_per_batch`, which must be a positive int, or its default for `None`."""
    rows = _ROWS_PER_BATCH if most is None else most
    return positive_int("max_rows_per_batch", rows, "use max_rows_per_batch=10_000, for example")


def state_memory(bound: object) -> int | None:
    """Return the option `max_state_memory` in bytes; `None` stays `None`.

    Raises:
        InvalidArgument: for anything but a positive number of bytes, or a text of a number and a unit.

    Example:
        >>> state_memory("500 MB"), state_memory("1.5GiB"), state_memory(4096), state_memory(None)
        (500000000, 1610612736, 4096, None)
    """
    count: int | None = None
    if bound is None:
        return None
    if isinstance(bound, int) and not isinstance(bound, bool):
        count = bound
    elif isinstance(bound, str) and (match := _MEMORY.fullmatch(bound)) and match[2].upper() in _UNITS:
        count = int(float(match[1]) * _UNITS[match[2].upper()])
    if count is None or count < 1:
        raise InvalidArgument(
            f"`max_state_memory` must be a positive number of bytes, or text such as '500 MB', got {bound!r}",
            hint="use max_state_memory='500 MB' or '2 GiB', for example",
        )
    return count


def checked_flag(name: str, value: object, hint: str = "leave it out for False") -> bool:
    """Return an option that must be true or false.

    Raises:
        InvalidType: for anything else, such as a path.

    Example:
        >>> checked_flag("trust_checkpoint", "checkpoints/delays", "pass the directory as checkpoint=")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: `trust_checkpoint` must be True or False, got 'checkpoints/delays'
        Hint: pass the directory as checkpoint=
    """
    if not isinstance(value, bool):
        raise InvalidType(f"`{name}` must be True or False, got {value!r}", hint=hint)
    return value


def trusts(value: object) -> bool:
    """Return the option `trust_checkpoint`."""
    return checked_flag("trust_checkpoint", value, "pass the directory as checkpoint=")
