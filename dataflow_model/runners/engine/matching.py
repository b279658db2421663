"""Retractions and the values that replace them: both reach a grouping as one event."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

__all__ = ["matched"]


def matched(entries: Iterable[tuple[int, Hashable, bool]]) -> tuple[dict[int, list[int]], list[int]]:
    """Match retractions with the values that replace them: the next value of the same emission, key and window.

    Args:
        entries: of each element in each of its windows, in order: its number; its emission, key and window; whether it
            is a retraction.

    Returns:
        by the number of a value, the numbers of what it replaces; and the numbers of the retractions that nothing
        replaces, in order.

    Example:
        >>> matched([(0, "a", True), (1, "b", True), (2, "a", False), (3, "a", True)])
        ({2: [0]}, [1, 3])
    """
    replaced: dict[int, list[int]] = {}
    waiting: dict[Hashable, list[int]] = {}
    for number, update, is_retraction in entries:
        if is_retraction:
            waiting.setdefault(update, []).append(number)
        elif update in waiting:
            replaced[number] = waiting.pop(update)
    return replaced, sorted(number for numbers in waiting.values() for number in numbers)
