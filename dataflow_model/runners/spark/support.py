"""The features that SparkRunner supports, and those that it does not, by mode."""

from __future__ import annotations

from typing import Final

from dataflow_model.plan.checks.support import Answer, Support, Supported, Unsupported
from dataflow_model.plan.endpoints.features import Feature

_ALL: Final[dict[Feature, Answer]] = {
    **dict.fromkeys(Feature, Supported()),
    Feature.STATIC_SIDE_INPUTS: Supported("computed before the run"),
    Feature.OTHER_SOURCES: Unsupported("nothing says how to read it", "make it a subclass of ColumnSource"),
}
_UNBOUNDED: Final = Unsupported(
    "a batch job reads its input to the end, and this input has none", "use mode='streaming'"
)

BATCH: Final = Support(
    'SparkRunner(spark, mode="batch")',
    {
        **_ALL,
        Feature.SCRIPTS: Supported("its elements only"),
        Feature.FOLLOWED_ROWS: _UNBOUNDED,
        Feature.STREAMING_DATAFRAMES: _UNBOUNDED,
        Feature.DRAINING_DATAFRAMES: _UNBOUNDED,
        Feature.REPLAY_CLOCK: Supported("no effect"),
        Feature.CHANGING_SIDE_INPUTS: Supported("as they are at the end of the input"),
        Feature.DEDUPLICATION: Supported("the elements with one id are taken in event-time order"),
        Feature.STATE: Supported("processing-time timers never fire"),
        Feature.RESUMING: Unsupported(
            "a batch job reads its input to the end, and this work may have none", "run the pipeline with LocalRunner"
        ),
        Feature.TRIGGERS: Supported("clocks do not advance: early panes only by count"),
        Feature.LATENESS: Supported("no effect: nothing is late"),
        Feature.SIGNALS: Unsupported(
            "a bounded job has no ticks at which a signal could take effect",
            "use mode='streaming', where result.signal(name) is durable",
        ),
    },
)

STREAMING: Final = Support(
    'SparkRunner(spark, mode="streaming", …)',
    {
        **_ALL,
        Feature.LARGE_DATAFRAMES: Unsupported(
            "Spark cannot union it with a stream, so its rows are collected, up to 64 MB",
            "write it to files and read them: df.write.parquet(…), dm.io.ReadParquet(…)",
        ),
        Feature.DRAINING_DATAFRAMES: Unsupported(
            "only Spark knows where the input of a streaming DataFrame currently ends",
            "use run() without until=, and call result.drain() when it has read enough",
        ),
        Feature.DATAFRAME_OUTPUT: Unsupported(
            "a DataFrame is complete only at the end of a bounded job",
            "use mode='batch', or use dm.io.WriteParquet(…) here and read its files",
        ),
    },
)

TABLES: Final = (BATCH, STREAMING)
