"""Ids of records, computed from their position in the source, so that no ids have to be sent along."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dataflow_model.plan.nodes import Read
from dataflow_model.runners.engine.order import place_in_source

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.plan.graph import Plan
    from dataflow_model.runners.engine.bundle import Bundle

__all__ = ["record_ids"]


def record_ids(plan: Plan, producer: str, root: Bundle, causes: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield the ids of elements that a source's bundle has caused, in order of cause.

    An id consists of the source's label, the record's position, and a number that distinguishes the elements that
    functions have made of one record. The position is the origin and row of a file, the values of the columns that the
    user has named, or the position in the program.

    Args:
        plan: the plan.
        producer: the source, or the node that turns its rows into pairs.
        root: the source's bundle.
        causes: the place in the bundle of each element's cause.
    """
    read = plan[producer]
    while not isinstance(read, Read):
        read = plan[read.inputs[0].label]
    label, source = read.label, read.source
    named = operator.attrgetter(*source.id_columns) if source.id_columns else None
    number, last = 0, -1
    for cause in causes:
        number = number + 1 if cause == last else 0
        last = cause
        order = root.orders[cause]
        if named is not None:
            place = named(root.values[cause])
            yield (label, *(place if len(source.id_columns) > 1 else (place,)), number)
        elif source.as_columns is not None:
            yield (label, *place_in_source(order, label), number)
        else:
            yield (*order, number)
