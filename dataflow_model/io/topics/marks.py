"""Where a run notes its last commit to a topic: the metadata of a group's offset, or a message in a compacted topic.

A mark is written in the transaction of the messages that it is about, so it is there if and only if they are.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import attrs

from dataflow_model.errors import SinkError
from dataflow_model.io.topics.client import PATIENCE, described, kept_admin
from dataflow_model.io.topics.errors import is_final, said
from dataflow_model.io.topics.search import committed_bounds, committed_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, Producer

    from dataflow_model.io.topics.sink import KafkaSink

_SECONDS: Final = 60.0
"""How long one request may take."""
_SECONDS_OF_OFFSET: Final = 15.0
"""How long the request with an offset may take."""
_TIMED_OUT: Final = -185
"""The client's code for that."""
_SETTINGS: Final = {"cleanup.policy": "compact", "segment.bytes": str(16 * 2**20)}
"""The settings of a topic of marks: segments are compacted once they are full."""
_FEW: Final = 1_000
"""The number of messages, counted from the end, among which a mark is looked for first; then ten times as many."""
_AGAIN: Final = 0.1
"""Seconds until a topic that was created is looked for again."""


class Mark(NamedTuple):
    """Who has claimed a topic, and the last commit in it.

    Attributes:
        start: the sequencer of the start that has claimed the topic; 0 if none has.
        commit: the id of the commit; empty if none is known.
        since: the sequencer of the start that found no mark, and from which on none has been lost.
    """

    start: int = 0
    commit: str = ""
    since: int = 0

    @classmethod
    def of(cls, text: str | bytes | None) -> Mark:
        """Return the mark that a text holds; an empty one if there is no text."""
        return cls(**json.loads(text)) if text else cls()

    @property
    def text(self) -> str:
        """The mark as JSON."""
        return json.dumps(self._asdict())


class Marks(Protocol):
    """The marks of one run."""

    def prepare(self) -> None:
        """Check the rights, and create what is missing, when a run starts."""

    def read(self) -> Mark:
        """Return the last mark, once the transactions of the run are over."""
        ...

    def write(self, producer: Producer, mark: Mark) -> None:
        """Add a mark to the transaction of a producer."""

    def close(self) -> None:
        """Close the connections."""


def marks_of(sink: KafkaSink, name: str) -> Marks:
    """Return the marks of a run, with a group or in a topic as a sink says.

    Args:
        sink: the sink.
        name: distinguishes the run and the sink from all others.
    """
    return GroupMarks(sink, name) if sink.marks == "group" else TopicMarks(sink, name)


