"""The database access of a table sink: the table is created or checked, and changed in one transaction per commit.

Two tables of this package accompany the sink's table. `dataflow_model_commits` has a row for each run and sink, with
the newest sequencer that has claimed it and the last commit. The transaction of a commit locks that row first: it thus
waits for a transaction that is in progress, and then sees whether its own run has been superseded, or the commit has
been applied before; in both cases it changes nothing. `<table>_dead_letters` has the rows that did not fit.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from dataflow_model.errors import InvalidArgument, SinkError
from dataflow_model.io.sinks.json_lines import json_text
from dataflow_model.io.tables.database_urls import shown_url, without_secrets
from dataflow_model.io.tables.table_columns import columns_of, decimals_kept, is_held_as
from dataflow_model.io.tables.table_values import column_values, instants_as_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sqlalchemy.engine import Connection, Engine

    from dataflow_model.io.tables.pending import NetChanges
    from dataflow_model.io.tables.table_sinks import TableSink
    from dataflow_model.plan.endpoints.sinks import Fence

COMMITS_TABLE: Final = "dataflow_model_commits"
_ROWS_AT_ONCE: Final = 10_000
_BOUND: Final = "its_"
_SQLITE_PATIENCE: Final = 60.0
"""Seconds to wait for another writer's transaction; PostgreSQL waits by itself."""


