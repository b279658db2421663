"""Files that hold one JSON document each: an array of objects, or objects that extend over several lines."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, ClassVar, Final

import attrs
import numpy as np

from dataflow_model.io.files.file_source import BATCH_ROWS
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.text.row_texts import RowTexts
from dataflow_model.io.text.unpacking import blocks

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_STRING: Final = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_VALUE: Final = re.compile(rb'(?s)%b|[\[\]{}]|[^\s,"\[\]{}]+|"' % _STRING)
_BRACKET: Final = re.compile(rb"(?s)%b|[\[\]{}]" % _STRING)
_BOM: Final = b"\xef\xbb\xbf"
_LF: Final = 10


@attrs.frozen(kw_only=True)
class JsonDocumentSource(JsonSource):
    """Rows of files that are read whole: the objects of an array, or objects one after the other.

    Everything that stands where an object should be is a bad row.
    """

    grows: ClassVar[bool] = False

    def count_rows(self, version: FileVersion) -> int:
        """Count the objects."""
        return len(_rows(version)[0])

    def row_texts(self, path: str, start: int, stop: int | None) -> Iterator[RowTexts]:
        """Yield the texts of objects `[start, stop)`, with at most the rows of a batch at a time."""
        texts, _ = _rows(FileVersion.of(path))
        stop = len(texts) if stop is None else min(stop, len(texts))
        for low in range(start, stop, BATCH_ROWS):
            yield texts.sliced(low, min(low + BATCH_ROWS, stop))

    def all_rows(self, version: FileVersion) -> Generator[RowTexts, None, None]:
        """Yield the texts of all objects."""
        yield _rows(version)[0]

    def line_of(self, version: FileVersion, row: int) -> int:
        """Return the line on which an object begins, from 1."""
        return int(_rows(version)[1][row])


def texts_of_document(data: bytes) -> tuple[RowTexts, list[int]]:
    r"""Return the rows of a document, each on one line, and the lines on which they begin.

    Example:
        >>> texts, lines = texts_of_document(b'[\n  {"n": 1},\n  {"n":\n    2}\n]\n')
        >>> texts.text(), lines
        (b'{"n": 1}\n{"n":     2}\n', [2, 3])
    """
    rows, lines, ends = [], [], []
    line, passed, size = 1, 0, 0
    for begin, end in _elements(data, len(_BOM) if data.startswith(_BOM) else 0):
        line, passed = line + data.count(b"\n", passed, begin), begin
        rows.append(data[begin:end].translate(None, b"\r").replace(b"\n", b" ") + b"\n")
        size += len(rows[-1])
        lines.append(line)
        ends.append(size)
    starts = [0, *ends[:-1]] if ends else []
    return RowTexts(0, b"".join(rows), np.array(starts, np.int64), np.array(ends, np.int64)), lines


@functools.lru_cache(maxsize=2)
def _rows(version: FileVersion) -> tuple[RowTexts, list[int]]:
    return texts_of_document(b"".join(blocks(version, "utf-8", 0)))


def _elements(data: bytes, offset: int) -> Iterator[tuple[int, int]]:
    """Yield where each row begins and ends."""
    is_in_array = False
    while (match := _VALUE.search(data, offset)) is not None:
        token, offset = match[0], match.end()
        if token == (b"]" if is_in_array else b"["):
            is_in_array = not is_in_array
            continue
        if token in {b"{", b"["}:
            offset = _end(data, offset)
        yield match.start(), offset


def _end(data: bytes, offset: int) -> int:
    """Return where the value ends whose first bracket is before an offset."""
    depth = 1
    for bracket in _BRACKET.finditer(data, offset):
        depth += 1 if bracket[0] in b"[{" else -1 if bracket[0] in b"]}" else 0
        if not depth:
            return bracket.end()
    return len(data)
