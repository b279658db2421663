"""The broker that tests run does what they rely on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.kafka.topics import messages_in, new_topic, send

if TYPE_CHECKING:
    from tests.support.kafka.broker import Broker

pytestmark = [pytest.mark.connectors, pytest.mark.slow]


def test_rows_of_an_aborted_transaction_are_hidden_from_readers_of_committed_rows(kafka: str) -> None:
    topic = new_topic(kafka)
    send(kafka, topic, [{"value": b"1"}])
    send(kafka, topic, [{"value": b"2"}], commits=False)
    send(kafka, topic, [{"value": b"3"}], commits=True)
    assert [message.value() for message in messages_in(kafka, topic)] == [b"1", b"3"]
    assert len(messages_in(kafka, topic, isolation="read_uncommitted")) == 3


def test_a_broker_that_is_killed_and_restarted_still_has_its_rows(broker: Broker) -> None:
    topic = new_topic(broker.servers)
    send(broker.servers, topic, [{"value": b"1"}], commits=True)
    assert len(messages_in(broker.servers, topic)) == 1  # a broker killed before that may leave the transaction open
    broker.kill()
    broker.start()
    assert [message.value() for message in messages_in(broker.servers, topic)] == [b"1"]
