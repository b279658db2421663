"""Positions for labels: near the things that they name, and without overlaps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable


@attrs.frozen
class Rectangle:
    """A rectangle by its middle, width and height, all in the same unit.

    Example:
        >>> Rectangle(0, 0, 4, 2).overlap(Rectangle(3, 0, 4, 2))
        2.0
    """

    x: float
    y: float
    width: float
    height: float

    def overlap(self, other: Rectangle) -> float:
        """Return the area that two rectangles share."""
        across = min(self.x + self.width / 2, other.x + other.width / 2) - max(
            self.x - self.width / 2, other.x - other.width / 2
        )
        up = min(self.y + self.height / 2, other.y + other.height / 2) - max(
            self.y - self.height / 2, other.y - other.height / 2
        )
        return max(across, 0.0) * max(up, 0.0)


@attrs.frozen
class Taken:
    """A rectangle that is occupied, and the cost of covering a unit of its area."""

    rectangle: Rectangle
    cost: float = 1.0


def position_of(
    size: tuple[float, float], wanted: Iterable[tuple[float, float, float]], taken: Iterable[Taken]
) -> Rectangle:
    """Return the rectangle for a label with the least cost: for the area that it covers, and for its position.

    Args:
        size: the width and height of the label.
        wanted: possible middles of the label, each with its cost.
        taken: the rectangles that should not be covered, each with the cost per unit of covered area.

    Example:
        >>> position_of((4, 2), [(0, 0, 0), (5, 0, 1)], [Taken(Rectangle(1, 0, 2, 2), 1.0)])
        Rectangle(x=5, y=0, width=4, height=2)
    """
    obstacles = list(taken)
    candidates = [(Rectangle(x, y, *size), cost) for x, y, cost in wanted]
    hidden = [sum(it.cost * rectangle.overlap(it.rectangle) for it in obstacles) for rectangle, _ in candidates]
    # `min` returns the first of several minima.
    best = min(range(len(candidates)), key=lambda number: hidden[number] + candidates[number][1])
    return candidates[best][0]
