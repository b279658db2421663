"""Beam's public names (2.77), by the module or class that has them, without what these import for themselves."""

from __future__ import annotations

from typing import Final

__all__ = ["BEAMS_CLASSES", "BEAMS_MODULES"]

BEAMS_MODULES: Final = {
    "beam": (
        "AnnotationBasedPayloadBuilder ApproximateQuantiles ApproximateUnique BatchElements "
        "BeamJarExpansionService CoGroupByKey CombineFn CombineGlobally CombinePerKey CombineValues Create "
        "DataclassBasedPayloadBuilder DataflowDistributionCounter Distinct DoFn "
        "ExplicitSchemaTransformPayloadBuilder ExternalTransform Filter FlatMap FlatMapTuple Flatten FlattenWith "
        "GcpHsmGeneratedSecret GcpSecret GroupBy GroupByEncryptedKey GroupByKey GroupIntoBatches "
        "ImplicitSchemaPayloadBuilder Impulse JavaClassLookupPayloadBuilder JavaExternalTransform "
        "JavaJarExpansionService Keys KvSwap LogElements ManagedReplacement ManagedTransforms Map MapTuple "
        "NamedTupleBasedPayloadBuilder PCollection PTransform ParDo Partition PartitionFn PayloadBuilder Pipeline "
        "Read Regex Reify RemoveDuplicates Reshuffle RestrictionProvider Row RowCoder SchemaAwareExternalTransform "
        "SchemaBasedPayloadBuilder SchemaTransformPayloadBuilder SchemaTransformsConfig Secret Select "
        "SortAndBatchElements TaggedOutput Tee TimeDomain ToString Union UnionConstraint Values WaitOn "
        "WatermarkEstimatorProvider WindowInto Windowing WithKeys WithTypeHints Write annotate_yaml coders "
        "combiners convert_to_typing_type core environments error external instance_to_type io iter_urns "
        "label_from_callable managed memoize metrics named_fields_to_schema named_tuple_from_schema "
        "named_tuple_to_schema options pipeline pipeline_options portability ptransform ptransform_fn pvalue "
        "resources row_type runners sideinputs stats timeutil transform_annotations transforms trigger typehints "
        "typing_from_runner_api userstate util utils version window yaml"
    ),
    "beam.io": (
        "BigQueryDisposition BigQueryQueryPriority BigQuerySchemaUpdateOption BigQuerySink BigQuerySource "
        "FileBasedSink LexicographicKeyRangeTracker MultipleReadFromPubSub OffsetRangeTracker "
        "OrderedPositionRangeTracker PubSubSourceDescriptor PubsubMessage Read ReadAllFromAvro "
        "ReadAllFromAvroContinuously ReadAllFromBigQuery ReadAllFromParquet ReadAllFromParquetBatched "
        "ReadAllFromTFRecord ReadAllFromText ReadAllFromTextContinuously ReadFromAvro ReadFromBigQuery "
        "ReadFromBigQueryRequest ReadFromCsv ReadFromJson ReadFromMongoDB ReadFromParquet ReadFromParquetBatched "
        "ReadFromPubSub ReadFromTFRecord ReadFromText ReadFromTextWithFilename ReadStringsFromPubSub Sink "
        "TableRowJsonCoder UnsplittableRangeTracker Write WriteResult WriteStringsToPubSub WriteToAvro "
        "WriteToBigQuery WriteToCsv WriteToJson WriteToMongoDB WriteToParquet WriteToParquetBatched WriteToPubSub "
        "WriteToTFRecord WriteToText Writer"
    ),
    "beam.transforms.combiners": (
        "Count CountCombineFn Latest LatestCombineFn Mean MeanCombineFn Sample SampleCombineFn ToDict "
        "ToDictCombineFn ToList ToListCombineFn ToSet ToSetCombineFn Top TopCombineFn"
    ),
    "beam.transforms": (
        "AnnotationBasedPayloadBuilder ApproximateQuantiles ApproximateUnique BatchElements "
        "BeamJarExpansionService CoGroupByKey CombineFn CombineGlobally CombinePerKey CombineValues Create "
        "DataclassBasedPayloadBuilder DataflowDistributionCounter Distinct DoFn "
        "ExplicitSchemaTransformPayloadBuilder ExternalTransform Filter FlatMap FlatMapTuple Flatten FlattenWith "
        "GcpHsmGeneratedSecret GcpSecret GroupBy GroupByEncryptedKey GroupByKey GroupIntoBatches "
        "ImplicitSchemaPayloadBuilder Impulse JavaClassLookupPayloadBuilder JavaExternalTransform "
        "JavaJarExpansionService Keys KvSwap LogElements ManagedReplacement ManagedTransforms Map MapTuple "
        "NamedTupleBasedPayloadBuilder PTransform ParDo Partition PartitionFn PayloadBuilder Read Regex Reify "
        "RemoveDuplicates Reshuffle RestrictionProvider RowCoder SchemaAwareExternalTransform "
        "SchemaBasedPayloadBuilder SchemaTransformPayloadBuilder SchemaTransformsConfig Secret Select "
        "SortAndBatchElements Tee TimeDomain ToString Union UnionConstraint Values WaitOn "
        "WatermarkEstimatorProvider WindowInto Windowing WithKeys WithTypeHints Write annotate_yaml "
        "convert_to_typing_type instance_to_type iter_urns label_from_callable memoize named_fields_to_schema "
        "named_tuple_from_schema named_tuple_to_schema ptransform_fn typing_from_runner_api"
    ),
    "beam.transforms.core": (
        "CombineFn CombineGlobally CombinePerKey CombineValues Create DoFn Filter FlatMap FlatMapTuple Flatten "
        "FlattenWith GroupBy GroupByKey Impulse Map MapTuple ParDo Partition PartitionFn RestrictionProvider "
        "Select WatermarkEstimatorProvider WindowInto Windowing"
    ),
    "beam.transforms.util": (
        "BatchElements CoGroupByKey Distinct GcpHsmGeneratedSecret GcpSecret GroupByEncryptedKey GroupIntoBatches "
        "Keys KvSwap LogElements Regex Reify RemoveDuplicates Reshuffle Secret SortAndBatchElements Tee ToString "
        "Values WaitOn WithKeys"
    ),
    "beam.transforms.window": (
        "BoundedWindow FixedWindows GlobalWindow GlobalWindows IntervalWindow NonMergingWindowFn Sessions "
        "SlidingWindows TimestampCombiner TimestampedValue WindowFn"
    ),
    "beam.transforms.trigger": (
        "AccumulationMode AfterAll AfterAny AfterCount AfterEach AfterProcessingTime AfterWatermark DefaultTrigger "
        "OrFinally Repeatedly TriggerFn"
    ),
    "beam.transforms.userstate": (
        "AccumulatingRuntimeState BagRuntimeState BagStateSpec BaseTimer Coder CombiningValueRuntimeState "
        "CombiningValueStateSpec OrderedListRuntimeState OrderedListStateSpec ReadModifyWriteRuntimeState "
        "ReadModifyWriteStateSpec RuntimeState RuntimeTimer SetRuntimeState SetStateSpec StateSpec TimeDomain "
        "Timer TimerSpec Timestamp UserStateContext get_dofn_specs is_stateful_dofn on_timer "
        "validate_stateful_dofn"
    ),
    "beam.transforms.ptransform": "PTransform annotate_yaml label_from_callable ptransform_fn",
    "beam.transforms.stats": "ApproximateQuantiles ApproximateUnique",
    "beam.transforms.periodicsequence": (
        "Duration ImpulseSeqGenDoFn ImpulseSeqGenRestrictionProvider MAX_TIMESTAMP ManualWatermarkEstimator "
        "OffsetRange OffsetRestrictionTracker PTransform PeriodicImpulse PeriodicSequence RebaseMode Timestamp "
        "TimestampedValue"
    ),
    "beam.transforms.deduplicate": "Deduplicate DeduplicatePerKey",
    "beam.transforms.timeutil": "TimeDomain",
    "beam.transforms.sideinputs": "SideInputMap default_window_mapping_fn get_sideinput_index",
    "beam.pvalue": (
        "AsDict AsIter AsList AsMultiMap AsSideInput AsSingleton EmptySideInput PCollection Row TaggedOutput"
    ),
    "beam.testing.util": (
        "TestWindowedValue assert_that equal_to equal_to_approx equal_to_per_window has_at_least_one is_empty "
        "is_not_empty matches_all open_shards row_namedtuple_equals_fn"
    ),
    "beam.testing.test_pipeline": "TestPipeline",
    "beam.testing.test_stream": "ElementEvent Event ProcessingTimeEvent TestStream WatermarkEvent",
    "beam.metrics": "Metrics MetricsFilter",
    "beam.options.pipeline_options": (
        "AzureOptions DebugOptions DirectOptions GoogleCloudOptions HadoopFileSystemOptions PipelineOptions "
        "ProfilingOptions S3Options SetupOptions StandardOptions TestOptions TypeOptions WorkerOptions"
    ),
    "beam.runners": (
        "DataflowRunner DirectRunner PipelineRunner PipelineState TestDataflowRunner TestDirectRunner create_runner"
    ),
    "beam.utils.timestamp": "Duration MAX_TIMESTAMP MIN_TIMESTAMP TIME_GRANULARITY Timestamp",
    "beam.pipeline": "Pipeline transform_annotations",
}

