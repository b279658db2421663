"""The loop over the elements of a stateful DoFn: finds the state of each, and calls `process`.

What happens seldom is left to the machine and to its `UserCalls`: opening state, timers, outputs and errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from dataflow_model.values import as_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from dataflow_model.metrics.collecting import KeyTimes
    from dataflow_model.plan.functions.state_journal import StateJournal
    from dataflow_model.time import EventTime, ProcessingTime
    from dataflow_model.values import PaneInfo

OpenCell: TypeAlias = Any
"""The state of a key and window, whose class is outside of this room."""
OpenWindow: TypeAlias = Any
"""A window with its cells; likewise."""
_PAIR: Final = 2
_NOTHING: Final = ()
_PLAIN: Final = frozenset({int, str})
"""Types of which equal values are the same key; none of their values equals an encoded key, which is bytes."""


class CurrentCall:
    """The current call of a user's function.

    Attributes:
        cell: the cell of the key and window.
        values: the non-empty pieces of state in it, by name.
        time: the default event time of outputs.
        clock: the processing time.
        event_now: the time from which a delay in event time is measured.
        held: the earliest event time at which the user's holds held the watermark before the call; `None` without any.
        freed: the earliest hold that was released in this event, such as that of the timer that fires.
        has_set_timer: whether the function has set an event-time timer.
        row: the row of the element in its bundle.
        pane: the pane of the element, for its outputs.
        produced, is_retraction: see `Arrived`.
        timer_tag, fired_at: the tag of the timer that fires, and the instant to which it was set.
    """

    cell: OpenCell
    values: dict[str, Any]
    time: int
    clock: int
    event_now: int
    held: int | None
    freed: int | None
    has_set_timer: bool
    row: int
    pane: PaneInfo
    produced: int
    is_retraction: bool
    timer_tag: str
    fired_at: EventTime | ProcessingTime

    def enter(self, cell: OpenCell, time: int, freed: int | None) -> None:
        """Show a key and window at an event time; the holds count as they are before the call, which may change them.

        Args:
            cell: the cell of the key and window.
            time: the default event time of outputs, and the time from which a delay is measured.
            freed: the hold that was released just before.
        """
        self.cell, self.values, holds = cell, cell.state.values, cell.state.holds
        self.time = self.event_now = time
        self.freed = freed
        self.has_set_timer = False
        self.held = min([hold.time for hold in holds.values()]) if holds else None


class _Outcomes(Protocol):
    """Handles the results and errors of calls of `process`."""

    def begin_bundle(self) -> None:
        """Begin the user's bundle, unless it has begun."""
        ...

    def positional(self) -> Sequence[Any]:
        """Return the further positional arguments of the current call."""
        ...

    def begin_journal(self) -> StateJournal:
        """Record what the current call changes from now on."""
        ...

    def emit(self, results: Any) -> None:
        """Check and emit what a function has returned."""
        ...

    def fail(self, error: BaseException, value: Any, journal: StateJournal | None) -> None:
        """Raise an error for an element, or emit its dead letter.

        Args:
            error: the exception.
            value: the element.
            journal: what the call has changed; `None` without dead letters.
        """
        ...


class ElementCalls:
    """Calls `process`.

    Args:
        fn: the DoFn.
        call: the current call, whose clock, pane and so on the caller fills in.
        arguments: the arguments by name; the next call reuses the dictionary.
        varying: the names of those that differ from call to call, each with a function that returns it.
        positional: the further positional arguments; `None` if they differ from call to call.
        outcomes: handles the results and errors of the calls.
        rescues: whether elements that fail become dead letters.
    """

    def __init__(
        self,
        fn: Any,
        call: CurrentCall,
        arguments: dict[str, Any],
        varying: list[tuple[str, Callable[[Any], Any]]],
        positional: Sequence[Any] | None,
        outcomes: _Outcomes,
        *,
        rescues: bool,
    ) -> None:
        self.fn = fn
        self.call = call
        self.arguments = arguments
        self.varying = varying
        self.positional = positional
        self.outcomes = outcomes
        self.rescues = rescues
        self.has_begun = False

    def process(self, value: Any, time: int, cell: OpenCell, freed: int | None) -> None:
        """Call `process` for an element.

        Args:
            value: the element.
            time: its event time.
            cell: the cell of its key and window.
            freed: the hold that was released just before.
        """
        self.call.enter(cell, time, freed)
        if not self.has_begun:
            self.outcomes.begin_bundle()
        journal = self.outcomes.begin_journal() if self.rescues else None
        try:
            for name, argument_of in self.varying:
                self.arguments[name] = argument_of(self.call)
            positional = self.outcomes.positional() if self.positional is None else self.positional
            results = self.fn.process(value, *positional, **self.arguments)
            if results is not None and results is not _NOTHING:
                self.outcomes.emit(results)
        except BaseException as error:  # noqa: BLE001 - users' functions may raise anything
            self.outcomes.fail(error, value, journal)


