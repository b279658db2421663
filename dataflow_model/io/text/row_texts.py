"""Split text files into the texts of their rows, which may contain quoted line breaks, and read a range of rows."""

from __future__ import annotations

import bisect
import contextlib
import functools
import re
import threading
from typing import TYPE_CHECKING, Final, Self

import attrs
import numpy as np

from dataflow_model.errors import SourceError
from dataflow_model.io.listing.file_identity import digest_of
from dataflow_model.io.text.unpacking import blocks, is_compressed, is_plain

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from numpy.typing import NDArray

    from dataflow_model.io.listing.file_identity import FileVersion

LONGEST_QUOTE: Final = 1 << 20
"""The maximum size of a quoted value in bytes. A quote that is not closed by then affects its own line only."""
_LONGEST: Final = 1 << 26
"""The maximum size of a row in bytes. Of a longer one, only the beginning is kept, so that it needs little memory."""
TOO_LONG: Final = f"and a row may have at most {_LONGEST >> 20} MiB"
_SHOWN: Final = 1000
"""How many bytes of a row that is too long are kept."""
_OMITTED: Final = b"\x80"
"""What stands for text that is not kept; no option is a character outside of ASCII."""
_STEP: Final = 1024
_INDEXES: Final = 1 << 16
"""The number of indexes to keep, one per file: 8 bytes per 1,024 rows, and without it the file is read once more."""
_BOM: Final = b"\xef\xbb\xbf"
_LF, _CR = 10, 13
_indexes: dict[tuple[str, TextFormat], _Indexed] = {}
"""The latest index of each file, the one used last at the end."""
_lock: Final = threading.Lock()


@attrs.frozen
class TextFormat:
    r"""How the rows of a text file are separated.

    Attributes:
        encoding: of the file, as `checked_encoding` returns it.
        delimiter: between the values of a row; only where there is a `quote`.
        quote: the character around values in which delimiters and line breaks are text; empty if there is none.
        ends_at_cr: whether `\r` alone ends a row too.
        keeps_blank: whether an empty line is a row.
        comment: the character at the beginning of lines that are no rows; empty if there is none.
        skipped: the number of lines at the beginning of the file that are no rows.
    """

    encoding: str = "utf-8"
    delimiter: str = ""
    quote: str = ""
    ends_at_cr: bool = False
    keeps_blank: bool = False
    comment: str = ""
    skipped: int = 0


@attrs.frozen(eq=False)
class RowTexts:
    """The texts of consecutive rows of a file.

    Attributes:
        offset: the byte of the file's text at which `data` begins.
        data: the text of the rows, and perhaps empty lines between them.
        starts, ends: where each row begins and ends in `data`; its line end belongs to it.
        unclosed: the indices of the rows with a quote that is not closed.
        is_complete: whether the rows stay the same whatever is appended to the file.
        has_gaps: whether other lines than empty ones are between the rows.
        omitted: the number of bytes that are not kept of the only row, since it is too long.
    """

    offset: int
    data: bytes
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    unclosed: tuple[int, ...] = ()
    has_gaps: bool = False
    is_complete: bool = True
    omitted: int = 0

    def __len__(self) -> int:
        return len(self.starts)

    def sliced(self, start: int, stop: int) -> Self:
        """Return the rows `[start, stop)` of these."""
        if start == 0 and stop >= len(self):
            return self
        indices = tuple(index - start for index in self.unclosed if start <= index < stop)
        return attrs.evolve(self, starts=self.starts[start:stop], ends=self.ends[start:stop], unclosed=indices)

    def chosen(self, indices: NDArray[np.int64]) -> Self:
        """Return the rows at some indices, in order; none of them may have a quote that is not closed."""
        return attrs.evolve(self, starts=self.starts[indices], ends=self.ends[indices], unclosed=(), has_gaps=True)

    def text(self, start: int = 0, stop: int | None = None) -> bytes:
        """Return the text of the rows `[start, stop)` of these."""
        last = (len(self) if stop is None else stop) - 1
        if self.has_gaps:
            bounds = zip(self.starts[start : last + 1].tolist(), self.ends[start : last + 1].tolist(), strict=True)
            return b"".join(self.data[begin:end] for begin, end in bounds)
        return self.data[self.starts[start] : self.ends[last]] if start <= last else b""

    def problem(self) -> str:
        """Return why the only row cannot be read, if it is too long; otherwise nothing."""
        return f"it has {self.size(0)} bytes, {TOO_LONG}" if self.omitted and len(self) else ""

    def size(self, index: int) -> int:
        """Return the number of bytes of a row without its line end."""
        return self.omitted + len(
            self.text(index, index + 1) if self.omitted else self.text(index, index + 1).rstrip(b"\r\n")
        )

    def extended(self, counts: Mapping[int, int], character: str) -> bytes:
        """Return the text of the rows, with a character added so many times at the ends of some, by their indices."""
        pieces, at = [], 0
        for index, count in sorted(counts.items()):
            end = int(self.starts[index]) + len(self.text(index, index + 1).rstrip(b"\r\n"))
            pieces += [self.data[at:end], character.encode() * count]
            at = end
        return b"".join([*pieces, self.data[at:]])


