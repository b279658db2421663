"""Static side inputs: collections that are known before the pipeline runs, looked up by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.errors import InvalidArgument, KeyEncodingError, explain
from dataflow_model.values import encode_key

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.nodes import SideInput
    from dataflow_model.plan.sinks import Record
    from dataflow_model.time import EventTime
    from dataflow_model.values import Window

__all__ = ["StaticSide", "newest_panes", "owner_of", "view_of"]


@attrs.define
class StaticSide:
    """One side input's panes; called with a main window it gives what the user's function sees.

    The window of the side input that a main window sees is the one that contains its `max_timestamp`; among several,
    as sliding windows have, the one that ends first. Where the side input accumulates, only each key's newest pane
    counts.
    """

    side: SideInput
    records: Sequence[Record]
    accumulates: bool = False
    _seen: dict[Window, Any] = attrs.field(init=False, factory=dict)

    def __call__(self, window: Window) -> Any:
        """Return the view of one main window."""
        if window not in self._seen:
            self._seen[window] = view_of(self.side, self._values(window.max_timestamp))
        return self._seen[window]

    def _values(self, at: EventTime) -> list[Any]:
        windows = {record.window for record in self.records if record.window.start <= at < record.window.end}
        if not windows:
            return []
        chosen = min(windows, key=lambda window: (window.end, window.start))
        found = [record for record in self.records if record.window == chosen]
        return [record.value for record in (newest_panes(found) if self.accumulates else found)]


def newest_panes(records: Sequence[Record]) -> list[Record]:
    """Return the records of each key's newest pane; under an accumulating strategy it stands for all before it.

    The key of a pair is its first part; what is no pair has one key.
    """
    newest: dict[Any, int] = {}
    for record in records:
        key = owner_of(record.value)
        newest[key] = max(record.pane.index, newest.get(key, 0))
    return [record for record in records if record.pane.index == newest[owner_of(record.value)]]


def owner_of(value: Any) -> Any:
    """Return what a pane's value belongs to: its encoded key, or `None` for what is no pair."""
    if not isinstance(value, tuple) or len(value) != 2:  # noqa: PLR2004 - a pair
        return None
    try:
        return encode_key(value[0])
    except KeyEncodingError:
        return None


def view_of(side: SideInput, values: list[Any]) -> Any:
    """Return values as the side input presents them.

    Raises:
        InvalidArgument: for a singleton of several values, or of none without a default; for a dict of non-pairs.
    """
    if side.view == "iter":
        return values
    if side.view == "dict":
        try:
            return dict(values)
        except (TypeError, ValueError) as error:
            raise InvalidArgument(
                explain(f"the side input {side.ref.label!r} as a dict needs (key, value) pairs, got {values[:3]!r}")
            ) from error
    if len(values) > 1:
        raise InvalidArgument(
            explain(
                f"the side input {side.ref.label!r} as a singleton has {len(values)} values in one window, "
                f"{values[:3]!r} …",
                hint="combine them first, or use dm.AsIter",
            )
        )
    if values:
        return values[0]
    if side.default is ...:
        raise InvalidArgument(
            explain(
                f"the side input {side.ref.label!r} as a singleton has no value in the window", hint="give default=…"
            )
        )
    return side.default
