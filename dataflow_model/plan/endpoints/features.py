"""The features of a pipeline, for which a runner declares its support; see `plan.checks.support`."""

from __future__ import annotations

import enum


class Feature(enum.Enum):
    """Something that a pipeline or a run may need; the value is its name in the documentation."""

    ELEMENTS = "`Create`"
    ROWS = "a bounded source of rows: files, or your own `ColumnSource`"
    FOLLOWED_ROWS = "an unbounded source of rows, such as files with `follow=True`"
    SCRIPTS = "`TestStream`"
    DATAFRAMES = "`ReadDataFrame` of a batch DataFrame"
    STREAMING_DATAFRAMES = "`ReadDataFrame` of a streaming DataFrame"
    LARGE_DATAFRAMES = "`ReadDataFrame` of a batch DataFrame of more than 64 MB"
    OTHER_SOURCES = "your own `Source` that is not a `ColumnSource`"
    REPLAY_CLOCK = "a replay clock (`processing_time=`)"
    ELEMENT_WISE = "element-wise transforms, `WithTimestamps`, `Flatten`, `Partition`, `Reshuffle`"
    STATE = "stateful `DoFn`s, timers and computations"
    RESUMING = "splittable functions of Beam's whose work on an element may not end, such as `PeriodicImpulse`"
    STATIC_SIDE_INPUTS = "side inputs that do not change during the run"
    CHANGING_SIDE_INPUTS = "side inputs that change during the run"
    DEDUPLICATION = "`Deduplicate`"
    RECORD_IDS = "`record_id`"
    WINDOWS = "window functions, including your own"
    GROUPINGS = "groupings, in sequence and in branches"
    TRIGGERS = "triggers, including your own"
    LATENESS = "allowed lateness and `late_data`"
    REFINEMENTS = "accumulating and retracting panes"
    SINKS = (
        "`WriteParquet` and the other file sinks, `WriteTable`, `WriteKafka`, `ForeachBundle`, `Collect`, and your own "
        "sinks"
    )
    DATAFRAME_OUTPUT = "`ToDataFrame`"
    SIGNALS = "`result.signal()`"
    DRAINING_DATAFRAMES = '`run(until="drained")` with a streaming DataFrame'
