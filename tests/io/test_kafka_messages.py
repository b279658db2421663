"""What `WriteKafka` accepts, and the messages that its tasks make; without a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError

import dataflow_model as dm
from dataflow_model.io.topics import client as kafka_client
from dataflow_model.io.topics.errors import is_final, may_pass, said, way_out_of
from dataflow_model.io.topics.messages import Message, messages_of
from dataflow_model.io.topics.sink import KafkaSink
from dataflow_model.plan.endpoints.outcomes import Reader
from tests.support.exactly_once.tables import PAIRS, record

SERVERS = "localhost:1"


def sink(**options: Any) -> KafkaSink:
    return KafkaSink(**{"topic": "sums", "servers": SERVERS, **options})


def messages(of: KafkaSink, *tasks: list[Any]) -> list[Message]:
    written = []
    for number, records in enumerate(tasks):
        writer = of.open("run-0", str(number))
        writer.write(records)
        written.append(writer.close())
    found = messages_of(written)
    letters = sum(message.is_dead_letter for message in found)
    assert of.counts(written) == {"rows": sum(map(len, tasks)) - letters, "dead_letters": letters}
    return found


def parts(of: KafkaSink, *elements: Any) -> list[tuple[bytes | None, bytes | None]]:
    records = [record(index, element) for index, element in enumerate(elements)]
    return [(message.key, message.value) for message in messages(of, records)]


# Messages.


def test_rows_are_lines_of_json_whose_key_is_a_column() -> None:
    found = parts(sink(schema=PAIRS, keys="key"), ("UA", 4), {"key": None, "value": 2})
    assert found == [(b"UA", b'{"key": "UA", "value": 4}'), (None, b'{"key": null, "value": 2}')]


@pytest.mark.parametrize(("keys", "key"), [("value", b"4"), (("key", "value"), b'{"key": "UA", "value": 4}')])
def test_a_key_that_is_not_text_is_json(keys: Any, key: bytes) -> None:
    assert parts(sink(schema=PAIRS, keys=keys), ("UA", 4))[0][0] == key


def test_columns_of_messages_are_inferred_from_the_rows_if_there_is_no_schema() -> None:
    assert parts(sink(keys="a"), {"a": "x", "b": 1.5}) == [(b"x", b'{"a": "x", "b": 1.5}')]
    with pytest.raises(dm.InvalidArgument, match="has the key 'c', but its rows have no such column"):
        parts(sink(keys="c"), {"a": "x"})


def test_the_messages_of_all_tasks_are_in_emission_order() -> None:
    tasks = [[record(2, ("b", 2)), record(0, ("a", 0))], [record(1, ("c", 1))]]
    assert [message.order for message in messages(sink(schema=PAIRS), *tasks)] == [(0,), (1,), (2,)]


def test_values_are_bytes_or_text_alone_or_with_a_key() -> None:
    assert parts(sink(value="bytes"), b"1", "é", ("k", b"2"), (b"k", None)) == [
        (None, b"1"),
        (None, "é".encode()),
        (b"k", b"2"),
        (b"k", None),
    ]


def test_a_retraction_is_a_tombstone_only_if_readers_keep_the_last_value() -> None:
    taken_back = [record(0, ("UA", 4), is_retraction=True)]
    for upsert, value in ((True, None), (False, b'{"key": "UA", "value": 4, "is_retraction": true}')):
        [message] = messages(sink(schema=PAIRS, keys="key", upsert=upsert, retractions=not upsert), taken_back)
        assert (message.key, message.value, message.is_retraction) == (b"UA", value, True)


@pytest.mark.parametrize(
    ("options", "element", "reason"),
    [
        ({"schema": PAIRS}, ("UA", "four"), "column 'value' is int64 and cannot hold 'four'"),
        ({"value": "bytes"}, 4, "4 is neither bytes nor text"),
        ({"value": "bytes", "upsert": True}, b"1", "it has no key"),
        ({"schema": PAIRS, "keys": "key", "upsert": True}, (None, 4), "its key 'key' is null"),
        ({"value": "bytes"}, "x" * 1_000_000, "its message has 1000000 bytes, and the client's limit is 999488"),
        ({"value": "bytes"}, ("k", "v", {"a": "x" * 1_000_000}), "its message has 1000003 bytes"),
        ({"value": "bytes"}, ("k", "v", {"a": 4}), "the header 'a' must be bytes, text or None, got 4"),
        ({"value": "bytes"}, ("k", "v", 4), "headers must be a dict or pairs of a name and a value, got 4"),
        ({"value": "bytes"}, ("k", "v", [("a",)]), "a header must be a name and a value, got ('a',)"),
        ({"value": "bytes"}, ("k", "v", {"dataflow_model.commit": "1"}), "must not begin with 'dataflow_model.'"),
        ({}, object(), "object"),
    ],
)
def test_an_element_that_does_not_fit_is_a_dead_letter_with_the_reason_or_fails_before_anything_is_pending(
    options: dict[str, Any], element: Any, reason: str
) -> None:
    with pytest.raises(dm.SinkError, match="'WriteKafka' cannot write") as raised:
        parts(sink(**options), element)
    assert reason in str(raised.value)
    assert "or pass dead_letters= with a topic" in str(raised.value)
    [letter] = messages(sink(**options, dead_letters="bad"), [record(0, element)])
    assert (letter.key, letter.is_dead_letter) == (None, True)
    found = json.loads(letter.value or b"")
    assert set(found) == {"row", "label", "reason"}
    assert reason in found["reason"]
    assert letter.size < 999_488


def test_the_elements_beside_one_that_does_not_fit_are_written() -> None:
    records = [record(0, ("AA", 1)), record(1, ("UA", "four")), record(2, ("DL", 3), is_retraction=True)]
    found = messages(sink(schema=PAIRS, keys="key", dead_letters="bad"), records)
    assert [(message.key, message.is_dead_letter) for message in found] == [
        (None, True),
        (b"AA", False),
        (b"DL", False),
    ]
    [letter] = messages(sink(schema=PAIRS, dead_letters="bad"), [record(0, ("UA", "x"), is_retraction=True)])
    assert json.loads(letter.value or b"")["is_retraction"] is True


def test_columns_can_be_headers_too() -> None:
    [message] = messages(sink(schema=PAIRS, headers=("key", "value")), [record(0, {"key": None, "value": 4})])
    assert message.headers == (("key", None), ("value", b"4"))
    assert message.value == b'{"key": null, "value": 4}'
    with pytest.raises(dm.InvalidArgument, match="has the header 'c', but its rows have no such column"):
        messages(sink(headers="c"), [record(0, {"a": "x"})])


def test_a_triple_has_headers_which_may_be_repeated() -> None:
    triples = [("k", b"v", [("a", "1"), ("a", b"2"), ("b", None)]), ("k", None, {"a": "1"})]
    found = messages(sink(value="bytes"), [record(index, triple) for index, triple in enumerate(triples)])
    assert [message.headers for message in found] == [(("a", b"1"), ("a", b"2"), ("b", None)), (("a", b"1"),)]


# Options.


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"topic": ""}, "`topic` must be a name, got ''"),
        ({"topic": 7}, "`topic` must be a name, got 7"),
        ({"servers": ""}, "must name at least one broker"),
        ({"servers": 9092}, "must be text such as 'host:9092', or several, got 9092"),
        ({"servers": ["one:9092", ""]}, "must name at least one broker"),
        ({"value": "avro"}, "`value` must be 'json' or 'bytes', got 'avro'"),
        ({"upsert": "insert"}, "`upsert` must be False, True or 'replace', got 'insert'"),
        ({"upsert": True}, "`upsert` needs the key"),
        ({"keys": ("key", "key")}, "must be one column or several, each once"),
        ({"keys": "no", "schema": PAIRS}, "has the key 'no', but its rows have no such column"),
        ({"value": "bytes", "keys": "key"}, "`keys` is for rows"),
        ({"value": "bytes", "panes": True}, "`panes` is for rows"),
        ({"value": "bytes", "headers": "key"}, "`headers` is for rows"),
        ({"headers": ("key", "key")}, "`headers` must be one column or several, each once"),
        ({"headers": "dataflow_model.commit"}, "the names of headers must not begin with 'dataflow_model.'"),
        ({"dead_letters": ""}, "`dead_letters` must be a name, got ''"),
        ({"dead_letters": "sums"}, "`dead_letters` must be another topic than that of the rows, got 'sums'"),
        ({"marks": "table"}, "`marks` must be 'group' or 'topic', got 'table'"),
        ({"delivery": "at_most_once"}, "must be 'exactly_once' or 'at_least_once', got 'at_most_once'"),
        ({"delivery": "at_least_once", "marks": "topic"}, "delivery='at_least_once' writes no marks"),
        ({"options": ["acks"]}, "`options` must be a dict of options of librdkafka, got list"),
        ({"options": {"transactional.id": "mine"}}, "must not contain 'transactional.id', which is set here"),
    ],
)
def test_contradictory_options_of_a_kafka_sink_are_rejected_at_construction(
    options: dict[str, Any], problem: str
) -> None:
    with pytest.raises((dm.InvalidArgument, dm.InvalidType)) as raised:
        sink(**options)
    assert problem in str(raised.value)
    assert "Hint: " in str(raised.value)


@pytest.mark.parametrize("changed", [{"marks": "topic"}, {"delivery": "at_least_once"}, {"dead_letters": "bad"}])
def test_a_sink_with_other_marks_of_its_commits_is_another_destination(changed: dict[str, str]) -> None:
    assert sink().destination() != sink(**changed).destination()
    assert sink().destination() == sink(servers="other:9092").destination()


def test_several_brokers_are_passed_as_one_list() -> None:
    assert sink(servers=["one:9092", "two:9092"]).servers == "one:9092,two:9092"


def test_no_option_of_the_client_is_shown_or_recorded() -> None:
    write = dm.io.WriteKafka("sums", bootstrap_servers=SERVERS, options={"sasl.password": "s3cret"})
    p = dm.Pipeline()
    _ = p | dm.Create([("UA", 4)]) | write
    for text in (repr(write.sink), write.sink.describe(), str(p.explain()), repr(write.sink.destination())):
        assert "s3cret" not in text
    error = KafkaError(-169, "ann:s3cret was not let in")
    assert said(error, {"sasl.password": "s3cret"}) == "ann:*** was not let in (_AUTHENTICATION)"
    assert way_out_of(error).startswith("check the user, the password")
    assert is_final(error)


def test_a_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_client, "PATIENCE", 0.1)
    monkeypatch.setattr(kafka_client, "_SECONDS", 0.1)
    with pytest.raises(dm.SinkError, match="cannot write to the topic 'sums' on localhost:1") as raised:
        sink().check()
    assert "make sure that the brokers run and can be reached" in str(raised.value)


def test_an_option_that_the_client_does_not_have_is_rejected_with_its_name() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"No such configuration property: \"no.such\""):
        sink(options={"no.such": "1"}).check()


@pytest.mark.parametrize("name", ["OFFSET_NOT_AVAILABLE", "FENCED_LEADER_EPOCH", "NOT_COORDINATOR", "_NOENT"])
def test_errors_of_brokers_while_another_one_takes_over_are_transient(name: str) -> None:
    [error] = [KafkaError(code) for code in range(-200, 100) if KafkaError(code).name() == name]
    assert may_pass(error)
    assert not is_final(error)


# Panes.


@pytest.mark.parametrize(
    ("options", "reader"),
    [
        ({}, Reader.ROWS),
        ({"panes": True}, Reader.ROWS_WITH_PANES),
        ({"keys": "key", "upsert": True}, Reader.ROW),
        ({"keys": "key", "upsert": "replace"}, Reader.REPLACED_ROW),
        ({"keys": ("key", "window_start"), "upsert": True, "panes": True}, Reader.ROW_OF_WINDOW),
        ({"keys": ("key", "window_end", "pane_index"), "upsert": True, "panes": True}, Reader.ROW_OF_PANE),
    ],
)
def test_what_readers_can_distinguish_depends_on_the_messages_and_their_keys(
    options: dict[str, Any], reader: Reader
) -> None:
    assert sink(**options).reader(has_window=False, keeps_windows=True) is reader


def test_a_key_without_the_window_is_rejected_for_panes_that_refine_each_other() -> None:
    p = dm.Pipeline()
    windowing = dm.Window.into(dm.FixedWindows("1 hour")).updating(early="1 minute", late="1 hour")
    sums = p | dm.Create([("UA", 4)]) | windowing | dm.Sum.per_key()
    _ = sums | dm.io.WriteKafka("sums", bootstrap_servers=SERVERS, keys="key", upsert=True)
    with pytest.raises(dm.PlanError, match="a pane of an older window would replace the row of a newer one"):
        p.run()


def test_rows_of_a_retracting_strategy_have_a_column_that_marks_retractions_unless_it_upserts() -> None:
    upserting: dict[str, Any] = {"upsert": True, "keys": "key"}
    for options, added in ((dict[str, Any](), ["is_retraction"]), (upserting, [])):
        p = dm.Pipeline()
        windowing = dm.Window.into(dm.FixedWindows("1 hour")).allowed_lateness("1 hour").accumulating_and_retracting()
        sums = p | dm.Create([("UA", 4)]) | windowing | dm.Sum.per_key()
        _ = sums | "out" >> dm.io.WriteKafka("sums", bootstrap_servers=SERVERS, **options)
        written: Any = p.plan()["out"]
        assert written.sink.full_schema.names == ["key", "value", *added]


# The client.


def test_importing_the_package_does_not_import_the_client() -> None:
    script = "import sys, dataflow_model, dataflow_model.io; sys.exit('confluent_kafka' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_a_missing_client_is_named_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'dataflow-model\[kafka\]'") as raised:
        dm.io.WriteKafka("sums", bootstrap_servers=SERVERS)
    assert raised.value.name == "confluent_kafka"


def test_a_schema_of_another_type_is_rejected() -> None:
    with pytest.raises(dm.InvalidType, match=r"`schema` must be a pyarrow.Schema"):
        sink(schema=[pa.field("key", pa.string())])
