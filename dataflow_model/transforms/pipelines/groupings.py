"""The node of a grouping, with its checks, as the transforms that group add it to a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan.logical import nodes
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.output_tags import with_further

if TYPE_CHECKING:
    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.transforms.pipelines.pcollection import PCollection


def add_grouping(
    pcoll: PCollection,
    combine: CombineFn[Any, Any, Any],
    value_type: Any,
    *,
    has_one_key: bool = False,
    dropped: str | None = None,
) -> Any:
    """Add a grouping of pairs, and return its output; with a tag for dropped elements, a pair with these."""
    pipeline = pcoll.pipeline
    check_pairs_to_combine(pcoll, combine)
    key, _ = typehints.pair_types(pcoll.element_type)
    node = nodes.GroupByKeyAndWindow(
        label=pipeline.scope,
        input=pcoll.ref,
        strategy=pcoll.strategy,
        combine=combine,
        has_one_key=has_one_key,
        dropped=dropped,
    )
    pairs = typehints.tuple_of(key, value_type)
    after = pcoll.strategy.after_grouping(pipeline.scope)
    outputs = pipeline.add(node, strategy=after, element_types={nodes.MAIN: pairs})
    return with_further(outputs[nodes.MAIN], [outputs[tag] for tag in filter(None, [dropped])])


def check_pairs_to_combine(pcoll: PCollection, combine: CombineFn[Any, Any, Any]) -> None:
    """Raise `InvalidType` unless the elements are pairs whose values the combiner takes."""
    label = pcoll.pipeline.scope
    typehints.check_pairs(pcoll.element_type, label)
    typehints.check_combiner_input(combine, typehints.pair_types(pcoll.element_type)[1], label)
