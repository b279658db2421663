"""The combiners that keep elements: Top, ToList, ToSet, ToDict, and Distinct."""

from __future__ import annotations

import heapq
import operator
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.arguments import EXTRA, calls_explained
from dataflow_model.errors import InvalidArgument, InvalidType, shown
from dataflow_model.plan.functions.combine import ListFn
from dataflow_model.plan.functions.dofn import FlatMapFn, UnlessRetractedFn
from dataflow_model.plan.logical.retracted import retracted_collections
from dataflow_model.plan.names.spellings import with_spellings
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.grouping.combiner_forms import Combiner, GlobalOrPerKey, takes_an_element
from dataflow_model.transforms.grouping.combiners import Count
from dataflow_model.transforms.grouping.element_bytes import later_of
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.values import as_pair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dataflow_model.plan.functions.typevars import ElementT
    from dataflow_model.transforms.pipelines.pcollection import PCollection
    from dataflow_model.values import PaneInfo


def _at_least_one(_top: object, _attribute: object, value: Any) -> None:
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidType(f"`n` must be an int, got {value!r}", hint="use Top(3) to keep the three greatest")
    if value < 1:
        raise InvalidArgument(f"`n` must be at least 1, got {value!r}", hint="use Top(1) to keep the greatest")


@with_spellings
@calls_explained({"compare": "use key=…, a function of an element whose result is compared"})
@attrs.frozen
class Top(Combiner[Any, list[Any], list[Any]]):
    """Keep the n greatest elements, in a list in descending order.

    Elements that compare equal stay in the order of arrival. NaN comes after all numbers, so it is kept only if
    there are fewer than n of them.

    Args:
        n: the number of elements, at least 1.
        key: a function that returns what to compare, as for `sorted`.
        reverse: keep the n smallest elements instead, in ascending order.

    Raises:
        InvalidType: if `n` is not an int.
        InvalidArgument: if `n` is less than 1.

    Source: Beam's `combiners.Top`.

    Example:
        >>> top = Top(2)
        >>> top.extract_output([3, 1, 2])
        [3, 2]
        >>> Top(1, key=len, reverse=True).extract_output(["bb", "a"])
        ['a']
    """

    n: int = attrs.field(validator=_at_least_one)
    key: Callable[[Any], Any] | None = attrs.field(default=None, validator=takes_an_element)
    reverse: bool = False

    def named_parts(self) -> Sequence[tuple[str, str]]:
        """Return the arguments that decide which elements the accumulator keeps."""
        return [("n", str(self.n)), ("reverse", str(self.reverse))]

    def create_accumulator(self) -> list[Any]:
        """Return an empty list."""
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        """Append the element; the list is only cut to the best when it is long, so that few elements cause a sort."""
        accumulator.append(element)
        return accumulator if len(accumulator) < 4 * self.n else self._best(accumulator)

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        """Keep the best of all."""
        return self._best([element for accumulator in accumulators for element in accumulator])

    def extract_output(self, accumulator: list[Any]) -> list[Any]:
        """Return the best, in order."""
        return self._best(accumulator)

    def output_type(self, value_type: Any) -> Any:
        """Return a list of the inputs' type."""
        return list[value_type]

    def _best(self, elements: list[Any]) -> list[Any]:
        choose = heapq.nsmallest if self.reverse else heapq.nlargest
        ranks = elements if self.key is None else [self.key(element) for element in elements]
        try:
            if any(map(operator.ne, ranks, ranks)):  # only NaN is not itself
                indices = choose(self.n, range(len(ranks)), list(map(self._after_numbers, ranks)).__getitem__)
            elif ranks is elements:
                return choose(self.n, elements)
            else:
                indices = choose(self.n, range(len(ranks)), ranks.__getitem__)
        except TypeError as error:
            raise _not_comparable(elements, ranks, error) from error
        return [elements[index] for index in indices]

    def _after_numbers(self, rank: Any) -> tuple[bool, Any]:
        """Return a sort key that puts ranks that are NaN after all others."""
        return (not self.reverse, rank) if rank == rank else (self.reverse, 0)  # noqa: PLR0124


def _not_comparable(elements: list[Any], ranks: list[Any], error: TypeError) -> InvalidType:
    """Return the error for elements that cannot be compared; it names the first one of another type."""
    kinds = [type(rank) for rank in ranks]
    other = next((index for index, kind in enumerate(kinds) if kind is not kinds[0]), len(kinds) - 1)
    by_key = "" if ranks is elements else f", whose keys are {shown(ranks[0])} and {shown(ranks[other])}"
    hint = "pass a key to compare by, such as dm.Top(3, key=str), or convert the elements to one type first"
    if None in ranks:
        hint = "leave such elements out before with dm.Filter(…), or let the key order None: "
        hint += "key=lambda element: (element.delay is not None, element.delay)"
    return InvalidType(
        f"Top compares elements, and cannot compare {shown(elements[0])} with {shown(elements[other])}{by_key}: "
        f"{error}",
        hint=hint,
    )