class TableStore:
    """The operations of a table sink on its database.

    Args:
        sink: the sink.
    """

    def __init__(self, sink: TableSink) -> None:
        self._sink = sink
        url = self._url = sa.make_url(sink.url)
        options: dict[str, Any] = {"timeout": _SQLITE_PATIENCE} if url.get_backend_name() == "sqlite" else {}
        try:
            self._engine: Engine = sa.create_engine(
                url, poolclass=NullPool, json_serializer=json_text, connect_args=options
            )
        except ModuleNotFoundError as error:
            raise InvalidArgument(
                f"{sink.label!r} writes to {shown_url(url)}, whose driver is not installed: {error}",
                hint=f"run pip install {error.name}",
            ) from error
        except (ArgumentError, TypeError, ValueError) as error:
            raise InvalidArgument(
                f"{sink.label!r} cannot use the url {shown_url(url)}: {without_secrets(str(error), url)}",
                hint="fix the driver's name or the options after the '?'",
            ) from None
        self._shown = f"table {sink.table!r} of {shown_url(url)}"
        self._metadata = sa.MetaData(schema=sink.database_schema)
        self._commits = sa.Table(
            COMMITS_TABLE,
            self._metadata,
            sa.Column("run", sa.Text, primary_key=True),
            sa.Column("sink", sa.Text, primary_key=True),
            sa.Column("sequencer", sa.BigInteger, nullable=False),
            sa.Column("last_commit", sa.Text, nullable=False),
        )
        self._dead_letters = sa.Table(
            f"{sink.table_name}_dead_letters",
            self._metadata,
            sa.Column("commit_id", sa.Text),
            sa.Column("label", sa.Text),
            sa.Column("row", sa.Text),
            sa.Column("reason", sa.Text),
            sa.Column("is_retraction", sa.Boolean),
        )

    def check(self) -> None:
        """Raise `SinkError` if the database cannot be reached, or the table does not accept the rows."""
        try:
            self._engine.connect().close()
        except (SQLAlchemyError, TypeError, ValueError) as error:  # drivers refuse an option by built-in errors
            raise SinkError(
                f"{self._sink.label!r} cannot reach the database of {self._shown}: {self._said(error)}",
                hint="start the database, or fix the url",
            ) from error
        with self._explained():
            columns = self._there()
            if columns is not None:
                self._check_there(columns)

    def prepare(self, schema: pa.Schema | None) -> None:
        """Create the tables that are missing, the sink's own if its columns are known; check an existing one."""
        with self._explained():
            self._metadata.create_all(self._engine, [self._commits, self._dead_letters])
            if schema is None:
                return
            table, columns = self._table(schema), self._there()
            if columns is None:
                table.create(self._engine)
            else:
                self._check_there(columns, table)

    def required_columns(self) -> list[str]:
        """Return the columns of the existing table that must not be null."""
        with self._explained():
            return [name for name, column in (self._there() or {}).items() if not column["nullable"]]

    def claim(self, fence: Fence) -> None:
        """Reject writes of older starts of the run from now on.

        Raises:
            SupersededRun: when a newer one has.
        """
        with self._explained(), self._engine.begin() as connection:
            self._take(connection, fence.run_id, fence)

    def forget(self, run: str) -> None:
        """Remove the row of a run that is over."""
        with self._explained(), self._engine.begin() as connection:
            connection.execute(sa.delete(self._commits).where(*self._mine(run)))

    def last_commit(self, run: str) -> str:
        """Return the id of a run's last commit; empty if there is none."""
        query = sa.select(self._commits.c.last_commit).where(*self._mine(run))
        with self._explained(), self._engine.connect() as connection:
            return str(connection.execute(query).scalar() or "")

    def apply(
        self,
        commit_id: str,
        changes: NetChanges | None,
        dead_letters: Sequence[Mapping[str, Any]],
        *,
        is_whole: bool,
    ) -> None:
        """Change the table in one transaction.

        Args:
            commit_id: the commit.
            changes: of the rows; `None` where there are dead letters only.
            dead_letters: the rows that did not fit.
            is_whole: whether this is the whole commit, so that repeating it changes nothing.

        Raises:
            SupersededRun: when a newer start of the run has claimed the table.
            SinkError: when the database refuses.
        """
        fence = self._sink.fence
        run = commit_id if fence is None else fence.run_id
        with self._explained(), self._engine.begin() as connection:
            if self._take(connection, run, fence) == commit_id and is_whole:
                return
            if changes is not None:
                table = self._table(changes.upserts.schema)
                conditions = [_is_same(table.c[name], _bound(table.c[name])) for name in self._sink.identity]
                self._execute(connection, sa.delete(table).where(*conditions), table, changes.deletes, _BOUND)
                self._execute(connection, self._upsert(table), table, changes.upserts)
            _in_parts(connection, sa.insert(self._dead_letters), dead_letters)
            if is_whole:
                own_run = self._mine(run)
                connection.execute(sa.update(self._commits).where(*own_run).values(last_commit=commit_id))

    def _execute(
        self, connection: Connection, statement: sa.ClauseElement, table: sa.Table, rows: pa.Table, prefix: str = ""
    ) -> None:
        """Execute a statement for each row; its parameters are named by the columns, with a prefix.

        The driver gets the values as it needs them. Parameters of SQLAlchemy take more time than SQLite's inserts.
        """
        if not rows.num_rows:
            return
        dialect = self._engine.dialect
        compiled: Any = statement.compile(dialect=dialect, column_keys=rows.column_names)
        names = [prefix + name for name in rows.column_names]
        processors = [table.c[name].type.dialect_impl(dialect).bind_processor(dialect) for name in rows.column_names]
        for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
            part = rows.slice(start, _ROWS_AT_ONCE).combine_chunks()
            columns = {
                name: self._values(column.combine_chunks(), processor)
                for name, column, processor in zip(names, part.columns, processors, strict=True)
            }
            if compiled.positional:
                parameters: Any = list(zip(*(columns[name] for name in compiled.positiontup), strict=True))
            else:
                escaped = [compiled.escaped_bind_names.get(name, name) for name in names]
                parameters = [dict(zip(escaped, row, strict=True)) for row in zip(*columns.values(), strict=True)]
            connection.exec_driver_sql(compiled.string, parameters)

    def _values(self, column: pa.Array, processor: Callable[[Any], Any] | None) -> list[Any]:
        """Return values as the driver takes them."""
        if pa.types.is_timestamp(column.type) and self._engine.dialect.name == "sqlite":
            return instants_as_text(column)
        values = column_values(column)
        return values if processor is None else list(map(processor, values))

    def _take(self, connection: Connection, run: str, fence: Fence | None) -> str:
        """Lock the run's row and return the last commit; both statements write, so that they wait for the lock."""
        sequencer = 0 if fence is None else fence.sequencer
        row = {"run": run, "sink": self._mark, "sequencer": sequencer, "last_commit": ""}
        connection.execute(self._insert(self._commits).values(row).on_conflict_do_nothing())
        taken = connection.execute(
            sa.update(self._commits)
            .where(*self._mine(run), self._commits.c.sequencer <= sequencer)
            .values(sequencer=sequencer)
        )
        query = sa.select(self._commits.c.sequencer, self._commits.c.last_commit).where(*self._mine(run))
        newest, last_commit = connection.execute(query).one()
        if fence is not None and not taken.rowcount:
            raise fence.refusal(newest, self._shown)
        return str(last_commit)

    def _mine(self, run: str) -> tuple[sa.ColumnElement[bool], ...]:
        return self._commits.c.run == run, self._commits.c.sink == self._mark

    @property
    def _mark(self) -> str:
        """The label under which the sink notes its commits."""
        fence = self._sink.fence
        return self._sink.label if fence is None else fence.mark_of(self._sink.label)

    def _table(self, schema: pa.Schema) -> sa.Table:
        columns = columns_of(schema, self._sink.keys, self._sink.label)
        return sa.Table(self._sink.table_name, self._metadata, *columns, extend_existing=True)

    def _insert(self, table: sa.Table) -> sqlite.Insert | postgresql.Insert:
        return sqlite.insert(table) if self._engine.dialect.name == "sqlite" else postgresql.insert(table)

    def _upsert(self, table: sa.Table) -> sa.Insert:
        insert = self._insert(table)
        keys = list(self._sink.keys)
        others = {column.name: insert.excluded[column.name] for column in table.c if column.name not in keys}
        if not others:
            return insert.on_conflict_do_nothing(index_elements=keys)
        newer = _is_no_older(insert.excluded, table.c) if self._sink.keeps_newest else None
        return insert.on_conflict_do_update(index_elements=keys, set_=others, where=newer)

    def _there(self) -> dict[str, Any] | None:
        """Return the columns of the table; `None` if it does not exist."""
        inspector = sa.inspect(self._engine)
        name, schema = self._sink.table_name, self._sink.database_schema
        if not inspector.has_table(name, schema=schema):
            return None
        return {column["name"]: column for column in inspector.get_columns(name, schema=schema)}

    def _check_there(self, columns: Mapping[str, Any], table: sa.Table | None = None) -> None:
        """Raise `SinkError` if the existing table cannot hold the rows of the table that the sink would create."""
        needed = list(self._sink.keys) if table is None else [column.name for column in table.c]
        lacking = [name for name in needed if name not in columns]
        if lacking:
            raise self._refusal(f"it has no column {lacking[0]!r}; it has {', '.join(columns)}")
        if not self._is_unique():
            raise self._refusal(
                f"neither its primary key nor a unique constraint is ({', '.join(self._sink.keys)})",
                hint="create a UNIQUE INDEX on these columns, or pass the table's own key as keys=",
            )
        if table is None:
            return
        for name, column in columns.items():
            if name not in table.c:
                if not (column["nullable"] or column.get("default") or column.get("autoincrement") is True):
                    raise self._refusal(f"its column {name!r} must not be null, but the rows have no such column")
            elif not is_held_as(table.c[name].type, column["type"], self._engine.dialect):
                row_type = table.c[name].type.compile(self._engine.dialect)
                raise self._refusal(f"its column {name!r} is {column['type']}, but the rows have {row_type}")
            elif (stored := decimals_kept(column["type"])) is not None and stored < table.c[name].info["decimals"]:
                raise self._refusal(
                    f"its column {name!r} rounds to {stored} decimal places, but the rows have "
                    f"{table.c[name].info['decimals']}",
                    hint="change the type of the column, or pass a schema= with as few decimal places",
                )

    def _is_unique(self) -> bool:
        inspector = sa.inspect(self._engine)
        name, schema, keys = self._sink.table_name, self._sink.database_schema, set(self._sink.keys)
        if set(inspector.get_pk_constraint(name, schema=schema)["constrained_columns"]) == keys:
            return True
        unique = [constraint["column_names"] for constraint in inspector.get_unique_constraints(name, schema=schema)]
        indexes = [
            index
            for index in inspector.get_indexes(name, schema=schema)
            if index["unique"] and not any(option.endswith("_where") for option in index.get("dialect_options", ()))
        ]
        unique += [index["column_names"] for index in indexes]  # type: ignore[misc]
        return any(set(names) == keys for names in unique)

    def _refusal(self, why: str, hint: str = "use another table, or change this one") -> SinkError:
        return SinkError(f"{self._sink.label!r} cannot write to {self._shown}: {why}", hint=hint)

    def _said(self, error: Exception) -> str:
        """Return the message of a database's error without the statement, its values and passwords."""
        own = getattr(error, "orig", None) or error
        text = f"{type(own).__name__}: {str(own).strip().splitlines()[0] if str(own).strip() else ''}".rstrip(": ")
        return without_secrets(text, self._url)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except SQLAlchemyError as error:
            hint = "no row of this commit was written; mend the table, or end what locks it, and start the run again"
            raise self._refusal(self._said(error), hint) from error


def _is_same(column: sa.ColumnElement[Any], value: sa.ColumnElement[Any]) -> sa.ColumnElement[bool]:
    """Return the condition for equal values, for which nulls are equal too."""
    return column == value if not column.nullable else column.is_not_distinct_from(value)


def _bound(column: sa.Column[Any]) -> sa.BindParameter[Any]:
    """Return the parameter for the value of a column of the row to delete."""
    return sa.bindparam(_BOUND + column.name, type_=column.type)


def _is_no_older(row: Any, stored: Any) -> sa.ColumnElement[bool]:
    """Return the condition for a row that is of the window of the kept row, or of a newer one.

    The newer window is the one that ends later, which for null is +∞. If both end at once, they may have merged, and
    the later pane counts. A kept row without a window, which another program may have written, is always replaced.
    """
    has_no_window = stored.window_end.is_(None) & stored.window_start.is_(None)
    return sa.or_(has_no_window, row.window_end.is_(None), row.window_end >= stored.window_end)


def _in_parts(connection: Connection, statement: sa.Executable, rows: Sequence[Mapping[str, Any]]) -> None:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        connection.execute(statement, rows[start : start + _ROWS_AT_ONCE])
