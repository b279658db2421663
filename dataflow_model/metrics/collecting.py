"""The tally of the current task, in which the engine and users' functions count.

A runner sets it in a context variable around the work of a task. A task's counts are committed with its output, so an
attempt that fails or is repeated counts as often as its output does.
"""

from __future__ import annotations

import contextlib
import heapq
import time
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dataflow_model.metrics.tally import BUNDLE_SIZE, ELEMENTS_OUT, SLOW_KEPT, Readings, Spread, Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

    import numpy as np
    from numpy.typing import NDArray

_T = TypeVar("_T")
_CURRENT: Final[ContextVar[Tally | None]] = ContextVar("dataflow_model_tally", default=None)


def current() -> Tally | None:
    """Return the tally of the current task; `None` outside of a run, and in threads that users' functions start."""
    return _CURRENT.get()


def leave_task() -> None:
    """Count nothing more in the current context, which is a copy of one in which a task runs."""
    _CURRENT.set(None)


@contextlib.contextmanager
def collecting(tally: Tally | None = None) -> Iterator[Tally]:
    """Count what is done in the `with` block, in the given tally or a new one."""
    tally = Tally() if tally is None else tally
    before = _CURRENT.get()
    _CURRENT.set(tally)
    try:
        yield tally
    finally:
        _CURRENT.set(before)


def counted_rows(tally: Tally, rows: Iterator[_T]) -> Iterator[_T]:
    """Yield the rows of a generator, counting what the generator does but nothing that happens between two rows.

    Generators may be interleaved, so a `with collecting()` around a `yield` would count the work of other generators.

    Example:
        >>> def rows():
        ...     for _ in range(3):
        ...         count_emitted("Map", 1)
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
    """Count what is done in the `with` block only if the yielded function is called; some work may be discarded."""
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


def apart() -> tuple[Tally, Context]:
    """Return an empty tally for work in another thread, and the context in which that is the current one.

    The task merges the tally into its own with `add` once the work is done.
    """
    outer, context = _CURRENT.get(), copy_context()
    tally = Tally(label="" if outer is None else outer.label)
    context.run(_CURRENT.set, tally)
    return tally, context


def add(tally: Tally) -> None:
    """Add what was counted apart to the tally of the current task."""
    outer = _CURRENT.get()
    if outer is not None:
        outer.merge(tally)


def count(name: str, by: int = 1) -> None:
    """Add to a counter of the current transform that is not the user's."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.of_transform(tally.label).count(name, by)


def enter(label: str) -> None:
    """Set the transform whose functions are called next."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.label = label


def count_received(label: str, elements: int) -> None:
    """Count a bundle that a transform receives; its functions are called next."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.label = label
        if elements:
            tally.of_transform(label).observe(BUNDLE_SIZE, elements)


def count_received_bundles(label: str, sizes: NDArray[np.int64]) -> None:
    """Count several bundles that a transform receives, given their sizes; empty bundles do not count."""
    tally = _CURRENT.get()
    if tally is not None:
        tally.label = label
        bundles = sizes[sizes > 0]
        if len(bundles):
            spread = Spread(len(bundles), int(bundles.sum()), int(bundles.min()), int(bundles.max()))
            tally.of_transform(label).merge(Readings(distributions={BUNDLE_SIZE: spread}))


def count_emitted(label: str, elements: int) -> None:
    """Count elements that a transform has emitted."""
    tally = _CURRENT.get()
    if tally is not None and elements:
        tally.of_transform(label).count(ELEMENTS_OUT, elements)


def count_passed(label: str, elements: int) -> None:
    """Count elements that have gone through a transform as columns, one out for each one in."""
    tally = _CURRENT.get()
    if tally is not None and elements:
        of_transform = tally.of_transform(label)
        of_transform.observe(BUNDLE_SIZE, elements)
        of_transform.count(ELEMENTS_OUT, elements)


class KeyTimes:
    """Measures how long the elements of one bundle take, by key.

    Args:
        tally: the tally in which to record it.
        label: the label of the transform.

    Example:
        >>> with collecting() as tally:
        ...     times = KeyTimes(tally, "Sum")
        ...     times.note("a", "a"); times.note("b", "b"); times.note("a", "a")
        ...     times.record()
        >>> {key: elements for key, (_, elements) in sorted(tally.slowest("Sum").items())}
        {'a': 2, 'b': 1}
    """

    def __init__(self, tally: Tally, label: str) -> None:
        self._tally, self._label = tally, label
        self._entries: dict[Hashable, list[Any]] = {}
        self._began = time.perf_counter()

    def note(self, name: Hashable, key: Any) -> None:
        """Note that an element has been processed, which began when the one before it was done.

        Args:
            name: tells the key apart from others; of one bundle, equal names are one key.
            key: the key.
        """
        ended = time.perf_counter()
        entry = self._entries.get(name)
        if entry is None:
            entry = self._entries[name] = [0.0, 0, key]
        entry[0] += ended - self._began
        entry[1] += 1
        self._began = ended

    def record(self) -> None:
        """Record the times in the tally."""
        for seconds, elements, key in self._entries.values():
            self._tally.spent(self._label, key, seconds, elements)


def key_times(label: str) -> KeyTimes | None:
    """Return what measures the keys of the next bundle; `None` for seven bundles of eight, and outside of a run."""
    tally = _CURRENT.get()
    return None if tally is None or not tally.times_a_bundle() else KeyTimes(tally, label)


class SlowestKeys:
    """Keeps the slowest of many keys that are processed one after the other; a fast key costs one comparison."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Any, int]] = []
        self._number = 0

    def offer(self, key: Any, seconds: float, elements: int) -> None:
        """Record how long a key took, if it is among the slowest.

        Example:
            >>> slowest = SlowestKeys()
            >>> for seconds in range(100):
            ...     slowest.offer(f"key {seconds}", seconds, 1)
            >>> with collecting() as tally:
            ...     slowest.record("Sum")
            >>> list(tally.slowest("Sum"))[:2]
            ['key 99', 'key 98']
        """
        if len(self._entries) < SLOW_KEPT:
            heapq.heappush(self._entries, (seconds, self._number, key, elements))
        elif seconds > self._entries[0][0]:
            heapq.heapreplace(self._entries, (seconds, self._number, key, elements))
        self._number += 1  # so that keys are never compared

    def record(self, label: str) -> None:
        """Record the slowest keys in the current tally."""
        tally = _CURRENT.get()
        if tally is not None:
            for seconds, _, key, elements in self._entries:
                tally.spent(label, key, seconds, elements)
