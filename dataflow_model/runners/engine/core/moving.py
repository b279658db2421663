"""Values moved between columns, the rows of the table of cells, the bytes of packed keys, and pairs.

Several columns of equal length follow each other in one array, so that a loop over rows fills all of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from array import array
    from typing import Any


def from_rows(rows: array[int], width: int, slots: array[int], indices: array[int], columns: array[int]) -> None:
    """Copy numbers from rows into columns.

    Args:
        rows: the rows, one after the other.
        width: the length of a row.
        slots: the numbers of the rows to copy from.
        indices: where the numbers of each column are in a row.
        columns: receives the columns.

    Example:
        >>> from array import array
        >>> columns = array("q", [0] * 4)
        >>> from_rows(array("q", range(9)), 3, array("q", [2, 0]), array("q", [0, 2]), columns)
        >>> columns.tolist()
        [6, 0, 8, 2]
    """
    count = len(slots)
    for row in range(count):
        first = slots[row] * width
        for column in range(len(indices)):
            columns[column * count + row] = rows[first + indices[column]]


def to_rows(rows: array[int], width: int, slots: array[int], indices: array[int], columns: array[int]) -> None:
    """Copy columns into rows; see `from_rows`.

    Example:
        >>> from array import array
        >>> rows = array("q", [0] * 6)
        >>> to_rows(rows, 3, array("q", [1]), array("q", [0, 2]), array("q", [7, 8]))
        >>> rows.tolist()
        [0, 0, 0, 7, 0, 8]
    """
    count = len(slots)
    for row in range(count):
        first = slots[row] * width
        for column in range(len(indices)):
            rows[first + indices[column]] = columns[column * count + row]


def read_packed(packed: bytes, begins: array[int], counts: array[int], sizes: array[int], columns: array[int]) -> None:
    """Copy the signed integers of packed rows into columns.

    Args:
        packed: the bytes, least significant byte first.
        begins: where each run of consecutive rows begins.
        counts: the number of rows in each run.
        sizes: the number of bytes of each column in a row.
        columns: receives the columns; those without bytes are left out.

    Example:
        >>> from array import array
        >>> columns = array("q", [0] * 6)
        >>> packed = bytes([9, 1, 255, 255, 2])
        >>> read_packed(packed, array("q", [1]), array("q", [2]), array("q", [1, 0, 1]), columns)
        >>> columns.tolist()
        [1, -1, 0, 0, -1, 2]
    """
    total = 0
    for part in range(len(counts)):
        total += counts[part]
    row = 0
    for part in range(len(begins)):
        at = begins[part]
        for _ in range(counts[part]):
            for column in range(len(sizes)):
                size = sizes[column]
                if size:
                    at += size
                    value = packed[at - 1]
                    if value > 127:  # noqa: PLR2004 - the sign
                        value -= 256
                    for byte in range(at - 2, at - size - 1, -1):
                        value = value * 256 + packed[byte]
                    columns[column * total + row] = value
            row += 1


def copy_parts(source: bytes, bounds: array[int], target: bytearray, offsets: array[int]) -> None:
    """Copy parts of bytes to different offsets, and move each offset behind its part.

    Args:
        source: the bytes.
        bounds: where each part begins, and where the last one ends.
        target: receives the parts.
        offsets: where each part is copied to.

    Example:
        >>> from array import array
        >>> target, offsets = bytearray(5), array("q", [3, 0])
        >>> copy_parts(b"abcde", array("q", [0, 2, 5]), target, offsets)
        >>> target, offsets.tolist()
        (bytearray(b'cdeab'), [5, 3])
    """
    for part in range(len(offsets)):
        to = offsets[part]
        for byte in range(bounds[part], bounds[part + 1]):
            target[to] = source[byte]
            to += 1
        offsets[part] = to


def divided(source: bytes, begins: array[int], ends: array[int]) -> list[bytes]:
    """Return parts of bytes.

    Example:
        >>> from array import array
        >>> divided(b"abcde", array("q", [3, 0]), array("q", [5, 2]))
        [b'de', b'ab']
    """
    return [source[begins[part] : ends[part]] for part in range(len(begins))]


def number_alike(source: bytes, begins: array[int], length: int, numbers: array[int]) -> int:
    """Number parts of bytes from 0 on, the same bytes with the same number, and return how many numbers there are.

    Args:
        source: the bytes.
        begins: where each part begins.
        length: how long each of them is.
        numbers: receives the number of each part.

    Example:
        >>> from array import array
        >>> numbers = array("q", [0] * 3)
        >>> number_alike(b"abcdab", array("q", [0, 2, 4]), 2, numbers), numbers.tolist()
        (2, [0, 1, 0])
    """
    known: dict[bytes, int] = {}
    for part in range(len(begins)):
        alike = source[begins[part] : begins[part] + length]
        numbers[part] = known.setdefault(alike, len(known))
    return len(known)


def changed_heads(entries: dict[bytes, bytes], heads: dict[bytes, bytes], length: int) -> dict[bytes, bytes]:
    """Return the first bytes of the entries whose first bytes in `heads` are different or missing.

    Args:
        entries: the entries.
        heads: the first bytes of entries by the same keys.
        length: the number of these bytes.

    Example:
        >>> changed_heads({b"a": b"1..", b"b": b"2..", b"c": b"3.."}, {b"a": b"1", b"b": b"1"}, 1)
        {b'b': b'2', b'c': b'3'}
    """
    changed = {}
    for encoded, entry in entries.items():
        head = entry[:length]
        if heads.get(encoded) != head:
            changed[encoded] = head
    return changed


def pairs_apart(pairs: list[Any]) -> tuple[list[Any], list[Any]] | None:
    """Return the first and the second parts of pairs, each all of one type; `None` if there are no such parts.

    Args:
        pairs: the pairs, and at least one; `None` is returned if there is anything else among them.

    Example:
        >>> pairs_apart([("a", 1), ("b", 2)])
        (['a', 'b'], [1, 2])
        >>> pairs_apart([("a", 1), ("b", True)]), pairs_apart([("a", 1), ["b", 2]]), pairs_apart([("a",)])
        (None, None, None)
    """
    firsts: list[Any] = []
    seconds: list[Any] = []
    kind = other_kind = None
    for pair in pairs:
        if type(pair) is not tuple or len(pair) != 2:  # noqa: PLR2004 - a pair
            return None
        first, second = pair
        if kind is None:
            kind, other_kind = type(first), type(second)
        if type(first) is not kind or type(second) is not other_kind:
            return None
        firsts.append(first)
        seconds.append(second)
    return firsts, seconds
