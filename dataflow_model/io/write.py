"""Writing: the transforms that users call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.bundles import ArrowTableSink, CollectSink, ForeachBundleSink
from dataflow_model.io.file_sinks import CsvSink, FileSink, JsonSink, ParquetSink, TextSink
from dataflow_model.io.schemas import PANE_FIELDS, RETRACTION_FIELD
from dataflow_model.io.table_sinks import TableSink
from dataflow_model.plan.retracted import retracted_collections
from dataflow_model.plan.schemas import schema_from_type
from dataflow_model.transforms import typehints
from dataflow_model.transforms.endpoints import Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dataflow_model.io.paths import PathLike
    from dataflow_model.transforms.pcollection import PCollection

__all__ = [
    "Collect",
    "ForeachBundle",
    "ToDataFrame",
    "WriteColumns",
    "WriteCsv",
    "WriteJson",
    "WriteParquet",
    "WriteTable",
    "WriteText",
]


class WriteColumns(Write):
    """Write rows whose columns are given, or known from the collection's element type.

    Attributes:
        marks_retractions: whether a further column says which rows take others back, so that the sink has a field
            `retractions`.
    """

    sink: FileSink | ArrowTableSink | TableSink
    marks_retractions: ClassVar[bool] = True

    def expand(self, pcoll: PCollection, /) -> None:
        """Add the node, with the columns that the element type tells."""
        sink = self.sink
        schema = schema_from_type(pcoll.element_type) if sink.schema is None else sink.schema
        retractions = _source_of_retractions(pcoll)
        if schema is not None and sink.panes:
            taken = self._taken(schema, PANE_FIELDS)
            if taken:
                raise InvalidArgument(
                    f"the rows already have a column {taken[0]!r}, and `panes=True` adds one with that name",
                    hint="rename the field, or leave `panes` out",
                )
        known: dict[str, Any] = {"schema": schema, "label": pcoll.pipeline.scope}
        if not self.marks_retractions:
            Write(attrs.evolve(sink, **known)).expand(pcoll)
            return
        if schema is not None and retractions is not None and self._taken(schema, (RETRACTION_FIELD,)):
            raise InvalidArgument(
                f"the rows already have a column {RETRACTION_FIELD.name!r}, and {pcoll.pipeline.scope!r} adds one "
                f"with that name, because {retractions!r} emits retractions",
                hint="rename the field",
            )
        known["retractions"] = retractions is not None
        Write(attrs.evolve(sink, **known)).expand(pcoll)

    def _taken(self, schema: pa.Schema, added: Sequence[pa.Field]) -> list[str]:
        """Return the names of columns that the sink adds and the rows have; a given schema may have them alike."""
        taken = [field for field in added if field.name in schema.names]
        same = all(schema.field(field.name).type == field.type for field in taken)
        return [] if same and self.sink.schema is not None else [field.name for field in taken]


class WriteParquet(WriteColumns):
    """Write a collection as Parquet files in a directory, each commit's files once and only when it is committed.

    A record (named tuple, dict, attrs class, dataclass) gives its fields; a pair gives `key`, then `value` or the
    value's fields; anything else gives `value`. A row that does not fit the schema goes to `_dead_letters/` as a line
    of JSON and is counted. The directory only grows: a new run adds its files to what is there. Any reader of Parquet
    can read it, since readers skip names that begin with `_`.

    Behind a retracting strategy there is a last column `is_retraction`, a boolean: a row in which it is true takes back
    an earlier row that is equal in all other columns.

    Args:
        path: the directory; the driver and all workers must see the same one.
        schema: the columns as a `pyarrow.Schema`. Without it they come from type hints, else from the first rows,
            which a stream cannot do.
        panes: also write `window_start` and `window_end` (UTC, null where infinite), `pane_index` and `pane_timing`.

    Raises:
        SinkError: at `run()`, when the directory cannot be written.
        PlanError: at `run()`, for a stream that writes rows whose columns are not known.
        InvalidArgument: for rows that have a column of a name that is added.

    Source: Beam's `WriteToParquet`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", 4.0)]) | dm.io.WriteParquet("delays/")
        >>> p.plan()["WriteParquet"].sink.schema
        key: string
        value: double
    """

    def __init__(self, path: PathLike, *, schema: pa.Schema | None = None, panes: bool = False) -> None:
        super().__init__(ParquetSink(path=path, schema=schema, panes=panes, label="WriteParquet"))


class WriteJson(WriteColumns):
    """Write a collection as files of one JSON object a line; the rest is as in `WriteParquet`.

    Instants are ISO 8601 text, durations seconds, bytes base64, decimals text, NaN and the infinities the words that
    Spark writes. With a `suffix` such as `".json.gz"` the files are compressed: `.gz`, `.bz2` or `.zst`.

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
        self, path: PathLike, *, schema: pa.Schema | None = None, panes: bool = False, suffix: str = ".json"
    ) -> None:
        super().__init__(JsonSink(path=path, schema=schema, panes=panes, suffix=suffix, label="WriteJson"))


