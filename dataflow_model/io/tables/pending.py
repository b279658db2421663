"""The rows of a task on their way to a table, in columns, and what those of all tasks change in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dataflow_model.io.tables.table_values import column_values
from dataflow_model.plan.columns.orders import OrderColumns

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_LAST: Final = 2**63 - 1


@attrs.frozen(eq=False)
class PendingColumns:
    """The rows of one task, for the commit.

    Attributes:
        schema: the columns, as given or as this task has inferred them; `None` where no row has a shape.
        rows: the rows in the stream format of Arrow; empty if there are none.
        orders: the orders of the rows.
        retractions: the rows that are retractions.
        dead_letters: each row as text, the reason, and whether it is a retraction.
    """

    schema: pa.Schema | None
    rows: bytes
    orders: OrderColumns
    retractions: list[int]
    dead_letters: list[tuple[str, str, bool]]

    @classmethod
    def of(
        cls,
        schema: pa.Schema | None,
        batches: Sequence[pa.RecordBatch],
        orders: OrderColumns,
        retracted: NDArray[np.bool_],
        dead_letters: list[tuple[str, str, bool]],
    ) -> PendingColumns:
        """Return rows in batches as a message."""
        sink = pa.BufferOutputStream()
        if orders.count:
            with pa.ipc.new_stream(sink, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        return cls(schema, sink.getvalue().to_pybytes(), orders, np.flatnonzero(retracted).tolist(), dead_letters)

    @property
    def count(self) -> int:
        """The number of rows."""
        return self.orders.count

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        return pa.ipc.open_stream(self.rows).read_all()

    def retracted(self) -> NDArray[np.bool_]:
        """Return for each row whether it is a retraction."""
        marks = np.zeros(self.count, np.bool_)
        marks[self.retractions] = True
        return marks

    def has_nulls(self, *, or_nan: bool) -> bool:
        """Return whether there are nulls, or NaN as well if the database stores it as null."""
        return bool(self.count) and any(_nulls(column, or_nan=or_nan).any() for column in self.table().columns)

    def without_nulls(self, required: Iterable[str], *, or_nan: bool) -> PendingColumns:
        """Return a copy in which the rows with a null in a required column are dead letters."""
        if not self.count:
            return self
        table, retracted, letters = self.table(), self.retracted(), list(self.dead_letters)
        lacking: dict[int, str] = {}
        columns = dict(zip(table.column_names, table.columns, strict=True))
        for name in required:
            column = columns.get(name, pa.nulls(table.num_rows))
            for row in np.flatnonzero(_nulls(column, or_nan=or_nan)).tolist():
                lacking.setdefault(row, name)
        if not lacking:
            return self
        for row, name in sorted(lacking.items()):
            values = {
                field.name: column_values(table[field.name].slice(row, 1).combine_chunks())[0] for field in table.schema
            }
            reason = f"column {name!r} of the table must not be null, and the row has {values.get(name)!r}"
            letters.append((repr(values), reason, bool(retracted[row])))
        usable = [row for row in range(table.num_rows) if row not in lacking]
        batches = table.take(pa.array(usable, pa.int64())).to_batches()
        return self.of(self.schema, batches, self.orders.taken(np.array(usable, np.int64)), retracted[usable], letters)


@attrs.frozen
class PendingRows:
    """The same row by row, as checkpoints of earlier versions may hold it.

    Attributes:
        schema: the columns.
        names: of the columns.
        rows: the order of each row, whether it is a retraction, and its values.
        dead_letters: each row as text, the reason, and whether it is a retraction.
    """

    schema: pa.Schema | None
    names: list[str]
    rows: list[tuple[tuple[Any, ...], bool, tuple[Any, ...]]]
    dead_letters: list[tuple[str, str, bool]]

    def columns(self) -> PendingColumns:
        """Return the rows in columns."""
        batches: list[pa.RecordBatch] = []
        if self.rows and self.schema is not None:
            values = zip(*(row for _, _, row in self.rows), strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(values, self.schema, strict=True)]
            batches = [pa.RecordBatch.from_arrays(arrays, schema=self.schema)]
        retracted = np.array([is_retraction for _, is_retraction, _ in self.rows], np.bool_)
        return PendingColumns.of(
            self.schema, batches, OrderColumns.of(row[0] for row in self.rows), retracted, self.dead_letters
        )


class NetChanges(NamedTuple):
    """What a commit changes in a table.

    Attributes:
        upserts: whole rows, in emission order, none of which replaces another one.
        deletes: what identifies the rows to delete.
    """

    upserts: pa.Table
    deletes: pa.Table


def net_changes(
    messages: Iterable[PendingColumns], schema: pa.Schema, keys: Sequence[str], identity: Sequence[str]
) -> NetChanges:
    """Return what stands of the rows of a commit.

    Args:
        messages: the rows of the tasks.
        schema: all columns.
        keys: the names of the columns that tell rows apart.
        identity: those that identify the row that a retraction deletes: the keys, or also the columns of windows, if
            the row of the newest window is the one that stands.

    Example:
        >>> batch = pa.record_batch({"key": ["a", "b", "a"], "value": [1, 2, 3]})
        >>> retracted = np.array([False, True, False])
        >>> message = PendingColumns.of(batch.schema, [batch], OrderColumns(3, (np.array([2, 1, 0]),)), retracted, [])
        >>> changes = net_changes([message], batch.schema, ["key"], ["key"])
        >>> changes.upserts.to_pylist(), changes.deletes.to_pylist()
        ([{'key': 'a', 'value': 1}], [{'key': 'b'}])
    """
    messages = [message for message in messages if message.count]
    nullable = pa.schema([field.with_nullable(nullable=True) for field in schema])
    rows = pa.concat_tables([nullable.empty_table(), *(_in_types(message.table(), nullable) for message in messages)])
    emitted = OrderColumns.joined([message.orders for message in messages]).ascending()
    retracted = np.concatenate([np.zeros(0, np.bool_), *(message.retracted() for message in messages)])
    if emitted is not None:
        rows, retracted = rows.take(pa.array(emitted)), retracted[emitted]
    last = _last_of_each(rows, identity)
    deletes = rows.select(list(identity)).take(pa.array(last[retracted[last]]))
    standing = last[~retracted[last]]
    upserts = rows if len(standing) == rows.num_rows else rows.take(pa.array(standing))
    if len(identity) > len(keys):
        ends = upserts["window_end"].combine_chunks().cast(pa.int64()).fill_null(_LAST).to_numpy()
        upserts = upserts.take(pa.array(np.argsort(ends, kind="stable")))
        upserts = upserts.take(pa.array(_last_of_each(upserts, keys)))
    return NetChanges(upserts, deletes)


def _in_types(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in other types that can hold them; a column that they do not have is null."""
    if table.schema.equals(schema):
        return table
    present = frozenset(table.column_names)
    columns = [
        table[field.name].cast(field.type, safe=False)
        if field.name in present
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _last_of_each(rows: pa.Table, names: Sequence[str]) -> NDArray[np.int64]:
    """Return the last row of each value of some columns, ascending."""
    columns = {str(number): _comparable(rows[name]) for number, name in enumerate(names)}
    numbered = pa.table({**columns, "row": pa.array(np.arange(rows.num_rows))})
    last = numbered.group_by(list(columns), use_threads=False).aggregate([("row", "max")])
    return np.sort(last["row_max"].to_numpy())


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in which values have the same bits if they are equal."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_floating(column.type):
        return pc.call_function("add", [column.cast(pa.float64()), pa.scalar(0.0)])  # −0.0 and 0.0 are equal
    return column


def _nulls(column: Any, *, or_nan: bool) -> NDArray[np.bool_]:
    """Return which values are null, or NaN as well."""
    has_nan = or_nan and pa.types.is_floating(column.type)
    return np.asarray(pc.call_function("is_null", [column], pc.NullOptions(nan_is_null=has_nan)))
