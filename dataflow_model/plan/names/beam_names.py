"""Names of Beam that few programs use, or that are modules there, and what to write instead; see `spellings`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIONS: Final = (
    "there are no options of a pipeline; a runner takes its own: dm.SparkRunner(spark, mode='streaming', checkpoint=…)"
)

_NAMES: Final = "its names are names of the package: dm.ParDo, dm.Map, dm.Reshuffle, …"
_ACROSS: Final = "there are no transforms of other languages; Spark's connectors are read with dm.io.ReadDataFrame(…)"
_ENCRYPTED: Final = "there is no encryption in a shuffle: encrypt the disks of the cluster and the traffic of Spark"
_SPARKS: Final = "read it with Spark: dm.io.ReadDataFrame(spark.read.format({format!r}).load(…))"
_EACH_BATCH: Final = "write each micro-batch with dm.io.ForeachBundle(fn)"
_PUB_SUB: Final = "read files with follow=True, or Kafka with dm.io.ReadKafka(…)"
_RANGES: Final = "there are no splittable DoFns; a source reads in ranges: see dm.Read"
_HANDLES: Final = "use the handles: dm.ValueState, dm.BagState, dm.SetState, dm.CombiningState, dm.Timer"
_ENGINE: Final = "leave it out: this is inside of the engine here"
_STEPS: Final = "use the methods of dm.testing.TestStream: .add, .bundle, .watermark and .processing_time"
_LOCAL: Final = "use dm.LocalRunner()"
_TYPES: Final = "annotate functions, or use dm.Map(fn).with_output_types(T)"
_ROWS: Final = "use a typing.NamedTuple class for rows"
_SECRETS: Final = "GcpHsmGeneratedSecret GcpSecret GroupByEncryptedKey Secret"
_OTHER_LANGUAGES: Final = (
    "AnnotationBasedPayloadBuilder BeamJarExpansionService DataclassBasedPayloadBuilder "
    "ExplicitSchemaTransformPayloadBuilder ExternalTransform ImplicitSchemaPayloadBuilder "
    "JavaClassLookupPayloadBuilder JavaExternalTransform JavaJarExpansionService ManagedReplacement ManagedTransforms "
    "NamedTupleBasedPayloadBuilder PayloadBuilder SchemaAwareExternalTransform SchemaBasedPayloadBuilder "
    "SchemaTransformPayloadBuilder SchemaTransformsConfig external external_transforms managed"
)
_TIME_STATE: Final = (
    "AccumulatingRuntimeState BagRuntimeState BaseTimer CombiningValueRuntimeState OrderedListRuntimeState "
    "ReadModifyWriteRuntimeState RuntimeState RuntimeTimer SetRuntimeState UserStateContext"
)
_ALL_OPTIONS: Final = (
    "AzureOptions DebugOptions DirectOptions GoogleCloudOptions HadoopFileSystemOptions ProfilingOptions S3Options "
    "SetupOptions StandardOptions TestOptions TypeOptions WorkerOptions pipeline_options"
)


def _each(names: str, hint: str) -> dict[str, str]:
    return dict.fromkeys(names.split(), hint)


IN_BEAM: Final[Mapping[str, str]] = {
    **_each(_OTHER_LANGUAGES, _ACROSS),
    **_each(_SECRETS, _ENCRYPTED),
    **_each(_TIME_STATE, _HANDLES),
    **_each(_ALL_OPTIONS, OPTIONS),
    **_each("core ptransform util", _NAMES),
    **_each("environments iter_urns label_from_callable memoize portability resources sideinputs utils", _ENGINE),
    **_each("default_window_mapping_fn get_dofn_specs get_sideinput_index is_stateful_dofn SideInputMap", _ENGINE),
    **_each("annotate_yaml transform_annotations validate_stateful_dofn yaml_transform", _ENGINE),
    **_each("OffsetRange OffsetRestrictionTracker ImpulseSeqGenDoFn ImpulseSeqGenRestrictionProvider", _RANGES),
    **_each(
        "convert_to_typing_type instance_to_type typing_from_runner_api WithTypeHints Union UnionConstraint", _TYPES
    ),
    **_each("named_fields_to_schema named_tuple_from_schema named_tuple_to_schema row_type", _ROWS),
    **_each("direct direct_runner run_pipeline TestDirectRunner", _LOCAL),
    **_each("interactive InteractiveRunner", "use dm.LocalRunner(), with pcoll.head(10) or pcoll.show() to look"),
    **_each("dataflow DataflowRunner TestDataflowRunner", "there is no runner on Dataflow: use dm.SparkRunner(spark)"),
    "AsSideInput": "use dm.AsSingleton, dm.AsIter, dm.AsList or dm.AsDict",
    "DataflowDistributionCounter": "use dm.metrics.distribution(name)",
    "EmptySideInput": "use dm.AsSingleton(pcoll, default=…)",
    "ManualWatermarkEstimator": "use dm.Explicit(punctuation), whose rows state the watermark",
    "MetricsFilter": "read result.report().transforms[label].user",
    "PipelineRunner": "use dm.LocalRunner() or dm.SparkRunner(spark)",
    "PipelineState": "use dm.RunnerState",
    "RebaseMode": "use dm.io.PeriodicImpulse(start, stop, interval=…), whose instants do not move",
    "RowCoder": "leave it out: rows are pickled, and keys have an encoding by value",
    "RunInference": "use a dm.DoFn that loads the model in setup(), or dm.Map(fn, vectorized=True)",
    "StateSpec": "use dm.ValueStateSpec, dm.BagStateSpec, dm.SetStateSpec, dm.MapStateSpec or dm.CombiningStateSpec",
    "TIME_GRANULARITY": "use dm.Duration(micros=1)",
    "create_runner": "use dm.LocalRunner() or dm.SparkRunner(spark)",
    "dataframe": "there are no DataFrames of Beam: use dm.Map(fn, vectorized=True) for whole columns",
    "deduplicate": "use dm.Deduplicate(…)",
    "error": "the errors are names of the package: dm.PlanError, dm.UserCodeError, …",
    "ml": "use a dm.DoFn that loads the model in setup(), or dm.Map(fn, vectorized=True)",
    "periodicsequence": "use dm.io.PeriodicImpulse(start, stop, interval=…)",
    "pipeline": "use dm.Pipeline",
    "sql": "there is no SQL: use dm.Map, dm.Filter, dm.GroupBy and dm.Join",
    "stats": "use dm.ApproximateQuantiles or dm.ApproximateUnique",
    "timestamp": "use dm.event_time(…), dm.processing_time(…), dm.duration(…)",
    "timeutil": "use dm.TimeDomain",
    "version": "use dm.__version__",
    "yaml": "there are no pipelines in YAML: build a dm.Pipeline",
}
"""Names of `apache_beam` and of its modules that are not here, or that modules have there."""

IN_BEAMS_IO: Final[Mapping[str, str]] = {
    **_each(
        "BigQueryDisposition BigQueryQueryPriority BigQuerySchemaUpdateOption BigQuerySource ReadAllFromBigQuery "
        "ReadFromBigQueryRequest TableRowJsonCoder bigquery",
        _SPARKS.format(format="bigquery"),
    ),
    **_each("ReadFromMongoDB mongodbio", _SPARKS.format(format="mongodb")),
    **_each("ReadAllFromAvro ReadAllFromAvroContinuously avroio", _SPARKS.format(format="avro")),
    **_each("ReadFromJdbc jdbc", _SPARKS.format(format="jdbc")),
    **_each("ReadAllFromTFRecord ReadFromTFRecord tfrecordio", _SPARKS.format(format="tfrecord")),
    **_each("BigQuerySink WriteResult WriteToMongoDB WriteToTFRecord WriteToJdbc", _EACH_BATCH),
    **_each("PubSubSourceDescriptor PubsubMessage MultipleReadFromPubSub ReadStringsFromPubSub gcp", _PUB_SUB),
    **_each("WriteStringsToPubSub", _EACH_BATCH),
    **_each("LexicographicKeyRangeTracker OffsetRangeTracker OrderedPositionRangeTracker", _RANGES),
    **_each("UnsplittableRangeTracker iobase range_trackers", _RANGES),
    **_each("MatchFiles ReadMatches MatchAll fileio filesystems", "use dm.io.ReadText(folder), or a path with *"),
    **_each("WriteToFiles FileBasedSink Sink Writer filebasedsink", "use a sink of dm.io, or dm.io.ForeachBundle(fn)"),
    "ReadAllFromParquetBatched": "use dm.io.ReadParquet(folder), which passes columns to vectorized functions",
    "ReadAllFromTextContinuously": "use dm.io.ReadText(folder, follow=True)",
    "ReadFromParquetBatched": "use dm.io.ReadParquet(…), which passes columns to vectorized functions",
    "WriteToParquetBatched": "use dm.io.WriteParquet(folder)",
    "kafka": "use dm.io.ReadKafka(…) and dm.io.WriteKafka(…)",
    "parquetio": "use dm.io.ReadParquet(…) and dm.io.WriteParquet(folder)",
    "textio": "use dm.io.ReadText(…), dm.io.ReadCsv(…), dm.io.ReadJson(…) and dm.io.WriteText(folder)",
}
"""Names of `apache_beam.io`."""

IN_BEAMS_TESTING: Final[Mapping[str, str]] = {
    **_each("ElementEvent Event ProcessingTimeEvent WatermarkEvent", _STEPS),
    **_each("matches_all equal_to_approx has_at_least_one", "write a function of the list of elements, with asserts"),
    **_each("TestWindowedValue row_namedtuple_equals_fn", "use dm.testing.assert_panes, or dm.testing.equal_to"),
    "open_shards": "read the files with dm.io.ReadText(folder)",
    "test_pipeline": "use dm.Pipeline(), which runs in process",
}
"""Names of `apache_beam.testing` and of its modules."""

IN_BEAMS_CLASSES: Final[Mapping[str, Mapping[str, str]]] = {
    "CombineFn": {
        "add_inputs": "call add_input(accumulator, element) for each element",
        "from_callable": "pass the function itself: dm.CombineGlobally(fn)",
        "with_input_types": "annotate add_input, or write dm.CombineFn[In, Accumulator, Out]",
        "with_output_types": "annotate extract_output, or write dm.CombineFn[In, Accumulator, Out]",
    },
    "Pipeline": {
        "options": OPTIONS,
        "replace_all": "build the pipeline with the other transforms; a plan is not changed",
        "visit": "look at the nodes of p.plan()",
    },
    "Sample": {"Any": "write dm.Sample.globally(n)"},
}
"""Members of classes; by the name of our class."""