def rows_in(data: bytes, form: TextFormat) -> RowTexts:
    r"""Return the texts of rows, the last of which may have no line end.

    Example:
        >>> rows_in(b"UA\n\nAA,5\n", TextFormat()).extended({0: 1}, ",")
        b'UA,\n\nAA,5\n'
    """
    return _split(data, form, 0, is_last=True)[0]


def split(version: FileVersion, form: TextFormat, start: int = 0) -> Generator[RowTexts, None, None]:
    """Yield all rows of a file from byte `start` of its text on, at which a row begins.

    A row of more than 64 MiB comes alone, with its beginning only.

    Raises:
        SourceError: when the file cannot be read.
    """
    carry, offset = b"", start
    skipped = 0 if start else form.skipped
    begun: _Begun | None = None
    with contextlib.closing(blocks(version, form.encoding, start)) as parts:
        for block in parts:
            data = carry + block
            if offset == 0:
                if len(data) < len(_BOM) and _BOM.startswith(data):
                    carry = data
                    continue
                if data.startswith(_BOM):
                    data, offset = data[len(_BOM) :], len(_BOM)
            while skipped and (end := _line_end(data, form)):
                data, offset, skipped = data[end:], offset + end, skipped - 1
            if skipped:
                carry, offset = data[-1:], offset + len(data[:-1])
                continue
            if len(data) <= _LONGEST and b"\n" not in block and not (form.ends_at_cr and b"\r" in block):
                carry = data  # no row ends here
                continue
            texts, taken, limit = _split(data, form, offset, is_last=False)
            if len(texts):
                yield from _apart(texts, form, begun)
                begun = None
            carry, offset = data[taken:], offset + taken
            if begun is not None or limit - taken > _LONGEST + 1:
                begun = begun or _Begun.of(carry, offset)
                remainder = _remainder(carry, limit - taken, form)
                carry, offset = remainder, offset + len(carry) - len(remainder)
    texts, _, _ = _split(b"" if skipped else carry, form, offset, is_last=True)
    for part in _apart(texts, form, begun):
        yield attrs.evolve(part, is_complete=False)


@attrs.frozen
class _Begun:
    """A row that is too long: where it begins in the file's text, and its first bytes."""

    offset: int
    head: bytes

    @classmethod
    def of(cls, data: bytes, offset: int) -> Self:
        """Return the row at the beginning of some data; a character is not cut."""
        end = _SHOWN
        while end > _SHOWN - 3 and data[end] & 0xC0 == 0x80:  # noqa: PLR2004 - a further byte of a character
            end -= 1
        return cls(offset, data[:end])

    def row(self, end: int) -> RowTexts:
        """Return the row, which ends before byte `end` of the file's text, without its line end."""
        size = np.array([len(self.head)])
        return RowTexts(self.offset, self.head, size * 0, size, omitted=end - self.offset - len(self.head))


