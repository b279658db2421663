"""The Dataflow Model: what to compute, where in event time, when in processing time, and how refinements relate.

Import it as `dm`. It contains everything that pipelines are built from; sources and sinks are in `dm.io`, and tools for
tests in `dm.testing`. PySpark is not imported before the first use of `dm.SparkRunner`.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any, Final

from dataflow_model import metrics
from dataflow_model.errors import (
    CheckpointInUse,
    CheckpointMismatch,
    DataflowError,
    InvalidArgument,
    InvalidType,
    KeyEncodingError,
    NotYetSupported,
    PlanError,
    PlanWarning,
    SessionStopped,
    SinkError,
    SourceError,
    StateCorruption,
    SupersededRun,
    UnsupportedOnRunner,
    UntrustedCheckpoint,
    UserCodeError,
    WorkerLost,
)
from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.functions.dofn import DeadLetter, DoFn, Retract, TaggedOutput, TimestampedValue
from dataflow_model.plan.functions.state import (
    BagStateSpec,
    CombiningStateSpec,
    MapStateSpec,
    SetStateSpec,
    TimerSpec,
    ValueStateSpec,
    WatermarkHoldSpec,
    WatermarkSpec,
    on_timer,
)
from dataflow_model.plan.functions.state_handles import (
    BagState,
    CombiningState,
    MapState,
    SetState,
    Timer,
    ValueState,
    Watermark,
    WatermarkHold,
)
from dataflow_model.plan.logical.dropped import Dropped, DropReason
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.plan.logical.strategy import (
    AccumulationMode,
    ClosingBehavior,
    LateData,
    OnTimeBehavior,
    TimestampCombiner,
    WindowingStrategy,
)
from dataflow_model.plan.names.imports import explain_imports as _explain_imports
from dataflow_model.plan.names.spellings import unknown as _unknown
from dataflow_model.plan.watermarks.estimators import (
    ARRIVAL,
    AdaptiveLateness,
    BoundedOutOfOrderness,
    Explicit,
    Monotonic,
    WallTime,
)
from dataflow_model.plan.watermarks.oldest_file import OldestFile
from dataflow_model.time import (
    MAX_TIMESTAMP,
    MIN_TIMESTAMP,
    Duration,
    EventTime,
    ProcessingTime,
    duration,
    event_time,
    processing_time,
)
from dataflow_model.transforms.elementwise.dead_letters import WithDeadLetters
from dataflow_model.transforms.elementwise.map_async import MapAsync
from dataflow_model.transforms.elementwise.maps import Filter, FlatMap, FlatMapTuple, Map, MapTuple
from dataflow_model.transforms.elementwise.pairs import Keys, KvSwap, Values, WithKeys
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.elementwise.reshaping import Flatten, Partition, Reshuffle
from dataflow_model.transforms.elementwise.side_inputs import AsDict, AsIter, AsList, AsSingleton
from dataflow_model.transforms.elementwise.timestamps import WithTimestamps
from dataflow_model.transforms.elementwise.watching import LogElements, Tee
from dataflow_model.transforms.endpoints.create import Create, Read, Write
from dataflow_model.transforms.grouping.approximate import ApproximateQuantiles, ApproximateUnique
from dataflow_model.transforms.grouping.batches import BatchElements, GroupIntoBatches
from dataflow_model.transforms.grouping.by_key import CombineGlobally, CombinePerKey, GroupByKey
from dataflow_model.transforms.grouping.collectors import Distinct, ToDict, ToList, Top, ToSet
from dataflow_model.transforms.grouping.combine_values import CombineValues
from dataflow_model.transforms.grouping.combiner_forms import Combiner
from dataflow_model.transforms.grouping.combiners import Count, Max, Mean, Min, Sum
from dataflow_model.transforms.grouping.deduplicate import Deduplicate
from dataflow_model.transforms.grouping.group_by import GroupBy
from dataflow_model.transforms.grouping.latest import Latest
from dataflow_model.transforms.grouping.sampling import Sample
from dataflow_model.transforms.grouping.together import Together
from dataflow_model.transforms.joining.cogroup import CoGroupByKey
from dataflow_model.transforms.joining.joins import Join
from dataflow_model.transforms.pipelines.composite_functions import ptransform_fn
from dataflow_model.transforms.pipelines.foreign import set_converters as _set_converters
from dataflow_model.transforms.pipelines.pcollection import OutputTuple, PBegin, PCollection
from dataflow_model.transforms.pipelines.pipeline import Pipeline
from dataflow_model.transforms.pipelines.pipeline import set_default_runner as _set_default_runner
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.transforms.pipelines.windows import Window, WindowInto
from dataflow_model.transforms.topologies.computations import Computation, ComputationState
from dataflow_model.transforms.topologies.injectors import FileInjector, Injector
from dataflow_model.transforms.topologies.stream_records import Coder, FiredTimer, PickleCoder, StreamRecord
from dataflow_model.transforms.topologies.topology import Topology
from dataflow_model.triggers import (
    AfterAll,
    AfterAny,
    AfterBytes,
    AfterCount,
    AfterEach,
    AfterEventTime,
    AfterProcessingTime,
    AfterPunctuation,
    AfterSignal,
    AfterWatermark,
    Always,
    AtPeriod,
    CompositeTrigger,
    DataTrigger,
    DefaultTrigger,
    FiringMode,
    Never,
    RepeatCount,
    Repeatedly,
    RepeatUntil,
    TimeDomain,
    Trigger,
    TriggerContext,
)
from dataflow_model.values import GLOBAL_WINDOW, GlobalWindow, IntervalWindow, Pane, PaneInfo, PaneTiming
from dataflow_model.values import Window as AnyWindow
from dataflow_model.windowing import CalendarWindows, FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

if TYPE_CHECKING:
    from dataflow_model import beam, io, testing
    from dataflow_model.plan.logical.runner import Runner
    from dataflow_model.runners.local import LocalRunner
    from dataflow_model.runners.operating.upgrading import upgrade
    from dataflow_model.runners.spark import SparkRunner

__version__: Final = "0.1.0"

__all__ = [
    "ARRIVAL",
    "GLOBAL_WINDOW",
    "MAX_TIMESTAMP",
    "MIN_TIMESTAMP",
    "AccumulationMode",
    "AdaptiveLateness",
    "AfterAll",
    "AfterAny",
    "AfterBytes",
    "AfterCount",
    "AfterEach",
    "AfterEventTime",
    "AfterProcessingTime",
    "AfterPunctuation",
    "AfterSignal",
    "AfterWatermark",
    "Always",
    "AnyWindow",
    "ApproximateQuantiles",
    "ApproximateUnique",
    "AsDict",
    "AsIter",
    "AsList",
    "AsSingleton",
    "AtPeriod",
    "BagState",
    "BagStateSpec",
    "BatchElements",
    "BoundedOutOfOrderness",
    "CalendarWindows",
    "CheckpointInUse",
    "CheckpointMismatch",
    "ClosingBehavior",
    "CoGroupByKey",
    "Coder",
    "CombineFn",
    "CombineGlobally",
    "CombinePerKey",
    "CombineValues",
    "Combiner",
    "CombiningState",
    "CombiningStateSpec",
    "CompositeTrigger",
    "Computation",
    "ComputationState",
    "Count",
    "Create",
    "DataTrigger",
    "DataflowError",
    "DeadLetter",
    "Deduplicate",
    "DefaultTrigger",
    "Distinct",
    "DoFn",
    "DropReason",
    "Dropped",
    "Duration",
    "EventTime",
    "Explicit",
    "FileInjector",
    "Filter",
    "FiredTimer",
    "FiringMode",
    "FixedWindows",
    "FlatMap",
    "FlatMapTuple",
    "Flatten",
    "GlobalWindow",
    "GlobalWindows",
    "GroupBy",
    "GroupByKey",
    "GroupIntoBatches",
    "Injector",
    "IntervalWindow",
    "InvalidArgument",
    "InvalidType",
    "Join",
    "KeyEncodingError",
    "Keys",
    "KvSwap",
    "LateData",
    "Latest",
    "LocalRunner",
    "LogElements",
    "Map",
    "MapAsync",
    "MapState",
    "MapStateSpec",
    "MapTuple",
    "Max",
    "Mean",
    "Min",
    "Monotonic",
    "Never",
    "NotYetSupported",
    "OldestFile",
    "OnTimeBehavior",
    "OutputTuple",
    "PBegin",
    "PCollection",
    "PTransform",
    "Pane",
    "PaneInfo",
    "PaneTiming",
    "ParDo",
    "Partition",
    "PickleCoder",
    "Pipeline",
    "PlanError",
    "PlanWarning",
    "ProcessingTime",
    "Read",
    "RepeatCount",
    "RepeatUntil",
    "Repeatedly",
    "Reshuffle",
    "Retract",
    "RunnerState",
    "Sample",
    "SessionStopped",
    "Sessions",
    "SetState",
    "SetStateSpec",
    "SinkError",
    "SlidingWindows",
    "SourceError",
    "SparkRunner",
    "StateCorruption",
    "StreamRecord",
    "Sum",
    "SupersededRun",
    "TaggedOutput",
    "Tee",
    "TimeDomain",
    "Timer",
    "TimerSpec",
    "TimestampCombiner",
    "TimestampedValue",
    "ToDict",
    "ToList",
    "ToSet",
    "Together",
    "Top",
    "Topology",
    "Trigger",
    "TriggerContext",
    "UnsupportedOnRunner",
    "UntrustedCheckpoint",
    "UserCodeError",
    "ValueState",
    "ValueStateSpec",
    "Values",
    "WallTime",
    "Watermark",
    "WatermarkHold",
    "WatermarkHoldSpec",
    "WatermarkSpec",
    "Window",
    "WindowFn",
    "WindowInto",
    "WindowingStrategy",
    "WithDeadLetters",
    "WithKeys",
    "WithTimestamps",
    "WorkerLost",
    "Write",
    "__version__",
    "beam",
    "duration",
    "event_time",
    "io",
    "metrics",
    "on_timer",
    "processing_time",
    "ptransform_fn",
    "testing",
    "upgrade",
]

_LAZY: Final = {
    "LocalRunner": ("dataflow_model.runners.local", "LocalRunner"),
    "SparkRunner": ("dataflow_model.runners.spark", "SparkRunner"),
    "beam": ("dataflow_model.beam", None),
    "io": ("dataflow_model.io", None),
    "testing": ("dataflow_model.testing", None),
    "upgrade": ("dataflow_model.runners.operating.upgrading", "upgrade"),
}
"""What is imported when it is first used: where it is, and under what name; `None` for the module itself."""


if not TYPE_CHECKING:  # type checkers would take every name for one that exists

    def __getattr__(name: str) -> Any:
        """Import what is lazy."""
        if name not in _LAZY:
            raise _unknown(__name__, name, sys.modules[__name__])
        path, attribute = _LAZY[name]
        module = importlib.import_module(path)
        value = module if attribute is None else getattr(module, attribute)
        globals()[name] = value  # asked only once
        return value


def __dir__() -> list[str]:
    """List what the package offers, without what this module imports for itself."""
    return sorted(__all__)


def _local_runner() -> Runner:
    from dataflow_model.runners.local import LocalRunner

    return LocalRunner()


def _beam_converters() -> Any:
    return importlib.import_module("dataflow_model.beam.functions")


_set_default_runner(_local_runner)
_set_converters(_beam_converters)
_explain_imports()
