"""What a source itself reports of a stream: numbers by origin, while it runs."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.gapped_log import GappedLog, append
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from dataflow_model.plan.endpoints.origins import OriginPosition


class Levelled(GappedLog):
    """A log that reports where it has been read to, and lacks two rows of each range."""

    def levels(self, origins: Mapping[str, OriginPosition]) -> Mapping[str, Mapping[str, int]]:
        """Return the positions."""
        return {"position": {name: origin.position for name, origin in origins.items()}}

    def rows_lost(self, origin: str) -> int:
        """Return two."""
        del origin
        return 2


def build(p: dm.Pipeline, folder: Path, *, is_bounded: bool) -> None:
    rows = p | "log" >> dm.Read(Levelled(folder=folder, is_bounded=is_bounded))
    _ = rows | dm.Map(lambda row: row.position) | "out" >> dm.io.Collect()


def levels(result: Any) -> Any:
    return result.report().transforms["log"].levels


@pytest.mark.parametrize("host", ["process", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_report_of_a_running_stream_has_the_levels_of_its_sources(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    append(tmp_path / "log", "a", [7, 9], 12)
    options: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint"}
    runner: Any = (
        dm.LocalRunner(**options)
        if host == "process"
        else dm.SparkRunner(request.getfixturevalue("spark"), mode="streaming", **options)
    )
    p = dm.Pipeline(runner=runner)
    build(p, tmp_path / "log", is_bounded=False)
    result = p.run()
    wait_for(result, lambda: levels(result) == {"position": {"a": 12}})
    result.stop()
    assert levels(result) == {}
    assert [record.value for record in result.collected("out")] == [7, 9]


@pytest.mark.parametrize("runner", [dm.LocalRunner(), dm.LocalRunner(workers=2)])
def test_rows_missing_from_a_range_are_counted_as_lost(runner: Any, tmp_path: Path) -> None:
    append(tmp_path / "log", "a", [7, 9], 12)
    with dm.Pipeline(runner=runner) as p:
        build(p, tmp_path / "log", is_bounded=True)
    counters = p.result.report().transforms["log"].counters
    assert counters["elements_out"] == 2
    assert counters["rows_lost"] > 0
    assert counters["rows_lost"] % 2 == 0
    assert levels(p.result) == {}


def test_levels_are_gauges_of_prometheus(tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    append(tmp_path / "log", "a", [7, 9], 12)
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path / "checkpoint"))
    build(p, tmp_path / "log", is_bounded=False)
    result = p.run()
    wait_for(result, lambda: levels(result) == {"position": {"a": 12}})
    with dm.metrics.serve(result, port=0) as server:
        text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
    result.stop()
    assert 'dataflow_source_level{name="position",origin="a",transform="log"} 12.0' in text
