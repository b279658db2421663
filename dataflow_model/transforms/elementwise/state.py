"""Checks of the input of a stateful DoFn: pairs, in windows that no longer merge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.transforms.pipelines import typehints

if TYPE_CHECKING:
    from dataflow_model.transforms.pipelines.pcollection import PCollection


def check_stateful_input(pcoll: PCollection, label: str) -> None:
    """Raise if a collection is no input for a stateful DoFn.

    Raises:
        InvalidType: for elements that are known not to be pairs.
        InvalidArgument: for windows that may still merge.

    Example:
        >>> import dataflow_model as dm
        >>> class Number(dm.DoFn):
        ...     count = dm.ValueStateSpec(default=0)
        ...     def process(self, pair, count): ...
        >>> dm.Pipeline() | dm.Create([1, 2]) | dm.ParDo(Number())
        Traceback (most recent call last):
        dataflow_model.errors.InvalidType: 'ParDo' keeps state by key, so its elements must be pairs (key, value),
            got elements of type int
        Hint: put dm.WithKeys(…) before it
    """
    if not typehints.may_be_pair(pcoll.element_type):
        raise InvalidType(
            f"{label!r} keeps state by key, so its elements must be pairs (key, value), got elements of type "
            f"{typehints.type_name(pcoll.element_type)}",
            hint="put dm.WithKeys(…) before it",
        )
    if pcoll.strategy.merges:
        raise InvalidArgument(
            f"{label!r} keeps state by window, but windows under {pcoll.strategy.window_fn!r} may still merge",
            hint="group first, since windows do not merge again after dm.GroupByKey(), or use windows that do not "
            "merge",
        )
