"""What computations take and keep: records, timers that have come due, coders for state.

Source: the MillWheel paper: records are (key, value, timestamp) triples, persistent state is bytes of the user's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import attrs

from dataflow_model.time import EventTime, ProcessingTime, event_time
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from dataflow_model.time import InstantLike
    from dataflow_model.triggers import TimeDomain

__all__ = ["Coder", "FiredTimer", "PickleCoder", "StreamRecord"]


def _to_event_time(value: InstantLike) -> EventTime:
    return value if type(value) is EventTime else event_time(value)


@attrs.frozen
class StreamRecord:
    """A record of a stream: a key, a value and an event time.

    Attributes:
        key: of a record that is received, what the computation's key extractor made of its value.
        value: anything that pickles.
        timestamp: the event time.
        stream: the stream that a received record came by.
        is_late: whether a received record stood behind the watermark when it came. It is for the computation to drop it
            or to amend what it has said.

    Source: the papers' (key, value, timestamp) triples.

    Example:
        >>> StreamRecord("britney", 5, "2013-08-26T12:00:00Z")
        StreamRecord(key='britney', value=5, timestamp=EventTime(2013-08-26T12:00:00Z), stream='', is_late=False)
    """

    key: Any
    value: Any
    timestamp: EventTime = attrs.field(converter=_to_event_time)
    stream: str = ""
    is_late: bool = False


@attrs.frozen
class FiredTimer:
    """A timer that has fired.

    Attributes:
        key: the key that set it.
        tag: the tag that it was set with.
        time: the time that it was set to, in its domain.
        domain: the clock that it waited for.
        timestamp: its event time. What it causes to be produced may not have an earlier one.
    """

    key: Any
    tag: str
    time: EventTime | ProcessingTime
    domain: TimeDomain
    timestamp: EventTime


@runtime_checkable
class Coder(Protocol):
    """What turns a computation's state into bytes and back."""

    def encode(self, value: Any) -> bytes:
        """Return the value as bytes."""
        ...

    def decode(self, encoded: bytes) -> Any:
        """Return the value again."""
        ...


@attrs.frozen
class PickleCoder:
    """Keep any value that pickles, of classes of the main program too.

    Example:
        >>> PickleCoder().decode(PickleCoder().encode({"count": 3}))
        {'count': 3}
    """

    def encode(self, value: Any) -> bytes:
        """Return the value as bytes."""
        return dump(value)

    def decode(self, encoded: bytes) -> Any:
        """Return the value again."""
        return load(encoded)
