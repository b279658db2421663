"""Columns of a source in the engine's form: event times and clock as integers, with the bad rows separate."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, shown
from dataflow_model.micros import micros_since_epoch
from dataflow_model.plan.columns.python_range import RANGE, in_numbers, indices_beyond
from dataflow_model.plan.columns.rows import rows_of, values_of
from dataflow_model.plan.columns.time_units import in_micros
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.watermarks.estimators import Arrival

BAD_FIELD: Final = pa.field(
    "__bad__", pa.struct([("text", pa.string()), ("reason", pa.string())]), metadata={"dataflow_model": "bad rows"}
)
"""The last column of a batch with rows that its reader could not parse: their text and the reason; null for good rows.

Rows that have neither are bad rows for which the one before them stands, such as all rows of a file.
Its metadata tells it from a column of the file that happens to have the same name.
"""

_MIN: Final = int(MIN_TIMESTAMP)
_MAX: Final = int(MAX_TIMESTAMP)


@attrs.frozen
class BadRow:
    """A row that cannot become an element.

    Attributes:
        index: the index of the row in the batch.
        row: the values by column name, or the text of a row that could not be parsed.
        reason: the problem, with column and value.
        processing_time: the replay clock at the row, as `Columns.clock` has it; `None` without a replay clock, or if no
            row of the batch has one.
    """

    index: int
    row: dict[str, Any] | str
    reason: str
    processing_time: int | None = None


@attrs.frozen(eq=False)
class Columns:
    """A batch in columns, without a Python object per row.

    Attributes:
        batch: all rows, including bad ones.
        event_times: in microseconds, 0 for bad rows; `None` if arrival is the event time and the clock is the wall.
        clock: the replay clock in microseconds, or `None` for the wall clock. A row without a value has that of the
            last row before it in the batch that has one, or else that of the first row after it.
        valid: the mask of good rows, or `None` if all rows are good.
        bad: the bad rows.
        clock_from: the index of the first row that has a clock value of its own; the number of rows if none has.
    """

    batch: pa.RecordBatch
    event_times: NDArray[np.int64] | None
    clock: NDArray[np.int64] | None
    valid: NDArray[np.bool_] | None = None
    bad: tuple[BadRow, ...] = ()
    clock_from: int = 0


@attrs.frozen(eq=False)
class DecodedRows:
    """A batch's good rows as elements, and its bad rows.

    Attributes:
        values: a named tuple for each good row.
        event_times: in microseconds, one per value; `None` if arrival is the event time and the clock is the wall.
        clock: the replay clock in microseconds, one per value; `None` for the wall clock.
        positions: the row of each value in the batch.
        bad: the bad rows.
    """

    values: list[Any]
    event_times: NDArray[np.int64] | None
    clock: NDArray[np.int64] | None
    positions: NDArray[np.int64]
    bad: tuple[BadRow, ...] = ()


def instants(column: pa.Array, unit: TimeUnit | None = None) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Return a column's instants in microseconds since the epoch, and a mask of the values that are instants.

    The column can hold timestamps of any unit (truncated to whole microseconds; in UTC if they have no zone), dates
    (midnight in UTC), integers (in `unit`) and ISO 8601 text (in UTC without an offset). Null, text that is not an
    instant, the integers that represent −∞ and +∞, instants beyond them, and values of any other type are masked out
    and replaced by 0. The mask is `None` if every value is an instant.

    Example:
        >>> instants(pa.array(["1970-01-01T00:00:01Z", "yesterday", None]))
        (array([1000000,       0,       0]), array([ True, False, False]))
    """
    kind = column.type
    if pa.types.is_dictionary(kind):
        return instants(column.dictionary_decode(), unit)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        zone = kind.tz if pa.types.is_timestamp(kind) else None
        try:
            column = column.cast(pa.timestamp("us", zone), safe=kind != pa.timestamp("ns", zone)).cast(pa.int64())
        except pa.ArrowInvalid:  # beyond the range of 64-bit microseconds
            return _parsed(column, _micros_of_scalar)
    elif pa.types.is_integer(kind):
        try:
            column = column.cast(pa.int64())
        except pa.ArrowInvalid:  # unsigned, beyond 2**63
            return in_micros(*_parsed(column, _micros_of_scalar), unit)
        if unit is not None:
            known = None if not column.null_count else column.is_valid().to_numpy(zero_copy_only=False)
            return in_micros(*_finite(column.fill_null(0).to_numpy(), known), unit)
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _parse_text(column)
        if not pa.types.is_int64(column.type):
            return _parsed(column, _micros_of_text)
    else:
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_)
    if column.null_count == 0:
        return _finite(column.to_numpy(), None)
    return _finite(column.fill_null(0).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False))


