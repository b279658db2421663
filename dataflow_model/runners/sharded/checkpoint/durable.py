"""Durable records: private files that appear whole, and pickles that carry a format number and a checksum.

A sealed record begins with a magic number; then come a checksum of all that follows, the format number and the pickle.
This envelope stays the same in every format, so that any version can tell which one it has in front of it.
"""

from __future__ import annotations

import contextlib
import os
import uuid
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from dataflow_model.errors import CheckpointMismatch, StateCorruption
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    import pathlib

__all__ = [
    "FORMAT",
    "check_format",
    "corrupt",
    "make_folder",
    "open_new",
    "seal",
    "sync_folder",
    "touch",
    "unseal",
    "write_file",
]

FORMAT: Final = 1
"""The format of everything that a checkpoint holds; `docs/upgrade.md` lists the versions that write each one."""

_MAGIC: Final = b"\x00DFM"
_CHECKSUM_BYTES: Final = 4
_FORMAT_BYTES: Final = 2
_BODY: Final = len(_MAGIC) + _CHECKSUM_BYTES
_BARE_PICKLE: Final = b"\x80\x05"
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700


def make_folder(path: pathlib.Path) -> None:
    """Create a folder, and the parents that are missing, which only their owner can read, whatever the umask.

    Folders that exist already keep their permissions.
    """
    missing = [place for place in (path, *path.parents) if not place.exists()]
    for place in reversed(missing):
        try:
            place.mkdir(mode=_FOLDER_MODE)
        except FileExistsError:  # another process was quicker
            continue
        place.chmod(_FOLDER_MODE)


def write_file(path: pathlib.Path, content: bytes, *, sync: bool = False) -> None:
    """Write a file that only its owner can read; readers see the old content or the new one, never a part.

    Args:
        path: the file.
        content: what it is to hold.
        sync: whether to return only once content and name are on disk.
    """
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        with open_new(fresh) as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        fresh.replace(path)
        if sync:
            sync_folder(path.parent)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def sync_folder(path: pathlib.Path) -> None:
    """Return once the names in a folder are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_new(path: pathlib.Path) -> BinaryIO:
    """Create a file that only its owner can read, and open it for writing.

    Raises:
        FileExistsError: if there is one.
    """
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb")
    os.fchmod(file.fileno(), _FILE_MODE)  # the umask may have taken more away
    return file


def touch(path: pathlib.Path) -> None:
    """Create an empty file that only its owner can read, unless it exists."""
    with contextlib.suppress(FileExistsError):
        open_new(path).close()


def seal(value: Any) -> bytes:
    """Return a value as a record that `unseal` reads.

    Example:
        >>> unseal(seal({"count": 3}), "the count")
        {'count': 3}
    """
    body = FORMAT.to_bytes(_FORMAT_BYTES, "big") + dump(value)
    return _MAGIC + _checksum(body) + body


def unseal(record: bytes, name: str, part: str = "it") -> Any:
    """Read what `seal` wrote.

    Args:
        record: the bytes.
        name: what errors call the whole that the record belongs to.
        part: what errors call the record.

    Raises:
        CheckpointMismatch: if another version of the package wrote it, in another format.
        StateCorruption: if it is damaged.

    Example:
        >>> unseal(seal(3)[:-1], "the count")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.StateCorruption: the count is damaged: it fails its checksum
        Hint: restore the checkpoint directory from a copy, or start over with another checkpoint
    """
    had_checksum = record[:_CHECKSUM_BYTES] == _checksum(record[_CHECKSUM_BYTES:])
    if not record.startswith(_MAGIC) and (had_checksum or record.startswith(_BARE_PICKLE)):
        check_format(0, name)  # records were like that before they had a format number
    checksum, body = record[len(_MAGIC) : _BODY], record[_BODY:]
    if not record.startswith(_MAGIC) or checksum != _checksum(body):
        raise corrupt(name, f"{part} fails its checksum")
    check_format(int.from_bytes(body[:_FORMAT_BYTES], "big"), name)
    try:
        return load(body[_FORMAT_BYTES:])
    except Exception as error:
        raise corrupt(name, f"{part} cannot be read: {type(error).__name__}: {error}") from error


def check_format(found: Any, name: str) -> None:
    """Refuse a record that is written in another format than this version's.

    Args:
        found: its format number; `None` or 0 where it has none.
        name: what errors call it.

    Raises:
        CheckpointMismatch: if it is another one.

    Example:
        >>> check_format(FORMAT, "'run.json'")
        >>> check_format(FORMAT + 1, "'run.json'")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.CheckpointMismatch: 'run.json' was written in format 2 by a newer version of dataflow_model; this version reads format 1
        Hint: run the pipeline with that version, or start over with another checkpoint
    """  # noqa: E501 - the first line of a message is one line
    if found == FORMAT:
        return
    newer = isinstance(found, int) and found > FORMAT
    was = f"in format {found}" if found else "without a format number"
    raise CheckpointMismatch(
        f"{name} was written {was} by {'a newer' if newer else 'an older'} version of dataflow_model; "
        f"this version reads format {FORMAT}",
        hint="run the pipeline with that version, or start over with another checkpoint",
    )


def corrupt(name: str, problem: str) -> StateCorruption:
    """Return the error for a record that cannot be what was written."""
    return StateCorruption(
        f"{name} is damaged: {problem}",
        hint="restore the checkpoint directory from a copy, or start over with another checkpoint",
    )


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "big")
