"""Instants, windows and panes, between Beam and the engine."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

import attrs
from apache_beam.transforms import window as beam_window
from apache_beam.utils import windowed_value
from apache_beam.utils.timestamp import MAX_TIMESTAMP as BEAM_MAX
from apache_beam.utils.timestamp import MIN_TIMESTAMP as BEAM_MIN
from apache_beam.utils.timestamp import Timestamp

from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime
from dataflow_model.values import (
    GLOBAL_WINDOW,
    NO_FIRING,
    GlobalWindow,
    IntervalWindow,
    PaneInfo,
    PaneTiming,
    interval,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.values import Window

LEAST: Final[int] = BEAM_MIN.micros
"""Beam's first instant, in microseconds."""
_GREATEST: Final[int] = BEAM_MAX.micros
_GLOBAL: Final = beam_window.GlobalWindow()
GLOBAL_END: Final[int] = _GLOBAL.max_timestamp().micros
"""The last instant of Beam's global window, a day before its last instant."""
_OUR_LAST: Final = int(GLOBAL_WINDOW.max_timestamp)


# Instants ------------------------------------------------------------------------------------------------------------


def beam_micros(time: int) -> int:
    """Return the event time of an element in Beam's microseconds, which do not reach as far as ours.

    Example:
        >>> beam_micros(5), beam_micros(int(MIN_TIMESTAMP)) == LEAST, beam_micros(int(MAX_TIMESTAMP) - 1) == GLOBAL_END
        (5, True, True)
    """
    return GLOBAL_END if time >= _OUR_LAST else max(time, LEAST)


def beam_timestamp(time: int) -> Any:
    """Return an event time as Beam's `Timestamp`."""
    return Timestamp(micros=beam_micros(time))


def our_time(micros: int) -> int:
    """Return the event time of an element of Beam's; its last instant is that of the global window.

    Example:
        >>> our_time(5), our_time(LEAST) == MIN_TIMESTAMP
        (5, True)
    """
    if micros >= GLOBAL_END:
        return GLOBAL_END
    return int(MIN_TIMESTAMP) if micros <= LEAST else micros


def our_instant(micros: int) -> int:
    """Return a watermark of Beam's, or the bound of a window, as an instant that may be ±∞.

    Example:
        >>> our_instant(LEAST) == MIN_TIMESTAMP, our_instant(BEAM_MAX.micros) == MAX_TIMESTAMP
        (True, True)
    """
    if micros >= _GREATEST:
        return int(MAX_TIMESTAMP)
    return int(MIN_TIMESTAMP) if micros <= LEAST else micros


# Windows -------------------------------------------------------------------------------------------------------------


@attrs.frozen(order=False, eq=False, repr=False)
class BeamWindow:
    """A window that only Beam's coder can tell apart from others: of a user's class, or one without any instant.

    Attributes:
        start: its first instant.
        end: the instant after its last one.
        encoded: what Beam's coder makes of it.
    """

    start: EventTime
    end: EventTime
    encoded: bytes

    @property
    def max_timestamp(self) -> EventTime:
        """The last instant in the window: `end - 1 µs`."""
        return EventTime(int(self.end) - 1)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BeamWindow) and (self.encoded, self.end) == (other.encoded, other.end)

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __repr__(self) -> str:
        return f"BeamWindow({self.start!r}, {self.end!r}, {self.encoded!r})"


class OwnWindow(beam_window.IntervalWindow):  # type: ignore[misc] # Beam ships no types that mypy takes
    """A window of a class of a user's of this package, as one of Beam's.

    Args:
        own: the window.
    """

    def __init__(self, own: IntervalWindow) -> None:
        super().__init__(_beam_instant(int(own.start)), _beam_instant(int(own.end)))
        self.own = own

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OwnWindow) and self.own == other.own

    def __hash__(self) -> int:
        return hash(self.own)


