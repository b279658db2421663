"""A wrong password or a missing right is an error that names it, before anything is read or written."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType
from confluent_kafka.admin._resource import ResourceType as Resource

import dataflow_model as dm
from tests.support.kafka.broker import PASSWORD
from tests.support.kafka.topics import messages_in, new_topic
from tests.support.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.kafka.broker import Broker

pytestmark = [pytest.mark.connectors, pytest.mark.slow, pytest.mark.timeout(300)]

WRONG = "".join(reversed(PASSWORD))
WRITES = [(Resource.TOPIC, AclOperation.DESCRIBE), (Resource.TOPIC, AclOperation.WRITE)]
IDS = [(Resource.TRANSACTIONAL_ID, AclOperation.DESCRIBE), (Resource.TRANSACTIONAL_ID, AclOperation.WRITE)]
SEES = (Resource.GROUP, AclOperation.DESCRIBE)
MARKS = [(Resource.GROUP, AclOperation.READ), (Resource.TOPIC, AclOperation.READ)]


def grant(broker: Broker, topic: str, rights: list[tuple[Any, Any]], group: str = "dataflow_model-") -> None:
    """Grant ann rights to a topic, to ids of this package, or to groups whose names begin as given."""
    admin = AdminClient({"bootstrap.servers": broker.servers})
    names = {Resource.TOPIC: topic, Resource.GROUP: group}
    bindings = [
        AclBinding(
            kind,
            names.get(kind, "dataflow_model-"),
            ResourcePatternType.LITERAL if kind is Resource.TOPIC else ResourcePatternType.PREFIXED,
            "User:ann",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        for kind, operation in rights
    ]
    for future in admin.create_acls(bindings).values() if bindings else ():
        future.result(30)
    time.sleep(1)  # until the broker has taken notice


def options(password: str = PASSWORD) -> dict[str, str]:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": password}
    return {"security.protocol": "SASL_PLAINTEXT", **login}


def read(broker: Broker, topic: str | None, checkpoint: Path, password: str = PASSWORD, **arguments: Any) -> None:
    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadKafka(topic, bootstrap_servers=broker.secured, options=options(password), **arguments)
        _ = p | read | dm.io.Collect()

    run(dm.LocalRunner() if "end" in arguments else dm.LocalRunner(checkpoint=checkpoint), build)


def write(broker: Broker, topic: str, checkpoint: Path | None, marks: Any = "group", **login: Any) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = (
            p
            | dm.Create([("UA", 1)])
            | dm.io.WriteKafka(topic, bootstrap_servers=broker.secured, marks=marks, options=options(**login))
        )

    run(dm.LocalRunner() if checkpoint is None else dm.LocalRunner(checkpoint=checkpoint), build)


@pytest.mark.sample
def test_a_wrong_password_is_named_at_once_and_not_shown(broker: Broker) -> None:
    topic = new_topic(broker.servers)
    began = time.monotonic()
    with pytest.raises(dm.SinkError, match="_AUTHENTICATION") as raised:
        write(broker, topic, None, password=WRONG)
    assert time.monotonic() - began < 15
    assert "check the user, the password" in str(raised.value)
    assert WRONG not in str(raised.value)


def test_a_missing_right_is_named_and_with_all_of_them_a_stream_writes(broker: Broker, tmp_path: Path) -> None:
    topic = new_topic(broker.servers)
    with pytest.raises(dm.SinkError, match="TOPIC_AUTHORIZATION_FAILED"):
        write(broker, topic, tmp_path / "topic")
    grant(broker, topic, WRITES[:1])
    with pytest.raises(dm.SinkError, match="the user has no right to WRITE it"):
        write(broker, topic, tmp_path / "write")
    grant(broker, topic, WRITES)
    with pytest.raises(dm.SinkError, match="TRANSACTIONAL_ID_AUTHORIZATION_FAILED"):
        write(broker, topic, None)
    grant(broker, topic, IDS)
    write(broker, topic, None)  # a bounded run needs no mark
    with pytest.raises(dm.SinkError, match="with a group, and the user has no right to READ the topic"):
        write(broker, topic, tmp_path / "read")
    grant(broker, topic, MARKS[1:])
    began = time.monotonic()
    with pytest.raises(dm.SinkError, match=r"with the group 'dataflow_model-.*', and the user has no right to READ it"):
        write(broker, topic, tmp_path / "group")
    assert time.monotonic() - began < 30
    grant(broker, topic, MARKS)
    write(broker, topic, tmp_path / "all")
    assert len(messages_in(broker.servers, topic)) == 2


def test_with_marks_in_a_topic_a_stream_needs_no_right_to_read_the_topic_or_a_group(
    broker: Broker, tmp_path: Path
) -> None:
    topic = new_topic(broker.servers)
    grant(broker, topic, WRITES + IDS)
    with pytest.raises(dm.SinkError, match=f"'{topic}-marks'.*TOPIC_AUTHORIZATION_FAILED"):
        write(broker, topic, tmp_path / "none", marks="topic")
    grant(broker, f"{topic}-marks", WRITES)
    with pytest.raises(dm.SinkError, match=f"cannot create the topic '{topic}-marks' for its marks"):
        write(broker, topic, tmp_path / "missing", marks="topic")
    new_topic(broker.servers, exactly=f"{topic}-marks", cleanup_policy="compact")
    with pytest.raises(dm.SinkError, match=f"'{topic}-marks'.*no right to READ it"):
        write(broker, topic, tmp_path / "read", marks="topic")
    grant(broker, f"{topic}-marks", [(Resource.TOPIC, AclOperation.READ)])
    write(broker, topic, tmp_path / "all", marks="topic")
    assert len(messages_in(broker.servers, topic)) == 1


@pytest.mark.parametrize(("rights", "problem"), [([], "GROUP_AUTHORIZATION_FAILED"), ([SEES], "no right to READ it")])
def test_a_missing_right_to_the_group_is_named_at_the_start(
    broker: Broker, tmp_path: Path, rights: list[Any], problem: str
) -> None:
    topic = new_topic(broker.servers)
    grant(broker, topic, MARKS[1:])
    group = f"{'seen' if rights else 'unseen'}-{topic}"
    grant(broker, topic, rights, group=group)
    began = time.monotonic()
    with pytest.raises(dm.SourceError, match=rf"cannot note offsets in the group '{group}' .*{problem}"):
        read(broker, topic, tmp_path, group=group)
    assert time.monotonic() - began < 15
    grant(broker, topic, MARKS[:1], group=group)
    read(broker, topic, tmp_path, group=group)


@pytest.mark.parametrize("options", [{"end": "latest"}, {"pattern": "topic-.*", "end": "latest"}])
def test_a_wrong_password_of_a_reader_is_named_at_once(broker: Broker, tmp_path: Path, options: dict[str, Any]) -> None:
    topic = None if "pattern" in options else new_topic(broker.servers)
    began = time.monotonic()
    with pytest.raises(dm.SourceError, match="_AUTHENTICATION") as raised:
        read(broker, topic, tmp_path, password=WRONG, **options)
    assert time.monotonic() - began < 15
    assert WRONG not in str(raised.value)


def test_topics_that_the_user_may_not_see_do_not_match_a_pattern(broker: Broker, tmp_path: Path) -> None:
    hidden = new_topic(broker.servers)
    with pytest.raises(dm.SourceError, match="there are none that the user may see"):
        read(broker, None, tmp_path, pattern=hidden, end="latest")


def test_a_topic_without_the_right_to_read_it_is_named(broker: Broker) -> None:
    topic = new_topic(broker.servers)
    grant(broker, topic, WRITES)

    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadKafka(topic, bootstrap_servers=broker.secured, end="latest", options=options())
        _ = p | read | dm.io.Collect()

    with pytest.raises(dm.SourceError, match="the user has no right to READ it"):
        run(dm.LocalRunner(), build)
