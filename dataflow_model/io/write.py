"""Writing: the transforms that users call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, is_typeddict

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.arguments import with_label_hints
from dataflow_model.io.sinks.bundles import ArrowTableSink, CollectSink, ForeachBundleSink
from dataflow_model.io.sinks.file_sinks import CsvSink, JsonSink, ParquetSink, TextSink
from dataflow_model.io.sinks.sink_columns import PANE_FIELDS, RETRACTION_FIELD
from dataflow_model.io.tables.table_sinks import TableSink
from dataflow_model.overriding import override
from dataflow_model.plan.columns.type_schemas import schema_from_type
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.transforms.endpoints.create import Write
from dataflow_model.transforms.pipelines import typehints

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dataflow_model.io.listing.paths import PathLike
    from dataflow_model.io.sinks.column_sinks import ColumnSink
    from dataflow_model.transforms.pipelines.pcollection import PCollection


class WriteColumns(Write):
    """Write rows whose columns are given, or known from the collection's element type."""

    sink: ColumnSink | ArrowTableSink

    @property
    def marks_retractions(self) -> bool:
        """Whether a further column marks the rows that are retractions, so that the sink has a field `retractions`."""
        return True

    def expand(self, pcoll: PCollection, /) -> None:
        """Add the node, with the columns of the element type unless a schema is given."""
        sink = self.sink
        schema = schema_from_type(pcoll.element_type) if sink.schema is None else sink.schema
        if schema is not None and sink.panes:
            taken = self._taken(schema, PANE_FIELDS)
            if taken:
                raise InvalidArgument(
                    f"the rows already have a column {taken[0]!r}, and `panes=True` adds one with that name",
                    hint="rename the field, or leave `panes` out",
                )
        known: dict[str, Any] = {"schema": schema, "label": pcoll.pipeline.scope}
        if self.marks_retractions:
            retractions = _source_of_retractions(pcoll)
            known["retractions"] = retractions is not None
            if schema is not None and retractions is not None and self._taken(schema, (RETRACTION_FIELD,)):
                raise InvalidArgument(
                    f"the rows already have a column {RETRACTION_FIELD.name!r}, and {pcoll.pipeline.scope!r} adds one "
                    f"with that name, because {retractions!r} emits retractions",
                    hint="rename the field",
                )
        changed: Any = sink  # an attrs class, whatever writes
        Write(attrs.evolve(changed, **known)).expand(pcoll)

    def _taken(self, schema: pa.Schema, added: Sequence[pa.Field]) -> list[str]:
        """Return the added columns that the rows already have; a given schema may contain them with equal types."""
        taken = [field for field in added if field.name in schema.names]
        same = all(schema.field(field.name).type == field.type for field in taken)
        return [] if same and self.sink.schema is not None else [field.name for field in taken]