class _Elements(Protocol):
    """The columns of a bundle."""

    @property
    def values(self) -> Sequence[Any]: ...
    @property
    def times(self) -> Sequence[int]: ...
    @property
    def panes(self) -> Sequence[PaneInfo]: ...
    @property
    def produced(self) -> Sequence[int]: ...


class _Machine(Protocol):
    """The machine of a stateful DoFn, for what happens seldom."""

    label: str

    def follow_element(self) -> int:
        """Let the watermark follow an element; return the event time up to which everything is processed."""
        ...

    def encoded(self, key: Any, value: Any) -> bytes:
        """Return a key as bytes; `value` is the element."""
        ...

    def is_late(self, time: int, reached: int, window: OpenWindow) -> bool:
        """Return whether the turn of an element in sorted input is over."""
        ...

    def open_cell(self, window: OpenWindow, name: Any, key: Any) -> OpenCell:
        """Return the cell of a key and window, which is new if there is none; `name` identifies the key."""
        ...

    def wait(self, cell: OpenCell, value: Any, time: int) -> None:
        """Buffer an element until its turn."""
        ...

    def tidy(self, cell: OpenCell) -> None:
        """Run what is due in a window after an element, note that it has changed, and remove it if it is empty."""
        ...

    def drop(self, value: Any, time: int, window: OpenWindow) -> None:
        """Count the current element as dropped in a window, because it is late."""
        ...


class ElementLoop:
    """Processes the elements of bundles in order.

    Args:
        machine: the machine of the DoFn.
        calls: calls `process`.
        sorts: whether elements are buffered until their turn in event time.
        lateness: how far an element may be behind the watermark; `None` if only its windows limit that.
    """

    def __init__(self, machine: _Machine, calls: ElementCalls, *, sorts: bool, lateness: int | None) -> None:
        self.machine = machine
        self.calls = calls
        self.sorts = sorts
        self.lateness = lateness

    def run(
        self,
        inbox: _Elements,
        open_windows: Iterable[Sequence[OpenWindow]],
        retractions: Mapping[int, Any],
        reached: int,
        times: KeyTimes | None,
        watermark_follows: bool,
    ) -> None:
        """Process elements.

        Args:
            inbox: the elements.
            open_windows: the `OpenWindow`s of each element.
            retractions: by row, the elements that are retractions.
            reached: the event time up to which everything is processed.
            times: measures how long the keys take; `None` if that is not wanted.
            watermark_follows: whether the watermark follows the event times of the elements, as in a bounded job.
        """
        machine, calls, call = self.machine, self.calls, self.calls.call
        columns = zip(inbox.values, inbox.times, open_windows, inbox.panes, inbox.produced, strict=True)
        for row, (value, time, windows, pane, produced) in enumerate(columns):
            key = value[0] if type(value) is tuple and len(value) == _PAIR else as_pair(value, machine.label)[0]
            if watermark_follows:
                reached = machine.follow_element()
            name = key if type(key) in _PLAIN else machine.encoded(key, value)
            call.row, call.produced, call.is_retraction = row, produced, row in retractions
            is_late = self.lateness is not None and reached - time > self.lateness
            for window in windows:
                if is_late or (machine.is_late(time, reached, window) if self.sorts else reached >= window.expiry):
                    machine.drop(value, time, window)
                    continue
                cell = window.cells.get(name)
                if cell is None or not cell.state.is_open:
                    cell = machine.open_cell(window, name, key)
                call.pane = pane  # timers that run right after the element in another window have none
                if self.sorts:
                    machine.wait(cell, value, time)
                else:
                    calls.process(value, time, cell, None)
                state = cell.state
                if watermark_follows or call.has_set_timer or not state.is_marked or not state.values:
                    machine.tidy(cell)
            if times is not None:
                times.note(name, key)