def _finite(
    times: NDArray[np.int64], known: NDArray[np.bool_] | None
) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    """Mask out −∞ and +∞, since a row at +∞ would end every window."""
    if not len(times) or _MIN < times.min() <= times.max() < _MAX:
        return times, known
    finite = (times > _MIN) & (times < _MAX)
    return np.where(finite, times, 0), finite if known is None else known & finite


def check_time_column(schema: pa.Schema, column: str, option: str) -> None:
    """Reject a time column that does not exist or whose type cannot hold instants.

    Raises:
        InvalidArgument: with the existing columns, or the accepted types.

    Example:
        >>> check_time_column(pa.schema({"at": pa.float64()}), "at", "event_time")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: `event_time` column 'at' has type double, which cannot hold instants
        Hint: use timestamps, dates, integers (microseconds since the epoch) or ISO 8601 text
    """
    if column not in schema.names:
        raise InvalidArgument(
            f"`{option}` names the column {column!r}, which does not exist",
            hint=f"the columns are {', '.join(schema.names)}",
        )
    kind = schema.field(column).type
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    good = (
        pa.types.is_timestamp,
        pa.types.is_date,
        pa.types.is_integer,
        pa.types.is_string,
        pa.types.is_large_string,
    )
    if not any(test(kind) for test in good):
        raise InvalidArgument(
            f"`{option}` column {column!r} has type {kind}, which cannot hold instants",
            hint="use timestamps, dates, integers (microseconds since the epoch) or ISO 8601 text",
        )


def split_columns(
    batch: pa.RecordBatch, event_time: str | Arrival | None, processing_time: str | None, unit: TimeUnit | None = None
) -> Columns:
    """Split a batch into columns, event times and clock, and find its bad rows.

    Whole numbers in the columns of both are in `unit`, by default in microseconds.

    Example:
        >>> columns = split_columns(pa.record_batch({"at": [5, None], "carrier": ["UA", "AA"]}), "at", None)
        >>> columns.event_times, columns.valid
        (array([5, 0]), array([ True, False]))
        >>> columns.bad[0].reason
        "column 'at' is null: the row has no event time"
    """
    reasons: dict[int, str | None] = {}
    texts: dict[int, str] = {}
    bad_column = bad_column_index(batch.schema)
    if bad_column is not None:
        marks = batch.column(bad_column)
        marked = np.flatnonzero(marks.is_valid()).tolist()
        bad_rows = marks.take(pa.array(marked, pa.int64()))
        texts = dict(zip(marked, bad_rows.field("text").to_pylist(), strict=True))
        reasons = dict(zip(marked, bad_rows.field("reason").to_pylist(), strict=True))
        batch = batch.remove_column(bad_column)
    clock: NDArray[np.int64] | None = None
    clock_from = 0
    if processing_time is not None:
        clock, known = instants(batch.column(processing_time), unit)
        if known is not None:
            _explain_missing(reasons, batch, processing_time, known, "processing time")
            clock_from = int(np.argmax(known)) if known.any() else batch.num_rows
            clock = _carried_forward(clock, known)
    event_times: NDArray[np.int64] | None = clock
    if isinstance(event_time, str):
        event_times, known = instants(batch.column(event_time), unit)
        if known is not None:
            _explain_missing(reasons, batch, event_time, known, "event time")
    for field, column in zip(batch.schema, batch.columns, strict=True):
        for index in indices_beyond(column):
            [number] = _held(column.slice(index, 1))
            reasons.setdefault(index, f"column {field.name!r} is {field.type} and holds {shown(number)}; {RANGE}")
    if not reasons:
        return Columns(batch, event_times, clock)
    indices = sorted(reasons)
    valid = np.ones(batch.num_rows, np.bool_)
    valid[indices] = False
    elements: dict[int, str | dict[str, Any]] = {**texts}
    parsed = [index for index in indices if index not in texts]
    if parsed:
        columns = list(map(_held, batch.take(pa.array(parsed, pa.int64())).columns))
        for index, values in zip(parsed, zip(*columns, strict=True), strict=True):
            elements[index] = dict(zip(batch.schema.names, values, strict=True))
    is_clocked = clock is not None and clock_from < batch.num_rows
    clocks = clock[indices].tolist() if clock is not None and is_clocked else itertools.repeat(None, len(indices))
    bad = tuple(
        BadRow(index, elements[index], reason, at)
        for index, at in zip(indices, clocks, strict=True)
        if (reason := reasons[index]) is not None
    )
    return Columns(batch, event_times, clock, valid, bad, clock_from)


