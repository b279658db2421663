"""What the data file says must come out of each figure, in the form in which `assert_panes` takes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

import dataflow_model as dm
from dataflow_model.figures import FIGURES
from dataflow_model.figures.example import DAY, at
from dataflow_model.testing import assert_panes
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.values import Pane, Window

FILE = REPOSITORY / "tests/figures/figures.yaml"
DATA: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
BOOK: dict[str, Any] = DATA["book"]
PAPER: dict[str, Any] = DATA["paper"]

BOOK_NAMES: list[str] = list(BOOK["examples"])
PAPER_NAMES: list[str] = [
    "_".join(name.split("_")[: 2 if name.startswith("table") else 1]) for name in PAPER["figures"]
]
BOUNDED = [name for name, figure in FIGURES.items() if figure.bounded]

# When a sequence's panes go out, where the file tells it by an event rather than by a time.
MOMENTS = {
    "sessions_retracting": {
        "watermark, before the timers of 12:06:00": "12:06:00",
        "watermark passes 12:05:19": "12:07:40",
    },
    "6J": {"watermark, before 12:06:00": "12:05:59", "watermark passes 12:05:19": "12:07:40"},
}
# The same for values that stand alone; the file has these in comments.
TIMES = {
    "processing_time_panes": ["12:06:00", "12:08:00", "12:10:00"],
    "aligned_early": ["12:06:00", "12:07:00", "12:07:30"],
}
ALIGNED_EARLY = dm.IntervalWindow(at("12:02"), at("12:04"))


def entry(name: str) -> dict[str, Any]:
    """Return what the file has under a figure's name."""
    entries: dict[str, dict[str, Any]] = {**BOOK["examples"], **PAPER["figures"]}
    (full,) = (key for key in entries if key == name or (name in PAPER_NAMES and key.startswith(f"{name}_")))
    return entries[full]


def check(name: str, panel: int, panes: Sequence[Pane], *, batch: bool = False) -> None:
    """Assert that a panel's panes are the file's, in every field that it gives, and that there are no others."""
    it = entry(name)
    if not batch:
        times = [int(pane.processing_time) for pane in panes]
        assert times == sorted(times)
    if "panes" in it:
        _check_by_window(panes, [_full(row, batch=batch) for row in it["panes"]])
    elif "windows" in it:
        assert_panes(panes, [_valid(row) for row in it["windows"]])
    elif "sequence" in it:
        assert_panes(panes, [expected_pane for group in it["sequence"] for expected_pane in _moment(name, group)])
    elif "values" in it:
        moments = it.get("at", TIMES.get(name, [None] * len(it["values"])))
        shown = [pane for pane in panes if name != "aligned_early" or pane.window == ALIGNED_EARLY]
        assert_panes(shown, [_value(value, moment) for value, moment in zip(it["values"], moments, strict=True)])
    elif "w0" in it:
        _check_by_window(
            panes,
            [
                {"window": dm.IntervalWindow(at(f"12:0{2 * index}"), at(f"12:0{2 * index + 2}")), **_value(value)}
                for index in range(4)
                for value in it[f"w{index}"]
            ],
        )
    else:
        groups = it.get("panes_in_groups") or list(it.values())[panel]
        flat = [value for group in groups for value in (group if isinstance(group, list) else [group])]
        focus = FIGURES[name].focus
        assert_panes([pane for pane in panes if pane.window == focus], [_value(value) for value in flat])
        _check_together(panes, groups)


def expected_panes(name: str, *, batch: bool = False) -> list[dict[str, Any]]:
    """Return the panes of an example whose panes the file gives in full."""
    return [_full(row, batch=batch) for row in BOOK["examples"][name]["panes"]]


def _check_by_window(panes: Sequence[Pane], expected: list[dict[str, Any]]) -> None:
    """Order holds within a window."""
    for window in dict.fromkeys(pane["window"] for pane in expected):
        assert_panes(
            [pane for pane in panes if pane.window == window], [pane for pane in expected if pane["window"] == window]
        )
    assert len(panes) == len(expected)


def _check_together(panes: Sequence[Pane], groups: Sequence[Any]) -> None:
    """What a group holds goes out at one moment."""
    left = list(panes)
    for group in groups:
        size = len(group) if isinstance(group, list) else 1
        group_panes, left = left[:size], left[size:]
        assert len({pane.processing_time for pane in group_panes}) == 1


def _full(row: list[Any], *, batch: bool) -> dict[str, Any]:
    start, end, value, timing, index, on_time_index, first, last, seen = row
    clock = dm.processing_time(f"{DAY}T{'12:10:00' if seen in {'end', '+inf'} else seen}Z")
    return {
        "key": BOOK["key"],
        "window": _window(start, end),
        "value": value,
        "timing": dm.PaneTiming[timing],
        "index": index,
        "on_time_index": on_time_index,
        "is_first": first,
        "is_last": last,
        "is_retraction": False,
        "processing_time": dm.ProcessingTime(int(dm.MIN_TIMESTAMP)) if batch else clock,
    }


def _window(start: str, end: str) -> Window:
    return dm.GLOBAL_WINDOW if start == "global" else dm.IntervalWindow(at(start), at(end))


def _valid(row: list[Any]) -> dict[str, Any]:
    start, end, value = row
    last = dm.MAX_TIMESTAMP if end == "end of global window" else at(end)
    on_time = {"timing": dm.PaneTiming.ON_TIME, "index": 0, "is_last": True}
    return {"window": dm.IntervalWindow(at(start), last), "value": value, **on_time}


def _value(value: int, moment: str | None = None) -> dict[str, Any]:
    given = {"value": abs(value), "is_retraction": value < 0}
    return given if moment is None else {**given, "processing_time": dm.processing_time(f"{DAY}T{moment}Z")}


def _moment(name: str, group: list[Any]) -> list[dict[str, Any]]:
    *values, words = group
    moment = MOMENTS[name].get(words)
    if moment is None:
        match = re.match(r"\d\d:\d\d:\d\d", words)
        assert match is not None, words
        moment = match[0]
    return [_value(value, moment) for value in values]
