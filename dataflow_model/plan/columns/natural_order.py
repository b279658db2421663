"""The order of names in which numbers count as numbers: `2024-1-2` is before `2024-1-10`.

Files, and all other origins of sources, are read in this order, and their rows are ordered by it within a tick. A name
is turned into text whose plain order is the natural one, since orders are compared, stored and sent as text.

Only the digits 0 to 9 make numbers; all other characters are compared by their code points, as text is. Leading zeros
count last, so `2024-1-2`, `2024-01-3` and `2024-1-10` are in this order, and no two names are equal.
"""

from __future__ import annotations

import functools
import re
from typing import Final

_DIGITS: Final = re.compile("[0-9]+")
_LENGTH: Final = re.compile("9*[0-8]")
_END: Final = "\0"
"""What ends the text; the numbers of leading zeros follow, up to the last that is not 0."""


@functools.lru_cache(maxsize=4096)
def natural(name: str) -> str:
    """Return text that is ordered as a name is in natural order, and from which the name can be restored.

    Example:
        >>> sorted(["2024-1-10", "2024-1-2", "2024-01-3", "2024-1-2b"], key=natural)
        ['2024-1-2', '2024-1-2b', '2024-01-3', '2024-1-10']
    """
    zeros: list[int] = []

    def with_length(match: re.Match[str]) -> str:
        number = match[0].lstrip("0") or "0"
        zeros.append(len(match[0]) - len(number))
        return _coded(len(number)) + number

    text = _DIGITS.sub(with_length, name)
    while zeros and not zeros[-1]:
        zeros.pop()
    return f"{text}{_END}{''.join(map(_coded, zeros))}"


@functools.lru_cache(maxsize=4096)
def original(text: str) -> str:
    """Return the name of which `natural` has made a text; any other text is returned as it is.

    Example:
        >>> original(natural("part-007.csv")), original("part-007.csv")
        ('part-007.csv', 'part-007.csv')
    """
    body, end, coded_zeros = text.rpartition(_END)
    if not end:
        return text
    zeros = [_length(code) for code in _LENGTH.findall(coded_zeros)][::-1]
    parts: list[str] = []
    index = 0
    while (match := _LENGTH.search(body, index)) is not None:
        stop = match.end() + _length(match[0])
        parts += body[index : match.start()], "0" * (zeros.pop() if zeros else 0), body[match.end() : stop]
        index = stop
    return "".join([*parts, body[index:]])


def _coded(length: int) -> str:
    """Return digits for a length; they are ordered as lengths are, and none are the beginning of others."""
    return "9" * (length // 9) + str(length % 9)


def _length(code: str) -> int:
    return 9 * (len(code) - 1) + int(code[-1])
