"""Who may write to a checkpoint: to read one runs the code in its pickles, so whoever writes to it runs code.

The modes and owners of local file systems are checked. A file system of a network, or one that has no modes of its
own, shows modes that say nothing; whether such a folder is safe, only its administrator knows.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shlex
import stat
from typing import TYPE_CHECKING, Final, NamedTuple

from dataflow_model.errors import LOG, UntrustedCheckpoint
from dataflow_model.runners.sharded.checkpoint.durable import reading
from dataflow_model.runners.sharded.checkpoint.file_systems import MOUNTS, mount_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_OTHER_PROGRAMS: Final = "spark"
"""The part of a checkpoint whose files another program creates, with modes as the umask has it."""
_REACHED: Final = stat.S_IXGRP | stat.S_IXOTH
"""The permissions of a folder without which nobody but its owner reaches what is in it."""
_ROOT: Final = 0
"""The user who may write everywhere in any case."""
_warned: Final[set[str]] = set()
"""The checkpoints that this process has warned about."""


class _Entry(NamedTuple):
    """A file or folder, or what a link leads to."""

    path: str
    status: os.stat_result

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.status.st_mode)


def check_trust(path: str, *, is_trusted: bool, mounts: pathlib.Path = MOUNTS) -> None:
    """Raise if everybody may write to a checkpoint, and warn once if its group may or if it belongs to another user.

    Nothing is read before that. A checkpoint that does not exist yet is created for its owner alone.

    Args:
        path: the checkpoint, as the user has named it.
        is_trusted: whether the user says that it can be trusted, so that nothing is checked.
        mounts: the file that lists the mounts.

    Raises:
        UntrustedCheckpoint: if everybody may write to it, or to a file or folder in it.
        SinkError: if it cannot be looked at.
    """
    folder = pathlib.Path(path).absolute()
    if is_trusted or not mount_of(folder, mounts).has_modes:
        return
    doubts: list[str] = []
    with reading(folder):
        for entry in _entries(str(folder)):
            if entry.mode & stat.S_IWOTH:
                raise UntrustedCheckpoint(
                    f"everybody may write to {entry.path!r} in the checkpoint {path!r} (mode {entry.mode:04o}), and "
                    "its pickles run code when they are read",
                    hint="make sure that its content is yours, and take the permission away: "
                    f"chmod -R o-w {shlex.quote(path)}; or pass trust_checkpoint=True (dataflow-model: "
                    "--trust-checkpoint)",
                )
            if entry.status.st_uid not in (os.geteuid(), _ROOT):
                doubts.append(f"{entry.path!r} belongs to another user (uid {entry.status.st_uid})")
            elif entry.mode & stat.S_IWGRP:
                doubts.append(f"the group {entry.status.st_gid} may write to {entry.path!r} (mode {entry.mode:04o})")
    if doubts and str(folder) not in _warned:
        _warned.add(str(folder))
        LOG.warning(
            "others may write to the checkpoint %r, and its pickles run code when they are read: %s%s. "
            "Change the mode or the owner, or pass trust_checkpoint=True if you trust them",
            path,
            doubts[0],
            f", and {len(doubts) - 1:,} more" if len(doubts) > 1 else "",
        )


def _entries(checkpoint: str) -> Iterator[_Entry]:
    """Yield a checkpoint and everything in it that somebody else than its owner could reach."""
    paths = [checkpoint]
    seen: set[tuple[int, int]] = set()
    apart = os.path.join(checkpoint, _OTHER_PROGRAMS, "")  # noqa: PTH118 - text is enough, here and below
    while paths:
        path = paths.pop()
        with contextlib.suppress(FileNotFoundError):  # it is gone, or does not exist yet
            entry = _Entry(path, os.stat(path))  # noqa: PTH116
            yield entry
            identity = entry.status.st_dev, entry.status.st_ino
            if not stat.S_ISDIR(entry.status.st_mode) or identity in seen:  # links may lead in circles
                continue
            seen.add(identity)
            if entry.mode & _REACHED or not (path + os.sep).startswith(apart):
                paths += [os.path.join(path, name) for name in os.listdir(path)]  # noqa: PTH118, PTH208
