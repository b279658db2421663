"""The handles passed to a DoFn's functions: state and timers of one key and window.

A handle is valid only during the call of a function; do not keep it.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Generic, Never, Protocol

from dataflow_model.arguments import way_out
from dataflow_model.errors import InvalidArgument, InvalidType, shown
from dataflow_model.plan.functions.combine import output_of
from dataflow_model.plan.functions.typevars import InputT, OutputT, TypeVar
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.time import EventTime, duration, event_time, processing_time
from dataflow_model.triggers import TimeDomain
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.triggers.percentiles import check_percentile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.functions.state_journal import StateJournal
    from dataflow_model.time import DurationLike, InstantLike

T = TypeVar("T", default=Any)
K = TypeVar("K", default=Any)
V = TypeVar("V", default=Any)


class StateBoard(Protocol):
    """The part of the engine that the handles of state use.

    Attributes:
        values: the non-empty pieces of state of the current key and window, by name.
        journal: records what the current call changes; `None` if nothing will be undone.
    """

    values: dict[str, Any]
    journal: StateJournal | None


class _Handle:
    """One piece of state of the current key and window, stored under its name; nothing is stored if it is empty."""

    __slots__ = ("_board", "_name")

    def __init__(self, board: StateBoard, name: str) -> None:
        self._board = board
        self._name = name

    def clear(self) -> None:
        """Clear the state."""
        if (journal := self._board.journal) is not None:
            journal.before_replace(self._name)
        self._board.values.pop(self._name, None)


@with_spellings
class ValueState(_Handle, Generic[T]):
    """State with one value; Beam's `ReadModifyWriteState`."""

    __slots__ = ("_default",)

    def __init__(self, board: StateBoard, name: str, default: Any) -> None:
        super().__init__(board, name)
        self._default = default

    def read(self) -> T:
        """Return the value, or the spec's default if nothing has been written."""
        if (journal := self._board.journal) is not None:
            journal.before_show(self._name)
        values = self._board.values
        if self._name in values:
            value: T = values[self._name]
            return value
        default: T = copy.deepcopy(self._default)  # so that changing a mutable default does not affect other keys
        return default

    def write(self, value: T) -> None:
        """Replace the value."""
        if (journal := self._board.journal) is not None:
            journal.before_replace(self._name)
        self._board.values[self._name] = value


@with_spellings
class BagState(_Handle, Generic[T]):
    """State with a list of elements, in the order in which they were added."""

    __slots__ = ()

    def add(self, element: T) -> None:
        """Add an element."""
        if (journal := self._board.journal) is not None:
            journal.before_append(self._name)
        self._board.values.setdefault(self._name, []).append(element)

    def read(self) -> list[T]:
        """Return the elements in a new list."""
        if (journal := self._board.journal) is not None:
            journal.before_show(self._name)
        return list(self._board.values.get(self._name, ()))

    def __len__(self) -> int:
        return len(self._board.values.get(self._name, ()))


class SetState(_Handle, Generic[T]):
    """State with distinct hashable elements, in the order in which they were first added."""

    __slots__ = ()

    def add(self, element: T) -> None:
        """Add an element, unless an equal one is present."""
        if (journal := self._board.journal) is not None:
            journal.before_put(self._name, element)
        self._board.values.setdefault(self._name, {}).setdefault(element)  # a dict keeps the order in every process

    def remove(self, element: T) -> None:
        """Remove an element, if it is present."""
        if (journal := self._board.journal) is not None:
            journal.before_remove(self._name, element)
        entries: dict[T, None] = self._board.values.get(self._name, {})
        entries.pop(element, None)
        if not entries:
            self.clear()

    def read(self) -> list[T]:
        """Return the elements."""
        if (journal := self._board.journal) is not None:
            journal.before_show(self._name)
        return list(self._board.values.get(self._name, ()))

    def __contains__(self, element: object) -> bool:
        return element in self._board.values.get(self._name, ())

    def __len__(self) -> int:
        return len(self._board.values.get(self._name, ()))


