"""Values in Avro as Confluent's serializers write them: a zero byte, the id of their schema, and the data."""

from __future__ import annotations

import functools
import importlib.util
import io
import json
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import explain, shown
from dataflow_model.io.topics.decoding.values import BadValueError, FunctionValues, ValueFormat

if TYPE_CHECKING:
    import pyarrow as pa

    from dataflow_model.io.topics.decoding.registry import Registry, Schema

_HEAD: Final = 5
"""The number of bytes in front of the data."""


@attrs.frozen
class AvroValues(ValueFormat):
    """Values that each are a record of Avro; a field that its schema lacks is null, and others are ignored.

    Attributes:
        registry: has the schemas.

    Raises:
        ModuleNotFoundError: without fastavro.
    """

    registry: Registry

    def __attrs_post_init__(self) -> None:
        """Check that there is a decoder."""
        if importlib.util.find_spec("fastavro") is None:
            raise ModuleNotFoundError(
                explain("Avro needs fastavro, which is not installed", hint="run pip install 'dataflow-model[kafka]'"),
                name="fastavro",
            )

    def check(self) -> None:
        """Check that the registry answers."""
        self.registry.check()

    def columns_of(self, values: pa.Array, columns: pa.Schema) -> pa.Table:
        """Decode each value by its own schema."""
        return FunctionValues(self._record, (ConnectionError,), is_exact=False).columns_of(values, columns)

    def _record(self, value: bytes) -> Mapping[str, Any]:
        import fastavro

        if len(value) < _HEAD or value[0]:
            raise BadValueError("it does not begin with a zero byte and the id of a schema")
        number = int.from_bytes(value[1:_HEAD], "big")
        schema = self.registry.schema(number)
        if schema is None:
            raise BadValueError(f"the schema registry {self.registry.url} has no schema with the id {number}")
        data = io.BytesIO(value)
        data.seek(_HEAD)
        try:
            record: Any = fastavro.schemaless_reader(data, _parsed(schema), None)
        except BadValueError:
            raise
        except Exception as error:
            raise BadValueError(f"it does not fit schema {number}: {type(error).__name__}: {error}") from error
        if data.tell() != len(value):
            raise BadValueError(f"it does not fit schema {number}: {len(value) - data.tell()} bytes are left over")
        if not isinstance(record, Mapping):
            raise BadValueError(f"schema {number} is not that of a record: it holds {shown(record)}")
        return {name: str(inner) if isinstance(inner, uuid.UUID) else inner for name, inner in record.items()}


@functools.lru_cache(maxsize=1024)
def _parsed(schema: Schema) -> Any:
    """Return a schema as the decoder takes it."""
    import fastavro

    if schema.kind != "AVRO":
        raise BadValueError(f"its schema is one of {schema.kind}, and not of Avro")
    named: dict[str, Any] = {}
    for other in _all_others(schema):
        fastavro.parse_schema(json.loads(other.text), named_schemas=named)
    return fastavro.parse_schema(json.loads(schema.text), named_schemas=named)


def _all_others(schema: Schema) -> list[Schema]:
    """Return the schemas to which one refers, each once and after those that it needs itself."""
    found: dict[Schema, None] = {}
    for other in schema.others:
        found.update(dict.fromkeys([*_all_others(other), other]))
    return list(found)
