"""Streams of Beam's pipelines on Spark end when Spark has recorded their last commit."""

# Beam may not be installed.
# pyright: reportMissingImports=false

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import attrs
import pytest

from dataflow_model.runners.sharded.tasks import faults
from dataflow_model.runners.spark.deployment.session import settings_of

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.utils.timestamp import Duration

from dataflow_model.beam import SparkRunner

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.spark]  # Beam's own


class Three(RestrictionProvider):  # type: ignore[misc]
    """Three positions for each element."""

    def initial_restriction(self, element: str) -> Any:
        del element
        return OffsetRange(0, 3)

    def create_tracker(self, restriction: Any) -> Any:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: str, restriction: Any) -> int:
        del element
        return int(restriction.size())


THREE = Three()


class NowAndThen(beam.DoFn):  # type: ignore[misc]
    """Emits its positions, each three seconds after the one before."""

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(self, element: str, tracker: Any = beam.DoFn.RestrictionParam(THREE)) -> Any:
        del element
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield position
            tracker.defer_remainder(Duration(3))


@attrs.frozen
class SlowRecord(faults.Fault):
    """Waits between the publishing of a micro-batch and the moment when Spark records its commit."""

    def reach(self, point: str, micro_batch: int) -> None:
        del micro_batch
        if point == "after_progress":
            time.sleep(0.5)


def test_a_stream_whose_last_work_was_deferred_ends_when_spark_has_recorded_its_commit(
    tmp_path: Path, spark: Any
) -> None:
    """Spark reports an idle query with the number of the micro-batch to come, which has not been committed."""

    def note(position: int) -> None:
        with (tmp_path / "notes").open("a") as file:
            file.write(f"{position}\n")

    faults.arm(SlowRecord())
    try:
        for _ in range(2):
            with settings_of(spark, {"spark.sql.streaming.noDataProgressEventInterval": "0"}):
                pipeline = beam.Pipeline(runner=SparkRunner(spark, checkpoint=tmp_path / "checkpoint"))
                _ = pipeline | beam.Create(["element"]) | beam.ParDo(NowAndThen()) | beam.Map(note)
                result = pipeline.run()
            assert result.wait_until_finish() == "DONE"
            assert (tmp_path / "notes").read_text().split() == ["0", "1", "2"]
    finally:
        faults.disarm()
