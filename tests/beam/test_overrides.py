"""Transforms of Beam's in whose place this package's own run: with the same results, unless they are switched off."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import pytest

import dataflow_model as dm

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.portability.fn_api_runner import FnApiRunner
from apache_beam.transforms import window

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
    ],
    ids=["fixed", "sliding, then fixed", "sliding, then global", "with gaps, then sliding"],
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
