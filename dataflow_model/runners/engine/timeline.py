"""The timeline of one run of bundles: which instants there are, and the sources' watermarks at each.

A replayed source's tick is complete once every open origin has gone past it; what lies behind the last complete tick
waits. `ReplayProgress` is what has to be remembered for that between bundles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import numpy as np

from dataflow_model.plan.watermarks import ARRIVAL
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.sources import Source

__all__ = ["At", "Observations", "ReplayProgress", "Timeline", "estimated", "observed"]

At = tuple[int, int]
"""Where an instant stands: the clock's value, and a step that tells instants at one value apart."""
NOTHING_YET: Final = int(MIN_TIMESTAMP)


@attrs.define
class Timeline:
    """Instants in order.

    Attributes:
        at: where each stands.
        closes: whether each completes its tick.
        watermarks: by source, its watermark at each instant.
    """

    at: list[At] = attrs.field(factory=list)
    closes: list[bool] = attrs.field(factory=list)
    watermarks: dict[str, list[int]] = attrs.field(factory=dict)

    def __len__(self) -> int:
        return len(self.at)


@attrs.frozen
class Observations:
    """What one read of a row range has seen.

    Attributes:
        label: the source's label.
        origin: the origin that was read.
        ticks: the distinct values of the clock, rising.
        greatest: the greatest event time up to each of them, within the range.
    """

    label: str
    origin: str
    ticks: NDArray[np.int64]
    greatest: NDArray[np.int64]


def observed(label: str, origin: str, ticks: NDArray[np.int64], times: NDArray[np.int64]) -> Observations:
    """Fold the rows that a read has seen to the greatest event time up to each tick.

    Args:
        label: the source's label.
        origin: what was read.
        ticks: the clock at each row, in any order.
        times: the event time of each row.
    """
    order = np.argsort(ticks, kind="stable")
    ticks, times = ticks[order], times[order]
    running = np.maximum.accumulate(times) if len(times) else times
    last_of_tick = np.flatnonzero(np.diff(ticks, append=ticks[-1] + 1)) if len(ticks) else np.empty(0, np.int64)
    return Observations(label, origin, ticks[last_of_tick], running[last_of_tick])