class Windows:
    """Converts the windows of one collection; neighbours often share their windows, so the last ones are remembered.

    Args:
        coder: Beam's coder of the windows.
    """

    def __init__(self, coder: Any) -> None:
        self._coder = coder
        self._ours: tuple[Any, Any] = (None, None)
        self._beams: tuple[Any, Any] = (None, None)

    def to_beam(self, windows: Sequence[Window]) -> Any:
        """Return windows of ours as Beam's."""
        known, converted = self._ours
        if windows is not known:
            converted = tuple([self.one_to_beam(window) for window in windows])
            self._ours = windows, converted
        return converted

    def from_beam(self, windows: Any) -> tuple[Window, ...]:
        """Return windows of Beam's as ours."""
        known, converted = self._beams
        if windows is not known:
            converted = tuple([self.one_from_beam(window) for window in windows])
            self._beams = windows, converted
        given: tuple[Window, ...] = converted
        return given

    def one_to_beam(self, window: Any) -> Any:
        """Return a window of ours as Beam's."""
        if type(window) is IntervalWindow:
            return _beam_interval(int(window.start), int(window.end))
        if isinstance(window, IntervalWindow):
            return OwnWindow(window)
        return _GLOBAL if type(window) is GlobalWindow else self._coder.decode(window.encoded)

    def one_from_beam(self, window: Any) -> Window:
        """Return a window of Beam's as ours."""
        if type(window) is beam_window.GlobalWindow:
            return GLOBAL_WINDOW
        if type(window) is OwnWindow:
            own: Window = window.own
            return own
        end = our_instant(window.end.micros)
        try:
            start = our_instant(window.start.micros)
        except (AttributeError, NotImplementedError):  # a class of a user's may have no start
            start = end - 1
        if type(window) is beam_window.IntervalWindow and start < end:
            return interval(start, end)
        return BeamWindow(EventTime(min(start, end - 1)), EventTime(end), self._coder.encode(window))


@functools.lru_cache(maxsize=1 << 14)
def _beam_interval(start: int, end: int) -> Any:
    return beam_window.IntervalWindow(_beam_instant(start), _beam_instant(end))


def _beam_instant(time: int) -> Any:
    """Return the bound of a window as Beam's `Timestamp`."""
    return Timestamp(micros=min(max(time, LEAST), _GREATEST))


# Panes ---------------------------------------------------------------------------------------------------------------

_BEAM_TIMINGS: Final = {
    PaneTiming.EARLY: windowed_value.PaneInfoTiming.EARLY,
    PaneTiming.ON_TIME: windowed_value.PaneInfoTiming.ON_TIME,
    PaneTiming.LATE: windowed_value.PaneInfoTiming.LATE,
    PaneTiming.UNKNOWN: windowed_value.PaneInfoTiming.UNKNOWN,
}
_OUR_TIMINGS: Final = {theirs: ours for ours, theirs in _BEAM_TIMINGS.items()}
NO_BEAM_PANE: Final = windowed_value.PANE_INFO_UNKNOWN
"""What Beam calls the pane of an element that has not been through a grouping."""


def beam_pane(pane: PaneInfo) -> Any:
    """Return a pane as Beam's."""
    if pane is NO_FIRING:
        return NO_BEAM_PANE
    return _beam_pane(pane.is_first, pane.is_last, pane.timing, pane.index, pane.on_time_index)


def our_pane(pane: Any) -> PaneInfo:
    """Return a pane of Beam's as ours.

    Example:
        >>> our_pane(beam_pane(PaneInfo(index=2, timing=PaneTiming.LATE, is_first=False))).describe()
        'late, #2, last'
    """
    if pane is NO_BEAM_PANE:
        return NO_FIRING
    return _our_pane(pane.is_first, pane.is_last, pane.timing, pane.index, pane.nonspeculative_index)


@functools.lru_cache(maxsize=1 << 12)
def _beam_pane(is_first: bool, is_last: bool, timing: PaneTiming, index: int, on_time_index: int) -> Any:  # noqa: FBT001
    return windowed_value.PaneInfo(is_first, is_last, _BEAM_TIMINGS[timing], index, on_time_index)


@functools.lru_cache(maxsize=1 << 12)
def _our_pane(is_first: bool, is_last: bool, timing: int, index: int, on_time_index: int) -> PaneInfo:  # noqa: FBT001
    if timing == windowed_value.PaneInfoTiming.UNKNOWN:
        return NO_FIRING
    return PaneInfo(index, on_time_index, is_first, is_last, _OUR_TIMINGS[timing])
