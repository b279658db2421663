"""How Beam's elements are combined before a grouping."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

import apache_beam as beam
from apache_beam.transforms import window

from dataflow_model.beam import LocalRunner
from dataflow_model.runners.beam.functions import harness


@pytest.mark.parametrize("windows", [window.FixedWindows(10), window.SlidingWindows(10, 4)], ids=["fixed", "sliding"])
def test_windows_of_elements_combined_early_are_looked_up_once_and_not_for_each_element(
    windows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[Any] = []
    enter = harness._CombineEarly._enter

    def noting(self: Any, which: Any, windows: Any) -> Any:
        entered.append(tuple(windows))
        return enter(self, which, windows)

    monkeypatch.setattr(harness._CombineEarly, "_enter", noting)
    with beam.Pipeline(runner=LocalRunner()) as pipeline:
        given = pipeline | beam.Create([second % 20 for second in range(200)])
        timed = given | beam.Map(lambda second: window.TimestampedValue((0, 1), second)).with_output_types(
            tuple[int, int]
        )
        _ = timed | beam.WindowInto(windows) | beam.CombinePerKey(sum)
    assert len(entered) == len(set(entered)) > 1
