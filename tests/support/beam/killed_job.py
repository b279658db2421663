"""A stream of Beam's with two unbounded inputs, state and timers, as a program of its own, which a test kills.

Usage: python -m tests.support.beam.killed_job FOLDER POINT MICRO_BATCH MARK; see `tests.support.faults.killed_jobs`.
"""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import apache_beam as beam
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.unbounded_source import ReadFromUnboundedSource, UnboundedCountingSource
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.transforms import window
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.userstate import CombiningValueStateSpec, TimeDomain, TimerSpec, on_timer

from dataflow_model.beam import LocalRunner
from tests.support.faults.killed_jobs import killed_at

NUMBERS: Final = 120
"""How many numbers each of the keys of the splittable function has; two of them in each micro-batch."""
READ: Final = 90
"""How many numbers the unbounded source has."""
KEYS: Final = ("a", "b", "b")
_WINDOW: Final = 10
_COUNTED: Final = beam.metrics.Metrics.counter("numbers", "counted")
_EMITTED: Final = beam.metrics.Metrics.counter("numbers", "emitted")


class _Offsets(RestrictionProvider):  # type: ignore[misc] # Beam ships no types that mypy takes
    def initial_restriction(self, element: str) -> Any:
        del element
        return OffsetRange(0, NUMBERS)

    def create_tracker(self, restriction: Any) -> Any:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: str, restriction: Any) -> int:
        del element
        return int(restriction.size())


_OFFSETS: Final = _Offsets()
_ESTIMATOR: Final = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())


class InTwos(beam.DoFn):  # type: ignore[misc]
    """Puts out two numbers of each key whenever it is resumed, at as many seconds."""

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self, key: str, tracker: Any = beam.DoFn.RestrictionParam(_OFFSETS), estimator: Any = _ESTIMATOR
    ) -> Any:
        first = tracker.current_restriction().start
        for number in (first, first + 1):
            if not tracker.try_claim(number):
                return
            _COUNTED.inc()
            yield window.TimestampedValue((key, number), number)
        estimator.set_watermark(window.Timestamp(first + 2))
        tracker.defer_remainder()


class Totals(beam.DoFn):  # type: ignore[misc]
    """Keeps the sum and the number of the values of a key and window, and emits them at the end of the window."""

    SUM = CombiningValueStateSpec("sum", sum)
    COUNT = CombiningValueStateSpec("count", sum)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        total: Any = beam.DoFn.StateParam(SUM),
        count: Any = beam.DoFn.StateParam(COUNT),
        end: Any = beam.DoFn.TimerParam(END),
        in_window: Any = beam.DoFn.WindowParam,
    ) -> None:
        total.add(pair[1])
        count.add(1)
        end.set(in_window.end)

    @on_timer(END)  # type: ignore[untyped-decorator]
    def at_end(
        self,
        key: Any = beam.DoFn.KeyParam,
        total: Any = beam.DoFn.StateParam(SUM),
        count: Any = beam.DoFn.StateParam(COUNT),
    ) -> Any:
        _EMITTED.inc()
        yield key, total.read(), count.read()


def _shown(pair: tuple[str, int]) -> tuple[str, int]:
    _EMITTED.inc()
    return "in windows", pair[1]


def expected() -> dict[str, Any]:
    """Return what a run puts out that nothing happens to."""
    totals: dict[tuple[str, int], list[int]] = {}
    numbers = [(key, number) for key in KEYS for number in range(NUMBERS)]
    for key, number in [*numbers, *(("read", number) for number in range(READ))]:
        totals.setdefault((key, number // _WINDOW), []).append(number)
    lines = [str((key, sum(values), len(values))) for (key, _), values in totals.items()]
    lines += [str(("in windows", len(values))) for (key, _), values in totals.items() if key == "read"]
    return {"lines": sorted({*lines}), "counted": NUMBERS * len(KEYS), "emitted": len(lines)}


def build(pipeline: Any) -> tuple[Any, Any]:
    """Return the totals of each key and window, and how many numbers of the unbounded source each window has."""
    numbers = pipeline | beam.Create(KEYS) | beam.ParDo(InTwos())
    source = ReadFromUnboundedSource(UnboundedCountingSource(READ), max_records_per_bundle=3)
    read = pipeline | source | "keyed" >> beam.Map(lambda number: ("read", number))
    both = (numbers, read) | beam.Flatten()
    windows = both | beam.WindowInto(window.FixedWindows(_WINDOW))
    counts = windows | beam.Filter(lambda pair: pair[0] == "read") | beam.combiners.Count.PerKey()
    return windows | beam.ParDo(Totals()), counts | beam.Map(_shown)


def main(folder: Path, point: str, micro_batch: int, mark: str) -> None:
    """Run the pipeline from its checkpoint to its end, unless it is killed, and write what it has put out."""
    notes = folder / "notes"

    def note(element: Any) -> None:
        with notes.open("a") as file:
            file.write(f"{element}\n")

    with killed_at(point, micro_batch, mark):
        pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=folder / "checkpoint"))
        totals, sizes = build(pipeline)
        _ = totals | "totals" >> beam.Map(note)
        _ = sizes | "sizes" >> beam.Map(note)
        result = pipeline.run()
        result.wait_until_finish()
    counts_of: Counter[str] = Counter()
    for each in result.metrics().query()["counters"]:
        counts_of[each.key.metric.name] += each.committed
    # The lines are written at least once each, as Beam's functions write; what counts is committed exactly once.
    outcome = {"lines": sorted(set(notes.read_text().splitlines())), **counts_of}
    (folder / "collected.json").write_text(json.dumps(outcome))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4])
