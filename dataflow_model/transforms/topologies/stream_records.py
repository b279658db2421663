"""The values that computations receive, produce and store: records, fired timers, and coders of the state.

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


def _to_event_time(value: InstantLike) -> EventTime:
    return value if type(value) is EventTime else event_time(value)


@attrs.frozen
class StreamRecord:
    """A record of a stream: a key, a value and an event time.

    Attributes:
        key: for a received record, the key that the computation's key extractor returned for its value.
        value: any value that can be pickled.
        timestamp: the event time.
        stream: for a received record, the stream on which it arrived.
        is_late: whether a received record was behind the watermark when it arrived. The computation decides whether to
            drop it or to correct its earlier output.

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
        key: the key for which the timer was set.
        tag: the tag with which it was set.
        time: the time to which it was set, in its domain.
        domain: the clock for which it waited.
        timestamp: its event time. Records that are produced when it fires may not have an earlier event time.
    """

    key: Any
    tag: str
    time: EventTime | ProcessingTime
    domain: TimeDomain
    timestamp: EventTime


@runtime_checkable
class Coder(Protocol):
    """Converts the state of a computation to bytes and back.

    Any object with these two methods is a coder; assign an instance to the `coder` of a `Computation`. State is stored
    in checkpoints, so a coder must be able to decode what earlier versions of it have encoded.

    Source: the MillWheel paper, whose users encode the persistent state themselves.

    Example:
        >>> import json
        >>> import dataflow_model as dm
        >>> class JsonCoder:
        ...     def encode(self, value):
        ...         return json.dumps(value).encode()
        ...
        ...     def decode(self, encoded):
        ...         return json.loads(encoded)
        >>> isinstance(JsonCoder(), dm.Coder)
        True
    """

    def encode(self, value: Any) -> bytes:
        """Return the value as bytes."""
        ...

    def decode(self, encoded: bytes) -> Any:
        """Return the decoded value."""
        ...


@attrs.frozen
class PickleCoder:
    """Encode any value that can be pickled, including values of classes in `__main__`.

    Example:
        >>> PickleCoder().decode(PickleCoder().encode({"count": 3}))
        {'count': 3}
    """

    def encode(self, value: Any) -> bytes:
        """Return the value as bytes."""
        return dump(value)

    def decode(self, encoded: bytes) -> Any:
        """Return the decoded value."""
        return load(encoded)
