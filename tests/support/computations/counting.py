"""Computations whose answer depends on event times alone, so that a bounded job gives what a punctual stream does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm

if TYPE_CHECKING:
    from pathlib import Path

LENGTH = 20
"""Of a bucket, in microseconds."""


class Counter(dm.Computation):
    """Counts the rows of a key in buckets, each told when the watermark is at its end."""

    coder = dm.PickleCoder()

    def process_record(self, record: dm.StreamRecord) -> None:
        counts = self.state.read() or {}
        end = (int(record.timestamp) // LENGTH + 1) * LENGTH
        counts[end] = counts.get(end, 0) + 1
        self.state.write(counts)
        self.set_timer(str(end), dm.EventTime(end))

    def process_timer(self, timer: dm.FiredTimer) -> None:
        counts = self.state.read()
        self.produce(dm.StreamRecord(self.key, counts.pop(int(timer.tag)), timer.timestamp), "counts")
        self.state.write(counts)


class Busiest(dm.Computation):
    """Tells of each bucket the greatest count, over the keys that share a parity, and the number of rows in it."""

    coder = dm.PickleCoder()

    def process_record(self, record: dm.StreamRecord) -> None:
        buckets = self.state.read() or {}
        at = int(record.timestamp)
        end = at if record.stream == "counts" else (at // LENGTH + 1) * LENGTH
        counts, rows = buckets.get(end, ((), 0))
        buckets[end] = (counts, rows + 1) if record.stream == "rows" else ((*counts, record.value), rows)
        self.state.write(buckets)
        self.set_timer(str(end), dm.EventTime(end))

    def process_timer(self, timer: dm.FiredTimer) -> None:
        buckets = self.state.read()
        counts, rows = buckets.pop(int(timer.tag))
        summary = max(counts, default=0), len(counts), rows
        self.produce(dm.StreamRecord(self.key, summary, timer.timestamp), "busiest")
        self.state.write(buckets)


def counting(folder: Path) -> dm.Topology:
    """Return a topology over rows that were seen as they happened."""
    topology = dm.Topology("counting")
    topology.inject("rows", dm.io.ReadParquet(folder, event_time="at", processing_time="seen"))
    topology.add(Counter(), subscribe={"rows": lambda row: row.key}, produces=["counts"])
    both = {"counts": lambda count: count % 2, "rows": lambda row: row.n % 2}
    topology.add(Busiest(), subscribe=both, produces=["busiest"])
    topology.sink("counts", dm.io.Collect())
    topology.sink("busiest", dm.io.Collect())
    return topology


def values_of(result: Any, sink: str) -> list[Any]:
    """Return the values in a sink, sorted."""
    return sorted((record.value, int(record.event_time)) for record in result.collected(sink))
