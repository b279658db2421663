"""What a DoFn's functions are handed: state and timers of one key and window.

Handles are made for one call of a function, and are not to be kept.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.time import EventTime, duration, event_time, processing_time
from dataflow_model.triggers import TimeDomain
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.combine import CombineFn
    from dataflow_model.time import DurationLike, InstantLike

__all__ = [
    "BagState",
    "CombiningState",
    "HoldBoard",
    "MapState",
    "SetState",
    "Timer",
    "TimerBoard",
    "ValueState",
    "Watermark",
    "WatermarkHold",
]

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
InputT = TypeVar("InputT")
OutputT = TypeVar("OutputT")


class _Handle:
    """One piece of state of one key and window; what is in it is kept under its name, nothing where it is empty."""

    __slots__ = ("_name", "_store")

    def __init__(self, store: dict[str, Any], name: str) -> None:
        self._store = store
        self._name = name

    def clear(self) -> None:
        """Forget what it holds."""
        self._store.pop(self._name, None)


class ValueState(_Handle, Generic[T]):
    """One value; Beam's `ReadModifyWriteState`."""

    __slots__ = ("_default",)

    def __init__(self, store: dict[str, Any], name: str, default: Any) -> None:
        super().__init__(store, name)
        self._default = default

    def read(self) -> T:
        """Return the value, or the spec's default where nothing has been written."""
        if self._name in self._store:
            value: T = self._store[self._name]
            return value
        default: T = copy.deepcopy(self._default)  # a list that someone appends to must not show up at another key
        return default

    def write(self, value: T) -> None:
        """Replace the value."""
        self._store[self._name] = value


class BagState(_Handle, Generic[T]):
    """A list that grows; in the order of adding."""

    __slots__ = ()

    def add(self, element: T) -> None:
        """Add an element."""
        self._store.setdefault(self._name, []).append(element)

    def read(self) -> list[T]:
        """Return the elements, in a list of their own."""
        return list(self._store.get(self._name, ()))

    def __len__(self) -> int:
        return len(self._store.get(self._name, ()))


class SetState(_Handle, Generic[T]):
    """Distinct hashable elements, in the order in which they were first added."""

    __slots__ = ()

    def add(self, element: T) -> None:
        """Add an element; nothing changes if an equal one is there."""
        self._store.setdefault(self._name, {}).setdefault(element)  # a dict keeps the order in every process

    def remove(self, element: T) -> None:
        """Take an element out, if it is there."""
        held: dict[T, None] = self._store.get(self._name, {})
        held.pop(element, None)
        if not held:
            self.clear()

    def read(self) -> list[T]:
        """Return the elements."""
        return list(self._store.get(self._name, ()))

    def __contains__(self, element: object) -> bool:
        return element in self._store.get(self._name, ())

    def __len__(self) -> int:
        return len(self._store.get(self._name, ()))


class MapState(_Handle, Generic[K, V]):
    """A dictionary, in the order in which keys were first put."""

    __slots__ = ()

    def put(self, key: K, value: V) -> None:
        """Set what a key leads to."""
        self._store.setdefault(self._name, {})[key] = value

    def get(self, key: K, default: Any = None) -> V | Any:
        """Return what a key leads to, or `default`."""
        return self._store.get(self._name, {}).get(key, default)

    def remove(self, key: K) -> None:
        """Take a key out, if it is there."""
        held: dict[K, V] = self._store.get(self._name, {})
        held.pop(key, None)
        if not held:
            self.clear()

    def items(self) -> list[tuple[K, V]]:
        """Return the pairs."""
        return list(self._store.get(self._name, {}).items())

    def __contains__(self, key: object) -> bool:
        return key in self._store.get(self._name, ())

    def __iter__(self) -> Iterator[K]:
        return iter(list(self._store.get(self._name, ())))

    def __len__(self) -> int:
        return len(self._store.get(self._name, ()))


class CombiningState(_Handle, Generic[InputT, OutputT]):
    """What a `CombineFn` makes of all that was added; only the accumulator is kept."""

    __slots__ = ("_combine",)

    def __init__(self, store: dict[str, Any], name: str, combine: CombineFn[InputT, Any, OutputT]) -> None:
        super().__init__(store, name)
        self._combine = combine

    def add(self, element: InputT) -> None:
        """Combine one more input."""
        accumulator = self._store[self._name] if self._name in self._store else self._combine.create_accumulator()
        self._store[self._name] = self._combine.add_input(accumulator, element)

    def read(self) -> OutputT:
        """Return the output; the combiner's output of nothing where nothing was added."""
        accumulator = self._store[self._name] if self._name in self._store else self._combine.create_accumulator()
        return self._combine.extract_output(accumulator)


class TimerBoard(Protocol):
    """What a timer's handle needs of the engine that runs it."""

    def set_timer(self, name: str, domain: TimeDomain, tag: str, time: int, output_time: int | None) -> None:
        """Set or reset a timer."""
        ...

    def clear_timer(self, name: str, domain: TimeDomain, tag: str) -> None:
        """Clear a timer, if it is set."""
        ...

    def after(self, domain: TimeDomain, delay: int) -> int:
        """Return the instant a delay after the present one."""
        ...


