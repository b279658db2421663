"""Spark's logs of offsets and commits, which an upgrade reads to learn how far a run has progressed."""

from __future__ import annotations

import json
import pathlib
from typing import Any, Final

from dataflow_model.errors import CheckpointMismatch
from dataflow_model.runners.sharded.checkpoint.durable import check_format, read_file, reading
from dataflow_model.runners.sharded.feed.offsets import Offset

HOST: Final = "spark"
"""The name of Spark's part of a checkpoint."""


def url_of(host_part: str) -> str:
    """Return the URL by which Spark finds its part of a checkpoint, whatever its default file system is.

    Spark looks for a path without a scheme in its default file system, such as HDFS on YARN, but a checkpoint is in a
    mounted one.

    Args:
        host_part: Spark's part of a checkpoint; a relative path begins at the current folder.

    Example:
        >>> url_of("/mnt/shared/hourly delays/spark")  # Spark decodes nothing
        'file:///mnt/shared/hourly delays/spark'
    """
    return f"file://{pathlib.Path(host_part).absolute()}"


def last_committed(host_part: str) -> int | None:
    """Return the number of the last micro-batch that Spark committed; `None` if there is none.

    Args:
        host_part: Spark's part of a checkpoint.
    """
    return _last(host_part, "commits")


def last_started(host_part: str) -> tuple[int, Offset] | None:
    """Return the number of the last micro-batch whose offset Spark has logged, and that offset; `None` if none is."""
    last = _last(host_part, "offsets")
    return None if last is None else (last, offset_of(host_part, last)[0])


def is_input_over(host_part: str) -> bool:
    """Return whether the last micro-batch that has started ends the input."""
    started = last_started(host_part)
    return started is not None and started[1].last


def is_end_committed(host_part: str) -> bool:
    """Return whether Spark has committed the micro-batch that ends the input."""
    committed = last_committed(host_part)
    return committed is not None and offset_of(host_part, committed)[0].last


def offset_of(host_part: str, batch: int) -> tuple[Offset, int]:
    """Return the offset of our source after a micro-batch, and the number of Spark's other sources.

    Raises:
        CheckpointMismatch: if the log is missing or makes no sense, or another version of the package wrote it in
            another format.
        SinkError: if it cannot be read.
    """
    path = pathlib.Path(host_part, "offsets", str(batch))
    own_offsets: list[dict[str, Any]] = []
    others = 0
    try:
        for line in read_file(path).decode().splitlines()[2:]:  # after the version and Spark's own metadata
            offset = own_offset(line[line.index("{") :] if "{" in line else "null")
            if offset is None:
                others += 1
            else:
                own_offsets.append(offset)
        (own,) = own_offsets
    except (OSError, ValueError) as error:
        raise CheckpointMismatch(
            f"the offsets of micro-batch {batch} in {str(path)!r} cannot be read: {error}",
            hint="restore the file from a backup of the checkpoint, or start with a new checkpoint",
        ) from error
    check_format(own.get("format"), repr(str(path)))
    return Offset.of_json(own), others


def own_offset(text: str) -> dict[str, Any] | None:
    """Return an offset of our source as it is in Spark's logs, or `None` if it is another source's.

    Example:
        >>> own_offset('{"sources": {}, "signalled": "", "step": 3}')
        {'sources': {}, 'signalled': '', 'step': 3}
        >>> own_offset('{"page": 7, "last": true}')

    Raises:
        ValueError: if it is not JSON.
    """
    offset: Any = json.loads(text)
    is_ours = isinstance(offset, dict) and {"sources", "signalled", "step"} <= offset.keys()
    return offset if is_ours else None


def _last(host_part: str, log: str) -> int | None:
    folder = pathlib.Path(host_part, log)
    with reading(folder.parent.parent):
        names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) for name in names if name.isdigit()), default=None)
