"""The names of the package's own classes and functions in checkpoints.

A pickle refers to a class by its module and its name, so that nothing that is stored could ever be moved. What this
package stores of its own is named here instead, by names that stay as they are wherever the code goes. Users' classes
stay where they are, and pickles refer to them in the usual way.
"""

from __future__ import annotations

import copyreg
import enum
import functools
import importlib
import operator
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import CheckpointMismatch

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["NAMES", "made", "name_of", "named", "reduced_by_name"]

NAMES: Final[Mapping[str, str]] = {
    # What users see, and may store in state or use as keys.
    "drop reason": "dataflow_model.plan.logical.dropped:DropReason",
    "dropped": "dataflow_model.plan.logical.dropped:Dropped",
    "duration": "dataflow_model.time:Duration",
    "event time": "dataflow_model.time:EventTime",
    "global window": "dataflow_model.values.windows:GlobalWindow",
    "interval window": "dataflow_model.values.windows:IntervalWindow",
    "interval": "dataflow_model.values.windows:interval",
    "pane info": "dataflow_model.values.panes:PaneInfo",
    "pane timing": "dataflow_model.values.panes:PaneTiming",
    "pane": "dataflow_model.values.panes:Pane",
    "processing time": "dataflow_model.time:ProcessingTime",
    "record": "dataflow_model.plan.columns.records:_record",
    "row type": "dataflow_model.plan.columns.rows:row_type_called",
    "time domain": "dataflow_model.triggers.contexts:TimeDomain",
    # Records of users' classes.
    "by place": "dataflow_model.values.records:by_position",
    "into fields": "dataflow_model.values.records:into_fields",
    # The state of transforms.
    "arrived": "dataflow_model.runners.engine.state.stateful_cells:Arrived",
    "computation": "dataflow_model.transforms.topologies.computations:ComputationState",
    "firing mode": "dataflow_model.triggers.contexts:FiringMode",
    "hold": "dataflow_model.runners.engine.state.stateful_cells:Hold",
    "join state": "dataflow_model.runners.engine.machines.side_join:JoinState",
    "key of a stateful function": "dataflow_model.runners.engine.state.stateful_cells:_filled_key",
    "pending timer": "dataflow_model.runners.engine.state.stateful_cells:PendingTimer",
    "segment of record ids": "dataflow_model.runners.engine.state.id_segments:Segment",
    "side window": "dataflow_model.runners.engine.machines.side_join:_SideWindow",
    "sides of an as-of join": "dataflow_model.transforms.joining.as_of_joins:AsOfSides",
    "trigger state": "dataflow_model.triggers.state:TreeState",
    "waiting element": "dataflow_model.runners.engine.machines.side_join:_Waiting",
    # Elements that wait, in columns.
    "bundle": "dataflow_model.runners.engine.lanes.bundle:Bundle",
    "column": "dataflow_model.runners.engine.lanes.value_lanes:_unpacked_column",
    "instants": "dataflow_model.runners.engine.lanes.order_lanes:InstantLane",
    "integers": "dataflow_model.runners.engine.lanes.lanes:Integers",
    "intervals": "dataflow_model.runners.engine.lanes.lanes:_intervals",
    "made orders": "dataflow_model.runners.engine.lanes.order_lanes:_restored",
    "pairs": "dataflow_model.runners.engine.lanes.value_lanes:_unpacked_pairs",
    "repeated": "dataflow_model.runners.engine.lanes.lanes:Repeated",
    "rising orders": "dataflow_model.runners.engine.lanes.order_lanes:RisingOrders",
    "row orders": "dataflow_model.runners.engine.lanes.order_lanes:RowOrders",
    "rows": "dataflow_model.runners.engine.lanes.value_lanes:_unpacked_rows",
    "unnumbered": "dataflow_model.runners.engine.lanes.order:Unnumbered",
    "update": "dataflow_model.runners.engine.lanes.bundle:Update",
    # The progress of a run, of its sources and its shards.
    "ahead": "dataflow_model.runners.sharded.commits.ahead:_Stored",
    "carried": "dataflow_model.runners.sharded.upgrade.carried:Carried",
    "commit in process": "dataflow_model.runners.local.run_file:Commit",
    "counted ahead": "dataflow_model.runners.reporting:CountedAhead",
    "course": "dataflow_model.runners.engine.collections.kept:Course",
    "delta": "dataflow_model.runners.sharded.state.log:Delta",
    "digest": "dataflow_model.runners.engine.sources.skew:_restored",
    "kept ahead": "dataflow_model.runners.engine.collections.kept:Kept",
    "offset": "dataflow_model.runners.sharded.feed.offsets:Offset",
    "offset of an origin": "dataflow_model.runners.sharded.feed.origins:OriginOffset",
    "offset of a source": "dataflow_model.runners.sharded.feed.origins:SourceOffset",
    "observations": "dataflow_model.runners.engine.sources.observing:Observations",
    "origin": "dataflow_model.runners.engine.sources.estimation:OriginProgress",
    "packed bundle": "dataflow_model.runners.sharded.tasks.rows:PackedBundle",
    "packed panes": "dataflow_model.runners.sharded.tasks.rows:PackedPanes",
    "packed partials": "dataflow_model.runners.sharded.tasks.rows:PackedPartials",
    "part": "dataflow_model.runners.engine.sources.observing:OriginObservations",
    "readings": "dataflow_model.metrics.tally:Readings",
    "reference": "dataflow_model.plan.logical.nodes:Ref",
    "replay": "dataflow_model.runners.engine.sources.timeline:ReplayProgress",
    "settled": "dataflow_model.runners.engine.sources.estimation:Settled",
    "shard": "dataflow_model.runners.sharded.tasks.shard_meta:ShardMeta",
    "skew sketch": "dataflow_model.runners.engine.sources.skew:SkewSketch",
    "source": "dataflow_model.runners.engine.sources.estimation:SourceProgress",
    "spread": "dataflow_model.metrics.tally:Spread",
    "state record": "dataflow_model.runners.sharded.state.log:Record",
    "tally": "dataflow_model.metrics.tally:Tally",
    "watermark lane": "dataflow_model.runners.engine.lanes.watermarks:WatermarkLane",
    "watermarks": "dataflow_model.runners.engine.lanes.watermarks:Watermarks",
    # Output.
    "kept records": "dataflow_model.plan.columns.record_columns:KeptRecords",
    "pane columns": "dataflow_model.plan.columns.record_columns:PaneColumns",
    "pending file": "dataflow_model.io.sinks.file_writer:PendingFile",
    "pending folders": "dataflow_model.io.sinks.file_writer:PendingFolders",
    "pending messages": "dataflow_model.io.topics.messages:PendingMessages",
    "order columns": "dataflow_model.plan.columns.orders:OrderColumns",
    "pending columns": "dataflow_model.io.tables.pending:PendingColumns",
    "pending rows": "dataflow_model.io.tables.pending:PendingRows",
    "pending": "dataflow_model.runners.sharded.outputs.pending:Pending",
    "record columns": "dataflow_model.plan.columns.record_columns:RecordColumns",
}
"""Where each name leads: a module and what it defines. Whoever moves a class changes the path and keeps the name."""
_NAMES_OF: Final = {path: name for name, path in NAMES.items()}
_PROTOCOL: Final = 5
_NEW: Final[Any] = copyreg.__newobj__  # type: ignore[attr-defined] # not in the stubs


