"""Durable records: private files that are written atomically, and pickles with a format number and a checksum.

A sealed record starts with a magic number, followed by a checksum of the rest, the format number and the pickle. This
envelope is the same in every format, so that any version can recognise the format.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import pathlib
import re
import uuid
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from urllib.parse import quote

from dataflow_model.errors import CheckpointMismatch, SinkError, StateCorruption
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Iterator

FORMAT: Final = 8
"""The format of everything in a checkpoint, the only one that is read; `docs/upgrade.md` lists who writes each."""

_MAGIC: Final = b"\x00DFM"
_CHECKSUM_BYTES: Final = 4
_FORMAT_BYTES: Final = 2
_BODY: Final = len(_MAGIC) + _CHECKSUM_BYTES
_FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_LONGEST_NAME: Final = 255
"""The most bytes that file systems allow in a name."""
_DIGEST_BYTES: Final = 8
_INCOMPLETE: Final = re.compile(r"\..+\.[0-9a-f]{8}")
"""The names that files have until they are complete."""


@contextlib.contextmanager
def writing(path: str | pathlib.Path) -> Iterator[None]:
    """Raise errors of the file system as errors of this package, while something is written to a checkpoint.

    Args:
        path: what is written.

    Raises:
        SinkError: if it cannot be written.
    """
    try:
        yield
    except OSError as error:
        raise SinkError(
            f"{str(path)!r} in the checkpoint directory cannot be written: {error}",
            hint="check free space and permissions, and start the run again: it resumes where it stopped",
        ) from error


@contextlib.contextmanager
def reading(path: pathlib.Path) -> Iterator[None]:
    """Raise errors of the file system as errors of this package, while something is looked up in a checkpoint.

    Args:
        path: the checkpoint, or what is read in it.

    Raises:
        SinkError: if it cannot be read.
    """
    try:
        yield
    except OSError as error:
        raise SinkError(
            f"the checkpoint directory {str(path)!r} cannot be read: {error}",
            hint="check free space and permissions, and start the run again: it resumes where it stopped",
        ) from error


def file_name(label: str, ending: str = "") -> str:
    """Return the name of a file or folder for a label; if it would be too long, a digest replaces the rest of it.

    Args:
        label: the label of a transform.
        ending: how the name of the file ends; `write_file` can write a file with such an ending.

    Example:
        >>> file_name("daily/sums")
        'daily%2Fsums'
        >>> len(file_name("x" * 300)), file_name("x" * 300)[-20:]
        (255, 'xxx+12b539c1cad94615')
    """
    name = quote(label, safe="")
    longest = _LONGEST_NAME - (len(ending) + len(_temporary("")) if ending else 0)
    if len(name) > longest:
        digest = hashlib.blake2b(label.encode(), digest_size=_DIGEST_BYTES).hexdigest()
        name = f"{name[: longest - len(digest) - 1]}+{digest}"  # no short name has a plus
    return name + ending


def make_folder(path: pathlib.Path, *, sync: bool = False) -> None:
    """Create a folder and its missing parents, readable only by their owner, regardless of the umask.

    Existing folders keep their permissions.

    Args:
        path: the folder.
        sync: whether to return only when the new names are on disk.
    """
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        try:
            folder.mkdir(mode=_FOLDER_MODE)
        except FileExistsError:  # another process created it first
            continue
        folder.chmod(_FOLDER_MODE)
        if sync:
            sync_to_disk(folder.parent)


def write_file(path: pathlib.Path, content: bytes, *, sync: bool = False) -> None:
    """Write a file atomically: readers see the old content or the new one. Only its owner can read it.

    Args:
        path: the file.
        content: the new content.
        sync: whether to return only when content and name are on disk.
    """
    fresh = path.with_name(_temporary(path.name))
    try:
        write_new(fresh, content, sync=sync)
        fresh.replace(path)
        if sync:
            sync_to_disk(path.parent)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _temporary(name: str) -> str:
    """Return the name that a file has until it is complete."""
    return f".{name}.{uuid.uuid4().hex[:8]}"


def remove_incomplete(folder: str) -> None:
    """Remove the files that killed processes have not completed, in a folder and those below it.

    Args:
        folder: the common part of a checkpoint; nobody else may be writing to it, or whoever is must not succeed.
    """
    for parent, _, names in os.walk(folder):
        for name in filter(_INCOMPLETE.fullmatch, names):
            with contextlib.suppress(OSError):  # it remains, as incomplete as it is
                pathlib.Path(parent, name).unlink()


def write_new(path: pathlib.Path, content: bytes, *, sync: bool) -> None:
    """Create a file that only its owner can read.

    Args:
        path: the file.
        content: its content.
        sync: whether to return only when the content is on disk; `sync_to_disk` does the same for the name.

    Raises:
        FileExistsError: if the file exists.
    """
    with open_new(path) as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def sync_to_disk(path: pathlib.Path) -> None:
    """Flush the content of a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_all(folder: pathlib.Path) -> None:
    """Flush a folder with all that it contains to disk."""
    for parent, _, names in os.walk(folder):
        for path in (*names, "."):
            sync_to_disk(pathlib.Path(parent, path))


