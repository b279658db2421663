"""One broker of Kafka for all tests of this folder; they are skipped, with the command, where it cannot be had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.fetched import jars_of
from tests.support.kafka.apicurio import running_apicurio
from tests.support.kafka.broker import running_broker

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.kafka.broker import Broker


@pytest.fixture(scope="session")
def kafka_jars() -> Path:
    """The jars of Kafka; skip where they cannot be had."""
    return jars_of("kafka", "Kafka")


@pytest.fixture(scope="session")
def broker(java_home: str, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that runs; a test that stops it starts it again."""
    with running_broker(tmp_path_factory.mktemp("kafka"), java_home, kafka_jars) as running:
        yield running


@pytest.fixture(scope="session")
def schema_registry(java_home: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a schema registry that runs; skip where it cannot be had."""
    fetched = jars_of("apicurio", "Avro with a registry")
    with running_apicurio(tmp_path_factory.mktemp("apicurio"), java_home, fetched) as registry:
        yield registry


@pytest.fixture
def kafka(broker: Broker) -> str:
    """The address of the broker."""
    return broker.servers
