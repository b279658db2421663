"""Pipelines of Beam's, unmodified, on `dataflow_model.beam`: the answers of Beam's own runner in process."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import doctest
import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.transforms import trigger, window
from apache_beam.transforms.userstate import BagStateSpec, TimeDomain, TimerSpec, on_timer
from apache_beam.utils import windowed_value

from dataflow_model.beam import LocalRunner, SparkRunner
from tests.support.beam.programs import PROGRAMS, answers, counted_words

if TYPE_CHECKING:
    from collections.abc import Callable

ROOM = Path(dm.__file__).parent / "runners" / "beam"

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_the_answers_of_beams_own_runner_on_each_host_in_process(program: Any, tmp_path: Path) -> None:
    runners = {
        "beams": FnApiRunner(),
        "bounded": LocalRunner(),
        "workers": LocalRunner(workers=2),
        "stream": LocalRunner(checkpoint=tmp_path / "checkpoint"),
    }
    given = {}
    for name, runner in runners.items():
        (tmp_path / name).mkdir()
        given[name] = answers(program, runner, tmp_path / name)
    assert given == dict.fromkeys(runners, given["beams"])


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_gives_the_answers_of_beams_own_runner_on_spark(program: Any, tmp_path: Path, spark: Any) -> None:
    (tmp_path / "ours").mkdir()
    (tmp_path / "beams").mkdir()
    ours = answers(program, SparkRunner(spark), tmp_path / "ours")
    assert ours == answers(program, FnApiRunner(), tmp_path / "beams")


def test_a_stream_that_is_started_again_repeats_nothing(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def note(pair: Any) -> None:
        with notes.open("a") as file:
            file.write(f"{pair}\n")

    for _ in range(2):
        options = PipelineOptions([f"--dm_checkpoint={tmp_path / 'checkpoint'}"])
        pipeline = beam.Pipeline(runner="dataflow_model.beam.LocalRunner", options=options)
        _ = pipeline | beam.Create([("a", 1), ("a", 2)]) | beam.CombinePerKey(sum) | beam.Map(note)
        assert pipeline.run().wait_until_finish() == "DONE"
    assert notes.read_text() == "('a', 3)\n"


class ObservedSum(beam.transforms.combiners.CountCombineFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    def add_input(self, accumulator: int, element: int) -> int:
        beam.metrics.Metrics.counter("words", "added").inc()
        return int(super().add_input(accumulator, element))

    def extract_output(self, accumulator: int) -> int:
        beam.metrics.Metrics.counter("words", "combined").inc()
        return accumulator


def observed_words(pipeline: Any, failing: Path | None = None) -> None:
    """Add a program that counts its six words in each way, and behind a grouping fails as long as a file is there.

    Its combiner counts in fixed windows, in which Beam combines before the grouping, and in sessions.
    """
    of = beam.metrics.Metrics

    def observe(word: str) -> tuple[str, int]:
        of.counter("words: 100%", "seen").inc()
        of.distribution("words", "length").update(len(word))
        of.gauge("words", "level").set(7)
        of.string_set("words", "kinds").add(word)
        return word, 1

    def summed(word: str, ones: Any) -> int:
        of.counter("words", "grouped").inc()
        if failing is not None and failing.exists():
            raise ValueError(word)
        return sum(ones)

    words = pipeline | beam.Create(["to be or not", "to be"]) | beam.FlatMap(str.split) | "observe" >> beam.Map(observe)
    _ = words | beam.GroupByKey() | beam.MapTuple(summed)
    _ = words | beam.CombinePerKey(ObservedSum())
    sessions = words | beam.WindowInto(window.Sessions(10))
    _ = sessions | "in sessions" >> beam.CombinePerKey(ObservedSum())


def counted(result: Any) -> dict[str, Any]:
    found = result.metrics().query()
    by_name = {each.key.metric.name: each.committed for kind in found.values() for each in kind}
    in_sessions = beam.metrics.MetricsFilter().with_step("in sessions")
    of_sessions = {each.key.metric.name: each.committed for each in result.metrics().query(in_sessions)["counters"]}
    assert of_sessions == {"added": 6, "combined": 4}
    length, level = by_name.pop("length"), by_name.pop("level")
    return by_name | {"length": (length.count, length.sum, length.min, length.max), "level": level.value}


EACH_ONCE = {
    "seen": 6,
    "grouped": 4,
    "added": 6,
    "combined": 4,
    "kinds": {"to", "be", "or", "not"},
    "length": (6, 13, 2, 3),
    "level": 7,
}


def runner_of(host: str, folder: Path, request: pytest.FixtureRequest) -> Any:
    """Return the runner of a host."""
    hosts: dict[str, Callable[[], Any]] = {
        "bounded": LocalRunner,
        "workers": lambda: LocalRunner(workers=2),
        "stream": lambda: LocalRunner(checkpoint=folder / "checkpoint"),
        "spark": lambda: SparkRunner(request.getfixturevalue("spark")),
    }
    return hosts[host]()


@pytest.mark.parametrize("host", ["bounded", "workers", "stream", "spark"])
def test_what_functions_count_in_any_process_counts_once(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    pipeline = beam.Pipeline(runner=runner_of(host, tmp_path, request))
    observed_words(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    assert counted(result) == EACH_ONCE
    matching = beam.metrics.MetricsFilter().with_namespace("words: 100%").with_step("observe")
    assert [each.key.step for each in result.metrics().query(matching)["counters"]] == ["observe"]


def test_what_a_failed_attempt_of_a_stream_has_counted_does_not_count(tmp_path: Path) -> None:
    def run() -> Any:
        pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=tmp_path / "checkpoint"))
        observed_words(pipeline, failing)
        result = pipeline.run()
        result.wait_until_finish()
        return result

    failing = tmp_path / "failing"
    failing.touch()
    for _ in range(2):
        with pytest.raises(ValueError, match="while running"):
            run()
    failing.unlink()
    assert counted(run()) == EACH_ONCE
    assert counted(run()) == EACH_ONCE  # a run that has nothing left to do knows what was counted before


def test_what_beam_itself_counts_is_rejected_for_functions_in_other_processes() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner(workers=2))
    counted_words(pipeline)
    result = pipeline.run()
    result.wait_until_finish()
    with pytest.raises(dm.UnsupportedOnRunner, match=r"use result\.metrics\(\)"):
        result.monitoring_metrics()


def test_an_unmodified_program_runs_with_the_runner_as_an_option(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be\nthat is the question\n")
    command = [sys.executable, "-m", "apache_beam.examples.wordcount", f"--input={text}", f"--output={tmp_path}/out"]
    done = subprocess.run(
        [*command, "--runner=dataflow_model.beam.LocalRunner"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    [output] = tmp_path.glob("out-*")
    counts = Counter(text.read_text().split())
    assert sorted(output.read_text().splitlines()) == sorted(f"{word}: {count}" for word, count in counts.items())


def test_a_counter_counts_each_element_once_and_can_be_queried_by_step() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    counted_words(pipeline)
    result = pipeline.run()
    assert result.wait_until_finish() == "DONE"
    matching = beam.metrics.MetricsFilter().with_name("seen").with_step("Map(note)")
    assert [counter.committed for counter in result.metrics().query(matching)["counters"]] == [6]


def test_early_on_time_and_late_panes_of_a_script(tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def note(pair: Any, pane: Any = beam.DoFn.PaneInfoParam, at: Any = beam.DoFn.TimestampParam) -> None:
        with notes.open("a") as file:
            file.write(f"{pair[1]} {pane.index} {pane.timing} {at.micros}\n")

    def timed(value: int, at: int) -> Any:
        return window.TimestampedValue(("k", value), at)

    script = BeamTestStream().add_elements([timed(1, 1)]).add_elements([timed(2, 2)]).add_elements([timed(4, 3)])
    script = script.advance_watermark_to(10).add_elements([timed(8, 4)]).advance_watermark_to_infinity()
    into = beam.WindowInto(
        window.FixedWindows(10),
        trigger=trigger.AfterWatermark(early=trigger.AfterCount(2), late=trigger.AfterCount(1)),
        accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
        allowed_lateness=100,
    )
    with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--streaming"])) as pipeline:
        _ = pipeline | script | into | beam.CombinePerKey(sum) | beam.Map(note)
    timing = windowed_value.PaneInfoTiming
    end = 9_999_999
    assert notes.read_text().splitlines() == [
        f"3 0 {timing.EARLY} {end}", f"7 1 {timing.ON_TIME} {end}", f"15 2 {timing.LATE} {end}"
    ]  # fmt: skip


@pytest.mark.parametrize("grouping", [beam.GroupByKey, lambda: beam.CombinePerKey(max)], ids=["group", "combine"])
def test_a_grouping_that_nothing_reads_decodes_its_keys_as_they_were_encoded(grouping: Callable[[], Any]) -> None:
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        pairs = pipeline | beam.Create([("key " * 15, 1), ("key " * 15, 2)])
        of_any_key = pairs | beam.Map(lambda pair: pair).with_output_types(tuple[Any, int])
        _ = of_any_key | beam.WindowInto(window.Sessions(1)) | grouping()  # nothing is combined before the grouping


@pytest.mark.parametrize("is_stateful", [False, True])
def test_an_error_of_a_function_names_its_transform_and_not_the_first_of_its_stage(is_stateful: bool) -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    numbers = pipeline | beam.Create([("a", 0)])
    if is_stateful:
        numbers = numbers | "keep" >> beam.ParDo(KeepingNothing())
    _ = numbers | "values" >> beam.Values() | "inverse" >> beam.Map(lambda number: 1 / number)
    result = pipeline.run()
    for _ in range(2):  # however often it is waited for, the error is noted once
        with pytest.raises(ZeroDivisionError, match=r"while running 'inverse'") as raised:
            result.wait_until_finish()
        (note,) = raised.value.__notes__
        assert re.search(r"(?s)UserCodeError.*1 / number.*transform: 'inverse'.*Hint: ", note)


def test_an_error_of_a_function_in_another_process_names_its_class() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner(workers=2))
    _ = pipeline | beam.Create([0]) | "inverse" >> beam.Map(lambda number: 1 / number)
    with pytest.raises(dm.UserCodeError, match=r"(?s)ZeroDivisionError.*transform: 'inverse'"):
        pipeline.run().wait_until_finish()


def test_a_timer_in_processing_time_is_rejected_where_there_is_no_clock() -> None:
    class Later(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
        LATER = TimerSpec("later", TimeDomain.REAL_TIME)

        def process(self, pair: Any, later: Any = beam.DoFn.TimerParam(LATER)) -> None:
            later.set(0)

        @on_timer(LATER)  # type: ignore[untyped-decorator]
        def at_later(self) -> Any:
            yield 1

    pipeline = beam.Pipeline(runner=LocalRunner())
    _ = pipeline | beam.Create([("a", 1)]) | "later" >> beam.ParDo(Later())
    with pytest.raises(dm.UnsupportedOnRunner, match=r"(?s)'later.*has a timer in processing time.*Hint"):
        pipeline.run()


@pytest.mark.parametrize("host", ["bounded", "stream", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_bundle_is_finalized_once_it_is_committed_or_rejected(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    notes = tmp_path / "notes"

    def note(line: str) -> None:
        with notes.open("a") as file:
            file.write(f"{line}\n")

    class Finalized(beam.DoFn):  # type: ignore[misc]
        def process(self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> Any:
            finalizer.register(lambda: note(f"finalized {element}"))
            yield element

    pipeline = beam.Pipeline(runner=runner_of(host, tmp_path, request))
    _ = pipeline | beam.Create([1]) | "finalized" >> beam.ParDo(Finalized()) | beam.Reshuffle() | beam.Map(note)
    if host == "spark":
        with pytest.raises(dm.UnsupportedOnRunner, match="'finalized' asks to be called when a bundle is committed"):
            pipeline.run()
        return
    pipeline.run().wait_until_finish()
    both = ["1", "finalized 1"]
    assert notes.read_text().split("\n")[:-1] == (both if host == "stream" else both[::-1])


def test_what_a_failed_bundle_asks_for_is_not_called(tmp_path: Path) -> None:
    finalized = tmp_path / "finalized"

    class Failing(beam.DoFn):  # type: ignore[misc]
        def process(self, element: Any, finalizer: Any = beam.DoFn.BundleFinalizerParam) -> Any:
            finalizer.register(finalized.touch)
            yield element

    def fail(_: Any) -> None:
        raise ValueError("no")

    pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=tmp_path / "checkpoint"))
    _ = pipeline | beam.Create([1]) | beam.ParDo(Failing()) | beam.Reshuffle() | beam.Map(fail)
    with pytest.raises(ValueError, match="no"):
        pipeline.run().wait_until_finish()
    assert not finalized.exists()


class KeepingNothing(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    BAG = BagStateSpec("bag", beam.coders.VarIntCoder())

    def process(self, pair: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> Any:
        bag.clear()
        yield pair


class AsListOfWindowBefore(beam.pvalue.AsList):  # type: ignore[misc] # Beam ships no types that mypy takes
    def __init__(self, pcoll: Any) -> None:
        super().__init__(pcoll)
        self._window_mapping_fn = lambda of: window.IntervalWindow(of.start - 10, of.end - 10)


def test_a_mapping_of_side_windows_of_the_programs_own_is_rejected() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    timed = (
        pipeline
        | beam.Create([1, 12])
        | beam.Map(lambda second: window.TimestampedValue(second, second))
        | beam.WindowInto(window.FixedWindows(10))
    )
    _ = timed | "compare" >> beam.Map(lambda value, before: (value, before), AsListOfWindowBefore(timed))
    with pytest.raises(dm.UnsupportedOnRunner, match="'compare' looks its side input"):
        pipeline.run()


@pytest.mark.parametrize("is_stream", [False, True])
def test_each_output_of_a_script_has_its_watermark_and_all_take_turns(is_stream: bool, tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def note(pair: Any, at: Any = beam.DoFn.TimestampParam, pane: Any = beam.DoFn.PaneInfoParam) -> Any:
        return 0, f"{pair[1]} {at.micros // 1_000_000} {pane.timing}"

    def timed(value: str, at: int) -> Any:
        return window.TimestampedValue(("k", value), at)

    script = BeamTestStream().add_elements([timed("a1", 1)], tag="a").add_elements([timed("b1", 2)], tag="b")
    script = script.advance_watermark_to(20, tag="b").add_elements([timed("a2", 3)], tag="a")
    script = script.advance_processing_time(5).add_elements([timed("b2", 4), timed("b3", 25)], tag="b")
    script = script.add_elements([timed("a3", 5)], tag="a").advance_watermark_to_infinity(tag="a")
    options = ["--streaming", *([f"--dm_checkpoint={tmp_path / 'checkpoint'}"] if is_stream else [])]
    with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(options)) as pipeline:
        outputs: Any = pipeline | script.advance_watermark_to_infinity(tag="b")
        grouped = []
        for tag in "ab":
            into = beam.WindowInto(
                window.FixedWindows(10),
                trigger=trigger.AfterWatermark(early=trigger.AfterCount(1), late=trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.DISCARDING,
                allowed_lateness=100,
                timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_EARLIEST,
            )
            grouped.append(outputs[tag] | f"into {tag}" >> into | f"grouped {tag}" >> beam.GroupByKey())
        at_the_end = beam.WindowInto(
            window.GlobalWindows(),
            trigger=trigger.AfterWatermark(),
            accumulation_mode=trigger.AccumulationMode.DISCARDING,
        )
        arrived = grouped | beam.Flatten() | beam.Map(note) | "at the end" >> at_the_end | "all" >> beam.GroupByKey()
        _ = arrived | beam.MapTuple(lambda _, lines: notes.write_text("\n".join(lines)))
    timing = windowed_value.PaneInfoTiming
    emitted = [line for line in notes.read_text().splitlines() if not line.startswith("[]")]
    assert emitted == [
        f"['a1'] 1 {timing.EARLY}",
        f"['b1'] 2 {timing.EARLY}",
        f"['a2'] 3 {timing.EARLY}",
        f"['b2'] 9 {timing.LATE}",  # the watermark of b is at 20, that of a still at the beginning
        f"['b3'] 25 {timing.EARLY}",
        f"['a3'] 5 {timing.EARLY}",
    ]


def test_a_transform_of_another_sdk_is_rejected_by_its_label() -> None:
    from apache_beam.portability.api import beam_runner_api_pb2 as proto

    described = proto.Pipeline()
    transform = described.components.transforms["sql"]
    transform.unique_name, transform.spec.urn = "sql", "beam:transform:sql:v1"
    transform.outputs["out"] = "rows"
    with pytest.raises(dm.UnsupportedOnRunner, match="'sql' is a beam:transform:sql:v1, which needs another SDK"):
        LocalRunner().run_portable_pipeline(described, PipelineOptions([]))


def test_importing_the_package_or_the_facade_does_not_import_beam(tmp_path: Path) -> None:
    script = "import sys, dataflow_model, dataflow_model.beam; print('apache_beam' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout.strip() == "False"


MODULES = sorted(".".join(path.relative_to(ROOM).with_suffix("").parts) for path in ROOM.rglob("[a-z]*.py"))


@pytest.mark.parametrize("module", MODULES)
def test_the_doctests_of_each_module_of_the_room_pass(module: str) -> None:
    imported = importlib.import_module(f"dataflow_model.runners.beam.{module}")
    assert doctest.testmod(imported, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed == 0


def test_only_one_module_imports_beams_workers_and_one_its_translations() -> None:
    imports = {path.stem: path.read_text() for path in ROOM.rglob("*.py")}
    assert [name for name, text in imports.items() if "apache_beam.runners.worker" in text] == ["harness"]
    assert [name for name, text in imports.items() if "fn_api_runner import translations" in text] == ["phases"]


@pytest.mark.parametrize(("version", "timing"), [(None, "ON_TIME"), ("2.64.0", "UNKNOWN")])
def test_a_reshuffle_loses_panes_where_an_option_asks_for_an_older_beam(
    version: str | None, timing: str, tmp_path: Path
) -> None:
    def note(_: Any, pane: Any = beam.DoFn.PaneInfoParam) -> None:
        (tmp_path / windowed_value.PaneInfoTiming.to_string(pane.timing)).touch()

    options = PipelineOptions([]) if version is None else PipelineOptions([f"--update_compatibility_version={version}"])
    with beam.Pipeline(runner=LocalRunner(), options=options) as pipeline:
        _ = pipeline | beam.Create([("a", 1)]) | beam.GroupByKey() | beam.Reshuffle() | beam.Map(note)
    assert [path.name for path in tmp_path.iterdir()] == [timing]
