"""What a trigger's callback can see and do, and what its tree tells the engine."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.time import EventTime, Instant
    from dataflow_model.values import PaneInfo, Window

__all__ = ["LOW_WATERMARK", "ChildResult", "FiringMode", "Outcome", "Sight", "TimeDomain", "TriggerContext"]

LOW_WATERMARK: Final = 100.0
"""The percentile that is the low watermark."""


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
    """What a firing asks to become of what the window has accumulated.

    The accumulation modes `CLEAR_BY_DEFAULT` and `ACCUMULATE_BY_DEFAULT` obey; `…_ALWAYS` take no notice.
    """

    DEFAULT = "default"
    ACCUMULATE = "accumulate"
    CLEAR = "clear"

    __hash__ = object.__hash__  # Enum's own is a call in Python, and members are hashed at every firing

    def __repr__(self) -> str:
        return str(self)


@attrs.frozen
class ChildResult:
    """What a child did with an event.

    Attributes:
        fired: whether it fired.
        finished: whether it has finished.
        mode: what its firing asked for.
        at: the deadline of the timer that made it fire, in microseconds; `None` if none did.
    """

    fired: bool
    finished: bool
    mode: FiringMode = FiringMode.DEFAULT
    at: int | None = None


@attrs.frozen
class Outcome:
    """What a tree did with an event.

    Attributes:
        fired: whether the root fired.
        at: the deadline of the timer that first fired it, in microseconds; `None` if none did.
        mode: what the firing asked for.
        cleared: whether a callback called `clear()`.
    """

    fired: bool = False
    at: int | None = None
    mode: FiringMode = FiringMode.DEFAULT
    cleared: bool = False


class Sight(Protocol):
    """What a window's engine lets its tree see, when asked."""

    def peek_value(self) -> Any:
        """Return the value that a pane would have now."""
        ...

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the infos of the window's panes so far, oldest first."""
        ...


class TriggerContext(Protocol):
    """What a callback can see and do. State and timers are those of the trigger's own place in the tree."""

    @property
    def window(self) -> Window:
        """The window; on a merge the merged one."""
        ...

    @property
    def element(self) -> Any:
        """The value, without its key, that has been incorporated or taken back; else `None`."""
        ...

    @property
    def event_time(self) -> EventTime:
        """The event time of that element."""
        ...

    @property
    def is_retraction(self) -> bool:
        """Whether the event in hand takes an element back and brings none instead."""
        ...

    @property
    def sources(self) -> Sequence[Window]:
        """The windows that have merged (in `on_merge`); the arriving element's own is not among them.

        Where a composite above had finished in a window, that window is a source only for what had finished there.
        """
        ...

    def now(self, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> Instant:
        """Return the watermark (the low one, or another percentile that the class names), or the processing clock."""
        ...

    def peek_value(self) -> Any:
        """Return the value that a pane would have if it went out now, the element in hand included."""
        ...

    def trigger_history(self) -> Sequence[PaneInfo]:
        """Return the infos of the window's panes so far; only for classes with `reads_history = True`."""
        ...

    def lookup_state(self, tag: str, default: Any = None) -> Any:
        """Return what was stored under `tag`."""
        ...

    def store_state(self, tag: str, value: Any) -> None:
        """Remember a picklable value."""
        ...

    def lookup_source_state(self, window: Window, tag: str, default: Any = None) -> Any:
        """Return what this trigger had stored for one of the merged windows."""
        ...

    def is_source_finished(self, window: Window) -> bool:
        """Tell whether this trigger had finished in one of the merged windows."""
        ...

    def set_timer(self, tag: str, time: Instant, domain: TimeDomain, percentile: float = LOW_WATERMARK) -> None:
        """Ask for `on_timer` when the clock of `domain` reaches `time`; replaces the timer of the same tag."""
        ...

    def get_timer(self, tag: str) -> Instant | None:
        """Return when the timer of this tag is due, or `None`."""
        ...

    def delete_timer(self, tag: str) -> None:
        """Forget a timer."""
        ...

    def trigger(self, mode: FiringMode = FiringMode.DEFAULT, at: int | None = None) -> None:
        """Fire: at the root this emits a pane, below it tells the parent. Of several modes the last is the wish.

        Args:
            mode: what is to become of what the window has accumulated.
            at: of several deadlines in one event the one that counts, in microseconds; else the earliest does.
        """
        ...

    def clear(self) -> None:
        """Ask that what the window has accumulated be forgotten, after the pane if the event fires one."""
        ...

    def done(self) -> None:
        """Finish: nothing more is shown to this trigger in this window unless its parent resets it."""
        ...

    def is_finished(self, child: int | None = None) -> bool:
        """Tell whether this trigger, or its child at that place, has finished."""
        ...

    def invoke_child(self, child: int) -> ChildResult:
        """Show the event in hand to a child; a finished child sees nothing."""
        ...

    def reset_child(self, child: int) -> None:
        """Begin a new turn of a child: its state, timers and finish are gone, and those below it."""
        ...

    def finish_child(self, child: int) -> None:
        """Count a child, and all below it, as finished (in `on_merge`)."""
        ...

    def reopen(self) -> None:
        """Take back a finish that the merged windows had brought along (in `on_merge`)."""
        ...
