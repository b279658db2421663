"""Well-known names of Beam, PySpark and Flink that this package spells differently, and the lookup of their hints.

Using one of them raises an `AttributeError` that names ours.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dataflow_model import metrics
from dataflow_model.errors import explain
from dataflow_model.plan.names.beam_names import IN_BEAM, IN_BEAMS_CLASSES, IN_BEAMS_IO, IN_BEAMS_TESTING, OPTIONS
from dataflow_model.time import Duration, EventTime, ProcessingTime

if TYPE_CHECKING:
    from collections.abc import Mapping

_ROOT: Final = "dataflow_model"
_IO: Final = "dataflow_model.io"
_TESTING: Final = "dataflow_model.testing"

ClassT = TypeVar("ClassT", bound=type)

_WATERMARK: Final = (
    "give the source its watermark: dm.io.ReadParquet(…, watermark=dm.BoundedOutOfOrderness('10 minutes'))"
)
_COMBINERS: Final = "the combiners are names of the package: dm.Count, dm.Mean, dm.Top, dm.Sample, dm.ToList, …"
_DISTINCT: Final = (
    "use … | dm.Distinct() for equal elements, dm.Deduplicate(id_fn, horizon='1 hour') for records with an id"
)
_SORTED: Final = "a collection has no order: use … | dm.Top.globally(10), or sort the list after dm.ToList.globally()"
_EXPRESSIONS: Final = (
    "there are no expressions of columns: use dm.Map(fn), or dm.Map(fn, vectorized=True) for whole columns"
)
_ROWS: Final = "use a typing.NamedTuple class for rows of your own: dm.Map(lambda row: Flight(row.carrier, row.delay))"
_QUANTILES: Final = "use dm.ApproximateQuantiles(3) for least, median and greatest, or (101) for percentiles"
_SPREAD: Final = "write a dm.CombineFn of the count, the sum and the sum of squares"
_SPLITTABLE: Final = "there are no splittable DoFns; a source reads in ranges: see dm.Read"
_BATCHES: Final = "leave it out: process emits elements, and process_batch emits batches"

_HANDLE: Final = "use the handle: a parameter with the name of the attribute, as in process(self, element, state)"

_INPUT_AND_OUTPUT: Final = {
    "ReadFromAvro": "read it with Spark: dm.io.ReadDataFrame(spark.read.format('avro').load(…))",
    "ReadFromBigQuery": "read it with Spark: dm.io.ReadDataFrame(spark.read.format('bigquery').load(…))",
    "ReadFromCsv": "use dm.io.ReadCsv(…)",
    "ReadFromJson": "use dm.io.ReadJson(…)",
    "ReadFromKafka": "use dm.io.ReadKafka(topic, bootstrap_servers=…)",
    "ReadFromParquet": "use dm.io.ReadParquet(…)",
    "ReadFromPubSub": "read files with follow=True, or Kafka with dm.io.ReadKafka(…)",
    "ReadFromText": "use dm.io.ReadText(…)",
    "ReadFromTextWithFilename": "use one dm.io.ReadText(path) for each file, and add its name with dm.Map",
    "ReadAllFromParquet": "use dm.io.ReadParquet(folder), which reads all files in it, and new ones with follow=True",
    "ReadAllFromText": "use dm.io.ReadText(folder), which reads all files of a folder, and new ones with follow=True",
    "WriteToAvro": "write each micro-batch with dm.io.ForeachBundle(fn)",
    "WriteToBigQuery": "write each micro-batch with dm.io.ForeachBundle(fn)",
    "WriteToCsv": "use dm.io.WriteCsv(folder)",
    "WriteToJson": "use dm.io.WriteJson(folder)",
    "WriteToKafka": "use dm.io.WriteKafka(topic, bootstrap_servers=…), which writes each element once",
    "WriteToParquet": "use dm.io.WriteParquet(folder)",
    "WriteToPubSub": "write each micro-batch with dm.io.ForeachBundle(fn)",
    "WriteToText": "use dm.io.WriteText(folder)",
}

_PARTS: Final = ("day", "hour", "microsecond", "minute", "month", "second", "year")
_INSTANTS: Final = {
    **{name: f"use time.to_datetime().{name}" for name in _PARTS},
    **{name: f"use time.to_datetime().{name}()" for name in ("date", "isoformat", "timestamp", "weekday")},
    "astimezone": "use time.to_datetime().astimezone(zone)",
    "from_rfc3339": "use dm.event_time('2013-01-01T05:00Z')",
    "from_utc_datetime": "use dm.event_time(datetime)",
    "micros": "use int(time)",
    "predecessor": "use time - dm.Duration(micros=1)",
    "seconds": "use time // dm.duration(1), the number of whole seconds since the epoch",
    "successor": "use time + dm.Duration(micros=1)",
    "strftime": "use f'{time:%H:%M}', which is in UTC, or time.to_datetime().strftime(format)",
    "to_rfc3339": "use time.to_datetime().isoformat()",
    "to_utc_datetime": "use time.to_datetime()",
}

_IN_MODULES: Final = {
    "io": "Changes Collect ColumnSource ForeachBundle GenerateSequence Origin OriginPosition PeriodicImpulse ReadAgain "
    "ReadCsv ReadDataFrame ReadJson ReadKafka ReadParquet ReadTable ReadText Then ToDataFrame WriteCsv WriteJson "
    "WriteKafka WriteParquet WriteTable WriteText schema_from_type source",
    "testing": "CrashPoint LawBroken ManualClock TestStream assert_panes assert_that check_combine_fn check_trigger "
    "check_vectorized check_window_fn equal_to panes_of prove run_script",
}
"""Names of ours that are not names of the package itself, by the module that has them."""

_METHODS: Final = {
    "agg": "use … | dm.GroupBy('key').aggregate_field('field', sum, 'total')",
    "aggregateByKey": "use … | dm.CombinePerKey(combine)",
    "apply": "write … | transform",
    "cache": "leave it out: a collection is computed once, however many transforms read it",
    "cogroup": "use {'a': a, 'b': b} | dm.CoGroupByKey()",
    "collect": "write … | 'out' >> dm.io.Collect(), run the pipeline, and read result.collected('out')",
    "combineByKey": "use … | dm.CombinePerKey(combine)",
    "count": "use … | dm.Count.globally(), dm.Count.per_key() or dm.Count.per_element()",
    "distinct": _DISTINCT,
    "dropna": "use … | dm.Filter(lambda row: row.field is not None)",
    "dropDuplicates": _DISTINCT,
    "dropDuplicatesWithinWatermark": "use … | dm.Deduplicate(id_fn, horizon='1 hour')",
    "drop_duplicates": _DISTINCT,
    "explode": "use … | dm.FlatMap(lambda row: row.values)",
    "filter": "use … | dm.Filter(fn)",
    "flatMap": "use … | dm.FlatMap(fn)",
    "flatMapValues": "use … | dm.FlatMapTuple(lambda key, value: [(key, part) for part in fn(value)])",
    "foreach": "use … | dm.ParDo(MyDoFn()), or dm.io.ForeachBundle(fn) for a sink",
    "foreachBatch": "use … | dm.io.ForeachBundle(fn)",
    "groupBy": "use … | dm.GroupBy('field'), with .aggregate_field('other', sum, 'total') to combine",
    "groupByKey": "use … | dm.GroupByKey()",
    "group_by": "use … | dm.GroupBy('field'), with .aggregate_field('other', sum, 'total') to combine",
    "groupby": "use … | dm.GroupBy('field'), with .aggregate_field('other', sum, 'total') to combine",
    "join": "use (left, right) | dm.Join.inner(), dm.Join.left(), dm.Join.right() or dm.Join.full()",
    "joinAsOf": "use (left, right) | dm.Join.as_of() or dm.Join.left_as_of()",
    "join_asof": "use (left, right) | dm.Join.as_of() or dm.Join.left_as_of()",
    "keyBy": "use … | dm.WithKeys(fn)",
    "key_by": "use … | dm.WithKeys(fn)",
    "keys": "use … | dm.Keys()",
    "leftOuterJoin": "use (left, right) | dm.Join.left()",
    "limit": "use … | dm.Sample.globally(10), or dm.Top.globally(10)",
    "map": "use … | dm.Map(fn)",
    "mapValues": "use … | dm.MapTuple(lambda key, value: (key, fn(value)))",
    "orderBy": _SORTED,
    "persist": "leave it out: a collection is computed once, however many transforms read it",
    "max": "use … | dm.Max.globally() or dm.Max.per_key()",
    "mean": "use … | dm.Mean.globally() or dm.Mean.per_key()",
    "merge": "use (left, right) | dm.Join.inner(), dm.Join.left(), dm.Join.right() or dm.Join.full()",
    "merge_asof": "use (left, right) | dm.Join.as_of() or dm.Join.left_as_of()",
    "min": "use … | dm.Min.globally() or dm.Min.per_key()",
    "printSchema": "look at pcoll.element_type, or at pcoll.head(10)",
    "process": "use … | dm.ParDo(MyDoFn())",
    "reduce": "use … | dm.CombineGlobally(fn)",
    "reduceByKey": "use … | dm.CombinePerKey(fn), where fn takes an iterable, such as sum",
    "repartition": "use … | dm.Reshuffle()",
    "resample": "use … | dm.Window.into(dm.FixedWindows('1 hour'))",
    "sample": "use … | dm.Sample.globally(10)",
    "schema": "look at pcoll.element_type",
    "select": "use … | dm.Map(fn)",
    "sort": _SORTED,
    "sortBy": _SORTED,
    "sort_values": _SORTED,
    "sum": "use … | dm.Sum.globally() or dm.Sum.per_key()",
    "take": "use pcoll.head(10) to look, or … | dm.Sample.globally(10)",
    "toDF": "write … | 'out' >> dm.io.ToDataFrame(), run the pipeline, and read result.dataframe('out')",
    "toPandas": "write … | 'out' >> dm.io.Collect(), run the pipeline, and read result.table('out').to_pandas()",
    "to_pandas": "write … | 'out' >> dm.io.Collect(), run the pipeline, and read result.table('out').to_pandas()",
    "union": "use (first, second) | dm.Flatten()",
    "unionAll": "use (first, second) | dm.Flatten()",
    "values": "use … | dm.Values()",
    "where": "use … | dm.Filter(fn)",
    "window": "use … | dm.Window.into(dm.FixedWindows('1 hour'))",
    "withColumn": "use … | dm.Map(lambda row: (*row, value))",
    "withWatermark": _WATERMARK,
    "with_watermark": _WATERMARK,
    "write": "use … | dm.io.WriteParquet(folder)",
    "writeStream": "use … | dm.io.WriteParquet(folder), and run it with dm.SparkRunner(spark, mode='streaming', …)",
}

SPELLINGS: Final[Mapping[str, Mapping[str, str]]] = {
    "dataflow_model": {
        **{name: hint for name, hint in _METHODS.items() if name != "values"},  # which is a subpackage
        **{name: f"use dm.{module}.{name}" for module, names in _IN_MODULES.items() for name in names.split()},
        **_INPUT_AND_OUTPUT,
        **IN_BEAM,
        "AfterEndOfWindow": "use dm.AfterWatermark()",
        "AfterFirst": "use dm.AfterAny(first, second)",
        "AggregateFunction": "use dm.CombineFn",
        "AsMultiMap": "use dm.AsDict(pairs | dm.GroupByKey()), whose values are lists",
        "BoundedWindow": "use dm.IntervalWindow, or dm.GlobalWindow",
        "CombiningValueStateSpec": "use dm.CombiningStateSpec(combine)",
        "CountCombineFn": "use dm.Count()",
        "DeduplicatePerKey": "use dm.Deduplicate(lambda pair: pair[0], horizon='10 minutes')",
        "DirectRunner": "use dm.LocalRunner()",
        "DoOutputsTuple": "use dm.OutputTuple",
        "EventTimeSessionWindows": "use dm.Sessions(gap)",
        "FlatMapElements": "use dm.FlatMap(fn)",
        "FlattenWith": "use (first, second) | dm.Flatten()",
        "HoppingWindows": "use dm.SlidingWindows(size, period)",
        "FlinkRunner": "there is no runner on Flink: use dm.SparkRunner(spark), or dm.LocalRunner()",
        "Impulse": "use dm.Create([b''])",
        "KVSwap": "use dm.KvSwap()",
        "LatestCombineFn": "use dm.Latest.globally() or dm.Latest.per_key()",
        "MapElements": "use dm.Map(fn)",
        "Median": _QUANTILES,
        "MeanCombineFn": "use dm.Mean()",
        "Metrics": "use dm.metrics.counter(name), distribution(name) or gauge(name)",
        "NonMergingWindowFn": "use dm.WindowFn, whose windows do not merge unless it says so",
        "OrFinally": "write trigger.or_finally(other)",
        "OrderedListStateSpec": "use dm.BagStateSpec() and sort what it reads, or requires_time_sorted_input = True",
        "PartitionFn": "use dm.Partition(fn, n)",
        "Percentile": _QUANTILES,
        "Percentiles": _QUANTILES,
        "PeriodicSequence": "use dm.io.PeriodicImpulse(start, stop, interval=…)",
        "PipelineOptions": OPTIONS,
        "PortableRunner": "use dm.SparkRunner(spark), or dm.LocalRunner()",
        "Quantile": _QUANTILES,
        "Quantiles": _QUANTILES,
        "ReadModifyWriteStateSpec": "use dm.ValueStateSpec(default=…); the attribute that holds it is its name",
        "RemoveDuplicates": _DISTINCT,
        "Reify": "use dm.Map(lambda element, timestamp, window: (element, timestamp, window))",
        "Regex": "use dm.Map(lambda text: re.findall(pattern, text)), dm.Filter or dm.FlatMap",
        "Repeat": "use dm.Repeatedly(trigger)",
        "RestrictionProvider": _SPLITTABLE,
        "Row": _ROWS,
        "Select": "use dm.Map(lambda row: row.field)",
        "SessionWindows": "use dm.Sessions(gap)",
        "SlidingEventTimeWindows": "use dm.SlidingWindows(size, period)",
        "SampleCombineFn": "use dm.Sample(n)",
        "SingleInputTupleCombineFn": "use dm.Together(low=dm.Min(), high=dm.Max())",
        "SortAndBatchElements": "use dm.BatchElements(n), and dm.Map(sorted) to sort each list",
        "Std": _SPREAD,
        "StdDev": _SPREAD,
        "SqlTransform": "there is no SQL: use dm.Map, dm.Filter, dm.GroupBy and dm.Join",
        "TestPipeline": "use dm.Pipeline(), which runs in process",
        "Timestamp": "use dm.event_time('2013-01-01T05:00Z'), dm.processing_time(…) or a number of seconds",
        "ToDictCombineFn": "use dm.ToDict()",
        "ToListCombineFn": "use dm.ToList()",
        "ToSetCombineFn": "use dm.ToSet()",
        "ToString": "use dm.Map(str) for Element(), dm.MapTuple(lambda key, value: f'{key},{value}') for Kvs(), and "
        "dm.Map(lambda parts: ','.join(map(str, parts))) for Iterables()",
        "TopCombineFn": "use dm.Top(n)",
        "TriggerFn": "use dm.Trigger",
        "TumblingEventTimeWindows": "use dm.FixedWindows(size)",
        "TumblingWindows": "use dm.FixedWindows(size)",
        "TupleCombineFn": "use dm.Together(low=dm.Min(), high=dm.Max())",
        "Variance": _SPREAD,
        "WaitOn": "use a side input, for which elements wait: dm.Map(lambda element, done: element, dm.AsList(done))",
        "WatermarkEstimatorProvider": _WATERMARK,
        "Windowing": "use dm.WindowingStrategy",
        "col": _EXPRESSIONS,
        "coders": "elements are pickled, keys have an encoding by value: there is nothing to register",
        "combiners": _COMBINERS,
        "expr": _EXPRESSIONS,
        "functions": _EXPRESSIONS,
        "lit": _EXPRESSIONS,
        "options": OPTIONS,
        "pvalue": "use dm.AsSingleton, dm.AsIter, dm.AsList, dm.AsDict and dm.TaggedOutput",
        "readStream": "read a folder with follow=True, or a stream of Spark's with dm.io.ReadDataFrame(…)",
        "trigger": "triggers are names of the package: dm.AfterWatermark, dm.Repeatedly, dm.AccumulationMode, …",
        "typehints": "annotate functions, or use dm.Map(fn).with_output_types(T)",
        "userstate": "the specs are names of the package: dm.BagStateSpec(), dm.TimerSpec(…), dm.on_timer, …",
        "window": "windows are names of the package: dm.FixedWindows('1 hour'), dm.Sessions('10 minutes'), …",
    },
    "dataflow_model.io": {
        **_INPUT_AND_OUTPUT,
        **IN_BEAMS_IO,
        "Read": "use dm.Read(source)",
        "Write": "use dm.Write(sink)",
        "ReadPandas": "use dm.io.ReadTable(frame, event_time=…)",
        "read_csv": "use dm.io.ReadCsv(…)",
        "read_json": "use dm.io.ReadJson(…)",
        "read_parquet": "use dm.io.ReadParquet(…)",
        "scan_csv": "use dm.io.ReadCsv(…)",
        "scan_parquet": "use dm.io.ReadParquet(…)",
    },
    "dataflow_model.testing": {
        **IN_BEAMS_TESTING,
        "TestPipeline": "use dm.Pipeline(), which runs in process",
        "equal_to_per_window": "use … | dm.Map(lambda x, window: (window, x)) and dm.testing.equal_to",
        "is_empty": "use dm.testing.equal_to([])",
        "is_not_empty": "write a function of the list of elements: def is_not_empty(elements): assert elements",
        "test_stream": "use dm.testing.TestStream",
        "util": "use dm.testing.assert_that and dm.testing.equal_to",
    },
    "CombineFn": IN_BEAMS_CLASSES["CombineFn"],
    "PCollection": {**_METHODS, "windowing": "look at pcoll.strategy"},
    "PTransform": {
        "with_error_handler": "use .with_exception_handling(), whose second result is the dead letters",
        "with_input_types": "annotate the first parameter of the function; .with_output_types(T) is there",
        "with_resource_hints": "leave it out: the cluster's resources are those of the Spark session",
        "without_defaults": "leave it out: a window without elements has no pane",
    },
    "DoFn": {
        "with_input_types": "annotate the parameter: def process(self, element: T)",
        "with_output_types": "annotate process with what it returns, or write dm.ParDo(MyDoFn()).with_output_types(T)",
        "BundleContextParam": "set up in setup() or start_bundle(), and keep it as an attribute of self",
        "BundleFinalizerParam": "use a sink that publishes with the commit: dm.io.ForeachBundle(fn)",
        "RestrictionParam": _SPLITTABLE,
        "SetupContextParam": "set up in setup(), and keep it as an attribute of self",
        "WatermarkEstimatorParam": _WATERMARK,
        "WatermarkReporterParam": _WATERMARK,
        "WindowedValueParam": "use the parameters timestamp, window and pane",
        "unbounded_per_element": _SPLITTABLE,
        "yields_batches": _BATCHES,
        "yields_elements": _BATCHES,
    },
    "BagState": {"append": "use .add(element)", "extend": "use .add(element) for each", "get": "use .read()"},
    "Combiner": {"Globally": "write {owner}.globally(…)", "PerKey": "write {owner}.per_key(…)"},
    "CombiningState": {"get": "use .read()", "value": "use .read()"},
    "Count": {"PerElement": "write dm.Count.per_element()"},
    "Distinct": {"Globally": "write dm.Distinct()", "PerKey": "write dm.Distinct.per_key()"},
    "Duration": {
        "micros": "use int(length)",
        "of": "use dm.duration(value)",
        "seconds": "use length // dm.duration(1), the number of whole seconds",
        "total_seconds": "use length / dm.duration(1)",
    },
    "EventTime": {**_INSTANTS, "now": "use dm.event_time(time.time())", "of": "use dm.event_time(value)"},
    "GroupBy": {
        "agg": "write .aggregate_field('field', sum, 'total'), once for each field",
        "count": "write .aggregate_field('field', dm.Count(), 'count')",
        "mean": "write .aggregate_field('field', dm.Mean(), 'mean')",
        "sum": "write .aggregate_field('field', sum, 'total')",
    },
    "GroupIntoBatches": {"WithShardedKey": "use dm.GroupIntoBatches(n) over finer keys: ((key, part), value)"},
    "Join": {
        "asof": "write (left, right) | dm.Join.as_of()",
        "outer": "write (left, right) | dm.Join.full()",
    },
    "Latest": {"Globally": "write dm.Latest.globally()", "PerKey": "write dm.Latest.per_key()"},
    "Pipeline": IN_BEAMS_CLASSES["Pipeline"],
    "ProcessingTime": {**_INSTANTS, "of": "use dm.processing_time(value)"},
    "Sample": {
        **IN_BEAMS_CLASSES["Sample"],
        "FixedSizeGlobally": "write dm.Sample.globally(n)",
        "FixedSizePerKey": "write dm.Sample.per_key(n)",
    },
    "_Spec": dict.fromkeys(
        ("add", "clear", "get", "items", "put", "read", "remove", "set", "set_after", "write"), _HANDLE
    ),
    "TestStream": {
        "add_elements": "write .add(value, event_time) for one element, .bundle([(value, event_time), …]) for several",
        "advance_processing_time": "write .processing_time(time) with the time itself, not by how much it advances",
        "advance_watermark_to": "write .watermark(time)",
        "advance_watermark_to_infinity": "write .watermark_to_infinity()",
    },
    "ValueState": {
        "exists": "use .read(), which returns the spec's default as long as nothing was written",
        "get": "use .read()",
        "set": "use .write(value)",
        "update": "use .write(value)",
        "value": "use .read() and .write(value)",
    },
    "WindowInto": {
        "accumulatingFiredPanes": "write .accumulating()",
        "discardingFiredPanes": "write .discarding()",
        "triggering": "write .trigger(trigger)",
        "withAllowedLateness": "write .allowed_lateness('1 hour')",
        "withOnTimeBehavior": "write .on_time(behavior)",
        "withTimestampCombiner": "write .timestamp_combiner(combiner)",
    },
    "Top": {
        "Largest": "write dm.Top.globally(n)",
        "LargestPerKey": "write dm.Top.per_key(n)",
        "Of": "write dm.Top.globally(n, key=…)",
        "Smallest": "write dm.Top.globally(n, reverse=True)",
        "SmallestPerKey": "write dm.Top.per_key(n, reverse=True)",
        "largest": "write dm.Top.globally(n)",
        "smallest": "write dm.Top.globally(n, reverse=True)",
    },
}
"""The hints, by the object on which a name is looked up and the name that it does not have."""


def hint_in_package(module: str, name: str) -> str | None:
    """Return what to write for a name or a module that a module of the package does not have, if it is known.

    Example:
        >>> import dataflow_model
        >>> hint_in_package("dataflow_model.transforms", "userstate")
        'the specs are names of the package: dm.BagStateSpec(), dm.TimerSpec(…), dm.on_timer, …'
        >>> hint_in_package("dataflow_model.io", "ParDo")
        'use dm.ParDo'
    """
    if hint := SPELLINGS.get(module, {}).get(name) or SPELLINGS[_ROOT].get(name):
        return hint
    if name in getattr(sys.modules.get(_ROOT), "__all__", ()):
        return f"use dm.{name}"
    return next((hint for lower in (_IO, _TESTING) if (hint := SPELLINGS[lower].get(name))), None)


def unknown(owner: str, name: str, of: Any, *, table: str | None = None) -> AttributeError:
    """Return the error for a missing attribute, with our spelling if the table has one.

    Args:
        owner: the name of the object, for the message.
        name: the name of the attribute.
        of: the object itself, from which Python suggests similar names.
        table: the name of the object in the table; by default `owner`.

    Example:
        >>> from dataflow_model.transforms import Count
        >>> Count.PerElement()
        Traceback (most recent call last):
        ...
        AttributeError: 'Count' has no attribute 'PerElement'
        Hint: write dm.Count.per_element()
    """
    hint = SPELLINGS.get(table or owner, {}).get(name)
    if hint is None and owner.startswith(f"{_ROOT}."):
        hint = hint_in_package(owner, name)
    text = explain(f"{owner!r} has no attribute {name!r}", hint=hint and hint.replace("{owner}", owner))
    # Python suggests a similar name if it knows the name and the object. With a hint it must not, so they are None:
    # Python would fill them in if they were left out.
    return AttributeError(text, name=None, obj=None) if hint else AttributeError(text, name=name, obj=of)


class _Elsewhere:
    """A descriptor for a name that a class does not have; accessing it raises the error with the hint."""

    def __init__(self, table: str, name: str) -> None:
        self._table = table
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise unknown(owner.__name__, self._name, owner, table=self._table)


def with_spellings(kind: ClassT) -> ClassT:
    """Make a class raise an error with a hint for other systems' names; for `hasattr` they are missing."""
    for name in SPELLINGS[kind.__name__]:
        assert not hasattr(kind, name), f"{kind.__name__} has the name {name!r} itself"  # noqa: S101 - when imported
        setattr(kind, name, _Elsewhere(kind.__name__, name))
    return kind


for _kind in (EventTime, ProcessingTime, Duration):  # which are below this layer
    with_spellings(_kind)


def _missing_in_metrics(name: str) -> Any:
    raise unknown(metrics.__name__, name, metrics)


setattr(metrics, "__getattr__", _missing_in_metrics)  # noqa: B010 - a module below this layer too
