"""Where weak productions are allowed: with sinks that can publish immediately, and values that are never retracted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import PlanError
from dataflow_model.plan.endpoints.sinks import Sink
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.plan.logical.retracted import retracted_collections

if TYPE_CHECKING:
    from dataflow_model.plan.logical.graph import Plan


def check_weak(plan: Plan) -> None:
    """Raise `PlanError` if weak productions would have no effect, or would publish values that may be retracted.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> _ = p | dm.Create([1]) | dm.io.Collect()
        >>> check_weak(p.plan())
        Traceback (most recent call last):
        ...
        dataflow_model.errors.PlanError: productions='weak' has no effect here: none of 'Collect' can publish
            immediately
        Hint: leave it out, or write with dm.io.WriteParquet, WriteTable, WriteKafka or a sink with `open_weak`
    """
    writes = [node for node in plan.nodes if isinstance(node, Write)]
    able = [write for write in writes if type(write.sink).open_weak is not Sink.open_weak]
    if not able:
        labels = ", ".join(repr(write.label) for write in writes)
        raise PlanError(
            f"productions='weak' has no effect here: none of {labels} can publish immediately",
            hint="leave it out, or write with dm.io.WriteParquet, WriteTable, WriteKafka or a sink with `open_weak`",
        )
    retracted = retracted_collections(plan)
    for write in able:
        if write.input in retracted:
            raise PlanError(
                f"{write.label!r} would immediately publish values that {retracted[write.input].label!r} may "
                "retract, and repeated productions could not be distinguished from new ones",
                hint="leave productions='weak' out, or use .accumulating()",
            )
