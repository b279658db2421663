"""Publish the commits of a run to a topic of Kafka, each once, without ever resuming a transaction.

The client cannot finish a transaction that another process has left open: whoever starts with the same transactional
id aborts it. So a transaction is only ever begun and committed in one go, while the messages wait in the checkpoint.
With the messages it contains a *mark*: the sequencer of the start that writes, and the id of the commit. A start first
claims the topic: it fences older producers, reads the mark, and replaces its sequencer. After any error, a new producer
claims anew, and the mark says whether the transaction was committed.

The broker also fences a producer whose transaction took longer than `transaction.timeout.ms`, with the same error. The
mark tells the two apart: if a newer start has not claimed the topic, this one goes on.
"""

from __future__ import annotations

import itertools
import os
import time
import uuid
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import LOG, SinkError
from dataflow_model.io.topics.client import PATIENCE
from dataflow_model.io.topics.errors import is_final, may_pass
from dataflow_model.io.topics.marks import Mark, marks_of
from dataflow_model.io.topics.producing import COMMIT, produce, producer_of, refusal
from dataflow_model.io.topics.search import has_header, what_was_removed
from dataflow_model.runners.sharded.outputs.commit_ids import CommitId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from confluent_kafka import Producer

    from dataflow_model.io.topics.marks import Marks
    from dataflow_model.io.topics.messages import Message
    from dataflow_model.io.topics.sink import KafkaSink
    from dataflow_model.plan.endpoints.sinks import Fence

_SECONDS: Final = 60.0
"""How long one request may take."""
_ATTEMPTS: Final = 6
_PAUSE: Final = 0.2
"""Seconds before the second attempt; twice as long before each further one."""
_MOST_OPEN: Final = 8
"""The number of producers of fenced sinks that a process keeps."""
_open: dict[tuple[Any, ...], Transactions] = {}


@attrs.define
class Transactions:
    """The transactions of one start of a run to one sink.

    Args:
        sink: the sink.
        name: the transactional id, and the group of the mark.
        fence: the start of the run.
    """

    sink: KafkaSink
    name: str
    fence: Fence
    _mark: Mark = attrs.field(factory=Mark, init=False)
    _producer: Producer | None = attrs.field(default=None, init=False)
    _marks: Marks | None = attrs.field(default=None, init=False)

    def claim(self) -> None:
        """Fence the producers of older starts, and note this one in the mark.

        Raises:
            SupersededRun: if a newer start has claimed the topic.
            SinkError: if the brokers report an error that does not pass, or the user lacks a right.
        """
        from confluent_kafka import KafkaException

        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                marks_of(self.sink, self.name).prepare()
                break
            except KafkaException as error:
                if not may_pass(error.args[0]) or time.monotonic() > deadline:
                    raise refusal(self.sink, error.args[0]) from error
            time.sleep(_PAUSE)
        self._persist(lambda: None)

    def publish(self, commit: str, messages: Sequence[Message]) -> None:
        """Write the messages of a commit, unless they are in the topic; the errors are those of `claim`."""

        def write() -> None:
            if self._may_be_forgotten(commit):
                self._search(commit)
            if self._mark.commit != commit:
                self._transact(messages, self._mark._replace(commit=commit))

        self._persist(write)

    def last_commit(self) -> str:
        """Return the id of the last commit."""
        return self._mark.commit

    def close(self) -> None:
        """Drop the producer, with what it has not sent."""
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.purge(blocking=False)
        marks, self._marks = self._marks, None
        if marks is not None:
            marks.close()

    def _persist(self, step: Callable[[], None]) -> None:
        """Take a step on a claimed topic; after an error that may pass, claim it anew and take the step again."""
        from confluent_kafka import KafkaException

        for attempt in itertools.count(1):
            try:
                if self._producer is None:
                    self._claim()
                step()
            except KafkaException as error:
                self.close()
                if is_final(error.args[0]) or attempt == _ATTEMPTS:
                    raise refusal(self.sink, error.args[0]) from error
                time.sleep(_PAUSE * 2**attempt)
            except BaseException:
                self.close()
                raise
            else:
                return

    def _claim(self) -> None:
        producer = producer_of(self.sink, self.name)
        producer.init_transactions(_SECONDS)
        self._marks = marks_of(self.sink, self.name)
        self._mark = self._marks.read()
        own = self.fence.sequencer
        if self._mark.start > own:
            raise self.fence.refusal(self._mark.start, f"the topic {self.sink.topic!r}")
        self._producer = producer
        self._transact((), Mark(own, self._mark.commit, self._mark.since or own))

    def _transact(self, messages: Sequence[Message], mark: Mark) -> None:
        """Write messages and a mark in one transaction."""
        producer, marks = self._producer, self._marks
        assert producer is not None  # noqa: S101 - it has claimed the topic
        assert marks is not None  # noqa: S101 - as above
        producer.begin_transaction()
        if messages:
            produce(producer, self.sink, mark.commit, messages)
        marks.write(producer, mark)
        producer.commit_transaction(_SECONDS)
        self._mark = mark

    def _may_be_forgotten(self, commit: str) -> bool:
        """Return whether a commit may be in the topic although no mark says so: it was planned before marks began."""
        planned = CommitId.of(commit)
        return not self._mark.commit and planned is not None and planned.start < self._mark.since

    def _search(self, commit: str) -> None:
        """Find out from the messages whether a commit is there, and note it if so.

        Raises:
            SinkError: if its messages may have been removed, so that nobody knows.
        """
        topic = self.sink.topic
        LOG.warning(
            "the topic %r has no mark of run %s, which Kafka removes after offsets.retention.minutes: all of it is "
            "read to see whether commit %s is in it",
            topic,
            self.fence.run_id,
            commit,
        )
        if has_header(self.sink, (COMMIT, commit.encode())):
            self._transact((), self._mark._replace(commit=commit))
            return
        removed = what_was_removed(self.sink)
        if removed:
            raise SinkError(
                f"{self.sink.label!r} cannot tell whether commit {commit} is in the topic {topic!r}: its mark is gone, "
                f"it is not among the messages of the topic, and {removed}",
                hint="start a new run with another checkpoint, which begins where the output of this one ends; with "
                'marks="topic", marks do not expire',
            )


