"""Read what is committed in a topic that a sink writes to: all of it until now, although others write too."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import SinkError
from dataflow_model.io.topics.client import READING, described, kept_admin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from confluent_kafka import Message

    from dataflow_model.io.topics.sink import KafkaSink

_SECONDS: Final = 60.0
"""How long to wait for the next message."""
_PATIENCE: Final = 120.0
"""How long to wait for the transactions of others: twice the default limit of a transaction."""
_PAUSE: Final = 0.05
_TIMED_OUT: Final = -185
"""The client's code for a request without an answer."""


def has_header(sink: KafkaSink, header: tuple[str, bytes]) -> bool:
    """Return whether a committed message of a sink's topic has a header.

    Raises:
        SinkError: if the brokers do not answer.
        KafkaException: if they report an error.
    """
    topic = described(sink.label, [sink.topic], sink.servers, sink.options, reads=False)[sink.topic]
    bounds = committed_bounds(sink, sink.topic, [partition.id for partition in topic.partitions])
    return any(header in (message.headers() or ()) for message in committed_messages(sink, sink.topic, bounds))


def what_was_removed(sink: KafkaSink) -> str:
    """Return why messages of a sink's topic may have been removed, as a clause; empty if all are there.

    Raises:
        KafkaException: if the brokers report an error.
    """
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import ConfigResource  # type: ignore[attr-defined]

    topic = described(sink.label, [sink.topic], sink.servers, sink.options, reads=False)[sink.topic]
    bounds = committed_bounds(sink, sink.topic, [partition.id for partition in topic.partitions])
    if any(first for first, _ in bounds.values()):
        return "messages have been removed from it"
    admin = kept_admin(sink.label, sink.servers, sink.options).client
    resource = ConfigResource(ConfigResource.Type.TOPIC, sink.topic)
    try:
        policy = admin.describe_configs([resource], request_timeout=_SECONDS)[resource].result()["cleanup.policy"]
    except KafkaException as error:
        if error.args[0].name() != "TOPIC_AUTHORIZATION_FAILED":
            raise
        return "without the right to DESCRIBE_CONFIGS, nobody knows whether it is compacted"
    return "it is compacted, which removes messages" if "compact" in policy.value else ""


def committed_bounds(sink: KafkaSink, topic: str, partitions: Iterable[int]) -> dict[int, tuple[int, int]]:
    """Return the offsets of the first message of partitions and behind the last one, once all up to it are settled.

    Readers of committed messages stop at the first transaction that is open, be it that of another program, although
    messages behind it may be committed. This waits until those that are open now have ended.

    Raises:
        KafkaException: if the brokers report an error, or transactions stay open.
    """
    import confluent_kafka.admin
    from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition

    specs: Any = confluent_kafka.admin.OffsetSpec  # type: ignore[attr-defined]
    admin = kept_admin(sink.label, sink.servers, sink.options).client
    numbers = list(partitions)

    def offsets(spec: Any, level: IsolationLevel) -> dict[int, int]:
        asked = {TopicPartition(topic, number): spec for number in numbers}
        futures = admin.list_offsets(asked, isolation_level=level, request_timeout=_SECONDS)
        return {asked_for.partition: future.result().offset for asked_for, future in futures.items()}

    firsts = offsets(specs.earliest(), IsolationLevel.READ_UNCOMMITTED)
    ends = offsets(specs.latest(), IsolationLevel.READ_UNCOMMITTED)
    deadline = time.monotonic() + _PATIENCE
    while True:
        settled = offsets(specs.latest(), IsolationLevel.READ_COMMITTED)
        if all(settled[number] >= ends[number] for number in numbers):
            return {number: (firsts[number], ends[number]) for number in numbers}
        if time.monotonic() > deadline:
            raise KafkaException(
                KafkaError(_TIMED_OUT, f"a transaction in {topic!r} has been open for {_PATIENCE:.0f} s")
            )
        time.sleep(_PAUSE)


def committed_messages(sink: KafkaSink, topic: str, bounds: Mapping[int, tuple[int, int]]) -> Iterator[Message]:
    """Yield the committed messages of partitions with offsets `[start, stop)`, behind which nothing is open.

    Raises:
        SinkError: if the brokers do not answer.
        KafkaException: if they report an error.
    """
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    own = {
        "bootstrap.servers": sink.servers,
        "group.id": f"dataflow_model-search-{uuid.uuid4().hex[:8]}",  # nobody joins it, and it commits nothing
    }
    unread = {number for number, (start, stop) in bounds.items() if start < stop}
    consumer = Consumer({**sink.options, **READING, **own})
    try:
        consumer.assign([TopicPartition(topic, number, bounds[number][0]) for number in unread])
        while unread:
            message = consumer.poll(_SECONDS)
            if message is None:
                raise SinkError(
                    f"{sink.label!r} cannot read the topic {topic!r}: no answer within {_SECONDS:.0f} s",
                    hint="make sure that the brokers run and can be reached, and start the run again",
                )
            number, offset = message.partition(), message.offset()
            assert number is not None  # noqa: S101 - each message and each end is of a partition
            assert offset is not None  # noqa: S101 - as above
            error, stop = message.error(), bounds[number][1]
            if error is not None and error.name() != "_PARTITION_EOF":
                raise KafkaException(error)
            if offset >= stop:
                unread.discard(number)
            elif error is None:
                yield message
    finally:
        consumer.close()
