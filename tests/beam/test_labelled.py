"""Percentiles of the watermark and retractions in pipelines of Beam's, by options for the labels of groupings."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms import trigger, window
from apache_beam.transforms.userstate import BagStateSpec
from apache_beam.utils import windowed_value

from dataflow_model.beam import LocalRunner, Read, Write

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own

SCRIPT = (
    TestStream()
    .add(1, 3, key="k")
    .watermark(12, percentile=90)
    .add(2, 5, key="k")
    .watermark(12)
    .add(4, 6, key="k")
    .watermark_to_infinity()
)


def summed(pipeline: Any, **windowing: Any) -> Any:
    into = beam.WindowInto(
        window.FixedWindows(10),
        trigger=windowing.get("trigger", trigger.AfterWatermark(late=trigger.AfterCount(1))),
        accumulation_mode=windowing.get("mode", trigger.AccumulationMode.ACCUMULATING),
        allowed_lateness=100,
    )
    return pipeline | Read(SCRIPT) | into | "sums" >> beam.GroupByKey() | beam.MapTuple(lambda _, values: sum(values))


def emitted(build: Callable[[Any], Any], *options: str) -> list[str]:
    pipeline = beam.Pipeline(runner=LocalRunner(), options=PipelineOptions(list(options)))
    _ = build(pipeline) | "out" >> Write(dm.io.Collect())
    result = pipeline.run()
    result.wait_until_finish()
    return [
        f"{record.value} {record.pane.describe(is_retraction=record.is_retraction).split(',')[0]}"
        for record in result.ours.collected("out")
    ]


def test_a_grouping_emits_an_early_pane_at_a_percentile_of_the_watermark() -> None:
    assert emitted(summed) == ["3 on time", "7 late"]
    assert emitted(summed, "--dm_watermark_percentile=sums=90") == ["1 early", "3 on time", "7 late"]


def test_a_grouping_retracts_each_pane_before_the_next_one() -> None:
    panes = emitted(summed, "--dm_watermark_percentile=sums=90", "--dm_retracting=sums")
    assert [pane.split()[0] for pane in panes] == ["1", "1", "3", "3", "7"]
    assert ["retract" in pane for pane in panes] == [False, True, False, True, False]


def test_a_second_grouping_applies_the_retractions_of_the_first() -> None:
    def total(pipeline: Any) -> Any:
        return summed(pipeline) | beam.Map(lambda value: ("all", value)) | "total" >> beam.GroupByKey()

    assert emitted(total, "--dm_retracting=sums")[-1].startswith("('all', [7])")
    assert emitted(total)[-1].startswith("('all', [3, 7])")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dm_watermark_percentile=sums"], r"(?s)must be LABEL=PERCENTILE.*Hint"),
        (["--dm_watermark_percentile=sums=100"], "between 0 and 100"),
        (["--dm_watermark_percentile=sum=90"], r"(?s)names no grouping; the groupings are \['sums'\].*Hint"),
        (["--dm_retracting=none"], "'--dm_retracting=none' names no grouping"),
    ],
)
def test_an_option_that_fits_no_grouping_is_rejected(options: list[str], message: str) -> None:
    with pytest.raises(dm.InvalidArgument, match=message):
        emitted(summed, *options)


def test_a_strategy_that_a_percentile_or_a_retraction_does_not_fit_is_rejected() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"(?s)'sums' has the trigger Repeatedly.*AfterWatermark\(late=…\)"):
        emitted(
            lambda p: summed(p, trigger=trigger.Repeatedly(trigger.AfterCount(1))), "--dm_watermark_percentile=sums=90"
        )
    with pytest.raises(dm.InvalidArgument, match=r"(?s)'sums' discards.*AccumulationMode\.ACCUMULATING"):
        emitted(lambda p: summed(p, mode=trigger.AccumulationMode.DISCARDING), "--dm_retracting=sums")


class Remembering(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    BAG = BagStateSpec("bag", beam.coders.PickleCoder())

    def process(self, pair: Any, bag: Any = beam.DoFn.StateParam(BAG)) -> Any:
        bag.add(pair)
        yield pair


class AtTheEnd(beam.DoFn):  # type: ignore[misc]
    """Emits the elements of a bundle, with their number, when it ends."""

    def start_bundle(self) -> None:
        self.elements: list[Any] = []

    def process(self, element: Any, at: Any = beam.DoFn.TimestampParam, of: Any = beam.DoFn.WindowParam) -> None:
        self.elements.append((element, at, of))

    def finish_bundle(self) -> Any:
        number = len(self.elements)
        for element, at, of in self.elements:
            yield windowed_value.WindowedValue((element, number), at, (of,))


def test_retractions_come_in_bundles_of_their_own() -> None:
    def build(pipeline: Any) -> Any:
        return summed(pipeline) | beam.ParDo(AtTheEnd())

    panes = emitted(build, "--dm_watermark_percentile=sums=90", "--dm_retracting=sums")
    assert [pane.rpartition(")")[0] for pane in panes] == ["(1, 1", "(1, 1", "(3, 1", "(3, 1", "(7, 1"]
    assert ["retract" in pane for pane in panes] == [False, True, False, True, False]


def test_a_combiner_that_combines_before_its_grouping_takes_retractions_back() -> None:
    def mean(pipeline: Any) -> Any:
        return summed(pipeline) | beam.Map(lambda value: ("all", value)) | "mean" >> beam.combiners.Mean.PerKey()

    assert emitted(mean, "--dm_retracting=sums")[-1].startswith("('all', 7.0)")
    assert emitted(mean)[-1].startswith("('all', 5.0)")


@pytest.mark.parametrize(
    ("reader", "error", "message"),
    [
        (lambda sums: sums | beam.Map(lambda v: ("k", v)) | beam.ParDo(Remembering()), dm.UnsupportedOnRunner, "state"),
        (
            lambda sums: sums.pipeline | beam.Create([1]) | "side" >> beam.Map(max, beam.pvalue.AsSingleton(sums)),
            dm.UnsupportedOnRunner,
            "side input",
        ),
        (
            lambda sums: (sums, sums | "print" >> beam.Map(print))[0],
            dm.UnsupportedOnRunner,
            r"(?s)'print' is at the end.*--dm_retractable='print'",
        ),
    ],
    ids=["state", "side input", "end"],
)
def test_a_function_that_would_take_a_retraction_for_an_element_is_rejected(
    reader: Callable[[Any], Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        emitted(lambda pipeline: reader(summed(pipeline)), "--dm_retracting=sums")


def test_a_function_at_the_end_that_is_declared_retractable_runs_on_retractions(tmp_path: Any) -> None:
    notes = tmp_path / "notes"

    def note(value: int) -> None:
        with notes.open("a") as file:
            file.write(f"{value} ")

    def build(pipeline: Any) -> Any:
        sums = summed(pipeline)
        _ = sums | "note" >> beam.Map(note)
        return sums

    emitted(build, "--dm_retracting=sums", "--dm_retractable=note")
    assert notes.read_text() == "3 3 7 "
