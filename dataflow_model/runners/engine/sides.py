"""Static side inputs: collections that are known before the pipeline runs, looked up by window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, KeyEncodingError, shown
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
"""The values that have not been retracted, in order of arrival."""


@attrs.define
class StaticSide:
    """The panes of one side input; called with a main window, it returns the value for the user's function.

    A main window uses the side window that contains its `max_timestamp`; among several, as with sliding windows, the
    one that ends first. If the side input accumulates, only the newest pane of each key is used. If it retracts, only
    values that have not been retracted are used, and a window without any is treated as missing.
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
            records = held[window]
            if not any(record.is_retraction for record in records):
                return [record.value for record in (newest_panes(records) if self.accumulates else records)]
            values = standing_values(records)
            if values:
                return values
        return []


def standing_values(records: Sequence[Record]) -> list[Any]:
    """Return the values of one window that have not been retracted.

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
    """Return the records of each key's newest pane, which with an accumulating strategy replaces all earlier ones.

    The key of a pair is its first part; all values that are not pairs have the same key.
    """
    newest: dict[Any, int] = {}
    for record in records:
        key = owner_of(record.value)
        newest[key] = max(record.pane.index, newest.get(key, 0))
    return [record for record in records if record.pane.index == newest[owner_of(record.value)]]


def owner_of(value: Any) -> Any:
    """Return the owner of a pane's value: its encoded key, or `None` for a value that is not a pair."""
    if not is_pair(value):
        return None
    try:
        return encode_key(value[0])
    except KeyEncodingError:
        return None


def view_of(side: SideInput, values: list[Any]) -> Any:
    """Return values in the form of the side input's view.

    Raises:
        InvalidArgument: for a singleton of several values, or of none without a default; for a dict of non-pairs.
    """
    if side.view == "iter":
        return values
    if side.view == "dict":
        try:
            return dict(values)
        except (TypeError, ValueError) as error:
            raise _no_dict(side, values) from error
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


def _no_dict(side: SideInput, values: list[Any]) -> InvalidArgument:
    """Return the error for values that are no pairs, or of which a key cannot be looked up."""
    for value in values:
        if not is_pair(value):
            break
        try:
            hash(value[0])
        except TypeError:
            return InvalidArgument(
                f"the side input {side.ref.label!r} of AsDict must have hashable keys, got the pair {shown(value)}",
                hint="make another value the key with dm.Map(…): a tuple of a list, a frozenset of a set",
            )
    return InvalidArgument(
        f"the side input {side.ref.label!r} of AsDict must hold (key, value) pairs, got {shown(values[:3])}",
        hint="use dm.AsIter(…) for other elements, or make pairs of them with dm.WithKeys(…)",
    )
