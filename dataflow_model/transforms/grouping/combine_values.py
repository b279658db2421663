"""CombineValues: combine the list in each pair, without a grouping."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.functions.dofn import DoFn
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.grouping.associative import as_combine_fn, user_function
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import code_name
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.values import as_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.functions.typevars import KeyT
    from dataflow_model.transforms.pipelines.pcollection import PCollection


class CombineValues(PTransform):
    """Combine the values in pairs of a key and an iterable, such as the output of `GroupByKey`.

    This is not a grouping: each element is combined separately. `CombinePerKey` groups and combines in one step, and
    stores only accumulators.

    Args:
        fn: a `CombineFn`, its class, or an associative function over an iterable, such as `sum`.
        args, kwargs: further arguments: of the function, or of each method of the `CombineFn`.

    Raises:
        InvalidType: for a collection whose elements are known not to be pairs, or for something that is no combiner.

    Source: Beam's `CombineValues`.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("a", [1, 2]), ("b", [3])]) | dm.CombineValues(sum) | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [('a', 3), ('b', 3)]
    """

    input_kind = "collection"

    def __init__(
        self,
        fn: CombineFn[Any, Any, Any] | type[CombineFn[Any, Any, Any]] | Callable[..., Any],
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self.fn = as_combine_fn(fn, type(self).__name__, *args, **kwargs)

    def label_by_code(self) -> str:
        """Return the name with the function or the combiner's class."""
        return f"{self.default_label()}({code_name(user_function(self.fn))})"

    def expand(self, pcoll: PCollection[tuple[KeyT, Iterable[Any]]], /) -> PCollection[tuple[KeyT, Any]]:
        """Add the DoFn."""
        typehints.check_pairs(pcoll.element_type, pcoll.pipeline.scope)
        key, values = typehints.pair_types(pcoll.element_type)
        combined = typehints.combined_type(self.fn, typehints.item_type(values))
        combine_each = ParDo(_CombineEach(self.fn)).with_output_types(typehints.tuple_of(key, combined))
        pairs: PCollection[Any] = pcoll | combine_each
        return pairs


class _CombineEach(DoFn):
    """Runs a combiner over the iterable of each pair."""

    def __init__(self, combine: CombineFn[Any, Any, Any]) -> None:
        self.combine = combine

    def setup(self) -> None:
        """Set the combiner up."""
        self.combine.setup()

    def process(self, element: Any) -> Iterable[Any]:
        """Combine."""
        key, values = as_pair(element, "CombineValues")
        accumulator = self.combine.create_accumulator()
        for value in values:
            accumulator = self.combine.add_input(accumulator, value)
        yield key, self.combine.extract_output(accumulator)

    def teardown(self) -> None:
        """Tear the combiner down."""
        self.combine.teardown()
