"""Streams in process, run step by step in the thread of the test: nothing sleeps, and every cut is the test's."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.plan.rewrites.rounds import in_rounds
from dataflow_model.runners.local.streaming import Options, opened_stream
from dataflow_model.runners.sharded.commits.progress import read_counters, read_measured, read_progress, read_watermarks
from dataflow_model.runners.sharded.commits.publishing import read_collected

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.runner import Clock
    from dataflow_model.runners.local.stream import LocalStream
    from dataflow_model.runners.reporting import Measured

__all__ = ["ROWS", "Stepped", "put_rows"]

ROWS: Final = pa.schema({"at": pa.int64(), "key": pa.string(), "n": pa.int64()})
"""The columns of what `put_rows` writes."""


@attrs.define
class Stepped:
    """A stream in process that a test steps through.

    Args:
        build: builds the pipeline.
        checkpoint: its directory.
        rows: how many rows or events a micro-batch reads at most.
        clock: the wall clock.
        interval: how long a round is, if it runs in rounds.
        max_state_memory: the bytes of memory for state.
        refresh_side_inputs: whether static side inputs are computed again.
    """

    build: Callable[[dm.Pipeline], Any]
    checkpoint: Path
    rows: int = 1_000
    clock: Clock | None = None
    interval: dm.Duration | None = None
    until: str | None = None
    max_state_memory: int | None = None
    refresh_side_inputs: bool = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[LocalStream]:
        """Start the run, where it was left; stop it at the end, whatever has happened."""
        pipeline = dm.Pipeline()
        self.build(pipeline)
        plan = pipeline.plan()
        plan = plan if self.interval is None else in_rounds(plan, self.interval)
        options = Options(
            str(self.checkpoint),
            self.clock,
            self.rows,
            dm.Duration(micros=10_000),
            self.max_state_memory,
            self.refresh_side_inputs,
        )
        with opened_stream(plan, options, until=self.until) as stream:
            yield stream

    def steps(self, count: int | None = None) -> int:
        """Start the run, step until there is nothing to do, at most so often, and stop; return how many did something.

        Args:
            count: how often; as often as there is anything to do if not given.
        """
        done = 0
        with self.opened() as stream:
            while not stream.is_over and (count is None or done < count) and stream.step():
                done += 1
        return done

    def is_over(self) -> bool:
        """Tell whether the input is over."""
        with self.opened() as stream:
            return stream.is_over

    def collected(self, label: str) -> list[Record]:
        """Return what a sink has received."""
        return read_collected(self._ours, label)

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return the counters."""
        pipeline = dm.Pipeline()
        self.build(pipeline)
        return read_counters(self._ours, pipeline.plan())

    def watermarks(self) -> Mapping[str, Any]:
        """Return the watermarks that the checkpoint notes, by label."""
        return read_watermarks(self._ours)

    def measured(self) -> Measured:
        """Return what reports are made of."""
        pipeline = dm.Pipeline()
        self.build(pipeline)
        return read_measured(self._ours, pipeline.plan())

    @property
    def commits(self) -> int:
        """How many micro-batches have been committed."""
        return int(read_progress(self._ours).get("commits", 0))

    @property
    def _ours(self) -> str:
        return str(self.checkpoint / "dataflow")


def put_rows(folder: Path, name: str, rows: Sequence[tuple[int, str, int]]) -> None:
    """Let a file of rows (`at` in seconds, `key`, `n`) appear whole."""
    folder.mkdir(parents=True, exist_ok=True)
    records = [{"at": at * 1_000_000, "key": key, "n": n} for at, key, n in rows]
    fresh = folder / f".{name}.fresh"
    pq.write_table(pa.Table.from_pylist(records, ROWS), fresh)
    fresh.rename(folder / f"{name}.parquet")
