"""Pipelines of Beam's as streams on Spark."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.io import unbounded_source
from apache_beam.io.unbounded_source import ReadFromUnboundedSource
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.transforms import trigger, window
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import BagStateSpec, TimeDomain, TimerSpec, on_timer

from dataflow_model.beam import SparkRunner
from tests.support.beam.programs import (
    PROGRAMS,
    READ_WITH_STATE,
    answers,
    state_and_timers,
    state_with_a_changing_side_input,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.spark]  # Beam's own

COUNTED = beam.metrics.Metrics.counter("lines", "noted")


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(program, marks=[pytest.mark.slow] * (program is not state_and_timers), id=program.__name__)
        for program in PROGRAMS
    ],
)
def test_a_program_gives_the_answers_of_beams_own_runner(program: Any, tmp_path: Path, spark: Any) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "beams").mkdir()
    ours = answers(program, SparkRunner(spark, checkpoint=tmp_path / "checkpoint"), tmp_path / "ours")
    assert ours == answers(program, FnApiRunner(), tmp_path / "beams")


class Delayed(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Emits the values of a key 5 s after the first one, by the clock, and at the end of its window."""

    VALUES = BagStateSpec("values", beam.coders.VarIntCoder())
    SOON = TimerSpec("soon", TimeDomain.REAL_TIME)
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        values: Any = beam.DoFn.StateParam(VALUES),
        soon: Any = beam.DoFn.TimerParam(SOON),
        end: Any = beam.DoFn.TimerParam(END),
        of: Any = beam.DoFn.WindowParam,
    ) -> None:
        if not list(values.read()):
            soon.set(window.Timestamp(5))
        values.add(pair[1])
        end.set(of.end)

    @on_timer(SOON)  # type: ignore[untyped-decorator]
    def at_soon(self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)) -> Any:
        yield f"soon {key} {sorted(values.read())}"

    @on_timer(END)  # type: ignore[untyped-decorator]
    def at_end(self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)) -> Any:
        yield f"end {key} {sorted(values.read())}"


def timed(value: int, at: int) -> Any:
    return window.TimestampedValue(("k", value), at)


def scripted(pipeline: Any, notes: Path) -> None:
    """Add a script with early and late panes, and state with timers in both domains, whose outputs are noted."""

    def note(line: str) -> None:
        COUNTED.inc()
        with notes.open("a") as file:
            file.write(f"{line}\n")

    script = (
        BeamTestStream()
        .add_elements([timed(1, 1)])
        .add_elements([timed(2, 2)])
        .advance_processing_time(6)
        .add_elements([timed(4, 3)])
        .advance_watermark_to(10)
        .add_elements([timed(8, 4)])
        .advance_watermark_to_infinity()
    )
    into = beam.WindowInto(
        window.FixedWindows(10),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(2), late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=100,
    )
    pairs = pipeline | script | into
    sums = pairs | beam.CombinePerKey(sum) | "pane" >> beam.Map(_shown)
    delayed = pairs | beam.ParDo(Delayed())
    _ = (sums, delayed) | beam.Flatten() | beam.Map(note)


def _shown(pair: Any, pane: Any = beam.DoFn.PaneInfoParam) -> str:
    return f"sum {pair[1]} {pane.index}"


NOTED = ["end k [1, 2, 4, 8]", "end k [1, 2, 4]", "soon k [1, 2]", "sum 15 2", "sum 3 0", "sum 7 1"]


def counted(result: Any) -> list[int]:
    return [counter.committed for counter in result.metrics().query()["counters"]]


def test_a_script_with_panes_state_and_timers_in_both_domains_repeats_nothing_when_it_is_started_again(
    tmp_path: Path, spark: Any
) -> None:
    for _ in range(2):
        runner = SparkRunner(spark)
        options = PipelineOptions(["--streaming", f"--dm_checkpoint={tmp_path / 'checkpoint'}"])
        pipeline = beam.Pipeline(runner=runner, options=options)
        scripted(pipeline, tmp_path / "notes")
        result = pipeline.run()
        assert result.wait_until_finish() == "DONE"
        assert sorted((tmp_path / "notes").read_text().splitlines()) == NOTED
        assert counted(result) == [len(NOTED)]