def open_new(path: pathlib.Path) -> BinaryIO:
    """Create a file that only its owner can read, and open it for writing.

    Raises:
        FileExistsError: if the file exists.
    """
    file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE_MODE), "wb")
    os.fchmod(file.fileno(), _FILE_MODE)  # the umask may have removed further permissions
    return file


def read_file(path: pathlib.Path) -> bytes:
    """Read a whole file of a checkpoint.

    Raises:
        FileNotFoundError: if it does not exist, which may be an ordinary condition or damage.
        SinkError: if it cannot be read for another reason, such as missing permission: then nothing is damaged.
    """
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise
    except OSError as error:
        raise SinkError(
            f"{str(path)!r} in the checkpoint directory cannot be read: {error}",
            hint="check its permissions and the disk, and start the run again: it resumes where it stopped",
        ) from error


def touch(path: pathlib.Path) -> None:
    """Create an empty file that only its owner can read, unless it exists; it is on disk when this returns."""
    with contextlib.suppress(FileExistsError):
        open_new(path).close()
    sync_to_disk(path.parent)


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
        name: the name of the whole that the record belongs to, for errors.
        part: the name of the record, for errors.

    Raises:
        CheckpointMismatch: if another version of the package wrote it in another format, or if it refers to a class
            that this program does not have, or that does not restore its values.
        StateCorruption: if it is damaged.

    Example:
        >>> unseal(seal(3)[:-1], "the count")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.StateCorruption: the count is damaged: it fails its checksum
        Hint: restore the checkpoint directory from a copy, or start over with another checkpoint
    """
    checksum, body = record[len(_MAGIC) : _BODY], record[_BODY:]
    if not record.startswith(_MAGIC) or checksum != _checksum(body):
        raise corrupt(name, f"{part} fails its checksum")
    check_format(int.from_bytes(body[:_FORMAT_BYTES], "big"), name)
    try:
        return load(body[_FORMAT_BYTES:])
    except (CheckpointMismatch, MemoryError) as error:
        error.add_note(f"while reading {name}")
        raise
    except Exception as error:  # its checksum is right, so it is as it was written
        cause = error.__cause__ or error
        raise CheckpointMismatch(
            f"{name} contains a value that its class does not restore: {type(cause).__name__}: {cause}",
            hint="restore the class as it was when the value was stored, or start over with another checkpoint",
        ) from error


def check_format(format_number: Any, name: str) -> None:
    """Raise unless a record has a format that this version reads.

    Args:
        format_number: the format number of the record; `None` or 0 if it has none.
        name: the name of the record, for errors.

    Raises:
        CheckpointMismatch: if it has another format.

    Example:
        >>> check_format(FORMAT, "'run.json'")
        >>> check_format(FORMAT + 1, "'run.json'")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.CheckpointMismatch: 'run.json' was written in format 9 by a newer version of dataflow_model; this version reads format 8
        Hint: run the pipeline with that version, or start over with another checkpoint
    """  # noqa: E501 - the first line of a message is one line
    if format_number == FORMAT:
        return
    newer = isinstance(format_number, int) and format_number > FORMAT
    was = f"in format {format_number}" if format_number else "without a format number"
    raise CheckpointMismatch(
        f"{name} was written {was} by {'a newer' if newer else 'an older'} version of dataflow_model; "
        f"this version reads format {FORMAT}",
        hint="run the pipeline with that version, or start over with another checkpoint",
    )


def corrupt(name: str, problem: str) -> StateCorruption:
    """Return the error for a damaged record."""
    return StateCorruption(
        f"{name} is damaged: {problem}",
        hint="restore the checkpoint directory from a copy, or start over with another checkpoint",
    )


def _checksum(body: bytes) -> bytes:
    return zlib.crc32(body).to_bytes(_CHECKSUM_BYTES, "big")
