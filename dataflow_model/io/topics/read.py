"""Reading from Kafka: the transform that users call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack

from dataflow_model.io.arguments import check_arguments, with_label_hints
from dataflow_model.io.read import ReadRows, checked_watermark
from dataflow_model.io.topics.source import KafkaSource
from dataflow_model.plan.watermarks.origins import WatermarkOptions, origins_of
from dataflow_model.transforms.pipelines.pcollection import PCollection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike, InstantLike


@with_label_hints(takes_path=False)
class ReadKafka(ReadRows[PCollection]):
    """Read topics of Kafka, without Java; with `end`, what is there between two places, and otherwise as a stream.

    The elements are rows `(key, value, timestamp, topic, partition, offset, origin, headers)`: key and value are bytes
    or `None`; `timestamp` is an instant in UTC; `origin` is the topic and the partition, such as `"departures/3"`;
    `headers` is a list of dicts with `name` and `value`. Only committed messages are read, up to the first transaction
    that is still open.

    Offsets are kept in the checkpoint, and nothing in Kafka. Partitions that are added to a topic are read from their
    first row. If the rows at the offset of a stream have been deleted, by the retention of the topic for example, the
    run fails with the number of the offsets that are lost.

    Args:
        topics: the name of a topic, or several.
        bootstrap_servers: the address of a broker such as `"localhost:9092"`, or several.
        start: where a new run begins: `"earliest"`, `"latest"`, or an instant, before which no row is read by its
            timestamp.
        end: for a bounded run, which reads what is there when it begins: `"latest"`, or an instant, of which only rows
            with earlier timestamps are read.
        event_time: the column of event times, `dm.ARRIVAL`, or `None` to read rows without event times.
        watermark: an estimator, or how far event times may be out of order; by default, they are in order.
        options: options of the client, librdkafka, such as `{"security.protocol": "SSL"}`. They are not part of
            checkpoints, logs and reports.
        watermark_origin: the column whose values each have a watermark, by default `"origin"`, the partitions. A
            partition without rows holds back the watermark, unless `idle_after` is set.
        partitions, idle_after, max_skew, weight: as in `ReadParquet`.

    Raises:
        ModuleNotFoundError: if the client is not installed: `pip install 'dataflow-model[kafka]'`.
        InvalidArgument: for options that contradict each other, or that are set here.
        SourceError: by `run()`, if the brokers cannot be reached or a topic does not exist; during the run, if rows
            have been deleted before they were read, or a topic was made again.

    Source: Beam's `ReadFromKafka`, which runs in Java.

    Example:
        >>> import dataflow_model as dm
        >>> read = dm.io.ReadKafka("departures", bootstrap_servers="localhost:9092", end="latest")
        >>> read.source.is_bounded
        True
    """

    def __init__(
        self,
        topics: str | Sequence[str],
        *,
        bootstrap_servers: str | Sequence[str],
        start: Literal["earliest", "latest"] | InstantLike = "earliest",
        end: Literal["latest"] | InstantLike | None = None,
        event_time: str | Arrival | None = "timestamp",
        watermark: WatermarkEstimator | DurationLike | None = None,
        options: Mapping[str, Any] | None = None,
        **watermark_options: Unpack[WatermarkOptions],
    ) -> None:
        check_arguments(type(self), watermark_options)
        if event_time is not None:
            watermark_options.setdefault("watermark_origin", "origin")
        origins = origins_of(watermark_options)
        source = KafkaSource(
            topics=topics,
            servers=bootstrap_servers,
            start=start,
            end=end,
            event_time=event_time,
            watermark=checked_watermark(event_time, watermark, origins),
            watermark_origins=origins,
            options=options,
        )
        super().__init__(source, element_type=source.row_type())
