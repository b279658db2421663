"""The picture of a figure: event time across, processing time up, as the papers draw it. Needs matplotlib."""

from __future__ import annotations

import itertools
import math
import textwrap
from typing import TYPE_CHECKING, Any, Final

import matplotlib as mpl
from matplotlib import patheffects
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.patches import Rectangle as Shape
from matplotlib.ticker import FuncFormatter, MultipleLocator

from dataflow_model.figures.example import at
from dataflow_model.figures.labels import Rectangle, Taken, position_of
from dataflow_model.figures.scene import MINUTE, scene_of
from dataflow_model.values import PaneTiming
from dataflow_model.values.timing_colours import TIMING_COLOURS, TIMING_INKS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes

    from dataflow_model.figures.running import PanelRun
    from dataflow_model.figures.scene import Band, Scene

# Edges also differ in their dashes.
_DASHES: Final[dict[PaneTiming, Any]] = {
    PaneTiming.EARLY: (0, (4, 1.5)),
    PaneTiming.ON_TIME: "-",
    PaneTiming.LATE: (0, (6, 1.5, 1.5, 1.5)),
}
_NAMES: Final = {PaneTiming.EARLY: "early pane", PaneTiming.ON_TIME: "on-time pane", PaneTiming.LATE: "late pane"}
_RETRACTION: Final = "#B00020"
_WATERMARK: Final = "#1D2B3A"
_IDEAL: Final = "#7D8794"
_LATE_POINT: Final = "#F0B24A"
_GREY: Final = "#3C4651"
_SETTINGS: Final[dict[Any, Any]] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#5B6775",
    "axes.axisbelow": True,
    "grid.color": "#E6E9ED",
}
_WIDTH: Final = 8.8
_WIDTH_OF_SEVERAL: Final = 10.5
_HEIGHT: Final = 7.4
_MOST_IN_A_ROW: Final = 5
_MOST_TICKS: Final = 12
_STEPS: Final = (1, 2, 5, 10, 15, 30, 60, 120, 360, 720, 1_440)
"""The number of minutes between two ticks of an axis."""
_TITLE: Final = 13.5
_LABEL: Final = 14.0
_CIRCLE: Final = 9.5
_LINE: Final = 3.2
"""Sizes: the picture's in inches; in points the largest title, a pane's label, an element's radius, the watermark."""


