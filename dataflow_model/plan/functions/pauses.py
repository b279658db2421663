"""Pauses between attempts at what has failed."""

from __future__ import annotations

import random
from typing import Final

_FIRST: Final = 0.1
_LONGEST: Final = 10.0
_LEAST_PART: Final = 0.5
"""A pause is a random part of its length, at least this, so that clients do not all come back at once."""


def pause_after(attempt: int) -> float:
    """Return the seconds to wait after an attempt that failed, the first being 1: up to 0.1, doubled each time to 10.

    Example:
        >>> 0.05 <= pause_after(1) <= 0.1, 5 <= pause_after(1_000) <= 10
        (True, True)
    """
    longest = min(_LONGEST, _FIRST * 2.0 ** min(attempt - 1, 16))
    return random.uniform(_LEAST_PART, 1.0) * longest  # noqa: S311 - not a secret