BEAMS_CLASSES: Final = {
    "beam.combiners.Count": "Globally PerElement PerKey",
    "beam.combiners.Mean": "Globally PerKey",
    "beam.combiners.Top": "Largest LargestPerKey Of PerKey Smallest SmallestPerKey",
    "beam.combiners.Sample": "Any FixedSizeGlobally FixedSizePerKey",
    "beam.combiners.Latest": "Globally PerKey",
    "beam.ParDo": (
        "expand label with_error_handler with_exception_handling with_input_types with_output_types with_outputs "
        "with_resource_hints"
    ),
    "beam.DoFn": (
        "BundleContextParam BundleFinalizerParam DynamicTimerTagParam ElementParam KeyParam PaneInfoParam "
        "RestrictionParam SetupContextParam SideInputParam StateParam TimerParam TimestampParam "
        "WatermarkEstimatorParam WindowParam WindowedValueParam finish_bundle process process_batch setup "
        "start_bundle teardown unbounded_per_element with_input_types with_output_types yields_batches "
        "yields_elements"
    ),
    "beam.CombineFn": (
        "add_input add_inputs create_accumulator extract_output from_callable merge_accumulators setup teardown "
        "with_input_types with_output_types"
    ),
    "beam.Pipeline": "apply options replace_all run visit",
    "beam.PCollection": "apply windowing",
    "beam.GroupIntoBatches": "WithShardedKey",
    "beam.ApproximateUnique": "Globally PerKey",
    "beam.ApproximateQuantiles": "Globally PerKey",
    "beam.CombineGlobally": "as_singleton_view with_fanout with_input_types with_output_types without_defaults",
    "beam.GroupBy": "aggregate_field",
    "beam.TestStream": "add_elements advance_processing_time advance_watermark_to advance_watermark_to_infinity",
    "beam.IntervalWindow": "end intersects max_timestamp start",
    "beam.Timestamp": (
        "from_rfc3339 from_utc_datetime micros now of predecessor seconds successor to_rfc3339 to_utc_datetime"
    ),
}
