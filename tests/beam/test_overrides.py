"""Transforms of Beam's in whose place this package's own run: with the same results, unless they are switched off."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

import bz2
import gzip
import tempfile
import zlib
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from tests.support.laws.examples import share_of_examples

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.io.filesystem import CompressionTypes
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.testing.test_stream import TestStream as BeamTestStream
from apache_beam.transforms import trigger, window

from dataflow_model.beam import LocalRunner

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own


class Noting(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Notes the elements with their windows, times and panes, in this process."""

    seen: list[Any] = []  # noqa: RUF012 - of the class, since the function is pickled

    def process(
        self,
        element: Any,
        into: Any = beam.DoFn.WindowParam,
        at: Any = beam.DoFn.TimestampParam,
        pane: Any = beam.DoFn.PaneInfoParam,
    ) -> None:
        Noting.seen.append((element, repr(into), at.micros, repr(pane)))


def placed(runner: Any, options: list[str], fns: list[Any]) -> list[Any]:
    """Return what is noted after several `WindowInto`."""
    Noting.seen.clear()
    with beam.Pipeline(runner=runner, options=PipelineOptions(options)) as pipeline:
        numbers = pipeline | beam.Create([-7, 0, 3, 8, 8])
        numbers |= "timed" >> beam.Map(lambda number: window.TimestampedValue(number, number))
        for index, fn in enumerate(fns):
            numbers |= f"into {index}" >> beam.WindowInto(fn)
        _ = numbers | "note" >> beam.ParDo(Noting())
    return sorted(Noting.seen)


@pytest.mark.parametrize(
    "fns",
    [
        [window.FixedWindows(5)],
        [window.SlidingWindows(6, 2, 1), window.FixedWindows(4)],
        [window.SlidingWindows(6, 4), window.GlobalWindows()],
        [window.SlidingWindows(2, 5), window.SlidingWindows(4, 2)],
        [window.Sessions(2.5)],
    ],
    ids=["fixed", "sliding, then fixed", "sliding, then global", "with gaps, then sliding", "sessions"],
)
def test_elements_leave_the_override_as_they_leave_beams_window_into(fns: list[Any]) -> None:
    ours = placed(LocalRunner(), [], fns)
    assert ours
    assert ours == placed(FnApiRunner(), [], fns)
    assert ours == placed(LocalRunner(), ["--dm_without_override=WindowInto"], fns)


def test_an_override_that_is_switched_off_runs_beams_own_transform(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    assign = window.FixedWindows.assign

    def noted(self: Any, context: Any) -> Any:
        calls.append(context.timestamp.micros)
        return assign(self, context)

    monkeypatch.setattr(window.FixedWindows, "assign", noted)
    placed(LocalRunner(), [], [window.FixedWindows(5)])
    assert not calls
    placed(LocalRunner(), ["--dm_without_override=WindowInto"], [window.FixedWindows(5)])
    assert calls


def test_an_override_that_does_not_exist_is_rejected_by_its_name() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"(?s)name of an override, got 'Windows'.*pass one of .*'WindowInto'"):
        placed(LocalRunner(), ["--dm_without_override=Windows"], [window.FixedWindows(5)])


VALUES = {
    "ints": st.integers(-50, 50),
    "large ints": st.integers(-(2**63), 2**63 - 1),
    "larger ints": st.integers(-(2**80), 2**80),
    # Sums of these do not depend on the order, which is another one where windows merge.
    "floats": st.integers(-(2**40), 2**40).map(float)
    | st.sampled_from([float("inf"), float("-inf"), float("nan"), -0.0]),
    "mixed": st.integers(-5, 5) | st.floats(-5, 5) | st.booleans(),
    "decimals": st.decimals(-5, 5, places=3),
}
PARTS: dict[str, Callable[[], Any]] = {
    "sum": lambda: beam.CombinePerKey(sum),
    "min": lambda: beam.CombinePerKey(min),
    "max": lambda: beam.CombinePerKey(max),
    "count": beam.combiners.Count.PerKey,
    "mean": beam.combiners.Mean.PerKey,
}
INTO: dict[str, Callable[[], Any]] = {
    "global": lambda: beam.WindowInto(window.GlobalWindows()),
    "fixed": lambda: beam.WindowInto(window.FixedWindows(10)),
    "sliding": lambda: beam.WindowInto(window.SlidingWindows(10, 4)),
    "with gaps": lambda: beam.WindowInto(window.SlidingWindows(2, 5)),
    "sessions": lambda: beam.WindowInto(window.Sessions(3)),
    "earliest": lambda: beam.WindowInto(
        window.FixedWindows(10), timestamp_combiner=window.TimestampCombiner.OUTPUT_AT_EARLIEST
    ),
}


