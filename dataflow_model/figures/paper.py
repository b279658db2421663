"""The figures of the Dataflow Model paper: ten points, nine plots and a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.figures.example import PAPER_POINTS, at, paper_script, script_of_points
from dataflow_model.figures.figure import Figure, Panel
from dataflow_model.time import duration
from dataflow_model.transforms import Window
from dataflow_model.triggers import AfterCount, AfterEach, AfterWatermark, AtPeriod, Repeatedly, RepeatUntil
from dataflow_model.values import IntervalWindow
from dataflow_model.windowing import FixedWindows, GlobalWindows, Sessions

if TYPE_CHECKING:
    from dataflow_model.transforms import WindowInto
    from dataflow_model.windowing import WindowFn

_SOURCE: Final = "The Dataflow Model"


def _where(fn: WindowFn) -> WindowInto:
    """Return a windowing without empty panes, and with a lateness that accepts all late data."""
    return Window.into(fn).on_time("fire_if_non_empty").allowed_lateness("1000 days")


_ALL: Final = _where(GlobalWindows())
_FIXED: Final = _where(FixedWindows("2 minutes"))
_SESSIONS: Final = _where(Sessions("1 minute"))
_EVERY_MINUTE: Final = Repeatedly(AtPeriod("1 minute"))
_PARTIAL: Final = AfterEach(RepeatUntil(AtPeriod("1 minute"), AfterWatermark()), Repeatedly(AfterWatermark()))


def _figure(name: str, number: str, title: str, says: str, *panels: Panel, bounded: bool = False) -> Figure:
    # A batch engine uses no watermark, and rounds end by the clock.
    needs_watermark = not bounded and all(panel.rounds is None for panel in panels)
    script = paper_script() if needs_watermark else script_of_points(PAPER_POINTS)
    return Figure(name, _SOURCE, title, says, script, panels, bounded=bounded, number=number)


PAPER: Final[tuple[Figure, ...]] = (
    _figure(
        "6B",
        "6",
        "Classic batch execution",
        "Ten scores and one sum, once all data have arrived.",
        Panel(_ALL),
        bounded=True,
    ),
    _figure(
        "6C",
        "7",
        "GlobalWindows, AtPeriod, Accumulating",
        "An unbounded stream in one window emits a running total every minute. Each pane replaces the previous one.",
        Panel(_ALL.trigger(_EVERY_MINUTE).accumulating()),
    ),
    _figure(
        "6D",
        "8",
        "GlobalWindows, AtPeriod, Discarding",
        "The same panes contain only what has arrived since the previous pane: windows of processing time.",
        Panel(_ALL.trigger(_EVERY_MINUTE).discarding()),
    ),
    _figure(
        "6E",
        "9",
        "GlobalWindows, AtCount, Discarding",
        "Windows of counts: a pane contains two elements, however long they take to arrive.",
        Panel(_ALL.trigger(Repeatedly(AfterCount(2))).discarding()),
    ),
    _figure(
        "6F",
        "10",
        "FixedWindows, Batch",
        "Event time puts each score where it belongs; a batch engine emits every sum at the end.",
        Panel(_FIXED),
        bounded=True,
    ),
    _figure(
        "6G",
        "11",
        "FixedWindows, Micro-Batch",
        "A micro-batch engine processes the input in rounds and emits the windows that changed after each round.",
        Panel(_FIXED, rounds=duration("1 minute")),
    ),
    _figure(
        "6H",
        "12",
        "FixedWindows, Streaming",
        "A streaming engine emits a pane when the watermark passes a window. The 9 is late: its window fires again.",
        Panel(_FIXED.trigger(Repeatedly(AfterWatermark())).accumulating()),
    ),
    _figure(
        "6I",
        "13",
        "FixedWindows, Streaming, Partial",
        "Early panes every minute, then one at the watermark, then one for late data: low latency, and the correct sum "
        "in the end.",
        Panel(_FIXED.trigger(_PARTIAL).accumulating()),
    ),
    attrs.evolve(
        _figure(
            "table_1",
            "",
            "One window and three accumulation modes",
            "The same firings of the window from 12:02 to 12:04. Discarding: panes add up. Accumulating: the last pane "
            "is the sum. Retracting: panes add up, and the last one is the sum, since each retracts the previous one.",
            Panel(_FIXED.trigger(_PARTIAL).discarding(), "discarding"),
            Panel(_FIXED.trigger(_PARTIAL).accumulating(), "accumulating"),
            Panel(_FIXED.trigger(_PARTIAL).accumulating_and_retracting(), "accumulating and retracting"),
        ),
        focus=IntervalWindow(at("12:02"), at("12:04")),
    ),
    _figure(
        "6J",
        "14",
        "Sessions, Retracting",
        "Sessions grow and merge as scores arrive. The panes of sessions that no longer exist are retracted.",
        Panel(_SESSIONS.trigger(_PARTIAL).accumulating_and_retracting()),
    ),
)
"""The paper's figures with its numbers and captions, in its order; the table is before the plot that refers to it."""