class MapState(_Handle, Generic[K, V]):
    """State with a dictionary, in the order in which its keys were first put."""

    __slots__ = ()

    def put(self, key: K, value: V) -> None:
        """Set the value of a key."""
        if (journal := self._board.journal) is not None:
            journal.before_put(self._name, key)
        self._board.values.setdefault(self._name, {})[key] = value

    def get(self, key: K, default: Any = None) -> V | Any:
        """Return the value of a key, or `default`."""
        if (journal := self._board.journal) is not None:
            journal.before_item(self._name, key)
        return self._board.values.get(self._name, {}).get(key, default)

    def remove(self, key: K) -> None:
        """Remove a key, if it is present."""
        if (journal := self._board.journal) is not None:
            journal.before_remove(self._name, key)
        entries: dict[K, V] = self._board.values.get(self._name, {})
        entries.pop(key, None)
        if not entries:
            self.clear()

    def items(self) -> list[tuple[K, V]]:
        """Return the pairs."""
        if (journal := self._board.journal) is not None:
            journal.before_show(self._name)
        return list(self._board.values.get(self._name, {}).items())

    def __contains__(self, key: object) -> bool:
        return key in self._board.values.get(self._name, ())

    def __iter__(self) -> Iterator[K]:
        if (journal := self._board.journal) is not None:
            journal.before_show(self._name)
        return iter(list(self._board.values.get(self._name, ())))

    def __len__(self) -> int:
        return len(self._board.values.get(self._name, ()))


@with_spellings
class CombiningState(_Handle, Generic[InputT, OutputT]):
    """State that combines added inputs with a `CombineFn`; only the accumulator is stored."""

    __slots__ = ("_combine",)

    def __init__(self, board: StateBoard, name: str, combine: CombineFn[InputT, Any, OutputT]) -> None:
        super().__init__(board, name)
        self._combine = combine

    def add(self, element: InputT) -> None:
        """Add an input to the accumulator."""
        accumulator = self._accumulator()
        self._board.values[self._name] = self._combine.add_input(accumulator, element)

    def read(self) -> OutputT:
        """Return the combiner's output; if nothing was added, its output for no inputs."""
        return output_of(self._combine, self._accumulator())

    def _accumulator(self) -> Any:
        if (journal := self._board.journal) is not None:
            journal.before_show(self._name)
        values = self._board.values
        return values[self._name] if self._name in values else self._combine.create_accumulator()


class TimerBoard(Protocol):
    """The part of the engine that a timer's handle uses."""

    def set_timer(self, name: str, domain: TimeDomain, tag: str, time: int, output_time: int | None) -> None:
        """Set or reset a timer."""
        ...

    def clear_timer(self, name: str, domain: TimeDomain, tag: str) -> None:
        """Clear a timer, if it is set."""
        ...

    def after(self, domain: TimeDomain, delay: int) -> int:
        """Return the current instant plus a delay."""
        ...


def _not_taken(arguments: Mapping[str, object]) -> InvalidType:
    """Return the error for arguments that a timer's methods do not take."""
    name = next(iter(arguments))
    return InvalidType(
        f"a timer has no argument {name!r}",
        hint=f"write tag={shown(arguments[name])}" if name == "dynamic_timer_tag" else way_out(name, ["tag"]),
    )