@pytest.mark.slow
def test_a_stream_that_is_cancelled_continues_when_it_is_started_again(tmp_path: Path, spark: Any) -> None:
    def run() -> Any:
        pipeline = beam.Pipeline(runner=SparkRunner(spark, checkpoint=tmp_path / "checkpoint"))
        scripted(pipeline, tmp_path / "notes")
        return pipeline.run()

    result = run()
    assert result.wait_until_finish(1) == "RUNNING"
    assert result.cancel() == "CANCELLED"
    result = run()
    assert result.wait_until_finish() == "DONE"
    assert counted(result) == [len(NOTED)]
    assert set((tmp_path / "notes").read_text().splitlines()) == set(NOTED)


@pytest.mark.parametrize(
    ("transform", "options", "reason"),
    [
        (beam.Create([1]), ["--streaming"], "--streaming asks for a stream"),
        ("ticks" >> BeamTestStream().advance_watermark_to_infinity(), [], "'ticks' has an unbounded output"),
        (  # its marks ask to be called when they are committed, which a batch job rejects as well
            "read" >> ReadFromUnboundedSource(unbounded_source.UnboundedCountingSource(1), max_records_per_bundle=1),
            [],
            "'read.*has an unbounded output",
        ),
    ],
    ids=["option", "script", "unbounded read"],
)
def test_a_stream_without_a_checkpoint_is_rejected_before_spark_is_used(
    transform: Any, options: list[str], reason: str
) -> None:
    pipeline = beam.Pipeline(runner=SparkRunner(), options=PipelineOptions(options))
    _ = pipeline | transform
    with pytest.raises(dm.UnsupportedOnRunner, match=rf"(?s){reason}.*got none.*Hint: pass --dm_checkpoint"):
        pipeline.run()


def periodic(pipeline: Any) -> Any:
    """Return the numbers of four impulses in windows of two seconds: an input that is unbounded, but ends."""
    impulses = pipeline | PeriodicImpulse(start_timestamp=0, stop_timestamp=4, fire_interval=1)
    pairs = impulses | beam.WindowInto(window.FixedWindows(2)) | "paired" >> beam.Map(lambda _: ("k", 1))
    return pairs | beam.CombinePerKey(sum)


def test_an_unbounded_input_that_ends_gives_its_results_and_ends_the_stream(tmp_path: Path, spark: Any) -> None:
    assert answers(periodic, SparkRunner(spark, checkpoint=tmp_path / "checkpoint"), tmp_path) == ["('k', 2)"] * 2


@pytest.mark.slow
def test_a_side_input_that_changes_is_read_by_a_function_with_state(tmp_path: Path, spark: Any) -> None:
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint")
    assert answers(state_with_a_changing_side_input, runner, tmp_path) == READ_WITH_STATE


class Mark(unbounded_source.CheckpointMark):  # type: ignore[misc]
    """How far a reader of a process has read, which is noted when the mark is finalized."""

    def __init__(self, last_index: int, reader: int, notes: Path) -> None:
        self.last_index, self.reader, self.notes = last_index, reader, notes

    def finalize_checkpoint(self) -> None:
        with self.notes.open("a") as file:
            file.write(f"{self.last_index} {os.getpid() == self.reader}\n")


class MarkingReader(unbounded_source._CountingReader):  # type: ignore[misc]
    """Reads the numbers of the source."""

    def __init__(self, count: int, begin: int, notes: Path) -> None:
        super().__init__(count, begin)
        self._notes = notes

    def get_checkpoint_mark(self) -> Any:
        return Mark(super().get_checkpoint_mark().last_index, os.getpid(), self._notes)


class Marking(unbounded_source.UnboundedCountingSource):  # type: ignore[misc]
    """Numbers, whose marks note that they are finalized."""

    def __init__(self, count: int, notes: Path) -> None:
        super().__init__(count)
        self._notes = notes

    def create_reader(self, options: Any, checkpoint_mark: Any) -> Any:
        return MarkingReader(self._count, 0 if checkpoint_mark is None else checkpoint_mark.last_index + 1, self._notes)


@pytest.mark.slow
def test_marks_of_an_unbounded_source_are_finalized_where_they_were_made_after_their_commit(
    tmp_path: Path, spark: Any
) -> None:
    notes = tmp_path / "finalized"
    pipeline = beam.Pipeline(runner=SparkRunner(spark, checkpoint=tmp_path / "checkpoint"))
    read = pipeline | ReadFromUnboundedSource(Marking(1_000_000, notes), max_records_per_bundle=10)
    _ = read | beam.Map(str) | dm.beam.Write(dm.io.WriteText(tmp_path / "read"))
    result = pipeline.run()
    until = time.monotonic() + 300
    while not notes.exists() and time.monotonic() < until:
        time.sleep(0.1)
    published = {int(line) for file in (tmp_path / "read").glob("*.txt") for line in file.read_text().split()}
    result.cancel()
    numbers = [line.split() for line in notes.read_text().splitlines()]
    assert {is_here for _, is_here in numbers} == {"True"}
    finalized = [int(number) for number, _ in numbers]
    assert finalized == sorted(set(finalized))
    assert all(number % 10 == 9 for number in finalized)
    assert published.issuperset(range(finalized[0] + 1))