@functools.cache
def named(name: str) -> Any:
    """Return the class or function that a name leads to; pickles call this function.

    Raises:
        CheckpointMismatch: if there is no such name.

    Example:
        >>> named("pane info")
        <class 'dataflow_model.values.panes.PaneInfo'>
    """
    try:
        module, _, path = NAMES[name].partition(":")
    except KeyError:
        raise CheckpointMismatch(
            f"a stored value is a {name!r}, of which this version knows nothing",
            hint="continue with the version of dataflow-model that has written it",
        ) from None
    return operator.attrgetter(path)(importlib.import_module(module))


def made(kind: type[Any], *arguments: Any) -> Any:
    """Return a new object of a class without a call of `__init__`; pickles call this function."""
    return kind.__new__(kind, *arguments)


def name_of(thing: Any) -> str | None:
    """Return the name of a class or function; `None` if it has none.

    Example:
        >>> name_of(named("pane info")), name_of(int)
        ('pane info', None)
    """
    return _NAMES_OF.get(f"{getattr(thing, '__module__', None)}:{getattr(thing, '__qualname__', None)}")


def __getattr__(name: str) -> Any:
    """Return the row type that a pickle refers to: its class says that it is defined here."""
    if not (name.startswith("Row(") and name.endswith(")")):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return named("row type")(name)


class _Reference:
    """Stands in a pickle for a class or function that has a name."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *_: Any) -> None:
        raise AssertionError("it is called only where it was restored")

    def __reduce__(self) -> Any:
        return named, (self._name,)


@functools.lru_cache(maxsize=1_000)  # a notebook defines classes anew
def _reference(thing: Any) -> Any:
    """Return what a pickle refers to a class or function by: itself, if it has no name.

    A name has one reference, so that a pickle contains it once.
    """
    name = name_of(thing)
    return thing if name is None else _Reference(name)


def reduced_by_name(value: Any) -> Any:
    """Return how an object of the package is pickled: as `__reduce_ex__` says, with the name of what creates it."""
    if isinstance(value, enum.Enum):  # some versions of Python call `getattr` with the class
        return _reference(type(value)), (value.value,)
    reduced = value.__reduce_ex__(_PROTOCOL)
    if isinstance(reduced, str):
        return reduced
    create, arguments, *rest = reduced
    if create is not _NEW:
        return _reference(create), arguments, *rest
    reference = _reference(arguments[0])
    return reduced if reference is arguments[0] else (made, (reference, *arguments[1:]), *rest)
