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

_SOURCE: Final = "Streaming Systems"
_LONG: Final = "1000 days"
_FIXED: Final = Window.into(FixedWindows("2 minutes"))
_SESSIONS: Final = Window.into(Sessions("1 minute"))
_EARLY_AND_LATE: Final = AfterWatermark(early=AfterProcessingTime("1 minute"), late=AfterCount(1))
_REFINED: Final = _FIXED.trigger(_EARLY_AND_LATE).accumulating().allowed_lateness(_LONG)


def _figure(
    name: str,
    number: str,
    title: str,
    says: str,
    script: TestStream,
    windowing: WindowInto,
    *,
    focus: IntervalWindow | None = None,
    bounded: bool = False,
) -> Figure:
    panels = (Panel(windowing),)
    return Figure(name, _SOURCE, title, says, script, panels, focus=focus, bounded=bounded, number=number)


BOOK: Final[tuple[Figure, ...]] = (
    _figure(
        "classic_batch",
        "2-3",
        "Classic batch processing",
        "The engine waits for all data and emits one result at the end. Neither clock matters.",
        book_script("BATCH"),
        Window.into(GlobalWindows()),
        bounded=True,
    ),
    _figure(
        "windowed_batch",
        "2-5",
        "Windowed summation on a batch engine",
        "Elements are grouped by when they happened, but every result waits for the end of the input.",
        book_script("BATCH"),
        _FIXED,
        bounded=True,
    ),
    _figure(
        "per_record",
        "2-6",
        "Per-record triggering on a streaming engine",
        "The most eager trigger: every element refines its window immediately. No pane says that a sum is complete.",
        book_script("BATCH"),
        _FIXED.trigger(Repeatedly(AfterCount(1))).accumulating().allowed_lateness(_LONG),
    ),
    _figure(
        "unaligned_delay",
        "2-8",
        "Two-minute unaligned delay triggers",
        "The delay starts at the first element of each pane, so windows fire at different times. When the input ends, "
        "each window emits a last pane, with or without new data.",
        book_script("BATCH"),
        _FIXED.trigger(Repeatedly(AfterProcessingTime("2 minutes")))
        .accumulating()
        .allowed_lateness(_LONG)
        .closing("fire_always"),
    ),
    _figure(
        "watermark_perfect",
        "2-10 left",
        "Windowed summation on a streaming engine with a perfect watermark",
        "A watermark that knows what is still missing waits for the 9. Every sum is correct, but the first is slow.",
        book_script("PERFECT"),
        _FIXED,
    ),
    _figure(
        "watermark_heuristic",
        "2-10 right",
        "Windowed summation on a streaming engine with a heuristic watermark",
        "The watermark is fast but wrong about the 9: its window has already fired and expired, so the 9 is dropped.",
        book_script("HEURISTIC"),
        _FIXED,
    ),
    _figure(
        "early_on_time_late_perfect",
        "2-11 left",
        "Early, on-time, and late firings with a perfect watermark",
        "Early panes a minute after new elements make up for a slow watermark. A perfect watermark has no late panes.",
        book_script("PERFECT"),
        _REFINED,
    ),
    _figure(
        "early_on_time_late_heuristic",
        "2-11 right",
        "Early, on-time, and late firings with a heuristic watermark",
        "The 9 arrives late but is not lost: a late pane corrects the sum from 5 to 14.",
        book_script("HEURISTIC"),
        _REFINED,
    ),
    _figure(
        "allowed_lateness",
        "2-12",
        "Allowed lateness with early/on-time/late firings",
        "The late 6 arrives while its window is still kept, and refines it. The 9 arrives when the watermark is more "
        "than two minutes past the end of its window: the window has expired, and the 9 is dropped.",
        book_script("HEURISTIC", extra_six=True),
        _REFINED.allowed_lateness("2 minutes"),
    ),
    _figure(
        "discarding",
        "2-13",
        "Discarding mode version of early/on-time/late firings",
        "The consumer has to add up the panes of a window. An on-time pane without new elements is a sum of 0, which "
        "says that the window is complete.",
        book_script("HEURISTIC"),
        _REFINED.discarding(),
    ),
    _figure(
        "sessions",
        "",
        "Sessions that grow and merge",
        "Windows follow the data: scores less than a minute apart belong together. The late 9 joins two sessions that "
        "have already fired; the merged window starts again at index 0.",
        book_script("HEURISTIC"),
        _SESSIONS.trigger(_EARLY_AND_LATE).accumulating().allowed_lateness(_LONG),
    ),
    _figure(
        "processing_time_panes",
        "4-3 left",
        "Processing-time “windowing” via triggers",
        "One window for all event time, and a pane every two minutes by the clock. An element's pane depends on when "
        "it arrived, not on when it happened.",
        script_of_points(BOOK_POINTS),
        Window.into(GlobalWindows()).trigger(Repeatedly(AtPeriod("2 minutes"))).discarding(),
    ),
    _figure(
        "aligned_early",
        "",
        "Early panes on the minute",
        "An aligned delay: the early panes of all windows are emitted at whole minutes of the clock.",
        book_script("HEURISTIC"),
        _FIXED.trigger(AfterWatermark(early=AtPeriod("1 minute"), late=AfterCount(1)))
        .accumulating()
        .allowed_lateness(_LONG),
    ),
    _figure(
        "validity_windows",
        "",
        "User-defined windows: valid until the next element",
        "The window of each element ends where the next one begins. Merging does not always make windows larger: here "
        "it cuts them.",
        book_script("PERFECT"),
        Window.into(ValidityWindows()),
    ),
    _figure(
        "retracting_last_window",
        "",
        "A pane that retracts the previous one",
        "The 3 is emitted on the minute. A minute later it is retracted as −3 and replaced by the 12.",
        book_script("HEURISTIC"),
        _FIXED.trigger(Repeatedly(AtPeriod("1 minute"))).accumulating_and_retracting().allowed_lateness(_LONG),
        focus=IntervalWindow(at("12:06"), at("12:08")),
    ),
    _figure(
        "sessions_retracting",
        "4-7",
        "Early and late firings with session windows and retractions",
        "When sessions merge, the panes of each are retracted, and the merged session emits one for both.",
        book_script("HEURISTIC", first_at="12:05:19"),
        _SESSIONS.trigger(AfterWatermark(early=AtPeriod("1 minute"), late=AfterCount(1)))
        .accumulating_and_retracting()
        .on_time("fire_if_non_empty")
        .allowed_lateness(_LONG),
    ),
)
"""The book's examples with its numbers and captions, in the order in which they build on each other."""
