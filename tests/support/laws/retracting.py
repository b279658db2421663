"""What stands after retractions, and a function that takes part in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    import dataflow_model as dm


def standing(panes: Iterable[dm.Pane]) -> dict[tuple[Any, Any], Any]:
    """Return what stands after these panes by key and window; each retraction must repeat what it takes back."""
    values: dict[tuple[Any, Any], dm.Pane] = {}
    for pane in panes:
        cell = (pane.key, pane.window)
        if pane.is_retraction:
            taken = values.pop(cell)
            assert (taken.value, taken.timestamp, taken.info) == (pane.value, pane.timestamp, pane.info)
        else:
            assert cell not in values, "two values of one window at a time"
            values[cell] = pane
    return {cell: pane.value for cell, pane in values.items()}


def by_parity(key: Any, value: Any) -> tuple[str, Any]:
    """Give a key that changes with the value, so that a retraction and its replacement part."""
    return f"{value.bit_count() % 2}", value
