"""The tally of the task at work: how engine and users' functions find what they count in.

A runner sets it up around the work of a task, in a context variable. What a task has counted goes the way of its
output, so an attempt that fails, or comes twice, counts as often as its output does.
"""

from __future__ import annotations

import contextlib
import heapq
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dataflow_model.metrics.tally import BUNDLE_SIZE, ELEMENTS_OUT, SLOW_KEPT, Readings, Spread, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = [
    "SlowestKeys",
    "collecting",
    "counted_rows",
    "current",
    "enter",
    "gave",
    "in_scratch",
    "timed_keys",
    "took",
    "took_several",
]

_T = TypeVar("_T")
_CURRENT: Final[ContextVar[Tally | None]] = ContextVar("dataflow_model_tally", default=None)


def current() -> Tally | None:
    """Return the tally of the task at work; `None` outside of a run, and in threads that users' functions start."""
    return _CURRENT.get()


@contextlib.contextmanager
def collecting(tally: Tally | None = None) -> Iterator[Tally]:
    """Have what is done here counted, in a new tally unless one is given."""
    tally = Tally() if tally is None else tally
    before = _CURRENT.get()
    _CURRENT.set(tally)
    try:
        yield tally
    finally:
        _CURRENT.set(before)


def counted_rows(tally: Tally, rows: Iterator[_T]) -> Iterator[_T]:
    """Yield the rows of a generator with what it does counted, and nothing that is done between two of its rows.

    Generators may take turns, so a `with collecting()` around a `yield` would count what another does.

    Example:
        >>> def rows():
        ...     for _ in range(3):
        ...         gave("Map", 1)
        ...         yield current() is not None
        >>> mine = Tally()
        >>> [(inside, current()) for inside in counted_rows(mine, rows())]
        [(True, None), (True, None), (True, None)]
        >>> mine.of_transform("Map").counters
        {'elements_out': 3}
    """
    while True:
        with collecting(tally):
            try:
                row = next(rows)
            except StopIteration:
                return
        yield row


@contextlib.contextmanager
def in_scratch() -> Iterator[Callable[[], None]]:
    """Count what is done here only if the function that is given is called: some work may have to be done again."""
    outer = _CURRENT.get()
    scratch = Tally(label="" if outer is None else outer.label)

    def keep() -> None:
        if outer is not None:
            outer.merge(scratch)

    if outer is None:
        yield keep
        return
    with collecting(scratch):
        yield keep


def enter(label: str) -> None:
    """Say which transform's functions are called next."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.label = label


def took(label: str, elements: int) -> None:
    """Count a bundle that a transform takes; its functions are called next."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.label = label
        if elements:
            tally.of_transform(label).observe(BUNDLE_SIZE, elements)


def took_several(label: str, sizes: Iterable[int]) -> None:
    """Count several bundles that a transform takes, by their sizes; those without elements are none."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.label = label
        counts = [int(size) for size in sizes if size]
        if counts:
            spread = Spread(len(counts), sum(counts), min(counts), max(counts))
            tally.of_transform(label).merge(Readings(distributions={BUNDLE_SIZE: spread}))


def gave(label: str, elements: int) -> None:
    """Count what a transform has given."""
    tally = _CURRENT.get()
    if tally is not None and elements:
        tally.of_transform(label).count(ELEMENTS_OUT, elements)


def timed_keys(label: str, element: Callable[..., None]) -> Callable[..., None]:
    """Return what takes the elements of one bundle, the key first: in one bundle of eight a function with a clock.

    In the others it is the function itself, so they pay nothing.
    """
    tally = _CURRENT.get()
    if tally is None or not tally.times_a_bundle():
        return element

    def timed(key: Any, *args: Any) -> None:
        before = time.perf_counter()
        element(key, *args)
        tally.spent(label, key, time.perf_counter() - before, 1)

    return timed


class SlowestKeys:
    """The slowest of many keys that are run one after the other; a fast one costs a comparison."""

    def __init__(self) -> None:
        self._held: list[tuple[float, int, Any, int]] = []
        self._number = 0

    def offer(self, key: Any, seconds: float, elements: int) -> None:
        """Note how long a key took, if it is among the slowest.

        Example:
            >>> slowest = SlowestKeys()
            >>> for seconds in range(100):
            ...     slowest.offer(f"key {seconds}", seconds, 1)
            >>> with collecting() as tally:
            ...     slowest.tell("Sum")
            >>> list(tally.slowest("Sum"))[:2]
            ['key 99', 'key 98']
        """
        if len(self._held) < SLOW_KEPT:
            heapq.heappush(self._held, (seconds, self._number, key, elements))
        elif seconds > self._held[0][0]:
            heapq.heapreplace(self._held, (seconds, self._number, key, elements))
        self._number += 1  # so that keys are never compared

    def tell(self, label: str) -> None:
        """Have the tally at work know them."""
        tally = _CURRENT.get()
        if tally is not None:
            for seconds, _, key, elements in self._held:
                tally.spent(label, key, seconds, elements)