def test_a_function_that_is_to_be_called_after_a_commit_is_rejected_where_the_input_is_read() -> None:
    class Finalized(beam.DoFn):  # type: ignore[misc]
        def process(self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> Any:
            finalizer.register(print)
            yield element

    pipeline = beam.Pipeline(runner=SparkRunner(checkpoint="unused"))
    _ = pipeline | beam.Create([1], reshuffle=False) | "finalized" >> beam.ParDo(Finalized())
    with pytest.raises(dm.UnsupportedOnRunner, match=r"(?s)'finalized' asks to be called.*Hint: put beam.Reshuffle"):
        pipeline.run()


class Ended(window.NonMergingWindowFn):  # type: ignore[misc]
    """Assigns windows that have ended before the element, the later ones in both orders."""

    def assign(self, assign_context: Any) -> Any:
        at = assign_context.timestamp
        return [window.IntervalWindow(-20, -10), window.IntervalWindow(at - 5, at)]

    def get_window_coder(self) -> Any:
        return beam.coders.coders.IntervalWindowCoder()


class Together(window.WindowFn):  # type: ignore[misc]
    """Assigns windows of one instant, and merges all of a key, however far they are apart."""

    def assign(self, assign_context: Any) -> Any:
        return [window.IntervalWindow(assign_context.timestamp, assign_context.timestamp + 1)]

    def merge(self, merge_context: Any) -> None:
        if len(merge_context.windows) > 1:
            merge_context.merge(merge_context.windows, window.IntervalWindow(0, 100))

    def get_window_coder(self) -> Any:
        return beam.coders.coders.IntervalWindowCoder()


def in_windows_of_the_programs_own(pipeline: Any) -> Any:
    """Return sums, and what a stateful function emits, in windows that have ended or are apart before they merge."""
    pairs = pipeline | beam.Create([("a", 7), ("a", 8), ("b", 1), ("a", 7), ("a", 50)])
    stamped = pairs | beam.Map(lambda pair: window.TimestampedValue(pair, pair[1]))
    ended = stamped | "ended" >> beam.WindowInto(Ended())
    lines = (
        ended | beam.CombinePerKey(sum) | "sums" >> beam.Map(repr),
        ended | "kept" >> beam.ParDo(Kept()),
        stamped | "together" >> beam.WindowInto(Together()) | beam.GroupByKey() | beam.MapTuple(_sorted),
    )
    return lines | beam.Flatten()


def _sorted(key: str, values: Any) -> str:
    return f"{key} {sorted(values)}"


class Kept(beam.DoFn):  # type: ignore[misc]
    """Emits the values of a key and window at its end."""

    VALUES = BagStateSpec("values", beam.coders.VarIntCoder())
    END = TimerSpec("end", TimeDomain.WATERMARK)

    def process(
        self,
        pair: Any,
        values: Any = beam.DoFn.StateParam(VALUES),
        end: Any = beam.DoFn.TimerParam(END),
        of: Any = beam.DoFn.WindowParam,
    ) -> None:
        values.add(pair[1])
        end.set(of.end)

    @on_timer(END)  # type: ignore[untyped-decorator]
    def at_end(self, key: Any = beam.DoFn.KeyParam, values: Any = beam.DoFn.StateParam(VALUES)) -> Any:
        yield f"kept {key} {sorted(values.read())}"


@pytest.mark.parametrize("is_stream", [False, True])
def test_window_functions_of_the_programs_own_give_the_answers_of_beams_own_runner(
    is_stream: bool, tmp_path: Path, spark: Any
) -> None:
    for name in ("ours", "beams"):
        (tmp_path / name).mkdir()
    runner = SparkRunner(spark, checkpoint=tmp_path / "checkpoint" if is_stream else None)
    ours = answers(in_windows_of_the_programs_own, runner, tmp_path / "ours")
    assert ours == answers(in_windows_of_the_programs_own, FnApiRunner(), tmp_path / "beams")
