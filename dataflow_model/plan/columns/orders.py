"""The orders of records in columns: tuples that sinks compare only if it matters which of two rows is the later one."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Self

import attrs
import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


@attrs.frozen(eq=False)
class OrderColumns:
    """The orders of some records; they are tuples, which compare as such.

    Messages for commits contain pickles of this class.

    Attributes:
        count: the number of records.
        parts: the parts of the tuples: an array of numbers or a list with the part of each record, or else what all
            have in common. A single part that is a list of tuples stands for the orders themselves, if `is_whole`.
        is_whole: whether there is just such a part.

    Example:
        >>> orders = OrderColumns(2, ("a.csv", np.array([7, 4])))
        >>> orders.tuples(), orders.ascending()
        ([('a.csv', 7), ('a.csv', 4)], array([1, 0]))
    """

    count: int
    parts: tuple[Any, ...]
    is_whole: bool = False

    @classmethod
    def of(cls, orders: Iterable[tuple[Any, ...]]) -> Self:
        """Return tuples as they are."""
        whole = list(orders)
        return cls(len(whole), (whole,), is_whole=True)

    @classmethod
    def joined(cls, several: Sequence[OrderColumns]) -> OrderColumns:
        """Return the orders of several, one after the other."""
        several = [orders for orders in several if orders.count]
        if len(several) == 1:
            return several[0]
        if not several or len({(len(orders.parts), orders.is_whole) for orders in several}) > 1:
            return cls.of(itertools.chain.from_iterable(orders.tuples() for orders in several))
        counts = [orders.count for orders in several]
        columns = zip(*(orders.parts for orders in several), strict=True)
        parts = tuple(_joined(column, counts) for column in columns)
        return cls(sum(counts), parts, several[0].is_whole)

    def tuples(self) -> list[tuple[Any, ...]]:
        """Return the orders."""
        if self.is_whole:
            whole: list[tuple[Any, ...]] = self.parts[0]
            return whole
        columns = [_each(part, self.count) for part in self.parts]
        return list(zip(*columns, strict=True))

    def taken(self, rows: NDArray[np.int64]) -> OrderColumns:
        """Return the orders of some records."""
        parts = tuple(
            part[rows] if isinstance(part, np.ndarray) else [part[row] for row in rows] if _is_list(part) else part
            for part in self.parts
        )
        return attrs.evolve(self, count=len(rows), parts=parts)

    def ascending(self) -> NDArray[np.int64] | None:
        """Return the records in the order of their orders; `None` if they are in order already."""
        if any(map(_is_list, self.parts)):
            tuples = self.tuples()
            rows = np.array(sorted(range(self.count), key=tuples.__getitem__), np.int64)
            return None if (np.diff(rows) == 1).all() else rows
        arrays = [part for part in self.parts if isinstance(part, np.ndarray) and (part[1:] != part[:-1]).any()]
        if not arrays or (len(arrays) == 1 and (np.diff(arrays[0]) >= 0).all()):
            return None
        return np.lexsort(arrays[::-1])


def _is_list(part: Any) -> bool:
    return isinstance(part, list)


def _each(part: Any, count: int) -> Iterable[Any]:
    """Return the part of each record."""
    if isinstance(part, np.ndarray):
        numbers: list[int] = part.tolist()
        return numbers
    return part if isinstance(part, list) else itertools.repeat(part, count)


def _joined(column: Sequence[Any], counts: Sequence[int]) -> Any:
    """Return one part of several orders."""
    if all(isinstance(part, np.ndarray) for part in column):
        return np.concatenate(column)
    if any(isinstance(part, list | np.ndarray) for part in column) or any(part != column[0] for part in column):
        return [value for part, count in zip(column, counts, strict=True) for value in _each(part, count)]
    return column[0]
