"""Sources from a function that returns the events behind a cursor."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
import typing
from typing import TYPE_CHECKING, Any, Final, overload

import attrs
import pyarrow as pa

from dataflow_model.arguments import way_out
from dataflow_model.errors import InvalidArgument, InvalidType, SourceError, refuse_async, shown
from dataflow_model.io.files.file_source import checked_time
from dataflow_model.io.read import ReadRows, checked_row_type, checked_watermark
from dataflow_model.overriding import override
from dataflow_model.plan.columns.element_columns import any_inside, fields_amiss, lack_zone, would_change
from dataflow_model.plan.columns.nested import without_views
from dataflow_model.plan.columns.source_columns import at_the_beginning, check_time_column
from dataflow_model.plan.columns.time_units import TimeUnit, checked_unit
from dataflow_model.plan.columns.type_schemas import fields_of, schema_from_type
from dataflow_model.plan.endpoints.batches import checked_interval, checked_retry
from dataflow_model.plan.endpoints.column_sources import POLL_INTERVAL, RETRY_FOR, ColumnSource
from dataflow_model.plan.endpoints.origins import CURSORS, Changes, Origin, stored_cursor
from dataflow_model.plan.endpoints.wrapped import Listed
from dataflow_model.plan.watermarks.estimators import ARRIVAL, check_estimator
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.transforms.pipelines.ptransform import MAKES_TRANSFORM

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dataflow_model.plan.columns.source_columns import Columns
    from dataflow_model.plan.endpoints.origins import Known
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike

_ORIGIN: Final = "events"
_LIMIT: Final = 10_000
_TRANSIENT: Final = (ConnectionError, TimeoutError)
_ADD_ZONE: Final = "add one in the function: value.replace(tzinfo=datetime.UTC), for example"
_CONVERT: Final = "correct the type of the column, or convert the value in the function"
_FIELDS: Final = "return a value for each column, None where there is none, and nothing else, or correct `schema`"
_OF_ANY_NUMBER: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_SIGNATURE: Final = "def events(cursor, limit): return rows, next_cursor"


@attrs.frozen(kw_only=True, eq=False)
class EventsSource(ColumnSource):
    """What a function returns, as one origin whose rows are numbered in the order in which they were returned.

    Attributes:
        function: takes a cursor and the number of rows that it should return at most; returns rows and the next cursor.
        arguments: further arguments of it.
        columns: the names and types of the columns.
        limit: that number of rows.
        is_last_poll: whether it is asked until it returns nothing, for a run that ends with what exists now.
    """

    function: Callable[..., Any]
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    columns: pa.Schema
    limit: int = _LIMIT
    event_time: str | Arrival | None = attrs.field(default=ARRIVAL, converter=checked_time)
    event_time_unit: TimeUnit | None = attrs.field(default=None, converter=checked_unit)
    processing_time: str | None = None
    watermark: WatermarkEstimator
    watermark_origins: WatermarkOrigins = EVERYTHING
    is_bounded: bool = False
    id_columns: tuple[str, ...] = ()
    poll_interval: DurationLike | None = POLL_INTERVAL
    transient_errors: tuple[type[Exception], ...] = _TRANSIENT
    retry_for: DurationLike = RETRY_FOR
    is_last_poll: bool = False
    _listed: dict[int, pa.RecordBatch] = attrs.field(factory=dict, init=False, repr=False)
    """The rows that were listed last, by the number of the first."""
    is_typed = True
    reads_again = False

    def __attrs_post_init__(self) -> None:
        """Check the columns of time."""
        check_estimator(self.watermark)
        self.row_type()
        for option, name in (("event_time", self.event_time), ("processing_time", self.processing_time)):
            if isinstance(name, str):
                check_time_column(self.columns, name, option)

    @property
    @override
    def contents(self) -> str:
        return f"the events of {self._name}"

    @property
    def is_users(self) -> bool:
        """Whether code of the user's reads it: the function does."""
        return True

    def origins(self) -> list[Origin]:
        """Return the first events, which a sample consists of."""
        return self.poll(Listed(), 0).origins

    def poll(self, known: Known, clock: int) -> Changes:
        """Ask the function for the rows behind the cursor.

        Raises:
            SourceError: if it returns something else than rows and a cursor.
        """
        del clock
        before = known.get(_ORIGIN)
        cursor, start = (None, 0) if before is None else (before.cursor, before.row_count)
        rows, following = self._asked(cursor)
        batch = self._batch(rows, cursor)
        if following is None and not self.is_bounded:
            if batch.num_rows:
                raise SourceError(
                    f"{self._name} returned {batch.num_rows} rows with the next cursor None, which is the beginning",
                    hint="return where the next call goes on; @dm.io.source(bounded=True) makes None the end",
                )
            following = cursor
        self._listed.clear()
        self._listed[start] = batch
        if not batch.num_rows and following == cursor:
            if self.is_bounded and cursor is not None:
                raise SourceError(
                    f"{self._name} returned no rows and the cursor that it was given, {shown(cursor)}: it never ends",
                    hint="return None as the next cursor at the end, or leave out bounded=True",
                )
            return Changes([], frozenset())
        least = 1 if self.is_last_poll else self.limit
        has_more = following is not None if self.is_bounded else batch.num_rows >= least
        return Changes([Origin(_ORIGIN, start + batch.num_rows, cursor=following)], frozenset(), has_more=has_more)

    def drained(self) -> EventsSource:
        """Return the source for the last polls of a run, which end when the function returns nothing."""
        return attrs.evolve(self, is_last_poll=True)

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield rows that were just listed."""
        del origin
        for first, batch in self._listed.items():
            low, high = max(start - first, 0), batch.num_rows if stop is None else min(stop - first, batch.num_rows)
            if low < high:
                yield batch.slice(low, high - low)

    def schema(self) -> pa.Schema:
        """Return the names and types of the columns."""
        return self.columns

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch; without event times, the rows are at −∞."""
        columns = super().columns_of(batch)
        return at_the_beginning(columns) if self.event_time is None else columns

    @property
    def _name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    def _asked(self, cursor: Any) -> tuple[Any, Any]:
        returned = self.function(cursor, self.limit, **self.arguments)
        if not (isinstance(returned, tuple) and len(returned) == 2):  # noqa: PLR2004 - rows and cursor
            raise SourceError(
                f"{self._name} must return rows and the next cursor, got {shown(returned)}", hint=_SIGNATURE
            )
        rows, following = returned
        try:
            stored = stored_cursor(following)
        except (TypeError, ValueError) as error:
            raise SourceError(
                f"the next cursor of {self._name} must be a JSON value, got {shown(following)}: {error}",
                hint=CURSORS,
            ) from error
        return rows, stored

    def _batch(self, rows: Any, cursor: Any) -> pa.RecordBatch:
        """Return rows in columns."""
        if isinstance(rows, pa.RecordBatch | pa.Table):
            return self._from_arrow(rows)
        if isinstance(rows, str | bytes | dict) or not hasattr(rows, "__iter__"):
            raise SourceError(
                f"the rows of {self._name} must be a list or a table of Arrow, got {shown(rows)}", hint=_SIGNATURE
            )
        records = [self._record(row) for row in rows]
        names = set(self.columns.names)
        for number, record in enumerate(records):
            if record.keys() != names:
                raise SourceError(
                    f"row {number} that {self._name} returned behind the cursor {shown(cursor)} has other fields "
                    f"than columns: {fields_amiss(record.keys(), self.columns)}; the row is {shown(dict(record))}",
                    hint=_FIELDS,
                )
        try:
            arrays = [
                _exact_array([record.get(field.name) for record in records], field.type) for field in self.columns
            ]
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
            raise self._misfit(records, cursor) from error
        return pa.RecordBatch.from_arrays(arrays, schema=self.columns)

    def _from_arrow(self, rows: pa.RecordBatch | pa.Table) -> pa.RecordBatch:
        amiss = fields_amiss(rows.schema.names, self.columns)
        if amiss is not None:
            raise SourceError(f"{self._name} returned a table with other columns: {amiss}", hint=_FIELDS)
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        try:
            table = table.select(self.columns.names).cast(self.columns).combine_chunks()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SourceError(
                f"{self._name} returned a table that does not fit its columns: {error}",
                hint="correct `schema`, or convert the columns in the function",
            ) from error
        return pa.RecordBatch.from_arrays(
            [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in table.columns],
            schema=self.columns,
        )

    def _record(self, row: Any) -> Mapping[str, Any]:
        if isinstance(row, dict):
            return row
        fields = fields_of(type(row))
        if fields is None:
            raise SourceError(
                f"a row of {self._name} must be a dict, a named tuple, or an instance of a dataclass or attrs class, "
                f"got {shown(row)}",
                hint="return a list of dicts, for example",
            )
        return {name: getattr(row, name) for name in fields}

    def _misfit(self, records: list[Mapping[str, Any]], cursor: Any) -> SourceError:
        """Return the error for the first value that does not fit its column."""
        for number, record in enumerate(records):
            for field in self.columns:
                try:
                    _exact_array([record.get(field.name)], field.type)
                except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
                    needs_zone = any_inside([record.get(field.name)], field.type, lack_zone)
                    return SourceError(
                        f"row {number} that {self._name} returned behind the cursor {shown(cursor)} does not fit "
                        f"column {field.name!r}, which is {field.type}: {error}; the row is {shown(dict(record))}",
                        hint=_ADD_ZONE if needs_zone else _CONVERT,
                    )
        return SourceError(f"the rows of {self._name} do not fit its columns", hint="correct `schema`")