@with_label_hints()
class WriteParquet(WriteColumns):
    """Write a collection as Parquet files to a directory; the files of each commit appear once, when it is committed.

    A record (named tuple, dict, attrs class, dataclass) becomes a row of its fields; a pair becomes `key`, then `value`
    or the fields of the value; anything else becomes `value`. A row that does not fit the schema is written to
    `_dead_letters/` as a line of JSON and counted. Any reader of Parquet can read the directory, since readers skip
    names that begin with `_`.

    A run is rejected before it starts if the directory has output of another run, or other files. With
    `if_exists="add"` it adds its files to these. With `"replace"`, the commit of a bounded run replaces what earlier
    runs have written, and leaves other files alone. If it is interrupted, the next run that writes to the directory
    finishes the replacement or undoes it. A stream continues in its own directory with its checkpoint.

    After a retracting strategy, there is a last column `is_retraction`, a boolean: a row in which it is true retracts
    an earlier row that is equal in all other columns.

    Args:
        path: the directory; the driver and all workers must see the same one.
        schema: the columns as a `pyarrow.Schema`. By default they are taken from type hints or, without them, from the
            first rows. In a stream, these are the rows of the first commit that has any: its checkpoint records their
            columns, a column of nulls becomes text, and a later row that does not fit is a dead letter.
        panes: also write `window_start` and `window_end` (UTC, null where infinite), `pane_index` and `pane_timing`.
        if_exists: what to do with what is in the directory, `"error"`, `"add"` or `"replace"`; see above.
        partition_by: the column or columns whose values name the folder of a row, such as `dt=2024-05-01/hour=3/`, and
            are not in its files: text, whole numbers, dates or booleans. Null is `__HIVE_DEFAULT_PARTITION__`. A row
            with empty text there is a dead letter, since it would be read as null.
        max_open: the maximum number of files that a task has open at a time; beyond it, the file of the folder that was
            not written to for longest is closed, and further rows for that folder go to another file.

    Raises:
        SinkError: by `run()`, if the directory cannot be written, or has output of another run or other files.
        PlanError: by `run()`, for a stream with `if_exists="replace"`.
        InvalidArgument: if the rows already have a column with the name of an added one, or if `partition_by` names a
            column that does not exist, has another type, or is the only one that is left.

    Source: Beam's `WriteToParquet`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", 4.0)]) | dm.io.WriteParquet("delays/")
        >>> p.plan()["WriteParquet"].sink.schema
        key: string
        value: double
    """

    def __init__(
        self,
        path: PathLike,
        *,
        schema: pa.Schema | None = None,
        panes: bool = False,
        if_exists: Literal["error", "add", "replace"] = "error",
        partition_by: str | Sequence[str] = (),
        max_open: int = 64,
    ) -> None:
        sink = ParquetSink(
            path=path,
            schema=schema,
            panes=panes,
            if_exists=if_exists,
            partition_by=partition_by,
            max_open=max_open,
            label="WriteParquet",
        )
        super().__init__(sink)


@with_label_hints()
class WriteJson(WriteColumns):
    """Write a collection as files with one JSON object per line; otherwise like `WriteParquet`.

    Instants are written as ISO 8601 text, durations as seconds, bytes as base64, decimals as text, and NaN and the
    infinities as the words that Spark writes. With a `suffix` such as `".json.gz"` the files are compressed: `.gz`,
    `.bz2` or `.zst`.

    Source: Beam's `WriteToJson`.

    Example:
        >>> import pathlib, tempfile
        >>> import dataflow_model as dm
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with dm.Pipeline() as p:
        ...         _ = p | dm.Create([("UA", 4)]) | dm.Sum.per_key() | dm.io.WriteJson(folder)
        ...     [file] = pathlib.Path(folder).rglob("*.json")
        ...     print(file.read_text().strip())
        {"key": "UA", "value": 4}
    """

    def __init__(
        self,
        path: PathLike,
        *,
        schema: pa.Schema | None = None,
        panes: bool = False,
        suffix: str = ".json",
        if_exists: Literal["error", "add", "replace"] = "error",
        partition_by: str | Sequence[str] = (),
        max_open: int = 64,
    ) -> None:
        sink = JsonSink(
            path=path,
            schema=schema,
            panes=panes,
            suffix=suffix,
            if_exists=if_exists,
            partition_by=partition_by,
            max_open=max_open,
            label="WriteJson",
        )
        super().__init__(sink)


