"""Collected records: the labels under which a result has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.endpoints.message_sinks import TabularSink
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.values.tables import Table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan


def check_collected(plan: Plan, label: str) -> None:
    """Reject a label under which nothing is collected.

    Raises:
        InvalidArgument: if no `io.Collect` or `io.ToDataFrame` sink has the label.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> p | dm.Create([1]) | "kept" >> dm.io.Collect()
        >>> check_collected(p.plan(), "Collect")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidArgument: no dm.io.Collect() sink has the label 'Collect'
        Hint: the labels are ['kept']
    """
    sinks = [node for node in plan.nodes if isinstance(node, Write)]
    labels = [node.label for node in sinks if node.sink.keeps_records]
    if label not in labels:
        hint = f"the labels are {labels}" if labels else f"add one to the pipeline: {label!r} >> dm.io.Collect()"
        raise InvalidArgument(f"no dm.io.Collect() sink has the label {label!r}", hint=hint)


def table_of_collected(plan: Plan, label: str, records: Sequence[Record]) -> Table:
    """Return the collected records of a sink as columns.

    Raises:
        InvalidArgument: for a sink that does not define how its records become columns.
        SinkError: for a record whose type does not fit the others.
    """
    sink = getattr(plan[label], "sink", None)
    if not isinstance(sink, TabularSink):
        raise InvalidArgument(
            f"the records of {label!r} have no columns", hint="write them with dm.io.Collect() or dm.io.ToDataFrame()"
        )
    return Table(sink.table(records))
