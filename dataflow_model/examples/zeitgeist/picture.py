"""A picture of one day: traffic, expected traffic, detections, and how far behind the watermark was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from dataflow_model.examples.zeitgeist.detection import expected_in
from dataflow_model.examples.zeitgeist.report import score
from dataflow_model.examples.zeitgeist.values import SECOND, Kind

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dataflow_model.examples.zeitgeist.report import Outcome
    from dataflow_model.examples.zeitgeist.scenario import History, Scenario

_SOON: Final = 3.0
"""A record that arrives within this many seconds is not delayed: about as long as the watermark usually waits."""
_TIMELY: Final = "#5d7f9e"
_DELAYED: Final = "#b9d3ea"
_EXPECTED: Final = "#1d2b3a"
_CUT_OFF: Final = "#f3ead2"
_KINDS: Final = {Kind.SPIKE: "#d1435b", Kind.DIP: "#7a3fa8"}
_MARKS: Final = {Kind.SPIKE: "^", Kind.DIP: "v"}
_SETTINGS: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6775",
    "axes.axisbelow": True,
}


def draw(scenario: Scenario, history: History, outcome: Outcome, day: int) -> Figure:
    """Draw one day of a run, the first being 0; event time runs to the right in all panels."""
    start = day * scenario.calendar.day_seconds
    seconds = np.arange(start, start + scenario.calendar.day_seconds)
    rows = len(scenario.popularity)
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(13, 2.1 * rows + 3.6), layout="constrained")
        panels = figure.subplots(rows + 1, 1, sharex=True, height_ratios=[1] * rows + [1.35])
        for axes, popularity in zip(panels, scenario.popularity, strict=False):
            _draw_query(axes, scenario, history, outcome, popularity.query, seconds)
        _draw_delays(panels[-1], outcome, seconds)
        for axes in panels:
            for outage in history.outages:
                axes.axvspan(outage.start, outage.end, color=_CUT_OFF, zorder=0)
            axes.set_xlim(seconds[0], seconds[-1] + 1)
        for outage in history.outages:
            if outage.start in seconds:
                panels[0].text(
                    (outage.start + outage.end) / 2, 1.02, f"{outage.centre} cut off",
                    transform=panels[0].get_xaxis_transform(), ha="center", va="bottom", fontsize=9, color="#8a6d1f",
                )  # fmt: skip
        figure.legend(handles=_legend(), loc="outside upper center", ncols=6, frameon=False)
    return figure


def _draw_query(
    axes: Axes, scenario: Scenario, history: History, outcome: Outcome, query: str, seconds: NDArray[np.int64]
) -> None:
    total = {bucket.second: bucket.times for bucket in outcome.buckets if bucket.query == query}
    counts = np.array([total.get(second, 0) for second in seconds])
    timely = np.minimum(_timely(history, query, seconds), counts)
    axes.bar(seconds, timely, width=1, align="edge", color=_TIMELY, linewidth=0)
    axes.bar(seconds, counts - timely, width=1, align="edge", bottom=timely, color=_DELAYED, linewidth=0)
    rates = {forecast.slot: forecast.rate for forecast in outcome.expectations if forecast.query == query}
    expected = [expected_in(second, rates, scenario.calendar) or np.nan for second in seconds]
    axes.plot(seconds + 0.5, expected, color=_EXPECTED, linewidth=1.6)
    top = max(counts.max() * 1.4, 1)
    result = score(history.planted, outcome.detections)
    for planted, match in result.pairs:
        if planted.query == query and planted.start in seconds:
            colour = _KINDS[planted.kind]
            axes.plot([planted.start, planted.end], [top * 0.9] * 2, color=colour, linewidth=7, alpha=0.25,
                      solid_capstyle="butt")  # fmt: skip
            text = "missed" if match is None else f"reported {match.reported - planted.start:.0f} s after it began"
            axes.text(planted.end + 2, top * 0.89, text, color=colour, fontsize=8.5, va="center")
    for detection in outcome.detections:
        anomaly = detection.anomaly
        if anomaly.query == query and anomaly.second in seconds:
            at, colour = anomaly.second + 0.5, _KINDS[anomaly.kind]
            axes.plot(at, top * 0.9, _MARKS[anomaly.kind], color=colour, markersize=9, clip_on=False)
            if detection in result.false:
                axes.text(at + 3, top * 0.89, "false", color=colour, fontsize=8.5, va="center")
    axes.set_ylim(0, top)
    axes.set_title(f"“{query}”")
    axes.set_ylabel("queries a second")


def _draw_delays(axes: Axes, outcome: Outcome, seconds: NDArray[np.int64]) -> None:
    complete = [second for second in seconds if second in outcome.completed]
    behind = [outcome.completed[second] - second - 1 for second in complete]
    axes.step(np.array(complete), behind, where="post", color=_EXPECTED, linewidth=1.6)
    for detection in outcome.detections:
        second, kind = detection.anomaly.second, detection.anomaly.kind
        if second in seconds:
            axes.plot(second + 0.5, max(detection.reported - second - 1, 0), _MARKS[kind],
                      color=_KINDS[kind], markersize=9, clip_on=False)  # fmt: skip
    top = max(behind, default=1.0)
    axes.set_ylim(-top / 12, top * 1.15)
    axes.axhline(0, color="#c9d0d7", linewidth=0.8)
    worst = int(np.argmax(behind))
    axes.annotate(
        "records are on their way: the low watermark waits,\nand dips wait with it",
        (complete[worst], behind[worst]), xytext=(60, -12), textcoords="offset points", va="center",
        color=_EXPECTED, arrowprops={"arrowstyle": "-", "color": _EXPECTED},
    )  # fmt: skip
    axes.text(seconds[-1], top * 0.18, "spikes wait for nothing, dips for the watermark", ha="right", color=_EXPECTED)
    axes.set_title("How long after each second the low watermark passed it, and its anomaly was reported")
    axes.set_ylabel("seconds of processing time")
    axes.set_xlabel("event time, in seconds")


def _timely(history: History, query: str, seconds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count the records that arrived without delay, by second."""
    asked, seen = (history.table[name].cast("int64").to_numpy() for name in ("asked", "seen"))
    _, first = np.unique(history.table["id"].to_numpy(), return_index=True)
    soon = first[(history.table["query"].to_numpy() == query)[first] & (seen - asked < _SOON * SECOND)[first]]
    return np.bincount(asked[soon] // SECOND, minlength=seconds[-1] + 1)[seconds]


def _legend() -> list[Any]:
    return [
        Patch(color=_TIMELY, label=f"arrived within {_SOON:.0f} s"),
        Patch(color=_DELAYED, label="arrived later"),
        Line2D([], [], color=_EXPECTED, label="expected (at the bottom: the low watermark)"),
        Line2D([], [], color="#888888", alpha=0.35, linewidth=7, label="planted"),
        Line2D([], [], color=_KINDS[Kind.SPIKE], marker="^", linewidth=0, markersize=9, label="spike reported"),
        Line2D([], [], color=_KINDS[Kind.DIP], marker="v", linewidth=0, markersize=9, label="dip reported"),
    ]
