"""Ask a run in another process for something, through its checkpoint: to drain, or to take a signal."""

from __future__ import annotations

import ast
import os
import pathlib
import pwd
import re
import time
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import CheckpointMismatch, InvalidArgument, SinkError
from dataflow_model.runners.operating.inspecting import record_of, who_is_running
from dataflow_model.runners.runs.options import checkpoint_path
from dataflow_model.runners.sharded.checkpoint.durable import writing
from dataflow_model.runners.sharded.checkpoint.file_systems import mount_of
from dataflow_model.runners.sharded.checkpoint.parts import common_part
from dataflow_model.runners.sharded.checkpoint.requests import (
    check_written,
    is_drained,
    request_drain,
    request_signal,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.runners.sharded.checkpoint.record import RunRecord

_POLL_SECONDS: Final = 0.1
_SIGNAL: Final = re.compile(r"AfterSignal\(('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\)")
_GROUPING: Final = ("grouping of ", "memoised grouping of ")


def drain(checkpoint: str | os.PathLike[str], *, wait: bool = True, timeout: float | None = None) -> bool:
    """Request that a run stops reading, emits everything that is pending, and ends for good; see `result.drain()`.

    The request is durable: a run that is stopped drains when it is started again.

    Args:
        checkpoint: the checkpoint of the run.
        wait: whether to wait until it has drained, for which it must be running.
        timeout: how long to wait, in seconds; by default until the end.

    Returns:
        whether it has drained.

    Raises:
        CheckpointMismatch: if the directory contains no checkpoint of a run.
        InvalidArgument: if the run is not running, or ends without being drained, and `wait` is set.
        SinkError: if the checkpoint belongs to another user, who could not read the request, or cannot be written.
        StateCorruption: if the record of the run is damaged.

    Example:
        >>> drain("no/such/checkpoint")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.CheckpointMismatch: 'no/such/checkpoint' contains no checkpoint of a dataflow_model run
        Hint: pass the directory that a run uses as checkpoint=
    """
    path, requests = _requests_of(checkpoint)
    folder = pathlib.Path(path).absolute()
    if is_drained(requests):
        return True
    if wait and who_is_running(folder) is None:
        raise InvalidArgument(
            f"a run can be drained while it is running, but that in {path!r} is stopped",
            hint="start it again, and drain it then; or request it now, and it drains when it starts: "
            "dataflow-model drain --no-wait",
        )
    with writing(requests):
        request_drain(requests)
    deadline = None if timeout is None else time.monotonic() + timeout
    while wait and (deadline is None or time.monotonic() < deadline):
        is_running = who_is_running(folder) is not None
        if is_drained(requests):  # looked at after that, since a run is drained before it ends
            return True
        if not is_running:
            raise InvalidArgument(
                f"the run in {path!r} has ended before it was drained",
                hint="look at its log, and start it again: it reads nothing more and is drained",
            )
        time.sleep(_POLL_SECONDS)
    return is_drained(requests)


def signal(checkpoint: str | os.PathLike[str], name: str) -> str | None:
    """Request a signal, once, for every open window that waits for it; see `result.signal(name)`.

    The request is durable: a run that is stopped takes it when it is started again.

    Args:
        checkpoint: the checkpoint of the run.
        name: the name that a trigger `AfterSignal(name)` waits for; that of a trigger of your own must be in its
            `repr`.

    Returns:
        the process in which the run is running; `None` if it is stopped.

    Raises:
        CheckpointMismatch: if the directory contains no checkpoint of a run, or one that was drained.
        InvalidArgument: for a name that no trigger waits for.
        SinkError: if the checkpoint belongs to another user, who could not read the request, or cannot be written.
        StateCorruption: if the record of the run is damaged.
    """
    path, requests = _requests_of(checkpoint)
    _check_name(record_of(path), name)
    if is_drained(requests):
        raise CheckpointMismatch(
            f"the run in {path!r} was drained: its windows have emitted their last panes",
            hint="send the signal to a run that is running or stopped",
        )
    with writing(requests):
        request_signal(requests, name)
    return who_is_running(pathlib.Path(path).absolute())


def _requests_of(checkpoint: str | os.PathLike[str]) -> tuple[str, pathlib.Path]:
    """Return the path of a checkpoint and its folder of requests, which this user may write for the run."""
    path = checkpoint_path(checkpoint)
    record_of(path)
    requests = common_part(pathlib.Path(path).absolute()) / "requests"
    check_written(requests)
    owner = requests.stat().st_uid
    if owner != os.geteuid() and mount_of(requests).has_modes:
        raise SinkError(
            f"the checkpoint {path!r} belongs to {_user(owner)}, and this is {_user(os.geteuid())}: the run could not "
            "read the request",
            hint=f"run the command as that user: sudo -u {_user(owner)} dataflow-model …",
        )
    return path, requests


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"#{number}"


def _check_name(record: RunRecord, name: str) -> None:
    groupings = [line for line in record.fingerprint.values() if line.startswith(_GROUPING)]
    if not any(repr(name) in line for line in groupings):
        names = sorted(_names_in(groupings))
        raise InvalidArgument(
            f"no trigger waits for the signal {name!r}",
            hint=f"the signals are {', '.join(names)}" if names else f"add the trigger dm.AfterSignal({name!r})",
        )


def _names_in(lines: Iterable[str]) -> set[str]:
    return {str(ast.literal_eval(text)) for line in lines for text in _SIGNAL.findall(line)}
