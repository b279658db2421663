"""How many examples the laws draw whose cases take long."""

from __future__ import annotations

from hypothesis import settings

__all__ = ["share_of_examples"]


def share_of_examples(part: float) -> settings:
    """Return settings with a part of the examples that the profile in use draws."""
    return settings(max_examples=max(1, round(part * settings().max_examples)))
