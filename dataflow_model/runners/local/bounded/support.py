"""The features that LocalRunner supports, and those that it does not."""

from __future__ import annotations

from typing import Final

from dataflow_model.plan.checks.support import Answer, Support, Supported, Unsupported
from dataflow_model.plan.endpoints.features import Feature

_NEEDS_SPARK: Final = Unsupported(
    "only Spark can read a DataFrame",
    "use dm.SparkRunner(spark), or write the rows to files and read them with dm.io.ReadParquet(…)",
)
_ALL: Final[dict[Feature, Answer]] = {
    **dict.fromkeys(Feature, Supported()),
    Feature.DATAFRAMES: _NEEDS_SPARK,
    Feature.STREAMING_DATAFRAMES: _NEEDS_SPARK,
    Feature.LARGE_DATAFRAMES: _NEEDS_SPARK,
    Feature.DRAINING_DATAFRAMES: _NEEDS_SPARK,
    Feature.DATAFRAME_OUTPUT: Unsupported(
        "only Spark can create a DataFrame", "use dm.io.Collect() here, or dm.SparkRunner(spark, mode='batch')"
    ),
    Feature.OTHER_SOURCES: Unsupported("nothing says how to read it", "make it a subclass of ColumnSource"),
}

BOUNDED: Final = Support(
    "LocalRunner()",
    {
        **_ALL,
        Feature.FOLLOWED_ROWS: Unsupported(
            "it runs to the end of its input, and this input has none",
            "pass the directory of a checkpoint, checkpoint='checkpoints/delays', or give the input an end, as without "
            "follow=True",
        ),
        Feature.STATIC_SIDE_INPUTS: Supported("computed before the run"),
    },
)

WORKERS: Final = Support(
    "LocalRunner(workers=n)",
    {
        **BOUNDED.answers,
        Feature.SIGNALS: Unsupported(
            "the workers are at different instants, so a signal has no single instant to take effect at",
            "use dm.LocalRunner() without workers, or put the signal into a TestStream",
        ),
        Feature.RESUMING: Unsupported(
            "the workers run one stage after the other, each over the whole input",
            "use one process: LocalRunner() without workers, or with a checkpoint",
        ),
    },
)

STREAMING: Final = Support(
    "LocalRunner(checkpoint=…)", {**_ALL, Feature.STATIC_SIDE_INPUTS: Supported("computed before the run")}
)

TABLES: Final = (BOUNDED, WORKERS, STREAMING)
