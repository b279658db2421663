"""Users' window functions on the grid of `drawing`: windows of their own class, or that merge unlike sessions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import attrs

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SECOND = dm.Duration(micros=1_000_000)


@attrs.frozen
class ValidUntilNext(dm.WindowFn):
    """An element's window ends where the next one begins: ends move backward, also behind the watermark."""

    is_merging: ClassVar[bool] = True

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[Any, ...]:
        return (dm.IntervalWindow(min(event_time, dm.MAX_TIMESTAMP - SECOND), dm.MAX_TIMESTAMP),)

    def merge(self, windows: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Any]]:
        starts = sorted({window.start for window in windows})
        for start, following in itertools.pairwise([*starts, dm.MAX_TIMESTAMP]):
            same = [window for window in windows if window.start == start]
            valid = dm.IntervalWindow(start, following)
            if same != [valid]:
                yield same, valid


@attrs.frozen
class Shift:
    """A span of time with a name; several have the same bounds."""

    name: str
    start: dm.EventTime
    end: dm.EventTime

    @property
    def max_timestamp(self) -> dm.EventTime:
        return dm.EventTime(int(self.end) - 1)


@attrs.frozen
class Shifts(dm.WindowFn):
    """Windows of a class with a name: those of one name merge if they intersect."""

    is_merging: ClassVar[bool] = True
    names: str = "ab"

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[Any, ...]:
        name = self.names[element[1] % len(self.names)]
        at = min(event_time, dm.MAX_TIMESTAMP - SECOND * 3)
        return (Shift(name, at, at + SECOND * 3),)

    def merge(self, windows: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Any]]:
        for name in self.names:
            for members in _runs([window for window in windows if window.name == name]):
                if len(members) > 1:
                    yield members, Shift(name, members[0].start, max(window.end for window in members))


@attrs.frozen
class NamedSeconds(dm.WindowFn):
    """Two windows of different names for each element, with the same bounds; they do not merge."""

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[Any, ...]:
        at = dm.EventTime(min(int(event_time), int(dm.MAX_TIMESTAMP - SECOND * 4)) // 3_000_000 * 3_000_000)
        return tuple(Shift(name, at, at + SECOND * 3) for name in "ab")


@attrs.frozen
class HalvesOfTen(dm.WindowFn):
    """Two windows of a second for each element; those that begin in the same five seconds merge."""

    is_merging: ClassVar[bool] = True

    def assign(self, event_time: dm.EventTime, element: Any) -> tuple[Any, ...]:
        at = min(event_time, dm.MAX_TIMESTAMP - SECOND * 20)
        return tuple(dm.IntervalWindow(at + by, at + by + SECOND) for by in (SECOND * 0, SECOND * 6))

    def merge(self, windows: Sequence[Any]) -> Iterator[tuple[Sequence[Any], Any]]:
        for _, group in itertools.groupby(windows, key=lambda window: int(window.start) // 5_000_000):
            members = list(group)
            if len(members) > 1:
                yield members, dm.IntervalWindow(members[0].start, max(window.end for window in members))


@attrs.frozen
class OtherSessions(dm.Sessions):
    """Sessions of a class of their own, whose `merge` is called with the windows that intersect."""

    merges_intersecting: ClassVar[bool] = True

    def merge(self, windows: Sequence[Any]) -> Any:
        return super().merge(windows)


def _runs(windows: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield windows that intersect together; they are in order of their starts."""
    run: list[Any] = []
    for window in windows:
        if run and window.start >= max(member.end for member in run):
            yield run
            run = []
        run.append(window)
    if run:
        yield run


USERS = [NamedSeconds(), ValidUntilNext(), Shifts(), Shifts("a"), HalvesOfTen(), OtherSessions(3)]
