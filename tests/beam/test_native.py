"""Transforms of ours in pipelines of Beam's, and functions of Beam's classes where ours are expected."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportIncompatibleMethodOverride=false, reportCallIssue=false, reportIndexIssue=false

from __future__ import annotations

import doctest
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import window
from apache_beam.transforms.combiners import MeanCombineFn, TopCombineFn

from dataflow_model.beam import Apply, LocalRunner, Native, Read, SparkRunner, Write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOM = Path(dm.__file__).parent / "beam"

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


def runners(folder: Path, spark: Any = None) -> dict[str, Any]:
    if spark is not None:
        return {"spark": SparkRunner(spark)}
    checkpoint = folder / "checkpoint"
    return {"bounded": LocalRunner(), "workers": LocalRunner(workers=2), "stream": LocalRunner(checkpoint=checkpoint)}


def collected(result: Any, label: str) -> list[Any]:
    result.wait_until_finish()
    return [record.value for record in result.ours.collected(label)]


def run_ours(build: Callable[[dm.Pipeline], Any]) -> list[Any]:
    with dm.Pipeline() as p:
        _ = build(p) | "out" >> dm.io.Collect()
    return [record.value for record in p.result.collected("out")]


# Sources and sinks ---------------------------------------------------------------------------------------------------


def check_files_that_beam_reads_and_writes_by_ours(runner: Any, folder: Path) -> None:
    written = folder / "written"
    pipeline = beam.Pipeline(runner=runner)
    numbers = pipeline | Read(dm.io.GenerateSequence(0, 25))
    timed = numbers | beam.Map(lambda row: {"number": row.value, "second": row.at})
    _ = timed | "files" >> Write(dm.io.WriteParquet(str(written)))
    pipeline.run().wait_until_finish()

    again = beam.Pipeline(runner=LocalRunner())
    rows = again | Read(dm.io.ReadParquet(str(written), event_time="second"))
    in_windows = rows | beam.Map(lambda row: row.number) | beam.WindowInto(window.FixedWindows(10))
    _ = in_windows | beam.CombineGlobally(sum).without_defaults() | "sums" >> Write(dm.io.Collect())
    assert collected(again.run(), "sums") == [sum(range(10)), sum(range(10, 20)), sum(range(20, 25))]


@pytest.mark.parametrize("host", ["bounded", "workers", "stream"])
def test_beam_reads_and_writes_files_by_ours_with_their_event_times(host: str, tmp_path: Path) -> None:
    check_files_that_beam_reads_and_writes_by_ours(runners(tmp_path)[host], tmp_path)


def test_beam_reads_and_writes_files_by_ours_on_spark(tmp_path: Path, spark: Any) -> None:
    check_files_that_beam_reads_and_writes_by_ours(SparkRunner(spark), tmp_path)


def test_a_stream_that_is_started_again_writes_nothing_again(tmp_path: Path) -> None:
    for _ in range(2):
        pipeline = beam.Pipeline(runner=LocalRunner(checkpoint=tmp_path / "checkpoint"))
        rows = pipeline | Read(dm.io.GenerateSequence(0, 5)) | beam.Map(lambda row: {"number": row.value})
        _ = rows | Write(dm.io.WriteParquet(str(tmp_path / "out")))
        assert pipeline.run().wait_until_finish() == "DONE"
    rows_of = dm.io.ReadParquet(str(tmp_path / "out"), event_time=None)
    assert sorted(row.number for row in run_ours(lambda p: p | rows_of)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("transform", [Read(dm.io.GenerateSequence(0, 2)), Native(dm.Create([1]))])
def test_another_runner_is_rejected_when_a_transform_of_ours_is_applied(transform: Any) -> None:
    pipeline = beam.Pipeline(runner=FnApiRunner())
    with pytest.raises(dm.UnsupportedOnRunner, match=r"(?s)which FnApiRunner cannot run.*dataflow_model\.beam\.Local"):
        _ = pipeline | "ours" >> transform


def test_what_is_no_source_or_sink_of_ours_is_rejected_with_the_way_out() -> None:
    with pytest.raises(dm.InvalidType, match=r"(?s)Read takes a transform of this package.*Read\(dm\.io\.ReadParquet"):
        Read(beam.Create([1]))
    with pytest.raises(dm.InvalidType, match=r"(?s)Write takes a transform that is applied to a coll.*beam\.Native"):
        Write(dm.Create([1]))
    with pytest.raises(dm.InvalidType, match="Native takes a transform of this package"):
        Native(dm.Sum())  # type: ignore[arg-type]


# Other transforms of ours --------------------------------------------------------------------------------------------


def test_a_chain_of_ours_and_beams_keeps_windows_and_strategies() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    timed = pipeline | beam.Create([("a", 1), ("a", 8), ("b", 12)]) | beam.Map(at_its_number)
    windowed = timed | "ours" >> Native(dm.Window.into(dm.CalendarWindows.days()).accumulating())
    grouped = windowed | beam.GroupByKey() | "total" >> Native(dm.Map(lambda pair: (pair[0], sum(pair[1]))))
    _ = grouped | beam.Map(with_window) | "out" >> Write(dm.io.Collect())
    day = "[0.0, 86400.0)"
    assert sorted(collected(pipeline.run(), "out")) == [("a", 9, day), ("b", 12, day)]


def test_the_tagged_outputs_of_ours_are_a_dict() -> None:
    def by_parity(number: int) -> Iterator[Any]:
        yield number if number % 2 == 0 else dm.TaggedOutput("odd", number)

    pipeline = beam.Pipeline(runner=LocalRunner())
    outputs = pipeline | beam.Create([1, 2, 3]) | Native(dm.FlatMap(by_parity).with_outputs("odd", main="even"))
    assert set(outputs) == {"odd", "even"}
    for tag in ("odd", "even"):
        _ = outputs[tag] | tag >> Write(dm.io.Collect())
    result = pipeline.run()
    assert (sorted(collected(result, "odd")), collected(result, "even")) == ([1, 3], [2])


def test_a_transform_of_ours_joins_several_collections_of_beams() -> None:
    pipeline = beam.Pipeline(runner=LocalRunner())
    left = pipeline | "left" >> beam.Create([("a", 1), ("b", 2)])
    right = pipeline | "right" >> beam.Create([("a", "x")])
    _ = (left, right) | "join" >> Native(dm.Join.left()) | "joined" >> Write(dm.io.Collect())
    both = {"l": left, "again": left} | "both" >> Native(dm.CoGroupByKey())
    _ = both | beam.MapTuple(lambda key, values: (key, dict(values))) | "grouped" >> Write(dm.io.Collect())
    result = pipeline.run()
    assert sorted(collected(result, "joined")) == [("a", (1, "x")), ("b", (2, None))]
    assert sorted(collected(result, "grouped")) == [("a", {"l": [1], "again": [1]}), ("b", {"l": [2], "again": [2]})]


def at_its_number(pair: tuple[str, int]) -> Any:
    return window.TimestampedValue(pair, pair[1])


def with_window(pair: tuple[str, int], where: Any = beam.DoFn.WindowParam) -> Any:
    return (*pair, str(where))


# Transforms of Beam's in ours ----------------------------------------------------------------------------------------


def test_apply_takes_and_returns_several_collections_by_name() -> None:
    def build(p: dm.Pipeline) -> Any:
        left, right = (p | name >> dm.Create([("k", name)]) for name in ("left", "right"))
        return {"l": left, "r": right, "again": left} | Apply(beam.CoGroupByKey())

    assert run_ours(build) == [("k", {"l": ["left"], "r": ["right"], "again": ["left"]})]


@attrs.frozen
class PlanWindow(dm.IntervalWindow):
    plan: str


class PlanWindows(dm.WindowFn):
    def assign(self, event_time: dm.EventTime, element: Any) -> Any:
        del event_time
        return (PlanWindow(dm.EventTime(0), dm.event_time(60), element[0]),)


def test_windows_of_a_class_of_our_users_are_carried_both_ways() -> None:
    def build(p: dm.Pipeline) -> Any:
        pairs = p | dm.Create([("basic", 1), ("pro", 2), ("basic", 4)]) | dm.Map(lambda pair: (pair[0], pair))
        windowed = pairs | dm.WindowInto(PlanWindows()) | dm.Map(lambda pair: ("all", pair[1][1]))
        sums = windowed | Apply(beam.Map(lambda pair: pair)) | Apply(beam.CombinePerKey(sum))
        return sums | dm.Map(lambda pair, window: (window.plan, pair[1]))

    assert sorted(run_ours(build)) == [("basic", 5), ("pro", 2)]


def test_a_transform_of_beams_that_reads_is_applied_to_the_pipeline(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("to be\nor not\n")
    lines = run_ours(lambda p: p | Apply(beam.io.ReadFromText(str(tmp_path / "text"))) | dm.FlatMap(str.split))
    assert lines == ["to", "be", "or", "not"]


def test_a_transform_of_beams_that_writes_returns_what_beams_returns(tmp_path: Path) -> None:
    with dm.Pipeline() as p:
        _ = p | dm.Create(["a", "b"]) | Apply(beam.io.WriteToText(str(tmp_path / "out")))
    assert sorted(line for path in tmp_path.glob("out*") for line in path.read_text().split()) == ["a", "b"]


def test_what_apply_cannot_carry_is_rejected_with_the_way_out() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("a", 1)])
    with pytest.raises(dm.InvalidType, match="Apply takes a transform of Beam's"):
        Apply(dm.Map(str))
    retracting = pairs | dm.Window.into(dm.FixedWindows(60)).accumulating_and_retracting()
    with pytest.raises(dm.UnsupportedOnRunner, match=r"(?s)under retracting accumulation.*\.accumulating\(\)"):
        _ = retracting | "sums" >> Apply(beam.GroupByKey())
    with pytest.raises(dm.InvalidType, match=r"(?s)'tagged' applies.*name the outputs"):
        _ = pairs | "tagged" >> Apply(beam.ParDo(Tagging()).with_outputs())
    with pytest.raises(dm.InvalidArgument, match="belongs to another pipeline"):
        _ = (pairs, dm.Pipeline() | dm.Create([1])) | "both" >> Apply(beam.Flatten())
    assert [node.label for node in p.plan().nodes] == ["Create", "Window.into"]  # what failed has left no trace


# Functions of Beam's classes -----------------------------------------------------------------------------------------


class Tagging(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    def process(self, element, *sides):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN002, ANN201 - Beam reads hints
        yield (element, *sides)
        yield beam.pvalue.TaggedOutput("half", element[1] / 2)


def test_a_dofn_of_beams_has_side_inputs_of_ours_and_tagged_outputs() -> None:
    with dm.Pipeline() as p:
        pairs = p | dm.Create([("a", 1), ("b", 2)])
        total = pairs | dm.Values() | dm.CombineGlobally(sum)
        sides = dm.AsSingleton(total), dm.AsList(total), dm.AsDict(pairs), "plain"
        whole, half = pairs | dm.ParDo(Tagging(), *sides).with_outputs("half", main="whole")
        _ = whole | "whole" >> dm.io.Collect()
        _ = half | "half" >> dm.io.Collect()
    by_key = {"a": 1, "b": 2}
    values = {label: [record.value for record in p.result.collected(label)] for label in ("whole", "half")}
    assert values == {
        "whole": [(("a", 1), 3, [3], by_key, "plain"), (("b", 2), 3, [3], by_key, "plain")],
        "half": [0.5, 1.0],
    }


def test_a_combiner_of_beams_combines_where_ours_would() -> None:
    assert run_ours(lambda p: p | dm.Create([("a", 1), ("a", 2)]) | dm.CombinePerKey(MeanCombineFn())) == [("a", 1.5)]
    assert run_ours(lambda p: p | dm.Create([3, 5]) | dm.CombineGlobally(MeanCombineFn)) == [4.0]
    assert run_ours(lambda p: p | dm.Create([3, 5, 4]) | dm.CombineGlobally(TopCombineFn(2))) == [[5, 4]]


class Scaled(beam.CombineFn):  # type: ignore[misc]
    def create_accumulator(self, factor: int) -> int:
        return 0

    def add_input(self, accumulator: int, element: int, factor: int) -> int:
        return accumulator + factor * element

    def merge_accumulators(self, accumulators: Any, factor: int) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int, factor: int) -> int:
        return accumulator


def test_a_combiner_of_beams_has_further_arguments() -> None:
    assert run_ours(lambda p: p | dm.Create([3, 5]) | dm.CombineGlobally(Scaled(), 10)) == [80]


class UpToTheNextTen(window.NonMergingWindowFn):  # type: ignore[misc]
    def assign(self, context: Any) -> Any:
        return [window.IntervalWindow(context.timestamp, context.timestamp + 10 - context.timestamp % 10)]

    def get_window_coder(self) -> Any:
        return beam.coders.coders.IntervalWindowCoder()


@pytest.mark.parametrize(
    ("fn", "expected"),
    [
        (window.FixedWindows(10, 1), dm.FixedWindows(10, offset=1)),
        (window.SlidingWindows(10, 5), dm.SlidingWindows(10, 5)),
        (window.Sessions(10), dm.Sessions(10)),
        (window.GlobalWindows(), dm.GlobalWindows()),
    ],
)
def test_a_window_function_of_beams_that_we_have_is_ours(fn: Any, expected: dm.WindowFn) -> None:
    assert dm.Window.into(fn).strategy.window_fn == dm.WindowInto(fn).strategy.window_fn == expected


def test_a_window_function_of_a_class_of_beams_assigns_its_windows() -> None:
    def build(p: dm.Pipeline) -> Any:
        timed = p | dm.Create([dm.TimestampedValue(("k", at), at) for at in (2, 2, 7, 12)])
        return timed | dm.WindowInto(UpToTheNextTen()) | dm.Sum.per_key() | dm.Map(lambda pair, window: (*pair, window))

    intervals = [(int(where.start) // 10**6, int(where.end) // 10**6, total) for _, total, where in run_ours(build)]
    assert sorted(intervals) == [(2, 10, 4), (7, 10, 7), (12, 20, 12)]


def test_a_class_of_a_dofn_of_beams_is_rejected_as_one_of_ours_is() -> None:
    with pytest.raises(dm.InvalidType, match=r"(?s)got the class Tagging.*write Tagging\(…\)"):
        dm.ParDo(Tagging)


def test_without_beam_a_name_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    monkeypatch.delitem(sys.modules, "dataflow_model.beam.structures", raising=False)
    monkeypatch.delitem(sys.modules, "dataflow_model.beam.applying", raising=False)
    with pytest.raises(ModuleNotFoundError, match=r"(?s)beam\.Apply needs Apache Beam.*dataflow-model\[beam\]"):
        dm.beam.Apply  # noqa: B018 - asked for


@pytest.mark.parametrize("module", sorted(path.stem for path in ROOM.glob("[a-z]*.py")))
def test_the_doctests_of_each_module_of_the_room_pass(module: str) -> None:
    imported = importlib.import_module(f"dataflow_model.beam.{module}")
    assert doctest.testmod(imported, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).failed == 0
