"""When two answers are the same: exactly, floats to nine digits, lists in any order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["RELATIVE", "difference", "identical", "same", "sorted_by_content"]

RELATIVE: Final = 1e-9
"""How far two floats may lie apart, relative to the greater: adding in another order changes the last bits."""


def same(one: Any, other: Any, *, scale: float = 0) -> bool:
    """Tell whether two answers are the same, deep inside too.

    Floats compare to 1e-9 relative, NaN equals NaN, and a list compares without order, since grouping promises none;
    a tuple keeps its order. Everything else compares by `==`.

    Args:
        one: an answer.
        other: another.
        scale: how large the floats are that have gone into it: where they cancel out, what is left is no more exact.

    Example:
        >>> same(0.1 + 0.2, 0.3), same([1, 2], [2, 1]), same((1, 2), (2, 1)), same(1, True)
        (True, True, False, True)
    """
    match one, other:
        case (float(), int() | float()) | (int(), float()):
            return bool(one == other) or _are_close(float(one), float(other), scale)
        case list(), list():
            return len(one) == len(other) and not any(difference(one, other, scale=scale))
        case tuple(), tuple():
            return len(one) == len(other) and all(same(*pair, scale=scale) for pair in zip(one, other, strict=True))
        case dict(), dict():
            return one.keys() == other.keys() and all(
                same(value, other[key], scale=scale) for key, value in one.items()
            )
    if type(one) is type(other) and attrs.has(type(one)):
        fields = [field.name for field in attrs.fields(type(one)) if field.eq]
        return all(same(getattr(one, name), getattr(other, name), scale=scale) for name in fields)
    return bool(one == other)


def identical(one: Any, other: Any) -> bool:
    """Tell whether two answers are the same to the last bit and in order; NaN is NaN.

    Example:
        >>> identical(("a", float("nan")), ("a", float("nan"))), identical([1, 2], [2, 1])
        (True, False)
    """
    match one, other:
        case float(), float():
            return one == other or (math.isnan(one) and math.isnan(other))
        case (list(), list()) | (tuple(), tuple()):
            return len(one) == len(other) and all(map(identical, one, other))
        case dict(), dict():
            return list(one) == list(other) and all(identical(value, other[key]) for key, value in one.items())
    return bool(one == other)


def difference(some: Iterable[Any], others: Iterable[Any], *, scale: float = 0) -> tuple[list[Any], list[Any]]:
    """Return what only the first and what only the second has; each value counts as often as it is there.

    Example:
        >>> difference([1, 2, 2], [2, 3])
        ([1, 2], [3])
    """
    left = sorted_by_content(others)
    only: list[Any] = []
    for value in sorted_by_content(some):
        place = next((place for place, other in enumerate(left) if same(value, other, scale=scale)), None)
        if place is None:
            only.append(value)
        else:
            del left[place]
    return only, left


def sorted_by_content(values: Iterable[Any]) -> list[Any]:
    """Return values in an order that their content alone decides."""
    return sorted(values, key=repr)


def _are_close(one: float, other: float, scale: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or math.isclose(
        one, other, rel_tol=RELATIVE, abs_tol=RELATIVE * scale
    )
