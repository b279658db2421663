"""What `ReadKafka` accepts and says about itself; without a broker."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.io.topics import client as kafka_client
from dataflow_model.io.topics.source import COLUMNS, KafkaSource

SERVERS = "localhost:1"
FIELDS = pa.schema({"delay": pa.int64(), "timestamp": pa.int64()})
AVRO = {"value": "avro", "schema": FIELDS}


class Wrong(NamedTuple):
    """A class with a field of a message that is of another type."""

    delay: int
    offset: str


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
        ({"end": "earliest"}, "`end` leaves nothing to read, got 'earliest'"),
        ({"start": {}}, "`start` must have at least one offset, got {}"),
        ({"start": {"departures": 4}}, "offsets by topic and partition, got 'departures' for one of these"),
        ({"start": {("departures", True): 4}}, "got ('departures', True) for one of these"),
        ({"start": {("departures", 0): -1}}, "offsets that are whole numbers from 0 on, got -1 for departures/0"),
        ({"end": {("arrivals", 0): 1}}, "`end` has an offset of arrivals/0, but the topics are departures"),
        ({"start": {("departures", 0): 5}, "end": {("departures", 0): 4}}, "`end` is before `start` in departures/0"),
        ({"topics": None}, "either `topics` or `pattern` says what is read"),
        ({"pattern": ".*"}, "either `topics` or `pattern` says what is read"),
        ({"topics": None, "pattern": "["}, "`pattern` must be a regular expression, got '['"),
        ({"topics": None, "pattern": 5}, "`pattern` must be a regular expression as text, got 5"),
        ({"group": ""}, "`group` must be the name of a consumer group, got ''"),
        ({"group": 5}, "`group` must be the name of a consumer group, got 5"),
        ({"on_loss": "ignore"}, "`on_loss` must be 'error' or 'skip', got 'ignore'"),
        ({"value": "text"}, "`value` must be 'bytes', 'json', 'avro' or a function of the bytes, got 'text'"),
        ({"value": 5}, "`value` must be 'bytes', 'json', 'avro' or a function of the bytes, got 5"),
        ({"value": "json"}, "`schema` or `row_type` names the fields of values that are not bytes"),
        ({"schema": FIELDS}, "got value='bytes' and the fields ['delay', 'timestamp']"),
        ({"value": "json", "schema": {"delay": int}}, "`schema` must be a schema of Arrow, got {'delay'"),
        ({"value": "json", "schema": pa.schema({})}, "at least one field of the values, each once, got []"),
        ({"value": "json", "schema": FIELDS, "event_time": "at"}, "`event_time` names the column 'at'"),
        ({"value": "avro", "schema": FIELDS}, "got value='avro' and no registry"),
        ({"value": "json", "schema": FIELDS, "schema_registry": "http://one"}, "got value='json' and a registry"),
        (
            {**AVRO, "schema_registry": "localhost:8081"},
            "must be an address of HTTP, got 'localhost'",
        ),
        ({**AVRO, "schema_registry": 8081}, "`schema_registry` must be an address or a dict, got 8081"),
        ({**AVRO, "schema_registry": {"host": "one"}}, "`schema_registry` has no option 'host'"),
        ({**AVRO, "schema_registry": "http://ann:s3cret@one"}, "must not have a password in its address"),
        ({**AVRO, "schema_registry": {"url": "http://one", "basic.auth.user.info": "s"}}, "with a colon between"),
        ({"value": "json", "row_type": Wrong}, "column 'offset' is int64, but Wrong.offset is str"),
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
    assert "s3cret" not in str(raised.value)


def test_a_kafka_source_is_bounded_if_it_has_an_end_and_unbounded_otherwise() -> None:
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


def test_fields_of_the_value_are_columns_beside_those_of_the_message() -> None:
    decoded = source(value="json", schema=FIELDS)
    of_message = ["key", "timestamp", "topic", "partition", "offset", "origin", "headers", "is_tombstone"]
    assert decoded.schema().names == ["delay", "value_timestamp", *of_message]
    assert decoded.project(["delay"]) is decoded  # any field may make a bad row
    assert source(value="json", schema=FIELDS, event_time="value_timestamp").event_time == "value_timestamp"


def test_brokers_are_not_asked_about_a_source_that_has_read_nothing() -> None:
    unread = source(group="delays")
    unread.committed({})
    assert unread.levels({}) == {}


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
