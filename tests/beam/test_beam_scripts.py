"""`TestStream` of Beam's: elements that are in windows already, its clock, and side inputs that change meanwhile."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import ast
import random
import tempfile
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.direct.direct_runner import BundleBasedDirectRunner
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.testing.test_stream import WindowedValueHolder
from apache_beam.transforms import trigger
from apache_beam.transforms.timeutil import TimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow, GlobalWindows, IntervalWindow, TimestampedValue
from apache_beam.utils.timestamp import Timestamp
from apache_beam.utils.windowed_value import PaneInfo, PaneInfoTiming, WindowedValue

from dataflow_model.beam import LocalRunner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


def placed(value: str, at: int, *windows: Any) -> Any:
    """Return an element for a script that is in windows already, in a pane of its own."""
    pane = PaneInfo(is_first=False, is_last=True, timing=PaneInfoTiming.LATE, index=2, nonspeculative_index=1)
    return WindowedValueHolder(WindowedValue(("k", value), Timestamp(at), tuple(windows), pane))


def noting(notes: Path, kind: str) -> Callable[..., None]:
    """Return a function that notes elements."""

    def note(
        pair: Any,
        at: Any = beam.DoFn.TimestampParam,
        of: Any = beam.DoFn.WindowParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        with notes.open("a") as file:
            file.write(f"{kind} {pair[1]} {at.micros // 1_000_000} {of} {pane.timing} {pane.index}\n")

    return note


@pytest.mark.parametrize("is_stream", [False, True])
def test_elements_of_a_script_keep_the_windows_that_they_are_in(is_stream: bool, tmp_path: Path) -> None:
    window, notes = IntervalWindow(5, 10), tmp_path / "notes"
    script = BeamTestStream().advance_watermark_to(8).add_elements([placed("a", 5, window)])
    script = script.add_elements([placed("b", 6, window, GlobalWindow()), TimestampedValue(("k", "c"), 7)])
    script = script.advance_watermark_to(12).add_elements([placed("late", 5, window)]).advance_watermark_to_infinity()
    options = [
        "--streaming",
        "--allow_unsafe_triggers",
        *([f"--dm_checkpoint={tmp_path / 'checkpoint'}"] if is_stream else []),
    ]
    with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(options)) as pipeline:
        elements = pipeline | script
        _ = elements | "each" >> beam.Map(noting(notes, "each"))
        _ = elements | beam.GroupByKey() | "grouped" >> beam.Map(noting(notes, "grouped"))
        _ = elements | beam.combiners.Count.PerKey() | "count" >> beam.Map(noting(notes, "count"))
    late, on_time, unknown = PaneInfoTiming.LATE, PaneInfoTiming.ON_TIME, PaneInfoTiming.UNKNOWN
    last = GlobalWindow().max_timestamp().micros // 1_000_000
    assert sorted(notes.read_text().splitlines()) == [
        f"count 2 9 {window} {on_time} 0",
        f"count 2 {last} GlobalWindow {on_time} 0",
        f"each a 5 {window} {late} 2",
        f"each b 6 GlobalWindow {unknown} 0",  # Beam's workers lose the pane of an element in several windows
        f"each b 6 {window} {unknown} 0",
        f"each c 7 GlobalWindow {unknown} 0",
        f"each late 5 {window} {late} 2",
        f"grouped ['a', 'b'] 9 {window} {on_time} 0",
        f"grouped ['b', 'c'] {last} GlobalWindow {on_time} 0",
    ]


def test_an_element_of_a_script_in_a_window_that_its_coder_cannot_encode_is_rejected() -> None:
    empty = IntervalWindow(5, 5)
    pipeline = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--streaming"]))
    _ = pipeline | BeamTestStream().add_elements([placed("a", 5, empty)]).advance_watermark_to_infinity()
    with pytest.raises(dm.UnsupportedOnRunner, match=r"adds \('k', 'a'\) in \[\[5.0, 5.0\)\], which the coder"):
        pipeline.run()


class _Waits(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Puts out each element, and what it has waited for at the fifth second of the clock."""

    WAKE = TimerSpec("wake", TimeDomain.REAL_TIME)

    def process(self, pair: tuple[str, str], wake: Any = beam.DoFn.TimerParam(WAKE)) -> Iterator[str]:
        wake.set(Timestamp(5))
        yield pair[1]

    @on_timer(WAKE)  # type: ignore[untyped-decorator]
    def wake(self) -> Iterator[str]:
        yield "woken"


