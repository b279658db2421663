"""Static side inputs: collections that are known before the pipeline runs, looked up by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, KeyEncodingError
from dataflow_model.plan.combine import GroupFn
from dataflow_model.runners.engine.uncombining import MultisetFn
from dataflow_model.values import encode_key, encode_window, is_pair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.nodes import SideInput
    from dataflow_model.plan.sinks import Record
    from dataflow_model.values import Window

__all__ = ["STANDING", "StaticSide", "newest_panes", "owner_of", "standing_values", "view_of"]

STANDING: Final = MultisetFn(GroupFn())
"""What is left of values of which some are taken back, in the order in which they came."""


@attrs.define
class StaticSide:
    """One side input's panes; called with a main window it gives what the user's function sees.

    The window of the side input that a main window sees is the one that contains its `max_timestamp`; among several,
    as sliding windows have, the one that ends first. Where the side input accumulates, only each key's newest pane
    counts; where it takes values back, what is left does, and a window in which nothing is left is not there.
    """

    side: SideInput
    records: Sequence[Record]
    accumulates: bool = False
    _seen: dict[Window, Any] = attrs.field(init=False, factory=dict)

    def __call__(self, window: Window) -> Any:
        """Return the view of one main window."""
        if window not in self._seen:
            self._seen[window] = view_of(self.side, self._values(int(window.max_timestamp)))
        return self._seen[window]

    def _values(self, at: int) -> list[Any]:
        held: dict[Window, list[Record]] = {}
        for record in self.records:
            if int(record.window.start) <= at < int(record.window.end):
                held.setdefault(record.window, []).append(record)
        for window in sorted(held, key=lambda window: (int(window.end), int(window.start), encode_window(window))):
            found = held[window]
            if not any(record.is_retraction for record in found):
                return [record.value for record in (newest_panes(found) if self.accumulates else found)]
            values = standing_values(found)
            if values:
                return values
        return []


def standing_values(records: Sequence[Record]) -> list[Any]:
    """Return the values of one window that have not been taken back.

    Example:
        >>> from dataflow_model.plan.sinks import Record
        >>> from dataflow_model.time import EventTime
        >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
        >>> records = [
        ...     Record(value, EventTime(0), GLOBAL_WINDOW, NO_FIRING, is_retraction=back)
        ...     for value, back in [(("UA", 4), False), (("AA", 1), False), (("UA", 4), True), (("UA", 7), False)]
        ... ]
        >>> standing_values(records)
        [('AA', 1), ('UA', 7)]
    """
    standing = STANDING.create_accumulator()
    for record in records:
        change = STANDING.subtract_input if record.is_retraction else STANDING.add_input
        standing = change(standing, record.value)
    values: list[Any] = STANDING.extract_output(standing)
    return values


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
    if not is_pair(value):
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
                f"the side input {side.ref.label!r} of AsDict must hold (key, value) pairs, got {values[:3]!r}",
                hint="use dm.AsIter(…) for other elements, or make pairs of them with dm.WithKeys(…)",
            ) from error
    if len(values) > 1:
        raise InvalidArgument(
            f"the side input {side.ref.label!r} of AsSingleton must have one value in each window, "
            f"got {len(values)}: {values[:3]!r} …",
            hint="combine them first, or use dm.AsIter",
        )
    if values:
        return values[0]
    if side.default is ...:
        raise InvalidArgument(
            f"the side input {side.ref.label!r} of AsSingleton has no value in the window",
            hint="pass default=… to dm.AsSingleton",
        )
    return side.default