def transactions_of(sink: KafkaSink, fence: Fence) -> Transactions:
    """Return the transactions of a start of a run to a sink, of which this process keeps the last ones."""
    name = _name(sink, fence.run_id)
    key = (os.getpid(), sink.servers, sink.topic, name)
    transactions = _open.pop(key, None)
    if transactions is None or transactions.fence != fence:
        if transactions is not None:
            transactions.close()
        transactions = Transactions(sink, name, fence)
    _open[key] = transactions
    while len(_open) > _MOST_OPEN:
        _open.pop(next(iter(_open))).close()
    return transactions


def publish_once(sink: KafkaSink, commit: str, messages: Sequence[Message]) -> None:
    """Write the messages of a bounded run, which is never repeated, in one transaction.

    Raises:
        SinkError: if the brokers report an error; then no reader of committed messages sees any of them.
    """
    from confluent_kafka import KafkaException

    producer = producer_of(sink, f"dataflow_model-{commit}-{uuid.uuid4().hex[:8]}")
    try:
        producer.init_transactions(_SECONDS)
        producer.begin_transaction()
        produce(producer, sink, commit, messages)
        producer.commit_transaction(_SECONDS)
    except KafkaException as error:
        producer.purge()
        raise refusal(sink, error.args[0]) from error


def last_commit(sink: KafkaSink, run_id: str) -> str:
    """Return the id of a run's last commit in a topic; empty if there is none.

    Raises:
        SinkError: if the brokers report an error.
    """
    from confluent_kafka import KafkaException

    name = _name(sink, run_id)
    transactions = _open.get((os.getpid(), sink.servers, sink.topic, name))
    if transactions is not None:
        return transactions.last_commit()
    marks = marks_of(sink, name)
    try:
        return marks.read().commit
    except KafkaException as error:
        raise refusal(sink, error.args[0]) from error
    finally:
        marks.close()


def _name(sink: KafkaSink, run_id: str) -> str:
    label = sink.label if sink.fence is None else sink.fence.mark_of(sink.label)
    return f"dataflow_model-{run_id}-{label}"
