"""The timeline of a chunk: its instants, and the watermarks of the sources at each.

A tick of a replay clock is complete once every open origin has advanced past it; rows after the last complete tick
wait. `ReplayProgress` is the state that this requires between chunks.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from dataflow_model.runners.engine.collections.kept import course_of
from dataflow_model.runners.engine.lanes.chunk import Instants
from dataflow_model.runners.engine.lanes.lanes import Integers, Repeated, sliced
from dataflow_model.runners.engine.lanes.order_lanes import InstantLane
from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane
from dataflow_model.runners.engine.sources.estimation import NOTHING_YET, SourceProgress
from dataflow_model.runners.engine.sources.observing import distinct
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.endpoints.sources import Source
    from dataflow_model.runners.engine.sources.estimation import Jump
    from dataflow_model.runners.engine.sources.observing import Observations

_END: Final = int(MAX_TIMESTAMP)
TO_COME: Final = "\0to come"
"""A placeholder for the origins that a source has yet to find; they begin at its last tick so far, or later."""


@attrs.frozen
class Awaited:
    """The percentiles of the watermark that a plan's triggers wait for.

    Attributes:
        percentiles: the percentiles below 100, lowest first.
        enough: the percentile that ends the input when it is +∞ for every source; `None` if only the last row does.
    """

    percentiles: tuple[float, ...] = ()
    enough: float | None = None


NOTHING_AWAITED: Final = Awaited()


@attrs.define
class Timeline:
    """Instants in order.

    Attributes:
        at: the position of each instant in the total order.
        closes: whether each instant completes its tick.
        watermarks: by source, its watermarks at each instant; without percentiles if no trigger waits for one.
        signals: by index, the signals that take effect at an instant.
        jumps: by source, an event that has moved its watermark far ahead of the clock.
        counts: by source, what was counted when the watermarks were computed; only in bounded runs.
        drains: whether the run is being drained.
    """

    at: InstantLane = attrs.field(factory=functools.partial(InstantLane.of, ()))
    closes: Sequence[bool] = attrs.field(factory=list)
    watermarks: dict[str, WatermarkLane] = attrs.field(factory=dict)
    signals: dict[int, tuple[str, ...]] = attrs.field(factory=dict)
    jumps: dict[str, Jump] = attrs.field(factory=dict)
    counts: dict[str, Counter[str]] = attrs.field(factory=dict)
    drains: bool = False

    def __len__(self) -> int:
        return len(self.at)

    def sliced(self, start: int, stop: int) -> Timeline:
        """Return the instants `[start, stop)`."""
        return Timeline(
            self.at.sliced(start, stop),
            sliced(self.closes, start, stop),
            {label: lane.sliced(start, stop) for label, lane in self.watermarks.items()},
            {index - start: names for index, names in self.signals.items() if start <= index < stop},
            {} if start else self.jumps,
            {} if start else self.counts,
            self.drains,
        )

    @property
    def instants(self) -> Instants:
        """The instants, in the form for stages."""
        return Instants(Integers(self.at.clocks), self.closes, self.signals, self.drains)


@attrs.define
class ReplayProgress:
    """The progress of each origin of sources with a replay clock.

    Attributes:
        reached: the last tick seen of each open origin.
        waiting: the ticks seen that are not complete.
        sources: the progress of the watermark of each source.
        last: by source, its last tick so far; under the wall clock each tick is one of every source that has not ended.
        names: for some sources, the watermark origins in each origin that has not been read to its end.
        over: the sources that have ended, and whose end has been reported.
        begun: whether there has been an instant.
        signals: the signals that wait for a tick.
        enough: whether the input has ended early, so that further rows belong to no tick.
    """

    reached: dict[tuple[str, str], int] = attrs.field(factory=dict)
    waiting: NDArray[np.int64] = attrs.field(
        factory=lambda: np.empty(0, np.int64), eq=attrs.cmp_using(eq=np.array_equal)
    )
    sources: dict[str, SourceProgress] = attrs.field(factory=dict)
    last: dict[str, int] = attrs.field(factory=dict)
    names: dict[tuple[str, str], set[str]] = attrs.field(factory=dict)
    over: set[str] = attrs.field(factory=set)
    begun: bool = False
    signals: tuple[str, ...] = ()
    enough: bool = False

    def declare(self, label: str, names: Iterable[str]) -> None:
        """Declare origins of a source's watermark, which hold it until they have reported."""
        self.sources.setdefault(label, SourceProgress()).declare(names)

    def observe(self, observations: Sequence[Observations], named: Collection[str] = ()) -> None:
        """Add the observations of reads; for the sources `named`, also record which watermark origins were read."""
        for seen in observations:
            if not len(seen.ticks):
                continue
            tick = int(seen.ticks[-1])
            origin = (seen.label, seen.origin)
            self.reached[origin] = max(tick, self.reached.get(origin, NOTHING_YET))
            self.last[seen.label] = max(tick, self.last.get(seen.label, NOTHING_YET))
            self.sources.setdefault(seen.label, SourceProgress()).observe(seen.parts)
            if seen.label in named and seen.parts:
                self.names.setdefault(origin, set()).update(part.name for part in seen.parts)
        if observations:
            self.waiting = distinct(np.concatenate([self.waiting, *(seen.ticks for seen in observations)]))

    def end(self, label: str, names: Collection[str]) -> None:
        """Record that all rows of these origins of a source's watermark have been observed."""
        self.sources.setdefault(label, SourceProgress()).end(names)

    def finish(self, label: str, names: Collection[str], *, by_origin: bool) -> None:
        """Record that all rows of these origins of a source have been observed.

        Args:
            label: the source.
            names: the origins.
            by_origin: whether each origin has its own watermark.
        """
        for name in names:
            self.names.pop((label, name), None)
        if by_origin:
            self.end(label, names)

    def forget_all_but(self, labels: Collection[str]) -> None:
        """Forget the sources that a changed pipeline does not have, or has with changes."""
        for by_origin in (self.reached, self.names):
            for origin in [origin for origin in by_origin if origin[0] not in labels]:
                del by_origin[origin]
        for by_label in (self.sources, self.last):
            for label in by_label.keys() - set(labels):
                del by_label[label]
        self.over &= set(labels)

    def rename(self, new: Callable[[str], str]) -> None:
        """Give sources other labels; `new` returns the new label of each."""
        self.reached = {(new(label), origin): tick for (label, origin), tick in self.reached.items()}
        self.names = {(new(label), origin): names for (label, origin), names in self.names.items()}
        self.sources = {new(label): progress for label, progress in self.sources.items()}
        self.last = {new(label): tick for label, tick in self.last.items()}
        self.over = set(map(new, self.over))

    def forget_percentiles(self) -> None:
        """Forget the observations for percentiles of the watermark, if a changed pipeline uses other percentiles."""
        for progress in self.sources.values():
            progress.high = ()
            for origin in progress.origins.values():
                origin.sketch = None

    def bound(self, open_origins: Sequence[tuple[str, str]]) -> int | None:
        """Return the tick before which all ticks are complete; `None` if nothing is open and all ticks are complete."""
        return min(map(self._reached, open_origins), default=None)

    def _reached(self, origin: tuple[str, str]) -> int:
        if origin[1] == TO_COME:
            return self.last.get(origin[0], NOTHING_YET)
        return self.reached.get(origin, NOTHING_YET)

    def timeline(
        self,
        sources: Mapping[str, Source],
        open_origins: Sequence[tuple[str, str]],
        ended: Sequence[str],
        wall: int | None = None,
        awaited: Awaited = NOTHING_AWAITED,
    ) -> Timeline:
        """Return the instants that are complete now, and forget the observations that belong to them.

        Args:
            sources: all sources by label, including static ones.
            open_origins: under a replay clock, the (label, origin) pairs that may still have rows; a tick of the wall
                clock is always complete.
            ended: the labels of sources whose last row has been read; static sources are included from the start.
            wall: the tick of the wall clock; `None` under a replay clock.
            awaited: the percentiles that the plan's triggers wait for.
        """
        if self.enough:
            return Timeline(watermarks={label: WatermarkLane.of([]) for label in sources})
        bound = self.bound(open_origins)
        self.reached = {origin: self.reached[origin] for origin in open_origins if origin in self.reached}
        if wall is not None:
            self.waiting = np.union1d(self.waiting, [wall])
            self.last.update((label, wall) for label in sources if label not in self.over and label not in ended)
        cut = len(self.waiting) if bound is None else int(np.searchsorted(self.waiting, bound, side="left"))
        ready, self.waiting = self.waiting[:cut], self.waiting[cut:]
        if bound is None and not len(ready) and not self.begun:
            ready = np.zeros(1, np.int64)  # there are no rows, but static sources need an instant
        self.begun = self.begun or len(ready) > 0
        known = {label: self.sources.setdefault(label, SourceProgress()) for label in sources}
        before = {label: (progress.low, progress.high) for label, progress in known.items()}
        jumps: dict[str, list[Jump]] = {label: [] for label in sources}
        values = {
            label: _watermarks(known[label], source, ready, awaited, jumps[label]) for label, source in sources.items()
        }
        ends = self._ends(ended, ready, bound)
        courses = {label: course for label, source in sources.items() if (course := course_of(source)) is not None}
        for course in courses.values():
            own = course.clocks(1)
            for tick in own[np.isin(own, ready)].tolist():
                ends.setdefault(tick, [])  # an instant at which a source of the collection ended
        ready = self._cut_short(ready, values, ends, awaited)
        timeline = self._weave(ready, values, before, ends, awaited)
        for label, course in courses.items():
            timeline.watermarks[label] = WatermarkLane(*course.reached(timeline.at, len(awaited.percentiles)))
        timeline.jumps = {label: of_source[0] for label, of_source in jumps.items() if of_source}
        return timeline

    def _ends(self, ended: Sequence[str], ready: NDArray[np.int64], bound: int | None) -> dict[int, list[str]]:
        """Return the sources that end after each tick, and record that they have ended."""
        ends: dict[int, list[str]] = {}
        for label in ended:
            last = self.last.get(label)
            if last is None and len(ready):
                last = int(ready[0])  # the source had no rows
            elif last is None and bound is None:
                last = max(self.last.values(), default=0)
            if label not in self.over and last is not None and (bound is None or last < bound):
                ends.setdefault(last, []).append(label)
                self.over.add(label)
        return ends

    def _cut_short(
        self,
        ready: NDArray[np.int64],
        values: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]],
        ends: dict[int, list[str]],
        awaited: Awaited,
    ) -> NDArray[np.int64]:
        """End all sources after the tick at which enough of each has been read, if there is such a tick."""
        if awaited.enough is None or not len(ready):
            return ready
        index = awaited.percentiles.index(awaited.enough)
        last_ticks = {label: tick for tick, labels in ends.items() for label in labels}
        enough = np.ones(len(ready), np.bool_)
        for label, (_, high) in values.items():
            over = np.full(len(ready), label in self.over and label not in last_ticks)
            enough &= over | (ready >= last_ticks.get(label, _END)) | (high[:, index] == _END)
        if not enough.any():
            return ready
        tick = int(ready[int(np.argmax(enough))])
        later = [label for end, labels in ends.items() if end > tick for label in labels]
        for end in [end for end in ends if end > tick]:
            del ends[end]
        later += [label for label in values if label not in self.over]
        if later:
            ends.setdefault(tick, []).extend(later)
        self.over.update(values)
        self.enough = True
        self.waiting = np.empty(0, np.int64)
        return ready[: int(np.argmax(enough)) + 1]

    def _weave(
        self,
        ready: NDArray[np.int64],
        values: Mapping[str, tuple[NDArray[np.int64], NDArray[np.int64]]],
        before: Mapping[str, tuple[int, tuple[int, ...]]],
        ends: dict[int, list[str]],
        awaited: Awaited,
    ) -> Timeline:
        """Insert the ends of sources between the ticks: the end of a source follows its last tick."""
        ticks = np.array(sorted(ends), np.int64)
        clocks = np.concatenate([ready, ticks])
        steps = np.repeat(np.array([0, 1]), [len(ready), len(ticks)])
        # An end may be before all ticks of this chunk; its row is then 0, which holds the watermarks from before.
        rows = np.concatenate([np.arange(len(ready)), np.searchsorted(ready, ticks, side="right") - 1]) + 1
        order = np.lexsort((steps, clocks))
        clocks, steps, rows = clocks[order], steps[order], rows[order]
        timeline = Timeline(InstantLane(clocks, steps), Repeated(value=True, count=len(order)))
        last = {label: tick for tick, labels in ends.items() for label in labels}
        count = len(awaited.percentiles)
        for label, (low, high) in values.items():
            low_before, high_before = before[label]
            known = np.array([high_before or (NOTHING_YET,) * count], np.int64)
            lows, highs = np.concatenate([[low_before], low])[rows], np.concatenate([known, high])[rows]
            is_over = np.full(len(order), label in self.over and label not in last)
            if label in last:
                is_over |= (clocks > last[label]) | ((clocks == last[label]) & (steps == 1))
            lows[is_over] = highs[is_over] = _END
            timeline.watermarks[label] = WatermarkLane(lows, np.maximum(highs, lows[:, None]))
        if len(order):
            timeline.signals, self.signals = ({0: self.signals} if self.signals else {}), ()
        return timeline


def _watermarks(
    progress: SourceProgress, source: Source, ready: NDArray[np.int64], awaited: Awaited, jumps: list[Jump]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a source's watermark after each complete tick, and its percentiles in columns."""
    course = course_of(source)
    if course is not None:
        return course.reached(InstantLane(ready, np.zeros_like(ready)), len(awaited.percentiles))
    return progress.advance(source, ready, awaited.percentiles, jumps)
