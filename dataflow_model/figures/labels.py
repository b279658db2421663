"""Places for labels: near what they name, and clear of each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Rectangle", "Taken", "place"]


@attrs.frozen
class Rectangle:
    """A rectangle by its middle, width and height, in any one unit.

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
    """A rectangle that holds something, and what it costs to cover a unit of its area."""

    rectangle: Rectangle
    cost: float = 1.0


def place(size: tuple[float, float], wanted: Iterable[tuple[float, float, float]], taken: Iterable[Taken]) -> Rectangle:
    """Return the place of a label that costs least: what it hides, and how far it is from where one looks for it.

    Args:
        size: width and height of the label.
        wanted: middles, each with the cost of being there.
        taken: what had better not be covered, each with the cost of a covered unit of area.

    Example:
        >>> place((4, 2), [(0, 0, 0), (5, 0, 1)], [Taken(Rectangle(1, 0, 2, 2), 1.0)])
        Rectangle(x=5, y=0, width=4, height=2)
    """
    obstacles = list(taken)
    candidates = [(Rectangle(x, y, *size), cost) for x, y, cost in wanted]
    hidden = [sum(it.cost * rectangle.overlap(it.rectangle) for it in obstacles) for rectangle, _ in candidates]
    # `min` takes the first of equals.
    best = min(range(len(candidates)), key=lambda number: hidden[number] + candidates[number][1])
    return candidates[best][0]