@with_label_hints()
class WriteCsv(WriteColumns):
    r"""Write a collection as CSV files; otherwise like `WriteParquet`.

    A value is quoted if it contains a delimiter, a quote or a line break, or is text that would be read as null. Values
    other than text are written as in `WriteJson`; lists and records are written as JSON. `ReadCsv` with
    `null_values=[null]` reads the same rows.

    Args:
        path, schema, panes, if_exists, partition_by, max_open: as in `WriteParquet`.
        header: whether the first line of each file names the columns.
        delimiter: between two values, one ASCII character.
        null: the text for null, never quoted.
        quoting: `"needed"`, or `"all"` to quote all values except nulls.
        escape_formulas: whether text that a spreadsheet may take for a formula gets an apostrophe (`'`) in front: text,
            also as the name of a column, that begins with `=`, `+`, `-`, `@` (or their wide forms), a tab or a line
            break. Numbers are written as they are. What reads the file back as data reads the apostrophe too.
        suffix: how the names of the files end; they are compressed if it ends in `.gz`, `.bz2` or `.zst`.

    Raises:
        InvalidArgument: for options that contradict each other, and what `WriteParquet` rejects.
        SinkError: if files of one commit have different columns because these are neither declared nor given.

    Source: Beam's `WriteToCsv`.

    Example:
        >>> import tempfile, pathlib
        >>> import dataflow_model as dm
        >>> folder = tempfile.TemporaryDirectory()
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", "on time"), ("AA", None)]) | dm.io.WriteCsv(folder.name, null="NA")
        >>> result = p.run()
        >>> _ = result.wait_until_finish()
        >>> [file] = pathlib.Path(folder.name).glob("*.csv")
        >>> print(file.read_text())
        key,value
        UA,on time
        AA,NA
        <BLANKLINE>
        >>> folder.cleanup()
    """

    def __init__(  # noqa: PLR0913 - the options of the format
        self,
        path: PathLike,
        *,
        schema: pa.Schema | None = None,
        panes: bool = False,
        header: bool = True,
        delimiter: str = ",",
        null: str = "",
        quoting: Literal["needed", "all"] = "needed",
        escape_formulas: bool = False,
        suffix: str = ".csv",
        if_exists: Literal["error", "add", "replace"] = "error",
        partition_by: str | Sequence[str] = (),
        max_open: int = 64,
    ) -> None:
        if quoting not in {"needed", "all"}:
            raise InvalidArgument(
                f"`quoting` must be 'needed' or 'all', got {quoting!r}", hint="use quoting='needed', for example"
            )
        escapes: Any = escape_formulas
        if not isinstance(escapes, bool):
            raise InvalidType(
                f"`escape_formulas` must be true or false, got {escapes!r}",
                hint="use escape_formulas=True for files that people open in a spreadsheet",
            )
        sink = CsvSink(
            path=path,
            schema=schema,
            panes=panes,
            header=header,
            delimiter=delimiter,
            null=null,
            quotes_all=quoting == "all",
            escapes_formulas=escapes,
            suffix=suffix,
            if_exists=if_exists,
            partition_by=partition_by,
            max_open=max_open,
            label="WriteCsv",
        )
        super().__init__(sink)


@with_label_hints()
class WriteText(Write):
    r"""Write texts to files, one per line; otherwise like `WriteParquet`.

    An element that is not text, or contains a line break, is written to `_dead_letters/`.

    Args:
        path: the directory; the driver and all workers must see the same one.
        suffix: how the names of the files end; they are compressed if it ends in `.gz`, `.bz2` or `.zst`.
        if_exists: as in `WriteParquet`.
        header: a line, or several, at the beginning of each file; `ReadText(…, skip_header_lines=1)` leaves it out.
        num_shards: the number of files of each commit, among which the lines are split in order. A bounded run writes
            exactly this many, and some have no lines if there are too few; a commit of a stream then writes fewer. The
            process that commits copies all lines. By default, each task writes a file of its own.

    Raises:
        InvalidArgument: for a `num_shards` that is not a positive whole number.
        InvalidType: if the elements are known not to be text, or for a header that is not text.
        PlanError: by `run()`, for panes that may be retracted, since a line cannot show a retraction.
        SinkError, PlanError: by `run()`, as for `WriteParquet`.

    Source: Beam's `WriteToText`.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | dm.Create([("UA", 4)]) | dm.io.WriteText("delays/")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: 'WriteText' writes text, and the elements are of type tuple[str, int]
        Hint: make lines of them with dm.Map(…), or use dm.io.WriteCsv or dm.io.WriteJson
    """

    sink: TextSink

    def __init__(
        self,
        path: PathLike,
        *,
        suffix: str = ".txt",
        if_exists: Literal["error", "add", "replace"] = "error",
        header: str | None = None,
        num_shards: int | None = None,
    ) -> None:
        given: object = header
        if not (given is None or isinstance(given, str)):
            raise InvalidType(f"`header` must be text, got {given!r}", hint="pass header='carrier,delay', for example")
        schema = pa.schema([pa.field("value", pa.string(), nullable=False)])
        sink = TextSink(
            path=path,
            schema=schema,
            suffix=suffix,
            if_exists=if_exists,
            header=header,
            num_shards=num_shards,
            label="WriteText",
        )
        super().__init__(sink)

    @override
    def expand(self, pcoll: PCollection) -> None:
        label, element_type = pcoll.pipeline.scope, pcoll.element_type
        if typehints.clashes(element_type, str) or is_typeddict(element_type):
            raise InvalidType(
                f"{label!r} writes text, and the elements are of type {typehints.type_name(element_type)}",
                hint="make lines of them with dm.Map(…), or use dm.io.WriteCsv or dm.io.WriteJson",
            )
        Write(attrs.evolve(self.sink, label=label)).expand(pcoll)


