"""Deduplicate: drop records that are delivered more than once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, overload

import attrs

from dataflow_model.arguments import calls_explained, positive_duration
from dataflow_model.errors import InvalidType, refuse_async
from dataflow_model.plan.functions.dofn import CallableDoFn
from dataflow_model.plan.functions.parameters import metadata_of
from dataflow_model.plan.functions.typevars import ElementT_contra
from dataflow_model.plan.logical import nodes
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.elementwise.pardo import ParDo
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import code_name
from dataflow_model.transforms.pipelines.output_tags import check_dropped, with_further
from dataflow_model.transforms.pipelines.ptransform import KeepsElements

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.time import DurationLike
    from dataflow_model.transforms.elementwise.dropped import KeptAndDropped
    from dataflow_model.transforms.elementwise.functions import Function, LongerFunction
    from dataflow_model.transforms.pipelines.pcollection import PCollection


@calls_explained(
    {"horizon": "say how far behind the watermark a duplicate may arrive: dm.Deduplicate(id_fn, horizon='10 minutes')"}
)
class Deduplicate(KeepsElements[ElementT_contra]):
    """Keep the first element with each id, in the order of events, and drop the rest.

    An element keeps its event time, window and pane. `id_fn` returns the id of an element. Without `id_fn`, the source
    assigns the ids: file and row, or the `id_columns` of a DataFrame (topic, partition, offset). An id is stored until
    the watermark has passed its element's event time by the horizon, and for up to a sixteenth of the horizon longer.
    If an element is so late that its id may already have been removed, it is dropped and counted, so that no id is
    emitted twice. Ids are compared across windows: apply the transform before `Window.into`, or include the window in
    the id. In a bounded job, the elements with one id are processed in event-time order, and the watermark follows
    them.

    Args:
        id_fn: a function that returns an element's id, which can be any value that can be a key. It may have metadata
            parameters, like a `DoFn`.
        horizon: how far behind the watermark a duplicate may arrive; positive. It should be at least the allowed
            lateness of the following groupings; otherwise elements are dropped here that those groupings would accept.

    Raises:
        InvalidType: for an `id_fn` that is not callable.
        InvalidArgument: for a horizon that is not positive, or an `id_fn` with a parameter that nothing fills.

    Source: the MillWheel paper, section 6.1.1; Beam's `Deduplicate`, which uses processing time and works per window.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     orders = p | dm.Create([("o1", 5), ("o2", 7), ("o1", 5)])
        ...     _ = orders | dm.Deduplicate(lambda order: order[0], horizon="1 hour") | dm.io.Collect()
        >>> [record.value for record in p.result.collected("Collect")]
        [('o1', 5), ('o2', 7)]
    """

    input_kind = "collection"

    @overload
    def __init__(self: Deduplicate[Any], id_fn: None = None, *, horizon: DurationLike) -> None: ...

    @overload
    def __init__(self, id_fn: Function[ElementT_contra, Any], *, horizon: DurationLike) -> None: ...

    @overload
    def __init__(self, id_fn: LongerFunction[ElementT_contra, Any], *, horizon: DurationLike) -> None: ...

    def __init__(self, id_fn: Callable[..., Any] | None = None, *, horizon: DurationLike) -> None:
        if id_fn is not None and not callable(id_fn):
            raise InvalidType(
                f"`id_fn` must be a function of the element, got {id_fn!r}",
                hint="use dm.Deduplicate(lambda order: order.number, horizon='1 hour')",
            )
        self._id_fn: Callable[..., Any] = _made_at_the_source if id_fn is None else id_fn
        refuse_async(self._id_fn, "Deduplicate")
        metadata_of(self._id_fn)  # refuses parameters that nothing fills
        self._horizon = positive_duration("horizon", horizon, "pass horizon='10 minutes'")

    _dropped: str | None = None

    @calls_explained(
        otherwise="it takes only the tag of the dropped elements, and returns a pair: what is kept, and what is dropped"
    )
    def with_dropped_output(self, tag: str = "dropped") -> KeptAndDropped:
        """Send elements that are so late that their ids cannot be checked to a separate output, as `Dropped` records.

        Applying the transform then returns a pair: the elements that are kept, and the records, one for each element
        that is counted as dropped, with all its windows. Duplicates are not among them. See
        `CombinePerKey.with_dropped_output` for the windows and event times of the records.

        Args:
            tag: the tag of the output.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.
        """
        check_dropped(tag)
        changed: Any = self._but(_dropped=tag)
        result: KeptAndDropped = changed
        return result

    def label_by_code(self) -> str:
        """Return the name with the function."""
        return f"{self.default_label()}({code_name(self._id_fn)})"

    def expand(self, pcoll: PCollection[Never], /) -> PCollection:
        """Pair each element with its id, and add the node."""
        pipeline = pcoll.pipeline
        typehints.check_first_parameter(self._id_fn, pcoll.element_type, pipeline.scope)
        metadata = metadata_of(self._id_fn)
        ids = ParDo(_IdFn(self._id_fn)) if metadata else Map(_ById(self._id_fn))  # a plain Map is quicker
        pairs: PCollection = pcoll | "ids" >> ids
        node = nodes.Deduplicate(label=pipeline.scope, input=pairs.ref, horizon=self._horizon, dropped=self._dropped)
        outputs = pipeline.add(node, strategy=pcoll.strategy, element_types={nodes.MAIN: pcoll.element_type})
        result: PCollection = with_further(outputs[nodes.MAIN], [outputs[tag] for tag in filter(None, [self._dropped])])
        return result


@attrs.frozen(eq=False)
class _ById:
    """Pairs an element with the user's id."""

    fn: Callable[[Any], Any]

    def __call__(self, element: Any) -> tuple[Any, Any]:
        return self.fn(element), element


class _IdFn(CallableDoFn):
    """Pairs an element with the user's id, if the function requests metadata too."""

    def process(self, element: Any, *args: Any, **kwargs: Any) -> Iterable[Any]:
        yield self.fn(element, *args, **kwargs), element


def _made_at_the_source(element: Any, record_id: tuple[Any, ...]) -> tuple[Any, ...]:
    del element
    return record_id
