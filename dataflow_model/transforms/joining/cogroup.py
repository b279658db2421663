"""Grouping several collections by a common key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, overload

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.plan.functions.typevars import KeyT, TypeVar, ValueT
from dataflow_model.transforms.elementwise.dropped import restored
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.reshaping import Flatten
from dataflow_model.transforms.grouping.by_key import GroupByKey
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.inputs import common_strategy
from dataflow_model.transforms.pipelines.output_tags import check_dropped
from dataflow_model.transforms.pipelines.ptransform import PTransform
from dataflow_model.values import as_pair

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping, Sequence

    from dataflow_model.plan.logical.dropped import Dropped
    from dataflow_model.transforms.pipelines.pcollection import PCollection

SecondT = TypeVar("SecondT", default=Any)
ThirdT = TypeVar("ThirdT", default=Any)
_LABELS: Final = ("Flatten", "GroupByKey")
"""The labels that no input may have: those of the transforms that follow, except the last, which avoids conflicts."""


@calls_explained({"pipeline": "leave it out; of no collection, write p | dm.Create([])"})
class CoGroupByKey(PTransform):
    """Group several collections of pairs by key and window together.

    Each pane is a pair of the key and the lists of values, one list per collection: a dict of lists if the input is a
    dict of collections, or a tuple of lists if it is a tuple. For a collection without that key, the list is empty.

    Raises:
        InvalidType: for a collection whose elements are known not to be pairs.
        InvalidArgument: if the collections have different windowing strategies; see `Flatten`.

    Source: Beam's `CoGroupByKey`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> names = p | "names" >> dm.Create([("UA", "United")])
        >>> delays = p | "delays" >> dm.Create([("UA", 4)])
        >>> joined = {"name": names, "delay": delays} | dm.CoGroupByKey()
        >>> [node.label for node in p.plan().nodes][2:4]
        ['CoGroupByKey/name', 'CoGroupByKey/delay']
    """

    input_kind = "collections"

    if TYPE_CHECKING:

        @overload
        def __ror__(
            self, several: tuple[PCollection[tuple[KeyT, ValueT]], PCollection[tuple[KeyT, SecondT]]], /
        ) -> PCollection[tuple[KeyT, tuple[list[ValueT], list[SecondT]]]]: ...

        @overload
        def __ror__(
            self,
            several: tuple[
                PCollection[tuple[KeyT, ValueT]], PCollection[tuple[KeyT, SecondT]], PCollection[tuple[KeyT, ThirdT]]
            ],
            /,
        ) -> PCollection[tuple[KeyT, tuple[list[ValueT], list[SecondT], list[ThirdT]]]]: ...

        @overload
        def __ror__(
            self, several: Sequence[PCollection[tuple[KeyT, ValueT]]], /
        ) -> PCollection[tuple[KeyT, tuple[list[ValueT], ...]]]: ...

        @overload
        def __ror__(
            self, several: Mapping[Any, PCollection[tuple[KeyT, ValueT]]], /
        ) -> PCollection[tuple[KeyT, dict[Any, list[ValueT]]]]: ...

        def __ror__(self, several: Any, /) -> Any: ...

    _dropped: str | None = None

    @calls_explained(
        otherwise="it takes only the tag of the dropped elements, and returns a pair: the groups, and what was dropped"
    )
    def with_dropped_output(self, tag: str = "dropped") -> PTransform[Any, tuple[PCollection, PCollection[Dropped]]]:
        """Send elements that are dropped to a separate output, as `Dropped` records.

        Applying the transform then returns a pair: the groups, and the records, whose `input` is the name or number of
        the collection from which the element came. See `CombinePerKey.with_dropped_output`.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.
        """
        check_dropped(tag)
        changed: Any = self._but(_dropped=tag)
        grouped: PTransform[Any, tuple[PCollection, PCollection[Dropped]]] = changed
        return grouped

    def expand(self, pcoll: Any, /) -> Any:
        """Mark each value with its input, group all pairs, and separate the values by input."""
        named = isinstance(pcoll, dict)
        members: dict[Hashable, PCollection] = dict(pcoll) if named else dict(enumerate(pcoll))
        collections = tuple(members.values())
        if collections:
            common_strategy(collections, collections[0].pipeline.scope)  # named here by the labels of the inputs
            typehints.check_common_keys([member.element_type for member in collections], collections[0].pipeline.scope)
        marked = []
        for index, ((name, member), label) in enumerate(zip(members.items(), _labels(members), strict=True)):
            typehints.check_pairs(member.element_type, f"{member.pipeline.scope}/{name}")
            key, _ = typehints.pair_types(member.element_type)
            marking = Map(_Mark(index)).with_output_types(typehints.tuple_of(key, tuple[int, Any]))
            marked.append(member | label >> marking)
        sort_out = _SortOut(tuple(members) if named else None, len(members))
        grouping = GroupByKey()._of_inputs(map(repr, members))  # noqa: SLF001 - for this transform
        together = tuple(marked) | Flatten()
        if self._dropped is None:
            return together | grouping | Map(sort_out)
        grouped, records = together | grouping.with_dropped_output(self._dropped)
        return grouped | Map(sort_out), restored(records, _OfInput(tuple(members)))


def _labels(names: Iterable[Hashable]) -> list[str]:
    """Return a label for each input: its name, unless another input or transform of the grouping has that label."""
    labels: list[str] = []
    taken = {"", *_LABELS}
    for index, name in enumerate(names):
        label = str(name).strip() and str(name)
        while label in taken:
            label = f"{label} (input {index})".strip()
        taken.add(label)
        labels.append(label)
    return labels


class _Mark:
    """Turns `(key, value)` into `(key, (index, value))`."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.__name__ = f"input {index}"

    def __call__(self, pair: tuple[Any, Any]) -> tuple[Any, tuple[int, Any]]:
        key, value = as_pair(pair, "CoGroupByKey")
        return key, (self.index, value)


@attrs.frozen(eq=False)
class _OfInput:
    """Restores a dropped element, and names its input."""

    names: tuple[Hashable, ...]

    def __call__(self, record: Dropped) -> Dropped:
        key, (index, value) = record.element
        return attrs.evolve(record, element=(key, value), input=self.names[index])


class _SortOut:
    """Puts marked values into one list for each input."""

    __name__ = "by input"
    keeps_keys = True

    def __init__(self, names: tuple[Hashable, ...] | None, inputs: int) -> None:
        self.names = names
        self.inputs = inputs

    def __call__(self, grouped: tuple[Any, list[tuple[int, Any]]]) -> Any:
        key, marked = grouped
        lists: list[list[Any]] = [[] for _ in range(self.inputs)]
        for index, value in marked:
            lists[index].append(value)
        return key, (tuple(lists) if self.names is None else dict(zip(self.names, lists, strict=True)))
