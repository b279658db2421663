"""Computations: MillWheel's API. A node of user code with state by key, timers, and streams that it produces.

Source: Akidau et al., "MillWheel: Fault-Tolerant Stream Processing at Internet Scale" (VLDB 2013).
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan.functions.dofn import TaggedOutput, TimestampedValue
from dataflow_model.time import Duration, format_instant
from dataflow_model.transforms.topologies.stream_records import StreamRecord
from dataflow_model.triggers import TimeDomain
from dataflow_model.triggers.contexts import LOW_WATERMARK
from dataflow_model.triggers.percentiles import check_percentile

if TYPE_CHECKING:
    from dataflow_model.plan.functions.state_handles import Timer, ValueState, Watermark, WatermarkHold
    from dataflow_model.time import EventTime, InstantLike
    from dataflow_model.transforms.topologies.stream_records import Coder, FiredTimer


class Computation:
    """User code on streams; subclass it and define `process_record`, and `process_timer` if it sets timers.

    Both run in the context of one key, with the state of that key, and never at the same time for the same key. The
    changes to the state and the records that a call produces become durable together, exactly once. Do not store
    anything else between calls: there are many instances, and a worker may end at any time. Use `setup` and `teardown`
    for connections and models that are only read.

    Attributes:
        coder: converts the state to bytes and back; without a coder the state must be bytes.
        percentiles: the percentiles of the watermark below 100 that the computation passes to `low_watermark`; only
            these are available.

    Raises:
        InvalidArgument, InvalidType: in a callback, for arguments that the methods below reject.

    Source: MillWheel's `Computation`.

    Example:
        >>> import dataflow_model as dm
        >>> class Counter(dm.Computation):
        ...     coder = dm.PickleCoder()
        ...     def process_record(self, record):
        ...         if self.state.read() is None:
        ...             self.set_timer("end", record.timestamp + dm.duration("10 seconds"))
        ...         self.state.write((self.state.read() or 0) + 1)
        ...     def process_timer(self, timer):
        ...         self.produce(dm.StreamRecord(timer.key, self.state.read(), timer.timestamp), "counts")
        ...         self.state.clear()
        >>> topology = dm.Topology("letters")
        >>> queries = [dm.TimestampedValue(letter, at) for at, letter in enumerate("abba")]
        >>> topology.inject("letters", dm.Create(queries))
        >>> topology.add(Counter(), subscribe={"letters": lambda letter: letter}, produces=["counts"])
        >>> topology.sink("counts", dm.io.Collect())
        >>> result = topology.run()
        >>> _ = result.wait_until_finish()
        >>> [record.value for record in result.collected("counts")]
        [('a', 2), ('b', 2)]
    """

    coder: Coder | None = None
    percentiles: tuple[float, ...] = ()
    _scope: Scope | None = None

    if not TYPE_CHECKING:  # for a type checker, it is an error

        def __rrshift__(self, label: object) -> Any:
            raise InvalidType(
                f"a computation is not a transform, so {label!r} cannot be its label",
                hint=f"write topology.add({type(self).__name__}(…), subscribe={{…}}, label={label!r})",
            )

    def setup(self) -> None:
        """Acquire expensive resources, once per worker."""

    def teardown(self) -> None:
        """Release what `setup` acquired."""

    def process_record(self, record: StreamRecord) -> None:
        """Process one record."""
        del record
        raise NotImplementedError(f"{type(self).__name__} must define `process_record(self, record)`")

    def process_timer(self, timer: FiredTimer) -> None:
        """Process a timer that has fired."""
        del timer
        raise NotImplementedError(f"{type(self).__name__} must define `process_timer(self, timer)`")

    @property
    def key(self) -> Any:
        """The key in whose context a callback runs."""
        return self._here("key").key

    @property
    def state(self) -> ComputationState:
        """The state of the key; see `ComputationState`."""
        return self._here("state").state

    def set_timer(
        self,
        tag: str,
        time: InstantLike | Duration | datetime.timedelta | np.timedelta64,
        domain: TimeDomain = TimeDomain.EVENT_TIME,
        *,
        timestamp: InstantLike | None = None,
    ) -> None:
        """Set a timer of the key, or move the timer with the same tag and domain; it fires once.

        Args:
            tag: its name.
            time: when to fire. An event-time timer fires when the low watermark reaches this time, a processing-time
                timer when the clock moves past it. A `Duration` or a `timedelta` is counted from the event time of the
                current record or timer, or from the clock.
            domain: event time or processing time. In a bounded job there is no clock, so only event-time timers fire.
            timestamp: the event time of the records that the timer will produce; it holds the watermark until the timer
                fires. The default is the time of the timer or, for a processing-time timer, the event time of the
                record or timer that sets it.

        Raises:
            InvalidArgument: if no `process_timer` is defined, or for a timestamp before that of the record or timer, or
                after the timer's own event time.
        """
        scope = self._here("set_timer")
        if type(self).process_timer is Computation.process_timer:
            raise InvalidArgument(
                f"{type(self).__name__} sets the timer {tag!r}, but nothing runs when it fires",
                hint="define process_timer(self, timer)",
            )
        timer = scope.timer(domain)
        if isinstance(time, Duration | datetime.timedelta | np.timedelta64):
            timer.set_after(time, tag=tag, output_timestamp=timestamp)
        else:
            timer.set(time, tag=tag, output_timestamp=timestamp)

    def clear_timer(self, tag: str, domain: TimeDomain = TimeDomain.EVENT_TIME) -> None:
        """Clear a timer of the key, if it is set."""
        self._here("clear_timer").timer(domain).clear(tag)

    def produce(self, record: StreamRecord, stream: str) -> None:
        """Produce a record on a stream.

        Args:
            record: the record. Sinks of the stream receive its key; subscribers compute their own key with a key
                extractor.
            stream: one of the streams that the topology lists under `produces` for this computation.

        Raises:
            InvalidArgument: for another stream, or for a timestamp before that of the current record or timer and
                before that of the state, if it has one.
            InvalidType: for a value that is not a `StreamRecord`.
        """
        self._here("produce").produce(record, stream)

    def low_watermark(self, percentile: float = LOW_WATERMARK) -> EventTime:
        """Return the watermark of the input: records before it are believed to have arrived.

        Args:
            percentile: 100 for the low watermark, or one of `percentiles`: the share of the sources' partitions or
                records that have passed the returned watermark.

        Raises:
            InvalidArgument: for a percentile that the class does not name.
            InvalidType: for a value that is not a number.
        """
        scope = self._here("low_watermark")
        if percentile not in (LOW_WATERMARK, *self.percentiles):
            check_percentile(percentile)
            named = ", ".join(f"{value:g}" for value in sorted({*self.percentiles, percentile}))
            raise InvalidArgument(
                f"{type(self).__name__} asks for percentile {percentile!r} of the watermark, which it does not declare",
                hint=f"declare it in the class: percentiles = ({named},)",
            )
        return scope.watermark.read(percentile)

    def _here(self, name: str) -> Scope:
        if self._scope is None:
            raise InvalidArgument(
                f"`{name}` of {type(self).__name__} belongs to a key, but no key is being processed",
                hint="use it only in process_record or process_timer",
            )
        return self._scope


class ComputationState:
    """The state of one key of a computation: one value, which may carry a timestamp that holds the watermark."""

    __slots__ = ("_coder", "_hold", "_name", "_value")

    def __init__(self, value: ValueState[bytes | None], hold: WatermarkHold, coder: Coder | None, name: str) -> None:
        self._value = value
        self._hold = hold
        self._coder = coder
        self._name = name

    @property
    def timestamp(self) -> EventTime | None:
        """The timestamp with which the value was written, if any."""
        return self._hold.read()

    def read(self) -> Any:
        """Return the value, or `None` if nothing has been written."""
        encoded = self._value.read()
        return encoded if encoded is None or self._coder is None else self._coder.decode(encoded)

    def write(self, value: Any, timestamp: InstantLike | None = None) -> None:
        """Replace the value, and its timestamp.

        Args:
            value: bytes, or a value that the coder accepts.
            timestamp: the event time of records that will be produced from the value. It holds the output's watermark
                until the state is written again or cleared. Until then, the key may produce records with this event
                time or a later one.

        Raises:
            InvalidType: for a value that is not bytes, without a coder.
            InvalidArgument: for a timestamp before that of the current record or timer and before the previous
                timestamp of the state.
        """
        encoded = value if self._coder is None else self._coder.encode(value)
        if not isinstance(encoded, bytes):
            rule = f"{self._coder!r} must encode" if self._coder is not None else f"the state of {self._name} must be"
            raise InvalidType(
                f"{rule} bytes, got {encoded!r} of type {type(encoded).__name__}",
                hint="set coder = dm.PickleCoder()",
            )
        self._value.write(encoded)
        if timestamp is None:
            self._hold.clear()
        else:
            self._hold.set(timestamp)

    def clear(self) -> None:
        """Clear the value and its timestamp."""
        self._value.clear()
        self._hold.clear()


@attrs.define
class Scope:
    """The context of a callback: one key, at one event time.

    Attributes:
        name: the computation's, for messages.
        key, state: the key and its state.
        timestamp: of the record or timer.
        since: the timestamp of the state before the call, or `None`.
        watermark: of the input.
        timers: one handle for each domain.
        streams: the streams on which the callback may produce records.
        produced: the records that it has produced.
    """

    name: str
    key: Any
    state: ComputationState
    timestamp: EventTime
    since: EventTime | None
    watermark: Watermark
    timers: dict[TimeDomain, Timer]
    streams: tuple[str, ...]
    produced: list[TaggedOutput] = attrs.field(factory=list)

    def timer(self, domain: TimeDomain) -> Timer:
        """Return the handle of a domain's timers."""
        if not isinstance(domain, TimeDomain):
            raise InvalidType(
                f"a timer's domain must be a TimeDomain, got {domain!r}", hint="pass dm.TimeDomain.EVENT_TIME"
            )
        return self.timers[domain]

    def produce(self, record: StreamRecord, stream: str) -> None:
        """Check a produced record, and keep it until the callback returns."""
        if not isinstance(record, StreamRecord):
            raise InvalidType(
                f"`produce` takes a StreamRecord, got {record!r}",
                hint="pass dm.StreamRecord(key, value, timestamp)",
            )
        if stream not in self.streams:
            declared = ", ".join(map(repr, self.streams)) or "none"
            raise InvalidArgument(
                f"{self.name!r} produces to {stream!r}, but only these streams are declared for it: {declared}",
                hint=f"use topology.add(…, produces=[{', '.join(map(repr, (*self.streams, stream)))}])",
            )
        earliest = self.timestamp if self.since is None else min(self.timestamp, self.since)
        if record.timestamp < earliest:
            raise InvalidArgument(
                f"{self.name!r} produces a record at {format_instant(record.timestamp)} from input at "
                f"{format_instant(earliest)}: a production may not precede its input",
                hint="write the state with the timestamp of the record to produce: state.write(value, timestamp=…)",
            )
        value = TimestampedValue((record.key, record.value), record.timestamp)
        self.produced.append(TaggedOutput(stream, value))
