"""Topics of Kafka as a source: each partition is an origin, and offsets are the positions of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

import attrs
import pyarrow as pa

from dataflow_model.errors import InvalidArgument, SourceError
from dataflow_model.io.topics.client import checked_options, checked_servers, checked_topic
from dataflow_model.plan.columns.source_columns import check_time_column
from dataflow_model.plan.endpoints.sources import Changes, ColumnSource, Origin
from dataflow_model.plan.watermarks.estimators import check_estimator
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.time import EventTime, event_time

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from dataflow_model.plan.endpoints.sources import Known
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
Place = Literal["earliest", "latest"] | EventTime


def _checked_topics(value: Any) -> tuple[str, ...]:
    topics = (value,) if isinstance(value, str) else tuple(value)
    if not topics or len(set(topics)) < len(topics):
        raise InvalidArgument(
            f"`topics` must be one topic or several, each once, got {value!r}", hint="pass 'departures', for example"
        )
    return tuple(map(checked_topic, topics))


def _checked_start(value: Any) -> Place:
    given: Any = value
    return given if isinstance(value, str) and value in {"earliest", "latest"} else event_time(value)


def _checked_end(value: Any) -> Place | None:
    return None if value is None else _checked_start(value)


@attrs.frozen(kw_only=True)
class KafkaSource(ColumnSource):
    """Topics, from a place on; without an end they are followed.

    Attributes:
        topics: their names.
        servers: the addresses of brokers.
        start: where each partition begins; a partition that is added later is read from its first row. Rows whose
            timestamps are before an instant are left out.
        end: `None` to follow the topics, else all that is there when the run begins is read, or what is before an
            instant.
        event_time: a column, `ARRIVAL`, or `None`.
        watermark, watermark_origins: see `Source`.
        options: of the client.
        needed: the columns to read.
    """

    topics: tuple[str, ...] = attrs.field(converter=_checked_topics)
    servers: str = attrs.field(converter=checked_servers)
    start: Place = attrs.field(default="earliest", converter=_checked_start)
    end: Place | None = attrs.field(default=None, converter=_checked_end)
    event_time: str | Arrival | None = "timestamp"
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
        if isinstance(self.event_time, str):
            check_time_column(COLUMNS, self.event_time, "event_time")
        if self.start == "latest" and self.end is not None:
            raise InvalidArgument(
                f"`start` and `end` leave nothing to read, got start='latest' and end={self.end!r}",
                hint="use start='earliest', or leave `end` out to follow the topic",
            )
        by = self.watermark_origins.by_column
        if self.watermark_origins.by == "file" or (by is not None and by not in COLUMNS.names):
            raise InvalidArgument(
                f"`watermark_origin` must be a column, got {self.watermark_origins.by!r}",
                hint="use watermark_origin='origin' for one watermark for each partition",
            )

    @property
    def contents(self) -> str:
        """What `explain()` calls the source."""
        return f"the topic{'s' if len(self.topics) > 1 else ''} {', '.join(self.topics)}"

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
            SourceError: if the brokers cannot be reached, or a topic does not exist.
        """
        from dataflow_model.io.topics.offsets import find_topics

        find_topics(self)
        return self

    def schema(self) -> pa.Schema:
        """Return the columns."""
        return pa.schema([COLUMNS.field(name) for name in self.needed])

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
        changed = [origin for origin in listed(self, before) if self._has_changed(before.get(origin.name), origin)]
        return Changes(changed, frozenset())

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        """Read the committed rows with offsets `[start, stop)` of a partition."""
        from dataflow_model.io.topics.reading import read_partition

        assert stop is not None  # noqa: S101 - all origins are listed with their ends
        yield from read_partition(self, origin, start, stop)

    def _has_changed(self, before: Origin | None, now: Origin) -> bool:
        if before is None:
            return True
        if before.version != now.version:
            raise SourceError(
                f"the topic of {now.name} was deleted and made again since the run began, so its offsets are those of "
                "other rows",
                hint="start a new run with another checkpoint",
            )
        return now.row_count > before.row_count