def combined(runner: Any, options: list[str], elements: list[Any], part: str, into: str) -> list[Any]:
    """Return what is noted behind a combiner, or the kind of its error."""
    Noting.seen.clear()
    pipeline = beam.Pipeline(runner=runner, options=PipelineOptions(options))
    given = pipeline | beam.Create([0]) | beam.FlatMap(lambda _: elements).with_output_types(Any)
    are_encodable = all(type(value) is int and -(2**63) <= value < 2**63 for _, value, _ in elements)  # as Beam's `int`
    timed = given | beam.Map(lambda each: window.TimestampedValue((each[0], each[1]), each[2])).with_output_types(
        tuple[int, int] if are_encodable else tuple[int, Any]
    )
    _ = timed | INTO[into]() | PARTS[part]() | "note" >> beam.ParDo(Noting())
    try:
        pipeline.run().wait_until_finish()
    except Exception as error:  # noqa: BLE001 - whatever a combiner raises, also within an error of a runner
        return ["TypeError" if "TypeError" in f"{error!r} {error}" else repr(error)]
    return sorted(tuple(map(repr, seen)) for seen in Noting.seen)


@st.composite
def timed_pairs(draw: st.DrawFn) -> list[tuple[int, Any, int]]:
    values = VALUES[draw(st.sampled_from(sorted(VALUES)))]
    return draw(st.lists(st.tuples(st.integers(0, 2), values, st.integers(0, 25)), min_size=1, max_size=25))


@share_of_examples(0.25)
@given(timed_pairs(), st.sampled_from(sorted(PARTS)), st.sampled_from(sorted(INTO)))
@example([(0, 2**62, 1), (0, 2**62, 2), (0, 2**62, 3)], "sum", "fixed")
@example([(0, float("nan"), 1), (0, 1.0, 2), (1, 1.0, 1), (1, float("nan"), 2)], "min", "sessions")
@example([(0, -0.0, 1), (1, -0.0, 1), (1, -0.0, 2)], "sum", "earliest")
@example([(0, "a", 1), (0, "b", 2)], "sum", "fixed")
@example([(0, "a", 1), (0, "b", 2)], "max", "fixed")
@example([(0, None, 1)], "min", "sessions")
@example([(0, None, 1)], "count", "sliding")
@example([(0, 1, 1), (0, 1, 2), (0, 1, 3), (0, 1, 5)], "sum", "with gaps")
@example([(0, 2**53 + 1, 1), (0, 2**53, 2)], "mean", "sessions")
@example([(0, 2**63, 0)], "count", "earliest")
@example([(0, 2**70, 0), (0, -(2**63) - 1, 1)], "sum", "fixed")
def test_combined_values_are_those_of_beams_combiners(elements: list[Any], part: str, into: str) -> None:
    ours = combined(LocalRunner(), [], elements, part, into)
    assert ours == combined(LocalRunner(), ["--dm_without_override=CombinePerKey"], elements, part, into)
    beams = combined(FnApiRunner(), [], elements, part, into)
    assert [each[:2] for each in ours] == [each[:2] for each in beams]  # Beam rounds times to milliseconds


@pytest.mark.parametrize("into", ["fixed", "sessions"])
def test_kernels_combine_unless_they_are_switched_off(into: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    count = beam.combiners.CountCombineFn

    def counting(self: Any, number: int, element: Any) -> int:
        del self
        calls.append(element)
        return number + 1

    monkeypatch.setattr(count, "add_input", counting)
    elements = [(0, 5, 1), (0, 6, 2)]
    assert combined(LocalRunner(), [], elements, "count", into)
    assert not calls
    assert combined(LocalRunner(), ["--dm_without_override=CombinePerKey"], elements, "count", into)
    assert calls


def test_a_default_for_no_elements_is_beams() -> None:
    Noting.seen.clear()
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        nothing = pipeline | beam.Create([1]) | beam.Filter(lambda number: number > 1)
        _ = nothing | "sum" >> beam.CombineGlobally(sum) | "note" >> beam.ParDo(Noting())
        _ = nothing | beam.combiners.Count.Globally() | "note again" >> beam.ParDo(Noting())
    assert [element for element, *_ in Noting.seen] == [0, 0]


def test_early_and_accumulated_panes_of_kernels_are_those_of_beams_combiners() -> None:
    panes = []
    for options in ([], ["--dm_without_override=CombinePerKey"]):
        Noting.seen.clear()
        script = BeamTestStream()
        for second, number in enumerate([5, -3, 7, 2**62, 2**62, 2**62]):
            script = script.add_elements([window.TimestampedValue(("k", number), second)])
        script = script.advance_watermark_to(10).add_elements([window.TimestampedValue(("k", 1), 4)])
        script = script.advance_watermark_to_infinity()
        with beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(["--streaming", *options])) as pipeline:
            into = beam.WindowInto(
                window.FixedWindows(10),
                trigger=trigger.AfterWatermark(early=trigger.AfterCount(2), late=trigger.AfterCount(1)),
                accumulation_mode=trigger.AccumulationMode.ACCUMULATING,
                allowed_lateness=100,
            )
            windowed = pipeline | script | into
            _ = windowed | "sum" >> beam.CombinePerKey(sum) | "note sums" >> beam.ParDo(Noting())
            _ = windowed | "max" >> beam.CombinePerKey(max) | "note greatest" >> beam.ParDo(Noting())
        panes.append(sorted(map(repr, Noting.seen)))
    assert panes[0] == panes[1]
    assert len(panes[0]) == 10


