"""The running example: the points of the book and of the paper, and the scripts in which they arrive.

All times are on 2000-01-01, UTC; there is one key. Values, event times and processing times are those of the Dataflow
Model paper (VLDB 2015, figures 5 to 14) and of "Streaming Systems" (chapters 2 and 4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from dataflow_model.testing import TestStream
from dataflow_model.time import EventTime, event_time

if TYPE_CHECKING:
    from collections.abc import Iterable

TimedPoint: TypeAlias = tuple[int, str, str]
"""A value, its event time, and the processing time at which it arrives."""

DAY: Final = "2000-01-01"
KEY: Final = "TeamX"

BOOK_POINTS: Final[tuple[TimedPoint, ...]] = (
    (5, "12:00:26", "12:05:19"),
    (7, "12:02:26", "12:05:39"),
    (3, "12:03:39", "12:06:13"),
    (4, "12:04:19", "12:06:39"),
    (8, "12:03:06", "12:07:06"),
    (3, "12:06:39", "12:07:19"),
    (9, "12:01:26", "12:08:19"),
    (8, "12:07:26", "12:08:39"),
    (1, "12:07:46", "12:09:00"),
)

PAPER_POINTS: Final[tuple[TimedPoint, ...]] = (
    (5, "12:00:26", "12:05:19"),
    (7, "12:02:24", "12:05:39"),
    (3, "12:03:39", "12:06:13"),
    (4, "12:03:26", "12:06:26"),
    (3, "12:04:19", "12:06:39"),
    (8, "12:03:06", "12:07:06"),
    (3, "12:06:39", "12:07:19"),
    (9, "12:01:25", "12:08:19"),
    (8, "12:07:26", "12:08:39"),
    (1, "12:07:46", "12:09:00"),
)

PAPER_WATERMARK: Final[tuple[tuple[str, str], ...]] = (
    ("12:05:59", "12:02:00"),
    ("12:07:30", "12:04:00"),
    ("12:07:40", "12:06:00"),
    ("12:09:30", "12:09:00"),
)
"""When the watermark of the paper's plots advances, and to what value."""

_END: Final = "12:10:00"

# The same elements at the same processing times. Only the watermark differs: it knows nothing before the end, it knows
# which elements are still to arrive, or it guesses. The steps have the short form of `TestStream.parse`, separated by
# bars.
STREAMS: Final[dict[str, str]] = {
    "BATCH": (
        "w 12:00:00|p 12:04:59|e 5@12:00:26|p 12:05:39|e 7@12:02:24|p 12:06:00|p 12:06:13|e 3@12:03:39|p 12:06:39|"
        "e 4@12:04:19|p 12:07:06|e 8@12:03:06|p 12:07:19|e 3@12:06:39|p 12:07:30|p 12:08:19|e 9@12:01:25|p 12:08:39|"
        "e 8@12:07:26|p 12:09:00|e 1@12:07:46|p 12:09:30|p 12:10:00|w +inf"
    ),
    "PERFECT": (
        "w 12:00:00|p 12:04:59|e 5@12:00:26|p 12:05:39|e 7@12:02:24|p 12:06:00|p 12:06:13|e 3@12:03:39|p 12:06:39|"
        "e 4@12:04:19|p 12:07:06|e 8@12:03:06|p 12:07:19|e 3@12:06:39|p 12:07:30|p 12:08:19|e 9@12:01:25|p 12:08:39|"
        "w 12:02:00|e 8@12:07:26|p 12:09:00|e 1@12:07:46|w 12:04:00|p 12:09:10|w 12:06:00|p 12:09:20|w 12:08:00|"
        "p 12:09:30|p 12:10:00|w +inf"
    ),
    "HEURISTIC": (
        "w 12:00:00|p 12:04:59|e 5@12:00:26|p 12:05:39|e 7@12:02:24|p 12:06:00|w 12:02:00|p 12:06:13|e 3@12:03:39|"
        "p 12:06:39|e 4@12:04:19|p 12:07:06|e 8@12:03:06|p 12:07:19|e 3@12:06:39|p 12:07:30|w 12:04:00|p 12:07:40|"
        "w 12:06:00|p 12:08:19|e 9@12:01:25|p 12:08:39|e 8@12:07:26|p 12:09:00|e 1@12:07:46|p 12:09:30|w 12:08:30|"
        "p 12:10:00|w +inf"
    ),
}


def at(text: str) -> EventTime:
    """Return a time of the example's day.

    Example:
        >>> at("12:02")
        EventTime(2000-01-01T12:02:00Z)
    """
    return event_time(f"{DAY}T{text}Z")


def book_script(name: str, *, extra_six: bool = False, first_at: str = "12:04:59") -> TestStream:
    """Return one of the book's scripts.

    Args:
        name: `"BATCH"`, `"PERFECT"` or `"HEURISTIC"`.
        extra_six: whether to add a 6 from 12:00:53 right after the 4, which is late but within the allowed lateness.
        first_at: the processing time of the 5.

    Example:
        >>> len(book_script("HEURISTIC", extra_six=True).steps) - len(book_script("HEURISTIC").steps)
        1
    """
    steps = [f"p {first_at}" if step == "p 12:04:59" else step for step in STREAMS[name].split("|")]
    if extra_six:
        steps.insert(steps.index("e 4@12:04:19") + 1, "e 6@12:00:53")
    return _parse(steps)


def paper_script() -> TestStream:
    """Return the paper's ten points with the watermark of its plots.

    Example:
        >>> len(paper_script().steps)
        30
    """
    moments = [(seen, f"e {value}@{happened}") for value, happened, seen in PAPER_POINTS]
    moments += [(seen, f"w {watermark}") for seen, watermark in PAPER_WATERMARK]
    timed = [step for seen, step in sorted(moments, key=lambda moment: moment[0]) for step in (f"p {seen}", step)]
    return _parse([*timed, f"p {_END}", "w +inf"])


def script_of_points(points: Iterable[TimedPoint]) -> TestStream:
    """Return points that arrive at their processing times, without a watermark before the end.

    Example:
        >>> len(script_of_points(BOOK_POINTS).steps)
        19
    """
    timed = [step for value, happened, seen in points for step in (f"p {seen}", f"e {value}@{happened}")]
    return _parse([*timed, f"p {_END}"])


def _parse(steps: Iterable[str]) -> TestStream:
    return TestStream.parse(steps, day=DAY, key=KEY)
