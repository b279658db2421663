"""Equality of two results: exact, except for floats (to nine digits) and lists (in any order)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RELATIVE", "difference", "identical", "same", "sorted_by_content"]

RELATIVE: Final = 1e-9
"""The relative tolerance for floats, since adding in another order changes the last bits."""


def same(left: Any, right: Any, *, scale: float = 0) -> bool:
    """Return whether two results are equal, including nested values.

    Floats are compared with a relative tolerance of 1e-9, and NaN equals NaN. Lists are compared in any order, since
    grouping promises none; tuples keep their order. Everything else is compared with `==`.

    Args:
        left: a result.
        right: the other result.
        scale: the magnitude of the floats in the inputs; if they cancel out, the result is only exact relative to it.

    Example:
        >>> same(0.1 + 0.2, 0.3), same([1, 2], [2, 1]), same((1, 2), (2, 1)), same(1, True)
        (True, True, False, True)
    """
    match left, right:
        case (float(), int() | float()) | (int(), float()):
            return bool(left == right) or _are_close(float(left), float(right), scale)
        case list(), list():
            return len(left) == len(right) and not any(difference(left, right, scale=scale))
        case tuple(), tuple():
            return len(left) == len(right) and all(same(*pair, scale=scale) for pair in zip(left, right, strict=True))
        case dict(), dict():
            return left.keys() == right.keys() and all(
                same(value, right[key], scale=scale) for key, value in left.items()
            )
    if type(left) is type(right) and attrs.has(type(left)):
        fields = [field.name for field in attrs.fields(type(left)) if field.eq]
        return all(same(getattr(left, name), getattr(right, name), scale=scale) for name in fields)
    return bool(left == right)


def identical(left: Any, right: Any) -> bool:
    """Return whether two results are equal to the last bit and in the same order; NaN equals NaN.

    Example:
        >>> identical(("a", float("nan")), ("a", float("nan"))), identical([1, 2], [2, 1])
        (True, False)
    """
    match left, right:
        case float(), float():
            return left == right or (math.isnan(left) and math.isnan(right))
        case (list(), list()) | (tuple(), tuple()):
            return len(left) == len(right) and all(map(identical, left, right))
        case dict(), dict():
            return list(left) == list(right) and all(identical(value, right[key]) for key, value in left.items())
    return bool(left == right)


def difference(left: Iterable[Any], right: Iterable[Any], *, scale: float = 0) -> tuple[list[Any], list[Any]]:
    """Return the values that only `left` has and those that only `right` has, with multiplicity.

    Example:
        >>> difference([1, 2, 2], [2, 3])
        ([1, 2], [3])
    """
    only_right = sorted_by_content(right)
    only_left: list[Any] = []
    for value in sorted_by_content(left):
        place = next((place for place, other in enumerate(only_right) if same(value, other, scale=scale)), None)
        if place is None:
            only_left.append(value)
        else:
            del only_right[place]
    return only_left, only_right


def sorted_by_content(values: Iterable[Any]) -> list[Any]:
    """Return values in an order that depends only on their content."""
    return sorted(values, key=repr)


def _are_close(left: float, right: float, scale: float) -> bool:
    return (math.isnan(left) and math.isnan(right)) or math.isclose(
        left, right, rel_tol=RELATIVE, abs_tol=RELATIVE * scale
    )