@attrs.frozen
class ToList(ListFn, Combiner[Any, list[Any], list[Any]]):
    """Keep all elements in a list, in the order of arrival.

    If elements may be retracted, equal ones are next to each other.

    Source: Beam's `combiners.ToList`.

    Example:
        >>> ToList().extract_output(ToList().merge_accumulators([[1], [2]]))
        [1, 2]
    """

    def output_type(self, value_type: Any) -> Any:
        """Return a list of the inputs' type."""
        return list[value_type]


@attrs.frozen
class ToSet(Combiner[Any, set[Any], set[Any]]):
    """Keep the distinct elements, which must be hashable, in a set.

    Elements are compared by Python's equality: `1`, `1.0` and `True` are one element.

    Source: Beam's `combiners.ToSet`.

    Example:
        >>> ToSet().merge_accumulators([{1}, {1, 2}])
        {1, 2}
    """

    def create_accumulator(self) -> set[Any]:
        """Return an empty set."""
        return set()

    def add_input(self, accumulator: set[Any], element: Any) -> set[Any]:
        """Add."""
        accumulator.add(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[set[Any]]) -> set[Any]:
        """Unite."""
        return set().union(*accumulators)

    def extract_output(self, accumulator: set[Any]) -> set[Any]:
        """Return a copy, so that a pane does not change after it is emitted."""
        return set(accumulator)

    def output_type(self, value_type: Any) -> Any:
        """Return a set of the inputs' type."""
        return set[value_type]


@attrs.frozen
class ToDict(Combiner[Any, dict[Any, Any], dict[Any, Any]]):
    """Collect pairs in a dict; their keys must be hashable.

    If a key has several values, one of them is kept. It is the same one for every order of arrival, as long as the
    values can be encoded like keys. Keys are compared by Python's equality, as in `ToSet`.

    Source: Beam's `combiners.ToDict`.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("UA", "United"), ("AA", "American")]) | dm.ToDict.globally() | dm.io.Collect()
        >>> p.result.collected("Collect")[0].value
        {'UA': 'United', 'AA': 'American'}
    """

    def create_accumulator(self) -> dict[Any, Any]:
        """Return an empty dict."""
        return {}

    def add_input(self, accumulator: dict[Any, Any], element: Any) -> dict[Any, Any]:
        """Add the pair."""
        key, value = as_pair(element, "ToDict")
        accumulator[key] = later_of(accumulator[key], value) if key in accumulator else value
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[dict[Any, Any]]) -> dict[Any, Any]:
        """Put the pairs together."""
        merged: dict[Any, Any] = {}
        for accumulator in accumulators:
            for pair in accumulator.items():
                merged = self.add_input(merged, pair)
        return merged

    def extract_output(self, accumulator: dict[Any, Any]) -> dict[Any, Any]:
        """Return a copy, so that a pane does not grow after it was emitted."""
        return dict(accumulator)

    def output_type(self, value_type: Any) -> Any:
        """Return a dict of the pairs' types."""
        key, value = typehints.pair_types(value_type)
        return dict[key, value]  # type: ignore[valid-type] # built at run time


@with_spellings
@calls_explained(
    {
        EXTRA: "it compares whole elements: use dm.Deduplicate(id_fn, horizon='1 hour') for one of each id, or "
        "dm.Sample.per_key(1) for one of each key"
    }
)
class Distinct(GlobalOrPerKey):
    """Keep each distinct element once per window: in the first pane that contains it, whatever the trigger.

    If values may be retracted, by an earlier grouping or by its own strategy, an element is emitted with every pane in
    which it occurs. With a retracting strategy each emission retracts the one before it, so that one is current, or
    none once the element no longer occurs. Elements are compared like keys, by value and type, and must be valid keys.

    Source: Beam's `Distinct`, which repeats an element with every pane.

    Example:
        >>> import dataflow_model as dm
        >>> dm.Pipeline() | dm.Create([1, 2, 1]) | dm.Distinct()
        PCollection('Distinct/FlatMap', element_type=int)
    """

    def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[ElementT]:
        """Count per element, and keep the first panes' keys, or those of all panes that count any."""
        if self._pairs:
            typehints.check_pairs(pcoll.element_type, pcoll.pipeline.scope)
        taken_back = pcoll.strategy.retracting or pcoll.ref in retracted_collections(pcoll.pipeline.plan())
        chosen = FlatMapFn(_if_there) if taken_back else UnlessRetractedFn(_first_time, _if_there)
        return pcoll | Count.per_element() | "FlatMap" >> ParDo(chosen).with_output_types(pcoll.element_type)


def _first_time(counted: tuple[Any, int], pane: PaneInfo) -> Iterator[Any]:
    # A later pane of the window, even an empty one, has no element that earlier panes did not have.
    if pane.is_first:
        yield counted[0]


def _if_there(counted: tuple[Any, int]) -> Iterator[Any]:
    # A retraction has the number of the pane that it retracts, so only the count can decide.
    element, count = counted
    if count > 0:
        yield element