@with_label_hints()
class WriteTable(WriteColumns):
    """Keep a database table in step with a collection: one row for each value of the keys.

    Elements become rows as in `WriteParquet`. In emission order, a row with new keys is inserted, a row with existing
    keys updates that row, and a retraction deletes it. With `panes=True` and keys without the window, a row holds the
    newest window of its key, which is the one that ends last: a row of an older window, or its retraction, changes
    nothing. Each commit is one transaction, which also records the commit and the sequencer of the run: a repeated
    commit changes nothing, and writes of an older start of the run are rejected. A row that does not fit, or has no
    key, is written to the table `<table>_dead_letters` and counted.

    The rows of a commit pass through the driver. `run()` rejects a strategy whose panes would leave a wrong result in
    the table, such as a discarding one with several panes for a window: its row would hold only the last increment.
    A bounded run that is run again writes the same rows to the same keys, so nothing is doubled but the dead letters;
    rows of keys that it no longer has stay.

    Args:
        url: the URL of the database, SQLite or PostgreSQL, in the form of SQLAlchemy.
        table: the name of the table, after that of its schema if it has one. A missing table is created. An existing
            one must have all columns, and a primary key or unique constraint on the keys; its other columns are not
            changed.
        keys: the column or columns that identify a row; with `panes=True`, those of the window may be among them.
        schema: the columns as a `pyarrow.Schema`. By default they are taken from type hints or, without them, from the
            rows; in a stream, from those of its first commit, as in `WriteParquet`.
        panes: also write `window_start` and `window_end` (UTC, null where infinite), `pane_index` and `pane_timing`.
        upsert: `"replace"` if the row that is emitted last should stand, whichever window and pane it is of.

    Raises:
        InvalidArgument: for another kind of database, a key that is not a column, or a type that databases do not have.
        ModuleNotFoundError: if SQLAlchemy is not installed.
        SinkError: by `run()`, if the database cannot be reached or the table does not accept the rows.
        SupersededRun: during the run, if a newer start uses its checkpoint.
        PlanError: by `run()`, for panes that would leave a wrong result.

    Source: Beam's `WriteToJdbc`, which only inserts; the sequencers of the MillWheel paper, section 5.2.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", 4.0)]) | dm.io.WriteTable("sqlite:///delays.db", table="delays", keys="key")
        >>> p.plan()["WriteTable"].sink.keys
        ('key',)
    """

    @property
    def marks_retractions(self) -> bool:
        """Whether a column marks retractions: the row that a retraction refers to is deleted instead."""
        return False

    def __init__(
        self,
        url: str,
        *,
        table: str,
        keys: str | Iterable[str],
        schema: pa.Schema | None = None,
        panes: bool = False,
        upsert: Literal["replace"] | None = None,
    ) -> None:
        super().__init__(TableSink(url=url, table=table, keys=keys, schema=schema, panes=panes, upsert=upsert))


