"""A pipeline and its data, for tests of `prove` with another runner."""

from __future__ import annotations

from typing import Any, Final

import dataflow_model as dm

__all__ = ["DATA", "sums"]

DATA: Final = [(("a", 3), 1), (("a", 5), 8), (("b", 2), 12), (("a", 7), 4)]


def sums(elements: Any) -> Any:
    """Add up the values of each key, in sessions with early, late and retracted panes."""
    windowing = dm.Window.into(dm.Sessions(10)).trigger(
        dm.AfterWatermark(early=dm.AfterProcessingTime(2), late=dm.AfterCount(1))
    )
    return elements | windowing.allowed_lateness(15).accumulating_and_retracting() | dm.Sum.per_key()
