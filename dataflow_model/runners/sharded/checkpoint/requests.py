"""Requests to a running query, in its checkpoint, so that they outlive the process that makes them.

A document says what was requested. Each request for a signal is a file besides, which is deleted by the process that
has taken it, so that two processes never write the same file. The document lists these files: an offset names the last
one that was taken, and later ones must be there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
import uuid
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from dataflow_model.runners.sharded.checkpoint.durable import corrupt, make_folder, reading, touch
from dataflow_model.runners.sharded.checkpoint.parts import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

_NAME: Final = "requested.json"
_SIGNALS: Final = "signals"
_NOTHING: Final[dict[str, Any]] = {"drain": False, "until_drained": False, "drained": False, "signals": []}
_WRITING: Final = threading.Lock()
"""Held while the document is changed, beside a lock on the folder that other processes see; see `_changing`."""


def expect_requests(requests: Path) -> None:
    """Write that nothing is requested, if nothing was; from then on the document must be there."""
    _change(requests)


def check_written(requests: Path) -> None:
    """Raise `StateCorruption` if the document of a run that has started is missing or damaged."""
    if read_document(requests, _NAME) is None:
        raise corrupt(repr(str(requests / _NAME)), "it is missing")


def request_drain(requests: Path) -> None:
    """Request that the input ends at once, for good."""
    _change(requests, drain=True)


def request_until_drained(requests: Path, *, wanted: bool) -> None:
    """Request that unbounded inputs end once the data that exist now have been read, or withdraw the request."""
    _change(requests, until_drained=wanted)


def drain_requests(requests: Path) -> tuple[bool, bool]:
    """Return whether `request_drain` and `request_until_drained` have requested the end of the input.

    Raises:
        SinkError: if the checkpoint cannot be read.
        StateCorruption: if the document is damaged.
    """
    requested = _requested(requests)
    return requested["drain"], requested["until_drained"]


def note_drained(requests: Path) -> None:
    """Record that the run has ended as requested, so that it is not resumed."""
    _change(requests, drained=True)


def is_drained(requests: Path) -> bool:
    """Return whether the run has ended as requested."""
    drained: bool = _requested(requests)["drained"]
    return drained


def request_signal(requests: Path, name: str) -> None:
    """Request a signal; the request is durable when this returns."""
    folder = requests / _SIGNALS
    make_folder(folder, sync=True)
    with _changing(requests):
        requested = _requested(requests)
        signals: list[str] = requested["signals"]
        last = int(signals[-1].split("-")[0]) if signals else 0  # the clock may have gone back since
        request = f"{max(time.time_ns(), last + 1):020d}-{uuid.uuid4().hex[:8]}-{quote(name, safe='')}"
        touch(folder / request)
        pending = [earlier for earlier in signals[:-1] if (folder / earlier).exists()]
        _write(requests, {**requested, "signals": [*pending, *signals[-1:], request]})


def pending_signals(requests: Path) -> list[str]:
    """Return the pending requests, in the order in which they were made.

    An offset names the last one that it has taken; a request is deleted once an offset that has taken it is committed.

    Raises:
        SinkError: if the checkpoint cannot be read.
    """
    folder = requests / _SIGNALS
    with reading(requests.parent.parent):
        return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def check_signals(requests: Path, taken: str) -> None:
    """Raise `StateCorruption` if a request for a signal is missing that was not taken.

    Args:
        requests: the folder.
        taken: the last request that an offset has taken; `""` if none has.
    """
    for request in _requested(requests)["signals"]:
        if request > taken and not (requests / _SIGNALS / request).exists():
            raise corrupt(
                repr(str(requests / _SIGNALS)), f"the request for the signal {signal_of(request)!r} is missing"
            )


def forget_signals(requests: Path, taken: Collection[str]) -> None:
    """Remove requests."""
    for name in taken:
        (requests / _SIGNALS / name).unlink(missing_ok=True)


def copy_signals(requests: Path, others: Path) -> None:
    """Copy the requests for signals of one run to another, for which nothing else is requested."""
    pending = pending_signals(requests)
    make_folder(others / _SIGNALS, sync=True)
    for name in pending:
        touch(others / _SIGNALS / name)
    last = _requested(requests)["signals"][-1:]  # later ones must follow it, even if it was taken
    _change(others, signals=sorted({*pending, *last}))


def signal_of(request: str) -> str:
    """Return the name of the requested signal.

    Example:
        >>> signal_of("00000000000000000007-0a1b2c3d-flush%20all")
        'flush all'
    """
    return unquote(request.split("-", 2)[2])


def _requested(requests: Path) -> dict[str, Any]:
    return read_document(requests, _NAME) or _NOTHING


@contextlib.contextmanager
def _changing(requests: Path) -> Iterator[None]:
    """Change the document in the `with` block: neither this process nor another one changes it meanwhile.

    File systems of networks have no locks on folders; there, a request that two processes make at once may be lost.
    """
    with _WRITING:
        descriptor = os.open(requests, os.O_RDONLY)
        try:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)  # at once, and not only when a forked child closes its copy
            os.close(descriptor)


def _change(requests: Path, **changes: Any) -> None:
    """Write the document, if it changes."""
    with _changing(requests):
        before = read_document(requests, _NAME)
        after = {**(before or _NOTHING), **changes}
        if after != before:
            _write(requests, after)


def _write(requests: Path, requested: dict[str, Any]) -> None:
    write_document(requests, _NAME, requested, sync=True)
