"""What tests do on a broker themselves: make topics, write messages, and read what is there."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._listoffsets import OffsetSpec
from confluent_kafka.cimpl import NewTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka import Message

__all__ = ["messages_in", "new_topic", "send"]

_PATIENCE: Final = 30.0
"""Seconds to wait for the broker."""


def new_topic(
    servers: str, *, partitions: int = 1, replicas: int = 1, exactly: str | None = None, **settings: Any
) -> str:
    """Create a topic; return its name.

    Args:
        servers: the broker.
        partitions: the number of partitions.
        replicas: the number of brokers that have each partition.
        exactly: its name; a new one by default.
        settings: of the topic, with `_` for `.`.
    """
    topic = exactly or f"topic-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    config = {setting.replace("_", "."): str(value) for setting, value in settings.items()}
    config.setdefault("retention.ms", "-1")  # timestamps are of any time, and brokers delete what is old
    admin.create_topics([NewTopic(topic, partitions, replicas, config=config)])[topic].result(_PATIENCE)
    deadline = time.monotonic() + _PATIENCE
    while topic not in admin.list_topics(timeout=_PATIENCE).topics:
        assert time.monotonic() < deadline, f"{topic} does not appear"
        time.sleep(0.02)
    return topic


def send(servers: str, topic: str, rows: Iterable[dict[str, Any]], *, commits: bool | None = None) -> None:
    """Write messages, each given as the arguments of `Producer.produce`.

    Args:
        servers: the broker.
        topic: the topic.
        rows: the messages.
        commits: whether they are in a transaction that commits, or aborts; `None` for none.
    """
    options: dict[str, Any] = {"bootstrap.servers": servers, "linger.ms": 0, "log_level": 0}
    producer = Producer(options if commits is None else options | {"transactional.id": uuid.uuid4().hex})
    if commits is not None:
        producer.init_transactions(_PATIENCE)
        producer.begin_transaction()
    for row in rows:
        producer.produce(topic, **row)
    assert producer.flush(_PATIENCE) == 0
    if commits is not None:
        (producer.commit_transaction if commits else producer.abort_transaction)(_PATIENCE)


def messages_in(
    servers: str, topic: str, *, isolation: str = "read_committed", is_settled: bool = True
) -> list[Message]:
    """Return all messages of a topic, in the order of each partition.

    Args:
        servers: the broker.
        topic: the topic.
        isolation: whose messages are among them.
        is_settled: whether no transaction may be open any more; otherwise, messages up to the first one are returned.
    """
    ends = _ends(servers, topic, is_settled=is_settled)
    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "group.id": uuid.uuid4().hex,
        "isolation.level": isolation,
        "log_level": 0,
    }
    consumer = Consumer({**options, "enable.partition.eof": True, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in ends])
    ended, messages = set[int](), list[Any]()
    try:
        while len(ended) < len(ends):
            message = consumer.poll(_PATIENCE)
            assert message is not None, "the broker does not answer"
            error = message.error()
            if error is None:
                messages.append(message)
            else:
                assert error.code() == KafkaError._PARTITION_EOF, error
                partition = message.partition() or 0
                if (message.offset() or 0) >= ends[partition]:
                    ended.add(partition)
    finally:
        consumer.close()
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))


def _ends(servers: str, topic: str, *, is_settled: bool) -> dict[int, int]:
    """Return where partitions end for readers of committed messages.

    Args:
        servers: the broker.
        topic: the topic.
        is_settled: whether to wait until these see all: a little later than a commit returns.
    """
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    partitions = admin.list_topics(topic, timeout=_PATIENCE).topics[topic].partitions
    latest: Any = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}  # type: ignore[no-untyped-call]
    deadline = time.monotonic() + _PATIENCE
    while True:
        ends = [
            {
                key.partition: future.result(_PATIENCE).offset
                for key, future in admin.list_offsets(latest, isolation_level=level).items()
            }
            for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
        ]
        if ends[0] == ends[1] or not is_settled:
            return ends[1]
        assert time.monotonic() < deadline, f"a transaction in {topic} is still open"
        time.sleep(0.02)