@with_label_hints(takes_path=False)
class ToDataFrame(WriteColumns):
    """Return the records of a bounded job on Spark as a DataFrame, by `result.dataframe(label)`.

    Elements become rows as in `WriteParquet`, but a record that does not fit the columns fails the run. The records
    pass through the driver.

    Args:
        schema: the columns as a `pyarrow.Schema`. By default they are taken from type hints or, without them, from the
            records.
        panes: also return `window_start` and `window_end` (UTC, null where infinite), `pane_index` and `pane_timing`.

    Raises:
        UnsupportedOnRunner: by `run()`, on any runner but `SparkRunner(spark, mode="batch")`.
        InvalidArgument: if the rows already have a column with the name of an added one; by `run()`, or by
            `result.dataframe` if the columns are taken from the records, for a type that Spark does not have.
        SinkError: during the run, for a record that does not fit the columns.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()  # with runner=dm.SparkRunner(spark), result.dataframe("delays") has these columns
        >>> _ = p | dm.Create([("UA", 4)]) | "delays" >> dm.io.ToDataFrame()
        >>> print(p.plan()["delays"].sink.schema)
        key: string
        value: int64
    """

    def __init__(self, *, schema: pa.Schema | None = None, panes: bool = False) -> None:
        super().__init__(ArrowTableSink(schema=schema, panes=panes))


@with_label_hints()
class ForeachBundle(Write):
    """Call a function with the values of each commit, in emission order.

    A commit is one micro-batch, or a whole bounded run. The function is not called for a commit without values. After a
    crash, the unfinished commit is repeated with the same id and values, so the function receives each commit at least
    once; to make it exactly once, write the id in the same transaction and skip an id that is already there.

    The function runs in the process of the program, but in a stream on Spark in a Python process of Spark's on the
    driver's machine, which sees none of the program's objects.

    Args:
        fn: `fn(values)` or `fn(values, commit_id)`. A second parameter with a default gets the id only if it is called
            `commit_id`.
        whole_records: pass `Record`s (value, event time, window, pane, `is_retraction`) instead of values.

    Raises:
        InvalidType: for a value that is not such a function.
        PlanError: by `run()`, for plain values of panes that may be retracted, since the function could not recognise
            retractions.
        UserCodeError: during the run, if the function raises an error.

    Source: Spark's `foreachBatch`, which is neither atomic over several writes nor usable from a Connect client.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([1, 2]) | dm.io.ForeachBundle(lambda values, commit_id: print(commit_id, values))
    """

    sink: ForeachBundleSink

    def __init__(self, fn: Callable[..., Any], *, whole_records: bool = False) -> None:
        super().__init__(ForeachBundleSink(fn=fn, whole_records=whole_records))

    @override
    def expand(self, pcoll: PCollection, /) -> None:
        Write(attrs.evolve(self.sink, label=pcoll.pipeline.scope)).expand(pcoll)


@with_label_hints(takes_path=False)
class Collect(Write):
    """Keep all records in memory, for tests and notebooks.

    `result.collected(label)` returns them in emission order, and `result.table(label)` as the columns of
    `WriteParquet`. A record with `is_retraction` retracts the earlier record with the same value, window, event time
    and pane; in the table, a column of that name marks it.

    Args:
        panes: whether the table has `window_start`, `window_end`, `pane_index` and `pane_timing` too.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", 4), ("AA", 2)]) | "kept" >> dm.io.Collect()
        >>> result = p.run()
        >>> _ = result.wait_until_finish()
        >>> result.table("kept").arrow.to_pylist()
        [{'key': 'UA', 'value': 4}, {'key': 'AA', 'value': 2}]
    """

    sink: CollectSink

    def __init__(self, *, panes: bool = False) -> None:
        super().__init__(CollectSink(panes=panes))

    @override
    def expand(self, pcoll: PCollection) -> None:
        Write(attrs.evolve(self.sink, label=pcoll.pipeline.scope)).expand(pcoll)


def _source_of_retractions(pcoll: PCollection) -> str | None:
    """Return the label of the grouping that may retract values of a collection, or `None`."""
    source = retracted_collections(pcoll.pipeline.plan()).get(pcoll.ref)
    return None if source is None else source.label
