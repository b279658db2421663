"""How far back event times may move."""

from __future__ import annotations

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import Duration, DurationLike, duration, duration_text

__all__ = ["checked_horizon"]


def checked_horizon(value: DurationLike) -> Duration:
    """Return how far event times may move back.

    Raises:
        InvalidArgument: for a negative duration.
    """
    horizon = duration(value)
    if horizon < Duration(0):
        raise InvalidArgument(
            f"`late_data_horizon` must not be negative, got {duration_text(horizon)!r}",
            hint="use 0, or leave it out, for event times that only move forward",
        )
    return horizon
