"""The running example of the book: nine points, one key, sums; panes exact in every field that the data file gives."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import yaml

import dataflow_model as dm
from dataflow_model.testing import TestStream, assert_panes, run_script

BOOK: dict[str, Any] = yaml.safe_load((pathlib.Path(__file__).parent / "figures.yaml").read_text())["book"]
DAY = "2000-01-01"
LONG = "1000 days"
EARLY_AND_LATE = dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute"), late=dm.AfterCount(1))
FIXED = dm.Window.into(dm.FixedWindows("2 minutes"))

CASES: dict[str, tuple[str, dm.WindowInto]] = {
    "per_record": ("BATCH", FIXED.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating().allowed_lateness(LONG)),
    "unaligned_delay": (
        "BATCH",
        FIXED.trigger(dm.Repeatedly(dm.AfterProcessingTime("2 minutes")))
        .accumulating()
        .allowed_lateness(LONG)
        .closing("fire_always"),
    ),
    "watermark_perfect": ("PERFECT", FIXED),
    "watermark_heuristic": ("HEURISTIC", FIXED),
    "early_on_time_late_perfect": ("PERFECT", FIXED.trigger(EARLY_AND_LATE).accumulating().allowed_lateness(LONG)),
    "early_on_time_late_heuristic": ("HEURISTIC", FIXED.trigger(EARLY_AND_LATE).accumulating().allowed_lateness(LONG)),
    "allowed_lateness": ("EXTRA_SIX", FIXED.trigger(EARLY_AND_LATE).accumulating().allowed_lateness("2 minutes")),
    "discarding": ("HEURISTIC", FIXED.trigger(EARLY_AND_LATE).discarding().allowed_lateness(LONG)),
    "sessions": (
        "HEURISTIC",
        dm.Window.into(dm.Sessions("1 minute")).trigger(EARLY_AND_LATE).accumulating().allowed_lateness(LONG),
    ),
}


def script(name: str) -> TestStream:
    """Return one of the book's scripts."""
    steps = BOOK["streams"].get("HEURISTIC" if name == "EXTRA_SIX" else name)
    if name == "EXTRA_SIX":
        after = steps.index("e 4@12:04:19") + 1
        steps = [*steps[:after], "e 6@12:00:53", *steps[after:]]
    return TestStream.parse(steps, day=DAY, key=BOOK["key"])


def window(start: str, end: str) -> Any:
    """Return a window of the data file."""
    if start == "global":
        return dm.GlobalWindow()
    return dm.IntervalWindow(_at(start), _at(end))


def _at(text: str) -> dm.EventTime:
    return dm.event_time(f"{DAY}T{text}Z")


def expected_panes(example: str) -> list[dict[str, Any]]:
    """Return the panes of an example as `assert_panes` takes them."""
    panes = []
    for start, end, value, timing, index, on_time_index, first, last, seen in BOOK["examples"][example]["panes"]:
        clock = "12:10:00" if seen in {"end", "+inf"} else seen
        panes.append(
            {
                "key": BOOK["key"],
                "window": window(start, end),
                "value": value,
                "timing": dm.PaneTiming[timing],
                "index": index,
                "on_time_index": on_time_index,
                "is_first": first,
                "is_last": last,
                "processing_time": dm.processing_time(f"{DAY}T{clock}Z"),
            }
        )
    return panes


@pytest.mark.parametrize("example", CASES)
def test_the_panes_are_those_of_the_book(example: str) -> None:
    stream, windowing = CASES[example]
    panes = run_script(script(stream), windowing, dm.Sum())
    expected = expected_panes(example)
    for window in dict.fromkeys(pane["window"] for pane in expected):
        assert_panes(
            [pane for pane in panes if pane.window == window], [pane for pane in expected if pane["window"] == window]
        )
    assert len(panes) == len(expected)
