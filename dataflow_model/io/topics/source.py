"""Topics of Kafka as a source: each partition is an origin, and offsets are the positions of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, SourceError
from dataflow_model.io.topics.bounds import (
    Bound,
    check_offsets,
    checked_end,
    checked_group,
    checked_pattern,
    checked_start,
    checked_topics,
    partition_of,
)
from dataflow_model.io.topics.client import checked_options, checked_servers
from dataflow_model.overriding import override
from dataflow_model.plan.columns.source_columns import check_time_column
from dataflow_model.plan.columns.time_units import checked_unit
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Changes, Origin
from dataflow_model.plan.watermarks.estimators import check_estimator
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.endpoints.origins import Known, OriginPosition
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator

COLUMNS: Final = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("origin", pa.string()),
        ("headers", pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))),
    ]
)
"""The columns of rows whose values are bytes."""


@attrs.frozen(kw_only=True)
class KafkaSource(ColumnSource):
    """Topics, from a bound on; without an end they are followed.

    Attributes:
        topics: their names; empty if `pattern` says which.
        pattern: a regular expression that the whole name of a topic must match.
        servers: the addresses of brokers.
        start: where each partition begins; one that is added later, or that offsets do not name, is read from its first
            row. Rows whose timestamps are before an instant are left out.
        end: `None` to follow the topics, else all that is there when the run begins is read, or what is before an
            instant or an offset.
        group: the consumer group in which is noted how far the run has read; `None` for none.
        on_loss: what happens where rows have been deleted before they were read; if they are skipped, they are counted
            as `rows_lost`.
        event_time: a column, `ARRIVAL`, or `None`.
        event_time_unit: the unit of integers in that column.
        watermark, watermark_origins: see `Source`.
        options: of the client.
        needed: the columns to read.
    """

    topics: tuple[str, ...] = attrs.field(default=None, converter=checked_topics)
    pattern: str | None = attrs.field(default=None, converter=checked_pattern)
    servers: str = attrs.field(converter=checked_servers)
    start: Bound = attrs.field(default="earliest", converter=checked_start)
    end: Bound | None = attrs.field(default=None, converter=checked_end)
    group: str | None = attrs.field(default=None, converter=checked_group)
    on_loss: Literal["error", "skip"] = "error"
    event_time: str | Arrival | None = "timestamp"
    event_time_unit: TimeUnit | None = attrs.field(default=None, converter=checked_unit)
    watermark: WatermarkEstimator = attrs.field()
    watermark_origins: WatermarkOrigins = EVERYTHING
    options: dict[str, Any] = attrs.field(default=None, converter=checked_options, repr=False)
    needed: tuple[str, ...] = attrs.field(default=tuple(COLUMNS.names), repr=False)
    is_bounded: bool = attrs.field(
        init=False, default=attrs.Factory(lambda self: self.end is not None, takes_self=True)
    )
    is_typed: ClassVar[bool] = True
    poll_interval = None

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        check_estimator(self.watermark)
        if bool(self.topics) == (self.pattern is not None):
            raise InvalidArgument(
                f"either `topics` or `pattern` says what is read, got topics={self.topics!r} and "
                f"pattern={self.pattern!r}",
                hint="pass 'departures', or pattern='departures-.*'",
            )
        check_offsets("start", self.start, self.topics)
        check_offsets("end", self.end, self.topics)
        if self.on_loss not in {"error", "skip"}:
            raise InvalidArgument(
                f"`on_loss` must be 'error' or 'skip', got {self.on_loss!r}",
                hint="on_loss='skip' goes on behind rows that have been deleted, and counts them",
            )
        if isinstance(self.event_time, str):
            check_time_column(self.columns, self.event_time, "event_time")
        if self.start == "latest" and self.end is not None:
            raise InvalidArgument(
                f"`start` and `end` leave nothing to read, got start='latest' and end={self.end!r}",
                hint="use start='earliest', or leave `end` out to follow the topic",
            )
        if isinstance(self.start, dict) and isinstance(self.end, dict):
            for partition, offset in self.end.items():
                if self.start.get(partition, 0) > offset:
                    raise InvalidArgument(
                        f"`end` is before `start` in {partition[0]}/{partition[1]}, got offsets {offset} and "
                        f"{self.start[partition]}",
                        hint="end behind the last row to read",
                    )
        by = self.watermark_origins.by_column
        if self.watermark_origins.by == "file" or (by is not None and by not in self.columns.names):
            raise InvalidArgument(
                f"`watermark_origin` must be a column, got {self.watermark_origins.by!r}",
                hint="use watermark_origin='origin' for one watermark for each partition",
            )

    @property
    @override
    def contents(self) -> str:
        if self.pattern is not None:
            return f"the topics that match {self.pattern!r}"
        return f"the topic{'s' if len(self.topics) > 1 else ''} {', '.join(self.topics)}"

    @property
    def columns(self) -> pa.Schema:
        """All columns that a row can have."""
        return COLUMNS

    @property
    def position_column(self) -> str:
        """The column of offsets."""
        return "offset"

    @property
    def origin_column(self) -> str:
        """The column of topic and partition."""
        return "origin"

    def bound(self) -> KafkaSource:
        """Return the source, once the topics have been found.

        Raises:
            SourceError: if the brokers cannot be reached, a topic does not exist, or a right is missing.
        """
        from dataflow_model.io.topics.groups import check_group
        from dataflow_model.io.topics.offsets import find_topics

        find_topics(self)
        if self.group is not None:
            check_group("ReadKafka", self.group, self.servers, self.options, reads=True)
        return self

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return self.message_columns

    @property
    def message_columns(self) -> pa.Schema:
        """The columns of messages, as they are before values are decoded."""
        return pa.schema([COLUMNS.field(name) for name in self.needed])

    def where(self, origin: str, row: int) -> str:
        """Return how messages call a row."""
        del origin
        return f"offset {row}"

    def project(self, columns: Collection[str]) -> KafkaSource:
        """Return the source with only these columns and those of time, watermark and position."""
        kept = {*columns, self.event_time, self.watermark_origins.by_column, self.position_column}
        return attrs.evolve(self, needed=tuple(name for name in self.needed if name in kept))

    def origins(self) -> list[Origin]:
        """Return the partitions of all topics, from the start to the end, or to what can be read now."""
        from dataflow_model.io.topics.offsets import listed

        return listed(self, {})

    def poll(self, known: Known, clock: int) -> Changes:
        """Return the partitions that are new or have grown.

        Raises:
            SourceError: if the brokers do not answer for some time, or a topic was deleted and perhaps made again.
        """
        del clock
        from dataflow_model.io.topics.offsets import listed

        before = {name: origin for name in known.names() if (origin := known.get(name)) is not None}
        now = listed(self, before)
        gone = before.keys() - {origin.name for origin in now}
        self._check_gone(gone)
        return Changes([origin for origin in now if self._has_changed(before.get(origin.name), origin)], gone)

    def committed(self, origins: Mapping[str, OriginPosition]) -> None:
        """Note in the consumer group how far the run has read, if there is a group."""
        from dataflow_model.io.topics.groups import note_positions

        if self.group is not None and origins:
            note_positions(self, self.group, {partition_of(name): origin.position for name, origin in origins.items()})

    def levels(self, origins: Mapping[str, OriginPosition]) -> Mapping[str, Mapping[str, int]]:
        """Return by partition how many offsets are unread, and how many an open transaction holds back."""
        from dataflow_model.io.topics.offsets import levels_of

        return levels_of(self, {name: origin.position for name, origin in origins.items()}) if origins else {}

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read the committed rows with offsets `[start, stop)` of a partition."""
        from dataflow_model.io.topics.reading import read_partition

        assert stop is not None  # noqa: S101 - all origins are listed with their ends
        yield from read_partition(self, origin, start, stop)

    def check_version(self, origin: str, version: tuple[int | str, ...]) -> None:
        """Raise `SourceError` unless all that was read of a partition is of the topic that was listed."""
        from dataflow_model.io.topics.reading import id_after_reading

        topic_id = id_after_reading(self, partition_of(origin)[0])
        if topic_id is None:
            self._check_gone({origin})
        elif topic_id != version[0]:
            raise _made_again(origin)

    def rows_lost(self, origin: str) -> int:
        """Return the number of offsets that the last range of a partition lacked, since they have been deleted."""
        from dataflow_model.io.topics.reading import offsets_lost

        return offsets_lost(self, origin)

    def _check_gone(self, origins: Collection[str]) -> None:
        """Raise `SourceError` for partitions that were deleted, unless these may be skipped."""
        if origins and self.on_loss == "error":
            raise SourceError(
                f"the topic of {min(origins)} was deleted since the run began",
                hint="start a new run with another checkpoint, or pass on_loss='skip'",
            )

    def _has_changed(self, before: Origin | None, now: Origin) -> bool:
        if before is None:
            return True
        if before.version != now.version:
            raise _made_again(now.name)
        return now.row_count > before.row_count


def _made_again(origin: str) -> SourceError:
    """Return the error for a partition of a topic that has another id than when the run began."""
    return SourceError(
        f"the topic of {origin} was deleted and made again since the run began, so its offsets are those of other rows",
        hint="start a new run with another checkpoint",
    )
