"""Transforms of Beam's in our pipelines, and ours in Beam's: the answers of each alone."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false
# pyright: reportIncompatibleMethodOverride=false, reportCallIssue=false, reportIndexIssue=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.testing import TestStream, strategies
from dataflow_model.testing.strategies import PERCENTILES, SIGNALS
from tests.support.pipelines import seen

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms.userstate import TimeDomain as BeamsTimeDomain
from apache_beam.transforms.userstate import TimerSpec, on_timer
from apache_beam.transforms.window import GlobalWindow

from dataflow_model.beam import Apply
from dataflow_model.beam.windowings import windowing_of
from tests.support.beam.programs import PROGRAMS, answers, ends_of_bundles
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

END_OF_BEAM = GlobalWindow().max_timestamp().micros

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own

EVERY_HOST = on_hosts("local", "workers", "process", "batch", "streaming", slow=("batch", "streaming", "workers"))


def listed(key: str, values: Any) -> tuple[str, list[Any]]:
    return key, list(values)


def same(element: Any) -> Any:
    return element


def emitted(script: TestStream, build: Callable[[Any], Any]) -> list[Any]:
    """Return the panes that come out, without what Beam's have not: names of triggers, and the last day of all time."""
    with dm.Pipeline() as p:
        _ = build(p | script) | "out" >> dm.io.Collect()
    records = [
        attrs.evolve(
            record,
            pane=attrs.evolve(record.pane, trigger=None),
            event_time=min(record.event_time, dm.EventTime(END_OF_BEAM)),
        )
        for record in p.result.collected("out")
    ]
    return sorted(seen(records), key=lambda pane: (pane[4], str(pane[0][0])))


without_retractions = strategies.windowing_strategies().filter(lambda strategy: not strategy.retracting)


@given(strategies.test_streams(signals=SIGNALS, percentiles=PERCENTILES), without_retractions)
def test_a_function_of_beams_in_front_of_a_grouping_and_behind_it_changes_no_pane(
    script: TestStream, strategy: dm.WindowingStrategy
) -> None:
    def ours(scripted: Any) -> Any:
        return scripted | dm.Window.into(strategy) | dm.GroupByKey()

    def both(scripted: Any) -> Any:
        windowed = scripted | dm.Window.into(strategy) | "before" >> Apply(beam.Map(same))
        assert windowed.strategy == strategy
        return windowed | dm.GroupByKey() | "behind" >> Apply(beam.Map(same))

    assert emitted(script, both) == emitted(script, ours)


@given(strategies.test_streams(signals=SIGNALS, percentiles=PERCENTILES), without_retractions)
def test_a_grouping_of_beams_emits_the_panes_of_ours_under_any_strategy(
    script: TestStream, strategy: dm.WindowingStrategy
) -> None:
    def grouped(grouping: Any) -> Any:
        return lambda scripted: scripted | dm.Window.into(strategy) | grouping | dm.MapTuple(listed)

    assert emitted(script, grouped(Apply(beam.GroupByKey()))) == emitted(script, grouped(dm.GroupByKey()))


@given(without_retractions)
def test_behind_a_grouping_of_beams_a_strategy_that_beam_lacks_has_our_continuation(
    strategy: dm.WindowingStrategy,
) -> None:
    p = dm.Pipeline()
    windowed = p | dm.Create([("a", 1)]) | dm.Window.into(strategy)
    grouped = windowed | Apply(beam.GroupByKey())
    if type(windowing_of(strategy).windowfn).__module__.startswith("dataflow_model."):
        assert grouped.strategy == strategy.after_grouping("")


class Whole(beam.PTransform):  # type: ignore[misc] # Beam ships no types that mypy takes
    """A program of Beam's as a transform."""

    def __init__(self, program: Callable[[Any], Any]) -> None:
        super().__init__()
        self.program = program

    def expand(self, begin: Any) -> Any:
        return self.program(begin.pipeline)


@EVERY_HOST
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_program_of_beams_is_a_transform_of_our_pipeline_on_each_host(
    program: Any, host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    _ = p | Apply(Whole(program)) | "lines" >> dm.Map(repr) | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    lines = sorted(record.value for record in result.collected("out"))
    if program is ends_of_bundles:  # one for each bundle, of which several workers have several
        lines = sorted({*lines})
    assert lines == answers(program, FnApiRunner(), tmp_path)


class Later(beam.DoFn):  # type: ignore[misc] # Beam ships no types that mypy takes
    """Emits a key 5 s after an element, by the clock."""

    LATER = TimerSpec("later", BeamsTimeDomain.REAL_TIME)

    def process(self, pair: Any, later: Any = beam.DoFn.TimerParam(LATER)) -> None:
        later.set(5)

    @on_timer(LATER)  # type: ignore[untyped-decorator]
    def at_later(self, key: Any = beam.DoFn.KeyParam) -> Any:
        yield key


def test_a_timer_in_processing_time_fires_where_a_script_has_a_clock() -> None:
    script = TestStream().add(1, 0, key="a").processing_time(6).watermark_to_infinity()
    with dm.Pipeline() as p:
        _ = p | script | dm.ParDo(Later()) | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == ["a"]


@on_hosts("local", "workers", "batch")
def test_a_timer_in_processing_time_is_rejected_in_a_bounded_run_without_a_clock(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path))
    _ = p | dm.Create([("a", 1)]) | "later" >> dm.ParDo(Later()) | dm.io.Collect()
    with pytest.raises(dm.UnsupportedOnRunner, match=r"(?s)'later.*has a timer in processing time.*Hint"):
        p.run()
