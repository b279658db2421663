"""A table that is read again and again: the collection of the rows that it has now."""

from __future__ import annotations

import collections
import hashlib
import itertools
import pickle
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

import attrs
import pyarrow as pa

from dataflow_model.arguments import positive_duration
from dataflow_model.errors import LOG, InvalidArgument, InvalidType, SourceError, shown
from dataflow_model.io.arguments import with_label_hints
from dataflow_model.io.read import ReadRows
from dataflow_model.micros import wall_clock
from dataflow_model.overriding import override
from dataflow_model.plan.columns.rows import rows_of
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Changes, Origin
from dataflow_model.plan.endpoints.wrapped import HeldSource, Listed
from dataflow_model.plan.functions.dofn import DoFn, Retract
from dataflow_model.plan.functions.state import ValueStateSpec
from dataflow_model.plan.functions.typevars import ResultT
from dataflow_model.plan.watermarks.estimators import BoundedOutOfOrderness
from dataflow_model.time import Duration, duration_text
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.endpoints.create import Read
from dataflow_model.transforms.pipelines.pcollection import PBegin
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.windows import Window
from dataflow_model.triggers import AfterProcessingTime, Repeatedly
from dataflow_model.windowing import GlobalWindows

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.plan.columns.inferred_columns import ColumnRecord
    from dataflow_model.plan.endpoints.origins import Known, OriginPosition
    from dataflow_model.plan.functions.state_handles import ValueState
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike

_ORIGIN: Final = "readings"
_SCHEMA: Final = pa.schema({"at": pa.timestamp("us", "UTC"), "rows": pa.large_binary()})
_LONGEST_WAIT: Final = Duration(micros=10_000_000)
"""How long a reading that has failed is waited for at most."""
_TRIES: Final = 3
"""How often a table is read that is replaced while it is read."""
_FAILED: Final = "readings_failed"
_SECOND: Final = 1_000_000


