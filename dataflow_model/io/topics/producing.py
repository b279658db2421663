"""Producers: the messages of a commit with their headers and timestamps, in a transaction or at least once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import SinkError
from dataflow_model.io.topics.errors import said, way_out_of
from dataflow_model.micros import wall_clock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from confluent_kafka import KafkaError, Producer

    from dataflow_model.io.topics.messages import Message
    from dataflow_model.io.topics.sink import KafkaSink

COMMIT: Final = "dataflow_model.commit"
"""The header with the id of the commit."""
ORDINAL: Final = "dataflow_model.ordinal"
"""The header with the number of the message in its commit, from 0."""
RETRACTION: Final = "dataflow_model.is_retraction"
"""The header of messages that retract an earlier value."""
_SECONDS: Final = 60.0
"""How long to wait until the client's queue has room."""
_DEFAULTS: Final = {"partitioner": "murmur2_random", "compression.type": "lz4", "linger.ms": 5}
"""The partitioner is that of Java's clients, so that a key is in the same partition whoever writes it."""
_IN_ORDER: Final = {"acks": "all", "max.in.flight.requests.per.connection": 1}
"""Without idempotence, which brokers without transactions lack too, requests that are repeated stay in order so."""
_MOST_OPEN: Final = 8
"""The number of producers without transactions that a process keeps."""
_open: dict[tuple[Any, ...], Producer] = {}


def producer_of(sink: KafkaSink, transactional_id: str) -> Producer:
    """Return a new producer of transactions."""
    from confluent_kafka import Producer

    # No callbacks on delivery: when one runs while the producer fails for good, the client raises SystemError.
    own = {"bootstrap.servers": sink.servers, "transactional.id": transactional_id, "log_level": 0}
    return Producer({**_DEFAULTS, **sink.options, **own})


def produce(producer: Producer, sink: KafkaSink, commit: str, messages: Sequence[Message], **arguments: Any) -> None:
    """Send messages, and wait until the brokers have them: then the mark need not wait for them.

    Args:
        producer: the producer.
        sink: the sink.
        commit: the value of the header with the id of the commit.
        messages: in this order.
        arguments: more of `Producer.produce`.
    """
    now = wall_clock() // 1_000
    for ordinal, message in enumerate(messages):
        headers: list[Any] = [*message.headers, (COMMIT, commit.encode()), (ORDINAL, str(ordinal).encode())]
        if message.is_retraction:
            headers.append((RETRACTION, b"true"))
        at = message.event_time // 1_000
        topic = sink.dead_letters if message.is_dead_letter and sink.dead_letters is not None else sink.topic
        # Brokers reject a time that is ahead of theirs, and there is none before 1970.
        timestamp = at if 0 < at < now else now
        while True:
            try:
                producer.produce(
                    topic, value=message.value, key=message.key, headers=headers, timestamp=timestamp, **arguments
                )
                break
            except BufferError:  # the client's queue is full
                producer.flush(_SECONDS)
    producer.flush(_SECONDS)


def send(sink: KafkaSink, commit: str, messages: Sequence[Message]) -> None:
    """Write messages at least once, in order, without a transaction.

    Raises:
        SinkError: if the brokers report an error, or do not acknowledge a message in `message.timeout.ms`.
    """
    from confluent_kafka import KafkaException, Producer

    key = (os.getpid(), sink.servers, repr(sorted(sink.options.items())))
    producer = _open.pop(key, None)
    if producer is None:
        own = {"bootstrap.servers": sink.servers, "log_level": 0}
        producer = Producer({**_DEFAULTS, **_IN_ORDER, **sink.options, **own})
    errors: list[KafkaError] = []

    def note(error: KafkaError | None, _: Any) -> None:
        if error is not None:
            errors.append(error)

    try:
        produce(producer, sink, commit, messages, on_delivery=note)
        while len(producer):
            producer.flush(_SECONDS)
    except KafkaException as error:
        raise refusal(sink, error.args[0]) from error
    finally:
        if len(producer):  # an error or an interrupt has left something; a purge may reach what is written after it
            producer.purge()
    if errors:
        raise refusal(sink, errors[0])
    _open[key] = producer
    while len(_open) > _MOST_OPEN:
        del _open[next(iter(_open))]


def refusal(sink: KafkaSink, error: KafkaError) -> SinkError:
    """Return the error of a sink to which the brokers have reported one."""
    return SinkError(
        f"{sink.label!r} cannot write to the topic {sink.topic!r}: {said(error, sink.options)}", hint=way_out_of(error)
    )
