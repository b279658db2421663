"""WithTimestamps: event times from the elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, cast

from dataflow_model.errors import InvalidType
from dataflow_model.plan.functions.dofn import TimestampedValue, TimestampFn, element_time
from dataflow_model.plan.functions.parameters import check_takes_element
from dataflow_model.plan.functions.typevars import ElementT_contra
from dataflow_model.plan.logical import nodes
from dataflow_model.transforms.elementwise.pardo import ParDo, checked_horizon
from dataflow_model.transforms.pipelines import typehints
from dataflow_model.transforms.pipelines.code_names import CallsUser, code_name
from dataflow_model.transforms.pipelines.output_tags import check_dead_letters
from dataflow_model.transforms.pipelines.ptransform import KeepsElements, PTransform

if TYPE_CHECKING:
    from dataflow_model.time import DurationLike, EventTime, InstantLike
    from dataflow_model.transforms.elementwise.dead_letters import WithDeadLetters
    from dataflow_model.transforms.elementwise.functions import Function
    from dataflow_model.transforms.pipelines.pcollection import PCollection


class WithTimestamps(KeepsElements[ElementT_contra]):
    """Set the event time of each element to what a function returns for it.

    An event time can always be moved forward. Moving it backward could make an element late, so the maximum must be
    declared; the output's watermark is then held back by it.

    Args:
        fn: from the element to its event time: an `EventTime`, an aware `datetime`, seconds since the epoch, or text
            with a zone.
        late_data_horizon: how far before its old event time an element may move; `None` means not at all.

    Raises:
        InvalidArgument: for a negative horizon.

    Source: the papers' BOUNDED_PAST; Beam's `TimestampedValue` and `withAllowedTimestampSkew`.

    Example:
        >>> import dataflow_model as dm
        >>> p = dm.Pipeline()
        >>> events = p | dm.Create([("UA", 60)]) | dm.WithTimestamps(lambda e: e[1], late_data_horizon="1 hour")
        >>> node = p.plan()["WithTimestamps"]
        >>> node.fn(("UA", 60)), node.late_data_horizon
        (EventTime(1970-01-01T00:01:00Z), Duration(3600s))
    """

    input_kind = "collection"
    _dead_letters: str | None = None

    def __init__(
        self, fn: Function[ElementT_contra, InstantLike], late_data_horizon: DurationLike | None = None
    ) -> None:
        if not callable(fn):
            raise InvalidType(
                f"WithTimestamps takes a function, got {fn!r}", hint="use WithTimestamps(lambda e: e.time)"
            )
        check_takes_element(fn, "WithTimestamps")
        self.fn = fn
        self.late_data_horizon = None if late_data_horizon is None else checked_horizon(late_data_horizon)

    def label_by_code(self) -> str:
        """Return the name with the function."""
        return f"{self.default_label()}({code_name(self.fn)})"

    def with_exception_handling(
        self, dead_letter_tag: str = "dead_letters"
    ) -> PTransform[PCollection, WithDeadLetters[PCollection]]:
        """Send elements for which the function raises an error, or returns no instant, to a separate output.

        Applying the transform then returns a pair: the elements, and the `DeadLetter`s. With sources that are read with
        `event_time=None`, this handles rows whose times cannot be read by code of your own.

        Args:
            dead_letter_tag: the dead letters' tag, as it appears in metrics.

        Raises:
            InvalidArgument: for the tag of the main output.
            InvalidType: for a tag that is not text.

        Example:
            >>> import dataflow_model as dm
            >>> p = dm.Pipeline()
            >>> stamped = dm.WithTimestamps(lambda row: row["at"]).with_exception_handling()
            >>> rows, failed = p | dm.Create([{"at": "2013-01-01T00:00Z"}, {"at": "never"}]) | stamped
            >>> _ = failed | dm.Map(lambda letter: letter.element) | dm.io.Collect()
            >>> result = p.run()
            >>> _ = result.wait_until_finish()
            >>> [record.value for record in result.collected("Collect")]
            [{'at': 'never'}]
        """
        check_dead_letters(dead_letter_tag)
        changed: Any = self._but(_dead_letters=dead_letter_tag)
        return cast("PTransform[PCollection, WithDeadLetters[PCollection]]", changed)

    def expand(self, pcoll: PCollection[Never], /) -> Any:
        """Add the node."""
        pipeline = pcoll.pipeline
        typehints.check_first_parameter(self.fn, pcoll.element_type, pipeline.scope)
        if self._dead_letters is not None:
            stamping: ParDo[Any, Any] = ParDo(TimestampFn(_Stamped(self.fn)))
            if self.late_data_horizon is not None:
                stamping = stamping.late_data_horizon(self.late_data_horizon)
            declared: ParDo[Any, Any] = stamping._but(_output_type=pcoll.element_type)  # noqa: SLF001
            return declared.with_exception_handling(self._dead_letters).expand(pcoll)
        node = nodes.AssignTimestamps(
            label=pipeline.scope, input=pcoll.ref, fn=_AsEventTime(self.fn), late_data_horizon=self.late_data_horizon
        )
        return pipeline.add_main(node, strategy=pcoll.strategy, element_type=pcoll.element_type)


class _AsEventTime(CallsUser):
    """Calls a user's function and converts the result to an `EventTime`."""

    def __call__(self, element: Any) -> EventTime:
        return element_time(self.func(element))


class _Stamped(_AsEventTime):
    """Returns an element with the event time that a user's function gives it."""

    def __call__(self, element: Any) -> Any:
        return TimestampedValue(element, element_time(self.func(element)))
