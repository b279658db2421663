"""Joins by distance in event time: partners of one key that are no further apart than a duration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.arguments import nonnegative_duration
from dataflow_model.errors import InvalidArgument
from dataflow_model.overriding import override
from dataflow_model.plan.functions.interval_joins import Distance
from dataflow_model.plan.logical import nodes
from dataflow_model.transforms.pipelines.ptransform import PTransform

if TYPE_CHECKING:
    from dataflow_model.plan.functions.interval_joins import JoinWithin
    from dataflow_model.time import DurationLike
    from dataflow_model.transforms.pipelines.pcollection import PCollection


def distance_of(within: DurationLike | None, between: tuple[DurationLike, DurationLike] | None) -> Distance | None:
    """Return the distance that the arguments of a join describe; `None` for a join by window.

    Example:
        >>> distance_of("5 minutes", None), distance_of(None, ("0 s", "15 minutes"))
        (within='5 minutes', between=('0 seconds', '15 minutes'))
    """
    if within is not None and between is not None:
        raise InvalidArgument(
            f"a join takes either `within` or `between`, got within={within!r} and between={between!r}",
            hint="within='5 minutes' is the same as between=('-5 minutes', '5 minutes')",
        )
    if within is not None:
        length = int(nonnegative_duration("within", within, "use dm.Join(within='5 minutes')"))
        return Distance(-length, length)
    return None if between is None else Distance.between(between)


class Partners(PTransform):
    """Joins the pairs of both sides, each marked with its side.

    Args:
        fn: how they are joined.
        output: the type of the output.
        dropped: the tag of the output of elements that are dropped; `None` if nothing is done with them.
    """

    def __init__(self, fn: JoinWithin, output: Any, dropped: str | None) -> None:
        self._fn = fn
        self._output = output
        self._dropped = dropped

    @override
    def expand(self, pcoll: PCollection, /) -> Any:
        """Add the node; with a tag, return a pair: the output, and the dropped elements."""
        node = nodes.ParDo(label=pcoll.pipeline.scope, input=pcoll.ref, fn=self._fn, dropped=self._dropped)
        types = {nodes.MAIN: self._output}
        outputs = pcoll.pipeline.add(node, strategy=pcoll.strategy, element_types=types)
        joined = outputs[nodes.MAIN]
        return joined if self._dropped is None else (joined, outputs[self._dropped])
