"""Which intervals intersect: one sweep over them by start."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")


def intersecting_runs(intervals: Iterable[T], bounds: Callable[[T], tuple[int, int]]) -> Iterator[tuple[list[T], int]]:
    """Yield the intervals in runs that intersect, directly or by way of others, and the greatest end of each run.

    Intervals that only touch do not intersect. The first one of a run has its least start. O(n log n).

    Args:
        intervals: in any order.
        bounds: gives the start and end of one.

    Example:
        >>> list(intersecting_runs([(20, 30), (0, 10), (9, 19)], lambda interval: interval))
        [([(0, 10), (9, 19)], 19), ([(20, 30)], 30)]
    """
    run: list[T] = []
    reach = 0
    for interval in sorted(intervals, key=bounds):
        start, end = bounds(interval)
        if run and start >= reach:
            yield run, reach
            run = []
        reach = max(reach, end) if run else end
        run.append(interval)
    if run:
        yield run, reach
