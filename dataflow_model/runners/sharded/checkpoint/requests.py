"""Requests to a running query: files in its checkpoint, which outlive the process that makes them."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

from dataflow_model.runners.sharded.checkpoint.durable import make_folder, reading, touch

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

__all__ = [
    "copy_signals",
    "drain_requests",
    "forget_signals",
    "is_drained",
    "note_drained",
    "pending_signals",
    "request_drain",
    "request_signal",
    "request_until_drained",
    "signal_of",
]

_DRAIN: Final = "drain"
_UNTIL_DRAINED: Final = "until_drained"
_DRAINED: Final = "drained"
_SIGNALS: Final = "signals"


def request_drain(requests: Path) -> None:
    """Request that the input ends at once, for good."""
    touch(requests / _DRAIN)


def request_until_drained(requests: Path, *, wanted: bool) -> None:
    """Request that unbounded inputs end once the data that exist now have been read, or withdraw the request."""
    if wanted:
        touch(requests / _UNTIL_DRAINED)
    else:
        (requests / _UNTIL_DRAINED).unlink(missing_ok=True)


def drain_requests(requests: Path) -> tuple[bool, bool]:
    """Return whether `request_drain` and `request_until_drained` have requested the end of the input.

    Raises:
        SinkError: if the checkpoint cannot be read.
    """
    with reading(requests.parent.parent):
        return (requests / _DRAIN).exists(), (requests / _UNTIL_DRAINED).exists()


def note_drained(requests: Path) -> None:
    """Record that the run has ended as requested, so that it is not resumed."""
    touch(requests / _DRAINED)


def is_drained(requests: Path) -> bool:
    """Return whether the run has ended as requested."""
    return (requests / _DRAINED).exists()


def request_signal(requests: Path, name: str) -> None:
    """Request a signal; the request is durable when this returns."""
    folder = requests / _SIGNALS
    make_folder(folder, sync=True)
    touch(folder / f"{time.time_ns():020d}-{uuid.uuid4().hex[:8]}-{quote(name, safe='')}")


def pending_signals(requests: Path) -> list[str]:
    """Return the pending requests, in the order in which they were made.

    An offset contains the requests that it has taken; a request is deleted once an offset with it is committed.

    Raises:
        SinkError: if the checkpoint cannot be read.
    """
    folder = requests / _SIGNALS
    with reading(requests.parent.parent):
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def forget_signals(requests: Path, taken: Collection[str]) -> None:
    """Remove requests."""
    for name in taken:
        (requests / _SIGNALS / name).unlink(missing_ok=True)


def copy_signals(requests: Path, others: Path) -> None:
    """Copy the requests for signals of one run to another."""
    for name in pending_signals(requests):
        make_folder(others / _SIGNALS, sync=True)
        touch(others / _SIGNALS / name)


def signal_of(request: str) -> str:
    """Return the name of the requested signal.

    Example:
        >>> signal_of("00000000000000000007-0a1b2c3d-flush%20all")
        'flush all'
    """
    return unquote(request.split("-", 2)[2])
