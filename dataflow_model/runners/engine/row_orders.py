"""Where the elements of a source stand, as columns: orders that are tuples only when they are looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dataflow_model.runners.engine.lanes import Lane

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

__all__ = ["RowOrders"]


class RowOrders(Lane[Any]):
    """Orders that differ in origin, in the place there, and in the number among what was made of one row.

    Attributes:
        names: the names of the origins.
        codes: of each element, the place of its origin's name.
        sequences: of each element, its place in its origin.
        numbers: of each element, its number among what functions have made of one row; `None` if none have.
        before, behind: what all orders begin and end with.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        codes: NDArray[np.int64],
        sequences: NDArray[np.int64],
        numbers: NDArray[np.int64] | None = None,
        before: tuple[Any, ...] = (),
        behind: tuple[Any, ...] = (),
    ) -> None:
        self.names, self.codes, self.sequences = names, codes, sequences
        self.numbers, self.before, self.behind = numbers, before, behind

    @classmethod
    def of_origin(cls, name: str, sequences: NDArray[np.int64]) -> RowOrders:
        """Return the orders of elements of one origin.

        Example:
            >>> RowOrders.of_origin("a", np.array([3, 4])).numbered(np.array([0, 0, 1]))
            [('a', 3, 0), ('a', 3, 1), ('a', 4, 0)]
        """
        return cls((name,), np.zeros(len(sequences), np.int64), sequences)

    def __len__(self) -> int:
        return len(self.sequences)

    def items(self) -> Iterator[tuple[Any, ...]]:
        """Return an iterator over the orders."""
        names = [self.names[code] for code in self.codes.tolist()]
        columns: list[list[Any]] = [names, self.sequences.tolist()]
        if self.numbers is not None:
            columns.append(self.numbers.tolist())
        rows = zip(*columns, strict=True)
        if not self.before and not self.behind:
            return rows
        before, behind = self.before, self.behind
        return ((*before, *row, *behind) for row in rows)

    def item(self, row: int) -> tuple[Any, ...]:
        """Return an order."""
        number = () if self.numbers is None else (int(self.numbers[row]),)
        name, sequence = self.names[int(self.codes[row])], int(self.sequences[row])
        return (*self.before, name, sequence, *number, *self.behind)

    def part(self, start: int, stop: int) -> RowOrders:
        """Return the orders `[start, stop)`."""
        return self._at(slice(start, stop))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> RowOrders:
        """Return the orders at these places."""
        return self._at(np.asarray(rows, np.int64))

    def joined(self, other: Lane[Any]) -> RowOrders | None:
        """Return the orders of both, if they are of one form."""
        if not isinstance(other, RowOrders) or self.form != other.form:
            return None
        names = tuple(dict.fromkeys((*self.names, *other.names)))
        recoded = np.array([names.index(name) for name in other.names], np.int64)[other.codes]
        numbers = None
        if self.numbers is not None and other.numbers is not None:
            numbers = np.concatenate([self.numbers, other.numbers])
        return RowOrders(
            names,
            np.concatenate([self.codes, recoded]),
            np.concatenate([self.sequences, other.sequences]),
            numbers,
            self.before,
            self.behind,
        )

    def numbered(self, causes: NDArray[np.int64]) -> RowOrders | None:
        """Return where elements stand, each by its cause and then its number among those of one cause.

        Args:
            causes: of each element, the place here of what it was made of, rising; the result is `None` if these
                have a number already.
        """
        if self.numbers is not None or self.before or self.behind:
            return None
        places = np.arange(len(causes))
        begins = np.ones(len(causes), np.bool_)
        begins[1:] = causes[1:] != causes[:-1]
        numbers = places - np.maximum.accumulate(np.where(begins, places, 0))
        return RowOrders(self.names, self.codes[causes], self.sequences[causes], numbers)

    def between(self, before: tuple[Any, ...], behind: tuple[Any, ...]) -> RowOrders:
        """Return orders with more in front of them and behind them."""
        form = (*before, *self.before), (*self.behind, *behind)
        return RowOrders(self.names, self.codes, self.sequences, self.numbers, *form)

    def keys(self) -> list[NDArray[np.int64]]:
        """Return arrays by which the orders compare, the least significant first."""
        ranks = np.empty(len(self.names), np.int64)
        ranks[sorted(range(len(self.names)), key=self.names.__getitem__)] = np.arange(len(self.names))
        keys = [self.sequences, ranks[self.codes]]
        return keys if self.numbers is None else [self.numbers, *keys]

    def sorting(self, *major: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the places in order; `None` where they are in order already.

        Args:
            major: what counts before the orders, the most significant last.

        Example:
            >>> RowOrders.of_origin("a", np.array([4, 3])).sorting()
            array([1, 0])
        """
        keys = [*self.keys(), *major]
        rises = np.ones(max(len(self) - 1, 0), np.bool_)
        for key in keys:  # equal so far, or smaller in a more significant key
            rises = (key[:-1] < key[1:]) | ((key[:-1] == key[1:]) & rises)
        return None if rises.all() else np.lexsort(keys)

    @property
    def form(self) -> tuple[bool, tuple[Any, ...], tuple[Any, ...]]:
        """What two columns have in common that can be one."""
        return self.numbers is None, self.before, self.behind

    def _at(self, places: slice | NDArray[np.int64]) -> RowOrders:
        numbers = None if self.numbers is None else self.numbers[places]
        return RowOrders(self.names, self.codes[places], self.sequences[places], numbers, self.before, self.behind)
