"""The parts of a checkpoint: files that contain their own name and a checksum, so that damage is noticed.

`write_part` writes any value, and `write_document` writes JSON that people can read. A file that was put in the place
of another one has the wrong name. Parts that are written once are in the folders of `WRITTEN_ONCE`, and the progress of
the run lists them, so that a missing one is noticed when the run is started again.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import zlib
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.runners.sharded.checkpoint.durable import (
    FORMAT,
    check_format,
    corrupt,
    make_folder,
    read_file,
    seal,
    unseal,
    write_file,
    writing,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

SINK_COLUMNS: Final = "sink_columns"
"""The folder of the columns that the first rows of a sink have decided."""
WRITTEN_ONCE: Final = ("source_columns", "inputs", "ahead", SINK_COLUMNS)
"""The folders of parts that stay as they are once a micro-batch was committed that has written them."""
_PART: Final = "part"
_ENDINGS: Final = (".pickle", ".arrow", ".json")
"""How the names of parts end; those of incomplete files end differently."""


def common_part(checkpoint: pathlib.Path) -> pathlib.Path:
    """Return the part of a checkpoint that is the same for all hosts."""
    return checkpoint / "dataflow"


def write_part(directory: str | pathlib.Path, name: str, value: Any, *, sync: bool = False) -> None:
    """Write a value atomically, with its name and a checksum.

    Args:
        directory: the part of the checkpoint that is the same for all hosts.
        name: the path of the file in it.
        value: what can be pickled.
        sync: whether the file is on disk when this returns.

    Raises:
        SinkError: if it cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as directory:
        ...     write_part(directory, "sides/rates.pickle", {"EUR": 1.1})
        ...     read_part(directory, "sides/rates.pickle")
        {'EUR': 1.1}
    """
    _write(pathlib.Path(directory, name), as_part(name, value), sync=sync)


def read_part(directory: str | pathlib.Path, name: str) -> Any:
    """Return what `write_part` wrote; `None` if there is no such file.

    Raises:
        CheckpointMismatch: if it has another format, or refers to a class that this program does not have.
        SinkError: if it cannot be read.
        StateCorruption: if it is damaged, or another part is in its place.
    """
    path = pathlib.Path(directory, name)
    content = _content(path)
    return None if content is None else from_part(content, name, repr(str(path)))


def as_part(name: str, value: Any) -> bytes:
    """Return the content of a part, for a file that is first written to another path."""
    return seal((_PART, name, value))


def from_part(content: bytes, name: str, title: str) -> Any:
    """Return the value of a part.

    Args:
        content: what `as_part` returned.
        name: the name of the part.
        title: its name for errors.
    """
    match unseal(content, title):
        case (str(kind), str(known), value) if kind == _PART:
            _check_name(known, name, title)
            return value
        case _:
            raise corrupt(title, "it is not a part of a checkpoint")


def write_document(
    directory: str | pathlib.Path,
    name: str,
    fields: Mapping[str, Any],
    *,
    sync: bool = False,
    indent: int | None = 1,
) -> None:
    """Write JSON atomically, with its name, the number of its format and a checksum; see `write_part`."""
    _write(pathlib.Path(directory, name), as_document(name, fields, indent), sync=sync)


def read_document(directory: str | pathlib.Path, name: str) -> dict[str, Any] | None:
    """Return the fields that `write_document` wrote; `None` if there is no such file.

    Raises:
        CheckpointMismatch: if another version of the package wrote it in another format.
        SinkError: if it cannot be read.
        StateCorruption: if it is damaged, or another part is in its place.
    """
    path = pathlib.Path(directory, name)
    content = _content(path)
    return None if content is None else from_document(content, name, repr(str(path)))


def as_document(name: str, fields: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Return the content of a document.

    Example:
        >>> print(as_document("run.json", {"shards": 2}).decode())
        {"checksum": "...",
        "part": "run.json", "format": ..., "shards": 2}
    """
    text = json.dumps({"part": name, "format": FORMAT, **fields}, indent=indent)
    body = text.encode()[1:].removeprefix(b"\n")
    return _first_line(body) + body


def from_document(content: bytes, name: str, title: str) -> dict[str, Any]:
    """Return the fields of a document.

    Args:
        content: what `as_document` returned.
        name: the name of the part.
        title: its name for errors.
    """
    body = content[len(_first_line(b"")) :]
    if content != _first_line(body) + body:
        check_format(_format_without_checksum(content), title)
        raise corrupt(title, "it fails its checksum")
    fields: dict[str, Any] = json.loads(content)
    check_format(fields.pop("format"), title)
    _check_name(fields.pop("part"), name, title)
    del fields["checksum"]
    return fields


def written_once(directory: str | pathlib.Path) -> list[str]:
    """Return the names of the parts in the folders of `WRITTEN_ONCE`."""
    names: list[str] = []
    for folder in WRITTEN_ONCE:
        with contextlib.suppress(FileNotFoundError):
            content = os.listdir(f"{directory}/{folder}")  # noqa: PTH208 - called for each micro-batch
            names += [f"{folder}/{name}" for name in content if name.endswith(_ENDINGS)]
    return sorted(names)


def check_present(directory: str | pathlib.Path, names: Iterable[str]) -> None:
    """Raise `StateCorruption` if a part is missing.

    Args:
        directory: the part of the checkpoint that is the same for all hosts.
        names: the names of the parts that must be there.
    """
    for name in names:
        path = pathlib.Path(directory, name)
        if not path.exists():
            raise corrupt(repr(str(path)), "it is missing")


def _write(path: pathlib.Path, content: bytes, *, sync: bool) -> None:
    with writing(path):
        try:
            write_file(path, content, sync=sync)
        except FileNotFoundError:  # the folder is missing
            make_folder(path.parent, sync=sync)
            write_file(path, content, sync=sync)


def _content(path: pathlib.Path) -> bytes | None:
    try:
        return read_file(path)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _check_name(known: str, name: str, title: str) -> None:
    if known != name:
        raise corrupt(title, f"it contains another part of a checkpoint, {known!r}")


def _format_without_checksum(content: bytes) -> Any:
    """Return the format of a document that has no checksum, as those up to format 4."""
    try:
        fields: Any = json.loads(content)
    except ValueError:
        return FORMAT
    return fields.get("format") if isinstance(fields, dict) and "checksum" not in fields else FORMAT


def _first_line(body: bytes) -> bytes:
    return b'{"checksum": "%08x",\n' % zlib.crc32(body)
