"""The contents of a picture, in numbers: points, the watermark's path, and the area that each pane covers."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs

from dataflow_model.errors import InvalidArgument
from dataflow_model.plan.endpoints.scripts import AddStep, ClockStep, WatermarkStep
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.triggers.contexts import LOW_WATERMARK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dataflow_model.figures.running import PanelRun
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.time import EventTime
    from dataflow_model.values import Pane

MINUTE: Final = 60_000_000
_MARGIN: Final = MINUTE // 4
_BEFORE_FIRST: Final = MINUTE * 3 // 20
"""Least margins: around the picture, and below a pane's first element, so that its circle is inside the pane."""


@attrs.frozen
class Point:
    """An element: a value, when it happened and when it was seen, all in microseconds.

    Attributes:
        late: whether the watermark had passed it.
        dropped: whether all its windows had expired.
    """

    value: Any
    event_time: int
    processing_time: int
    late: bool
    dropped: bool


@attrs.frozen
class Box:
    """A rectangle of the plane: `[left, right)` in event time, `[bottom, top)` in processing time."""

    left: int
    right: int
    bottom: int
    top: int


@attrs.frozen
class Band:
    """The area that a pane covers: from the panes before it up to the time at which it was emitted.

    Attributes:
        boxes: adjacent boxes, several if the panes before it were emitted at different times; none for a retraction.
        left, right, top: its window in the picture, and the time at which it was emitted.
    """

    pane: Pane
    boxes: tuple[Box, ...]
    left: int
    right: int
    top: int


@attrs.frozen
class Scene:
    """Everything that is drawn in one panel.

    Attributes:
        frame: the part of the plane that is shown.
        watermark: corners of the watermark's path as (event time, processing time).
    """

    frame: Box
    points: tuple[Point, ...]
    watermark: tuple[tuple[int, int], ...]
    bands: tuple[Band, ...]


def scene_of(run: PanelRun) -> Scene:
    """Return the scene of a panel.

    Raises:
        InvalidArgument: for a script without elements.

    Example:
        >>> from dataflow_model.figures.running import run
        >>> scene = scene_of(run("watermark_heuristic")[0])
        >>> [point.value for point in scene.points if point.dropped]
        [9]
        >>> [(band.pane.value, (band.right - band.left) // MINUTE) for band in scene.bands]
        [(5, 2), (18, 2), (4, 2), (12, 2)]
    """
    moments = list(_moments(run))
    strategy = run.panel.windowing.strategy
    points = tuple(
        Point(_bare(value), int(at), clock, int(at) < watermark, _expired(strategy, value, at, watermark))
        for clock, watermark, elements in moments
        for value, at in elements
    )
    if not points:
        raise InvalidArgument(
            f"the script of figure {run.figure.name!r} has no elements to draw",
            hint="add an element: TestStream().add(…)",
        )
    frame = _frame(run, points, moments[-1][0])
    shown = tuple(point for point in points if frame.left <= point.event_time < frame.right)
    watermark = _path([(clock, mark) for clock, mark, _ in moments], frame)
    return Scene(frame, shown, watermark, tuple(_bands(run.panes, points, frame)))


def _moments(run: PanelRun) -> Iterator[tuple[int, int, tuple[tuple[Any, EventTime], ...]]]:
    """Yield the clock, the watermark and the new elements after each step, and at the end of the input."""
    clock, watermark = 0, int(MIN_TIMESTAMP)
    for step in run.figure.script.steps:
        elements: tuple[tuple[Any, EventTime], ...] = ()
        match step:
            case ClockStep():
                clock = int(step.processing_time)
            case WatermarkStep() if step.percentile == LOW_WATERMARK:
                watermark = int(step.watermark)
            case AddStep():
                elements = step.elements
            case _:
                continue
        yield clock, watermark, elements
    yield clock, int(MAX_TIMESTAMP), ()


def _bare(element: Any) -> Any:
    _, value = element
    return value


def _expired(strategy: WindowingStrategy, element: Any, at: EventTime, watermark: int) -> bool:
    windows = strategy.window_fn.assign(at, element)
    lateness = int(strategy.allowed_lateness)
    return all(min(int(window.end) + lateness, int(MAX_TIMESTAMP)) <= watermark for window in windows)


def _frame(run: PanelRun, points: Sequence[Point], end: int) -> Box:
    """Return the whole minutes that contain all points and finite windows, or the window in focus."""
    focus = run.figure.focus
    if focus is not None:
        points = [point for point in points if int(focus.start) <= point.event_time < int(focus.end)]
    times = [point.event_time for point in points]
    ends = [int(pane.window.end) for pane in run.panes if pane.window.end < MAX_TIMESTAMP]
    starts = [int(pane.window.start) for pane in run.panes if pane.window.start > MIN_TIMESTAMP]
    left, right = min(times + starts), max(times + ends)
    if focus is not None:
        left, right = int(focus.start), int(focus.end)
    first = min(point.processing_time for point in points)
    last = max([int(pane.processing_time) for pane in run.panes], default=end)
    if focus is None:
        last = max(last, end)
    left, right = left // MINUTE * MINUTE, -(-right // MINUTE) * MINUTE
    across, up = max(_MARGIN, (right - left) // 40), max(_MARGIN, (last - first) // 20)
    return Box(
        left - across,
        right + across,
        min(first // MINUTE * MINUTE + MINUTE // 2, first - 2 * _before_first(first, last)),
        last + up,
    )


def _before_first(first: int, last: int) -> int:
    return max(_BEFORE_FIRST, (last - first) // 40)


def _path(moments: Iterable[tuple[int, int]], frame: Box) -> tuple[tuple[int, int], ...]:
    """Return the corners of the watermark's path, which is constant between events."""
    corners: list[tuple[int, int]] = []
    before = frame.left
    for clock, watermark in moments:
        mark = min(max(watermark, frame.left), frame.right)
        if mark == before:
            continue
        height = max(clock, frame.bottom)
        if clock > frame.bottom:
            corners.append((before, height))
        corners.append((mark, height))
        if mark == frame.right:
            return tuple(corners)
        before = mark
    return (*corners, (before, frame.top))


def _bands(panes: Iterable[Pane], points: Iterable[Point], frame: Box) -> Iterator[Band]:
    """Yield each pane with the area between the panes before it and the time at which it was emitted."""
    covered: list[Box] = []
    before = _before_first(frame.bottom, frame.top)
    for pane in panes:
        left, right = max(int(pane.window.start), frame.left), min(int(pane.window.end), frame.right)
        top = int(pane.processing_time)
        if pane.is_retraction:
            yield Band(pane, (), left, right, top)
            continue
        inside = [point.processing_time for point in points if left <= point.event_time < right and not point.dropped]
        first = min(inside, default=top) - before
        boxes = tuple(_boxes(left, right, top, first, covered))
        covered.append(Box(left, right, first, top))
        yield Band(pane, boxes, left, right, top)


def _boxes(left: int, right: int, top: int, first: int, covered: list[Box]) -> Iterator[Box]:
    edges = {left, right, *(edge for box in covered for edge in (box.left, box.right) if left < edge < right)}
    merged: list[Box] = []
    for start, end in itertools.pairwise(sorted(edges)):
        below = [box.top for box in covered if box.left < end and start < box.right]
        bottom = max(below, default=first)
        if merged and merged[-1].bottom == bottom:
            merged[-1] = attrs.evolve(merged[-1], right=end)
        else:
            merged.append(Box(start, end, bottom, top))
    yield from merged
