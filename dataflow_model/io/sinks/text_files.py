"""Text files that sinks write; the suffix of the name determines the compression."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dataflow_model.errors import InvalidArgument
from dataflow_model.io.text.unpacking import CODECS, codec_of, is_compressed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class TextFile:
    """A text file in UTF-8, compressed if its name ends in `.gz`, `.bz2` or `.zst`."""

    def __init__(self, path: Path) -> None:
        codec = codec_of(str(path))
        self._file: Any = path.open("wb") if codec is None else pa.CompressedOutputStream(str(path), codec)

    def write_lines(self, lines: Iterable[str]) -> None:
        """Write texts, each followed by a line end."""
        text = "".join(f"{line}\n" for line in lines)
        self._file.write(text.encode())

    def copy_lines(self, lines: Iterable[bytes]) -> None:
        """Write lines in UTF-8 that have their ends."""
        self._file.writelines(lines)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


class LinesWriter:
    """Writes the only column of batches as lines of text, below a header if there is one."""

    def __init__(self, path: Path, header: str | None = None) -> None:
        self._file = TextFile(path)
        if header is not None:
            self._file.write_lines([header])

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write one line a row."""
        self._file.write_lines(batch.column(0).to_pylist())

    def copy_lines(self, lines: Iterable[bytes]) -> None:
        """Write lines in UTF-8 that have their ends."""
        self._file.copy_lines(lines)

    def close(self) -> None:
        """Finish the file."""
        self._file.close()


def checked_suffix(suffix: Any) -> str:
    """Return how the names of files end.

    Raises:
        InvalidArgument: for one that is no suffix, or names a format of compression that cannot be written.

    Example:
        >>> checked_suffix(".csv.gz")
        '.csv.gz'
    """
    if not isinstance(suffix, str) or not suffix.startswith(".") or "/" in suffix:
        raise InvalidArgument(f"`suffix` must begin with a dot, got {suffix!r}", hint="write '.csv.gz', for example")
    if is_compressed(suffix) and codec_of(suffix) is None:
        raise InvalidArgument(
            f"`suffix` names a compression that is not supported, got {suffix!r}", hint=f"use {', '.join(CODECS)}"
        )
    return suffix
