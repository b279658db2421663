"""Offsets: how far a micro-batch reads, and at which clock. Spark logs them, so a replayed micro-batch is the same."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.sources import (
    ClockStep,
    ColumnSource,
    DataFrameSource,
    ElementsSource,
    ScriptSource,
    WatermarkStep,
)
from dataflow_model.runners.spark.stage0 import STATIC_STEP, Slice
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.plan.nodes import Read
    from dataflow_model.runners.engine.timeline import At

__all__ = ["Control", "Feed", "ScriptPlace", "begin"]

Offset = dict[str, Any]


@attrs.frozen
class ScriptPlace:
    """One step of the merged scripts: whose it is, which of its steps, and where it stands."""

    label: str
    row: int
    at: At
    watermark: int | None


@attrs.frozen
class Control:
    """What the driver has decided for one micro-batch; every shard is told.

    Attributes:
        wall: the tick of the wall clock, or `None` under a replay clock or a script.
        first: whether this is the run's first micro-batch.
        open_origins: (label, origin) of what may still give rows in a later micro-batch.
        ended: the labels of sources whose last row is in this micro-batch or an earlier one.
        steps: for scripts, the steps of this micro-batch; `None` otherwise.
        last: whether the input is over with this micro-batch.
    """

    wall: int | None
    first: bool
    open_origins: tuple[tuple[str, str], ...]
    ended: tuple[str, ...]
    steps: tuple[ScriptPlace, ...] | None
    last: bool


def begin() -> Offset:
    """Return the offset before anything is read."""
    return {"batch": 0, "clock": 0, "rows": {}, "totals": {}, "listed": False, "step": 0, "last": False}


@attrs.define
class Feed:
    """Decides what each micro-batch reads; runs on the driver.

    Args:
        reads: the sources that it reads.
        rows_per_batch: how many rows at most; steps of a script likewise.
        parallelism: in how many tasks a micro-batch is read.
    """

    reads: Sequence[Read]
    rows_per_batch: int
    parallelism: int

    @property
    def replays(self) -> bool:
        """Whether the data say when they were seen."""
        return any(read.source.processing_time is not None for read in self.reads)

    @property
    def scripts(self) -> bool:
        """Whether the sources are scripts."""
        return any(isinstance(read.source, ScriptSource) for read in self.reads)

    def next(self, start: Offset, *, drain: bool, until_drained: bool = False) -> Offset:
        """Return the end of the micro-batch that begins at `start`; `start` itself when the input is over.

        Args:
            start: where the micro-batch begins.
            drain: whether to end the input here.
            until_drained: whether to end it once what is there now has been read.
        """
        if start["last"]:
            return start
        end = {**start, "batch": start["batch"] + 1, "clock": max(start["clock"] + 1, time.time_ns() // 1_000)}
        if self.scripts:
            steps = len(self._script())
            end["step"] = min(start["step"] + self.rows_per_batch, steps)
            end["last"] = start["step"] >= steps
            return end
        follows = self._follows() and not (until_drained and start.get("listed"))
        end["listed"] = until_drained
        totals = start["totals"] if start["batch"] and not follows else self._listing(start["totals"])
        rows = {label: dict(found) for label, found in start["rows"].items()}
        if not drain:
            self._advance(rows, totals)
        end["rows"], end["totals"] = rows, totals
        over = not (follows or self._left(start["rows"], totals))
        end["last"] = bool(start["batch"]) and (over or drain) if totals or not drain else True
        return end

    def control(self, start: Offset, end: Offset) -> Control:
        """Return what every shard is told about a micro-batch."""
        static = tuple(read.label for read in self.reads if isinstance(read.source, ElementsSource))
        first = start["batch"] == 0
        if self.scripts:
            steps = tuple(self._script()[start["step"] : end["step"]])
            return Control(None, first, (), (), steps, end["last"])
        open_origins: list[tuple[str, str]] = []
        ended = list(static)
        for read in self.reads:
            if isinstance(read.source, DataFrameSource) and end["last"]:
                ended.append(read.label)
            if not isinstance(read.source, ColumnSource):
                continue
            totals = end["totals"].get(read.label, {})
            rows = end["rows"].get(read.label, {})
            left = [origin for origin, total in totals.items() if rows.get(origin, 0) < total]
            if end["last"] or (not left and read.source.is_bounded and self._settled(start, read.label)):
                ended.append(read.label)
            elif read.source.is_bounded:
                open_origins += [(read.label, origin) for origin in left]
            else:  # any origin of a followed source may grow
                open_origins += [(read.label, origin) for origin in totals] or [(read.label, "")]
        wall = None if self.replays else end["clock"]
        return Control(
            wall,
            first,
            tuple(open_origins) if self.replays and not end["last"] else (),
            tuple(ended),
            None,
            end["last"],
        )

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        """Return the row ranges of a micro-batch."""
        slices = []
        for label, origins in sorted(end["rows"].items()):
            for origin, stop in sorted(origins.items()):
                begin_at = start["rows"].get(label, {}).get(origin, 0)
                if stop > begin_at:
                    slices += self._cut(label, origin, begin_at, stop)
        return slices

    def script_rows(self, start: Offset, end: Offset) -> list[tuple[str, int, int, dict[int, At]]]:
        """Return for each script the steps of a micro-batch, and where each stands."""
        found: dict[str, dict[int, At]] = {}
        for place in self._script()[start["step"] : end["step"]]:
            found.setdefault(place.label, {})[place.row] = place.at
        return [(label, min(places), max(places) + 1, places) for label, places in found.items() if label]

    def _settled(self, start: Offset, label: str) -> bool:
        """Under the wall clock a source is over at the tick after its last rows; a replay clock does not care."""
        if self.replays:
            return True
        totals, rows = start["totals"].get(label), start["rows"].get(label, {})
        return totals is not None and all(rows.get(origin, 0) >= total for origin, total in totals.items())

    def _cut(self, label: str, origin: str, start: int, stop: int) -> list[Slice]:
        """Cut a row range for several tasks, where it is long enough to be worth it."""
        parts = max(1, min(self.parallelism, (stop - start) // _WORTH_A_TASK))
        bounds = [start + (stop - start) * part // parts for part in range(parts + 1)]
        return [Slice(label, origin, first, last) for first, last in itertools.pairwise(bounds)]

    def _follows(self) -> bool:
        return any(not read.source.is_bounded for read in self.reads)

    def _listing(self, known: dict[str, dict[str, int]]) -> dict[str, dict[str, int]]:
        """List the origins and how many rows each has; bounded sources are listed once."""
        totals = {}
        for read in self.reads:
            if isinstance(read.source, ColumnSource):
                if read.source.is_bounded and read.label in known:
                    totals[read.label] = known[read.label]
                else:
                    totals[read.label] = {origin.name: origin.rows or 0 for origin in read.source.origins()}
        return totals

    def _left(self, rows: dict[str, dict[str, int]], totals: dict[str, dict[str, int]]) -> int:
        return sum(
            total - rows.get(label, {}).get(origin, 0)
            for label, origins in totals.items()
            for origin, total in origins.items()
        )

    def _advance(self, rows: dict[str, dict[str, int]], totals: dict[str, dict[str, int]]) -> None:
        """Take as many rows as a micro-batch may: in order of name, or under a replay clock evenly from all origins."""
        left = self.rows_per_batch
        waiting = [
            (label, origin, total)
            for label, origins in sorted(totals.items())
            for origin, total in sorted(origins.items())
            if rows.get(label, {}).get(origin, 0) < total
        ]
        for place, (label, origin, total) in enumerate(waiting):
            share = left if not self.replays else max(1, left // (len(waiting) - place))
            at = rows.setdefault(label, {}).get(origin, 0)
            rows[label][origin] = min(total, at + share)
            left -= rows[label][origin] - at
            if left <= 0:
                return

    def _script(self) -> list[ScriptPlace]:
        """Return all scripts' steps as one sequence: by clock, then in the plan's order; then the end of the input."""
        steps: list[tuple[int, int, int, str, Any]] = []
        for place, read in enumerate(self.reads):
            clock = 0
            if not isinstance(read.source, ScriptSource):
                continue
            for row, step in enumerate(read.source.steps):
                clock = int(step.processing_time) if isinstance(step, ClockStep) else clock
                steps.append((clock, place, row, read.label, step))
        steps.sort(key=lambda entry: entry[:3])
        sequence = [ScriptPlace("", 0, (0, STATIC_STEP), None), ScriptPlace("", 0, (0, STATIC_STEP + 1), None)]
        clock = 0
        for number, (clock, _, row, label, step) in enumerate(steps):
            watermark = int(step.watermark) if isinstance(step, WatermarkStep) else None
            sequence.append(ScriptPlace(label, row, (clock, number), watermark))
        sequence.append(ScriptPlace("", 1, (clock, len(steps)), int(MIN_TIMESTAMP)))
        sequence.append(ScriptPlace("", 1, (clock, len(steps) + 1), int(MAX_TIMESTAMP)))
        return sequence


_WORTH_A_TASK = 20_000
