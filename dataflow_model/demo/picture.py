"""The demo's picture: event time across, processing time up, as the Dataflow Model paper draws it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
import matplotlib.dates as mdates
import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter

from dataflow_model.demo.answers import answer_of
from dataflow_model.demo.choice import ZONE, choose, local, worst_day
from dataflow_model.demo.pipeline import DELAY, EARLY_AFTER
from dataflow_model.demo.scene import HOUR, Scene, scene_of
from dataflow_model.errors import InvalidArgument, SinkError
from dataflow_model.time import duration_text
from dataflow_model.values import PaneTiming
from dataflow_model.values.timing_colours import TIMING_COLOURS, TIMING_INKS

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from dataflow_model.demo.answers import Outcome
    from dataflow_model.demo.choice import Shown

_NAMES: Final = {PaneTiming.EARLY: "early", PaneTiming.ON_TIME: "on time", PaneTiming.LATE: "late"}
_AHEAD: Final = "#7d8ea3"
_BEHIND: Final = "#CC79A7"
_WATERMARK: Final = "#1d2b3a"
_IDEAL: Final = "#9aa5b1"
_MARGIN: Final = HOUR // 8
_LABELS: Final = HOUR * 29 // 20
"""The space beside the picture of one window: a margin for the watermark, and room for the panes' values."""
_SETTINGS: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.titlesize": 12,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5b6775",
    "axes.axisbelow": True,
    "grid.color": "#e4e8ec",
    "timezone": str(ZONE),
}


def check_format(target: Path) -> None:
    """Check that the suffix of a picture's name is a format that Matplotlib writes.

    Raises:
        InvalidArgument: for another suffix, or none.
    """
    formats = Figure().canvas.get_supported_filetypes()
    if target.suffix.removeprefix(".").lower() not in formats:
        raise InvalidArgument(
            f"the picture {target} needs one of the suffixes {', '.join(sorted(formats))}",
            hint="choose another file with --out demo.png",
        )


def draw(path: Path, outcome: Outcome, target: Path) -> None:
    """Draw the worst day, and the hour of that day with the most late panes.

    Args:
        path: the flights.
        outcome: a run with early and late panes.
        target: the file to write; the suffix of its name determines the format.

    Raises:
        SinkError: if the file cannot be written.
    """
    day = worst_day(outcome.hourly)
    if day is None:
        return
    shown = choose(outcome.hourly, day)[0]
    scene = scene_of(path, day)
    with mpl.rc_context(_SETTINGS):
        figure = Figure(figsize=(15, 9.6), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.1, rect=(0, 0.075, 1, 0.925))  # type: ignore[union-attr,call-arg]
        grid = figure.add_gridspec(2, 2, width_ratios=(1.22, 1), height_ratios=(2.9, 1))
        whole, hour, bars = (
            figure.add_subplot(grid[:, 0]),
            figure.add_subplot(grid[0, 1]),
            figure.add_subplot(grid[1, 1]),
        )
        _draw_day(whole, scene, shown)
        _draw_hour(hour, scene, shown)
        _draw_counts(bars, outcome)
        figure.suptitle(
            f"Departures from New York on {day:%-d %B %Y}, by scheduled time and by the time when they became known",
            x=0.012, ha="left", fontsize=16, fontweight="bold",
        )  # fmt: skip
        figure.text(0.012, 0.016, _caption(shown), fontsize=10.5, color="#3c4651", linespacing=1.45)
        try:
            figure.savefig(target, dpi=105, facecolor="white")
        except OSError as error:
            raise SinkError(
                f"the picture could not be written to {target}: {error}",
                hint="choose another file with --out demo.png",
            ) from error


