"""Look through a whole topic of Kafka for a message, where no mark says what was written."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import SinkError
from dataflow_model.io.topics.client import READING, described

if TYPE_CHECKING:
    from dataflow_model.io.topics.sink import KafkaSink

_SECONDS: Final = 60.0
"""How long to wait for the next message."""


def has_header(sink: KafkaSink, header: tuple[str, bytes]) -> bool:
    """Return whether a committed message of a sink's topic has a header.

    Raises:
        SinkError: if the brokers do not answer.
        KafkaException: if they report an error.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

    topic = described(sink.label, [sink.topic], sink.servers, sink.options, reads=False)[sink.topic]
    own = {
        "bootstrap.servers": sink.servers,
        "group.id": f"dataflow_model-search-{uuid.uuid4().hex[:8]}",  # nobody joins it, and it commits nothing
    }
    consumer = Consumer({**sink.options, **READING, **own})
    try:
        unread = {partition.id for partition in topic.partitions}
        consumer.assign([TopicPartition(sink.topic, partition, OFFSET_BEGINNING) for partition in unread])
        while unread:
            message = consumer.poll(_SECONDS)
            if message is None:
                raise SinkError(
                    f"{sink.label!r} cannot read the topic {sink.topic!r}: no answer within {_SECONDS:.0f} s",
                    hint="make sure that the brokers run and can be reached, and start the run again",
                )
            error = message.error()
            if error is None:
                if header in (message.headers() or ()):
                    return True
            elif error.name() == "_PARTITION_EOF":
                unread.discard(message.partition())
            else:
                raise KafkaException(error)
    finally:
        consumer.close()
    return False