class ReadEvents(ReadRows[Any]):
    """Read what a function returns; see `source`."""


@overload
def source(function: Callable[..., Any], /) -> Callable[..., ReadEvents]: ...


@overload
def source(
    *,
    schema: pa.Schema | None = None,
    row_type: type[Any] | None = None,
    event_time: str | Arrival | None = ARRIVAL,
    event_time_unit: TimeUnit | None = None,
    processing_time: str | None = None,
    watermark: WatermarkEstimator | DurationLike | None = None,
    bounded: bool = False,
    limit: int = _LIMIT,
    id_columns: tuple[str, ...] = (),
    poll_interval: DurationLike = POLL_INTERVAL,
    transient_errors: tuple[type[Exception], ...] = _TRANSIENT,
    retry_for: DurationLike = RETRY_FOR,
) -> Callable[[Callable[..., Any]], Callable[..., ReadEvents]]: ...


def source(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:  # noqa: D417 - by name
    """Turn a function into a source: `def events(cursor, limit): return rows, next_cursor`.

    The function is called with `None` first, and then with the cursor that it returned last, from the process that
    plans micro-batches; it is never called twice with a cursor whose rows have been kept. Its rows are written to the
    checkpoint before they count, so each takes effect exactly once although the function may answer differently when
    it is asked again. Call the result for the transform, with further arguments of the function by name.

    Args:
        function: takes a cursor, any JSON value, and how many rows it should return at most, and returns these rows and
            the next cursor. The rows are dicts, named tuples, instances of dataclasses or attrs classes, or a table of
            Arrow; each has a field for each column, which may be `None` or pandas' `NaT`, and no others. A `datetime`
            for a column with a time zone needs one too. If it returns as many rows as that or more,
            it is called again at once. A run with `until="drained"` calls it until it returns none.
        schema: the names and types of the columns. They may also come from the annotation of what the function
            returns, such as `tuple[list[Event], int]` with a class `Event`; the elements are then instances of it.
        row_type: that class, in place of the annotation.
        event_time: the column of event times; by default the time of arrival, `None` for none.
        event_time_unit: the unit of integers in time columns; microseconds by default.
        processing_time: the column of the replay clock.
        watermark: an estimator, or how far events may be out of order.
        bounded: whether the source ends, with the next cursor `None`. Without a checkpoint, all rows are then read
            before the run, into memory.
        limit: how many rows the function should return at most.
        id_columns: the columns that together identify a row; by default, it is its number.
        poll_interval: how long to wait after fewer rows than that.
        transient_errors: the errors after which the function is called again, after pauses that grow.
        retry_for: how long it may fail in this way before the run does.

    Raises:
        InvalidType: for what is no function, is `async`, or has unknown types of rows, and for arguments by position.
        InvalidArgument: for a limit that is not positive, a negative duration, a time column that does not exist, or
            arguments that the function does not take.

    Example:
        >>> import dataflow_model as dm
        >>> from typing import NamedTuple
        >>> class Reading(NamedTuple):
        ...     at: int
        ...     degrees: float
        >>> @dm.io.source(event_time="at", event_time_unit="s", bounded=True)
        ... def readings(cursor, limit, sensor) -> tuple[list[Reading], int | None]:
        ...     first = cursor or 0
        ...     rows = [Reading(n, 20.0 + sensor) for n in range(first, min(first + limit, 3))]
        ...     return rows, first + len(rows) if rows else None
        >>> with dm.Pipeline() as p:
        ...     _ = p | readings(sensor=1) | dm.Map(lambda row: row.degrees) | "degrees" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("degrees")]
        [21.0, 21.0, 21.0]
    """
    if function is None:
        return functools.partial(_made, options)
    return _made(options, function)


def _made(options: Mapping[str, Any], function: Any) -> Callable[..., ReadEvents]:
    if not callable(function) or isinstance(function, type):
        raise InvalidType(f"dm.io.source decorates a function, got {shown(function)}", hint=_SIGNATURE)
    refuse_async(function, "dm.io.source")
    known = [field.name for field in attrs.fields(_Options)]
    for name in options:
        if name not in known:
            raise InvalidType(f"dm.io.source has no argument {name!r}", hint=way_out(name, known))
    made = _Options(**options)
    kind, columns = _columns(function, made.schema, made.row_type)
    signature = inspect.signature(function)

    @functools.wraps(function)
    def read(*given: Any, **arguments: Any) -> ReadEvents:
        if given:
            names = [name for name, each in signature.parameters.items() if each.kind not in _OF_ANY_NUMBER][2:]
            written = ", ".join(f"{name}={shown(value)}" for name, value in zip(names, given, strict=False))
            raise InvalidType(
                f"{function.__name__} takes arguments by name alone, since a run passes the cursor and the limit, got "
                f"{', '.join(map(shown, given))}",
                hint=f"write {function.__name__}({written})",
            )
        try:
            signature.bind(None, made.limit, **arguments)
        except TypeError as error:
            raise InvalidArgument(
                f"{function.__name__}{signature} cannot be called with a cursor, a limit and {arguments}: {error}",
                hint=_SIGNATURE,
            ) from error
        typed_rows = None if kind is None else checked_row_type(kind)
        events = EventsSource(
            function=function,
            arguments=arguments,
            columns=columns,
            limit=made.limit,
            event_time=made.event_time,
            event_time_unit=made.event_time_unit,
            processing_time=made.processing_time,
            watermark=checked_watermark(made.event_time, made.watermark, EVERYTHING),
            is_bounded=made.bounded,
            id_columns=made.id_columns,
            poll_interval=made.poll_interval,
            transient_errors=made.transient_errors,
            retry_for=made.retry_for,
        )
        transform = ReadEvents(events, element_type=events.row_type())
        transform.typed_rows = typed_rows
        return transform

    vars(read)[MAKES_TRANSFORM] = True
    return read


def _exact_array(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column.

    Raises:
        ValueError: if Arrow would drop a part of one, such as the fraction of 1.5 in a column of integers, or take a
            `datetime` without a time zone as UTC.
    """
    if any_inside(values, kind, lack_zone):
        raise ValueError("an instant needs a time zone")
    if not pa.types.is_nested(kind) and any(_is_nat(value) for value in values):
        values = [None if _is_nat(value) else value for value in values]
    checked = values
    if pa.types.is_integer(kind):  # JSON of other languages has 3.0 for 3
        checked = [value for value in values if not (isinstance(value, float) and value.is_integer())]
    if would_change(checked, kind):
        raise ValueError("the column would not hold it exactly")
    if pa.types.is_timestamp(kind) and set(map(type, values)) <= {dt.datetime, type(None)}:
        return pa.array(values, pa.timestamp("us", kind.tz)).cast(kind)  # which fails where it would drop a fraction
    return pa.array(values, kind)


def _is_nat(value: Any) -> bool:
    """Return whether a value is pandas' `NaT`, which is neither equal to itself nor an instant."""
    return isinstance(value, dt.datetime) and value != value  # noqa: PLR0124


def _checked_limit(value: Any) -> int:
    if type(value) is not int or value < 1:
        raise InvalidArgument(
            f"`limit` must be a positive number of rows, got {value!r}", hint="leave it out, or 1_000"
        )
    return value


@attrs.frozen(kw_only=True)
class _Options:
    schema: pa.Schema | None = attrs.field(default=None)
    row_type: type[Any] | None = None
    event_time: str | Arrival | None = ARRIVAL
    event_time_unit: TimeUnit | None = None
    processing_time: str | None = None
    watermark: WatermarkEstimator | DurationLike | None = None
    bounded: bool = False
    limit: int = attrs.field(default=_LIMIT, converter=_checked_limit)
    id_columns: tuple[str, ...] = ()
    poll_interval: DurationLike = attrs.field(default=POLL_INTERVAL, converter=checked_interval)
    transient_errors: tuple[type[Exception], ...] = _TRANSIENT
    retry_for: DurationLike = attrs.field(default=RETRY_FOR, converter=checked_retry)


def _columns(
    function: Callable[..., Any], schema: pa.Schema | None, row_type: type[Any] | None
) -> tuple[type[Any] | None, pa.Schema]:
    """Return the class of the rows, if there is one, and the columns."""
    if schema is not None and not isinstance(schema, pa.Schema):
        raise InvalidType(
            f"`schema` must be a schema of Arrow, got {shown(schema)}", hint='write pa.schema({"at": pa.int64()})'
        )
    kind = _row_class(function) if row_type is None else row_type
    if schema is not None:
        return row_type, without_views(schema)
    columns = None if kind is None else schema_from_type(kind)
    if kind is None or columns is None:
        raise InvalidType(
            f"the types of the rows of {getattr(function, '__name__', function)} are not known",
            hint="annotate what it returns, as in tuple[list[Event], int] with a NamedTuple or dataclass Event, or "
            'pass schema=pa.schema({"at": pa.timestamp("us", "UTC")})',
        )
    return None if typing.is_typeddict(kind) else kind, columns


def _row_class(function: Callable[..., Any]) -> type[Any] | None:
    """Return the class of rows that a function says it returns."""
    try:
        returned = typing.get_type_hints(function).get("return")
    except (NameError, TypeError):
        return None
    rows, *_ = typing.get_args(returned) or (None,)
    kind, *_ = typing.get_args(rows) or (None,)
    return kind if isinstance(kind, type) and fields_of(kind) is not None else None
