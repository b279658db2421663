"""Splittable functions of Beam's that may never end, and what is made of them, on the hosts in process."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.io import unbounded_source
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.portability import common_urns
from apache_beam.portability.api import beam_runner_api_pb2 as proto
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.transforms import trigger, window
from apache_beam.transforms.core import RestrictionProvider
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.userstate import ReadModifyWriteStateSpec, TimeDomain, TimerSpec, on_timer

from dataflow_model.beam import LocalRunner
from tests.support.beam.killed_job import Totals
from tests.support.beam.programs import (
    READ_WITH_STATE,
    answers,
    state_with_a_changing_side_input,
    state_with_a_side_input,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


@pytest.fixture(params=["bounded", "stream"])
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> LocalRunner:
    return LocalRunner() if request.param == "bounded" else LocalRunner(checkpoint=tmp_path / "checkpoint")


class Notes:
    """Lines in a file, which a pipeline writes.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, element: Any) -> None:
        with self.path.open("a") as file:
            file.write(f"{element}\n")

    @property
    def lines(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def test_an_input_that_ends_gives_its_results_and_ends_the_run(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    ticks = pipeline | PeriodicImpulse(start_timestamp=0, stop_timestamp=25, fire_interval=1)
    counts = ticks | beam.WindowInto(window.FixedWindows(10)) | beam.CombineGlobally(sum).without_defaults()
    _ = counts | beam.Map(notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert notes.lines == ["45", "145", "110"]


class Offsets(RestrictionProvider):  # type: ignore[misc] # Beam ships no types that mypy takes
    """The positions up to an element's second part, in a restriction that a drain cuts after the next two."""

    def initial_restriction(self, element: tuple[str, int]) -> Any:
        return OffsetRange(0, element[1])

    def create_tracker(self, restriction: Any) -> Any:
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element: Any, restriction: Any) -> int:
        return int(restriction.size())

    def truncate(self, element: Any, restriction: Any) -> Any:
        return OffsetRange(restriction.start, min(restriction.start + 2, restriction.stop))


OFFSETS = Offsets()
ESTIMATOR = beam.DoFn.WatermarkEstimatorParam(ManualWatermarkEstimator.default_provider())
ENDLESS = 1 << 40


class Stepwise(beam.DoFn):  # type: ignore[misc]
    """Puts out a number of each element whenever it is resumed, at as many seconds."""

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(
        self,
        element: Any,
        tracker: Any = beam.DoFn.RestrictionParam(OFFSETS),
        estimator: Any = ESTIMATOR,
    ) -> Any:
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield window.TimestampedValue((element[0], position), position)
            estimator.set_watermark(window.Timestamp(position + 1))
            tracker.defer_remainder()


class NeverDeferring(beam.DoFn):  # type: ignore[misc]
    """Puts out all numbers of an element, and never defers any."""

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(self, element: Any, tracker: Any = beam.DoFn.RestrictionParam(OFFSETS)) -> Any:
        position = tracker.current_restriction().start
        while tracker.try_claim(position):
            yield element[0], position
            position += 1


class WithAdded(beam.DoFn):  # type: ignore[misc]
    """As `Stepwise`, with the sum of a side input."""

    @beam.DoFn.unbounded_per_element()  # type: ignore[untyped-decorator]
    def process(self, element: Any, added: Any, tracker: Any = beam.DoFn.RestrictionParam(OFFSETS)) -> Any:
        position = tracker.current_restriction().start
        if tracker.try_claim(position):
            yield element[0], position + added
            tracker.defer_remainder()


class SoonAfter(beam.DoFn):  # type: ignore[misc]
    """Emits a line 1 ms of the clock after an element."""

    SOON = TimerSpec("soon", TimeDomain.REAL_TIME)

    def process(self, pair: Any, soon: Any = beam.DoFn.TimerParam(SOON)) -> None:
        soon.set(window.Timestamp.now() + 0.001)

    @on_timer(SOON)  # type: ignore[untyped-decorator]
    def at_soon(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield f"soon after {key}"


FINALIZED: list[int] = []


class Mark(unbounded_source.CheckpointMark):  # type: ignore[misc]
    """The last number that was read."""

    def __init__(self, last_index: int) -> None:
        self.last_index = last_index

    def finalize_checkpoint(self) -> None:
        FINALIZED.append(self.last_index)


class FinalizingReader(unbounded_source._CountingReader):  # type: ignore[misc]
    """Reads the numbers of the source."""

    def get_checkpoint_mark(self) -> Any:
        return Mark(super().get_checkpoint_mark().last_index)


class Finalizing(unbounded_source.UnboundedCountingSource):  # type: ignore[misc]
    """Numbers, whose marks note in this process that they are finalized."""

    def create_reader(self, options: Any, checkpoint_mark: Any) -> Any:
        return FinalizingReader(self._count, 0 if checkpoint_mark is None else checkpoint_mark.last_index + 1)


def noted(elements: Any, notes: Notes) -> Any:
    """Note the totals of each key in windows of 10 seconds."""
    return elements | beam.WindowInto(window.FixedWindows(10)) | beam.ParDo(Totals()) | beam.Map(notes)


def test_equal_elements_are_worked_on_side_by_side(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    _ = noted(pipeline | beam.Create([("a", 12), ("a", 12), ("b", 3), ("c", 0)]) | beam.ParDo(Stepwise()), notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert sorted(notes.lines) == ["('a', 42, 4)", "('a', 90, 20)", "('b', 3, 3)"]


def test_an_element_in_several_windows_is_worked_on_in_each(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    timed = pipeline | beam.Create([("a", 3)]) | beam.Map(lambda pair: window.TimestampedValue(pair, 7))
    worked = timed | beam.WindowInto(window.SlidingWindows(10, 5)) | beam.ParDo(NeverDeferring())
    _ = worked | beam.ParDo(Totals()) | beam.Map(notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert notes.lines == ["('a', 3, 3)"] * 2


def test_side_inputs_are_there_whenever_the_work_goes_on(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    added = beam.pvalue.AsSingleton(pipeline | "added" >> beam.Create([10]))
    _ = noted(pipeline | beam.Create([("a", 3), ("b", 2)]) | beam.ParDo(WithAdded(), added), notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert sorted(notes.lines) == ["('a', 33, 3)", "('b', 21, 2)"]


def test_an_unbounded_source_is_read_to_its_end(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    read = pipeline | beam.io.Read(unbounded_source.UnboundedCountingSource(25, is_splittable=True))
    _ = noted(read | beam.Map(lambda number: ("k", number)), notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert sorted(notes.lines) == ["('k', 110, 5)", "('k', 145, 10)", "('k', 45, 10)"]


def test_marks_of_an_unbounded_source_are_finalized_in_order(runner: LocalRunner) -> None:
    pipeline = beam.Pipeline(runner=runner)
    source = Finalizing(25)
    _ = pipeline | unbounded_source.ReadFromUnboundedSource(source, max_records_per_bundle=10)
    FINALIZED.clear()
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert FINALIZED == [9, 19, 24]


def test_a_timer_in_processing_time_behind_it_fires(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    numbers = pipeline | beam.Create([("a", ENDLESS)]) | beam.ParDo(Stepwise())
    _ = numbers | beam.WindowInto(window.FixedWindows(10)) | beam.ParDo(SoonAfter()) | beam.Map(notes)
    result = pipeline.run()
    while not notes.lines:
        assert result.wait_until_finish(10) == "RUNNING"
    result.cancel()
    assert notes.lines[0] == "soon after a"


def test_work_behind_a_script_goes_on_after_its_end(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")

    def worked(runner: LocalRunner) -> Any:
        script = BeamTestStream().advance_watermark_to(5).add_elements([window.TimestampedValue(("a", 3), 7)])
        pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(["--streaming"]))
        _ = pipeline | script | "worked" >> beam.ParDo(NeverDeferring()) | beam.Map(notes)
        return pipeline.run()

    with pytest.raises(dm.UnsupportedOnRunner, match=r"'worked.* may never end, and waits for a clock"):
        worked(LocalRunner(checkpoint=tmp_path / "checkpoint"))
    assert worked(LocalRunner()).wait_until_finish(60_000) == "DONE"
    assert notes.lines == ["('a', 0)", "('a', 1)", "('a', 2)"]


def test_work_that_never_ends_gives_its_results_until_it_is_cancelled(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    _ = noted(pipeline | beam.Create([("a", ENDLESS)]) | beam.ParDo(Stepwise()), notes)
    result = pipeline.run()
    while len(notes.lines) < 2:
        assert result.wait_until_finish(10) == "RUNNING"
    assert result.cancel() == "CANCELLED"
    assert notes.lines[:2] == ["('a', 45, 10)", "('a', 145, 10)"]


def test_a_function_that_never_defers_makes_room_nevertheless(
    runner: LocalRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dataflow_model.runners.beam.functions.hooks.CLAIMS", 100)
    first, second = Notes(tmp_path / "first"), Notes(tmp_path / "second")
    pipeline = beam.Pipeline(runner=runner)
    numbers = pipeline | beam.Create([("a", ENDLESS), ("b", ENDLESS)]) | beam.ParDo(NeverDeferring())
    _ = numbers | "a" >> beam.Filter(lambda pair: pair[0] == "a" and pair[1] % 100 == 0) | "first" >> beam.Map(first)
    _ = numbers | "b" >> beam.Filter(lambda pair: pair[0] == "b" and pair[1] % 100 == 0) | "second" >> beam.Map(second)
    result = pipeline.run()
    while len(first.lines) < 5 or len(second.lines) < 5:
        assert result.wait_until_finish(10) == "RUNNING"
    result.cancel()
    for key, notes in (("a", first), ("b", second)):
        assert notes.lines[:5] == [f"('{key}', {number})" for number in range(0, 500, 100)]


def test_a_stream_that_is_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    for stop in (1, 2, None):
        pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=tmp_path / "checkpoint"))
        _ = noted(pipeline | beam.Create([("a", 40), ("b", 25)]) | beam.ParDo(Stepwise()), notes)
        result = pipeline.run()
        while stop is not None and len(notes.lines) < stop:
            result.wait_until_finish(10)
        assert result.cancel() if stop else result.wait_until_finish(60_000) == "DONE"
    assert sorted(notes.lines) == sorted([
        *(f"('a', {45 + 100 * tens}, 10)" for tens in range(4)), "('b', 45, 10)", "('b', 145, 10)", "('b', 110, 5)",
    ])  # fmt: skip


def test_a_stream_that_is_drained_truncates_what_is_left_once(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=tmp_path / "checkpoint"))
    numbers = pipeline | beam.Create([("a", ENDLESS)]) | beam.ParDo(Stepwise())
    _ = noted(numbers, notes)
    seen = Notes(tmp_path / "seen")
    _ = numbers | "seen" >> beam.Map(lambda pair: seen(pair[1]))
    result = pipeline.run()
    while len(notes.lines) < 1:
        assert result.wait_until_finish(10) == "RUNNING"
    result.ours.drain()
    assert result.wait_until_finish(60_000) == "DRAINED"
    assert seen.lines == [str(number) for number in range(len(seen.lines))]
    totals = [line.strip("()").split(", ") for line in notes.lines]
    assert sum(int(count) for _, _, count in totals) == len(seen.lines)


def test_a_run_with_work_left_is_not_carried_over_and_not_said_to_be_complete(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=tmp_path / "checkpoint"))
    _ = noted(pipeline | beam.Create([("a", ENDLESS)]) | beam.ParDo(Stepwise()), notes)
    result = pipeline.run()
    while not notes.lines:
        assert result.wait_until_finish(10) == "RUNNING"
    result.cancel()
    with pytest.raises(dm.CheckpointMismatch, match=r"(?s)work on it that may never end goes on.*Hint: go on with"):
        dm.upgrade(tmp_path / "checkpoint", tmp_path / "new")


def test_a_run_that_is_drained_from_the_start_truncates_each_restriction(tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=LocalRunner(is_drain=True))
    _ = noted(pipeline | beam.Create([("a", ENDLESS)]) | beam.ParDo(Stepwise()), notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert notes.lines == ["('a', 1, 2)"]


def test_a_side_input_that_changes_slowly_is_read_by_windows(runner: LocalRunner, tmp_path: Path) -> None:
    notes = Notes(tmp_path / "notes")
    pipeline = beam.Pipeline(runner=runner)
    times = {"start_timestamp": 0, "stop_timestamp": 30, "apply_windowing": True}
    tables = pipeline | "tables" >> PeriodicImpulse(fire_interval=10, **times)
    ticks = pipeline | "ticks" >> PeriodicImpulse(fire_interval=5, **times)
    paired = ticks | beam.Map(
        lambda tick, tables: (float(tick), [float(at) for at in tables]), beam.pvalue.AsIter(tables)
    )
    _ = paired | beam.Map(notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    assert sorted(notes.lines) == sorted(f"({at:.1f}, [{at // 10 * 10:.1f}])" for at in range(0, 30, 5))


def test_a_side_input_that_changes_is_rejected_where_work_may_never_end() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    ticks = pipeline | "ticks" >> PeriodicImpulse(start_timestamp=0, stop_timestamp=3, fire_interval=1)
    _ = pipeline | beam.Create([("a", 1)]) | "worked" >> beam.ParDo(WithAdded(), beam.pvalue.AsSingleton(ticks))
    with pytest.raises(dm.UnsupportedOnRunner, match=r"(?s)'worked.* may never end, and has a side input.*Hint"):
        pipeline.run()


def test_a_side_input_that_changes_slowly_is_read_by_a_function_with_state(runner: LocalRunner, tmp_path: Path) -> None:
    assert answers(state_with_a_changing_side_input, runner, tmp_path) == READ_WITH_STATE


class Numbered(beam.DoFn):  # type: ignore[misc]
    """Emits the number of each element of a key, and the values of a side input then."""

    NUMBER = ReadModifyWriteStateSpec("number", beam.coders.VarIntCoder())

    def process(self, pair: Any, side: Any, number: Any = beam.DoFn.StateParam(NUMBER)) -> Any:
        number.write((number.read() or 0) + 1)
        yield "stateful", pair[1], sorted(side), number.read()


def test_a_function_with_state_reads_what_one_without_reads_at_each_element(
    runner: LocalRunner, tmp_path: Path
) -> None:
    notes = Notes(tmp_path / "notes")
    script = BeamTestStream()
    for number in range(4):
        script = script.add_elements([10 * number], tag="side").add_elements([("a", number)], tag="main")
    script = script.advance_watermark_to_infinity("side").advance_watermark_to_infinity("main")
    pipeline = beam.Pipeline(runner=runner)
    outputs: Any = pipeline | script
    at_once = beam.WindowInto(
        window.GlobalWindows(),
        trigger=trigger.Repeatedly(trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.DISCARDING,
    )
    side = beam.pvalue.AsIter(outputs["side"] | at_once)
    _ = outputs["main"] | "stateful" >> beam.ParDo(Numbered(), side) | "noted" >> beam.Map(notes)
    stateless = outputs["main"] | beam.Map(lambda pair, side: ("stateless", pair[1], sorted(side)), side)
    _ = stateless | beam.Map(notes)
    assert pipeline.run().wait_until_finish(60_000) == "DONE"
    read = [[0], [0, 10], [0, 10, 20], [0, 10, 20, 30]]
    assert sorted(notes.lines) == [
        *(f"('stateful', {number}, {values}, {number + 1})" for number, values in enumerate(read)),
        *(f"('stateless', {number}, {values})" for number, values in enumerate(read)),
    ]


def test_a_side_input_that_changes_is_read_by_a_function_with_state_after_a_restart(tmp_path: Path) -> None:
    def run() -> Any:
        pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=tmp_path / "checkpoint"))
        _ = state_with_a_changing_side_input(pipeline) | beam.Map(notes)
        return pipeline.run()

    notes = Notes(tmp_path / "notes")
    result = run()
    while len(notes.lines) < 3:
        assert result.wait_until_finish(10) in {"RUNNING", "DONE"}
    result.cancel()
    assert run().wait_until_finish(60_000) == "DONE"
    assert sorted(set(notes.lines)) == READ_WITH_STATE


def test_a_side_input_that_does_not_change_is_read_by_a_function_with_state(
    runner: LocalRunner, tmp_path: Path
) -> None:
    assert answers(state_with_a_side_input, runner, tmp_path) == ["('a', 11)", "('a', 14)", "('b', 12)"]


def test_an_error_of_a_function_names_its_transform(runner: LocalRunner) -> None:
    pipeline = beam.Pipeline(runner=runner)
    _ = pipeline | beam.Create([("a", "no number")]) | "worked" >> beam.ParDo(Stepwise())
    with pytest.raises(TypeError, match="while running 'worked"):
        pipeline.run().wait_until_finish(60_000)


def test_it_is_rejected_where_the_run_ends_with_its_input(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(runner=LocalRunner(workers=2))
    _ = pipeline | "ticks" >> PeriodicImpulse(fire_interval=1) | beam.Map(lambda _: (tmp_path / "ran").touch())
    with pytest.raises(dm.UnsupportedOnRunner, match=r"(?s)'ticks/GenSequence.*may not end.*Hint"):
        pipeline.run()
    assert not (tmp_path / "ran").exists()


def test_a_read_of_another_unbounded_source_is_rejected_by_its_label() -> None:
    described = proto.Pipeline()
    transform = described.components.transforms["read"]
    transform.unique_name, transform.spec.urn = "read", common_urns.deprecated_primitives.READ.urn
    transform.spec.payload = proto.ReadPayload(is_bounded=proto.IsBounded.UNBOUNDED).SerializeToString()
    with pytest.raises(dm.UnsupportedOnRunner, match="'read' reads an unbounded source that"):
        LocalRunner().run_portable_pipeline(described, PipelineOptions([]))
