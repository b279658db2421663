"""What `ReadKafka` accepts and says about itself; without a broker."""

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm
from dataflow_model.io.topics import client as kafka_client
from dataflow_model.io.topics.source import COLUMNS, KafkaSource

SERVERS = "localhost:1"


def source(**options: Any) -> KafkaSource:
    arguments: dict[str, Any] = {"topics": "departures", "bootstrap_servers": SERVERS, **options}
    read: Any = dm.io.ReadKafka(**arguments)
    made: KafkaSource = read.source
    return made


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"topics": []}, "`topics` must be one topic or several, each once, got []"),
        ({"topics": ["a", "a"]}, "each once, got ['a', 'a']"),
        ({"topics": [""]}, "`topic` must be a name, got ''"),
        ({"bootstrap_servers": []}, "must name at least one broker"),
        ({"start": "newest"}, "newest"),
        ({"start": "latest", "end": "latest"}, "leave nothing to read"),
        ({"event_time": "scheduled"}, "scheduled"),
        ({"watermark_origin": "file"}, "`watermark_origin` must be a column, got 'file'"),
        ({"options": {"group.id": "mine"}}, "must not contain 'group.id', which is set here"),
        ({"topic": "departures"}, "ReadKafka has no argument 'topic'"),
    ],
)
def test_contradictory_options_of_a_kafka_source_are_rejected_at_construction(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType)) as raised:
        source(**options)
    assert problem in str(raised.value)
    assert "Hint: " in str(raised.value)


def test_a_kafka_source_is_bounded_if_it_has_an_end_and_is_followed_otherwise() -> None:
    assert source(end="latest").is_bounded
    assert source(end="2013-01-01T00:00:00Z").is_bounded
    assert not source().is_bounded


def test_by_default_each_partition_has_a_watermark_of_its_own() -> None:
    assert source().watermark_origins.by == "origin"
    assert source(watermark_origin=None).watermark_origins.by is None
    assert source(event_time=None).watermark_origins.by is None


def test_only_columns_that_are_needed_are_read() -> None:
    assert source().schema() == COLUMNS
    assert source().project(["value"]).schema().names == ["value", "timestamp", "offset", "origin"]


def test_no_option_of_the_client_is_shown() -> None:
    p = dm.Pipeline()
    read = dm.io.ReadKafka("departures", bootstrap_servers=SERVERS, options={"sasl.password": "s3cret"})
    _ = p | read | dm.io.Collect()
    assert "s3cret" not in f"{p.explain()}{read.source!r}{read.source.describe()}"
    assert "the topic departures" in str(p.explain())


def test_a_broker_that_does_not_answer_is_named_before_anything_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "PATIENCE", 0.1)
    monkeypatch.setattr(kafka_client, "_SECONDS", 0.1)
    with pytest.raises(dm.SourceError, match="cannot read the topic 'departures' on localhost:1"):
        source().bound()
