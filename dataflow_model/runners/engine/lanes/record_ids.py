"""Ids of records, computed from their position in the source, so that no ids have to be sent along."""

from __future__ import annotations

import operator
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.engine.lanes.lanes import array_of, taken
from dataflow_model.runners.engine.lanes.order import label_and_origin, origin_of, position_in_source, sequence_of
from dataflow_model.runners.engine.lanes.order_lanes import RowOrders, numbers_within

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.runners.engine.lanes.bundle import Bundle

_MASK: Final = (1 << 64) - 1
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
"""A factor by which neighbours end up far apart: 2**64 divided by the golden ratio."""


def record_ids(plan: Plan, producer: str, root: Bundle, causes: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield the ids of elements that a source's bundle has caused, in order of cause.

    An id consists of the source's label, the record's position, and a number that distinguishes the elements that
    functions have made of one record. The position is the origin and row of a file, the values of the columns that the
    user has named, or the position in the program.

    Args:
        plan: the plan.
        producer: the source, or the node that turns its rows into pairs.
        root: the source's bundle.
        causes: the index in the bundle of each element's cause.
    """
    read = _read_of(plan, producer)
    label, source = read.label, read.source
    named = operator.itemgetter(*source.id_columns) if source.id_columns else None
    number, last = 0, -1
    for cause, order in zip(causes, taken(root.orders, causes), strict=True):
        number = number + 1 if cause == last else 0
        last = cause
        if named is not None:
            index = named(root.values[cause])
            yield (label, *(index if len(source.id_columns) > 1 else (index,)), number)
        elif source.as_columns is not None:
            yield (label, *position_in_source(order, label), number)
        else:
            yield (*order, number)


def record_hashes(plan: Plan, producer: str, root: Bundle, causes: Sequence[int]) -> NDArray[np.int64]:
    """Return a hash in `[0, 2**32)` of the id of each element, given the same arguments as for `record_ids`."""
    read = _read_of(plan, producer)
    label, source = read.label, read.source
    if source.id_columns:
        id_of = operator.itemgetter(*source.id_columns)
        indices = np.array([zlib.crc32(repr(id_of(value)).encode()) for value in root.values], np.uint64)
    elif isinstance(root.orders, RowOrders):
        names = np.array([zlib.crc32(label_and_origin(name, label).encode()) for name in root.orders.names], np.uint64)
        indices = _mixed(names[root.orders.codes]) + root.orders.sequences.astype(np.uint64)
    else:
        names = np.array([zlib.crc32(origin_of(order, label).encode()) for order in root.orders], np.uint64)
        indices = _mixed(names) + np.array([_number_of(sequence_of(order)) for order in root.orders], np.uint64)
    if isinstance(causes, range):  # each element is the only one of its record
        hashes = _mixed(_mixed(indices))
    else:
        of_element = array_of(causes)
        hashes = _mixed(_mixed(indices[of_element]) + numbers_within(of_element).astype(np.uint64))
    return (hashes >> np.uint64(32)).astype(np.int64)


def _number_of(sequence: Any) -> int:
    """Return a number in `[0, 2**64)` for a value of a DataFrame's column, which may be negative or no number."""
    return int(sequence) & _MASK if isinstance(sequence, int | np.integer) else zlib.crc32(repr(sequence).encode())


def _read_of(plan: Plan, producer: str) -> Read:
    node = plan[producer]
    while not isinstance(node, Read):
        node = plan[node.inputs[0].label]
    return node


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return other numbers instead, such that small differences change many digits."""
    mixed = numbers * _ODD
    return mixed ^ (mixed >> np.uint64(32))
