"""Event times that the elements contain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.plan import nodes
from dataflow_model.plan.dofn import element_time
from dataflow_model.plan.typevars import ElementT_contra
from dataflow_model.time import Duration, DurationLike, EventTime, InstantLike, duration
from dataflow_model.transforms import typehints
from dataflow_model.transforms.code_names import CallsUser, code_name
from dataflow_model.transforms.ptransform import KeepsElements

if TYPE_CHECKING:
    from dataflow_model.transforms.functions import Function
    from dataflow_model.transforms.pcollection import PCollection

__all__ = ["WithTimestamps", "checked_horizon"]


class WithTimestamps(KeepsElements[ElementT_contra]):
    """Set the event time of each element to what a function returns for it.

    Forward moves are free. A backward move may make data late that were not, so it must be declared: the output's
    watermark is then held back by the bound.

    Args:
        fn: from the element to its event time: an `EventTime`, an aware `datetime`, seconds since the epoch, or text
            with a zone.
        late_data_horizon: how far before its old event time an element may move; `None` means not at all.

    Raises:
        InvalidArgument: for a negative horizon.

    Source: the papers' BOUNDED_PAST; Beam's `TimestampedValue` and `withAllowedTimestampSkew`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> events = p | dm.Create([("UA", 60)]) | dm.WithTimestamps(lambda e: e[1], late_data_horizon="1 hour")
        >>> node = p.plan()["WithTimestamps"]
        >>> node.fn(("UA", 60)), node.late_data_horizon
        (EventTime(1970-01-01T00:01:00Z), Duration(3600s))
    """

    input_kind = "collection"

    def __init__(
        self, fn: Function[ElementT_contra, InstantLike], late_data_horizon: DurationLike | None = None
    ) -> None:
        if not callable(fn):
            raise InvalidType(
                f"WithTimestamps takes a function, got {fn!r}", hint="use WithTimestamps(lambda e: e.time)"
            )
        self.fn = fn
        self.late_data_horizon = None if late_data_horizon is None else checked_horizon(late_data_horizon)

    def label_by_code(self) -> str:
        """Return the name with the function."""
        return f"{self.default_label()}({code_name(self.fn)})"

    def expand(self, pcoll: PCollection[Never], /) -> PCollection:
        """Add the node."""
        pipeline = pcoll.pipeline
        typehints.check_first_parameter(self.fn, pcoll.element_type, pipeline.scope)
        node = nodes.AssignTimestamps(
            label=pipeline.scope, input=pcoll.ref, fn=_AsEventTime(self.fn), late_data_horizon=self.late_data_horizon
        )
        return pipeline.add_main(node, strategy=pcoll.strategy, element_type=pcoll.element_type)


def checked_horizon(given: DurationLike) -> Duration:
    """Return how far event times may move back.

    Raises:
        InvalidArgument: for a negative duration.
    """
    horizon = duration(given)
    if horizon < Duration(0):
        raise InvalidArgument(f"`late_data_horizon` must not be negative, got {horizon!r}")
    return horizon


class _AsEventTime(CallsUser):
    """Calls a user's function and turns what it gives into an `EventTime`."""

    def __call__(self, element: Any) -> EventTime:
        return element_time(self.func(element))