def _apart(texts: RowTexts, form: TextFormat, begun: _Begun | None = None) -> Iterator[RowTexts]:
    """Yield rows, and those that are too long each alone; the first one is the end of the row that has `begun`."""
    if begun is not None:
        if not form.comment or not begun.head.startswith(form.comment.encode()):
            yield begun.row(texts.offset + int(texts.starts[0]) + texts.size(0))
        texts = texts.sliced(1, len(texts))
    at = 0
    for index in np.flatnonzero(texts.ends - texts.starts > _LONGEST).tolist():
        if (size := texts.size(index)) <= _LONGEST:
            continue
        if at < index:
            yield texts.sliced(at, index)
        begin = texts.offset + int(texts.starts[index])
        yield _Begun.of(texts.text(index, index + 1), begin).row(begin + size)
        at = index + 1
    if at < len(texts):
        yield texts.sliced(at, len(texts))


def _remainder(data: bytes, limit: int, form: TextFormat) -> bytes:
    """Return what is needed to find the end of a row that is too long, which is not before a certain offset."""
    is_needed = limit and data[limit - 1 : limit] in {form.delimiter.encode(), b"\r"}
    return _OMITTED + data[limit - 1 if is_needed else limit :]


def _line_end(data: bytes, form: TextFormat) -> int:
    """Return where the first line certainly ends; 0 if that depends on what follows."""
    end = data.find(b"\n") + 1
    if form.ends_at_cr:
        mark = data.find(b"\r", 0, end or len(data)) + 1
        if mark and mark < len(data) and data[mark] != _LF:
            return mark
    return end


def _split(data: bytes, form: TextFormat, offset: int, *, is_last: bool) -> tuple[RowTexts, int, int]:
    """Return the rows that certainly end within `data`.

    The second value is how many bytes they and the lines between them take, and the third one the offset up to which it
    is certain that no other row ends.
    """
    buffer = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(buffer == _LF)
    if form.ends_at_cr and b"\r" in data:
        returns = np.flatnonzero(buffer == _CR)
        following = np.append(buffer, 0 if is_last else _LF)[returns + 1]
        ends = np.sort(np.concatenate([ends, returns[following != _LF]]))
    quotes = _Quotes((), len(data))
    inside = np.zeros(len(ends), np.bool_)
    if form.quote and form.quote.encode() in data:
        fast = _well_formed(buffer, form, is_last=is_last)
        if fast is None:
            quotes = _scanned(data, form, is_last=is_last)
            for begin, end in quotes.spans:
                inside[slice(*np.searchsorted(ends, (begin, end)))] = True
        else:
            positions, limit = fast
            quotes = _Quotes((), limit)
            inside = np.searchsorted(positions, ends) % 2 == 1
    ends = ends[~inside & (ends < quotes.limit)]
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    taken = int(ends[-1]) + 1 if len(ends) else 0
    filled = ends - ((buffer[ends] == _LF) & (ends > starts) & (buffer[ends - 1] == _CR)) > starts
    ends = ends + 1
    if is_last and taken < len(data):
        starts, ends = np.append(starts, taken), np.append(ends, len(data))
        filled, taken = np.append(filled, data[taken:] != b"\r"), len(data)
    if not form.keeps_blank:
        starts, ends = starts[filled], ends[filled]
    unclosed = sorted({bisect.bisect_right(starts, offset) - 1 for offset in quotes.unclosed if offset < taken})
    if form.comment and len(starts):
        is_row = buffer[starts] != ord(form.comment)
        if not is_row.all():
            numbers = np.cumsum(is_row) - 1
            unclosed = [int(numbers[index]) for index in unclosed if is_row[index]]
            return (
                RowTexts(offset, data, starts[is_row], ends[is_row], tuple(unclosed), has_gaps=True),
                taken,
                quotes.limit,
            )
    return RowTexts(offset, data, starts, ends, tuple(unclosed)), taken, quotes.limit


@attrs.frozen
class _Quotes:
    """The quotes in some data.

    Attributes:
        unclosed: the positions of the quotes that are never closed.
        limit: the position up to which the result is certain; beyond it, it depends on the data that follow.
        spans: the beginning and the end of each quoted value with line breaks.
    """

    unclosed: tuple[int, ...]
    limit: int
    spans: tuple[tuple[int, int], ...] = ()


