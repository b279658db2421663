"""Straight lines: plain maps and filters between a source and one sink, without a bundle between them.

A bundle has the windows, pane and order of each element. A sink that reads only values needs none of these, so it gets
records that are created only when they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.metrics.collecting import count_emitted, count_received, in_scratch
from dataflow_model.plan.dofn import FilterFn, MapFn, TaggedOutput, TimestampedValue
from dataflow_model.plan.nodes import ParDo, Ref, Write
from dataflow_model.plan.record_columns import LazyRecords
from dataflow_model.plan.records import Record
from dataflow_model.runners.engine.calling import mapped, places_kept
from dataflow_model.runners.engine.order import at_instant
from dataflow_model.time import EventTime, ProcessingTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.plan.graph import Plan
    from dataflow_model.runners.engine.order import Order

__all__ = ["FreshRecords", "Line", "line_behind"]


@attrs.frozen(eq=False)
class Line:
    """A sequence of maps and filters, and the sink at its end."""

    steps: tuple[ParDo, ...]
    sink: str

    def run(self, values: list[Any]) -> tuple[list[Any], list[int] | None] | None:
        """Return the outputs and the place of each output's input; the places are `None` if each input has one output.

        The whole result is `None` if a function returns anything other than a plain value. The caller then takes the
        general path, which calls the functions again; only these calls are counted.
        """
        with in_scratch() as keep:
            outputs = self._run(values)
            if outputs is not None:
                keep()
        return outputs

    def _run(self, values: list[Any]) -> tuple[list[Any], list[int] | None] | None:
        places: list[int] | None = None
        for node in self.steps:
            fn: Callable[[Any], Any] = node.fn.fn  # type: ignore[attr-defined]
            count_received(node.label, len(values))
            if isinstance(node.fn, FilterFn):
                kept = places_kept(fn, values, node.label)
                places = kept if places is None else [places[row] for row in kept]
                values = [values[row] for row in kept]
            else:
                values = mapped(fn, values, node.label)
            count_emitted(node.label, len(values))
            if not {TaggedOutput, TimestampedValue}.isdisjoint(map(type, values)):
                return None
        return values, places


def line_behind(plan: Plan, ref: Ref, skip: frozenset[str] = frozenset()) -> Line | None:
    """Return the straight line from a collection to its only sink; `None` if there is anything else.

    Args:
        plan: the plan.
        ref: the collection.
        skip: the labels of nodes to ignore.
    """
    steps: list[ParDo] = []
    while True:
        consumers = [node for node in plan.consumers(ref) if node.label not in skip]
        if len(consumers) != 1:
            return None
        match consumers[0]:
            case Write() as sink:
                return Line(tuple(steps), sink.label)
            case ParDo() as node if _is_plain(node):
                steps.append(node)
                ref = Ref(node.label)
            case _:
                return None


def _is_plain(node: ParDo) -> bool:
    options = node.metadata or node.args or node.kwargs or node.tags or node.dead_letters
    return type(node.fn) in (MapFn, FilterFn) and not options


class FreshRecords(LazyRecords):
    """A source's elements as records for a sink.

    Args:
        values: the elements.
        event_times, clock: the event times and clock values of the rows that were read.
        places: the row of each element; `None` if they are the same.
        order: a function from a row to its order within its instant.
    """

    def __init__(
        self,
        values: list[Any],
        event_times: NDArray[np.int64],
        clock: NDArray[np.int64],
        places: list[int] | None,
        order: Callable[[int], Order],
    ) -> None:
        self.values = values
        self._event_times, self._clock = event_times, clock
        self._places, self._order = places, order

    def __len__(self) -> int:
        return len(self.values)

    def made(self) -> list[Record]:
        """Return a record for each element."""
        rows = range(len(self)) if self._places is None else self._places
        return [self._record(row, value) for row, value in zip(rows, self.values, strict=True)]

    def _record(self, row: int, value: Any) -> Record:
        time, clock = EventTime(int(self._event_times[row])), ProcessingTime(int(self._clock[row]))
        order = at_instant((int(clock), 0), self._order(row))
        return Record(value, time, GLOBAL_WINDOW, NO_FIRING, order=order, processing_time=clock)
