"""Side inputs: a whole collection as an argument, window by window."""

from __future__ import annotations

from typing import Any, ClassVar, Generic

import attrs

from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidType
from dataflow_model.overriding import override
from dataflow_model.plan.checks.side_windows import share_windows
from dataflow_model.plan.functions.typevars import ElementT, KeyT, ValueT
from dataflow_model.plan.logical.nodes import SideInput
from dataflow_model.transforms.pipelines.pcollection import PCollection
from dataflow_model.transforms.pipelines.typehints import check_pairs


class AsView(Generic[ElementT]):
    """A collection as an argument of `Map`, `FlatMap`, `Filter` or `ParDo`; use one of the subclasses.

    An element sees the side window that contains its own window's `max_timestamp`, which is its own window where both
    collections have the same window function. It waits until that window has a pane or the side input's watermark has
    passed it. A function cannot change the lists, dicts and sets that it sees.
    """

    view: ClassVar[str]

    def __init__(self, pcoll: PCollection[ElementT]) -> None:
        if not isinstance(pcoll, PCollection):
            raise InvalidType(
                f"a side input must be a collection, got {pcoll!r}", hint="pass plain values without dm.As…"
            )
        self.pcoll = pcoll

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.pcoll!r})"

    def node_argument(self, main: PCollection) -> SideInput:
        """Return what stands for this side input in the plan, beside a main input."""
        return SideInput(self.pcoll.ref, self.view, shares_windows=share_windows(main.strategy, self.pcoll.strategy))


@calls_explained({"default_value": "use `default`"})
class AsSingleton(AsView[ElementT]):
    """The only element of a collection's window.

    Args:
        pcoll: the collection.
        default: the value for an empty window. Without it, an empty window is an error. A window with two elements is
            always an error.

    Source: Beam's `AsSingleton`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> factor = p | "factor" >> dm.Create([10])
        >>> tens = p | "numbers" >> dm.Create([1, 2]) | dm.Map(lambda x, by: x * by, by=dm.AsSingleton(factor))
        >>> p.plan()["Map"].inputs
        (Ref(label='numbers', tag='main'), Ref(label='factor', tag='main'))
    """

    view = "singleton"

    def __init__(self, pcoll: PCollection[ElementT], default: Any = ...) -> None:
        super().__init__(pcoll)
        self.default = default

    @override
    def node_argument(self, main: PCollection) -> SideInput:
        return attrs.evolve(super().node_argument(main), default=self.default)


class AsIter(AsView[ElementT]):
    """The elements of a collection's window, as a list in no particular order.

    Source: Beam's `AsIter` and `AsList`.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     stop = p | "stop" >> dm.Create(["the", "of"])
        ...     words = p | "words" >> dm.Create(["the", "origin", "of", "species"])
        ...     kept = words | dm.Filter(lambda word, stop: word not in stop, stop=dm.AsIter(stop))
        ...     _ = kept | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        ['origin', 'species']
    """

    view = "iter"


AsList = AsIter
"""The same as `AsIter`, which already passes a list."""


class AsDict(AsView[tuple[KeyT, ValueT]], Generic[KeyT, ValueT]):
    """The pairs of a collection's window, as a dict; if several pairs have the same key, the dict contains one of them.

    A side input that changes opens for all keys at once, with the first pane of any of them: an element does not wait
    until its own key is there. Where it must, use `Join.left(within=…)`, which waits per key and can correct itself.

    Raises:
        InvalidType: for a collection whose elements are known not to be pairs.

    Source: Beam's `AsDict`.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     names = p | "names" >> dm.Create([("UA", "United"), ("AA", "American")])
        ...     codes = p | "codes" >> dm.Create(["AA", "UA"])
        ...     _ = codes | dm.Map(lambda code, names: names[code], names=dm.AsDict(names)) | "out" >> dm.io.Collect()
        >>> [record.value for record in p.result.collected("out")]
        ['American', 'United']
    """

    view = "dict"

    def __init__(self, pcoll: PCollection[tuple[KeyT, ValueT]]) -> None:
        super().__init__(pcoll)
        check_pairs(pcoll.element_type, f"AsDict({pcoll.ref.label})")


def resolve(argument: Any, main: PCollection, label: str) -> Any:
    """Return an argument of a transform of the main input as the plan has it, side inputs replaced.

    Raises:
        InvalidType: for a bare collection, which must say how it is to be seen, or a view that is not an argument of
            its own.
    """
    if isinstance(argument, type) and issubclass(argument, AsView):
        raise InvalidType(
            f"{label!r} has the class {argument.__name__} as an argument, without a collection",
            hint=f"write dm.{argument.__name__}(collection)",
        )
    parts = argument.values() if isinstance(argument, dict) else argument if isinstance(argument, list | tuple) else ()
    if any(isinstance(part, AsView | PCollection) for part in parts):
        raise InvalidType(
            f"{label!r} has a side input inside the argument {argument!r}, where it would not be read",
            hint="pass each side input as an argument of its own: dm.Map(fn, dm.AsIter(one), dm.AsIter(other))",
        )
    if isinstance(argument, PCollection):
        raise InvalidType(
            f"{label!r} has the collection {argument!r} as an argument, without a view of it",
            hint="wrap it in dm.AsSingleton(…), dm.AsIter(…) or dm.AsDict(…)",
        )
    if not isinstance(argument, AsView):
        return argument
    main.pipeline.check_mine(argument.pcoll, label)
    return argument.node_argument(main)