class Timer:
    """A timer of one key and window; with tags, a family of them.

    Each tag has one timer: setting it again moves it. A timer fires once, and is not set any more when its function
    runs.
    """

    __slots__ = ("_board", "_domain", "_name")

    def __init__(self, board: TimerBoard, name: str, domain: TimeDomain) -> None:
        self._board = board
        self._name = name
        self._domain = domain

    def set(self, time: InstantLike, *, tag: str = "", output_timestamp: InstantLike | None = None) -> None:
        """Set the timer to an instant of its own domain.

        Args:
            time: when to fire. An event-time timer fires when the watermark reaches it; at or behind the watermark it
                fires right after the function that sets it, behind those of its key that are due earlier.
                A processing-time timer at or behind the clock counts as set to the clock: it fires when that next
                moves, or the tick closes.
            tag: which timer of the family.
            output_timestamp: the event time of what its function gives, which holds the watermark until it fires. By
                default for event time the timer's own, for processing time that of the element or timer that sets it;
                never outside the window.

        Raises:
            InvalidArgument: for an event time after the window's expiry, at which the timer would be gone, or an
                output timestamp before that of what sets it, or after the timer's own event time.
            InvalidType: for an instant of the other domain, or a tag that is no text.
        """
        at = event_time(time) if self._domain is TimeDomain.EVENT_TIME else processing_time(time)
        self._set(int(at), tag, output_timestamp)

    def set_after(self, delay: DurationLike, *, tag: str = "", output_timestamp: InstantLike | None = None) -> None:
        """Set the timer to a delay after the present.

        The present is in processing time the clock, or the time of the processing-time timer that is firing; in event
        time that of the element, or of the event-time timer that is firing.

        Args:
            delay: how long after it.
            tag: which timer of the family.
            output_timestamp: see `set`.
        """
        self._set(self._board.after(self._domain, int(duration(delay))), tag, output_timestamp)

    def clear(self, tag: str = "") -> None:
        """Clear the timer, if it is set."""
        self._board.clear_timer(self._name, self._domain, _text(tag))

    def _set(self, time: int, tag: str, output_timestamp: InstantLike | None) -> None:
        output_time = None if output_timestamp is None else int(event_time(output_timestamp))
        self._board.set_timer(self._name, self._domain, _text(tag), time, output_time)


class HoldBoard(Protocol):
    """What a hold's handle needs of the engine that runs it."""

    def set_hold(self, name: str, time: int) -> None:
        """Set or move a hold."""
        ...

    def clear_hold(self, name: str) -> None:
        """Let go, if there is a hold."""
        ...

    def read_hold(self, name: str) -> int | None:
        """Return where the watermark is held; `None` where it is not."""
        ...


class WatermarkHold:
    """A hold of the output's watermark for one key and window: what is still to be given from it on will be on time.

    While it stands, outputs and timers may stand as early as it does.
    """

    __slots__ = ("_board", "_name")

    def __init__(self, board: HoldBoard, name: str) -> None:
        self._board = board
        self._name = name

    def set(self, timestamp: InstantLike) -> None:
        """Hold the watermark, or move the hold; what is behind the input's watermark already can hold nothing.

        Raises:
            InvalidArgument: for an instant before that of the element or timer, unless the hold stood there before.
        """
        self._board.set_hold(self._name, int(event_time(timestamp)))

    def read(self) -> EventTime | None:
        """Return where it stands, or `None`."""
        time = self._board.read_hold(self._name)
        return None if time is None else EventTime(time)

    def clear(self) -> None:
        """Let the watermark go on."""
        self._board.clear_hold(self._name)


class Watermark:
    """The watermark of a DoFn's input, as it stands while a function runs.

    Args:
        low: the low watermark.
        percentiles: the further ones that the DoFn has named.

    Example:
        >>> Watermark(5, {90: 7}).read(90)
        EventTime(1970-01-01T00:00:00.000007Z)
        >>> Watermark(5, {90: 7}).read(50)
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: the watermark's percentile 50 is not available, only [90, 100]
        Hint: declare it in the class: watermark_percentiles = (50, 90)
    """

    __slots__ = ("_low", "_percentiles")

    def __init__(self, low: int, percentiles: Mapping[float, int]) -> None:
        self._low = low
        self._percentiles = percentiles

    def read(self, percentile: float = LOW_WATERMARK) -> EventTime:
        """Return the low watermark, or a percentile of it that the DoFn names in `watermark_percentiles`.

        Raises:
            InvalidArgument: for another percentile.
        """
        if percentile == LOW_WATERMARK:
            return EventTime(self._low)
        if percentile not in self._percentiles:
            named = ", ".join(f"{one:g}" for one in sorted({*self._percentiles, percentile}))
            available = [f"{one:g}" for one in sorted({*self._percentiles, LOW_WATERMARK})]
            raise InvalidArgument(
                f"the watermark's percentile {percentile!r} is not available, only [{', '.join(available)}]",
                hint=f"declare it in the class: watermark_percentiles = ({named})",
            )
        return EventTime(self._percentiles[percentile])


def _text(tag: str) -> str:
    if not isinstance(tag, str):
        raise InvalidType(f"a timer's tag must be text, got {tag!r}", hint=f"pass tag=str({tag!r})")
    return tag
