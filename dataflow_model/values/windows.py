"""Windows: finite regions of event time, `[start, end)`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final, Protocol, SupportsIndex, runtime_checkable

import attrs

from dataflow_model.errors import InvalidArgument, KeyEncodingError
from dataflow_model.readable import readable_span
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, event_time, format_instant
from dataflow_model.values.keys import encode_key
from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from dataflow_model.time import InstantLike

_MIN: Final = int(MIN_TIMESTAMP)
_MAX: Final = int(MAX_TIMESTAMP)


def _bound(value: InstantLike) -> EventTime:
    """Return a value as the bound of a window, held within −∞ and +∞."""
    if type(value) is EventTime:
        return value if _MIN <= int(value) <= _MAX else EventTime(max(_MIN, min(int(value), _MAX)))
    return event_time(value)


@runtime_checkable
class Window(Protocol):
    """The interface of a window: its bounds. A window must also be hashable, comparable with `==` and picklable.

    A window class of your own needs only these attributes; `max_timestamp` is `end - 1 µs`.
    """

    @property
    def start(self) -> EventTime:
        """The first instant in the window."""
        ...

    @property
    def end(self) -> EventTime:
        """The first instant after the window."""
        ...

    @property
    def max_timestamp(self) -> EventTime:
        """The last instant in the window: `end - 1 µs`."""
        ...

    def __hash__(self) -> int: ...


if TYPE_CHECKING:
    _Declared = Window  # Pyright does not match fields that have a converter with the properties of a protocol
else:
    _Declared = object


def check_within_time(window: Window, fn: object, does: str) -> None:
    """Raise `InvalidArgument` unless a window lies within −∞ and +∞, as those of the package always do.

    A window that ends at −∞ does not: it has no last instant.

    Args:
        window: the window.
        fn: the window function that has made it.
        does: what the function does with such windows, such as `"assign"`, for the message.
    """
    if not (int(window.start) >= _MIN and _MIN < int(window.end) <= _MAX):
        raise InvalidArgument(
            f"{fn!r} must {does} windows within −∞ and +∞, got {window!r}",
            hint="hold the bounds within dm.MIN_TIMESTAMP and dm.MAX_TIMESTAMP, as dm.IntervalWindow does",
        )


@attrs.frozen(order=False, repr=False, cache_hash=True)
class IntervalWindow(_Declared):
    """The window `[start, end)`.

    Bounds saturate at −∞ and +∞, as sums do. A subclass may add fields. Make it an `@attrs.frozen` class, so that two
    windows are equal only if their class, bounds and fields are equal. The extra fields distinguish windows that have
    the same bounds.

    Args:
        start: the first instant in the window, as `event_time` takes it: a bare number is seconds since the epoch.
        end: the first instant after the window, likewise.

    Raises:
        InvalidArgument: if the window would be empty, or for a bound that is not an instant.
        InvalidType: for a `ProcessingTime` or a value of another type.

    Source: Beam's `IntervalWindow`.

    Example:
        >>> window = IntervalWindow("1970-01-01T00:00Z", 120)
        >>> window
        [1970-01-01T00:00:00Z, 1970-01-01T00:02:00Z)
        >>> window.max_timestamp
        EventTime(1970-01-01T00:01:59.999999Z)
    """

    start: EventTime = attrs.field(converter=_bound)
    end: EventTime = attrs.field(converter=_bound)

    def __attrs_post_init__(self) -> None:
        """Reject an empty window."""
        if not self.start < self.end:
            raise InvalidArgument(
                f"a window must end after it starts, got start={self.start!r}, end={self.end!r}",
                hint="swap the two; a window holds [start, end)",
            )

    @property
    def max_timestamp(self) -> EventTime:
        """The last instant in the window: `end - 1 µs`."""
        return EventTime(int(self.end) - 1)  # also at +∞, where EventTime's own arithmetic stays

    def intersects(self, other: Window) -> bool:
        """Return whether the windows share an instant; adjacent windows do not."""
        return self.start < other.end and other.start < self.end

    def __reduce_ex__(self, protocol: SupportsIndex) -> str | tuple[Any, ...]:
        """Pickle as two numbers; unpickling returns the process's shared window with these bounds.

        A subclass is pickled like any other object, with its class and all its fields.
        """
        if type(self) is not IntervalWindow:
            return super().__reduce_ex__(protocol)
        return interval, (int(self.start), int(self.end))

    def __repr__(self) -> str:
        return f"[{format_instant(self.start)}, {format_instant(self.end)})"


@functools.lru_cache(maxsize=1 << 14)
def interval(start: int, end: int) -> IntervalWindow:
    """Return the window `[start, end)`; recently used bounds share one object.

    Example:
        >>> interval(0, 60) is interval(0, 60)
        True
    """
    return IntervalWindow(EventTime(start), EventTime(end))


def encode_window(window: Window) -> bytes:
    """Return bytes that order windows with equal bounds: none for the built-in windows, else the class and its fields.

    Example:
        >>> encode_window(interval(0, 60))
        b''
    """
    kind = type(window)
    return b"" if kind is IntervalWindow or kind is GlobalWindow else _encode_user_window(window)


def by_bounds(window: Window) -> tuple[int, int, bytes]:
    """Return the sort key of a window: its start, then its end, then its encoding.

    Example:
        >>> by_bounds(interval(0, 60))
        (0, 60, b'')
    """
    return int(window.start), int(window.end), encode_window(window)


@functools.lru_cache(maxsize=1 << 10)
def _encode_user_window(window: Window) -> bytes:
    try:
        return encode_key(window)
    except KeyEncodingError:  # a class with its own `__eq__`, or a field that cannot be a key
        return dump(window)


@attrs.frozen(order=False, repr=False)
class GlobalWindow:
    """The single window that contains all event time; it ends only when the watermark reaches +∞.

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


def readable_window(window: Window) -> str:
    """Return a window as a table shows it, in UTC; one of a class of its own as its `repr`.

    Example:
        >>> readable_window(interval(0, 60_000_000)), readable_window(GLOBAL_WINDOW)
        ('[1970-01-01 00:00, 00:01)', 'global')
    """
    if type(window) is IntervalWindow:
        return readable_span(int(window.start), int(window.end))
    return "global" if type(window) is GlobalWindow else repr(window)
