"""The interface of a trigger's callbacks, and the outcome that a trigger tree reports to the engine."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import EventTime, Instant
    from dataflow_model.values import PaneInfo, Window

LOW_WATERMARK: Final = 100.0
"""The percentile of the low watermark."""


class TimeDomain(enum.Enum):
    """The two clocks that a timer can wait for: the watermark or the processing clock.

    `WATERMARK` and `REAL_TIME` are Beam's names for them.
    """

    EVENT_TIME = "event time"
    PROCESSING_TIME = "processing time"
    WATERMARK = EVENT_TIME
    REAL_TIME = PROCESSING_TIME

    def __repr__(self) -> str:
        return str(self)


class FiringMode(enum.Enum):
    """Whether a firing keeps or clears the elements that the window has accumulated.

    The accumulation modes `CLEAR_BY_DEFAULT` and `ACCUMULATE_BY_DEFAULT` respect it; the `…_ALWAYS` modes ignore it.
    """

    DEFAULT = "default"
    ACCUMULATE = "accumulate"
    CLEAR = "clear"

    __hash__ = object.__hash__  # the hash of Enum runs in Python, and members are hashed at every firing

    def __repr__(self) -> str:
        return str(self)


@attrs.frozen
class ChildResult:
    """The result of passing an event to a child.

    Attributes:
        fired: whether the child fired.
        finished: whether the child has finished.
        mode: the mode of its firing.
        at: the deadline of the timer that made it fire, in microseconds; `None` if no timer did.
    """

    fired: bool
    finished: bool
    mode: FiringMode = FiringMode.DEFAULT
    at: int | None = None


@attrs.frozen
class Outcome:
    """The result of passing an event to a trigger tree.

    Attributes:
        fired: whether the root fired.
        at: the deadline of the timer that first fired it, in microseconds; `None` if no timer did.
        mode: the mode of the firing.
        cleared: whether a callback called `clear()`.
    """

    fired: bool = False
    at: int | None = None
    mode: FiringMode = FiringMode.DEFAULT
    cleared: bool = False


class PaneView(Protocol):
    """What the engine shows to a window's trigger tree on request."""

    def peek_value(self) -> Any:
        """Return the value of a pane if it were emitted now."""
        ...

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the `PaneInfo` of the window's panes so far, oldest first."""
        ...


class TriggerContext(Protocol):
    """The argument of a trigger's callbacks. State and timers belong to the trigger's own place in the tree."""

    @property
    def window(self) -> Window:
        """The window; in `on_merge` the merged window."""
        ...

    @property
    def element(self) -> Any:
        """The value, without its key, that has been incorporated or retracted; `None` in other events."""
        ...

    @property
    def event_time(self) -> EventTime:
        """The event time of that element."""
        ...

    @property
    def is_retraction(self) -> bool:
        """Whether the current event retracts an element without a replacement."""
        ...

    @property
    def sources(self) -> Sequence[Window]:
        """The windows that have merged (in `on_merge`), without the arriving element's own window.

        If a composite above this trigger had finished in a window, that window is a source only for triggers that had
        finished in it too.
        """
        ...

    def now(self, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> Instant:
        """Return the watermark (the low watermark, or a percentile that the class declares) or the processing clock."""
        ...

    def peek_value(self) -> Any:
        """Return the value of a pane if it were emitted now, including the current element."""
        ...

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the `PaneInfo` of the window's panes so far; only for classes with `reads_history = True`."""
        ...

    def lookup_state(self, tag: str, default: Any = None) -> Any:
        """Return the value stored under `tag`, or `default`."""
        ...

    def store_state(self, tag: str, value: Any) -> None:
        """Store a picklable value under `tag`."""
        ...

    def lookup_source_state(self, window: Window, tag: str, default: Any = None) -> Any:
        """Return the value that this trigger had stored for one of the merged windows, or `default`."""
        ...

    def is_source_finished(self, window: Window) -> bool:
        """Return whether this trigger had finished in one of the merged windows."""
        ...

    def set_timer(self, tag: str, time: Instant, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> None:
        """Set the timer with this tag: `on_timer` is called when the clock of `domain` reaches `time`.

        `time` is an `EventTime` or a `ProcessingTime`, like the domain; numbers are rejected.
        """
        ...

    def get_timer(self, tag: str) -> Instant | None:
        """Return when the timer with this tag is due, or `None` if it is not set."""
        ...

    def delete_timer(self, tag: str) -> None:
        """Delete a timer."""
        ...

    def trigger(self, mode: FiringMode = FiringMode.DEFAULT, at: int | None = None) -> None:
        """Fire: the root emits a pane; any other trigger reports the firing to its parent.

        Args:
            mode: whether to keep or clear what the window has accumulated; the last call in an event decides.
            at: the deadline to report, in microseconds; by default the earliest deadline of the event.
        """
        ...

    def clear(self) -> None:
        """Clear what the window has accumulated, after emitting the pane if the event fires one."""
        ...

    def done(self) -> None:
        """Finish: this trigger gets no more events of this window unless its parent resets it."""
        ...

    def is_finished(self, child: int | None = None) -> bool:
        """Return whether this trigger, or the child with that index, has finished."""
        ...

    def invoke_child(self, child: int) -> ChildResult:
        """Pass the current event to a child; a finished child ignores it."""
        ...

    def reset_child(self, child: int) -> None:
        """Begin a new turn of a child: the child and its descendants lose their state and timers and are unfinished."""
        ...

    def finish_child(self, child: int) -> None:
        """Mark a child and all its descendants as finished (in `on_merge`)."""
        ...

    def reopen(self) -> None:
        """Mark this trigger as unfinished although it had finished in the merged windows (in `on_merge`)."""
        ...