@attrs.define
class GroupMarks:
    """Marks as the metadata of an offset of a group that nobody joins."""

    sink: KafkaSink
    name: str
    _reader: Consumer | None = attrs.field(default=None, init=False)

    def prepare(self) -> None:
        """Ask for the rights: without them, the client would repeat the requests for minutes.

        Raises:
            SinkError: if the user has no right to READ the group or the topic.
            KafkaException: if the brokers report another error.
        """
        sink = self.sink
        topic = described(sink.label, [sink.topic], sink.servers, sink.options, reads=False)[sink.topic]
        if not _may_read(topic.authorized_operations):
            raise SinkError(
                f"{sink.label!r} notes its commits with a group, and the user has no right to READ the topic "
                f"{sink.topic!r}",
                hint="grant the user READ on the topic, or write with marks='topic'",
            )
        if not self._may_read_group():
            raise SinkError(
                f"{sink.label!r} notes its commits with the group {self.name!r}, and the user has no right to READ it",
                hint="grant the user READ on groups whose names begin with 'dataflow_model-', or write with "
                "marks='topic'",
            )

    def read(self) -> Mark:
        """Return the last mark."""
        from confluent_kafka import KafkaException, TopicPartition

        [committed] = self._consumer().committed([TopicPartition(self.sink.topic, 0)], timeout=_SECONDS)
        if committed.error is not None:
            raise KafkaException(committed.error)
        return Mark.of(committed.metadata)

    def write(self, producer: Producer, mark: Mark) -> None:
        """Add the offset to the transaction."""
        from confluent_kafka import TopicPartition

        offset = TopicPartition(self.sink.topic, 0, 0, metadata=mark.text)
        group = self._consumer().consumer_group_metadata()
        _within(_SECONDS_OF_OFFSET, lambda: producer.send_offsets_to_transaction([offset], group, _SECONDS_OF_OFFSET))

    def close(self) -> None:
        """Close the consumer."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _may_read_group(self) -> bool:
        from confluent_kafka import KafkaException

        admin = kept_admin(self.sink.label, self.sink.servers, self.sink.options).client
        futures = admin.describe_consumer_groups(
            [self.name], include_authorized_operations=True, request_timeout=_SECONDS_OF_OFFSET
        )
        try:
            return _may_read(futures[self.name].result().authorized_operations)
        except KafkaException as error:
            cause: str = error.args[0].name()
            if cause not in {"GROUP_ID_NOT_FOUND", "GROUP_AUTHORIZATION_FAILED"}:
                raise
            return cause == "GROUP_ID_NOT_FOUND"

    def _consumer(self) -> Consumer:
        from confluent_kafka import Consumer

        if self._reader is None:
            own = {
                "bootstrap.servers": self.sink.servers,
                "group.id": self.name,
                "enable.auto.commit": False,
                "log_level": 0,
            }
            self._reader = Consumer({**self.sink.options, **own})
        return self._reader


@attrs.frozen
class TopicMarks:
    """Marks as messages in a compacted topic of one partition, with the name of the run and the sink as their key."""

    sink: KafkaSink
    name: str

    @property
    def topic(self) -> str:
        """The name of the topic."""
        return f"{self.sink.topic}-marks"

    def prepare(self) -> None:
        """Find the topic, or create it.

        Raises:
            SinkError: if there is no such topic and the user may not create it, or has no right to read or write it.
            KafkaException: if the brokers report another error.
        """
        sink = self.sink
        deadline = time.monotonic() + PATIENCE
        is_created = False
        while True:
            try:
                topic = described(sink.label, [self.topic], sink.servers, sink.options, reads=False)[self.topic]
                break
            except SinkError as error:
                if not _is_missing(error) or time.monotonic() > deadline:
                    raise
            if not is_created:
                self._create()
                is_created = True
            time.sleep(_AGAIN)
        if not _may_read(topic.authorized_operations):
            raise SinkError(
                f"{sink.label!r} notes its commits in the topic {self.topic!r}, and the user has no right to READ it",
                hint="grant the user READ on the topic",
            )

    def read(self) -> Mark:
        """Return the last mark."""
        [(first, end)] = committed_bounds(self.sink, self.topic, [0]).values()
        stop, count = end, _FEW
        while stop > first:  # backwards, as a topic may have many marks that are not compacted yet
            start = max(first, stop - count)
            own = [
                message.value()
                for message in committed_messages(self.sink, self.topic, {0: (start, stop)})
                if message.key() == self.name.encode()
            ]
            if own:
                return Mark.of(own[-1])
            stop, count = start, count * 10
        return Mark()

    def write(self, producer: Producer, mark: Mark) -> None:
        """Add the message to the transaction, and wait until the brokers have it."""
        producer.produce(self.topic, key=self.name, value=mark.text, partition=0)
        producer.flush(_SECONDS)

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _create(self) -> None:
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

        sink = self.sink
        admin = kept_admin(sink.label, sink.servers, sink.options).client
        # The number of replicas is the brokers' default.
        futures = admin.create_topics([NewTopic(self.topic, 1, -1, config=_SETTINGS)], request_timeout=PATIENCE)
        try:
            futures[self.topic].result()
        except KafkaException as error:
            cause = error.args[0]
            if cause.name() == "TOPIC_ALREADY_EXISTS":
                return
            if not is_final(cause):
                raise
            raise SinkError(
                f"{sink.label!r} cannot create the topic {self.topic!r} for its marks: {said(cause, sink.options)}",
                hint="create it with one partition and cleanup.policy=compact, and grant the user DESCRIBE, READ and "
                "WRITE on it",
            ) from error


def _may_read(operations: Any) -> bool:
    """Return whether the operations that a user may do have READ among them; brokers may not say which these are."""
    from confluent_kafka.admin._acl import AclOperation  # which `admin` does not export for type checkers

    return operations is None or bool(AclOperation.READ in operations)


def _is_missing(error: SinkError) -> bool:
    """Return whether an error says that there is no such topic."""
    cause = error.__cause__
    return cause is not None and bool(cause.args) and cause.args[0].name() == "UNKNOWN_TOPIC_OR_PART"


def _within(seconds: float, call: Callable[[], None]) -> None:
    """Make a call in a thread, which is left alone if the call has not returned in time.

    The request for an offset in a transaction ignores its own limit, and may wait forever after the coordinator of the
    group was started again.

    Raises:
        KafkaException: from the call, or if it has not returned in time.
    """
    from confluent_kafka import KafkaError, KafkaException

    outcome: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - it is raised where the caller waits
            outcome.put(error)
        else:
            outcome.put(None)

    threading.Thread(target=run, name="dataflow_model: mark of Kafka", daemon=True).start()
    try:
        error = outcome.get(timeout=seconds)
    except queue.Empty:
        error = KafkaException(KafkaError(_TIMED_OUT, f"the coordinator has not answered within {seconds:.0f} s"))
    if error is not None:
        raise error
