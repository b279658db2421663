"""The running example of the book: nine points, one key, sums; panes exact in every field that the data file gives."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
import yaml

import dataflow_model as dm
from dataflow_model.testing import TestStream, assert_panes, run_script

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dataflow_model.values import Window

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


# Examples without a script: the points as listed, all in hand.

POINTS = [(value, f"{DAY}T{at}Z") for value, at, _ in BOOK["points"]]


@pytest.mark.parametrize(
    ("example", "windowing"),
    [("classic_batch", dm.Window.into(dm.GlobalWindows())), ("windowed_batch", FIXED)],
    ids=["classic_batch", "windowed_batch"],
)
def test_the_panes_of_bounded_data_are_those_of_the_book(example: str, windowing: dm.WindowInto) -> None:
    panes = run_script(TestStream().bundle(POINTS, key=BOOK["key"]), windowing, dm.Sum())
    expected = [{**pane, "processing_time": dm.processing_time(0)} for pane in expected_panes(example)]
    assert_panes(panes, expected)


class ValidityWindows(dm.WindowFn):
    """Each element is valid until the next one's event time: the book's example of a window function of one's own."""

    is_merging: ClassVar[bool] = True

    def assign(self, event_time: dm.EventTime, element: Any) -> list[dm.IntervalWindow]:
        return [dm.IntervalWindow(event_time, dm.MAX_TIMESTAMP)]

    def merge(self, windows: Sequence[Window]) -> Iterator[tuple[Sequence[Window], Window]]:
        # Whatever starts together is one window, which ends where the next starts.
        starts = sorted({window.start for window in windows})
        end_of_last = max(window.end for window in windows)
        for start, end in zip(starts, [*starts[1:], end_of_last], strict=True):
            members = [window for window in windows if window.start == start]
            whole = dm.IntervalWindow(start, min(end, *(window.end for window in members), end_of_last))
            if members != [whole]:
                yield members, whole


def test_the_windows_of_a_users_own_function_are_those_of_the_book() -> None:
    panes = run_script(script("PERFECT"), dm.Window.into(ValidityWindows()), dm.Sum())
    expected = [
        {
            "window": dm.IntervalWindow(_at(start), dm.MAX_TIMESTAMP if end == "end of global window" else _at(end)),
            "value": value,
            "timing": dm.PaneTiming.ON_TIME,
            "index": 0,
            "is_last": True,
        }
        for start, end, value in BOOK["examples"]["validity_windows"]["windows"]
    ]
    assert_panes(panes, expected)
