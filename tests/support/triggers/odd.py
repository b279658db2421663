"""A trigger that looks at the value of a combiner."""

from __future__ import annotations

from typing import Any

import attrs

import dataflow_model as dm

__all__ = ["IsOdd"]


@attrs.frozen
class IsOdd(dm.Trigger):
    """Fires when the value is odd."""

    def on_element(self, context: Any) -> None:
        """Fire if the value is odd now."""
        if context.peek_value() % 2:
            context.trigger()
            context.done()

    def on_merge(self, context: Any) -> None:
        """Keep nothing."""
