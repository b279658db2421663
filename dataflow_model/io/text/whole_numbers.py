"""The types of whole numbers that are given as texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable

EXACT: Final = 2**53
"""Floats hold all whole numbers up to this one."""
_MOST_DIGITS: Final = 40


def whole_type(texts: Iterable[str]) -> pa.DataType:
    """Return the type of a column of whole numbers: unsigned if only that holds all of them.

    Example:
        >>> whole_type(["1", "18446744073709551615"]), whole_type(["-1", "18446744073709551615"])
        (DataType(uint64), DataType(int64))
    """
    numbers = list(map(number_of, texts))
    least, greatest = min(numbers, default=0), max(numbers, default=0)
    return pa.uint64() if least >= 0 and 2**63 <= greatest < 2**64 else pa.int64()


def number_of(text: str) -> int:
    """Read a whole number; one with so many digits that Python may reject it becomes a huge number of the same sign."""
    text = text.strip()
    if len(text) <= _MOST_DIGITS:
        return int(text)
    return -(2**70) if text.startswith("-") else 2**70
