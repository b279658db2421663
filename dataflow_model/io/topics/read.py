"""Reading from Kafka: the transform that users call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, Unpack, overload

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.arguments import check_arguments, with_label_hints
from dataflow_model.io.read import ReadRows, checked_row_type, checked_watermark
from dataflow_model.io.topics.decoded_source import DecodedSource, fields_among
from dataflow_model.io.topics.decoding.avro import AvroValues
from dataflow_model.io.topics.decoding.registry import Registry
from dataflow_model.io.topics.decoding.values import FunctionValues, JsonValues
from dataflow_model.io.topics.source import KafkaSource
from dataflow_model.plan.functions.typevars import ElementT, ResultT
from dataflow_model.plan.watermarks.origins import WatermarkOptions, origins_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.io.topics.decoding.values import ValueFormat
    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.watermarks.estimators import Arrival, WatermarkEstimator
    from dataflow_model.time import DurationLike, InstantLike
    from dataflow_model.transforms.pipelines.pcollection import PCollection


_VALUES: Final = "'bytes', 'json', 'avro' or a function of the bytes"


class KafkaOptions(WatermarkOptions, total=False):
    """The further arguments of `ReadKafka`."""

    pattern: str | None
    start: Literal["earliest", "latest"] | InstantLike | Mapping[tuple[str, int], int]
    end: Literal["latest"] | InstantLike | Mapping[tuple[str, int], int] | None
    on_loss: Literal["error", "skip"]
    group: str | None
    value: Literal["bytes", "json", "avro"] | Callable[[bytes], Mapping[str, Any]]
    schema_registry: str | Mapping[str, str] | None
    event_time: str | Arrival | None
    event_time_unit: TimeUnit | None
    watermark: WatermarkEstimator | DurationLike | None
    options: Mapping[str, Any] | None


@with_label_hints(takes_path=False)
class ReadKafka(ReadRows[ResultT]):
    """Read topics of Kafka, without Java; with `end`, what is there between two places, and otherwise as a stream.

    The elements are rows `(key, value, timestamp, topic, partition, offset, origin, headers)`: key and value are bytes
    or `None`; `timestamp` is an instant in UTC; `origin` is the topic and the partition, such as `"departures/3"`;
    `headers` is a list of dicts with `name` and `value`. With a `schema`, the fields of the value are columns in front
    of these, in place of `value`, and `is_tombstone` follows them: a message without a value is a row whose fields are
    null. A field with the name of another column, such as `timestamp`, is the column `value_timestamp`.

    Only committed messages are read, up to the first transaction that is still open. Offsets are kept in the
    checkpoint, and only noted in Kafka if there is a `group`. Partitions that are added to a topic, and topics that
    come to match `pattern`, are read from their first row.

    Args:
        topics: the name of a topic, or several.
        bootstrap_servers: the address of a broker such as `"localhost:9092"`, or several.
        pattern: in place of `topics`, a regular expression that the whole name of a topic must match.
        start: where a new run begins: `"earliest"`, `"latest"`, an instant, before which no row is read by its
            timestamp, or offsets such as `{("departures", 0): 42}`. A partition that these do not name is read from its
            first row.
        end: for a bounded run, which reads what is there when it begins: `"latest"`, an instant, of which only rows
            with earlier timestamps are read, or offsets, which are not read themselves. A partition that these do not
            name is read to its last row.
        on_loss: what happens if rows were deleted before they were read, by the retention of the topic for example: by
            default the run fails with their number. With `"skip"`, it goes on behind them, and counts their offsets as
            `rows_lost`.
        group: a consumer group in which a stream notes, after each commit, how far it has read, for tools that show
            this. Nothing is read from it.
        value: what values are: `"bytes"`, `"json"` for an object with the fields in `schema`, `"avro"` for a record
            with these fields as Confluent's serializers write it, or a function from the bytes to a dict of just
            these. A value that cannot be decoded or does not fit the schema is a bad row, see
            `with_exception_handling`.
        schema_registry: with `"avro"`, the address of the registry that has the schemas of the values, by the interface
            of Confluent's; or a dict with `"url"` and `"basic.auth.user.info"`, a name and a password with a colon
            between. The password is not part of checkpoints, logs and reports.
        schema: the names and types of the fields of values, unless these are bytes. Other fields of JSON and Avro are
            ignored.
        row_type: in place of `schema`, a `NamedTuple`, dataclass or attrs class: the rows are instances of it. Fields
            with names of columns above are these, such as `offset: int`; the others are those of the value.
        event_time: the column of event times, `dm.ARRIVAL`, or `None` to read rows without event times.
        event_time_unit: `"s"`, `"ms"`, `"us"` or `"ns"`: the unit of integers in that column; microseconds by default.
        watermark: an estimator, or how far event times may be out of order; by default, they are in order.
        options: options of the client, librdkafka, such as `{"security.protocol": "SSL"}`. They are not part of
            checkpoints, logs and reports.
        watermark_origin: the column whose values each have a watermark, by default `"origin"`, the partitions. A
            partition without rows holds back the watermark, unless `idle_after` is set.
        partitions, idle_after, max_skew, weight: as in `ReadParquet`.

    Raises:
        ModuleNotFoundError: if the client is not installed: `pip install 'dataflow-model[kafka]'`.
        InvalidArgument: for options that contradict each other, or that are set here.
        InvalidType: for a value of another type, and for a `row_type` with a field of a type that no column can have.
        SourceError: by `run()`, if the brokers cannot be reached, a topic does not exist or none matches, or a
            partition has not got an offset that is named, or the user lacks a right; during the run, if rows were
            deleted before they were read, or a topic was made again.

    Source: Beam's `ReadFromKafka`, which runs in Java.

    Example:
        >>> import pyarrow as pa
        >>> import dataflow_model as dm
        >>> read = dm.io.ReadKafka("departures", bootstrap_servers="localhost:9092", end="latest")
        >>> read.source.is_bounded
        True
        >>> columns = pa.schema({"carrier": pa.string(), "delay": pa.int64()})
        >>> read = dm.io.ReadKafka("departures", bootstrap_servers="localhost:9092", value="json", schema=columns)
        >>> read.source.schema().names[:4]
        ['carrier', 'delay', 'key', 'timestamp']
    """

    @overload
    def __init__(
        self: ReadKafka[PCollection],
        topics: str | Sequence[str] | None = None,
        *,
        bootstrap_servers: str | Sequence[str],
        schema: pa.Schema | None = None,
        row_type: None = None,
        **options: Unpack[KafkaOptions],
    ) -> None: ...

    @overload
    def __init__(
        self: ReadKafka[PCollection[ElementT]],
        topics: str | Sequence[str] | None = None,
        *,
        bootstrap_servers: str | Sequence[str],
        row_type: type[ElementT],
        **options: Unpack[KafkaOptions],
    ) -> None: ...

    def __init__(  # noqa: PLR0913 - what is read, from where to where, and as what
        self,
        topics: str | Sequence[str] | None = None,
        *,
        bootstrap_servers: str | Sequence[str],
        pattern: str | None = None,
        start: Literal["earliest", "latest"] | InstantLike | Mapping[tuple[str, int], int] = "earliest",
        end: Literal["latest"] | InstantLike | Mapping[tuple[str, int], int] | None = None,
        on_loss: Literal["error", "skip"] = "error",
        group: str | None = None,
        value: Literal["bytes", "json", "avro"] | Callable[[bytes], Mapping[str, Any]] = "bytes",
        schema: pa.Schema | None = None,
        schema_registry: str | Mapping[str, str] | None = None,
        row_type: type[Any] | None = None,
        event_time: str | Arrival | None = "timestamp",
        event_time_unit: TimeUnit | None = None,
        watermark: WatermarkEstimator | DurationLike | None = None,
        options: Mapping[str, Any] | None = None,
        **watermark_options: Unpack[WatermarkOptions],
    ) -> None:
        check_arguments(type(self), watermark_options)
        if event_time is not None:
            watermark_options.setdefault("watermark_origin", "origin")
        origins = origins_of(watermark_options)
        typed_rows = None if row_type is None else checked_row_type(row_type, schema)
        arguments: dict[str, Any] = {
            "topics": topics,
            "pattern": pattern,
            "servers": bootstrap_servers,
            "start": start,
            "end": end,
            "on_loss": on_loss,
            "group": group,
            "event_time": event_time,
            "event_time_unit": event_time_unit,
            "watermark": checked_watermark(event_time, watermark, origins),
            "watermark_origins": origins,
            "options": options,
        }
        form = _checked_format(value, schema_registry)
        fields = schema if typed_rows is None else fields_among(typed_rows.schema)
        if (form is None) != (fields is None):
            raise InvalidArgument(
                f"`schema` or `row_type` names the fields of values that are not bytes, got value={value!r} "
                f"and {'no schema' if fields is None else f'the fields {fields.names}'}",
                hint="pass value='json' with schema=pa.schema({'delay': pa.int64()}), for example; with bytes, "
                "leave `schema` and `row_type` out",
            )
        source = KafkaSource(**arguments) if form is None else DecodedSource(fields=fields, form=form, **arguments)
        if typed_rows is not None:
            typed_rows.check_columns(source.schema())
        super().__init__(source, element_type=source.row_type())
        self.typed_rows = typed_rows


def _checked_format(value: Any, registry: Any) -> ValueFormat | None:
    """Return how the bytes of values become fields; `None` if they stay bytes."""
    if (value == "avro") != (registry is not None):
        raise InvalidArgument(
            f"`schema_registry` has the schemas of values in Avro, got value={value!r} and "
            f"{'no' if registry is None else 'a'} registry",
            hint="pass value='avro' with schema_registry='http://localhost:8081', for example, or leave both out",
        )
    function: Any = value
    if callable(value):
        return FunctionValues(function)
    hint = "pass value='json' with schema=pa.schema({'delay': pa.int64()}), for example"
    if not isinstance(value, str):
        raise InvalidType(f"`value` must be {_VALUES}, got {value!r}", hint=hint)
    match value:
        case "bytes":
            return None
        case "json":
            return JsonValues()
        case "avro":
            return AvroValues(Registry.of(registry))
    raise InvalidArgument(f"`value` must be {_VALUES}, got {value!r}", hint=hint)
