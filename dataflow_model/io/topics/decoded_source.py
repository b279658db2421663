"""Topics of Kafka whose values are decoded: their fields are columns, beside those of the message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.topics.decoding.values import in_columns
from dataflow_model.io.topics.source import COLUMNS, KafkaSource
from dataflow_model.overriding import override
from dataflow_model.plan.columns.nested import without_views
from dataflow_model.plan.columns.source_columns import BAD_FIELD, bad_column_index

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dataflow_model.io.topics.decoding.values import ValueFormat

_TOMBSTONE: Final = pa.field("is_tombstone", pa.bool_())
_OF_MESSAGE: Final = pa.schema([*(field for field in COLUMNS if field.name != "value"), _TOMBSTONE])
"""The columns of a row that are not fields of the value."""
_TAKEN: Final = frozenset(_OF_MESSAGE.names)
_PREFIX: Final = "value_"


def column_of(field: str) -> str:
    """Return the name of the column for a field of a value.

    Example:
        >>> column_of("delay"), column_of("timestamp")
        ('delay', 'value_timestamp')
    """
    return f"{_PREFIX}{field}" if field in _TAKEN else field


def fields_among(columns: pa.Schema) -> pa.Schema:
    """Return the fields of a value, given columns of which some may be those of the message.

    Example:
        >>> fields_among(pa.schema({"delay": pa.int64(), "offset": pa.int64(), "value_key": pa.string()})).names
        ['delay', 'key']
    """
    names = {f"{_PREFIX}{name}": name for name in _OF_MESSAGE.names}
    own = [field for field in columns if field.name not in _TAKEN]
    return pa.schema([field.with_name(names.get(field.name, field.name)) for field in own])


def _checked_fields(value: Any) -> pa.Schema:
    if not isinstance(value, pa.Schema):
        raise InvalidType(
            f"`schema` must be a schema of Arrow, got {value!r}", hint="pass schema=pa.schema({'delay': pa.int64()})"
        )
    names = list(map(column_of, value.names))
    if not names or len(set(names)) < len(names):
        raise InvalidArgument(
            f"`schema` must name at least one field of the values, each once, got {value.names}",
            hint="pass schema=pa.schema({'delay': pa.int64()})",
        )
    return without_views(pa.schema([field.with_nullable(nullable=True) for field in value]))


@attrs.frozen(kw_only=True)
class DecodedSource(KafkaSource):
    """Topics whose values are decoded; a value that cannot be is a bad row.

    Attributes:
        fields: the names and types of the fields of values.
        form: how the bytes of a value become fields.
    """

    fields: pa.Schema = attrs.field(converter=_checked_fields)
    form: ValueFormat
    is_typed: ClassVar[bool] = False

    @property
    def columns(self) -> pa.Schema:
        """The fields of the value, and what else a message has."""
        return pa.schema([*(field.with_name(column_of(field.name)) for field in self.fields), *_OF_MESSAGE])

    def bound(self) -> Self:
        """Return the source, once the topics and the registry of schemas have been found."""
        super().bound()
        self.form.check()
        return self

    @override
    def schema(self) -> pa.Schema:
        return self.columns

    def stated_columns(self) -> pa.Schema:
        """Return the columns, with whose types a checkpoint continues."""
        return self.columns

    def project(self, columns: Collection[str]) -> Self:
        """Return the source itself: any field may make a bad row."""
        del columns
        return self

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read and decode the committed rows with offsets `[start, stop)` of a partition."""
        for batch in super().read(origin, start, stop):
            values = batch.column("value")
            table = in_columns(values, self.form, self.fields)
            marked = bad_column_index(table.schema) is not None
            names = [name for name in _OF_MESSAGE.names if name != _TOMBSTONE.name]
            arrays = [*table.columns[: len(self.fields)], *(batch.column(name) for name in names), values.is_null()]
            fields = list(self.columns)
            if marked:
                arrays, fields = [*arrays, table.column(-1)], [*fields, BAD_FIELD]
            yield from pa.table(arrays, schema=pa.schema(fields)).combine_chunks().to_batches()
