"""The latency benchmark's keyed stage as a pipeline, on any runner, or in a process of its own."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import dataflow_model as dm

if TYPE_CHECKING:
    from multiprocessing.synchronize import Event
    from pathlib import Path

    from dataflow_model.plan.logical.runner import Runner

__all__ = ["CountingProcess", "count_by_us"]


class _Count(dm.DoFn):
    """Number the records of each key."""

    count = dm.CombiningStateSpec(dm.Count())

    def process(self, pair: tuple[int, Any], count: Any) -> list[dict[str, int]]:
        """Give each record its number."""
        key, row = pair
        count.add(row)
        return [{"key": key, "count": count.read(), "n": row.n, "sent": row.sent}]


def count_by_us(runner: Runner, source: Path, out: Path) -> Any:
    """Start numbering the records of each key."""
    pipeline = dm.Pipeline(runner=runner)
    schema = pa.schema({name: pa.int64() for name in ("key", "count", "n", "sent")})
    _ = (
        pipeline
        | dm.io.ReadParquet(source, event_time=dm.ARRIVAL, follow=True)
        | dm.WithKeys("key")
        | dm.ParDo(_Count())
        | dm.io.WriteJson(out, schema=schema)
    )
    return pipeline.run()


def _count(source: Path, out: Path, checkpoint: Path, over: Event) -> None:
    result = count_by_us(dm.LocalRunner(checkpoint=str(checkpoint)), source, out)
    over.wait()
    result.stop()


class CountingProcess:
    """The pipeline on LocalRunner in a process of its own, which shares no interpreter with the watcher.

    Args:
        source, out, checkpoint: the directories.
    """

    def __init__(self, source: Path, out: Path, checkpoint: Path) -> None:
        context = multiprocessing.get_context("spawn")
        self._over = context.Event()
        self._process = context.Process(target=_count, args=(source, out, checkpoint, self._over), daemon=True)
        self._process.start()

    def stop(self) -> None:
        """Stop the run, and wait for its process."""
        self._over.set()
        self._process.join()
