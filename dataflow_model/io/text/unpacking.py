"""Read text files as bytes of UTF-8 from any position, even if they are compressed or in another encoding."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType, SourceError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from dataflow_model.io.listing.file_identity import FileVersion

BLOCK: Final = 1 << 22
_FIRST: Final = 1 << 16
"""The size of the first block: enough for a header."""
_WINDOW: Final = 2 * BLOCK
"""How many of the last bytes to keep, since consecutive ranges overlap."""
_MOST_OPEN: Final = 4
CODECS: Final = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""By the ending of a file's name, what Arrow calls the compression."""
_BEGINNINGS: Final = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\x28\xb5\x2f\xfd": ".zst"}
"""By the first bytes of a compressed file, the ending that its name should have."""
_OTHER: Final = (".xz", ".zip", ".lz4", ".br", ".7z")
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_open_files: dict[tuple[FileVersion, str], _Unpacked] = {}
"""Partly read files, so that the next range continues there instead of decompressing everything before it."""


def suffix_of_content(data: bytes) -> str | None:
    r"""Return the ending that a file's name should have by its first bytes, if it is compressed.

    Example:
        >>> suffix_of_content(b"\x1f\x8b\x08"), suffix_of_content(b"at,n")
        ('.gz', None)
    """
    return next((suffix for beginning, suffix in _BEGINNINGS.items() if data.startswith(beginning)), None)


def checked_encoding(name: str) -> str:
    """Return the name that Python gives an encoding.

    Raises:
        InvalidArgument: for one that Python does not know.
        InvalidType: for something that is not text.

    Example:
        >>> checked_encoding("latin-1"), checked_encoding("UTF-8-SIG")
        ('iso8859-1', 'utf-8')
    """
    if not isinstance(name, str):
        raise InvalidType(
            f"`encoding` must be the name of an encoding, got {name!r}", hint="pass 'cp1252', for example"
        )
    try:
        " ".encode(name)
        canonical = codecs.lookup(name).name
    except LookupError as error:
        raise InvalidArgument(
            f"`encoding` must be one that Python knows, got {name!r}",
            hint="use 'utf-8', 'cp1252' or 'utf-16', for example",
        ) from error
    return "utf-8" if canonical == "utf-8-sig" else canonical  # a byte order mark is skipped in any case


def as_in_file(text: bytes) -> bytes:
    r"""Return the text of a row with the bytes that are invalid in its encoding as they are in the file.

    Example:
        >>> as_in_file("Z\udc81".encode("utf-8", "surrogatepass"))
        b'Z\x81'
    """
    try:
        return text.decode("utf-8", "surrogatepass").encode("utf-8", "surrogateescape")
    except UnicodeError:
        return text


def problem_of_encoding(encoding: str) -> str:
    """Return what is wrong with text that contains bytes that are invalid in its encoding.

    Example:
        >>> problem_of_encoding("utf-8"), problem_of_encoding("cp1252")
        ("not UTF-8; pass encoding='cp1252', for example", 'not cp1252')
    """
    return "not UTF-8; pass encoding='cp1252', for example" if encoding == "utf-8" else f"not {encoding}"


def is_compressed(path: str) -> bool:
    """Return whether a file is compressed, by its name."""
    return path.endswith((*CODECS, *_OTHER))


def codec_of(path: str) -> str | None:
    """Return Arrow's name for the compression of a file, by the file's suffix; `None` for any other suffix."""
    return next((codec for suffix, codec in CODECS.items() if path.endswith(suffix)), None)


def is_plain(path: str, encoding: str) -> bool:
    """Return whether a file is uncompressed UTF-8, so that reading can begin anywhere."""
    return encoding == "utf-8" and not is_compressed(path)


def blocks(version: FileVersion, encoding: str, start: int) -> Generator[bytes, None, None]:
    """Yield a file's text in UTF-8 from byte `start` of that text on.

    Invalid text stays invalid: no replacement character is inserted. The byte order mark of UTF-8 is not skipped.

    Raises:
        SourceError: when the file cannot be read or unpacked.
    """
    try:
        if is_plain(version.path, encoding):
            yield from _plain_blocks(version, start)
        else:
            yield from _unpacked_blocks(version, encoding, start)
    except OSError as error:
        if error.strerror is None:  # Arrow's, about the content
            raise SourceError(
                f"{version.path} cannot be decompressed: {error}",
                hint="replace the file; write it elsewhere on the same file system, and rename it into place when it "
                "is complete",
            ) from error
        raise SourceError(
            f"{version.path} cannot be read: {error.strerror}",
            hint="check that the file exists and that this process may read it",
        ) from error
    except UnicodeError as error:
        raise SourceError(
            f"{version.path} cannot be read as {encoding}: {error}", hint="pass the file's own encoding as `encoding`"
        ) from error