@attrs.define
class ReplayProgress:
    """How far each origin of replayed sources has come.

    Attributes:
        reached: the last tick seen of each origin.
        waiting: ticks seen that are not complete.
        observed: by source, what was observed at ticks that are not complete.
        greatest: by source, the greatest event time at complete ticks.
        last: by source, its last tick so far.
        over: the sources that have ended, and whose end has been told.
    """

    reached: dict[tuple[str, str], int] = attrs.field(factory=dict)
    waiting: NDArray[np.int64] = attrs.field(
        factory=lambda: np.empty(0, np.int64), eq=attrs.cmp_using(eq=np.array_equal)
    )
    observed: dict[str, list[Observations]] = attrs.field(factory=dict)
    greatest: dict[str, int] = attrs.field(factory=dict)
    last: dict[str, int] = attrs.field(factory=dict)
    over: set[str] = attrs.field(factory=set)
    begun: bool = False

    def observe(self, observations: Sequence[Observations]) -> None:
        """Take in what reads have seen."""
        for seen in observations:
            if not len(seen.ticks):
                continue
            tick = int(seen.ticks[-1])
            place = (seen.label, seen.origin)
            self.reached[place] = max(tick, self.reached.get(place, NOTHING_YET))
            self.last[seen.label] = max(tick, self.last.get(seen.label, NOTHING_YET))
            self.observed.setdefault(seen.label, []).append(seen)
        if observations:
            self.waiting = np.unique(np.concatenate([self.waiting, *(seen.ticks for seen in observations)]))

    def bound(self, open_origins: Sequence[tuple[str, str]]) -> int | None:
        """Return the tick before which all are complete; `None` when nothing is open, so that all are."""
        return min((self.reached.get(place, NOTHING_YET) for place in open_origins), default=None)

    def timeline(
        self,
        sources: Mapping[str, Source],
        open_origins: Sequence[tuple[str, str]],
        ended: Sequence[str],
        wall: int | None = None,
    ) -> Timeline:
        """Return the instants that are complete now, and forget what belongs to them.

        Args:
            sources: every source by label, static ones too.
            open_origins: (label, origin) of what may still give rows, under a replay clock; a wall's tick is complete.
            ended: the labels of sources that have given their last row; static ones are among them from the start.
            wall: the wall clock's tick, or `None` under a replay clock.
        """
        bound = self.bound(open_origins)
        if wall is not None:
            self.waiting = np.union1d(self.waiting, [wall])
        cut = len(self.waiting) if bound is None else int(np.searchsorted(self.waiting, bound, side="left"))
        ready, self.waiting = self.waiting[:cut], self.waiting[cut:]
        if bound is None and not len(ready) and not self.begun:
            ready = np.zeros(1, np.int64)  # nothing ever came; what is static still needs an instant
        self.begun = self.begun or len(ready) > 0
        ends: dict[int, list[str]] = {}
        for label in ended:
            last = self.last.get(label)
            if last is None and len(ready):
                last = int(ready[0])  # it never gave a row
            elif last is None and bound is None:
                last = max(self.last.values(), default=0)
            if label not in self.over and last is not None and (bound is None or last < bound):
                ends.setdefault(last, []).append(label)
                self.over.add(label)
        values = {label: self._watermarks(label, source, ready) for label, source in sources.items()}
        return self._weave(ready, values, ends, tuple(sources))

    def _watermarks(self, label: str, source: Source, ready: NDArray[np.int64]) -> list[int]:
        """Return a source's watermark at each complete tick, and fold what was observed there."""
        seen = self.observed.pop(label, [])
        before = self.greatest.get(label, NOTHING_YET)
        if not seen or not len(ready):
            if seen:
                self.observed[label] = seen
            return [estimated(source, before)] * len(ready)
        ticks = np.concatenate([part.ticks for part in seen])
        greatest = np.concatenate([part.greatest for part in seen])
        order = np.argsort(ticks, kind="stable")
        ticks, greatest = ticks[order], greatest[order]
        rest = int(np.searchsorted(ticks, ready[-1], side="right"))
        if rest < len(ticks):
            self.observed[label] = [Observations(label, seen[0].origin, ticks[rest:], greatest[rest:])]
        running = np.maximum.accumulate(np.concatenate([[before], greatest[:rest]]))
        at_tick = running[np.searchsorted(ticks[:rest], ready, side="right")]
        self.greatest[label] = int(at_tick[-1])
        found, inverse = np.unique(at_tick, return_inverse=True)
        estimates = np.array([estimated(source, int(value)) for value in found], np.int64)
        watermarks: list[int] = estimates[inverse].tolist()
        return watermarks

    def _weave(
        self,
        ready: NDArray[np.int64],
        values: dict[str, list[int]],
        ends: dict[int, list[str]],
        labels: tuple[str, ...],
    ) -> Timeline:
        """Put ends of sources between the ticks: the end of a source follows its last tick."""
        timeline = Timeline(watermarks={label: [] for label in labels})
        finished = {label for label in self.over if not any(label in some for some in ends.values())}
        places: list[tuple[At, int]] = [((tick, 0), row) for row, tick in enumerate(ready.tolist())]
        places += [((tick, 1), int(np.searchsorted(ready, tick, side="right")) - 1) for tick in ends]
        places.sort()
        for at, row in places:
            if at[1]:
                finished.update(ends[at[0]])
            timeline.at.append(at)
            timeline.closes.append(True)
            for label in labels:
                # An end before any tick of this bundle: what was known before stays known where watermarks are kept.
                value = values[label][row] if row >= 0 else NOTHING_YET
                timeline.watermarks[label].append(int(MAX_TIMESTAMP) if label in finished else value)
        return timeline


def estimated(source: Source, greatest: int) -> int:
    """Return what a source's estimator makes of the greatest event time seen."""
    if source.event_time == ARRIVAL:
        return greatest
    return int(source.watermark.watermark(EventTime(greatest)))
