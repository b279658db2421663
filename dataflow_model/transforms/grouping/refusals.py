"""Values that a combiner refuses: they are sent to a separate output before they are combined.

Whether a value is refused depends on nothing but the value. If it depended on the values before it, the result would
depend on the order of arrival, on how the work is divided, and on what a retraction finds.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from dataflow_model.plan.functions.combine import owners_of
from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.grouping.associative import AssociativeFn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.functions.dofn import DeadLetter
    from dataflow_model.transforms.pipelines.pcollection import PCollection


def accepted(
    pcoll: PCollection, combine: CombineFn[Any, Any, Any], value_of: Callable[[Any], Any], tag: str
) -> tuple[PCollection, PCollection[DeadLetter]]:
    """Return the elements whose values a combiner takes, and dead letters for the others.

    Args:
        pcoll: the elements.
        combine: the combiner.
        value_of: returns the value of an element.
        tag: the tag of the dead letters.
    """
    check = ParDo(_AcceptedFn(combine, value_of)).with_output_types(pcoll.element_type)
    accepted_elements, refused = pcoll | "Check" >> check.with_exception_handling(tag)
    return accepted_elements, refused


class _AcceptedFn(DoFn):
    """Passes on the elements whose values a combiner takes, and raises what it raises for others.

    A value is added to an accumulator of its own. A function over values, which an accumulator calls only once it has
    many values, is called with the value alone.
    """

    def __init__(self, combine: CombineFn[Any, Any, Any], value_of: Callable[[Any], Any]) -> None:
        self.combine = copy.deepcopy(combine)  # it is set up and torn down apart from that of the grouping
        self.value_of = value_of
        self.has_function = any(isinstance(owner, AssociativeFn) for owner in owners_of(combine))

    def setup(self) -> None:
        """Set the combiner up."""
        self.combine.setup()

    def process(self, element: Any) -> Iterator[Any]:
        """Add the value to an empty accumulator."""
        accumulator = self.combine.add_input(self.combine.create_accumulator(), self.value_of(element))
        if self.has_function:
            self.combine.extract_output(accumulator)
        yield element

    def teardown(self) -> None:
        """Tear the combiner down."""
        self.combine.teardown()

    def title(self) -> str:
        """Return what explanations call it."""
        return f"the elements that {self.combine!r} takes"