class WriteCsv(WriteColumns):
    r"""Write a collection as CSV files; the rest is as in `WriteParquet`.

    A value is quoted if it holds a delimiter, a quote or a line break, or is text that would be taken for null. Values
    that are not text are written as `WriteJson` writes them, and lists and records as JSON. `ReadCsv` with
    `null_values=[null]` reads the same rows.

    Args:
        path, schema, panes: as in `WriteParquet`.
        header: whether the first line of each file names the columns.
        delimiter: between two values, one ASCII character.
        null: what stands for null, without quotes.
        quoting: `"needed"`, or `"all"` for quotes around all values but nulls.
        suffix: how the names of the files end; they are compressed if it ends in `.gz`, `.bz2` or `.zst`.

    Raises:
        InvalidArgument: for options that contradict each other, and what `WriteParquet` rejects.
        SinkError: for files of one commit with different columns, when these are neither declared nor given.

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

    def __init__(
        self,
        path: PathLike,
        *,
        schema: pa.Schema | None = None,
        panes: bool = False,
        header: bool = True,
        delimiter: str = ",",
        null: str = "",
        quoting: Literal["needed", "all"] = "needed",
        suffix: str = ".csv",
    ) -> None:
        if quoting not in {"needed", "all"}:
            raise InvalidArgument(
                f"`quoting` must be 'needed' or 'all', got {quoting!r}", hint="use quoting='needed', for example"
            )
        sink = CsvSink(
            path=path,
            schema=schema,
            panes=panes,
            header=header,
            delimiter=delimiter,
            null=null,
            quotes_all=quoting == "all",
            suffix=suffix,
            label="WriteCsv",
        )
        super().__init__(sink)


class WriteText(Write):
    r"""Write a collection of texts as text files, one on each line; the rest is as in `WriteParquet`.

    An element that is not text, or has a line break in it, goes to `_dead_letters/`.

    Args:
        path: the directory; the driver and all workers must see the same one.
        suffix: how the names of the files end; they are compressed if it ends in `.gz`, `.bz2` or `.zst`.

    Raises:
        InvalidType: for a collection that is known to hold no text.
        InvalidArgument: behind a retracting strategy: a line could not say that it takes another back.
        SinkError: at `run()`, when the directory cannot be written.

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

    def __init__(self, path: PathLike, *, suffix: str = ".txt") -> None:
        schema = pa.schema([pa.field("value", pa.string(), nullable=False)])
        super().__init__(TextSink(path=path, schema=schema, suffix=suffix, label="WriteText"))

    def expand(self, pcoll: PCollection) -> None:
        """Add the node."""
        label, element_type = pcoll.pipeline.scope, pcoll.element_type
        if typehints.clashes(element_type, str):
            raise InvalidType(
                f"{label!r} writes text, and the elements are of type {typehints.type_name(element_type)}",
                hint="make lines of them with dm.Map(…), or use dm.io.WriteCsv or dm.io.WriteJson",
            )
        source = _source_of_retractions(pcoll)
        if source is not None:
            raise InvalidArgument(
                f"{label!r} writes lines of text, but {source!r} emits retractions, which a line cannot show",
                hint="use dm.io.WriteCsv or dm.io.WriteJson, which have a column for them",
            )
        Write(attrs.evolve(self.sink, label=label)).expand(pcoll)


