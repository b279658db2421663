"""The examples of "Streaming Systems", chapters 2 and 4: nine scores of one team."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.figures.example import BOOK_POINTS, at, book_script, script_of_points
from dataflow_model.figures.figure import Figure, Panel
from dataflow_model.figures.validity import ValidityWindows
from dataflow_model.transforms import Window
from dataflow_model.triggers import AfterCount, AfterProcessingTime, AfterWatermark, AtPeriod, Repeatedly
from dataflow_model.values import IntervalWindow
from dataflow_model.windowing import FixedWindows, GlobalWindows, Sessions

if TYPE_CHECKING:
    from dataflow_model.testing import TestStream
    from dataflow_model.transforms import WindowInto

__all__ = ["BOOK"]

_SOURCE: Final = "Streaming Systems"
_LONG: Final = "1000 days"
_FIXED: Final = Window.into(FixedWindows("2 minutes"))
_SESSIONS: Final = Window.into(Sessions("1 minute"))
_EARLY_AND_LATE: Final = AfterWatermark(early=AfterProcessingTime("1 minute"), late=AfterCount(1))
_REFINED: Final = _FIXED.trigger(_EARLY_AND_LATE).accumulating().allowed_lateness(_LONG)


def _figure(
    name: str,
    title: str,
    says: str,
    script: TestStream,
    windowing: WindowInto,
    *,
    focus: IntervalWindow | None = None,
    bounded: bool = False,
) -> Figure:
    return Figure(name, _SOURCE, title, says, script, (Panel(windowing),), focus=focus, bounded=bounded)


BOOK: Final[tuple[Figure, ...]] = (
    _figure(
        "classic_batch",
        "Classic batch: one sum of all",
        "All data are awaited, and one answer comes at the end. Neither clock matters.",
        book_script("BATCH"),
        Window.into(GlobalWindows()),
        bounded=True,
    ),
    _figure(
        "windowed_batch",
        "Windowed batch: a sum for each two minutes",
        "The points are told apart by when they happened, yet every answer waits for the end of the input.",
        book_script("BATCH"),
        _FIXED,
        bounded=True,
    ),
    _figure(
        "per_record",
        "A pane at each element",
        "The most eager trigger: every element refines its window at once. Nothing ever says that a sum is complete.",
        book_script("BATCH"),
        _FIXED.trigger(Repeatedly(AfterCount(1))).accumulating().allowed_lateness(_LONG),
    ),
    _figure(
        "unaligned_delay",
        "A pane two minutes after the first news",
        "The delay counts from each pane's own first element, so windows fire at different moments. As the input ends, "
        "each window closes with a pane, new data or not.",
        book_script("BATCH"),
        _FIXED.trigger(Repeatedly(AfterProcessingTime("2 minutes")))
        .accumulating()
        .allowed_lateness(_LONG)
        .closing("fire_always"),
    ),
    _figure(
        "watermark_perfect",
        "One pane each, at a perfect watermark",
        "A watermark that knows what is still to come waits for the 9. No sum is wrong; the first one is slow.",
        book_script("PERFECT"),
        _FIXED,
    ),
    _figure(
        "watermark_heuristic",
        "One pane each, at a guessed watermark",
        "The guess is fast, and wrong about the 9: its window has been answered and has expired, so the 9 is dropped.",
        book_script("HEURISTIC"),
        _FIXED,
    ),
    _figure(
        "early_on_time_late_perfect",
        "Early and on-time panes",
        "Early panes a minute after news make the slow watermark bearable. With a perfect watermark no pane is late.",
        book_script("PERFECT"),
        _REFINED,
    ),
    _figure(
        "early_on_time_late_heuristic",
        "Early, on-time and late panes",
        "The 9 comes late and is not lost: a late pane corrects the sum from 5 to 14.",
        book_script("HEURISTIC"),
        _REFINED,
    ),
    _figure(
        "allowed_lateness",
        "Two minutes of lateness allowed",
        "The late 6 comes while its window is kept, and refines it. The 9 comes when the watermark is two minutes past "
        "the window's end: the window has expired, and the 9 is dropped.",
        book_script("HEURISTIC", extra_six=True),
        _REFINED.allowed_lateness("2 minutes"),
    ),
    _figure(
        "discarding",
        "Discarding: each pane holds only what is new",
        "Panes of a window have to be added up by whoever reads them. An on-time pane with nothing new is a sum of 0: "
        "it says that the window is complete.",
        book_script("HEURISTIC"),
        _REFINED.discarding(),
    ),
    _figure(
        "sessions",
        "Sessions that grow and merge",
        "Windows follow the data: scores less than a minute apart belong together. The late 9 bridges two sessions "
        "that had been answered already; the merged window starts again at index 0.",
        book_script("HEURISTIC"),
        _SESSIONS.trigger(_EARLY_AND_LATE).accumulating().allowed_lateness(_LONG),
    ),
    _figure(
        "processing_time_panes",
        "Windows of processing time, by a trigger",
        "One window of all event time and a pane each two minutes of the clock: what falls into a pane depends on when "
        "it came, not on when it happened.",
        script_of_points(BOOK_POINTS),
        Window.into(GlobalWindows()).trigger(Repeatedly(AtPeriod("2 minutes"))).discarding(),
    ),
    _figure(
        "aligned_early",
        "Early panes on the minute",
        "An aligned delay: early panes of all windows come at whole minutes of the clock.",
        book_script("HEURISTIC"),
        _FIXED.trigger(AfterWatermark(early=AtPeriod("1 minute"), late=AfterCount(1)))
        .accumulating()
        .allowed_lateness(_LONG),
    ),
    _figure(
        "validity_windows",
        "A window function of one's own: valid until the next one",
        "Each element's window ends where the next element's begins. Merging need not make windows larger: here it "
        "cuts them.",
        book_script("PERFECT"),
        Window.into(ValidityWindows()),
    ),
    _figure(
        "retracting_last_window",
        "A pane that takes the one before it back",
        "The 3 went out on the minute. A minute later it is taken back as −3, and the 12 takes its place.",
        book_script("HEURISTIC"),
        _FIXED.trigger(Repeatedly(AtPeriod("1 minute"))).accumulating_and_retracting().allowed_lateness(_LONG),
        focus=IntervalWindow(at("12:06"), at("12:08")),
    ),
    _figure(
        "sessions_retracting",
        "Sessions with retractions",
        "When sessions merge, what each of them had said is taken back, and the merged session speaks for both.",
        book_script("HEURISTIC", first_at="12:05:19"),
        _SESSIONS.trigger(AfterWatermark(early=AtPeriod("1 minute"), late=AfterCount(1)))
        .accumulating_and_retracting()
        .on_time("fire_if_non_empty")
        .allowed_lateness(_LONG),
    ),
)
"""The book's examples, in the order in which they build on each other."""
