"""Sources that generate their rows: numbers at a rate, for tests and demonstrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.overriding import override
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Changes, Origin
from dataflow_model.time import Duration, EventTime, duration, duration_text, event_time, format_instant
from dataflow_model.transforms.endpoints.create import Read
from dataflow_model.transforms.pipelines.pcollection import PCollection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.endpoints.origins import Known
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike, InstantLike

_SCHEMA: Final = pa.schema({"value": pa.int64(), "at": pa.timestamp("us", "UTC")})
_BATCH_ROWS: Final = 65_536
_EPOCH: Final = EventTime(0)
_LARGEST: Final = 2**63 - 1
_FASTEST: Final = 10**9
_LONGEST: Final = Duration(micros=366 * 86_400_000_000)
"""The longest period: with it, the times of a batch can be computed in 64 bits."""


@attrs.frozen
class NextAfter:
    """A watermark for elements that are at least `gap` apart: it is `gap` after the last element.

    Example:
        >>> NextAfter(Duration(micros=1_000_000)).watermark(EventTime(0))
        EventTime(1970-01-01T00:00:01Z)
    """

    gap: Duration

    def watermark(self, reached: EventTime) -> EventTime:
        """Return `reached + gap`, before which no more elements arrive."""
        return reached + self.gap


@attrs.frozen(kw_only=True)
class GeneratedSource(ColumnSource):
    """Rows `(value, at)`: the numbers `first`, `first + 1`, …, evenly spaced in event time. They are one origin.

    The origin is named by an instant, its *anchor*: row n becomes available n periods later. A name lasts as long as
    the checkpoint, so a run that is resumed goes on with exactly the same rows.

    Attributes:
        first: the first number.
        count: how many rows there are, or `None` for no end.
        rate: how many rows there are in each `period`.
        period: the length of time that `rate` refers to.
        begin: the event time of the first row, or `None` for the anchor.
        anchor: when the first row is available; `None` for when the run begins.
        processing_time: `"at"` where the event times are the replay clock too, or `None`.
    """

    first: int
    count: int | None
    rate: int
    period: Duration
    begin: EventTime | None
    anchor: EventTime | None
    processing_time: str | None = None
    event_time: str | Arrival | None = attrs.field(init=False, default="at")
    is_bounded: bool = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.count is not None, takes_self=True)
    )
    watermark: WatermarkEstimator = attrs.field(
        default=attrs.Factory(lambda self: NextAfter(Duration(micros=int(self.period) // self.rate)), takes_self=True)
    )
    is_typed: ClassVar[bool] = True
    poll_interval = None
    sorted_by_clock: ClassVar[bool] = True

    def origins(self) -> list[Origin]:
        """Return the only origin, with all its rows; one without an end has none before it is polled."""
        return [] if self.count is None else [Origin(self._name(_EPOCH), self.count)]

    def first_origins(self, rows: int | None) -> Iterator[Origin]:
        """Yield the only origin with the first rows, whether or not they are available yet.

        Raises:
            InvalidArgument: for all rows of a source without an end.
        """
        if rows is None:
            if self.count is None:
                raise InvalidArgument(
                    f"{self!r} has no end, so its elements cannot all be read", hint="pass sample=1_000, for example"
                )
            rows = self.count
        yield Origin(self._name(_EPOCH), rows if self.count is None else min(rows, self.count))

    def poll(self, known: Known, clock: int) -> Changes:
        """Return how many rows are available at the time `clock`."""
        name = next(iter(known.names()), None) or self._name(EventTime(clock))
        before = known.get(name)
        rows = self._available(clock - int(event_time(name)))
        is_unchanged = before is not None and rows <= before.row_count
        return Changes([] if is_unchanged else [Origin(name, rows)], frozenset())

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Generate rows `[start, stop)`."""
        stop = self.count if stop is None else stop
        assert stop is not None  # noqa: S101 - rows of a source without an end are read in ranges
        begin = int(event_time(origin) if self.begin is None else self.begin)
        for low in range(start, stop, _BATCH_ROWS):
            high = min(low + _BATCH_ROWS, stop)
            whole, part = divmod(low * int(self.period), self.rate)  # of any size; what follows fits into 64 bits
            steps = np.arange(high - low, dtype=np.int64) * int(self.period)
            times = pa.array(begin + whole + (part + steps) // self.rate, pa.timestamp("us", "UTC"))
            yield pa.RecordBatch.from_arrays(
                [pa.array(np.arange(self.first + low, self.first + high)), times], schema=_SCHEMA
            )

    def schema(self) -> pa.Schema:
        """Return the two columns."""
        return _SCHEMA

    @override
    def definition(self) -> str:
        begin = "its anchor" if self.begin is None else format_instant(int(self.begin))
        anchor = "the start of the run" if self.anchor is None else format_instant(int(self.anchor))
        return f"{self.describe()}, from {begin} on, anchored at {anchor}"

    def describe(self) -> str:
        """Return the numbers and the rate."""
        last = "" if self.count is None else str(self.first + self.count - 1)
        return f"generated numbers {self.first}…{last}, {self.rate} every {duration_text(self.period)}"

    def _available(self, elapsed: int) -> int:
        """Return how many rows have an offset from the anchor of at most `elapsed` microseconds."""
        rows = 0 if elapsed < 0 else -((elapsed + 1) * self.rate // -int(self.period))
        return rows if self.count is None else min(rows, self.count)

    def _name(self, begins: EventTime) -> str:
        return format_instant(int(begins if self.anchor is None else self.anchor))


class GenerateSequence(Read[PCollection]):
    """Generate the whole numbers from `start` on, a number of them in each period of time.

    The elements are rows `(value, at)`: the number, and the event time as a `datetime`. Row n has the event time
    `begin + n * period / rate`, rounded down to a microsecond. The watermark is exact: it stands where the next row
    will be.

    With `stop`, the collection is bounded and all its rows are there at once. Without, it is unbounded: a stream emits
    rows at the given rate by the wall clock, beginning when the run begins. A run that was stopped for some time and is
    resumed first emits what has become due meanwhile. Rows are counted in the checkpoint: none is skipped or repeated.

    Args:
        start: the first number.
        stop: where the numbers end, exclusive, or `None` for no end.
        rate: how many rows there are in each period.
        period: the length of time that `rate` refers to, at most 366 days.
        begin: the event time of the first row; by default 1970-01-01T00:00:00Z with `stop`, and the beginning of the
            run without.
        replay: whether the event times are also the replay clock. Panes then do not depend on when the rows were
            emitted.

    Raises:
        InvalidType: for numbers that are not whole.
        InvalidArgument: for a rate or period that is not positive, or a `stop` before `start`.

    Source: Beam's `GenerateSequence`, whose elements are bare numbers without a defined event time.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     pairs = p | dm.io.GenerateSequence(stop=6, rate=2) | dm.Map(lambda row: ("sum", row.value))
        ...     _ = pairs | dm.Window.into(dm.FixedWindows("2 seconds")) | dm.Sum.per_key() | "sums" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("sums")]
        [('sum', 6), ('sum', 9)]
    """

    def __init__(
        self,
        start: int = 0,
        stop: int | None = None,
        *,
        rate: int = 1,
        period: DurationLike = "1 second",
        begin: InstantLike | None = None,
        replay: bool = False,
    ) -> None:
        first, last = _whole("start", start), None if stop is None else _whole("stop", stop)
        if last is not None and last < first:
            raise InvalidArgument(
                f"`stop` must not be less than `start`, got start={first} and stop={last}",
                hint="swap the two, or leave `stop` out for a sequence without end",
            )
        if not -_LARGEST - 1 <= first <= (first if last is None else last) <= _LARGEST:
            raise InvalidArgument(
                f"`start` and `stop` must be whole numbers of 64 bits, got start={first} and stop={last}",
                hint="generate from 0 on, and add the start in dm.Map(…)",
            )
        if not 1 <= _whole("rate", rate) <= _FASTEST:
            raise InvalidArgument(
                f"`rate` must be from 1 to {_FASTEST:,}, got {rate}",
                hint="for fewer rows, pass a longer period='1 minute'",
            )
        at = None if begin is None else event_time(begin)
        source = GeneratedSource(
            first=first,
            count=None if last is None else last - first,
            rate=rate,
            period=_period("period", period),
            begin=_EPOCH if at is None and last is not None else at,
            anchor=None,
            processing_time="at" if replay else None,
        )
        super().__init__(source, element_type=source.row_type())


@calls_explained(
    {
        "start_timestamp": "use `start`",
        "stop_timestamp": "use `stop`",
        "fire_interval": "use `interval`",
        "apply_windowing": "write … | dm.Window.into(dm.FixedWindows(60)) after it",
        "rebase": "leave it out: the instants of `start`, `stop` and `interval` do not move",
        "data": "add what belongs to an instant with dm.Map(lambda row: …) after it",
    }
)
class PeriodicImpulse(Read[PCollection]):
    """Generate a row at regular instants: `start`, `start + interval`, and so on.

    The elements are rows `(value, at)`: how many rows there were before, and the instant, which is the event time. The
    watermark is exact: it stands at the next instant.

    With `stop`, the collection is bounded and all its rows are there at once. Without, it is unbounded: a stream emits
    each row when the wall clock reaches its instant, and what is due already at once. Rows are counted in the
    checkpoint: none is skipped or repeated.

    Args:
        start: the first instant; `None` for when the run begins.
        stop: where the instants end, exclusive, or `None` for no end.
        interval: the time between two instants, at most 366 days.
        replay: whether the instants are also the replay clock. Panes then do not depend on when the rows were emitted.

    Raises:
        InvalidArgument: for an interval that is not positive, a `stop` before `start`, or a `stop` without a `start`.

    Source: Beam's `PeriodicImpulse`, whose elements are bare instants.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     ticks = p | dm.io.PeriodicImpulse("2013-01-01T00:00Z", "2013-01-01T03:00Z", interval="1 hour")
        ...     _ = ticks | dm.Map(lambda row: row.at.hour) | "hours" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("hours")]
        [0, 1, 2]
    """

    def __init__(
        self,
        start: InstantLike | None = None,
        stop: InstantLike | None = None,
        *,
        interval: DurationLike = "1 second",
        replay: bool = False,
    ) -> None:
        first, last = (None if instant is None else event_time(instant) for instant in (start, stop))
        step, count = _period("interval", interval), None
        if last is not None:
            if first is None:
                raise InvalidArgument(
                    f"`stop` needs a `start`, got stop={last!r} alone", hint="pass start= too, or leave `stop` out"
                )
            if last < first:
                raise InvalidArgument(
                    f"`stop` must not be before `start`, got start={first!r} and stop={last!r}",
                    hint="swap the two, or leave `stop` out for impulses without end",
                )
            count = -((int(last) - int(first)) // -int(step))
        source = GeneratedSource(
            first=0,
            count=count,
            rate=1,
            period=step,
            begin=first,
            anchor=first,
            processing_time="at" if replay else None,
        )
        super().__init__(source, element_type=source.row_type())


def _whole(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidType(f"`{name}` must be a whole number, got {value!r}", hint="pass an int, such as 10")
    return value


def _period(name: str, value: DurationLike) -> Duration:
    length = duration(value)
    if not Duration(0) < length <= _LONGEST:
        raise InvalidArgument(
            f"`{name}` must be positive and at most 366 days, got {duration_text(length)!r}",
            hint="pass a duration such as '1 minute'",
        )
    return length
