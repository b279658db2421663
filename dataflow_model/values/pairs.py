"""Pairs of a key and a value, the input of every transform that works by key."""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, TypeGuard

from dataflow_model.errors import InvalidType

if TYPE_CHECKING:
    from collections.abc import Sequence

_PAIR = 2


def is_pair(value: object) -> TypeGuard[tuple[Any, Any]]:
    """Return whether a value is a tuple of length two.

    Example:
        >>> is_pair(("UA", 5)), is_pair(["UA", 5])
        (True, False)
    """
    return isinstance(value, tuple) and len(value) == _PAIR


def as_pair(value: Any, label: str) -> tuple[Any, Any]:
    """Return an element unchanged after checking that it is a pair.

    Args:
        value: the element.
        label: the label of the transform that takes it, for the error.

    Raises:
        InvalidType: if the element is not a tuple of length two.

    Example:
        >>> as_pair(("UA", 5), "Sum.PerKey")
        ('UA', 5)
        >>> as_pair(5, "Sum.PerKey")
        Traceback (most recent call last):
            ...
        dataflow_model.errors.InvalidType: 'Sum.PerKey' takes (key, value) pairs, got 5
        Hint: add dm.WithKeys(…) before it; a function that returns one pair for each element needs dm.Map: ...
    """
    if isinstance(value, tuple) and len(value) == _PAIR:
        return value
    is_generator = isinstance(value, types.GeneratorType)
    raise InvalidType(
        f"{label!r} takes (key, value) pairs, got {value!r}",
        hint="use dm.FlatMap for a function that yields pairs: dm.Map takes the generator itself for one element"
        if is_generator
        else "add dm.WithKeys(…) before it; a function that returns one pair for each element needs dm.Map: dm.FlatMap "
        "emits the parts of the pair",
    )


def checked_pairs(elements: Sequence[Any], label: str) -> Sequence[tuple[Any, Any]]:
    """Return elements unchanged after checking that all are pairs; see `as_pair`.

    Example:
        >>> checked_pairs([("UA", 5), ("AA", 2)], "Sum.PerKey")
        [('UA', 5), ('AA', 2)]
    """
    if set(map(type, elements)) != {tuple} or set(map(len, elements)) != {_PAIR}:
        for element in elements:
            as_pair(element, label)
    return elements
