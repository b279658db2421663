"""How many examples the laws draw whose cases take long."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["share_of_cases", "share_of_examples"]


def share_of_cases(count: int) -> int:
    """Return how many of some cases with seeds to run, of which the profiles `all` and `ci-all` run each."""
    return max(1, count * min(100, settings().max_examples) // 100)


def share_of_examples(part: float) -> settings:
    """Return settings with a part of the examples that the profile in use draws."""
    return settings(max_examples=max(1, round(part * settings().max_examples)))
