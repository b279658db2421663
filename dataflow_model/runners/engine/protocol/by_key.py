"""A bucket of a bounded job: one key after the other, each in event-time order, with the watermark following."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from dataflow_model.metrics.collecting import SlowestKeys
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import Produced
from dataflow_model.runners.engine.lanes.lanes import array_of, ranks_of_bytes
from dataflow_model.runners.engine.lanes.order import rising, sorting
from dataflow_model.runners.engine.lanes.radix import in_order_of
from dataflow_model.runners.engine.lanes.watermarks import MAX_WATERMARKS, Watermarks
from dataflow_model.runners.engine.protocol.sharding import encoded_keys
from dataflow_model.time import MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

NEVER: Final = int(MIN_TIMESTAMP)
"""The clock of a bounded job, which has no processing time."""


class _ByKey(Protocol):
    """A machine that processes each key independently."""

    label: str

    def set_clocks(self, *, watermark: int, clock: int) -> None: ...

    def follow(self, elements: Bundle) -> None:
        """Process the elements of one key in order; the watermark follows their event times."""
        ...

    def advance_watermarks(self, watermarks: Watermarks) -> None: ...

    def take_outputs(self) -> Mapping[str, Bundle]:
        """Return the outputs since the last call, by tag."""
        ...


def sorted_by_key(label: str, elements: Bundle) -> tuple[NDArray[np.int64], list[int]]:
    """Return the elements' indices by key, then event time, then order, and where the rows of each key begin there."""
    encoded, indices = encoded_keys(label, elements.values)
    keys = ranks_of_bytes(encoded)[indices]
    in_order = sorting(elements.orders)
    times = array_of(elements.times)
    if in_order is None:
        rows = in_order_of(times, keys)
    else:
        first = np.asarray(in_order, np.int64)
        rows = first[in_order_of(times[first], keys[first])]  # which keeps equal ones in order
    return rows, np.flatnonzero(np.diff(keys[rows], prepend=-1)).tolist()


def run_by_key(machine: _ByKey, elements: Bundle) -> Produced:
    """Run a bucket's keys one after the other: the watermark follows each key's elements, then advances to +∞.

    The orders of the outputs increase in order of emission, since here watermarks come between elements.
    """
    outputs: dict[str, Bundle] = {}
    slowest = SlowestKeys()
    elements = elements.plain()
    rows, firsts = sorted_by_key(machine.label, elements)
    for first, end in itertools.pairwise([*firsts, len(rows)]):
        machine.set_clocks(watermark=NEVER, clock=NEVER)
        began = time.perf_counter()
        inbox = elements.take(rows[first:end])
        inbox.orders = rising(inbox.orders)
        machine.follow(inbox)
        machine.advance_watermarks(MAX_WATERMARKS)
        for tag, bundle in machine.take_outputs().items():
            if bundle:
                bundle.orders = rising(bundle.orders)
                outputs.setdefault(tag, Bundle()).extend(bundle)
        slowest.offer(inbox.values[0][0], time.perf_counter() - began, len(inbox))
    slowest.record(machine.label)
    produced = Produced()
    produced.add(0, outputs)
    return produced
