"""Call a user's function for each of many elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dataflow_model.runners.engine.functions.user_code import user_error

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def mapped(fn: Callable[[Any], Any], values: Iterable[Any], label: str) -> list[Any]:
    """Return what a function returns for each value.

    Raises:
        UserCodeError: if the function raises an exception, `StopIteration` included; it names the value.

    Example:
        >>> mapped(str.upper, ["a", "b"], "shout")
        ['A', 'B']
    """
    results: list[Any] = []
    value = None
    try:
        for value in values:
            results.append(fn(value))
    except BaseException as error:
        raise user_error(error, label, value) from error
    return results


def indices_kept(fn: Callable[[Any], Any], values: Iterable[Any], label: str) -> list[int]:
    """Return the indices of the values for which a function returns something true.

    Raises:
        UserCodeError: if the function, or the truth of what it returns, raises an exception; it names the value.

    Example:
        >>> indices_kept(str.isupper, ["a", "B", "C"], "loud")
        [1, 2]
    """
    indices: list[int] = []
    value = None
    try:
        for index, value in enumerate(values):
            if fn(value):
                indices.append(index)
    except BaseException as error:
        raise user_error(error, label, value) from error
    return indices