def _well_formed(buffer: NDArray[np.uint8], form: TextFormat, *, is_last: bool) -> tuple[NDArray[np.int64], int] | None:
    """Return all quotes and where the scan ends, if each quote is at an edge of a value or doubled; else `None`."""
    quotes = np.flatnonzero(buffer == ord(form.quote))
    limit = len(buffer)
    is_open = len(quotes) % 2 == 1
    if is_last and is_open:
        return None
    if is_open or (quotes[-1] == limit - 1 and not is_last):  # the last value may go on in what follows
        begin = len(quotes) - (1 if is_open else 2)
        while begin and quotes[begin] == quotes[begin - 1] + 1:  # a doubled quote
            begin -= 2
        limit = int(quotes[begin])
        if len(buffer) - limit > LONGEST_QUOTE or not _is_edge(buffer, form, quotes[begin : begin + 1] - 1).all():
            return None
        quotes = quotes[:begin]
    opening, closing = quotes[::2], quotes[1::2]
    doubled = opening[1:] == closing[:-1] + 1
    first, last = np.append(True, ~doubled)[: len(opening)], np.append(~doubled, True)[: len(opening)]
    begins, finishes = opening[first], closing[last]
    if len(begins) and int((finishes - begins).max()) >= LONGEST_QUOTE:
        return None
    edges = _is_edge(buffer, form, begins - 1) & _is_edge(buffer, form, finishes + 1)
    return (quotes, limit) if edges.all() else None