@attrs.frozen(kw_only=True, eq=False)
class ReadingsSource(ColumnSource):
    """The readings of a table: a row `(at, rows)` for each, with all rows of the table, packed, or null if unchanged.

    Attributes:
        table: the table.
        every: the least time between two readings.
        is_bounded: whether the table is read once.
    """

    table: ColumnSource
    every: Duration
    is_bounded: bool = False
    event_time: str | Arrival | None = attrs.field(init=False, default="at")
    watermark: WatermarkEstimator = attrs.field(init=False, default=BoundedOutOfOrderness(Duration(0)))
    poll_interval: DurationLike | None = attrs.field(
        init=False, default=attrs.Factory(lambda self: min(self.every, _LONGEST_WAIT), takes_self=True)
    )
    transient_errors: tuple[type[Exception], ...] = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.table.transient_errors, takes_self=True)
    )
    retry_for: DurationLike = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.table.retry_for, takes_self=True)
    )
    _listed: dict[int, pa.RecordBatch] = attrs.field(factory=dict, init=False, repr=False)
    """The reading that was listed last, by its number."""
    is_typed: ClassVar[bool] = True
    reads_again: ClassVar[bool] = False

    @property
    @override
    def contents(self) -> str:
        return f"{self.table.contents}, read every {duration_text(self.every)}"

    @property
    def is_users(self) -> bool:
        """Whether code of the user's reads the table."""
        return self.table.is_users

    @property
    def opens_empty(self) -> bool:
        """Return `True`: a table without rows has been read too."""
        return True

    def for_bounded_run(self) -> ReadingsSource:
        """Return the source that reads the table once."""
        return attrs.evolve(self, is_bounded=True)

    def in_rounds(self) -> ReadingsSource:
        """Return the source unchanged, since its watermark only says that the table has been read."""
        return self

    def bound(self) -> ReadingsSource:
        """Return the source with the columns of the table stored in it."""
        return attrs.evolve(self, table=self.table.bound())

    def recorded_in(self, record: ColumnRecord) -> ReadingsSource:
        """Return the source with the columns of the table that the run has recorded."""
        return attrs.evolve(self, table=self.table.recorded_in(record))

    def schema(self) -> pa.Schema:
        """Return the two columns."""
        return _SCHEMA

    def origins(self) -> list[Origin]:
        """Return the first reading, of which a sample consists."""
        return self.poll(Listed(), wall_clock()).origins

    def poll(self, known: Known, clock: int) -> Changes:
        """Read the table if that is due; if it fails, what was read before stays.

        Raises:
            Exception: if the first reading fails.
        """
        before = known.get(_ORIGIN)
        if before is not None and (self.is_bounded or clock < before.cursor["at"] + int(self.every)):
            return Changes([], frozenset())
        try:
            packed = self._packed(clock)
        except Exception as error:
            if before is None:
                raise
            LOG.warning("%s could not be read again; what was read before stays: %s", self.table.contents, error)
            return Changes([], frozenset(), {_FAILED: 1})
        digest = hashlib.sha256(packed).hexdigest()
        is_same = before is not None and before.cursor["digest"] == digest
        number = 0 if before is None else before.row_count
        self._listed.clear()
        self._listed[number] = pa.RecordBatch.from_pydict(
            {"at": [clock], "rows": [None if is_same else packed]}, schema=_SCHEMA
        )
        return Changes([Origin(_ORIGIN, number + 1, cursor={"at": clock, "digest": digest})], frozenset())

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the reading that was just listed."""
        del origin
        for number, batch in self._listed.items():
            if start <= number and (stop is None or number < stop):
                yield batch

    def levels(self, origins: Mapping[str, OriginPosition]) -> Mapping[str, Mapping[str, int]]:
        """Return how old the reading is that is in use, in seconds."""
        ages = {name: (wall_clock() - origin.cursor["at"]) // _SECOND for name, origin in origins.items()}
        return {"reading_age": ages} if ages else {}

    def _packed(self, clock: int) -> bytes:
        """Return the rows of the table in the stream format of Arrow.

        Raises:
            SourceError: if a row is bad, or the table keeps changing while it is read.
        """
        table = self.table.kept(lambda part, name: HeldSource.of(part, name or self.contents, clock))
        for _ in range(_TRIES):
            listed = table.origins()
            batches = [batch for origin in listed for batch in table.read(origin.name, 0, origin.rows)]
            if [origin.version for origin in listed] == [table.version_of(origin.name) for origin in listed]:
                break
        else:
            raise SourceError(
                f"{self.table.contents} was replaced {_TRIES} times while it was read",
                hint="write it elsewhere on the same file system, and rename it into place when it is complete",
            )
        schema, sink = table.schema(), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
            for batch in batches:
                for bad in table.columns_of(batch).bad[:1]:
                    raise table.refusal(self.contents, "it", 0, bad)
                writer.write_batch(batch.select(schema.names))
        packed: bytes = sink.getvalue().to_pybytes()
        return packed


class _Differences(DoFn):
    """Turn the readings of a table into its rows: those that are gone are taken back, and new ones emitted."""

    retracts = True
    before: ValueStateSpec[bytes | None] = ValueStateSpec(default=None)

    def process(self, reading: tuple[None, Any], before: ValueState[bytes | None]) -> Iterator[Any]:
        """Compare a reading with the one before."""
        packed = reading[1].rows
        if packed is None:
            return
        last = before.read()
        old = {} if last is None else _rows_in(last)
        new = _rows_in(packed)
        before.write(packed)
        for name, rows in old.items():
            yield from map(Retract, rows[len(new.get(name, ())) :])
        for name, rows in new.items():
            yield from rows[len(old.get(name, ())) :]


def _rows_in(packed: bytes) -> dict[bytes, list[Any]]:
    """Return the rows of a reading by their bytes; equal bytes mean equal rows."""
    rows: dict[bytes, list[Any]] = collections.defaultdict(list)
    for row in itertools.chain.from_iterable(map(rows_of, pa.ipc.open_stream(packed))):
        rows[pickle.dumps(tuple(row), pickle.HIGHEST_PROTOCOL)].append(row)
    return rows


@with_label_hints(takes_path=False)
class ReadAgain(PTransform[PBegin, ResultT]):
    r"""Read a table or a file again and again, and keep the rows that it has now.

    Each reading is a whole: rows that are gone are taken back, new ones are added, and the others stay. As a side input
    it is thus a table that changes slowly. An element sees the newest reading at the processing time at which its
    micro-batch begins. The first elements wait for the first reading, also if that has no rows.

    The process that plans micro-batches reads the table, and has the whole of it in memory; meanwhile the stream waits.
    A reading is in the checkpoint before it counts. So a micro-batch that is repeated sees the same one, and a run that
    is started again goes on with the last one until the next is due. A reading that fails, because a file is missing or
    a row is bad, is logged and counted as `readings_failed`; the former one stays, and the table is read again ten
    seconds later, or after `every` if that is less. If the first one fails, the run does.

    A run without a checkpoint, or in Spark's batch mode, reads the table once.

    The rows are in the global window, and have the processing time of the reading as their event time. The collection
    retracts, as behind `.accumulating_and_retracting()`, so that groupings and joins of it are corrected too.

    Args:
        table: what is read: a bounded source of rows such as `dm.io.ReadCsv(…)`, `dm.io.ReadParquet(…)` or a
            `@dm.io.source(bounded=True)`. Its event times, clock and watermark do not matter.
        every: the least time between two readings.

    Raises:
        InvalidType: for what is no source of rows, or has an output for bad rows.
        InvalidArgument: for a source without an end, or an interval that is not positive.

    Source: the pattern "slowly updating side input" of Beam's documentation, as one transform.

    Example:
        >>> import dataflow_model as dm
        >>> import pathlib, tempfile
        >>> rates = pathlib.Path(tempfile.mkdtemp(), "rates.csv")
        >>> _ = rates.write_text("currency,rate\nEUR,1.1\n")
        >>> with dm.Pipeline() as p:
        ...     table = p | dm.io.ReadAgain(dm.io.ReadCsv(rates, event_time=None), every="1 hour")
        ...     orders = p | "orders" >> dm.Create([("EUR", 100)])
        ...     by_name = dm.AsDict(table | dm.WithKeys("currency", value="rate"))
        ...     paid = orders | dm.MapTuple(lambda name, amount, rates: round(amount * rates[name]), rates=by_name)
        ...     _ = paid | "dollars" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("dollars")]
        [110]
    """

    input_kind = "pipeline"

    def __init__(self, table: Read[ResultT], *, every: DurationLike) -> None:
        given: Any = table
        source = given.source.as_columns if isinstance(given, Read) else None
        if source is None:
            raise InvalidType(
                f"`table` must be a source of rows, got {shown(table)}",
                hint="pass dm.io.ReadCsv(…), dm.io.ReadParquet(…), or dm.Read(…) of a ColumnSource",
            )
        if table.dead_letters is not None:
            raise InvalidType(
                f"`table` has an output for bad rows, {table.dead_letters!r}, but a reading counts whole or not at all",
                hint="leave out .with_exception_handling(); what was read before stays while a row is bad",
            )
        if not source.is_bounded:
            raise InvalidArgument(
                f"`table` must have an end, got {source.contents}",
                hint="leave out follow=True, or give it an end with @dm.io.source(bounded=True)",
            )
        self._table = table
        self._every = positive_duration("every", every, "pass every='1 hour', for example")

    def expand(self, pcoll: PBegin, /) -> ResultT:
        """Read, compare each reading with the one before, and turn rows into instances of a class if there is one."""
        table = self._table
        source = table.source.as_columns
        assert source is not None  # noqa: S101 - checked at construction
        readings = Read(ReadingsSource(table=source, every=self._every))
        at_once = Window.into(GlobalWindows()).trigger(Repeatedly(AfterProcessingTime(0)))
        rows: Any = (
            pcoll
            | "Readings" >> readings
            | "Standing" >> at_once.accumulating_and_retracting()
            | "Alone" >> Map(_alone)
            | "Rows" >> ParDo(_Differences()).with_output_types(table.element_type)
        )
        typed = table.typed_rows if isinstance(table, ReadRows) else None
        if typed is not None:
            rows |= f"As {typed.kind.__name__}" >> Map(typed).with_output_types(typed.kind)
        return cast("ResultT", rows)


def _alone(reading: Any) -> tuple[None, Any]:
    return None, reading
