"""Elements as rows: which columns an element has in a sink, and whether it fits the sink's schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa

from dataflow_model.errors import encodable, shown
from dataflow_model.io.sinks.sink_columns import PANE_FIELDS, RETRACTION_FIELD, added_fields
from dataflow_model.plan.columns.element_columns import MISSING, columns_of_values, fitted_columns, inferred_type
from dataflow_model.plan.columns.record_columns import PaneColumns, columns_of_records, values_of_records
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.plan.columns.records import Record


@attrs.frozen
class Misfit:
    """An element that does not fit the schema, the reason, and whether it is a retraction."""

    value: Any
    reason: str
    is_retraction: bool = False

    @property
    def text(self) -> str:
        """The value's whole `repr`; a short one where that fails, as with ints of thousands of digits."""
        try:
            return repr(self.value)
        except Exception:  # noqa: BLE001 - of a class of the user's it may raise anything
            return shown(self.value)


def infer_schema(records: Sequence[Record], *, panes: bool = False, retractions: bool = False) -> pa.Schema | None:
    """Return the schema of some records; a column of nulls only becomes text. `None` if there are no records.

    Example:
        >>> from dataflow_model.plan.columns.records import Record
        >>> from dataflow_model.time import EventTime
        >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
        >>> infer_schema([Record(("UA", 4), EventTime(0), GLOBAL_WINDOW, NO_FIRING)], panes=False)
        key: string
        value: int64
    """
    return infer_schema_of_values(values_of_records(records), panes=panes, retractions=retractions)


def infer_schema_of_values(values: list[Any], *, panes: bool, retractions: bool) -> pa.Schema | None:
    """Return the schema of some elements; see `infer_schema`."""
    columns, _, _ = columns_of_values(values)
    names = [name for name in columns if encodable(name) == name]  # others are no names of columns in Arrow
    if not names:
        return None
    added = added_fields(panes=panes, retractions=retractions)
    taken = {field.name for field in added}
    return pa.schema([*((name, inferred_type(columns[name])) for name in names if name not in taken), *added])


def infer_schema_of_records(
    chunks: Sequence[Sequence[Record]], *, panes: bool = False, retractions: bool = False
) -> pa.Schema | None:
    """Return what `infer_schema` would for the records of all chunks; from the types of columns, if possible."""
    added = {"panes": panes, "retractions": retractions}
    tables = [columns_of_records(records) for records in chunks]
    schemas = [None if table is None else infer_schema_of_columns(table, **added) for table in tables]
    if schemas and schemas[0] is not None and all(schema == schemas[0] for schema in schemas):
        return schemas[0]
    return infer_schema_of_values([value for records in chunks for value in values_of_records(records)], **added)


def infer_schema_of_columns(columns: pa.Table, *, panes: bool = False, retractions: bool = False) -> pa.Schema | None:
    """Return what `infer_schema_of_values` would for the values of columns; `None` if it depends on the values.

    Example:
        >>> infer_schema_of_columns(pa.table({"delay": pa.array([4], pa.int32()), "at": pa.array([5], pa.time32("s"))}))
        >>> infer_schema_of_columns(pa.table({"delay": pa.array([4], pa.int32())}))
        delay: int64
    """
    added = added_fields(panes=panes, retractions=retractions)
    types = {field.name: _type_of_values(field.type) for field in columns.schema}
    unclear = any(kind is None for kind in types.values()) or any(field.name in types for field in added)
    if unclear or any(column.null_count == len(column) for column in columns.columns):
        return None
    return pa.schema([*types.items(), *added])


def fit_batches(
    records: Sequence[Record], schema: pa.Schema, *, panes: bool, retractions: bool = False
) -> Iterator[tuple[pa.RecordBatch, list[int], list[Misfit]]]:
    """Yield the records that fit the schema as columns, the records' indices, and the records that do not fit.

    Each batch holds `BATCH_BYTES` at most, or a single row.

    A field that a record lacks is null; a field that the schema lacks, a null where there may be none, and a value that
    the column's type cannot hold without loss are misfits; so is a field of a record that has the name of a column for
    window, pane or retractions.

    Args:
        records: the records.
        schema: all columns.
        panes: whether window and pane are columns among them.
        retractions: whether `is_retraction` is.
    """
    columns, fitting, shapeless = columns_of_values(values_of_records(records), schema)
    misfits = [_misfit(records[index], reason) for index, reason in shapeless]
    bad: dict[int, str] = {}
    made = pane_arrays(records, panes=panes, retractions=retractions) if fitting else {}
    if shapeless:
        made = {name: array.take(pa.array(fitting, pa.int64())) for name, array in made.items()}
    for name in made:
        for row, value in enumerate(columns.get(name, ())):
            if value is not MISSING:
                cause = "marks retractions" if name == RETRACTION_FIELD.name else "`panes=True` adds"
                bad.setdefault(row, f"it has a field {name!r}, which is the name of the column that {cause}")
    if not schema.names:  # Arrow keeps no number of rows without columns
        bad |= dict.fromkeys(range(len(fitting)), "it has no fields, and a row must have at least one column") | bad
    start = 0
    for batch in fitted_columns({**columns, **made}, len(fitting), schema, bad):
        stop = start + batch.num_rows if schema.names else len(fitting)
        indices = fitting[start:stop]
        reasons = {row: bad[row] for row in range(start, stop) if row in bad} if bad else {}
        if reasons:
            misfits += [_misfit(records[fitting[row]], reason) for row, reason in reasons.items()]
            good = [row for row in range(start, stop) if row not in reasons]
            batch = batch.take(pa.array([row - start for row in good], pa.int64()))  # noqa: PLW2901
            indices = [fitting[row] for row in good]
        yield pa.RecordBatch.from_arrays(batch.columns, schema=schema), indices, misfits
        start, misfits = stop, []


def pane_arrays(records: Sequence[Record], *, panes: bool, retractions: bool) -> dict[str, pa.Array]:
    """Return the columns of the records' windows and panes by name, and the one that marks retractions.

    Args:
        records: the records.
        panes: whether window and pane are wanted.
        retractions: whether `is_retraction` is.
    """
    if not (panes or retractions):
        return {}
    of_records = PaneColumns.of(records)
    arrays = {RETRACTION_FIELD.name: pa.array(of_records.retractions)} if retractions else {}
    if not panes:
        return arrays
    bounds = [
        pa.array(column, mask=column == int(infinite)).cast(field.type)
        for field, column, infinite in zip(
            PANE_FIELDS[:2], (of_records.starts, of_records.ends), (MIN_TIMESTAMP, MAX_TIMESTAMP), strict=True
        )
    ]
    of_pane = [pa.array(of_records.indexes), of_records.timings]
    return arrays | dict(zip([field.name for field in PANE_FIELDS], [*bounds, *of_pane], strict=True))


def _type_of_values(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that is inferred from values of a type, `None` where that may depend on the values."""
    if pa.types.is_integer(kind) and not pa.types.is_uint64(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return kind if pa.types.is_boolean(kind) else None


def _misfit(record: Record, reason: str) -> Misfit:
    return Misfit(record.value, reason, record.is_retraction)