def _is_edge(buffer: NDArray[np.uint8], form: TextFormat, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the offsets that hold a delimiter or a line break, or are outside of the data."""
    outside = (offsets < 0) | (offsets >= len(buffer))
    values = buffer[np.where(outside, 0, offsets)]
    edges: NDArray[np.bool_] = outside | np.isin(values, (ord(form.delimiter), _LF, _CR))
    return edges


def _scanned(data: bytes, form: TextFormat, *, is_last: bool) -> _Quotes:
    """Find the quoted values one by one.

    A quote counts only at the beginning of a value. If there are line breaks before the quote that closes it, that
    quote must be followed by a delimiter or a line end, so that a forgotten quote spoils its own line only.
    """
    edges, pattern = form.delimiter.encode() + b"\r\n", _quoted(form.delimiter, form.quote)
    unclosed: list[int] = []
    spans: list[tuple[int, int]] = []
    offset = 0
    while (match := pattern.search(data, offset)) is not None:
        begin, end = match.span()
        if end == len(data) and not is_last and end - begin <= LONGEST_QUOTE:
            return _Quotes(tuple(unclosed), begin, tuple(spans))
        is_closed = bool(match[1]) and end - begin <= LONGEST_QUOTE
        has_breaks = data.find(b"\n", begin, end) >= 0 or data.find(b"\r", begin, end) >= 0
        if is_closed and (not has_breaks or end == len(data) or data[end] in edges):
            if has_breaks:
                spans.append((begin, end))
            offset = end
        else:
            unclosed.append(begin)
            offset = begin + 1
    return _Quotes(tuple(unclosed), len(data), tuple(spans))


@functools.cache
def _quoted(delimiter: str, quote: str) -> re.Pattern[bytes]:
    """Return a pattern of a quoted value, which extends to the end of the data if its quote is never closed."""
    q, d = re.escape(quote), re.escape(delimiter)
    return re.compile(rf"{q}(?<![^{d}\r\n]{q})(?:[^{q}]++|{q}{q})*+({q}?)".encode())


@attrs.frozen
class RowIndex:
    """Where the rows of a file are.

    Attributes:
        count: the number of rows.
        offsets: the byte of the file's text at which every 1,024th row begins.
        complete: the number of rows that stay the same whatever is appended.
    """

    count: int
    offsets: tuple[int, ...]
    complete: int = 0


@attrs.frozen
class _Indexed:
    """A version of a file, a digest of its content, and its index."""

    version: FileVersion
    digest: str
    index: RowIndex


def row_index(version: FileVersion, form: TextFormat) -> RowIndex:
    """Return the index of a file, which is read once; if the file has grown, only the appended part is read.

    Raises:
        SourceError: when the file cannot be read.
    """
    key = version.path, form
    with _lock:
        indexed = _indexes.get(key)
    if indexed is None or indexed.version != version:
        indexed = _indexed(version, form, indexed)
    with _lock:
        _indexes.pop(key, None)  # the index used least recently is deleted first
        _indexes[key] = indexed
        while len(_indexes) > _INDEXES:
            del _indexes[next(iter(_indexes))]
    return indexed.index


def _indexed(version: FileVersion, form: TextFormat, before: _Indexed | None) -> _Indexed:
    if not is_plain(version.path, form.encoding):
        return _Indexed(version, "", _index(version, form, RowIndex(0, ()), 0))
    try:
        size, index = 0, RowIndex(0, ())
        if before is not None and _continues(version, before):
            size, index = before.version.size, before.index
        return _Indexed(version, digest_of(version.path, version.size), _index(version, form, index, size))
    except OSError as error:
        raise SourceError(
            f"{version.path} cannot be read: {error.strerror}",
            hint="check that the file exists and that this process may read it",
        ) from error


def _continues(version: FileVersion, before: _Indexed) -> bool:
    """Return whether a file still begins with its earlier content, to which something was appended."""
    was = before.version
    has_grown = was.inode == version.inode and was.size < version.size
    return has_grown and digest_of(version.path, was.size) == before.digest


def _index(version: FileVersion, form: TextFormat, before: RowIndex, size: int) -> RowIndex:
    """Extend the index of the first `size` bytes of a file to the whole file."""
    # What follows may close a quote that was open at the end, so begin before any such quote.
    certain = size - LONGEST_QUOTE if form.quote else size
    steps = max(bisect.bisect_right(before.offsets, certain) - 1, 0)
    offsets = list(before.offsets[:steps])
    count = complete = steps * _STEP
    start = before.offsets[steps] if before.offsets else 0
    for texts in split(version, form, start):
        offsets.extend((texts.starts[-count % _STEP :: _STEP] + texts.offset).tolist())
        count += len(texts)
        complete = count if texts.is_complete else complete
    return RowIndex(count, tuple(offsets), complete)


def read_rows(version: FileVersion, form: TextFormat, start: int, stop: int | None) -> Iterator[RowTexts]:
    """Read rows `[start, stop)` of a file, to its end when `stop` is `None`.

    Raises:
        SourceError: when the file cannot be read.
    """
    index = row_index(version, form)
    stop = index.count if stop is None else min(stop, index.count)
    if start >= stop:
        return
    skipped, left = start % _STEP, stop - start
    with contextlib.closing(split(version, form, index.offsets[start // _STEP])) as parts:
        for texts in parts:
            part = texts.sliced(skipped, skipped + left)
            skipped = max(skipped - len(texts), 0)
            if len(part):
                left -= len(part)
                yield part
            if not left:
                return


def count_appended(version: FileVersion, form: TextFormat, size: int, rows: int) -> int:
    """Return how many rows were appended to the first `size` bytes of a file, which hold `rows` rows.

    Raises:
        SourceError: when what was appended belongs to the last of these rows, or the file is compressed.
    """
    if is_compressed(version.path):
        raise SourceError(
            f"{version.path} has grown since it was read, which a compressed file must not",
            hint="write what is new into another file",
        )
    count = row_index(version, form).count
    if is_plain(version.path, form.encoding):
        end = size
    else:
        earlier = list(split(attrs.evolve(version, size=size), form))
        end = earlier[-1].offset + len(earlier[-1].data) + earlier[-1].omitted
    [last] = read_rows(version, form, rows - 1, rows) if count >= rows else [None]
    if last is None or last.offset + int(last.starts[0]) + last.size(0) > end:
        raise SourceError(
            f"the last line of {version.path} had no line end when it was read as a row, but was continued later "
            f"at byte {size}",
            hint="to read what follows as a row of its own, insert a line break there; a longer line_timeout waits "
            "longer for the end of a line, and a writer that appends whole lines needs none",
        )
    return count - rows
