"""Latest: the element with the greatest event time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.functions.combine import CombineFn
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.grouping.by_key import CombineGlobally, CombinePerKey
from dataflow_model.transforms.grouping.combiner_forms import GlobalOrPerKey
from dataflow_model.transforms.grouping.element_bytes import later_of
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.values import as_pair

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.functions.typevars import ElementT
    from dataflow_model.time import EventTime
    from dataflow_model.transforms.pipelines.pcollection import PCollection

_Timed = tuple[Any, Any]


@with_spellings
class Latest(GlobalOrPerKey):
    """Keep the element with the greatest event time in each window or, with `per_key`, for each key and window.

    If several elements have that event time, the same one is kept for every order of arrival, as long as the elements
    can be encoded like keys. For no elements, the result is `None`.

    Source: Beam's `combiners.Latest`.

    Example:
        >>> import dataflow_model as dm
        >>> seen = [dm.TimestampedValue(("UA", "gate"), 5), dm.TimestampedValue(("UA", "taxi"), 7)]
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create(seen) | dm.Latest.per_key() | dm.io.Collect()
        >>> p.result.collected("Collect")[0].value
        ('UA', 'taxi')
    """

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[ElementT]:
        """Put the event time beside each value, and combine."""
        if not self._pairs:
            return pcoll | "timed" >> Map(_timed) | CombineGlobally(_LatestFn()).with_output_types(pcoll.element_type)
        typehints.check_pairs(pcoll.element_type, pcoll.pipeline.scope)
        key, _ = typehints.pair_types(pcoll.element_type)
        pairs = pcoll | "timed" >> Map(_timed_value).with_output_types(typehints.tuple_of(key, Any))
        return pairs | CombinePerKey(_LatestFn()).with_output_types(pcoll.element_type)


def _timed(element: Any, timestamp: EventTime) -> _Timed:
    return int(timestamp), element


def _timed_value(pair: Any, timestamp: EventTime) -> tuple[Any, _Timed]:
    key, value = as_pair(pair, "Latest.PerKey")
    return key, (int(timestamp), value)


@attrs.frozen
class _LatestFn(CombineFn[Any, Any, Any]):
    """Keeps the latest pair of an event time and a value; `None` if there are no pairs."""

    def create_accumulator(self) -> _Timed | None:
        return None

    def add_input(self, accumulator: _Timed | None, element: _Timed) -> _Timed:
        if accumulator is None or element[0] > accumulator[0]:
            return element
        if element[0] < accumulator[0]:
            return accumulator
        return element[0], later_of(accumulator[1], element[1])

    def merge_accumulators(self, accumulators: Iterable[_Timed | None]) -> _Timed | None:
        latest = None
        for accumulator in accumulators:
            if accumulator is not None:
                latest = self.add_input(latest, accumulator)
        return latest

    def extract_output(self, accumulator: _Timed | None) -> Any:
        return None if accumulator is None else accumulator[1]
