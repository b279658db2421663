"""The paper's input as a script."""

from __future__ import annotations

from typing import Any

import yaml

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.settings import REPOSITORY

FIGURES: dict[str, Any] = yaml.safe_load((REPOSITORY / "tests/figures/figures.yaml").read_text())["paper"]
DAY = "2000-01-01"
FIXED = dm.Window.into(dm.FixedWindows("2 minutes"))
EARLY = dm.AfterEach(dm.AfterWatermark(percentile=60), dm.Repeatedly(dm.AfterWatermark()))


def paper_script() -> TestStream:
    """Return the paper's ten points as they came, with its heuristic watermark."""
    seen = [(at, f"e {value}@{time}") for value, time, at in FIGURES["points"]]
    seen += [(at, f"w {watermark}") for at, watermark in FIGURES["watermark"]]
    steps = []
    for at, step in sorted(seen, key=lambda pair: (pair[0], pair[1][0] != "e")):
        steps += [f"p {at}", step]
    return TestStream.parse([*steps, "p 12:10:00"], day=DAY, key="k")