def paint(runs: Sequence[PanelRun]) -> Canvas:
    """Draw the panels of a figure side by side.

    Returns:
        a matplotlib figure, to save or to show.
    """
    figure = runs[0].figure
    width = _WIDTH if len(runs) == 1 else _WIDTH_OF_SEVERAL
    with mpl.rc_context(_SETTINGS):
        canvas = Canvas(figsize=(width, _HEIGHT), dpi=100)
        head = [*textwrap.wrap(figure.says, 112 if len(runs) == 1 else 134), *_conditions(runs)]
        title = canvas.text(0.02, 0.985, figure.heading, va="top", fontsize=_TITLE, fontweight="bold")
        title.set_fontsize(_TITLE * min(1, 0.96 * canvas.bbox.width / title.get_window_extent().width))
        canvas.text(0.02, 0.945, "\n".join(head), va="top", fontsize=9.5, color=_GREY, linespacing=1.4)
        top = (0.935 if len(runs) == 1 else 0.905) - 0.0265 * len(head)
        grid = canvas.add_gridspec(1, len(runs), left=0.09, right=0.98, bottom=0.155, top=top, wspace=0.08)
        scenes = [scene_of(run) for run in runs]
        first: Axes | None = None
        for column, (run, scene) in enumerate(zip(runs, scenes, strict=True)):
            axes = canvas.add_subplot(grid[0, column], sharey=first)
            _draw(axes, run, scene, inches=width * 0.89 / len(runs))
            first = first or axes
        handles = list(_legend(scenes))
        columns = len(handles) if len(handles) <= _MOST_IN_A_ROW else -(-len(handles) // 2)
        canvas.legend(handles=handles, loc="lower center", ncols=columns, frameon=False, fontsize=9, handlelength=2.4)
    return canvas


def _conditions(runs: Sequence[PanelRun]) -> list[str]:
    """Return the answers to where, when and how that all panels share; the others are written above each panel."""
    words = runs[0].panel.words()
    if len(runs) > 1:
        words = words[:2]
    return [line for word in words for line in textwrap.wrap(word, 118, subsequent_indent="      ")]


# One panel -----------------------------------------------------------------------------------------------------------


def _draw(axes: Axes, run: PanelRun, scene: Scene, *, inches: float) -> None:
    frame = scene.frame
    axes.set_xlim(_x(frame.left), _x(frame.right))
    axes.set_ylim(_x(frame.bottom), _x(frame.top))
    if run.panel.title:
        axes.set_title(run.panel.title, fontsize=11, fontweight="bold", loc="left")
    _clocks(axes)
    for band in scene.bands:
        _draw_band(axes, band)
    ends = (max(frame.left, frame.bottom), min(frame.right, frame.top))
    axes.plot(
        [_x(ends[0]), _x(ends[1])], [_x(ends[0]), _x(ends[1])], color=_IDEAL, linewidth=1.4, dashes=(5, 3), zorder=3
    )
    path = [(_x(mark), _x(clock)) for mark, clock in scene.watermark]
    axes.plot(*zip(*path, strict=True), color=_WATERMARK, linewidth=_LINE, zorder=3, solid_joinstyle="round")
    _draw_points(axes, scene)
    _draw_labels(axes, scene, inches)


def _draw_band(axes: Axes, band: Band) -> None:
    timing = band.pane.info.timing
    colour = TIMING_COLOURS[timing]
    sides: dict[str, Any] = {"color": colour, "linewidth": 0.9, "alpha": 0.55, "zorder": 2}
    before = band.top
    for box in band.boxes:
        corner = (_x(box.left), _x(box.bottom))
        size = (_x(box.right) - corner[0], _x(box.top) - corner[1])
        axes.add_patch(Shape(corner, *size, facecolor=colour, alpha=0.2, linewidth=0, zorder=1))
        axes.plot([corner[0]] * 2, [corner[1], _x(before)], **sides)
        before = box.bottom
    if band.boxes:
        axes.plot([_x(band.right)] * 2, [_x(before), _x(band.top)], **sides)
        axes.plot(
            [_x(band.left), _x(band.right)], [_x(band.top)] * 2,
            color=colour, linewidth=2, linestyle=_DASHES[timing], zorder=4, solid_capstyle="butt",
        )  # fmt: skip


def _draw_points(axes: Axes, scene: Scene) -> None:
    for point in scene.points:
        where = (_x(point.event_time), _x(point.processing_time))
        axes.plot(
            *where, marker="o", markersize=2 * _CIRCLE, markerfacecolor=_LATE_POINT if point.late else "white",
            markeredgecolor=_RETRACTION if point.dropped else _WATERMARK,
            markeredgewidth=1.8 if point.late else 1.2, zorder=6,
        )  # fmt: skip
        if point.dropped:
            axes.annotate(
                "dropped", where, xytext=(_CIRCLE + 4, 0), textcoords="offset points", va="center_baseline",
                fontsize=10, fontweight="bold", color=_RETRACTION, zorder=8,
            )  # fmt: skip
        axes.text(*where, str(point.value), ha="center", va="center_baseline", fontsize=10, zorder=8)


def _draw_labels(axes: Axes, scene: Scene, inches: float) -> None:
    """Write each pane's value at its upper edge: inside if there is room, otherwise close to it."""
    frame = scene.frame
    per_x = (frame.right - frame.left) / (inches * 72)  # microseconds per point of the page
    per_y = (frame.top - frame.bottom) / (axes.get_position().height * _HEIGHT * 72)
    taken = [
        Taken(Rectangle(point.event_time / per_x, point.processing_time / per_y, 2 * _CIRCLE, 2 * _CIRCLE))
        for point in scene.points
    ]
    for (x1, y1), (x2, y2) in itertools.pairwise(scene.watermark):
        middle = ((x1 + x2) / 2 / per_x, (y1 + y2) / 2 / per_y)
        line = Rectangle(*middle, abs(x1 - x2) / per_x + _LINE, abs(y1 - y2) / per_y + _LINE)
        taken.append(Taken(line, cost=0.3))  # the line remains visible on both sides of a label
    for band in scene.bands:
        text = f"−{band.pane.value}" if band.pane.is_retraction else str(band.pane.value)
        size = (0.68 * _LABEL * len(text) + (5 if band.pane.is_retraction else 2), _LABEL * 1.12)
        sides = (max(band.left, frame.left) / per_x, min(band.right, frame.right) / per_x)
        room = min([(band.top - box.bottom) / per_y for box in band.boxes], default=math.inf)
        spot = position_of(size, _wanted(band, sides, band.top / per_y, room, size), taken)
        taken.append(Taken(spot))
        _write(axes, band, text, (_x(spot.x * per_x), _x(spot.y * per_y)))


def _wanted(
    band: Band, sides: tuple[float, float], top: float, room: float, size: tuple[float, float]
) -> Iterator[tuple[float, float, float]]:
    """Yield positions for a label: on the left for a retraction, on the right for a value, below or above the edge."""
    width, height = size
    nearest, farthest = sides[0] + width / 2 + 3, sides[1] - width / 2 - 3
    steps = 12
    across = [nearest + (farthest - nearest) * step / steps for step in range(steps + 1)]
    if not band.pane.is_retraction:
        across.reverse()
    # A band that is lower than its label has the label above it.
    rows = (-0.62, 0.62, -1.75, 1.75) if room > height else (0.62, -0.62, 1.75, -1.75)
    for row, off in enumerate(rows):
        for step, x in enumerate(across):
            yield x, top + off * height, 60 * row + step


def _write(axes: Axes, band: Band, text: str, where: tuple[float, float]) -> None:
    if band.pane.is_retraction:
        axes.text(
            *where, text, ha="center", va="center_baseline", fontsize=_LABEL - 2.5, fontweight="bold", color="white",
            bbox={"boxstyle": "round,pad=0.18", "facecolor": _RETRACTION, "edgecolor": "white", "linewidth": 0.8},
            zorder=9,
        )  # fmt: skip
        return
    axes.text(
        *where, text, ha="center", va="center_baseline", fontsize=_LABEL, fontweight="bold",
        color=TIMING_INKS[band.pane.info.timing], zorder=9,
        path_effects=[patheffects.withStroke(linewidth=2.6, foreground="white")],
    )  # fmt: skip


def _clocks(axes: Axes) -> None:
    axes.set_xlabel("event time")
    if axes.get_subplotspec().colspan.start == 0:  # type: ignore[union-attr]
        axes.set_ylabel("processing time")
    else:
        axes.tick_params(labelleft=False)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        step = next((step for step in _STEPS if (high - low) / step <= _MOST_TICKS), _STEPS[-1])
        axis.set_major_locator(MultipleLocator(step))
        axis.set_minor_locator(MultipleLocator(step / 2))
        axis.set_major_formatter(FuncFormatter(_clock))
    axes.grid()


def _clock(minutes: float, _: int | None = None) -> str:
    """Write minutes since noon as a clock shows them.

    Example:
        >>> _clock(7)
        '12:07'
    """
    hours, rest = divmod(round(minutes), 60)
    return f"{(12 + hours) % 24:02}:{rest:02}"


_NOON: Final = int(at("12:00"))


def _x(micros: float) -> float:
    """Return an instant as the axes count it: minutes since noon."""
    return (micros - _NOON) / MINUTE


# Legend --------------------------------------------------------------------------------------------------------------


def _legend(scenes: Sequence[Scene]) -> Iterator[Line2D | Patch]:
    """Yield an entry for each kind of thing that the picture has."""
    points = [point for scene in scenes for point in scene.points]
    panes = [band.pane for scene in scenes for band in scene.bands]
    yield Line2D([], [], color=_IDEAL, linewidth=1.4, dashes=(5, 3), label="ideal watermark")
    yield Line2D([], [], color=_WATERMARK, linewidth=_LINE, label="watermark")
    marker: dict[str, Any] = {"marker": "o", "markersize": 10, "linewidth": 0, "markeredgecolor": _WATERMARK}
    yield Line2D([], [], markerfacecolor="white", label="element", **marker)
    if any(point.late and not point.dropped for point in points):
        yield Line2D([], [], markerfacecolor=_LATE_POINT, markeredgewidth=1.8, label="late element", **marker)
    if any(point.dropped for point in points):
        yield Line2D(
            [], [], marker="o", markersize=10, linewidth=0, markerfacecolor=_LATE_POINT,
            markeredgecolor=_RETRACTION, markeredgewidth=1.8, label="late element, dropped",
        )  # fmt: skip
    for timing, name in _NAMES.items():
        if any(pane.info.timing is timing and not pane.is_retraction for pane in panes):
            colour = TIMING_COLOURS[timing]
            yield Line2D(
                [], [], color=colour, linewidth=2, linestyle=_DASHES[timing], label=name,
                marker="s", markersize=9, markerfacecolor=f"{colour}33", markeredgewidth=0,
            )  # fmt: skip
    if any(pane.is_retraction for pane in panes):
        yield Line2D(
            [], [], marker="s", markersize=10, linewidth=0, color=_RETRACTION, label="retraction: −n takes n back"
        )
