"""Groupings: GroupByKey, CombinePerKey and CombineGlobally."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.plan import nodes
from dataflow_model.plan.combine import GroupFn
from dataflow_model.transforms import typehints
from dataflow_model.transforms.associative import as_combine_fn
from dataflow_model.transforms.elementwise import Map
from dataflow_model.transforms.pairs import Values
from dataflow_model.transforms.ptransform import PTransform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.plan.combine import CombineFn
    from dataflow_model.transforms.pcollection import PCollection

__all__ = ["CombineGlobally", "CombinePerKey", "GroupByKey"]


class GroupByKey(PTransform):
    """Group pairs by key and window; each pane is a pair of the key and the list of its values.

    Takes the windowing strategy of its input. Keys are grouped by value and type; a key without a deterministic
    encoding (a set, a dict, a float NaN) fails the run.

    Raises:
        InvalidType: for a collection whose elements are known not to be pairs.

    Source: the papers' GroupByKeyAndWindow; Beam's `GroupByKey`.

    Example:
        >>> import dataflow_model as dm
        >>> (dm.Pipeline() | dm.Create([("UA", 1)]) | dm.GroupByKey()).element_type
        tuple[str, list[int]]
        >>> dm.Pipeline() | dm.Create([1]) | dm.GroupByKey()
        Traceback (most recent call last):
        dataflow_model.errors.InvalidType: 'GroupByKey' groups pairs (key, value), got elements of type int
        Hint: put dm.WithKeys(…) before it, or dm.Map(lambda x: (key, value))
    """

    input_kind = "collection"

    def expand(self, pcoll: PCollection) -> PCollection:
        """Add the node."""
        _, value = typehints.pair_types(pcoll.element_type)
        return _group(pcoll, GroupFn(), list[value])  # type: ignore[valid-type] # built at run time


class CombinePerKey(PTransform):
    """Combine the values of each key and window.

    Args:
        fn: a `CombineFn`, its class, or an associative function over an iterable, such as `sum`.
        name: what to be called where no label is given.

    Raises:
        InvalidType: for a collection whose elements are known not to be pairs, or a value type that the combiner
            cannot take.

    Source: Beam's `CombinePerKey`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> totals = p | dm.Create([("UA", 1), ("UA", 2)]) | dm.CombinePerKey(sum)
        >>> p.plan()["CombinePerKey"].combine
        Sum()
    """

    input_kind = "collection"

    def __init__(
        self,
        fn: CombineFn[Any, Any, Any] | type[CombineFn[Any, Any, Any]] | Callable[[Iterable[Any]], Any],
        *,
        name: str | None = None,
    ) -> None:
        self._name = name or type(self).__name__
        self.fn = as_combine_fn(fn, self._name)

    def default_label(self) -> str:
        """Return the name that it was made with."""
        return self._name

    def expand(self, pcoll: PCollection) -> PCollection:
        """Add the node."""
        _, value = typehints.pair_types(pcoll.element_type)
        return _group(pcoll, self.fn, typehints.combined_type(self.fn, value))


class CombineGlobally(PTransform):
    """Combine all elements of each window.

    A window without elements has no pane, where Beam's gives the combiner's value of nothing for the global window.

    Args:
        fn: a `CombineFn`, its class, or an associative function over an iterable, such as `max`.
        name: what to be called where no label is given.

    Source: Beam's `CombineGlobally(…).without_defaults()`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> most = p | dm.Create([3, 1, 2]) | dm.CombineGlobally(max)
        >>> [node.label for node in p.plan().nodes]
        ['Create', 'CombineGlobally/Map', 'CombineGlobally/CombinePerKey', 'CombineGlobally/Values']
    """

    input_kind = "collection"

    def __init__(
        self,
        fn: CombineFn[Any, Any, Any] | type[CombineFn[Any, Any, Any]] | Callable[[Iterable[Any]], Any],
        *,
        name: str | None = None,
    ) -> None:
        self._name = name or type(self).__name__
        self.fn = as_combine_fn(fn, self._name)

    def default_label(self) -> str:
        """Return the name that it was made with."""
        return self._name

    def expand(self, pcoll: PCollection) -> Any:
        """Give all elements the key `None`, combine per key, and drop the key."""
        pairs: Any = tuple[None, pcoll.element_type]  # type: ignore[name-defined] # built at run time
        return pcoll | Map(_with_no_key).with_output_types(pairs) | CombinePerKey(self.fn) | Values()


def _with_no_key(element: Any) -> tuple[None, Any]:
    return None, element


def _group(pcoll: PCollection, combine: CombineFn[Any, Any, Any], value_type: Any) -> PCollection:
    pipeline = pcoll.pipeline
    typehints.check_pairs(pcoll.element_type, pipeline.scope)
    key, value = typehints.pair_types(pcoll.element_type)
    typehints.check_combiner_input(combine, value, pipeline.scope)
    node = nodes.GroupByKeyAndWindow(label=pipeline.scope, input=pcoll.ref, strategy=pcoll.strategy, combine=combine)
    pair: Any = tuple[key, value_type]  # type: ignore[valid-type] # built at run time
    return pipeline.add_main(node, strategy=pcoll.strategy.after_grouping(pipeline.scope), element_type=pair)
