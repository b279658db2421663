"""Two sources as one: what has been kept up to a point, and then what arrives from exactly there on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, InvalidType, SourceError, shown
from dataflow_model.io.arguments import with_label_hints
from dataflow_model.io.parquet.parquet_types import can_hold, fitted
from dataflow_model.io.read import ReadRows, checked_watermark
from dataflow_model.overriding import override
from dataflow_model.plan.columns.source_columns import BAD_FIELD, bad_column_index
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Changes, Origin
from dataflow_model.plan.functions.typevars import ResultT
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.time import EventTime, event_time, format_instant
from dataflow_model.transforms.endpoints.create import Read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dataflow_model.plan.columns.inferred_columns import ColumnRecord
    from dataflow_model.plan.columns.source_columns import BadRow, Columns
    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.endpoints.column_sources import Keep
    from dataflow_model.plan.endpoints.origins import ChangeNotifier, Known, OriginPosition
    from dataflow_model.plan.functions.dofn import DeadLetter
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike, InstantLike

_HISTORY: Final = "history"
_LIVE: Final = "live"
_CONVERT: Final = "pass convert= a function that makes the columns of `history` in the batches of `live`"
_POSITIONS: Final = {_HISTORY: "position in the history", _LIVE: "position in what is live"}
"""The columns of positions, which rows do not have; their names say which source a batch is from."""


@attrs.frozen
class _Part:
    """The known origins of one of two sources, by their names there."""

    known: Known
    prefix: str

    def names(self) -> set[str]:
        """Return the names of all origins."""
        return {name.removeprefix(self.prefix) for name in self.known.names() if name.startswith(self.prefix)}

    def get(self, name: str, /) -> Origin | None:
        """Return an origin as it was listed."""
        origin = self.known.get(self.prefix + name)
        return None if origin is None else origin._replace(name=name)

    def is_read(self, name: str, /) -> bool:
        """Return whether all rows of an origin that were listed have been read."""
        return self.known.is_read(self.prefix + name)

    def has_names_of(self, other: Known) -> bool:
        """Return `False`: it is not worth finding out."""
        del other
        return False


@attrs.frozen(eq=False, kw_only=True)
class ThenSource(ColumnSource):
    """The rows of a bounded source, and then those of another one.

    Attributes:
        history: the first source.
        live: the second one, whose origins are listed when all rows of the first have been read.
        at: the event time from which on rows are those of the second; `None` for all rows of both.
        convert: turns a batch of the second source into columns of the first.
    """

    history: ColumnSource
    live: ColumnSource
    at: EventTime | None = None
    convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
    event_time: str | Arrival | None = None
    processing_time: str | None = None
    event_time_unit: TimeUnit | None = None
    watermark: WatermarkEstimator
    watermark_origins: WatermarkOrigins = EVERYTHING
    is_bounded: bool = attrs.field(default=attrs.Factory(lambda self: self.live.is_bounded, takes_self=True))
    poll_interval: DurationLike | None = attrs.field(
        default=attrs.Factory(lambda self: self.live.poll_interval, takes_self=True)
    )
    transient_errors: tuple[type[Exception], ...] = attrs.field(
        default=attrs.Factory(
            lambda self: (*self.history.transient_errors, *self.live.transient_errors), takes_self=True
        )
    )
    retry_for: DurationLike = attrs.field(default=attrs.Factory(lambda self: self.live.retry_for, takes_self=True))

    @property
    @override
    def contents(self) -> str:
        since = "" if self.at is None else f" from {format_instant(int(self.at))} on"
        return f"{self.history.contents}, then {self.live.contents}{since}"

    @property
    def shared_paths(self) -> tuple[str, ...]:
        """The paths of both."""
        return (*self.history.shared_paths, *self.live.shared_paths)

    @property
    def is_users(self) -> bool:
        """Whether code of the user's reads one of them."""
        return self.history.is_users or self.live.is_users or self.convert is not None

    @property
    def position_column(self) -> str:
        """A name for the columns of positions, which batches have besides those of the schema."""
        return "position"

    def follows(self, directory: str) -> bool:
        """Return whether one of them would read what is written to a directory."""
        return self.history.follows(directory) or self.live.follows(directory)

    def bound(self) -> ThenSource:
        """Return the source with both sources bound."""
        return attrs.evolve(self, history=self.history.bound(), live=self.live.bound())

    def recorded_in(self, record: ColumnRecord) -> ThenSource:
        """Return the source with the columns that the run has recorded for the first source."""
        return attrs.evolve(self, history=self.history.recorded_in(record))

    def kept(self, keep: Keep, name: str = "") -> ThenSource:
        """Return the source with the rows kept of those that cannot be read again."""
        del name
        return attrs.evolve(self, history=self.history.kept(keep, _HISTORY), live=self.live.kept(keep, _LIVE))

    @override
    def definition(self) -> str:
        first, second = type(self.history).__name__, type(self.live).__name__
        seam = "the last row" if self.at is None else format_instant(int(self.at))
        return f"{first} up to {seam} and {second} from there on"

    def schema(self) -> pa.Schema:
        """Return the columns of the first source."""
        return self.history.schema()

    def size(self) -> int:
        """Return the bytes of both."""
        return self.history.size() + self.live.size()

    def origins(self) -> list[Origin]:
        """Return the origins of both, of which the second one is bounded too."""
        listed = [self._named(_HISTORY, origin) for origin in self.history.counted_origins()]
        return [*listed, *(self._named(_LIVE, origin) for origin in self.live.counted_origins())]

    def poll(self, known: Known, clock: int) -> Changes:
        """Return the origins of the first source, or the changes of the second once the first has been read."""
        first, second = (_Part(known, self._prefix(side)) for side in (_HISTORY, _LIVE))
        if not first.names() and not second.names():
            listed = self.history.counted_origins()
            if any(origin.row_count for origin in listed):
                return Changes([self._named(_HISTORY, origin) for origin in listed], frozenset(), has_more=True)
        elif not all(map(first.is_read, first.names())):
            return Changes([], frozenset(), has_more=True)
        changes = self.live.poll(second, clock)
        return changes._replace(
            origins=[self._named(_LIVE, origin) for origin in changes.origins],
            gone={self._prefix(_LIVE) + name for name in changes.gone},
        )

    def drained(self) -> ThenSource:
        """Return the source for the last poll of a run."""
        return attrs.evolve(self, live=self.live.drained())

    def notifier(self) -> ChangeNotifier | None:
        """Return the notifier of the second source."""
        return self.live.notifier()

    def ends(self, origin: str) -> bool:
        """Return whether an origin has ended once its rows have been read: those of the first source have."""
        source, name = self._of(origin)
        return source is self.history or source.ends(name)

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows of an origin that are before or behind the point, with their positions."""
        source, name = self._of(origin)
        side = _HISTORY if source is self.history else _LIVE
        row = start
        for batch in source.read(name, start, stop):
            positions = source.positions_in(batch, row)
            row = int(positions[-1]) + 1 if len(positions) else row
            rows = batch if side == _HISTORY else self._converted(batch)
            if self.at is not None:
                keeps = self._is_on_side(side, rows)
                rows, positions = rows.filter(pa.array(keeps)), positions[keeps]
            yield rows.append_column(_POSITIONS[side], pa.array(positions, pa.int64()))

    def positions_in(self, batch: pa.RecordBatch, row: int) -> Any:
        """Return the positions that `read` has added."""
        del row
        return batch.column(batch.num_columns - 1).to_numpy()

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch as the source does that it is from, without the positions."""
        rows = batch.select(range(batch.num_columns - 1))
        is_history = batch.schema.names[-1] == _POSITIONS[_HISTORY]
        return self.history.columns_of(rows) if is_history else super().columns_of(rows)

    def version_of(self, origin: str) -> tuple[int | str, ...] | None:
        """Return the version of an origin as it is now."""
        source, name = self._of(origin)
        return source.version_of(name)

    def check_version(self, origin: str, version: tuple[int | str, ...]) -> None:
        """Raise `SourceError` if an origin has changed since it was listed or read."""
        source, name = self._of(origin)
        source.check_version(name, version)

    def is_missing(self, origin: str) -> bool:
        """Return whether an origin does not exist any more."""
        source, name = self._of(origin)
        return source.is_missing(name)

    def check_may_skip(self, origin: str, rows: int) -> None:
        """Raise `SourceError` if the unread rows of an origin must not be skipped, as those of the first source."""
        source, name = self._of(origin)
        if source is self.history:
            raise SourceError(
                f"the origin {name!r} of the history has disappeared, after {rows} of its rows were read",
                hint="restore it, and start the run again",
            )
        source.check_may_skip(name, rows)

    def committed(self, origins: Mapping[str, OriginPosition]) -> None:
        """Tell both sources how far they have been read."""
        for side, source in ((_HISTORY, self.history), (_LIVE, self.live)):
            prefix = self._prefix(side)
            source.committed(
                {name.removeprefix(prefix): origin for name, origin in origins.items() if name.startswith(prefix)}
            )

    def rows_lost(self, origin: str) -> int:
        """Return how many rows the range that was read last of an origin lacked."""
        source, name = self._of(origin)
        return source.rows_lost(name)

    def levels(self, origins: Mapping[str, OriginPosition]) -> Mapping[str, Mapping[str, int]]:
        """Return the numbers that the second source has for a report."""
        prefix = self._prefix(_LIVE)
        return self.live.levels(
            {name.removeprefix(prefix): origin for name, origin in origins.items() if name.startswith(prefix)}
        )

    def dead_letter(self, label: str, origin: str, start: int, bad: BadRow) -> DeadLetter:
        """Return a bad row as its source does."""
        source, name = self._of(origin)
        return source.dead_letter(label, name, start, bad)

    @override
    def where(self, origin: str, row: int) -> str:
        source, name = self._of(origin)
        return source.where(name, row)

    def _of(self, origin: str) -> tuple[ColumnSource, str]:
        """Return the source that has an origin, and its name there."""
        side, _, name = origin.partition("/")
        return (self.history if side == _HISTORY else self.live), name

    def _prefix(self, side: str) -> str:
        return f"{side}/"

    def _named(self, side: str, origin: Origin) -> Origin:
        return origin._replace(name=self._prefix(side) + origin.name)

    def _converted(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the second source in the columns of the first."""
        schema = self.schema()
        bad = bad_column_index(batch.schema)
        marks = None if bad is None else batch.column(bad)
        batch = batch if bad is None else batch.remove_column(bad)
        rows: Any = batch if self.convert is None else self.convert(batch)
        if not isinstance(rows, pa.RecordBatch) or rows.num_rows != batch.num_rows:
            raise SourceError(
                f"`convert` must return a batch of Arrow with {batch.num_rows} rows, got {shown(rows)}",
                hint="return pa.RecordBatch.from_pylist(rows, schema=…) with one row for each row, in their order",
            )
        misfit = _misfit(self.history, self.live, rows.schema)
        if misfit:
            raise SourceError(f"the rows of `live` must have the columns of `history`: {misfit}", hint=_CONVERT)
        try:
            columns = [fitted(rows.column(field.name), field.type) for field in schema]
        except (pa.ArrowException, ValueError) as error:
            raise SourceError(
                f"the rows of {self.live.contents} do not fit the columns of {self.history.contents}: {error}",
                hint=_CONVERT,
            ) from error
        converted = pa.RecordBatch.from_arrays(columns, schema=schema)
        return converted if marks is None else converted.append_column(BAD_FIELD, marks)

    def _is_on_side(self, side: str, rows: pa.RecordBatch) -> Any:
        """Return which rows are before the point, or from there on; bad rows are, on both sides."""
        columns = self.history.columns_of(rows) if side == _HISTORY else super().columns_of(rows)
        assert columns.event_times is not None  # noqa: S101 - checked where the source is made
        assert self.at is not None  # noqa: S101 - by the caller
        is_before = columns.event_times < int(self.at)
        keeps = is_before if side == _HISTORY else ~is_before
        return keeps if columns.valid is None else np.logical_or(keeps, ~columns.valid)


@with_label_hints(takes_path=False)
class Then(ReadRows[ResultT]):
    """Read a bounded source to its end, and then another one from exactly there: backfill, then live.

    Both are one source: it has one watermark, which goes on at the seam, and one timeline, which a replay clock can
    replay. The second source is listed once the first has been read, and a run that is started again goes on in the
    one where it was.

    Args:
        history: what is read first, such as `dm.io.ReadParquet(…)` or `dm.io.ReadTable(…)`.
        live: what is read then, such as `dm.io.ReadKafka(…)`, a `@dm.io.source` or a `dm.Read` of a class of your own.
        at: the event time of the seam: of `history`, rows before it are read, and of `live` those from it on, so that
            no row is read twice where both have it. Let `live` begin early enough: rows that arrive late are there.
            `None` reads all rows of both.
        convert: turns a batch of `live` into the columns of `history`; without it, `live` has them by name, with types
            of the same kind.
        watermark: an estimator, or how far event times may be out of order; by default, the estimator of `live`.

    Raises:
        InvalidType: for what is not a source of rows.
        InvalidArgument: for a history without an end, columns of time that are not the same, a seam without event
            times, or without `convert` a `live` that lacks a column of `history` or has it as another kind of type.

    Example:
        >>> import dataflow_model as dm
        >>> import pandas as pd
        >>> def readings(*hours):
        ...     at = [pd.Timestamp(f"2013-01-01T{hour}:00Z") for hour in hours]
        ...     return dm.io.ReadTable(pd.DataFrame({"at": at, "hour": hours}), event_time="at")
        >>> with dm.Pipeline() as p:
        ...     rows = p | dm.io.Then(readings(10, 11, 12), readings(11, 12, 13), at="2013-01-01T12:00Z")
        ...     _ = rows | dm.Map(lambda row: row.hour) | "hours" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("hours")]
        [10, 11, 12, 13]
    """

    def __init__(
        self,
        history: Read[ResultT],
        live: Read[Any],
        *,
        at: InstantLike | None = None,
        convert: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
    ) -> None:
        first, second = _rows_of(history, "history"), _rows_of(live, "live")
        if not first.is_bounded:
            raise InvalidArgument(
                f"`history` must have an end, got {first.contents}", hint="leave out follow=True, or give it an end"
            )
        for option in ("event_time", "processing_time"):
            names = getattr(first, option), getattr(second, option)
            if names[0] != names[1] and (convert is None or option == "processing_time"):
                raise InvalidArgument(
                    f"`history` and `live` must have the same {option}, got {names[0]!r} and {names[1]!r}",
                    hint="name the same column in both, and pass convert= a function that makes it in `live`",
                )
        _check_units(first, second, convert)
        misfit = "" if convert is not None else _misfit(first, second, second.schema())
        if misfit:
            raise InvalidArgument(f"`live` must have the columns of `history`: {misfit}", hint=_CONVERT)
        if at is not None and not isinstance(first.event_time, str):
            raise InvalidArgument(
                f"`at` is an event time, but the event times of `history` are in no column, got {first.event_time!r}",
                hint="name the column with event_time= in both, or leave `at` out",
            )
        by = second.watermark_origins.by_column
        origins = second.watermark_origins if by is not None and by in first.schema().names else EVERYTHING
        estimator = second.watermark if watermark is None else checked_watermark(first.event_time, watermark, origins)
        source = ThenSource(
            history=first,
            live=second,
            at=None if at is None else event_time(at),
            convert=convert,
            event_time=first.event_time,
            processing_time=first.processing_time,
            event_time_unit=first.event_time_unit,
            watermark=estimator,
            watermark_origins=origins,
        )
        super().__init__(source, element_type=source.row_type())
        self.typed_rows = history.typed_rows if isinstance(history, ReadRows) else None


def _misfit(history: ColumnSource, live: ColumnSource, given: pa.Schema) -> str:
    """Return why rows of `live` with the columns `given` cannot have those of `history`; an empty text if they can."""
    names = frozenset(given.names)
    for field in history.schema():
        if field.name not in names:
            return f"the rows of {live.contents} have no column {field.name!r}, which {history.contents} has"
        kind = given.field(field.name).type
        if not can_hold(field.type, kind):
            return f"column {field.name!r} of {history.contents} is {field.type}, but that of {live.contents} is {kind}"
    return ""


def _check_units(first: ColumnSource, second: ColumnSource, convert: Any) -> None:
    """Raise `InvalidArgument` if whole numbers in the columns of times mean something else in each source."""
    units = first.event_time_unit or "us", second.event_time_unit or "us"
    names = {name for name in (first.event_time, first.processing_time) if isinstance(name, str)}
    numbers = [name for name in names if pa.types.is_integer(first.schema().field(name).type)]
    if convert is None and numbers and units[0] != units[1]:
        raise InvalidArgument(
            f"`history` and `live` must have whole numbers of one unit in column {numbers[0]!r}, got {units[0]!r} and "
            f"{units[1]!r}",
            hint="pass convert= a function that makes the columns of `history`",
        )


def _rows_of(read: Any, option: str) -> ColumnSource:
    source = read.source.as_columns if isinstance(read, Read) else None
    if source is None or source.id_columns:
        raise InvalidType(
            f"`{option}` must be a source of rows, got {shown(read)}",
            hint="pass dm.io.ReadParquet(…), dm.io.ReadKafka(…), or dm.Read(…) of a ColumnSource, without id_columns",
        )
    return source
