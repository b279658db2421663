"""Sources whose rows are those of another source, but come from another place."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.overriding import override
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin
from dataflow_model.plan.endpoints.retries import retried

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from dataflow_model.plan.columns.source_columns import BadRow, Columns
    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.endpoints.origins import Known
    from dataflow_model.plan.functions.dofn import DeadLetter
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.plan.watermarks.origins import WatermarkOrigins
    from dataflow_model.time import DurationLike


@attrs.frozen(eq=False, kw_only=True)
class WrappedSource(ColumnSource):
    """A source with the columns of another one; subclasses say where the rows come from.

    Attributes:
        source: the other source.
    """

    source: ColumnSource
    event_time: str | Arrival | None = attrs.field(
        default=attrs.Factory(lambda self: self.source.event_time, takes_self=True)
    )
    processing_time: str | None = attrs.field(
        default=attrs.Factory(lambda self: self.source.processing_time, takes_self=True)
    )
    watermark: WatermarkEstimator = attrs.field(
        default=attrs.Factory(lambda self: self.source.watermark, takes_self=True)
    )
    watermark_origins: WatermarkOrigins = attrs.field(
        default=attrs.Factory(lambda self: self.source.watermark_origins, takes_self=True)
    )
    is_bounded: bool = attrs.field(default=attrs.Factory(lambda self: self.source.is_bounded, takes_self=True))
    id_columns: tuple[str, ...] = attrs.field(
        default=attrs.Factory(lambda self: self.source.id_columns, takes_self=True)
    )
    event_time_unit: TimeUnit | None = attrs.field(
        default=attrs.Factory(lambda self: self.source.event_time_unit, takes_self=True)
    )
    poll_interval: DurationLike | None = attrs.field(
        default=attrs.Factory(lambda self: self.source.poll_interval, takes_self=True)
    )
    transient_errors: tuple[type[Exception], ...] = attrs.field(
        default=attrs.Factory(lambda self: self.source.transient_errors, takes_self=True)
    )
    retry_for: DurationLike = attrs.field(default=attrs.Factory(lambda self: self.source.retry_for, takes_self=True))

    @property
    @override
    def contents(self) -> str:
        return self.source.contents

    @property
    def is_users(self) -> bool:
        """Whether code of the user's reads the source."""
        return self.source.is_users

    @property
    def opens_empty(self) -> bool:
        """Whether a side input of its rows is known without any."""
        return self.source.opens_empty

    @property
    def position_column(self) -> str | None:
        """The column of positions that the source has."""
        return self.source.position_column

    @property
    def origin_column(self) -> str | None:
        """The column of origins that the source has."""
        return self.source.origin_column

    @override
    def definition(self) -> str:
        return self.source.definition()

    def schema(self) -> pa.Schema:
        """Return the columns' names and types."""
        return self.source.schema()

    def row_type(self) -> type[Any]:
        """Return the type of the rows."""
        return self.source.row_type()

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch as the source does."""
        return self.source.columns_of(batch)

    def dead_letter(self, label: str, origin: str, start: int, bad: BadRow) -> DeadLetter:
        """Return a bad row as the source does."""
        return self.source.dead_letter(label, origin, start, bad)

    def where(self, origin: str, row: int) -> str:
        """Return how messages call a row of an origin, as the source does."""
        return self.source.where(origin, row)

    def advice(self, bad: BadRow) -> str:
        """Return what the source suggests for a bad row."""
        return self.source.advice(bad)


@attrs.frozen
class Listed:
    """Origins that a source has listed, of which nothing has been read."""

    origins: Mapping[str, Origin] = attrs.field(factory=dict)

    def names(self) -> set[str]:
        """Return the names of all origins."""
        return set(self.origins)

    def get(self, name: str, /) -> Origin | None:
        """Return an origin as it was listed."""
        return self.origins.get(name)

    def is_read(self, name: str, /) -> bool:
        """Return `False`."""
        del name
        return False

    def has_names_of(self, other: Known) -> bool:
        """Return `False`: it is not worth finding out."""
        del other
        return False


@attrs.frozen(eq=False, kw_only=True)
class HeldSource(WrappedSource):
    """All rows of a bounded source that cannot be read again, in memory.

    Attributes:
        rows: the batches of each origin.
    """

    rows: Mapping[str, tuple[pa.RecordBatch, ...]] = attrs.field(repr=False)

    @classmethod
    def of(cls, source: ColumnSource, label: str, clock: int) -> HeldSource:
        """Read all rows of a source.

        Args:
            source: the source.
            label: its label.
            clock: the wall clock.
        """
        rows: dict[str, list[pa.RecordBatch]] = {}
        known = Listed()
        while True:
            changes = retried(source, label, "poll", functools.partial(source.poll, known, clock))
            for origin in changes.origins:
                before = known.get(origin.name)
                start = 0 if before is None else before.row_count
                rows.setdefault(origin.name, []).extend(source.read(origin.name, start, origin.row_count))
            known = Listed({**known.origins, **{origin.name: origin for origin in changes.origins}})
            if not changes.has_more:
                return cls(source=source, rows={name: tuple(batches) for name, batches in rows.items()})

    def origins(self) -> list[Origin]:
        """Return the origins with their numbers of rows."""
        return [Origin(name, sum(batch.num_rows for batch in batches)) for name, batches in self.rows.items()]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Yield rows `[start, stop)`."""
        yield from rows_between(self.rows[origin], start, stop)


def rows_between(batches: tuple[pa.RecordBatch, ...], start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
    """Yield rows `[start, stop)` of batches.

    Example:
        >>> import pyarrow as pa
        >>> batches = tuple(pa.record_batch({"n": numbers}) for numbers in ([0, 1], [2, 3], [4]))
        >>> [batch.column("n").to_pylist() for batch in rows_between(batches, 1, 4)]
        [[1], [2, 3]]
    """
    first = 0
    for batch in batches:
        low, high = max(start - first, 0), batch.num_rows if stop is None else min(stop - first, batch.num_rows)
        if low < high:
            yield batch.slice(low, high - low)
        first += batch.num_rows
