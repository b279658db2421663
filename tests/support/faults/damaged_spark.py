"""A stream on Spark whose checkpoint has every kind of part, stopped, to be damaged and opened again."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.runners.sharded.checkpoint.requests import drain_requests, pending_signals, request_signal
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.sharded.commits.publishing import read_collected
from dataflow_model.runners.sharded.outputs.publication import Publication
from dataflow_model.runners.spark import streaming as stream_on_spark
from tests.support.faults.damage import StoppedFolder
from tests.support.faults.damaged_local import SINKS, everything, lines_of, put
from tests.support.pipelines import streaming
from tests.support.waiting import wait_for_batch

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.runners.sharded.directory import Checkpoint
    from dataflow_model.runners.sharded.tasks.program import Program

__all__ = ["StoppedSpark"]

_SINKS: Final = (*SINKS, "of the frame", "lengths")


@attrs.define
class StoppedSpark(StoppedFolder):
    """A stopped run, which can be started again from there any number of times.

    Args:
        spark: the session.
        folder: where everything is.
        is_older: whether the run was stopped once before, so that there are older files to replace the newer ones.
    """

    spark: SparkSession
    folder: Path
    is_older: bool

    def __attrs_post_init__(self) -> None:
        """Run some micro-batches, and keep the checkpoint and the output as they are then."""
        put(self.folder / "rows", 0)
        if self.is_older:
            self._run_until(0)
            shutil.copytree(self.work, self.earlier)
        put(self.folder / "rows", 1, 2)
        self._run_until(2)
        request_signal(self.checkpoint / "dataflow" / "requests", "flush")
        shutil.copytree(self.work, self.kept)
        put(self.folder / "rows", 4)

    def opened(self) -> dict[str, Any]:
        """Go through the steps of a start up to the query, and return what they have read."""

        def stop_here(_: Any, checkpoint: Checkpoint, program: Program, *rest: Any) -> None:
            del rest
            raise _Opened(checkpoint, program)

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(stream_on_spark, "_start_query", stop_here)
            with pytest.raises(_Opened) as opened:
                self._start("drained")
        checkpoint, program = opened.value.args
        ours = checkpoint.common_part
        sources = {read.label: read.source.as_columns for read in program.staged.sources}
        return {
            "record": checkpoint.record,
            "progress": read_progress(ours),
            "publishing": Publication.read(ours),
            "requests": (drain_requests(checkpoint.requests), pending_signals(checkpoint.requests)),
            "columns": {label: source.schema() for label, source in sources.items() if source is not None},
            "frame": [batch.to_pylist() for batch in sources["frame"].read("dataframe", 0, None)],
            "collected": {sink: list(map(repr, read_collected(ours, sink))) for sink in _SINKS},
        }

    def finish(self) -> dict[str, Any]:
        """Go on with the run to its end, and return what it has output."""
        result = self._start("drained")
        result.wait_until_finish()
        outcome: dict[str, Any] = {"files": lines_of(self.work / "out"), "metrics": result.metrics()["read"]}
        return outcome | {sink: sorted(repr(record.value) for record in result.collected(sink)) for sink in _SINKS}

    def _run_until(self, batch: int) -> None:
        result = self._start(None)
        wait_for_batch(result, batch)
        result.stop()

    def _start(self, until: Any) -> Any:
        p = dm.Pipeline(runner=streaming(self.spark, self.checkpoint, shards=2, max_rows_per_batch=10))
        read = p | "read" >> dm.io.ReadJson(self.folder / "rows", event_time="at", follow=True)
        everything(p, read, self.work / "out")
        rows = self.spark.createDataFrame([(number, number % 2) for number in range(6)], "at long, n long")
        frame = p | "frame" >> dm.io.ReadDataFrame(rows, event_time="at")
        _ = frame | "of the frame" >> dm.io.Collect()
        retracting = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterCount(2)))
        keys = read | "keys" >> dm.Map(lambda row: (row.key, 1)).with_output_types(tuple[str, int])
        counts = keys | "twos" >> retracting.accumulating_and_retracting() | "counts" >> dm.Sum.per_key()
        _ = counts | "memoise" >> dm.Map(str).retractable("memoised") | "lengths" >> dm.io.Collect()
        return p.run(until=until)


class _Opened(Exception):
    """What ends a start in the place of the query."""
