"""Windows: finite regions of event time, `[start, end)`."""

from __future__ import annotations

import functools
from typing import Any, Final, Protocol, SupportsIndex, runtime_checkable

import attrs

from dataflow_model.errors import InvalidArgument, KeyEncodingError
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, format_instant
from dataflow_model.values.keys import encode_key
from dataflow_model.values.pickles import dump

__all__ = ["GLOBAL_WINDOW", "GlobalWindow", "IntervalWindow", "Window", "encode_window", "interval"]


@runtime_checkable
class Window(Protocol):
    """What a window is to the engine: bounds, equality, a hash, and pickling.

    A user's own window class needs just these attributes; `max_timestamp` is `end - 1 µs`.
    """

    @property
    def start(self) -> EventTime:
        """The first instant inside."""
        ...

    @property
    def end(self) -> EventTime:
        """The first instant after it."""
        ...

    @property
    def max_timestamp(self) -> EventTime:
        """The last instant inside: `end - 1 µs`."""
        ...

    def __hash__(self) -> int: ...


@attrs.frozen(order=False, repr=False, cache_hash=True)
class IntervalWindow:
    """The window `[start, end)`.

    A subclass may add fields: make it an `@attrs.frozen` class, so that two windows are equal only if class, bounds and
    fields are. The bounds say when a window ends; its other fields tell windows of the same bounds apart.

    Raises:
        InvalidArgument: when it would be empty.

    Source: Beam's `IntervalWindow`.

    Example:
        >>> from dataflow_model.time import EventTime
        >>> window = IntervalWindow(EventTime(0), EventTime(120_000_000))
        >>> window
        [1970-01-01T00:00:00Z, 1970-01-01T00:02:00Z)
        >>> window.max_timestamp
        EventTime(1970-01-01T00:01:59.999999Z)
    """

    start: EventTime
    end: EventTime

    def __attrs_post_init__(self) -> None:
        """Refuse an empty window."""
        if not self.start < self.end:
            raise InvalidArgument(
                f"a window must end after it starts, got start={self.start!r}, end={self.end!r}",
                hint="swap the two; a window holds [start, end)",
            )

    @property
    def max_timestamp(self) -> EventTime:
        """The last instant inside: `end - 1 µs`."""
        return EventTime(int(self.end) - 1)  # also at +∞, where EventTime's own arithmetic stays

    def intersects(self, other: Window) -> bool:
        """Tell whether the two share an instant; windows that only touch do not."""
        return self.start < other.end and other.start < self.end

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickle as two numbers, and come back as the one window of these bounds that the process has.

        A subclass is pickled as any other object, with its class and all its fields.
        """
        if type(self) is not IntervalWindow:
            return super().__reduce_ex__(protocol)
        return interval, (int(self.start), int(self.end))

    def __repr__(self) -> str:
        return f"[{format_instant(self.start)}, {format_instant(self.end)})"


@functools.lru_cache(maxsize=1 << 14)
def interval(start: int, end: int) -> IntervalWindow:
    """Return the window `[start, end)`, the same object for the same bounds while it is in use.

    Example:
        >>> interval(0, 60) is interval(0, 60)
        True
    """
    return IntervalWindow(EventTime(start), EventTime(end))


def encode_window(window: Window) -> bytes:
    """Return what orders windows of equal bounds: nothing for the built-in windows, else class and fields as bytes.

    Example:
        >>> encode_window(interval(0, 60))
        b''
    """
    kind = type(window)
    return b"" if kind is IntervalWindow or kind is GlobalWindow else _encode_user_window(window)


@functools.lru_cache(maxsize=1 << 10)
def _encode_user_window(window: Window) -> bytes:
    try:
        return encode_key(window)
    except KeyEncodingError:  # a class with an equality of its own, or fields that are no keys
        return dump(window)


@attrs.frozen(order=False, repr=False)
class GlobalWindow:
    """The one window of all event time; it ends only when the watermark reaches +∞.

    Example:
        >>> GLOBAL_WINDOW, GLOBAL_WINDOW.max_timestamp
        (GlobalWindow(), EventTime(+inf-1us))
    """

    @property
    def start(self) -> EventTime:
        """−∞."""
        return MIN_TIMESTAMP

    @property
    def end(self) -> EventTime:
        """+∞."""
        return MAX_TIMESTAMP

    @property
    def max_timestamp(self) -> EventTime:
        """`MAX_TIMESTAMP - 1 µs`, so that the pane of the global window is on time at +∞."""
        return _GLOBAL_MAX

    def __reduce__(self) -> tuple[Any, ...]:
        return GlobalWindow, ()

    def __repr__(self) -> str:
        return "GlobalWindow()"


_GLOBAL_MAX: Final = EventTime(int(MAX_TIMESTAMP) - 1)
GLOBAL_WINDOW: Final = GlobalWindow()
