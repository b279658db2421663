"""Values in Avro with the schemas of a registry: what is read, what is a bad row, and what the registry is asked."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.io.topics.decoding import registry as registry_module
from dataflow_model.io.topics.decoding.avro import AvroValues
from dataflow_model.io.topics.decoding.registry import Registry
from dataflow_model.io.topics.decoding.values import in_columns
from tests.support.kafka.registry import DELAYS, SmallRegistry, encoded, running_small_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

COLUMNS = pa.schema({"carrier": pa.string(), "delay": pa.int64(), "gate": pa.string()})
LATER = {**DELAYS, "fields": [*DELAYS["fields"], {"name": "gate", "type": "string"}]}


@pytest.fixture
def registry() -> Iterator[SmallRegistry]:
    with running_small_registry() as running:
        running.register(7, DELAYS)
        running.register(8, LATER)
        yield running


def rows(registry: SmallRegistry, values: list[bytes | None], columns: pa.Schema = COLUMNS) -> list[Any]:
    """Return the fields of each value, or why it is a bad row."""
    table = in_columns(pa.array(values, pa.binary()), AvroValues(Registry(registry.url)), columns)
    return [
        row["__bad__"]["reason"] if row.get("__bad__") else {name: row[name] for name in columns.names}
        for row in table.to_pylist()
    ]


def test_each_value_is_read_by_its_own_schema_which_is_fetched_once(registry: SmallRegistry) -> None:
    old = encoded(7, DELAYS, {"carrier": "UA", "delay": 4})
    new = encoded(8, LATER, {"carrier": "AA", "delay": None, "gate": "B7"})
    for _ in range(2):
        assert rows(registry, [old, new, None, old]) == [
            {"carrier": "UA", "delay": 4, "gate": None},
            {"carrier": "AA", "delay": None, "gate": "B7"},
            {"carrier": None, "delay": None, "gate": None},
            {"carrier": "UA", "delay": 4, "gate": None},
        ]
    assert sorted(registry.asked) == ["/schemas/ids/7", "/schemas/ids/8"]


def test_a_schema_that_is_not_there_is_asked_for_once_a_minute(
    registry: SmallRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    value = encoded(9, DELAYS, {"carrier": "UA", "delay": 4})
    missing = f"the schema registry {registry.url} has no schema with the id 9"
    assert rows(registry, [value, value]) == [missing, missing]
    registry.register(9, DELAYS)
    assert rows(registry, [value]) == [missing]
    assert registry.asked == ["/schemas/ids/9"]
    monkeypatch.setattr(registry_module, "_MISS_SECONDS", 0.0)
    assert rows(registry, [value]) == [{"carrier": "UA", "delay": 4, "gate": None}]


def test_only_values_that_do_not_decode_are_bad_rows(registry: SmallRegistry) -> None:
    good = encoded(7, DELAYS, {"carrier": "UA", "delay": 4})
    registry.register(10, "string")
    registry.register(11, {"type": "object"}, schemaType="JSON")
    registry.register(12, {"type": "record", "name": "Broken"})
    text = {"type": "record", "name": "T", "fields": [{"name": "delay", "type": "string"}]}
    registry.register(13, text)
    found = rows(
        registry,
        [
            good,
            b"",
            b"\0\0\0",
            b'{"delay": 4}',
            good[:-1],
            good + b"\0",
            b"\0\0\0\0\x0a\x04UA",
            b"\0\0\0\0\x0b\x04UA",
            b"\0\0\0\0\x0c\x04UA",
            encoded(13, text, {"delay": "four"}),
            good,
        ],
    )
    no_head = "it does not begin with a zero byte and the id of a schema"
    assert found[0] == found[-1] == {"carrier": "UA", "delay": 4, "gate": None}
    assert found[1:4] == [no_head] * 3
    assert found[4].startswith("it does not fit schema 7: ")
    assert found[5] == "it does not fit schema 7: 1 bytes are left over"
    assert found[6] == "schema 10 is not that of a record: it holds 'UA'"
    assert found[7] == "its schema is one of JSON, and not of Avro"
    assert found[8].startswith("it does not fit schema 12: ")
    assert found[9] == "column 'delay' is int64 and cannot hold 'four' of type str"


def test_schemas_may_refer_to_others(registry: SmallRegistry) -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "gate", "type": "string"}]}
    flight = {"type": "record", "name": "Flight", "fields": [{"name": "place", "type": "Place"}]}
    refers = [{"name": "Place", "subject": "places/value", "version": 3}]
    registry.answers["/subjects/places%2Fvalue/versions/3"] = registry.answers["/schemas/ids/7"]
    registry.register(20, place)
    registry.answers["/subjects/places%2Fvalue/versions/3"] = registry.answers["/schemas/ids/20"]
    registry.register(21, flight, references=refers)
    whole = {**flight, "fields": [{"name": "place", "type": place}]}
    columns = pa.schema({"place": pa.struct({"gate": pa.string()})})
    assert rows(registry, [encoded(21, whole, {"place": {"gate": "B7"}})], columns) == [{"place": {"gate": "B7"}}]


def test_values_of_all_kinds_of_avro_are_read(registry: SmallRegistry) -> None:
    kinds: dict[str, tuple[Any, pa.DataType, Any]] = {
        "at": ({"type": "long", "logicalType": "timestamp-millis"}, pa.timestamp("us", "UTC"), dt.datetime.now(dt.UTC)),
        "day": ({"type": "int", "logicalType": "date"}, pa.date32(), dt.date(2013, 1, 1)),
        "price": (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            pa.decimal128(9, 2),
            decimal.Decimal("4.50"),
        ),
        "id": ({"type": "string", "logicalType": "uuid"}, pa.string(), uuid.UUID(int=5)),
        "kind": ({"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, pa.string(), "B"),
        "codes": ({"type": "array", "items": "int"}, pa.list_(pa.int32()), [4, 5]),
        "counts": ({"type": "map", "values": "long"}, pa.map_(pa.string(), pa.int64()), {"a": 1}),
        "raw": ("bytes", pa.binary(), b"\xff"),
        "share": ("double", pa.float64(), 0.5),
        "yes": ("boolean", pa.bool_(), True),
    }
    fields = [{"name": name, "type": kind} for name, (kind, _, _) in kinds.items()]
    schema = {"type": "record", "name": "All", "fields": fields}
    registry.register(30, schema)
    columns = pa.schema({name: kind for name, (_, kind, _) in kinds.items()})
    given = {name: value for name, (_, _, value) in kinds.items()}
    given["at"] = given["at"].replace(microsecond=5_000)
    [row] = rows(registry, [encoded(30, schema, given)], columns)
    assert row == {**given, "id": str(given["id"]), "counts": [("a", 1)]}


def test_a_registry_that_does_not_answer_is_a_transient_error(registry: SmallRegistry) -> None:
    registry.answers["/schemas/ids/7"] = 503, {}
    with pytest.raises(ConnectionError, match="answers 503 to /schemas/ids/7"):
        rows(registry, [encoded(7, DELAYS, {"carrier": "UA", "delay": 4})])
    with pytest.raises(ConnectionError, match=r"http://127.0.0.1:1 does not answer"):
        Registry("http://127.0.0.1:1").schema(7)
    with pytest.raises(dm.SourceError, match=r"http://127.0.0.1:1 does not answer .*\nHint: make sure"):
        Registry("http://127.0.0.1:1").check()


def test_the_login_is_sent_and_never_shown(registry: SmallRegistry) -> None:
    options = {"url": registry.url, "basic.auth.user.info": "ann:s3cret"}
    Registry.of(options).check()
    assert registry.logins == [f"Basic {base64.b64encode(b'ann:s3cret').decode()}"]
    registry.answers["/schemas/types"] = 401, {}
    with pytest.raises(dm.SourceError, match="does not let the user in: 401") as raised:
        Registry.of(options).check()
    read = dm.io.ReadKafka(
        "delays", bootstrap_servers="localhost:1", value="avro", schema=COLUMNS, schema_registry=options
    )
    assert "s3cret" not in f"{raised.value}{read.source!r}{read.source.describe()}"