LINES = (b"", b"to be", b"or not", b" to\tbe ", b"\r", b"a\rb", b"\xc3\xa4", b"\x00", b"'\"", b"x" * 100)
texts = st.tuples(
    st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from([b"\n", b"\r\n"])), max_size=8),
    st.sampled_from([b"", b"the end", b"\r"]),
).map(lambda parts: b"".join(line + end for line, end in parts[0]) + parts[1])
PACKERS: dict[str, Callable[[bytes], bytes]] = {".txt": bytes, ".gz": gzip.compress, ".bz2": bz2.compress}


def lines_read(runner: Any, options: list[str], read: Any) -> list[Any]:
    Noting.seen.clear()
    with beam.Pipeline(runner=runner, options=PipelineOptions(options)) as pipeline:
        _ = pipeline | read | "note" >> beam.ParDo(Noting())
    return sorted(Noting.seen)


@share_of_examples(0.5)
@given(texts, st.integers(0, 3), st.sampled_from(sorted(PACKERS)))
@example(b"a\r", 0, ".txt")
@example(b"a\r", 0, ".gz")
def test_lines_are_those_that_beam_reads(data: bytes, skipped: int, kind: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2):
            Path(folder, f"_{number}{kind}").write_bytes(PACKERS[kind](data))
        read = partial(beam.io.ReadFromText, f"{folder}/_*{kind}", skip_header_lines=skipped)
        assert is_replaced(read())
        ours = lines_read(LocalRunner(), [], read())
        assert ours == lines_read(FnApiRunner(), [], read())


def is_replaced(read: Any, options: tuple[str, ...] = ()) -> bool:
    """Return whether a transform is applied as one of this package."""
    pipeline = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(list(options)))
    _ = pipeline | "lines" >> read
    names = [transform.unique_name for transform in pipeline.to_runner_api().components.transforms.values()]
    return "lines/read" in names


class Shouting(beam.coders.StrUtf8Coder):  # type: ignore[misc]
    def decode(self, value: bytes) -> str:
        return str(super().decode(value)).upper()


def test_a_text_that_this_package_would_read_otherwise_is_read_by_beam(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("to be\nor not\n")
    (tmp_path / "marked.txt").write_bytes(b"\xef\xbb\xbfto be\n")
    (tmp_path / "packed.deflate").write_bytes(zlib.compress(b"to be\n"))
    (tmp_path / "packed.txt").write_bytes(gzip.compress(b"to be\n"))
    (tmp_path / "odd[1].txt").write_text("to be\n")
    plain = str(tmp_path / "plain.txt")
    assert is_replaced(beam.io.ReadFromText(plain))
    assert not is_replaced(beam.io.ReadFromText(plain), ("--dm_without_override=ReadFromText",))
    for read in (
        beam.io.ReadFromText(plain, strip_trailing_newlines=False),
        beam.io.ReadFromText(plain, coder=Shouting()),
        beam.io.ReadFromText(plain, delimiter=b" "),
        beam.io.ReadFromText(plain, escapechar=b"\\"),
        beam.io.ReadFromText(str(tmp_path / "nothing*"), validate=False),
        beam.io.ReadFromText(str(tmp_path / "packed.txt"), compression_type=CompressionTypes.GZIP),
        beam.io.ReadFromText(str(tmp_path / "packed.deflate")),
        beam.io.ReadFromText(str(tmp_path / "marked.txt")),
        beam.io.ReadFromText(str(tmp_path / "odd*.txt")),
    ):
        assert not is_replaced(read)


def test_the_lines_are_text_for_the_type_checks_behind_them(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("to be\n")
    pipeline = beam.Pipeline(runner=LocalRunner())
    lines = pipeline | beam.io.ReadFromText(str(tmp_path / "a.txt"))
    assert lines.element_type is str


@pytest.mark.parametrize("host", [{"workers": 2}, {"checkpoint": "checkpoint"}], ids=str)
def test_text_is_read_by_the_override_on_other_hosts_in_process(host: dict[str, Any], tmp_path: Path) -> None:
    for number in range(3):
        (tmp_path / f"{number}.txt").write_text(f"to be {number}\nor not\n")
    if "checkpoint" in host:
        host = {"checkpoint": tmp_path / "checkpoint"}
    with beam.Pipeline(runner=LocalRunner(**host)) as pipeline:
        words = pipeline | beam.io.ReadFromText(f"{tmp_path}/*.txt") | beam.FlatMap(str.split)
        counts = words | beam.combiners.Count.PerElement() | beam.MapTuple(lambda word, count: f"{word} {count}")
        _ = counts | beam.io.WriteToText(f"{tmp_path}/out")
    [out] = tmp_path.glob("out-*")
    assert sorted(out.read_text().splitlines()) == ["0 1", "1 1", "2 1", "be 3", "not 3", "or 3", "to 3"]
