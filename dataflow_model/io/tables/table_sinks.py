"""A table of a database as a sink: one row for each key, changed in one transaction for each commit."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.sinks.cast_columns import cast_columns
from dataflow_model.io.sinks.column_sinks import ColumnSink
from dataflow_model.io.sinks.element_rows import Misfit, fit_batches, infer_schema_of_records, pane_arrays
from dataflow_model.io.sinks.sink_columns import checked_schema, columns_text, unified_schema
from dataflow_model.io.tables.database_urls import checked_url, location_of
from dataflow_model.io.tables.pending import PendingColumns, PendingRows, net_changes
from dataflow_model.io.tables.table_values import misfits_of
from dataflow_model.plan.columns.orders import OrderColumns
from dataflow_model.plan.columns.record_columns import columns_of_records, orders_of_records, retractions_of_records
from dataflow_model.plan.endpoints.outcomes import Reader
from dataflow_model.plan.endpoints.sinks import KnownCommits, SinkWriter
from dataflow_model.values import pickles

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.endpoints.sinks import Fence

_WINDOW_COLUMNS: Final = ("window_start", "window_end")
"""The columns that tell windows apart."""


def _checked_keys(value: Any) -> tuple[str, ...]:
    keys = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, Iterable) else (value,)
    if not all(isinstance(key, str) for key in keys):
        raise InvalidType(f"`keys` must be names of columns, got {value!r}", hint="pass keys='key', for example")
    if not keys or not all(keys) or len(set(keys)) < len(keys):
        raise InvalidArgument(
            f"`keys` must be one column or several, each once, got {value!r}",
            hint="pass keys='key', or with panes=True keys=('key', 'window_start')",
        )
    return keys


@attrs.frozen(kw_only=True)
class TableSink(ColumnSink):
    """A table that holds one row for each value of its keys: the last one in emission order that is not retracted.

    With the columns of windows in the table, but none of them among the keys, it is the last one of the newest window.

    Attributes:
        url: of the database.
        table: the table's name, with that of its schema in front if it has one.
        keys: the columns that tell rows apart.
        schema: the rows' columns, those of `panes` apart; `None` means inferred, in a stream from its
            first commit.
        panes: whether window and pane are columns too.
        upsert: `"replace"` if the row that is emitted last stands, whatever window and pane it is of.
        label: what dead letters and the bookkeeping call the transform.
        fence: the start of a run that writes.
    """

    url: str = attrs.field(converter=checked_url, repr=False)
    table: str
    keys: tuple[str, ...] = attrs.field(converter=_checked_keys)
    schema: pa.Schema | None = attrs.field(default=None, converter=checked_schema, repr=False)
    panes: bool = False
    upsert: Literal["replace"] | None = None
    label: str = attrs.field(default="WriteTable", repr=False)
    fence: Fence | None = attrs.field(default=None, repr=False)

    def describe(self) -> str:
        """Return how users write it, without the URL, which may hold a password."""
        panes = ", panes=True" if self.panes else ""
        upsert = "" if self.upsert is None else f", upsert={self.upsert!r}"
        return f"WriteTable(…, table={self.table!r}, keys={self.keys!r}{panes}{upsert})"

    def __attrs_post_init__(self) -> None:
        """Check the table's name, and keys and columns against each other."""
        table: Any = self.table
        if not isinstance(table, str):
            raise InvalidType(f"`table` must be a name, got {table!r}", hint="use table='delays', for example")
        if not table.strip("."):
            raise InvalidArgument(f"`table` must be a name, got {self.table!r}", hint="use table='delays', for example")
        if self.upsert not in (None, "replace"):  # not in a set, as what is given may have no hash
            raise InvalidArgument(
                f"`upsert` must be 'replace' or None, got {self.upsert!r}",
                hint="leave it out, so that only panes replace a row that make the result right",
            )
        if self.full_schema is not None:
            from dataflow_model.io.tables.table_columns import check_columns

            is_sqlite = self.url.partition(":")[0].startswith("sqlite")
            check_columns(self.full_schema, self.keys, self.label, ignores_case=is_sqlite)

    @property
    def table_name(self) -> str:
        """The table's own name."""
        return self.table.rpartition(".")[2]

    @property
    def database_schema(self) -> str | None:
        """The name of the part of the database that has the table, if one is given."""
        return self.table.rpartition(".")[0] or None

    @property
    def keeps_newest(self) -> bool:
        """Whether a row is replaced, and deleted, only by its own window and newer ones."""
        return self.panes and self.upsert is None and set(_WINDOW_COLUMNS).isdisjoint(self.keys)

    def reader(self, *, has_window: bool, keeps_windows: bool) -> Reader:
        """Return which rows the table holds: one for each pane, window or key."""
        columns = set(self.keys) if self.panes and keeps_windows else set()
        if self.upsert == "replace":
            return Reader.REPLACED_ROW
        if has_window or not columns.isdisjoint(_WINDOW_COLUMNS):
            return Reader.ROW_OF_PANE if "pane_index" in columns else Reader.ROW_OF_WINDOW
        knows_windows = self.panes and keeps_windows and columns.isdisjoint({"pane_index", "pane_timing"})
        return Reader.NEWEST_ROW if knows_windows else Reader.ROW

    def check(self) -> None:
        """Raise `SinkError` if the database cannot be reached or the table cannot take the rows; makes a new one."""
        store = self._store()
        store.check()
        store.prepare(self.full_schema)

    def destination(self) -> Mapping[str, object]:
        """Return the database, without the user and what must stay secret, the table, its keys and the columns."""
        upsert = {} if self.upsert is None else {"upsert": self.upsert}
        return upsert | {
            "database": location_of(self.url),
            "table": self.table,
            "keys": self.keys,
            "panes": self.panes,
            "columns": columns_text(self.schema),
        }

    def fenced(self, fence: Fence) -> TableSink:
        """Return the sink as one start of a run uses it."""
        return attrs.evolve(self, fence=fence)

    def claim(self) -> None:
        """Reject writes of older starts of the run from now on."""
        if self.fence is not None:
            self._store().claim(self.fence)

    def commits_of(self, run_id: str) -> KnownCommits:
        """Return the last commit of a run in the table."""
        last_commit = self._store().last_commit(run_id)
        return KnownCommits([last_commit] if last_commit else [])

    def open(self, commit_id: str, task_id: str) -> TableSinkWriter:
        """Return a writer that keeps one task's rows and sends them to the commit in its message."""
        del commit_id, task_id
        return TableSinkWriter(self)

    def open_weak(self, commit_id: str, part: str) -> TableSinkWriter | None:
        """Return a writer that commits its part in a transaction of its own; `None` if the columns are unknown."""
        del part
        return None if self.schema is None else _WeakTableWriter(self, commit_id)

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Apply the tasks' rows in emission order and record the commit, in one transaction.

        Raises:
            SupersededRun: when a newer start of the run has claimed the table.
            SinkError: if the database reports an error, or the columns that tasks have inferred are incompatible.
        """
        self.apply(commit_id, _opened(messages), is_whole=True)

    def apply(self, commit_id: str, pending: Sequence[PendingColumns], *, is_whole: bool) -> None:
        """Apply rows; `is_whole` if they are the whole commit, so that repeating the commit changes nothing."""
        if not any(message.count or message.dead_letters for message in pending):
            return
        schema = self.full_schema
        if schema is None:
            schemas = [message.schema for message in pending if message.schema is not None]
            schema = unified_schema(schemas, self.label) if schemas else None
            attrs.evolve(self, schema=schema, panes=False)  # which checks the columns
        store = self._store()
        if self.schema is None:
            store.prepare(schema)
        pending = self._fitting(pending)
        letters = [
            {"commit_id": commit_id, "label": self.label, "row": row, "reason": reason, "is_retraction": is_retraction}
            for message in pending
            for row, reason, is_retraction in message.dead_letters
        ]
        changes = None if schema is None else net_changes(pending, schema, self.keys, self.identity)
        store.apply(commit_id, changes, letters, is_whole=is_whole)

    def forget(self, commit_id: str) -> None:
        """Remove the row of a bounded run from the table of commits; that of a stream is only ever replaced."""
        if self.fence is None:
            self._store().forget(commit_id)

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Do nothing: nothing is written outside the messages."""

    def counts(self, messages: Sequence[bytes]) -> Mapping[str, int]:
        """Return the numbers of `rows`, including retractions, and of `dead_letters`."""
        pending = self._fitting(_opened(messages))
        return {
            "rows": sum(message.count for message in pending),
            "dead_letters": sum(len(message.dead_letters) for message in pending),
        }

    def _fitting(self, pending: Sequence[PendingColumns]) -> list[PendingColumns]:
        """Return the rows; those with a null that the existing table does not allow become dead letters."""
        or_nan = self.url.startswith("sqlite")  # which stores it as null
        shapes = {tuple(message.schema.names) for message in pending if message.count and message.schema is not None}
        if len(shapes) < 2 and not any(message.has_nulls(or_nan=or_nan) for message in pending):  # noqa: PLR2004
            return list(pending)
        required = self._store().required_columns()
        return [message.without_nulls(required, or_nan=or_nan) for message in pending]

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that identify the row that a retraction deletes: the keys, or keys and window."""
        return (*self.keys, *_WINDOW_COLUMNS) if self.keeps_newest else self.keys

    def _store(self) -> Any:
        from dataflow_model.io.tables.table_store import TableStore

        return TableStore(self)


class TableSinkWriter(SinkWriter):
    """Collects one task's rows in columns, and fits them to the types of these in the task itself."""

    def __init__(self, sink: TableSink) -> None:
        self._sink = sink
        self._schema = _with_keys(sink.full_schema, sink.keys)
        self._unseen: list[Sequence[Record]] = []
        self._batches: list[pa.RecordBatch] = []
        self._orders: list[OrderColumns] = []
        self._retracted: list[NDArray[np.bool_]] = []
        self._dead_letters: list[tuple[str, str, bool]] = []

    def write(self, records: Sequence[Record]) -> None:
        """Keep records; those that do not fit go to the dead letters."""
        if self._schema is None:
            self._unseen.append(records)
        elif records:
            self._fit(records, self._schema)

    def close(self) -> bytes:
        """Return the message for the commit."""
        return pickles.dump(self._pending())

    def abort(self) -> None:
        """Forget the rows."""
        self._unseen, self._batches, self._orders, self._retracted, self._dead_letters = [], [], [], [], []

    def _pending(self) -> PendingColumns:
        if self._unseen:
            unseen, self._unseen = self._unseen, []
            self._schema = _with_keys(infer_schema_of_records(unseen, panes=self._sink.panes), self._sink.keys)
            for records in unseen:
                self._fit(records, pa.schema([]) if self._schema is None else self._schema)
        retracted = np.concatenate([np.zeros(0, np.bool_), *self._retracted])
        return PendingColumns.of(
            self._schema, self._batches, OrderColumns.joined(self._orders), retracted, self._dead_letters
        )

    def _fit(self, records: Sequence[Record], schema: pa.Schema) -> None:
        if self._fit_columns(records, schema):
            return
        for batch, indices, misfits in fit_batches(records, schema, panes=self._sink.panes):
            kept = [records[index] for index in indices]
            retracted = np.array([record.is_retraction for record in kept], np.bool_)
            self._keep(batch, kept, orders_of_records(kept), retracted, misfits)

    def _fit_columns(self, records: Sequence[Record], schema: pa.Schema) -> bool:
        """Keep records whose values are columns of the schema's types; return whether they are."""
        columns = columns_of_records(records)
        if columns is None or not columns.num_columns:
            return False
        added = pane_arrays(records, panes=self._sink.panes, retractions=False)
        if not added.keys().isdisjoint(columns.column_names):
            return False
        table = pa.table(dict(zip(columns.column_names, columns.columns, strict=True)) | added)
        fitting = cast_columns(table, schema)
        if fitting is None:
            return False
        orders, retracted, start = orders_of_records(records), retractions_of_records(records), 0
        for batch in fitting.to_batches():
            stop = start + batch.num_rows
            of_batch = orders if batch.num_rows == orders.count else orders.taken(np.arange(start, stop))
            self._keep(batch, records, of_batch, retracted[start:stop], [], start=start)
            start = stop
        return True

    def _keep(
        self,
        batch: pa.RecordBatch,
        records: Sequence[Record],
        orders: OrderColumns,
        retracted: NDArray[np.bool_],
        misfits: list[Misfit],
        *,
        start: int = 0,
    ) -> None:
        """Keep rows, but for those that databases cannot hold; the first is that of the record with number `start`."""
        bad: dict[int, str] = {}
        for column, field in zip(batch.columns, batch.schema, strict=True):
            for row, reason in misfits_of(column, field, is_key=field.name in self._sink.keys).items():
                bad.setdefault(row, reason)
        if bad:
            for row, reason in sorted(bad.items()):
                misfits.append(Misfit(records[start + row].value, reason, bool(retracted[row])))
            good = [row for row in range(batch.num_rows) if row not in bad]
            batch, retracted = batch.take(pa.array(good, pa.int64())), retracted[good]
            orders = orders.taken(np.array(good, np.int64))
        self._batches.append(batch)
        self._orders.append(orders)
        self._retracted.append(retracted)
        self._dead_letters += [(misfit.text, misfit.reason, misfit.is_retraction) for misfit in misfits]


class _WeakTableWriter(TableSinkWriter):
    """Collects one part of a micro-batch, and writes it to the table on closing."""

    def __init__(self, sink: TableSink, commit_id: str) -> None:
        super().__init__(sink)
        self._commit_id = commit_id

    def close(self) -> bytes:
        pending = self._pending()
        self._sink.apply(self._commit_id, [pending], is_whole=False)
        return pickles.dump(pending)


def _with_keys(schema: pa.Schema | None, keys: Sequence[str]) -> pa.Schema | None:
    """Return the schema with keys that may not be null."""
    if schema is None:
        return None
    return pa.schema([field.with_nullable(nullable=False) if field.name in keys else field for field in schema])


def _opened(messages: Sequence[bytes]) -> list[PendingColumns]:
    opened = [pickles.load(message) for message in messages]
    return [message.columns() if isinstance(message, PendingRows) else message for message in opened]
