"""`ManualClock`: a processing clock that a test advances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.errors import InvalidArgument
from dataflow_model.time import Duration, DurationLike, InstantLike, ProcessingTime, duration, processing_time

if TYPE_CHECKING:
    from typing import Self


class ManualClock:
    """A processing clock that stands still until a test advances it.

    Without a checkpoint, `LocalRunner(clock=ManualClock(…))` reads it once, when the run starts: elements of files and
    `Create` arrive at that instant. Advance the clock between two runs to make the second one later, or use a
    `TestStream` to advance time within a run. With a checkpoint, the stream reads the clock in each micro-batch. A
    function that needs the time can be given `clock.now` instead of the wall clock.

    Args:
        start: the initial time; by default the epoch.

    Example:
        >>> clock = ManualClock("2013-01-01T00:00Z")
        >>> clock.advance("90 seconds").now()
        ProcessingTime(2013-01-01T00:01:30Z)
    """

    def __init__(self, start: InstantLike = 0) -> None:
        self._now = processing_time(start)

    def now(self) -> ProcessingTime:
        """Return the current time of the clock."""
        return self._now

    def advance(self, by: DurationLike) -> Self:
        """Advance the clock by a duration.

        Raises:
            InvalidArgument: for a negative duration.
        """
        length = duration(by)
        if length < Duration(0):
            raise InvalidArgument(
                f"a clock cannot go backward, got {length!r}", hint="create a new ManualClock for each test"
            )
        self._now += length
        return self

    def advance_to(self, instant: InstantLike) -> Self:
        """Advance the clock to an instant.

        Raises:
            InvalidArgument: if the clock would go backward.
        """
        to = processing_time(instant)
        if to < self._now:
            raise InvalidArgument(
                f"a clock cannot go backward, got {to!r} after {self._now!r}",
                hint="create a new ManualClock for each test",
            )
        self._now = to
        return self

    def __repr__(self) -> str:
        return f"ManualClock({self._now!r})"
