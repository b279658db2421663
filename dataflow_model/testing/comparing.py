"""Equality of two results: exact, except for floats (to nine digits) and lists (in any order)."""

from __future__ import annotations

import cmath
import enum
import functools
import types
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.errors import InvalidType
from dataflow_model.values.record_keys import compared_fields, equality_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

RELATIVE: Final = 1e-9
"""The relative tolerance for floats, since adding in another order changes the last bits."""

_WITH_IDENTITY: Final = (type, enum.Enum, types.FunctionType, types.BuiltinFunctionType, functools.partial)


class Incomparable(InvalidType):
    """Raised for values whose `==` fails or does not return a truth value."""


def same(left: Any, right: Any, *, scale: float = 0) -> bool:
    """Return whether two results are equal, including nested values.

    Floats and complex numbers are compared with a relative tolerance of 1e-9, and NaN equals NaN. Lists are compared in
    any order, since grouping promises none; tuples and NumPy arrays keep their order. Dataclasses, attrs classes and
    classes without an `__eq__` are compared field by field. Everything else is compared with `==`.

    Args:
        left: a result.
        right: the other result.
        scale: the magnitude of the floats in the inputs; if they cancel out, the result is only exact relative to it.

    Raises:
        Incomparable: for values that `==` cannot compare.

    Example:
        >>> same(0.1 + 0.2, 0.3), same([1, 2], [2, 1]), same((1, 2), (2, 1)), same(1, True)
        (True, True, False, True)
        >>> same(np.array([0.1 + 0.2, 1]), np.array([0.3, 1])), same(np.array([1, 2]), np.array([2, 1]))
        (True, False)
    """
    left, right = _plain(left), _plain(right)
    match left, right:
        case (float() | complex(), int() | float() | complex()) | (int(), float() | complex()):
            return bool(left == right) or _are_close(left, right, scale)
        case list(), list():
            return len(left) == len(right) and not any(difference(left, right, scale=scale))
        case tuple(), tuple():
            return len(left) == len(right) and all(same(*pair, scale=scale) for pair in zip(left, right, strict=True))
        case dict(), dict():
            return left.keys() == right.keys() and all(
                same(value, right[key], scale=scale) for key, value in left.items()
            )
    fields = _both_contents(left, right)
    return _are_equal(left, right) if fields is None else same(*fields, scale=scale)


def identical(left: Any, right: Any) -> bool:
    """Return whether two results are equal to the last bit and in the same order; NaN equals NaN.

    Example:
        >>> identical(("a", float("nan")), ("a", float("nan"))), identical([1, 2], [2, 1])
        (True, False)
    """
    left, right = _plain(left), _plain(right)
    match left, right:
        case (float(), float()) | (complex(), complex()):
            return bool(left == right) or (cmath.isnan(left) and cmath.isnan(right))
        case (list(), list()) | (tuple(), tuple()):
            return len(left) == len(right) and all(map(identical, left, right))
        case dict(), dict():
            return list(left) == list(right) and all(identical(value, right[key]) for key, value in left.items())
    fields = _both_contents(left, right)
    return _are_equal(left, right) if fields is None else identical(*fields)


def contents(value: Any) -> Any:
    """Return what is compared instead of a value: an array's shape and elements, or an object's fields; else `None`.

    The fields are those that a generated `__eq__` compares; without any `__eq__`, those that a pickle would hold.

    Example:
        >>> contents(np.array([[1, 2]])), contents("text")
        (((1, 2), (1, 2)), None)
    """
    kind: Any = type(value)
    if isinstance(value, np.ndarray):
        return value.shape, tuple(value.ravel().tolist())
    if isinstance(value, _WITH_IDENTITY):
        return None
    getters = _getters(kind)
    if getters is not None:
        return tuple(get(value) for get in getters)
    return value.__getstate__() if equality_owner(kind) is object else None


@functools.lru_cache(maxsize=256)
def _getters(kind: Any) -> tuple[Callable[[Any], Any], ...] | None:
    return compared_fields(kind)


def _plain(value: Any) -> Any:
    """Return the Python number of a NumPy scalar, and anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def _both_contents(left: Any, right: Any) -> tuple[Any, Any] | None:
    """Return the contents of two values of one class, if both have any."""
    if left is right or type(left) is not type(right):
        return None
    fields = contents(left), contents(right)
    return None if fields[0] is None or fields[1] is None else fields


def _are_equal(left: Any, right: Any) -> bool:
    try:
        return left is right or bool(left == right)
    except Exception as error:
        raise Incomparable(
            f"values of type {type(left).__name__} and {type(right).__name__} cannot be compared: {error}",
            hint="compare values whose `==` is true or false: return such values, or pass by= to check_combine_fn",
        ) from error


def difference(left: Iterable[Any], right: Iterable[Any], *, scale: float = 0) -> tuple[list[Any], list[Any]]:
    """Return the values that only `left` has and those that only `right` has, with multiplicity.

    Example:
        >>> difference([1, 2, 2], [2, 3])
        ([1, 2], [3])
    """
    only_right = sorted_by_content(right)
    only_left: list[Any] = []
    for value in sorted_by_content(left):
        index = next((index for index, other in enumerate(only_right) if same(value, other, scale=scale)), None)
        if index is None:
            only_left.append(value)
        else:
            del only_right[index]
    return only_left, only_right


def sorted_by_content(values: Iterable[Any]) -> list[Any]:
    """Return values in an order that depends only on their content."""
    return sorted(values, key=repr)


def _are_close(left: complex, right: complex, scale: float) -> bool:
    try:
        return (cmath.isnan(left) and cmath.isnan(right)) or cmath.isclose(
            left, right, rel_tol=RELATIVE, abs_tol=RELATIVE * scale
        )
    except OverflowError:  # an int beyond the range of a float, beside a float
        return False