@pytest.mark.parametrize("make", [BundleBasedDirectRunner, LocalRunner])
def test_a_timer_fires_when_the_clock_of_the_script_has_reached_it(make: Callable[[], Any], tmp_path: Path) -> None:
    script = BeamTestStream().advance_watermark_to(0).add_elements([("k", "first")]).advance_processing_time(4)
    script = script.add_elements([("k", "before")]).advance_processing_time(1).add_elements([("k", "behind")])
    notes = tmp_path / "notes"

    def note(text: str) -> None:
        with notes.open("a") as file:
            file.write(f"{text}\n")

    pipeline = beam.Pipeline(runner=make(), options=PipelineOptions(["--streaming"]))
    _ = pipeline | script.advance_watermark_to_infinity() | beam.ParDo(_Waits()) | beam.Map(note)
    pipeline.run().wait_until_finish()
    assert notes.read_text().split() == ["first", "before", "woken", "behind", "woken"]


def beside(pipeline: Any, accumulation: Any) -> tuple[Any, Any]:
    """Return elements, and numbers in the global window of which one comes before each of them."""
    script = BeamTestStream().add_elements([1], tag="side", event_timestamp=1)
    script = script.add_elements(["a"], tag="main", event_timestamp=2)
    script = script.add_elements([20], tag="side", event_timestamp=3)
    script = script.add_elements(["b"], tag="main", event_timestamp=4)
    for tag in ("side", "main"):
        script = script.advance_watermark_to_infinity(tag=tag)
    read = pipeline | script
    often = trigger.Repeatedly(trigger.AfterCount(1))
    numbers = read["side"] | "often" >> beam.WindowInto(GlobalWindows(), trigger=often, accumulation_mode=accumulation)
    return read["main"], numbers


def newest(numbers: Any) -> Any:
    """Return the greatest number so far, with a random one that is drawn once for each."""
    drawn = beam.Map(lambda number: (number, random.random()))
    return numbers | beam.CombineGlobally(max).without_defaults() | "draw" >> drawn


def seen(runner: Any, build: Callable[[Any, Any], Any], accumulation: Any, notes: Path) -> list[Any]:
    """Return what elements see of a side input, which is built with the pipeline's numbers."""

    def note(element: str, value: Any) -> None:
        with notes.open("a") as file:
            file.write(f"{(element, value if isinstance(value, dict | tuple) else list(value))!r}\n")

    with beam.Pipeline(runner=runner, options=PipelineOptions(["--streaming"])) as pipeline:
        elements, numbers = beside(pipeline, accumulation)
        _ = elements | beam.Map(note, build(pipeline, numbers))
    return [ast.literal_eval(line) for line in notes.read_text().splitlines()]


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_side_input_in_the_global_window_has_its_current_value_in_every_view(is_stream: bool, tmp_path: Path) -> None:
    def runner() -> LocalRunner:
        return LocalRunner(checkpoint=tempfile.mkdtemp(dir=tmp_path)) if is_stream else LocalRunner()

    def as_dict(_: Any, numbers: Any) -> Any:
        return beam.pvalue.AsDict(numbers | beam.Map(lambda number: ("newest", number)))

    def by_key(_: Any, numbers: Any) -> Any:
        pairs = numbers | beam.Map(lambda number: (number % 2, number))
        return beam.pvalue.AsIter(pairs | beam.CombinePerKey(max))

    def as_singleton(_: Any, numbers: Any) -> Any:
        return beam.pvalue.AsSingleton(newest(numbers))

    def grouped(_: Any, numbers: Any) -> Any:
        return beam.pvalue.AsDict(numbers | beam.WithKeys("all") | beam.GroupByKey())

    discarding, accumulating = trigger.AccumulationMode.DISCARDING, trigger.AccumulationMode.ACCUMULATING
    of_dict = seen(runner(), as_dict, discarding, tmp_path / "dict")
    assert of_dict == [("a", {"newest": 1}), ("b", {"newest": 20})]
    assert seen(runner(), by_key, discarding, tmp_path / "all") == [("a", [(1, 1)]), ("b", [(1, 1), (0, 20)])]
    assert seen(runner(), by_key, accumulating, tmp_path / "keys") == [("a", [(1, 1)]), ("b", [(1, 1), (0, 20)])]
    of_group = seen(runner(), grouped, accumulating, tmp_path / "group")
    assert of_group == [("a", {"all": [1]}), ("b", {"all": [1, 20]})]
    singletons = seen(runner(), as_singleton, accumulating, tmp_path / "singleton")
    assert [(element, number) for element, (number, _) in singletons] == [("a", 1), ("b", 20)]


def test_panes_that_something_else_reads_are_not_taken_back_from_a_side_input() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    elements, numbers = beside(pipeline, trigger.AccumulationMode.ACCUMULATING)
    side = newest(numbers)
    _ = elements | "read" >> beam.Map(lambda element, number: (element, number), beam.pvalue.AsSingleton(side))
    _ = side | "print" >> beam.Map(print)
    message = r"(?s)the side input .* of 'read' consists of panes .*'print', which is at the end.*Hint: compute"
    with pytest.raises(dm.UnsupportedOnRunner, match=message):
        pipeline.run()