def _draw_day(axes: Axes, scene: Scene, shown: Shown) -> None:
    carrier, start, end = shown.group
    axes.set_title("The day: every departure, and the watermark")
    low = int(scene.event_times.min()) // HOUR * HOUR - HOUR // 2
    high = int(scene.event_times.max()) + 3 * HOUR
    top = int(scene.known.max()) + HOUR // 2
    _draw_ideal(axes, low, top)
    _draw_watermark(axes, scene)
    classes = (
        (~scene.behind, _AHEAD, 9, 0.75, "departure ahead of the watermark"),
        (scene.behind & ~scene.late, _BEHIND, 13, 0.9, "behind the watermark, but its hour was still open"),
        (scene.late, TIMING_COLOURS[PaneTiming.LATE], 13, 0.9, "late for its hour: refines it in a late pane"),
    )
    for rows, colour, size, opacity, label in classes:
        axes.scatter(
            _dates(scene.event_times[rows]), _dates(scene.known[rows]),
            s=size, color=colour, alpha=opacity, linewidths=0, label=f"{label} ({int(rows.sum())})", zorder=3,
        )  # fmt: skip
    axes.add_patch(
        _box(start, end, start - HOUR // 4, int(shown.panes[-1].processing_time) + HOUR // 4,
             facecolor="none", edgecolor=_WATERMARK, linewidth=1.6, zorder=5)
    )  # fmt: skip
    axes.annotate(
        f"carrier {carrier}, {local(start):%H:%M}–{local(end):%H:%M}:\nsee right",
        (_date((start + end) // 2), _date(int(shown.panes[-1].processing_time) + HOUR // 4)),
        xytext=(0, 14), textcoords="offset points", ha="center", fontweight="bold", color=_WATERMARK,
        arrowprops={"arrowstyle": "-", "color": _WATERMARK}, zorder=6,
    )  # fmt: skip
    _draw_night(axes, scene, top)
    _clock_axes(axes, every=2)
    axes.set_xlim(_date(low), _date(high))
    axes.set_ylim(_date(low), _date(top))
    axes.legend(loc="lower right", frameon=True, framealpha=1, edgecolor="#d5dae0", markerscale=1.6)


def _draw_hour(axes: Axes, scene: Scene, shown: Shown) -> None:
    carrier, start, end = shown.group
    axes.set_title(f"One window: carrier {carrier}, scheduled {local(start):%H:%M}–{local(end):%H:%M}, pane by pane")
    bottom = start - HOUR // 4
    last = int(shown.panes[-1].processing_time)
    top = last + (last - bottom) // 9
    right = end + _MARGIN
    _draw_ideal(axes, start - HOUR, right)
    _draw_watermark(axes, scene, until=right)
    before = start
    for pane in shown.panes:
        emitted, colour = int(pane.processing_time), TIMING_COLOURS[pane.pane.timing]
        axes.add_patch(_box(start, end, before, emitted, facecolor=colour, alpha=0.22, linewidth=0, zorder=1))
        axes.plot([_date(start), _date(end)], [_date(emitted)] * 2, color=colour, linewidth=2.2, zorder=2)
        before = emitted
    rows = scene.of(carrier, start, end)
    colours = np.where(scene.late[rows], TIMING_COLOURS[PaneTiming.LATE], np.where(scene.behind[rows], _BEHIND, _AHEAD))
    axes.scatter(
        _dates(scene.event_times[rows]), _dates(scene.known[rows]),
        s=46, color=colours, edgecolors="white", linewidths=0.8, zorder=4,
    )  # fmt: skip
    _label_panes(axes, shown, bottom, top)
    _clock_axes(axes, every=1)
    axes.set_xlim(_date(start - _MARGIN), _date(end + _LABELS))
    axes.set_ylim(_date(bottom), _date(top))
    axes.set_xticks([_date(start + quarter * HOUR // 4) for quarter in range(5)])
    axes.set_xlabel(axes.get_xlabel(), loc="left")
    axes.legend(axes.get_legend_handles_labels()[0], ["ideal watermark", "watermark"], loc="lower right", frameon=False)


def _label_panes(axes: Axes, shown: Shown, bottom: int, top: int) -> None:
    """Write each pane's value beside it, and move labels apart where panes follow each other closely."""
    end = shown.group[2]
    right = end + _MARGIN + HOUR // 30
    heights = _spread([int(pane.processing_time) for pane in shown.panes], (top - bottom) // 17, top)
    for pane, height in zip(shown.panes, heights, strict=True):
        emitted, colour = int(pane.processing_time), TIMING_INKS[pane.pane.timing]
        answer = answer_of(pane)
        flights = "flight" if answer.count == 1 else "flights"
        name = _NAMES[pane.pane.timing]
        text = f"{name}, {local(emitted):%H:%M}:  {answer.count} {flights}, mean {answer.mean:.0f} min"
        axes.annotate(
            text, (_date(end), _date(emitted)), xytext=(_date(right), _date(height)),
            va="center", ha="left", color=colour, fontweight="bold", zorder=6,
            arrowprops={"arrowstyle": "-", "color": colour, "shrinkA": 0, "shrinkB": 0, "relpos": (0, 0.5)},
        )  # fmt: skip


def _draw_counts(axes: Axes, outcome: Outcome) -> None:
    timings, panes = outcome.timings(), len(outcome.hourly)
    axes.set_title(f"All panes of the run: {panes:,}")
    names = [_NAMES[timing] for timing in TIMING_COLOURS]
    counts = [timings[timing] for timing in TIMING_COLOURS]
    bars = axes.barh(names, counts, color=list(TIMING_COLOURS.values()), height=0.62)
    axes.bar_label(bars, [f"  {count:,}  ({count / panes:.1%})" for count in counts], fontweight="bold")
    axes.invert_yaxis()
    axes.set_xlim(0, max(counts) * 1.32)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")


def _draw_watermark(axes: Axes, scene: Scene, until: int | None = None) -> None:
    # The watermark advances at ticks and stays the same between them.
    times, marks = np.repeat(scene.ticks, 2)[1:], np.repeat(scene.watermarks, 2)[:-1]
    if until is not None:
        marks = np.minimum(marks, until)
        last = int(np.argmax(marks == until)) or len(marks) - 1
        times, marks = times[: last + 1], marks[: last + 1]
    axes.plot(
        _dates(marks), _dates(times), color=_WATERMARK, linewidth=2, zorder=4,
        label=f"watermark: latest schedule seen minus {duration_text(DELAY)}",
    )  # fmt: skip


def _draw_night(axes: Axes, scene: Scene, top: int) -> None:
    """Write why the watermark does not advance for hours, if that is the case."""
    inside = (scene.ticks >= scene.known.min()) & (scene.ticks <= top)
    marks = np.unique(scene.watermarks[inside])
    stood, mark = max((int(np.ptp(scene.ticks[inside & (scene.watermarks == mark)])), int(mark)) for mark in marks)
    if stood < 2 * HOUR:
        return
    axes.text(
        _date(mark + HOUR // 6), _date(top - HOUR // 6), "night: nothing is\nscheduled, so the\nwatermark stays",
        va="top", fontsize=9.5, color=_WATERMARK, style="italic", zorder=6,
    )  # fmt: skip


def _draw_ideal(axes: Axes, low: int, high: int) -> None:
    axes.plot(
        [_date(low), _date(high)], [_date(low), _date(high)], color=_IDEAL, linewidth=1.6, linestyle=(0, (5, 3)),
        label="ideal watermark: known when scheduled", zorder=2,
    )  # fmt: skip


def _clock_axes(axes: Axes, *, every: int) -> None:
    axes.set_xlabel("event time: scheduled departure (New York)")
    axes.set_ylabel("processing time: departure known (New York)")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(mdates.HourLocator(byhour=range(0, 24, every), tz=ZONE))  # type: ignore[no-untyped-call]
        axis.set_major_formatter(mdates.DateFormatter("%H:%M", tz=ZONE))  # type: ignore[no-untyped-call]
    axes.grid()


def _caption(shown: Shown) -> str:
    carrier = shown.group[0]
    by = {timing: [pane for pane in shown.panes if pane.pane.timing is timing] for timing in TIMING_COLOURS}
    on_time, last = by[PaneTiming.ON_TIME], shown.panes[-1]
    story = ""
    if on_time:
        first, final = answer_of(on_time[0]), answer_of(last)
        story = (
            f" When the watermark passed the end of the hour, {carrier} had {first.count} flights with a mean delay of "
            f"{first.mean:.0f} min; the late panes corrected this to {final.count} flights and {final.mean:.0f} min."
        )
    return (
        f"A flight above the dashed line left after its schedule. The watermark trails the latest schedule by "
        f"{duration_text(DELAY)}; points above its line arrived behind it. An early pane is emitted\n"
        f"{duration_text(EARLY_AFTER)} after the first new element, the on-time pane when the watermark passes the end "
        f"of the hour, and a late pane for each late departure; each replaces the previous one.\n{story.strip()}"
    )


def _spread(heights: list[int], gap: int, top: int) -> list[int]:
    """Move ascending heights up as little as possible until they are a gap apart, then down again from the top.

    Example:
        >>> _spread([0, 1, 50], 10, 100)
        [0, 10, 50]
        >>> _spread([98, 99], 10, 100)
        [90, 100]
    """
    moved: list[int] = []
    for height in heights:
        moved.append(max(height, moved[-1] + gap) if moved else height)
    ceiling = top
    for index in reversed(range(len(moved))):
        moved[index] = min(moved[index], ceiling)
        ceiling = moved[index] - gap
    return moved


def _box(start: int, end: int, low: int, high: int, **style: Any) -> Rectangle:
    return Rectangle((_date(start), _date(low)), _date(end) - _date(start), _date(high) - _date(low), **style)


def _date(micros: int) -> float:
    """Return an instant as a date of matplotlib: the number of days since the epoch."""
    return micros / (24 * HOUR)


def _dates(micros: NDArray[np.int64]) -> NDArray[np.float64]:
    return micros / (24 * HOUR)
