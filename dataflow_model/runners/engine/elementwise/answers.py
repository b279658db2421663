"""Calls that were begun ahead, and their answers in the order of the elements."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from dataflow_model.metrics.collecting import add

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dataflow_model.plan.functions.concurrent_calls import Call

Begun: TypeAlias = "Call | BaseException"
"""A call that was begun; an error if its arguments could not be had."""
_T = TypeVar("_T")
_LEAST_AHEAD: Final = 1_000
"""How many calls are begun ahead at least, so that a slow one does not keep the others from beginning."""


def read_ahead(calls: Iterator[_T], concurrency: int) -> Iterator[_T]:
    """Yield the same as an iterator that begins calls, some of which have begun before the first is yielded.

    Example:
        >>> next(read_ahead(map(print, ["first", "second"]), 1))
        first
        second
    """
    ahead = deque(itertools.islice(calls, max(_LEAST_AHEAD, 2 * concurrency)))
    while ahead:
        yield ahead.popleft()
        ahead.extend(itertools.islice(calls, 1))


def answer(begun: Begun) -> Any:
    """Wait for the answer to a call, and count what it has counted; raise what has failed."""
    if isinstance(begun, BaseException):
        raise begun
    try:
        return begun.result()
    finally:
        add(begun.tally)
