"""What the elements wait for that a ParDo with changing side inputs buffers: no instant has to search them all."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from dataflow_model.runners.engine.state.queues import Deadlines
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from dataflow_model.values import Window

Asking: TypeAlias = "tuple[Window, int]"
"""A main window, and the watermark when its elements arrived, which decides which side windows they may use.

The watermark counts only if the bounds of side windows depend on their elements; otherwise it is −∞.
"""


class Awaited:
    """The side windows for which buffered elements wait, and the earliest event time of these elements.

    Args:
        sides: the number of side inputs.

    Example:
        >>> import dataflow_model as dm
        >>> [minute] = dm.FixedWindows(60).assign(dm.event_time(5), None)
        >>> awaited = Awaited(1)
        >>> awaited.add((minute, 0), [minute], 5_000_000)
        >>> awaited.hold(), awaited.take_passed([59_999_999]), len(awaited.take_passed([60_000_000]))
        (5000000, set(), 1)
        >>> awaited.remove((minute, 0))
        >>> len(awaited.of(0, minute))
        0
    """

    def __init__(self, sides: int) -> None:
        self._sides = sides
        self._dues: Deadlines[Asking] = Deadlines(sides + 1)
        self._earliest: dict[Asking, int] = {}
        self._targets: dict[Asking, Sequence[Window]] = {}
        self._of: dict[tuple[int, Window], set[Asking]] = {}

    def add(self, asking: Asking, targets: Sequence[Window], time: int) -> None:
        """Add a buffered element.

        Args:
            asking: its main window, and the watermark when it arrived.
            targets: its window of each side input; nothing if they may change.
            time: its event time.
        """
        earliest = self._earliest.get(asking)
        if earliest is not None and earliest <= time:
            return
        self._earliest[asking] = time
        self._targets[asking] = targets
        for target in enumerate(targets):
            self._of.setdefault(target, set()).add(asking)
        ends: list[int | None] = [int(target.end) for target in targets]
        self._dues.set(asking, (*(ends or [None] * self._sides), time))

    def remove(self, asking: Asking) -> None:
        """Remove the elements of a main window."""
        del self._earliest[asking]
        self._dues.remove(asking)
        for target in enumerate(self._targets.pop(asking)):
            several = self._of[target]
            several.discard(asking)
            if not several:
                del self._of[target]

    def of(self, number: int, target: Window) -> Collection[Asking]:
        """Return who waits for a window of a side input."""
        return self._of.get((number, target), ())

    def take_passed(self, watermarks: Sequence[int]) -> set[Asking]:
        """Return, once, who waits for a side window that the watermark of its side input has passed."""
        return {asking for number, until in enumerate(watermarks) for asking in self._dues.take(number, until)}

    def hold(self) -> int:
        """Return the earliest event time of the buffered elements; +∞ if there are none."""
        first = self._dues.first(self._sides)
        return int(MAX_TIMESTAMP) if first is None else first
