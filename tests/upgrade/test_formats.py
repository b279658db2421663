"""Checkpoints that earlier versions have written, which this version goes on from: with the right panes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.pipelines import difference, run, seen
from tests.support.upgrade.kept import PIPELINES, SINKS, STEPS, history, kept, start, unpack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pyspark.sql import SparkSession

FORMATS = (8,)
"""The formats that this version reads."""
KEPT = [(number, title) for number in FORMATS for title in PIPELINES]


@pytest.fixture(params=FORMATS)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a copy of what a version with one format has kept."""
    unpack(request.param, tmp_path)
    return tmp_path


def outcome(result: Any, title: str) -> Mapping[str, Any]:
    return {sink: seen(result.collected(sink)) for sink in SINKS[title]}


def check(result: Any, title: str, rows: Path) -> None:
    """Compare with the pipeline that was never stopped."""
    uninterrupted = outcome(run(dm.LocalRunner(), PIPELINES[title](rows)), title)
    for sink, panes in outcome(result, title).items():
        assert panes, sink
        assert not difference(uninterrupted[sink], panes), sink


@pytest.mark.parametrize(("folder", "title"), KEPT, indirect=["folder"])
def test_a_run_resumes_from_a_checkpoint_of_every_supported_format(folder: Path, title: str) -> None:
    stopped = kept(folder / title, PIPELINES[title](folder / "rows"))
    before = outcome(stopped, title)
    check(stopped.finish(), title, folder / "rows")
    assert any(len(panes) > len(before[sink]) for sink, panes in outcome(stopped, title).items())


@pytest.mark.parametrize(("folder", "title"), KEPT, indirect=["folder"])
@pytest.mark.parametrize("shards", [1, 3])
def test_a_checkpoint_of_every_supported_format_is_upgraded_to_another_number_of_shards(
    folder: Path, title: str, shards: int
) -> None:
    build = PIPELINES[title](folder / "rows")
    check(kept(folder / title, build).upgraded(build, shards).finish(), title, folder / "rows")


@pytest.mark.slow
def test_a_run_on_spark_resumes_from_a_checkpoint_of_every_supported_format(spark: SparkSession, folder: Path) -> None:
    assert len(list((folder / "spark" / "spark" / "commits").glob("[0-9]*"))) >= STEPS
    result = start(spark, folder)
    assert result.wait_until_finish() is dm.RunnerState.DONE
    check(result, "history", folder / "rows")


@pytest.mark.slow
def test_a_checkpoint_of_every_supported_format_is_upgraded_on_spark(spark: SparkSession, folder: Path) -> None:
    dm.upgrade(str(folder / "spark"), str(folder / "next"), spark=spark)
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=str(folder / "next"), shards=3)
    check(run(runner, history(folder / "rows")), "history", folder / "rows")
