"""What a stateful DoFn wants of its input: pairs, in windows that do not merge any more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import InvalidArgument, InvalidType, explain
from dataflow_model.transforms import typehints

if TYPE_CHECKING:
    from dataflow_model.transforms.pcollection import PCollection

__all__ = ["check_stateful_input"]


def check_stateful_input(pcoll: PCollection, label: str) -> None:
    """Raise if a collection is no input for a stateful DoFn.

    Raises:
        InvalidType: for elements that are known not to be pairs.
        InvalidArgument: for windows that may still merge.

    Example:
        >>> import dataflow_model as dm
        >>> class Number(dm.DoFn):
        ...     count = dm.ValueStateSpec(default=0)
        >>> dm.Pipeline() | dm.Create([1, 2]) | dm.ParDo(Number())
        Traceback (most recent call last):
        dataflow_model.errors.InvalidType: 'ParDo' keeps state by key, so it takes pairs (key, value), got elements of
            type int
        Hint: put dm.WithKeys(…) before it
    """
    if not typehints.may_be_pair(pcoll.element_type):
        raise InvalidType(
            explain(
                f"{label!r} keeps state by key, so it takes pairs (key, value), got elements of type "
                f"{typehints.type_name(pcoll.element_type)}",
                hint="put dm.WithKeys(…) before it",
            )
        )
    if pcoll.strategy.merges:
        raise InvalidArgument(
            explain(
                f"{label!r} keeps state by window, and windows under {pcoll.strategy.window_fn!r} may still merge",
                hint="group before it: dm.GroupByKey() settles the windows; or use windows that do not merge",
            )
        )
