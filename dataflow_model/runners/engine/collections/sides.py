"""Side inputs, looked up by window, and those that are static: known before the pipeline runs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument, KeyEncodingError, shown
from dataflow_model.plan.checks.side_panes import replaced_by_newer
from dataflow_model.plan.functions.combine import GroupFn
from dataflow_model.runners.engine.functions.read_only import read_only
from dataflow_model.runners.engine.functions.uncombining import MultisetFn
from dataflow_model.runners.engine.lanes.order import by_window
from dataflow_model.values import checked_pairs, encode_key, interval, is_pair
from dataflow_model.values.copies import copied
from dataflow_model.windowing.instants import looks_at_elements, windows_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dataflow_model.plan.checks.side_panes import Replaced
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import SideInput
    from dataflow_model.time import EventTime
    from dataflow_model.values import Window
    from dataflow_model.windowing import WindowFn

STANDING: Final = MultisetFn(GroupFn())
"""The values that have not been retracted, in order of arrival."""


@attrs.define
class StaticSide:
    """The panes of one side input; called with a main window, it returns the value for the user's function.

    A main window uses the side window that equals it, if both collections share their windows, and otherwise the one
    that `side_window` names. If newer panes replace older ones, only the newest are
    used. If the side input retracts, only values that have not been retracted are used, and a window that has merged
    with others is gone.
    """

    side: SideInput
    records: Sequence[Record]
    window_fn: WindowFn
    replaced: Replaced = "nothing"
    _held: dict[Window, list[Record]] = attrs.field(init=False, factory=dict)
    _standing_windows: HeldWindows = attrs.field(init=False)
    _views: dict[Window, Any] = attrs.field(init=False, factory=dict)
    _seen: dict[Window, Any] = attrs.field(init=False, factory=dict)

    def __attrs_post_init__(self) -> None:
        for record in self.records:
            self._held.setdefault(record.window, []).append(record)
        standing = (window for window, records in self._held.items() if self._standing(records))
        searched = self.window_fn.is_merging or looks_at_elements(self.window_fn)
        self._standing_windows = HeldWindows(standing if searched and not self.side.shares_windows else ())

    @classmethod
    def of(cls, plan: Plan, side: SideInput, records: Sequence[Record]) -> StaticSide:
        """Return a side input of a plan; the records are those of all its panes."""
        [window_fn] = copied((plan.strategy(side.ref).window_fn,)).value
        return cls(side, records, window_fn, replaced_by_newer(plan, side.ref))

    def __call__(self, window: Window) -> Any:
        """Return the view of one main window."""
        if window not in self._seen:
            self._seen[window] = self._view(window if self.side.shares_windows else self._side_window(window))
        return self._seen[window]

    def _side_window(self, window: Window) -> Window:
        at = window.max_timestamp
        return side_window(self.window_fn, at, self._standing_windows.around(at))

    def _view(self, target: Window) -> Any:
        """Return the view of one side window, which may serve many main windows."""
        if target not in self._views:
            self._views[target] = view_of(self.side, self._standing(self._held.get(target, ())))
        return self._views[target]

    def _standing(self, records: Sequence[Record]) -> list[Any]:
        """Return the values of one window that have neither been replaced nor retracted."""
        if any(record.is_retraction for record in records):
            standing = STANDING.create_accumulator()
            for record in records:
                change = STANDING.subtract_input if record.is_retraction else STANDING.add_input
                standing = change(standing, record.value)
            values: list[Any] = STANDING.extract_output(standing)
            return values
        newest: dict[Any, int] = {}
        owners = [owner_of(record.value, self.replaced) for record in records]
        for owner, record in zip(owners, records, strict=True):
            newest[owner] = max(record.pane.index, newest.get(owner, 0))
        return [
            record.value
            for owner, record in zip(owners, records, strict=True)
            if self.replaced == "nothing" or record.pane.index == newest[owner]
        ]


class HeldWindows:
    """The windows of a side input that hold something; those around an instant are found without looking at all.

    They are sorted by start, apart for each order of magnitude of their lengths.

    Example:
        >>> import dataflow_model as dm
        >>> [window] = dm.FixedWindows(60).assign(dm.event_time(5), None)
        >>> held = HeldWindows([window])
        >>> list(held.around(dm.event_time(59))) == [window], list(held.around(dm.event_time(200)))
        (True, [])
    """

    def __init__(self, windows: Iterable[Window] = ()) -> None:
        self._by_length: dict[int, tuple[list[int], list[Window]]] = {}
        for window in sorted(windows, key=_start_of):
            self.add(window)

    def add(self, window: Window) -> None:
        """Add a window that is not held."""
        starts, windows = self._like(window)
        index = bisect_right(starts, _start_of(window))
        starts.insert(index, _start_of(window))
        windows.insert(index, window)

    def remove(self, window: Window) -> None:
        """Remove a window that is held."""
        starts, windows = self._like(window)
        index = windows.index(window, bisect_left(starts, _start_of(window)))
        del starts[index], windows[index]

    def around(self, at: EventTime) -> Iterator[Window]:
        """Yield the windows that contain an instant, and perhaps others."""
        for bits, (starts, windows) in self._by_length.items():
            index = bisect_right(starts, int(at)) - 1
            while index >= 0 and starts[index] > int(at) - (1 << bits):
                yield windows[index]
                index -= 1

    def _like(self, window: Window) -> tuple[list[int], list[Window]]:
        """Return the starts and the windows of similar length, whose numbers of microseconds have as many bits."""
        return self._by_length.setdefault((int(window.end) - int(window.start)).bit_length(), ([], []))


def _start_of(window: Window) -> int:
    return int(window.start)


def side_window(window_fn: WindowFn, at: EventTime, known_windows: Iterable[Window]) -> Window:
    """Return the side window for main windows whose last instant is `at`: the one to which that instant is assigned.

    Among several, as with sliding windows, it is the one that ends first. If the windows merge, or the function looks
    at the elements, their bounds are known only from what has arrived; then it is the first window that holds
    something, if there is one.

    Args:
        window_fn: the window function of the side input.
        at: the instant.
        known_windows: the side windows with elements.

    Source: the default `WindowMappingFn` of Beam's window functions.

    Example:
        >>> import dataflow_model as dm
        >>> side_window(dm.SlidingWindows(10, 5), dm.event_time(9), ())
        [1970-01-01T00:00:00Z, 1970-01-01T00:00:10Z)
        >>> side_window(dm.Sessions(10), dm.event_time(9), dm.FixedWindows(60).assign(dm.event_time(9), None))
        [1970-01-01T00:00:00Z, 1970-01-01T00:01:00Z)
    """
    windows = None if window_fn.is_merging else windows_at(window_fn, at)
    if windows is None:
        windows = [window for window in known_windows if contains(window, at)] or windows_at(window_fn, at)
    return min(windows or (), key=by_window, default=interval(int(at), int(at) + 1))


def contains(window: Window, at: EventTime) -> bool:
    """Return whether an instant lies in a window."""
    return int(window.start) <= int(at) < int(window.end)


def owner_of(value: Any, replaced: Replaced) -> Any:
    """Return the group of a pane's value; a newer pane replaces the values of an older one in the same group.

    With `"key"` it is the key of a pair, encoded; otherwise all values of a window belong together.
    """
    if replaced != "key" or not is_pair(value):
        return None
    try:
        return encode_key(value[0])
    except KeyEncodingError:
        return None


def view_of(side: SideInput, values: list[Any]) -> Any:
    """Return values in the form of the side input's view, in which nothing can be changed; see `read_only`.

    Raises:
        InvalidArgument: for a singleton of several values, or of none without a default; for a dict of non-pairs.
    """
    return read_only(_view_of(side, values), side.ref.label)


def _view_of(side: SideInput, values: list[Any]) -> Any:
    if side.view == "iter":
        return values
    if side.view == "dict":
        try:
            return dict(checked_pairs(values, side.ref.label))
        except TypeError as error:
            raise _no_dict(side, values) from error
    if len(values) > 1:
        shown = ", ".join(map(repr, values[:3])) + (", …" if values[3:] else "")
        raise InvalidArgument(
            f"the side input {side.ref.label!r} of AsSingleton must have one value in each window, "
            f"got {len(values)}: {shown}",
            hint="combine them first, with .accumulating() if a trigger fires several panes, or use dm.AsIter",
        )
    if values:
        return values[0]
    if side.default is ...:
        raise InvalidArgument(
            f"the side input {side.ref.label!r} of AsSingleton has no value in the window",
            hint="pass default=… to dm.AsSingleton",
        )
    return copied((side.default,)).value[0]


def _no_dict(side: SideInput, values: list[Any]) -> InvalidArgument:
    """Return the error for values that are not all pairs, or for a key that cannot be looked up."""
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
