"""The results of the demo's runs: panes by key and window, their final answers, and the same by a plain group-by."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from dataflow_model.demo.pipeline import TIME_ZONE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.values import PaneTiming

Group = tuple[str, int, int]
"""A carrier and the bounds of a window, in microseconds."""

_TOLERANCE: Final = 1e-9
_DAY: Final = 86_400_000_000


@attrs.frozen
class Answer:
    """The number of departures and their mean delay in minutes; cancelled flights have no mean."""

    count: int
    mean: float | None = None

    def agrees_with(self, other: Answer | None) -> bool:
        """Return whether the counts are equal, and the means are equal to 1e-9.

        Example:
            >>> Answer(3, 0.1 + 0.2).agrees_with(Answer(3, 0.3)), Answer(3, 0.3).agrees_with(Answer(4, 0.3))
            (True, False)
        """
        if other is None or self.count != other.count or (self.mean is None) != (other.mean is None):
            return False
        if self.mean is None or other.mean is None:
            return True
        return math.isclose(self.mean, other.mean, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)


@attrs.frozen
class Outcome:
    """The results of a run.

    Attributes:
        name: the name of the runner in the report.
        rows: the number of rows read.
        seconds: the wall time from `run()` to the end.
        hourly, cancelled: the panes, in the order in which they were emitted.
        dropped: the number of dropped elements that the run counted.
    """

    name: str
    rows: int
    seconds: float
    hourly: list[Record]
    cancelled: list[Record]
    dropped: int

    def timings(self) -> Counter[PaneTiming]:
        """Count the hourly panes by timing."""
        return Counter(record.pane.timing for record in self.hourly)


def by_group(records: Iterable[Record]) -> dict[Group, list[Record]]:
    """Group panes by key and window, keeping the order in which they were emitted."""
    panes: dict[Group, list[Record]] = {}
    for record in records:
        group = (record.value[0], int(record.window.start), int(record.window.end))
        panes.setdefault(group, []).append(record)
    return panes


def fold(records: Iterable[Record]) -> dict[Group, Answer]:
    """Return the final answer of each key and window: that of its last pane, since panes accumulate."""
    return {group: answer_of(panes[-1]) for group, panes in by_group(records).items()}


def answer_of(record: Record) -> Answer:
    """Return a pane's value."""
    value = record.value[1]
    return Answer(value) if isinstance(value, int) else Answer(value.count, value.mean)


def differences(ours: Mapping[Group, Answer], theirs: Mapping[Group, Answer]) -> int:
    """Count the keys and windows for which two sets of answers differ, or only one of them has an answer."""
    return sum(
        group not in ours or not ours[group].agrees_with(theirs.get(group)) for group in ours.keys() | theirs.keys()
    )


def pane_differences(ours: Iterable[Record], theirs: Iterable[Record]) -> int:
    """Count the panes that differ: in value, event time, processing time, timing, index or trigger."""
    first, second = by_group(ours), by_group(theirs)
    count = 0
    for group in first.keys() | second.keys():
        left, right = first.get(group, []), second.get(group, [])
        count += abs(len(left) - len(right))
        count += sum(not _are_same(*pair) for pair in zip(left, right, strict=False))
    return count


def _are_same(left: Record, right: Record) -> bool:
    return (
        (left.pane, left.event_time, left.processing_time) == (right.pane, right.event_time, right.processing_time)
        and left.is_retraction == right.is_retraction
        and answer_of(left).agrees_with(answer_of(right))
    )


def plain_answers(path: str | Path) -> tuple[dict[Group, Answer], dict[Group, Answer]]:
    """Compute the hourly answers and the cancelled flights with a group-by of pyarrow, without this package."""
    table = pq.read_table(path, columns=["scheduled_departure", "carrier", "dep_delay"])
    departed = table.filter(table["dep_delay"].is_valid())
    cancelled = table.filter(table["dep_delay"].is_null())
    hours = _floor(departed["scheduled_departure"], "hour")
    hourly = (
        pa.table({"carrier": departed["carrier"], "hour": hours.cast(pa.int64()), "delay": departed["dep_delay"]})
        .group_by(["carrier", "hour"])
        .aggregate([("delay", "count"), ("delay", "mean")])
    )
    answers: dict[Group, Answer] = {}
    for row in hourly.to_pylist():
        answers[row["carrier"], row["hour"], row["hour"] + _DAY // 24] = Answer(row["delay_count"], row["delay_mean"])
    return answers, _cancelled(cancelled)


def _cancelled(table: pa.Table) -> dict[Group, Answer]:
    local = table["scheduled_departure"].cast(pa.timestamp("us", TIME_ZONE))
    starts = _floor(local, "day")
    # A day ends at the start of the day that contains the instant 36 hours later: after 23, 24 or 25 hours.
    ends = _floor(pc.call_function("add", [starts, pa.scalar(_DAY * 3 // 2, pa.duration("us"))]), "day")
    counted: Counter[Any] = Counter(
        zip(
            table["carrier"].to_pylist(),
            starts.cast(pa.int64()).to_pylist(),
            ends.cast(pa.int64()).to_pylist(),
            strict=True,
        )
    )
    return {group: Answer(count) for group, count in counted.items()}


def _floor(times: Any, unit: str) -> Any:
    return pc.call_function("floor_temporal", [times], pc.RoundTemporalOptions(unit=unit))
