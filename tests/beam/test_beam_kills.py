"""Streams of Beam's with unbounded inputs, state and timers that are killed and started again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

from dataflow_model.testing import CrashPoint
from tests.support.beam.killed_job import expected
from tests.support.faults.killed_jobs import collected_after_kills

if TYPE_CHECKING:
    from pathlib import Path

POINTS = [point for point in CrashPoint.POINTS if point not in {"after_writing", "while_publishing"}]
"""The points that a run without sinks of this package passes."""
pytestmark = pytest.mark.timeout(1_800)


@pytest.mark.parametrize(("seed", "kills"), [(1, 2), pytest.param(2, 20, marks=pytest.mark.slow)])
def test_a_stream_that_is_killed_loses_nothing_and_counts_nothing_twice(tmp_path: Path, seed: int, kills: int) -> None:
    points = random.Random(seed).choices(POINTS, k=kills)
    collected = collected_after_kills("tests.support.beam.killed_job", tmp_path, points, first=1)
    assert collected == expected()