def bad_column_index(schema: pa.Schema) -> int | None:
    """Return the index of the column of bad rows in a batch or a table, `None` if it has none.

    Example:
        >>> bad_column_index(pa.schema([("a", pa.int64()), BAD_FIELD]))
        1
    """
    last = len(schema) - 1
    return last if last >= 0 and schema.field(last).equals(BAD_FIELD, check_metadata=True) else None


def at_the_beginning(columns: Columns) -> Columns:
    """Return the columns with the event time −∞ for all rows, as for `Create` without event times."""
    return attrs.evolve(columns, event_times=np.full(columns.batch.num_rows, _MIN, np.int64))


def decode_columns(columns: Columns) -> DecodedRows:
    """Turn columns into elements.

    Example:
        >>> decode_columns(split_columns(pa.record_batch({"at": [5], "carrier": ["UA"]}), "at", None)).values
        [Row(at=5, carrier='UA')]
    """
    if columns.valid is None:
        positions = np.arange(columns.batch.num_rows, dtype=np.int64)
        return DecodedRows(rows_of(columns.batch), columns.event_times, columns.clock, positions)
    positions = np.flatnonzero(columns.valid)
    return DecodedRows(
        rows_of(columns.batch.take(pa.array(positions))),
        None if columns.event_times is None else columns.event_times[positions],
        None if columns.clock is None else columns.clock[positions],
        positions,
        columns.bad,
    )


def _explain_missing(
    reasons: dict[int, str | None], batch: pa.RecordBatch, column: str, known: NDArray[np.bool_], time_name: str
) -> None:
    for index in np.flatnonzero(~known).tolist():
        if index in reasons:
            continue
        [value] = _held(batch.column(column).slice(index, 1))
        reasons[index] = (
            f"column {column!r} holds {value!r}, which is not an instant: the row has no {time_name}"
            if value is not None
            else f"column {column!r} is null: the row has no {time_name}"
        )


def _held(column: pa.Array) -> list[Any]:
    """Return the values of a column, as numbers if one of them is a time that Python cannot hold."""
    return values_of(in_numbers(column) if indices_beyond(column) else column)


def _carried_forward(clock: NDArray[np.int64], known: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Fill missing clock values with the previous value, or with the first one at the start."""
    if not known.any():
        return clock
    last_known = np.maximum.accumulate(np.where(known, np.arange(len(clock)), -1))
    return clock[np.where(last_known < 0, int(np.argmax(known)), last_known)]


def _parse_text(column: pa.Array) -> pa.Array:
    """Parse a text column at once, or return it unchanged if its values differ in form."""
    for kind in (pa.timestamp("us", "UTC"), pa.timestamp("us")):
        try:
            return column.cast(kind).cast(pa.int64())
        except pa.ArrowInvalid:
            continue
    return column


def _parsed(column: pa.Array, parse: Any) -> tuple[NDArray[np.int64], NDArray[np.bool_] | None]:
    times = np.zeros(len(column), np.int64)
    known = np.zeros(len(column), np.bool_)
    for index, value in enumerate(column):
        micros = parse(value) if value.is_valid else None
        if micros is not None and _MIN < micros < _MAX:
            times[index], known[index] = micros, True
    return times, None if known.all() else known


def _micros_of_text(value: pa.Scalar) -> int | None:
    try:
        moment = dt.datetime.fromisoformat(value.as_py())
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return micros_since_epoch(moment)


def _micros_of_scalar(value: pa.Scalar) -> int | None:
    if pa.types.is_integer(value.type):
        return int(value.as_py())
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
    unit = per_second[value.type.unit] if pa.types.is_timestamp(value.type) else None
    if unit is None:
        return None
    return int(value.value) * 1_000_000 // unit
