"""Streaming pipelines of Beam's on Spark, as a program that a test kills and starts again.

Usage: python -m tests.support.faults.beam_job FOLDER; the folder holds a pickled `BeamJob`. What it commits once is
what its functions count, since Beam's sinks are functions that write again when they are repeated.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import random
import sys
from typing import TYPE_CHECKING, Any, ClassVar, Final

import apache_beam as beam
import attrs
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.transforms import trigger, window
from apache_beam.transforms.userstate import BagStateSpec, TimeDomain, TimerSpec, on_timer

import dataflow_model as dm
from dataflow_model.beam import SparkRunner
from tests.support.beam import killed_job
from tests.support.faults.flights_job import SparkJob, main

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STEPS: Final = 60
_WIDTH: Final = 10


@attrs.frozen(kw_only=True)
class BeamJob(SparkJob):
    """One run of a pipeline, however often it is started.

    Attributes:
        builds: the name of the pipeline, one of `PIPELINES`.
    """

    builds: str = "script"
    program: ClassVar[str] = "tests.support.faults.beam_job"

    def run(self, spark: Any) -> dict[str, list[Any]]:
        """Run it to its end, and return what it has counted."""
        pipeline = beam.Pipeline(runner=_InSmallBatches(spark, self.rows_per_batch, str(self.checkpoint)))
        PIPELINES[self.builds](pipeline)
        result = pipeline.run()
        result.wait_until_finish()
        return counted(result)


class _InSmallBatches(SparkRunner):
    def __init__(self, spark: Any, rows: int, checkpoint: str) -> None:
        super().__init__(spark, checkpoint=checkpoint)
        self._session, self._rows = spark, rows

    def _runner(self, checkpoint: Any, master: str | None) -> Any:
        del master
        return dm.SparkRunner(self._session, "streaming", checkpoint=checkpoint, max_rows_per_batch=self._rows)


class Delayed(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Emits the sum of a key and window a while after its first value, and all of them at the end of the window."""

    VALUES = BagStateSpec("values", beam.coders.VarIntCoder())
    SOON = TimerSpec("soon", TimeDomain.REAL_TIME)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        at: Any = beam.DoFn.TimestampParam,
        values: Any = beam.DoFn.StateParam(VALUES),
        soon: Any = beam.DoFn.TimerParam(SOON),
        end: Any = beam.DoFn.TimerParam(END),
        of: Any = beam.DoFn.WindowParam,
    ) -> None:
        if not list(values.read()):
            soon.set(at + 5)
        values.add(pair[1])
        end.set(of.end)

    @on_timer(SOON)  # type: ignore[untyped-decorator]
    def at_soon(self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)) -> Any:
        yield f"soon {key}", sum(values.read())

    @on_timer(END)  # type: ignore[untyped-decorator]
    def at_end(self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)) -> Any:
        yield f"end {key}", sum(values.read())


class Counting(beam.DoFn):  # type: ignore[misc]
    """Counts each value, by its name and window."""

    def process(self, pair: Any, of: Any = beam.DoFn.WindowParam) -> None:
        beam.metrics.Metrics.counter("values", f"{pair[0]} {of.end}").inc(pair[1])


class CountingLines(beam.DoFn):  # type: ignore[misc]
    """Counts each line."""

    def process(self, line: str) -> None:
        beam.metrics.Metrics.counter("lines", line).inc()


def add_script(pipeline: Any) -> None:
    """Add state and timers, and panes, for a script whose values are distinct powers within a window."""
    rng = random.Random(5)
    script = BeamTestStream()
    for step in range(STEPS):
        values = [((f"k{rng.randrange(3)}", 1 << (step % 30)), step + rng.randrange(4)) for _ in range(3)]
        script = script.add_elements([window.TimestampedValue(*value) for value in values]).advance_processing_time(1)
        if step % 6 == 5:
            script = script.advance_watermark_to(step)
    into = beam.WindowInto(
        window.FixedWindows(_WIDTH),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(3)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )
    pairs = pipeline | script.advance_watermark_to_infinity() | into
    sums = pairs | beam.CombinePerKey(sum) | "named" >> beam.MapTuple(lambda key, value: (f"pane {key}", value))
    delayed = pairs | beam.ParDo(Delayed())
    _ = (sums, delayed) | beam.Flatten() | beam.ParDo(Counting())


def add_inputs(pipeline: Any) -> None:
    """Add a splittable function that defers its work and an unbounded source, with state and timers, and panes."""
    totals, sizes = killed_job.build(pipeline)
    _ = (totals, sizes) | "both" >> beam.Flatten() | "lines" >> beam.Map(str) | beam.ParDo(CountingLines())


PIPELINES: Final[Mapping[str, Callable[[Any], None]]] = {"script": add_script, "inputs": add_inputs}


def counted(result: Any) -> dict[str, list[Any]]:
    """Return the counters of a run."""
    counters = result.metrics().query()["counters"]
    return {"counters": sorted((each.key.metric.name, each.committed) for each in counters)}


if __name__ == "__main__":
    main(sys.argv[1])
