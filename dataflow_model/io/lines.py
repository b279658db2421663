"""Text files of one row a line: where the lines are, and parsing that sets bad ones apart."""

from __future__ import annotations

import functools
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import SourceError
from dataflow_model.io.file_identity import digest_of
from dataflow_model.plan.columns import BAD_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.io.file_source import FileVersion

__all__ = ["CHUNK_LINES", "LineIndex", "count_appended_lines", "line_index", "parse_lines", "read_lines"]

CHUNK_LINES: Final = 16_384
_STEP: Final = 1024
_BLOCK: Final = 1 << 22
_INDEXES: Final = 1 << 16
"""How many indexes are kept: one is some hundred bytes, and to make it anew is to read the whole file."""
_newest: dict[str, tuple[int, str, LineIndex]] = {}
"""By path, the last index that was made, with the size of what it covers and the digest of that."""
_BLANK: Final = (b"\n", b"\r\n", b"\r")
_COMPRESSED: Final = (".gz", ".bz2", ".zst", ".xz", ".zip")


@attrs.frozen
class LineIndex:
    """Where the rows of a file are.

    Attributes:
        lines: how many lines are not empty.
        offsets: the byte at which every 1024th of them begins.
    """

    lines: int
    offsets: tuple[int, ...]


@functools.lru_cache(maxsize=_INDEXES)
def line_index(version: FileVersion) -> LineIndex:
    """Read a file through once and note where its lines are; empty lines do not count.

    Raises:
        SourceError: when the file cannot be read, or is compressed, so that rows cannot be found without reading it.
    """
    if version.path.endswith(_COMPRESSED):
        raise SourceError(
            f"{version.path} is compressed, but text must be read by row ranges",
            hint="decompress it, or convert it to Parquet",
        )
    try:
        index = _grown(version) or _index(version, 0)
        _newest[version.path] = version.size, digest_of(version.path, version.size), index
    except OSError as error:
        raise SourceError(f"{version.path} cannot be read: {error.strerror}") from error
    while len(_newest) > _INDEXES:
        del _newest[next(iter(_newest))]
    return index


def _grown(version: FileVersion) -> LineIndex | None:
    """Return the index of a file to which something was appended, without reading all of it again."""
    size, digest, index = _newest.pop(version.path, (0, "", LineIndex(0, ())))
    if not index.offsets or version.size < size or digest_of(version.path, size) != digest:
        return None
    tail = _index(version, index.offsets[-1])
    return LineIndex((len(index.offsets) - 1) * _STEP + tail.lines, index.offsets[:-1] + tail.offsets)


def count_appended_lines(version: FileVersion, start: int) -> int:
    """Return how many lines that are not empty were appended to a text file's first `start` bytes.

    Raises:
        SourceError: when the first of them continues a line that has counted as a row already.
        OSError: when the file cannot be read.
    """
    with Path(version.path).open("rb") as file:
        file.seek(start - 1)
        before, after = file.read(1), file.read(1)
    if before != b"\n" and after not in (b"\r", b"\n"):
        raise SourceError(
            f"the last line of {version.path} had no line end when it was read as a row, but was continued later "
            f"at byte {start}",
            hint="append whole lines, each in one write; or write the file elsewhere and rename it into place",
        )
    return _index(version, start).lines


def _index(version: FileVersion, start: int) -> LineIndex:
    """Return where the lines of a file are from byte `start` to the end that the version has."""
    lines, offsets, base, carry = 0, [], start, b""
    left = version.size - start
    with Path(version.path).open("rb") as file:
        file.seek(start)
        while block := file.read(min(_BLOCK, left)):
            left -= len(block)
            buffer = np.frombuffer(carry + block, np.uint8)
            ends = np.flatnonzero(buffer == ord("\n"))
            if not len(ends):
                carry += block
                continue
            starts = np.concatenate(([0], ends[:-1] + 1))
            lengths = ends - starts
            starts = starts[(lengths > 1) | ((lengths == 1) & (buffer[starts] != ord("\r")))]
            offsets.extend((starts[-lines % _STEP :: _STEP] + base).tolist())
            lines += len(starts)
            carry = buffer[ends[-1] + 1 :].tobytes()
            base += int(ends[-1]) + 1
    if carry and carry not in _BLANK:
        if lines % _STEP == 0:
            offsets.append(base)
        lines += 1
    return LineIndex(lines, tuple(offsets))


def read_lines(path: str, index: LineIndex, start: int, stop: int) -> Iterator[list[bytes]]:
    """Read lines `[start, stop)` in chunks, each line with its end; empty lines do not count."""
    stop = min(stop, index.lines)
    if start >= stop:
        return
    with Path(path).open("rb") as file:
        file.seek(index.offsets[start // _STEP])
        full = (line if line.endswith(b"\n") else line + b"\n" for line in file if line not in _BLANK)
        wanted = itertools.islice(full, start % _STEP, start % _STEP + stop - start)
        while chunk := list(itertools.islice(wanted, CHUNK_LINES)):
            yield chunk


def parse_lines(lines: list[bytes], parse: Callable[[bytes], pa.Table], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Parse all lines at once; where that fails, halve until the bad lines stand alone.

    A bad line becomes a row of nulls with the reason in `BAD_COLUMN`.
    """
    pieces = list(_parse(lines, parse, columns))
    if any(BAD_COLUMN in piece.schema.names for piece in pieces):
        marked = pa.schema([*columns, pa.field(BAD_COLUMN, pa.string())])
        pieces = [
            piece
            if BAD_COLUMN in piece.schema.names
            else piece.append_column(marked.field(BAD_COLUMN), pa.nulls(piece.num_rows, pa.string()))
            for piece in pieces
        ]
    yield from pa.concat_tables(pieces).combine_chunks().to_batches()


def _parse(lines: list[bytes], parse: Callable[[bytes], pa.Table], columns: pa.Schema) -> Iterator[pa.Table]:
    try:
        table = parse(b"".join(lines))
    except (pa.ArrowException, ValueError) as error:
        problem = str(error).splitlines()[0]
    else:
        if table.num_rows == len(lines):
            yield table.select(columns.names).cast(columns)
            return
        problem = f"it holds {table.num_rows} rows"
    if len(lines) > 1:
        yield from _parse(lines[: len(lines) // 2], parse, columns)
        yield from _parse(lines[len(lines) // 2 :], parse, columns)
        return
    text = lines[0].rstrip(b"\r\n").decode("utf-8", "backslashreplace")
    reason = f"the line {text!r} does not fit the columns: {problem}"
    nulls = [pa.nulls(1, field.type) for field in columns]
    yield pa.table([*nulls, pa.array([reason])], schema=pa.schema([*columns, pa.field(BAD_COLUMN, pa.string())]))
