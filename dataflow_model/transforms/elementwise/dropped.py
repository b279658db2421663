"""The output of the elements that a transform drops, for transforms that change an element before they group it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.logical.dropped import Dropped
from dataflow_model.transforms.elementwise.maps import Map

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.functions.typevars import ElementT, KeyT, ValueT
    from dataflow_model.transforms.pipelines.pcollection import PCollection
    from dataflow_model.transforms.pipelines.ptransform import PTransform

    class GroupedAndDropped(PTransform):
        """`GroupByKey` with an output for the elements that it drops."""

        def expand(  # noqa: D102 - see the class
            self, pcoll: PCollection[tuple[KeyT, ValueT]], /
        ) -> tuple[PCollection[tuple[KeyT, list[ValueT]]], PCollection[Dropped]]: ...

    class KeptAndDropped(PTransform):
        """A transform that passes on elements, with an output for those that it drops."""

        def expand(  # noqa: D102 - see the class
            self, pcoll: PCollection[ElementT], /
        ) -> tuple[PCollection[ElementT], PCollection[Dropped]]: ...


def restored(records: PCollection[Dropped], restore: Callable[[Dropped], Dropped]) -> PCollection[Dropped]:
    """Return records of dropped elements with each element as the transform received it.

    Args:
        records: the records of the grouping inside the transform.
        restore: returns a record with the element restored.
    """
    return records | "Dropped" >> Map(restore).with_output_types(Dropped)


def value_alone(record: Dropped) -> Dropped:
    """Restore an element that was the value of a pair."""
    return attrs.evolve(record, element=record.element[1])


def key_alone(record: Dropped) -> Dropped:
    """Restore an element that was the key of a pair."""
    return attrs.evolve(record, element=record.element[0])
