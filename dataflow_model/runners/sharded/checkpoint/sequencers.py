"""Sequencers: each start of a run takes a greater number, and only the newest start may write.

They are files in the common part of the checkpoint, named by their number. If a process hangs and another start takes
its place, the old process finds a greater number than its own before its next write, and fails.
"""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Final

from dataflow_model.micros import wall_clock
from dataflow_model.runners.sharded.checkpoint.durable import make_folder, reading, sync_to_disk, write_new, writing
from dataflow_model.runners.sharded.checkpoint.processes import Process

if TYPE_CHECKING:
    from dataflow_model.plan.endpoints.sinks import Fence

_FOLDER: Final = "sequencers"
_KEPT: Final = 8
"""The number of sequencers of older starts that are kept, for the administrator of a checkpoint."""


def take_sequencer(common_part: str) -> int:
    """Return a sequencer that is greater than all before; it is durable when this returns.

    It is the time in microseconds since the epoch, so that it is greater in a copy of the checkpoint too; if the clock
    is behind the previous sequencer, it is the previous one plus one.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.

    Raises:
        SinkError: if the checkpoint cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     take_sequencer(directory) < take_sequencer(directory)
        True
    """
    folder = pathlib.Path(common_part, _FOLDER)
    with writing(folder):
        return _take(folder)


def _take(folder: pathlib.Path) -> int:
    make_folder(folder, sync=True)
    while True:
        before = _taken(folder)
        sequencer = max(wall_clock(), before[-1] + 1 if before else 0)
        try:
            name = f"{sequencer:020d}"
            write_new(folder / name, Process().content(f"{_FOLDER}/{name}"), sync=True)
            sync_to_disk(folder)
        except FileExistsError:  # another start took this number first
            continue
        for old in before[:-_KEPT]:
            (folder / f"{old:020d}").unlink(missing_ok=True)
        return sequencer


def check_newest(common_part: str, fence: Fence | None) -> None:
    """Raise `SupersededRun` if a newer start than this one has taken a sequencer.

    Args:
        common_part: the part of the checkpoint that is the same for all hosts.
        fence: the fence of this start; `None` for a bounded job, which has no checkpoint.

    Raises:
        SinkError: if the checkpoint cannot be read.
    """
    if fence is None:
        return
    folder = pathlib.Path(common_part, _FOLDER)
    with reading(folder.parent.parent):
        newest = max(_taken(folder), default=0)
    if newest > fence.sequencer:
        checkpoint = f"the checkpoint {str(folder.parent.parent)!r}"
        raise fence.refusal(newest, checkpoint, _who(folder / f"{newest:020d}"))


def _who(path: pathlib.Path) -> str:
    try:
        who = Process.read(path.read_bytes(), f"{_FOLDER}/{path.name}")
    except OSError:
        return ""
    return "" if who is None else f" ({who})"  # another process may be writing it


def _taken(folder: pathlib.Path) -> list[int]:
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