class Timer:
    """A timer of one key and window; with tags, a family of timers.

    Each tag has one timer; setting it again moves it. A timer fires once, and is no longer set when its function runs.
    """

    __slots__ = ("_board", "_domain", "_name")

    def __init__(self, board: TimerBoard, name: str, domain: TimeDomain) -> None:
        self._board = board
        self._name = name
        self._domain = domain

    def set(
        self, time: InstantLike, *, tag: str = "", output_timestamp: InstantLike | None = None, **others: Never
    ) -> None:
        """Set the timer to an instant of its own domain.

        Args:
            time: when to fire. An event-time timer fires when the watermark reaches it; if it is at or behind the
                watermark, it fires right after the function that sets it, after timers of its key that are due earlier.
                A processing-time timer at or behind the clock is treated as set to the clock: it fires when the clock
                next advances, or the tick closes.
            tag: the tag of the timer in the family.
            output_timestamp: the event time of its function's outputs, which holds the watermark until the timer fires.
                By default, for event time the timer's own time, for processing time that of the element or timer that
                sets it; never outside the window.
            others: nothing; an argument of another name raises.

        Raises:
            InvalidArgument: for an event time after the window's expiry, when the timer would be cleared, or an output
                timestamp before that of the element or timer that sets it, or after the timer's own event time.
            InvalidType: for an instant of the other domain, or a tag that is not a string.
        """
        if others:
            raise _not_taken(others)
        at = event_time(time) if self._domain is TimeDomain.EVENT_TIME else processing_time(time)
        self._set(int(at), tag, output_timestamp)

    def set_after(self, delay: DurationLike, *, tag: str = "", output_timestamp: InstantLike | None = None) -> None:
        """Set the timer to a delay after the current time.

        In processing time the current time is the clock, or the time of the processing-time timer that is firing; in
        event time it is that of the element, or of the event-time timer that is firing.

        Args:
            delay: the delay; with 0, the timer fires as soon as possible.
            tag: the tag of the timer in the family.
            output_timestamp: see `set`.

        Raises:
            InvalidArgument: for a negative delay.
        """
        length = int(duration(delay))
        if length < 0:
            raise InvalidArgument(
                f"`delay` must not be negative, got {delay!r}",
                hint="pass 0 for as soon as possible, or an instant to timer.set()",
            )
        self._set(self._board.after(self._domain, length), tag, output_timestamp)

    def clear(self, tag: str = "", **others: Never) -> None:
        """Clear the timer, if it is set."""
        if others:
            raise _not_taken(others)
        self._board.clear_timer(self._name, self._domain, _text(tag))

    def _set(self, time: int, tag: str, output_timestamp: InstantLike | None) -> None:
        output_time = None if output_timestamp is None else int(event_time(output_timestamp))
        self._board.set_timer(self._name, self._domain, _text(tag), time, output_time)


class HoldBoard(Protocol):
    """The part of the engine that a hold's handle uses."""

    def set_hold(self, name: str, time: int) -> None:
        """Set or move a hold."""
        ...

    def clear_hold(self, name: str) -> None:
        """Release the hold, if there is one."""
        ...

    def read_hold(self, name: str) -> int | None:
        """Return the instant at which the watermark is held; `None` if it is not."""
        ...


class WatermarkHold:
    """A hold of the output watermark for one key and window, so that outputs at or after the held instant are not late.

    While it is set, outputs and timers may have event times as early as the held instant.
    """

    __slots__ = ("_board", "_name")

    def __init__(self, board: HoldBoard, name: str) -> None:
        self._board = board
        self._name = name

    def set(self, timestamp: InstantLike) -> None:
        """Hold the watermark at an instant, or move the hold.

        The watermark cannot be held at an instant that it has already passed. In this case, the key and window keep
        their present hold or, if the current element or timer is not late, hold the watermark at its event time; late
        input alone holds nothing. `read()` returns the instant that was set, in every case.

        Raises:
            InvalidArgument: for an instant before that of the element or timer, unless the hold was already there.
        """
        self._board.set_hold(self._name, int(event_time(timestamp)))

    def read(self) -> EventTime | None:
        """Return the held instant, or `None` if there is no hold."""
        time = self._board.read_hold(self._name)
        return None if time is None else EventTime(time)

    def clear(self) -> None:
        """Release the hold."""
        self._board.clear_hold(self._name)


class Watermark:
    """The watermark of a DoFn's input at the time of the call.

    Args:
        low: the low watermark.
        percentiles: the percentiles that the DoFn names in `watermark_percentiles`.

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
            InvalidArgument: for a percentile that the DoFn does not name.
            InvalidType: for a value that is not a number.
        """
        if percentile == LOW_WATERMARK:
            return EventTime(self._low)
        check_percentile(percentile)
        if percentile not in self._percentiles:
            named = ", ".join(f"{value:g}" for value in sorted({*self._percentiles, percentile}))
            available = [f"{value:g}" for value in sorted({*self._percentiles, LOW_WATERMARK})]
            raise InvalidArgument(
                f"the watermark's percentile {percentile!r} is not available, only [{', '.join(available)}]",
                hint=f"declare it in the class: watermark_percentiles = ({named})",
            )
        return EventTime(self._percentiles[percentile])


def _text(tag: str) -> str:
    if not isinstance(tag, str):
        raise InvalidType(f"a timer's tag must be text, got {tag!r}", hint=f"pass tag=str({tag!r})")
    return tag