class WriteTable(WriteColumns):
    """Keep a table of a database in step with a collection: one row for each value of the keys.

    Elements become rows as in `WriteParquet`. A row with new keys is inserted, one with keys that are there changes
    that row, and behind a retracting strategy a value that is taken back deletes it, all in emission order. Each commit
    is one transaction, which also notes the commit and the run's sequencer: one that comes again changes nothing, and
    an older start of the run that is still alive is refused. A row that does not fit, or has no key, goes to the table
    `<table>_dead_letters` and is counted.

    The rows of a commit pass through the driver. Under a discarding strategy a row is its window's last pane alone.

    Args:
        url: of the database, SQLite or PostgreSQL, as SQLAlchemy has it.
        table: the table's name, with its schema's in front if it has one; it is made if it is not there. One that is
            there needs all columns, and a primary key or unique constraint on the keys; further columns are left alone.
        keys: the column, or columns, that tell rows apart; with `panes=True` the window's may be among them.
        schema: the columns as a `pyarrow.Schema`. Without it they come from type hints, else from the rows,
            which a stream cannot do.
        panes: also write `window_start` and `window_end` (UTC, null where infinite), `pane_index` and `pane_timing`.

    Raises:
        InvalidArgument: for a database that is neither, a key that is no column, a type that databases do not have.
        SinkError: at `run()`, when the database cannot be reached or the table does not take the rows.
        SupersededRun: during the run, when a newer one has started on its checkpoint.
        PlanError: at `run()`, for a stream that writes rows whose columns are not known.

    Source: Beam's `WriteToJdbc`, which only inserts; the sequencers of the MillWheel paper, section 5.2.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([("UA", 4.0)]) | dm.io.WriteTable("sqlite:///delays.db", table="delays", keys="key")
        >>> p.plan()["WriteTable"].sink.keys
        ('key',)
    """

    marks_retractions: ClassVar[bool] = False  # a row that is taken back is deleted

    def __init__(
        self,
        url: str,
        *,
        table: str,
        keys: str | Iterable[str],
        schema: pa.Schema | None = None,
        panes: bool = False,
    ) -> None:
        super().__init__(TableSink(url=url, table=table, keys=keys, schema=schema, panes=panes))


class ToDataFrame(WriteColumns):
    """Give a bounded run's records as a DataFrame; rows and arguments are as in `WriteParquet`.

    A record that does not fit stops the run with a `SinkError`.
    """

    def __init__(self, *, schema: pa.Schema | None = None, panes: bool = False) -> None:
        super().__init__(ArrowTableSink(schema=schema, panes=panes))


class ForeachBundle(Write):
    """Call a function on the driver with the values of each commit, in emission order.

    A commit is a micro-batch, or a whole bounded run; one without values is not called for. After a crash the commit
    that was under way comes again under the same id with the same values, so the function sees it at least once; make
    it exactly once by writing the id in the same transaction and passing over an id that is there.

    Args:
        fn: `fn(values)` or `fn(values, commit_id)`.
        whole_records: give `Record`s (value, event time, window, pane, `is_retraction`) instead of values.

    Raises:
        InvalidArgument: for bare values behind a retracting strategy: the function could not tell which are taken back.
        UserCodeError: during the run, when the function raises.

    Source: Spark's `foreachBatch`, which is neither atomic over several writes nor usable from a Connect client.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([1, 2]) | dm.io.ForeachBundle(lambda values, commit_id: print(commit_id, values))
    """

    sink: ForeachBundleSink

    def __init__(self, fn: Callable[..., Any], *, whole_records: bool = False) -> None:
        super().__init__(ForeachBundleSink(fn=fn, whole_records=whole_records))

    def expand(self, pcoll: PCollection, /) -> None:
        """Add the node."""
        source = _source_of_retractions(pcoll)
        if source is not None and not self.sink.whole_records:
            raise InvalidArgument(
                f"{pcoll.pipeline.scope!r} passes plain values to its function, but {source!r} emits "
                "retractions, which the function could not recognise",
                hint="pass whole_records=True, and check record.is_retraction",
            )
        Write(attrs.evolve(self.sink, label=pcoll.pipeline.scope)).expand(pcoll)


class Collect(Write):
    """Keep all records in memory, for tests and notebooks.

    `result.collected(label)` gives them in emission order, and `result.table(label)` as columns, which are those of
    `WriteParquet`. A record with `is_retraction` takes an earlier one back: the one with its value, window, event time
    and pane; in the table a column of that name says which ones do.

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

    def expand(self, pcoll: PCollection) -> None:
        """Add the node."""
        Write(attrs.evolve(self.sink, label=pcoll.pipeline.scope)).expand(pcoll)


def _source_of_retractions(pcoll: PCollection) -> str | None:
    """Return the label of the grouping that may take values of a collection back, or `None`."""
    source = retracted_collections(pcoll.pipeline.plan()).get(pcoll.ref)
    return None if source is None else source.label
