"""Windows of elements as Beam's window functions assign them, computed from microseconds and remembered."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from apache_beam.transforms import window
from apache_beam.utils.timestamp import Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

WINDOW_INTO: Final = "dataflow_model:window_into:v1"
"""The kind of a `WindowInto` whose windows are assigned here."""
_REMEMBERED: Final = 1 << 12
"""For how many starts of windows the windows are remembered."""


def assigner_of(fn: Any) -> Callable[[int], tuple[Any, ...]] | None:
    """Return a function from the event time of an element, in microseconds, to its windows.

    Args:
        fn: a window function of Beam's.

    Returns:
        The function; `None` unless `fn` has fixed, sliding, session or global windows.

    Example:
        >>> assign = assigner_of(window.FixedWindows(10, offset=3))
        >>> assign(2_999_999), assign(3_000_000)
        (([-7.0, 3.0),), ([3.0, 13.0),))
    """
    kind = type(fn)
    if kind is window.GlobalWindows:
        everything = (window.GlobalWindow(),)
        return lambda micros: everything  # noqa: ARG005
    if kind is window.FixedWindows:
        return _Intervals(fn.size.micros, fn.size.micros, fn.offset.micros).assign
    if kind is window.SlidingWindows:
        return _Intervals(fn.size.micros, fn.period.micros, fn.offset.micros).assign
    if kind is window.Sessions:
        gap = fn.gap_size.micros
        return lambda micros: (_interval(micros, micros + gap),)
    return None


def _interval(start: int, end: int) -> Any:
    return window.IntervalWindow(Timestamp(micros=start), Timestamp(micros=end))


class _Intervals:
    """Assigns intervals of one length that start at regular times, the latest first."""

    def __init__(self, size: int, period: int, offset: int) -> None:
        self._size, self._period, self._offset = size, period, offset
        self._known: dict[tuple[int, int], tuple[Any, ...]] = {}

    def assign(self, micros: int) -> tuple[Any, ...]:
        """Return the windows of an element."""
        period = self._period
        past = (micros - self._offset) % period
        which = micros - past, -((past - self._size) // period)
        windows = self._known.get(which)
        if windows is None:
            if len(self._known) == _REMEMBERED:
                self._known.clear()
            windows = self._known[which] = self._windows(*which)
        return windows

    def _windows(self, latest: int, count: int) -> tuple[Any, ...]:
        starts = range(latest, latest - count * self._period, -self._period)
        return tuple(_interval(start, start + self._size) for start in starts)