def _plain_blocks(version: FileVersion, start: int) -> Iterator[bytes]:
    left, size = version.size - start, _FIRST
    with Path(version.path).open("rb") as file:
        file.seek(start)
        while block := file.read(min(size, left)):
            if start == 0 and size == _FIRST and block.startswith(_UTF_16):
                raise SourceError(f"{version.path} is not in UTF-8, but in UTF-16", hint="pass encoding='utf-16'")
            left, size = left - len(block), BLOCK
            yield block


def _unpacked_blocks(version: FileVersion, encoding: str, start: int) -> Iterator[bytes]:
    key = version, encoding
    file = _open_files.pop(key, None)
    if file is None or start < file.first:
        if file is not None:
            file.close()
        file = _Unpacked(version, encoding)
    is_open = False
    try:
        yield from file.blocks(start)
    except GeneratorExit:  # after an error it stays closed: the block that failed would be missing in what follows
        is_open = not file.is_at_end
        raise
    finally:
        if not is_open:
            file.close()
        else:
            other = _open_files.pop(key, None)  # of a reader that was at another position of the file
            if other is not None:
                other.close()
            _open_files[key] = file
            with contextlib.suppress(StopIteration, KeyError, RuntimeError):  # other threads read too
                while len(_open_files) > _MOST_OPEN:
                    _open_files.pop(next(iter(_open_files))).close()


@atexit.register
def _close_open_files() -> None:
    while _open_files:
        _open_files.popitem()[1].close()


if hasattr(os, "register_at_fork"):  # a fork would share the position in each file, and move it for the other process
    os.register_at_fork(after_in_child=_close_open_files)


class _Unpacked:
    """A file that can only be read forward, and the last bytes that were read from it."""

    def __init__(self, version: FileVersion, encoding: str) -> None:
        self._left = version.size
        self._is_compressed = is_compressed(version.path)
        self._file: Any
        if self._is_compressed:
            codec = codec_of(version.path)
            if codec is None:
                raise SourceError(
                    f"{version.path} is compressed in a format that is not supported",
                    hint=f"decompress it, or compress it as {', '.join(CODECS)}",
                )
            self._file = pa.CompressedInputStream(pa.OSFile(version.path), codec)
        else:
            self._file = Path(version.path).open("rb")  # noqa: SIM115 - `close` does it
        self._decoder: Any = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)("surrogateescape")
        self._kept: list[bytes] = []
        self.first = self._end = 0
        self.is_at_end = version.size == 0

    def blocks(self, start: int) -> Iterator[bytes]:
        at = self.first
        for block in tuple(self._kept):
            if at + len(block) > start:
                yield block[max(start - at, 0) :]
            at += len(block)
        while not self.is_at_end:
            block = self._next()
            if self._end > start:
                yield block[max(start - self._end + len(block), 0) :]

    def _next(self) -> bytes:
        size = BLOCK if self._end else _FIRST
        raw = self._file.read(size if self._is_compressed else min(size, self._left))
        self._left -= len(raw)
        self.is_at_end = not raw
        block: bytes = raw
        if self._decoder is not None:  # bytes that do not belong to the encoding become what does not belong to UTF-8
            block = self._decoded(raw).encode("utf-8", "surrogatepass")
        self._kept.append(block)
        self._end += len(block)
        while self._end - self.first - len(self._kept[0]) >= _WINDOW:
            self.first += len(self._kept.pop(0))
        return block

    def _decoded(self, raw: bytes) -> str:
        try:
            text: str = self._decoder.decode(raw, self.is_at_end)
        except UnicodeDecodeError as error:
            if not self.is_at_end:
                raise
            return "".join(
                chr(0xDC00 + byte) for byte in error.object
            )  # a character that is cut at the end of the file
        return text

    def close(self) -> None:
        self._file.close()
