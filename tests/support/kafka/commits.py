"""Claims and commits as a run makes them, on a sink alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.plan.endpoints.sinks import Fence

if TYPE_CHECKING:
    from dataflow_model.io.topics.sink import KafkaSink
    from dataflow_model.plan.columns.records import Record

__all__ = ["commit", "start"]


def start(sink: KafkaSink, sequencer: int) -> KafkaSink:
    """Return a sink as a start of a run uses it, which has claimed its topic."""
    started = sink.fenced(Fence("run", sequencer))
    started.claim()
    return started


def commit(sink: KafkaSink, number: int, *records: Record, start: int | None = None) -> None:
    """Commit records as a micro-batch that was planned by a start of the run, this one unless another is given."""
    assert sink.fence is not None
    commit_id = f"run-{sink.fence.sequencer if start is None else start:012x}-{number:08d}"
    writer = sink.open(commit_id, "0")
    writer.write(records)
    sink.commit(commit_id, [writer.close()])
