"""What `per_key()` and `globally()` return, for type checkers alone: nothing imports this module at run time.

`Sum` gives values of the type that it takes, and `ToList` lists of them. A `CombineFn[InputT, AccumT, OutputT]` cannot
say that, since its types are fixed before the combiner is applied; the annotations of `expand` can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, overload

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.plan.functions.typevars import AccumT, ElementT, InputT, KeyT, OutputT
    from dataflow_model.transforms.grouping.by_key import CombineGlobally, CombinePerKey
    from dataflow_model.transforms.grouping.collectors import ToList, Top, ToSet
    from dataflow_model.transforms.grouping.combiners import Max, Min, Sum
    from dataflow_model.transforms.grouping.sampling import Sample
    from dataflow_model.transforms.pipelines.pcollection import PCollection


class PerKey(Protocol):
    """`per_key` of a combiner."""

    @overload
    def __get__(self, instance: Any, owner: type[Sum | Min | Max]) -> Callable[..., SamePerKey]: ...

    @overload
    def __get__(self, instance: Any, owner: type[ToList | Top | Sample]) -> Callable[..., ListPerKey]: ...

    @overload
    def __get__(self, instance: Any, owner: type[ToSet]) -> Callable[..., SetPerKey]: ...

    @overload
    def __get__(
        self, instance: Any, owner: type[CombineFn[InputT, AccumT, OutputT]]
    ) -> Callable[..., CombinePerKey[InputT, OutputT]]: ...


class Globally(Protocol):
    """`globally` of a combiner."""

    @overload
    def __get__(self, instance: Any, owner: type[Sum | Min | Max]) -> Callable[..., SameGlobally]: ...

    @overload
    def __get__(self, instance: Any, owner: type[ToList | Top | Sample]) -> Callable[..., ListGlobally]: ...

    @overload
    def __get__(self, instance: Any, owner: type[ToSet]) -> Callable[..., SetGlobally]: ...

    @overload
    def __get__(
        self, instance: Any, owner: type[CombineFn[InputT, AccumT, OutputT]]
    ) -> Callable[..., CombineGlobally[InputT, OutputT]]: ...


if TYPE_CHECKING:

    class SamePerKey(CombinePerKey[Any, Any]):
        def expand(self, pcoll: PCollection[tuple[KeyT, ElementT]], /) -> PCollection[tuple[KeyT, ElementT]]: ...

    class SameGlobally(CombineGlobally[Any, Any]):
        def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[ElementT]: ...

    class ListPerKey(CombinePerKey[Any, Any]):
        def expand(self, pcoll: PCollection[tuple[KeyT, ElementT]], /) -> PCollection[tuple[KeyT, list[ElementT]]]: ...

    class ListGlobally(CombineGlobally[Any, Any]):
        def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[list[ElementT]]: ...

    class SetPerKey(CombinePerKey[Any, Any]):
        def expand(self, pcoll: PCollection[tuple[KeyT, ElementT]], /) -> PCollection[tuple[KeyT, set[ElementT]]]: ...

    class SetGlobally(CombineGlobally[Any, Any]):
        def expand(self, pcoll: PCollection[ElementT], /) -> PCollection[set[ElementT]]: ...
