"""Orders and instants in columns; an order becomes a tuple only when it is read."""

from __future__ import annotations

import abc
import copy
import functools
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from dataflow_model.overriding import override
from dataflow_model.runners.engine.lanes.lanes import Lane, joined, ranks_of, taken
from dataflow_model.runners.engine.lanes.radix import in_order_of
from dataflow_model.runners.engine.lanes.uniform import concatenated, picked, uniform

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

_MOST: Final = 2**63 - 1


class InstantLane(Lane["tuple[int, int]"]):
    """Instants in columns.

    Attributes:
        clocks: the clock value of each instant.
        steps: distinguishes instants with the same clock value.

    Example:
        >>> InstantLane(np.array([60, 60]), np.array([0, 1]))
        [(60, 0), (60, 1)]
    """

    def __init__(self, clocks: NDArray[np.int64], steps: NDArray[np.int64]) -> None:
        self.clocks, self.steps = clocks, steps

    @classmethod
    def of(cls, at: Sequence[tuple[int, int]]) -> InstantLane:
        """Return instants as a lane; a lane is returned as it is."""
        if isinstance(at, InstantLane):
            return at
        columns = np.array(list(at), np.int64).reshape(len(at), 2)
        return cls(columns[:, 0], columns[:, 1])

    def __len__(self) -> int:
        return len(self.clocks)

    def items(self) -> Iterator[tuple[int, int]]:
        """Return an iterator over the instants."""
        return zip(self.clocks.tolist(), self.steps.tolist(), strict=True)

    def item(self, row: int) -> tuple[int, int]:
        """Return one instant."""
        return int(self.clocks[row]), int(self.steps[row])

    def sliced(self, start: int, stop: int) -> InstantLane:
        """Return the instants `[start, stop)`."""
        return InstantLane(self.clocks[start:stop], self.steps[start:stop])

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> InstantLane:
        """Return some instants."""
        indices = np.asarray(rows, np.int64)
        return InstantLane(picked(self.clocks, indices), picked(self.steps, indices))

    def numbers(self) -> NDArray[np.int64]:
        """Return a number for each instant, in the order of the instants; for sources of rows, whose steps are 0 and 1.

        Example:
            >>> InstantLane(np.array([60, 60, 61]), np.array([0, 1, 0])).numbers().tolist()
            [120, 121, 122]
        """
        return self.clocks * 2 + self.steps

    def before(self, at: tuple[int, int]) -> int:
        """Return the number of instants before another one."""
        clock, step = at
        return int(((self.clocks < clock) | ((self.clocks == clock) & (self.steps < step))).sum())

    def indices_of(self, others: InstantLane) -> NDArray[np.int64]:
        """Return the index here of each of some other instants, or −1. The instants of this lane must be ascending.

        Example:
            >>> InstantLane.of([(60, 0), (60, 1), (90, 0)]).indices_of(InstantLane.of([(90, 0), (60, 1), (70, 0)]))
            array([ 2,  1, -1])
        """
        if not len(self):
            return np.full(len(others), -1)
        first, last = int(self.clocks[0]), int(self.clocks[-1])
        lowest, highest = int(self.steps.min()), int(self.steps.max())
        count = highest - lowest + 1
        if (last - first + 1) * count <= _MOST:  # clock and step fit in one number
            known, wanted = self.clocks - first, np.clip(others.clocks, first, last) - first
        else:
            begins = np.ones(len(self), np.bool_)
            begins[1:] = self.clocks[1:] != self.clocks[:-1]
            known, wanted = np.cumsum(begins) - 1, np.searchsorted(self.clocks[begins], others.clocks)
        known = known * count + (self.steps - lowest)
        wanted = wanted * count + (np.clip(others.steps, lowest, highest) - lowest)
        rows = np.searchsorted(known, wanted)
        candidates = np.minimum(rows, len(self) - 1)
        is_here = (self.clocks[candidates] == others.clocks) & (self.steps[candidates] == others.steps)
        return np.where(is_here, candidates, -1)

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> InstantLane:
        """Return the instants of all."""
        clocks = concatenated([lane.clocks for lane in lanes])
        return InstantLane(clocks, concatenated([lane.steps for lane in lanes]))


def dense_ranks(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return the rank of each row by some columns, the least significant first; equal rows have the same one.

    Example:
        >>> dense_ranks([np.array([7, 7, 3]), np.array([1, 0, 0])])
        array([2, 1, 0])
        >>> dense_ranks([np.array([5, 5, 6])])
        array([0, 0, 1])
    """
    order = None if _rise(keys) else np.lexsort(keys)
    differs = np.zeros(len(keys[0]), np.bool_)
    for key in keys:
        in_order = key if order is None else key[order]
        differs[1:] |= in_order[1:] != in_order[:-1]
    ranks = np.cumsum(differs, dtype=np.int64)
    if order is None:
        return ranks
    by_row = np.empty(len(ranks), np.int64)
    by_row[order] = ranks
    return by_row


def as_one(keys: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Return one number per row by which rows compare as by the columns.

    Rows are sorted only if the columns do not fit into 64 bits together.

    Args:
        keys: the columns, the least significant first.

    Example:
        >>> as_one([np.array([7, 9, 8]), np.array([1, 0, 1])])
        array([3, 2, 4])
        >>> as_one([np.array([2**40, 0]), np.array([2**40, 0])])
        array([1, 0])
    """
    together, size = np.zeros(len(keys[0]), np.int64), 1
    for key in keys if len(together) else ():
        least = int(key.min())
        count = int(key.max()) - least + 1
        if size * count > _MOST:
            return dense_ranks(keys)
        if count > 1:
            together += (key - least) * size
        size *= count
    return together


def _rise(keys: Sequence[NDArray[np.int64]]) -> bool:
    """Return whether rows are in order by some columns, the least significant first."""
    rises: Any = np.True_
    for key in keys:  # equal so far, or smaller in a more significant key
        before, behind = key[:-1], key[1:]
        rises = before <= behind if rises.all() else (before < behind) | ((before == behind) & rises)
    return bool(rises.all())


class OrderLane(Lane[Any]):
    """Orders in columns; subclasses hold the orders that the elements had at first.

    Attributes:
        numbers: the number of each element among the outputs for the same input; `None` if the orders have none.
        before, behind: the common prefix and suffix of all orders.
    """

    numbers: NDArray[np.int64] | None = None
    before: tuple[Any, ...] = ()
    behind: tuple[Any, ...] = ()

    def __copy__(self) -> Self:  # which would otherwise pickle
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    @abc.abstractmethod
    def bare(self) -> Iterable[tuple[Any, ...]]:
        """Return the orders as they were at first, without number, prefix and suffix."""

    @abc.abstractmethod
    def bare_item(self, row: int) -> tuple[Any, ...]:
        """Return one of them."""

    @abc.abstractmethod
    def keys(self) -> list[NDArray[np.int64]]:
        """Return arrays by which the orders as they were at first compare, the least significant first."""

    @abc.abstractmethod
    def select(self, rows: slice | NDArray[np.int64]) -> None:
        """Keep only some of the orders as they were at first; called on a copy."""

    def items(self) -> Iterator[tuple[Any, ...]]:
        """Return an iterator over the orders."""
        before, behind = self.before, self.behind
        if self.numbers is not None:
            numbers = self.numbers.tolist()
            return ((*before, *row, number, *behind) for row, number in zip(self.bare(), numbers, strict=True))
        return ((*before, *row, *behind) for row in self.bare()) if before or behind else iter(self.bare())

    def item(self, row: int) -> tuple[Any, ...]:
        """Return an order."""
        number = () if self.numbers is None else (int(self.numbers[row]),)
        return (*self.before, *self.bare_item(row), *number, *self.behind)

    def sliced(self, start: int, stop: int) -> Self:
        """Return the orders `[start, stop)`."""
        return self._selected(slice(start, stop))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> Self:
        """Return the orders at these rows."""
        return self._selected(np.asarray(rows, np.int64))

    def numbered(self, causes: NDArray[np.int64] | range) -> Self | None:
        """Return the orders of outputs: that of the cause, then the number among its outputs.

        Args:
            causes: the row of the cause of each output, ascending; the result is `None` if the causes have a
                number, a prefix or a suffix already.
        """
        if not self.is_bare():
            return None
        numbers = uniform(0, len(causes)) if isinstance(causes, range) else numbers_within(causes)
        alone = len(causes) == len(self) and not numbers.any()  # each is the only one of its cause
        numbered = copy.copy(self) if alone else self._selected(np.asarray(causes, np.int64))
        numbered.numbers = numbers
        return numbered

    def between(self, before: tuple[Any, ...], behind: tuple[Any, ...]) -> Self:
        """Return the orders with a longer prefix and suffix."""
        longer = copy.copy(self)
        longer.before, longer.behind = (*before, *self.before), (*self.behind, *behind)
        return longer

    def sorting(self, *major: NDArray[np.int64]) -> NDArray[np.int64] | None:
        """Return the rows by which to sort the elements; `None` if they are in order already.

        Args:
            major: columns that count more than the orders, the most significant last.

        Example:
            >>> RowOrders.of_origin("a", np.array([4, 3])).sorting()
            array([1, 0])
        """
        keys = [*self.all_keys(), *major]
        return None if _rise(keys) else in_order_of(*keys)

    def ranked(self) -> NDArray[np.int64]:
        """Return numbers by which the orders compare; equal orders have equal ones."""
        return as_one(self.all_keys())

    def rising(self, firsts: Sequence[int]) -> RisingOrders:
        """Return ascending orders for the elements of each key; see `order.rising_by_key`.

        Example:
            >>> RowOrders.of_origin("a", np.array([2, 1, 0])).rising([0, 2])
            [('a', 2, 0), ('a', 2, 1), ('a', 0, 0)]
        """
        rows = np.arange(len(self))
        if not len(self):
            return RisingOrders(self.taken(rows), rows)
        begins = np.zeros(len(self), np.int64)
        begins[[first for first in firsts if first < len(self)]] = 1
        key = np.cumsum(begins)
        first = np.maximum.accumulate(np.where(begins == 1, rows, 0))
        numbers = as_one([*self.all_keys(), key])  # the orders of a later key are greater
        before = np.maximum.accumulate(numbers)
        is_greatest = np.ones(len(self), np.bool_)
        is_greatest[1:] = numbers[1:] > before[:-1]
        tops = np.maximum.accumulate(np.where(is_greatest, rows, 0))
        return RisingOrders(self.taken(tops), rows - first)

    @property
    def form(self) -> tuple[bool, tuple[Any, ...], tuple[Any, ...]]:
        """What two columns must have in common to be joined into one."""
        return self.numbers is None, self.before, self.behind

    def is_bare(self) -> bool:
        """Return whether nothing has been added to the orders as they were at first."""
        return self.numbers is None and not self.before and not self.behind

    def all_keys(self) -> list[NDArray[np.int64]]:
        """Return arrays by which the orders compare, the least significant first."""
        return [*([] if self.numbers is None else [self.numbers]), *self.keys()]

    def _selected(self, rows: slice | NDArray[np.int64]) -> Self:
        selected = copy.copy(self)
        selected.select(rows)
        selected.numbers = None if self.numbers is None else picked(self.numbers, rows)
        return selected


def numbers_within(causes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of each element among those with its cause.

    Args:
        causes: the cause of each element, ascending.

    Example:
        >>> numbers_within(np.array([3, 3, 7, 7, 7, 8]))
        array([0, 1, 0, 1, 2, 0])
    """
    numbers = np.arange(len(causes))
    begins = np.ones(len(causes), np.bool_)
    begins[1:] = causes[1:] != causes[:-1]
    return numbers - np.maximum.accumulate(np.where(begins, numbers, 0))


class RowOrders(OrderLane):
    """Orders of a source's elements, which differ in origin and in the position there.

    Attributes:
        names: the names of the origins.
        codes: of each element, the index of its origin's name.
        sequences: of each element, its position in its origin.
    """

    def __init__(self, names: tuple[str, ...], codes: NDArray[np.int64], sequences: NDArray[np.int64]) -> None:
        self.names, self.codes, self.sequences = names, codes, sequences

    @classmethod
    def of_origin(cls, name: str, sequences: NDArray[np.int64]) -> RowOrders:
        """Return the orders of elements of one origin.

        Example:
            >>> RowOrders.of_origin("a", np.array([3, 4])).numbered(np.array([0, 0, 1]))
            [('a', 3, 0), ('a', 3, 1), ('a', 4, 0)]
        """
        return cls((name,), uniform(0, len(sequences)), sequences)

    def __len__(self) -> int:
        return len(self.sequences)

    def bare(self) -> Iterable[tuple[Any, ...]]:
        """Return the origin and the position of each."""
        return zip([self.names[code] for code in self.codes.tolist()], self.sequences.tolist(), strict=True)

    def bare_item(self, row: int) -> tuple[Any, ...]:
        """Return the origin and the position of one."""
        return self.names[int(self.codes[row])], int(self.sequences[row])

    def parts(self) -> tuple[Any, ...]:
        """Return the parts of the orders, each as an array or a list, or what all have in common."""
        names = self.names[0] if len(self.names) == 1 else [self.names[code] for code in self.codes.tolist()]
        numbers = () if self.numbers is None else (self.numbers,)
        return (*self.before, names, self.sequences, *numbers, *self.behind)

    def keys(self) -> list[NDArray[np.int64]]:
        """Return the positions, and if there are several origins the ranks of their names."""
        return [self.sequences, *([ranks_of(self.names)[self.codes]] if len(self.names) > 1 else [])]

    def select(self, rows: slice | NDArray[np.int64]) -> None:
        """Keep only the orders at these rows."""
        self.codes, self.sequences = picked(self.codes, rows), self.sequences[rows]

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> RowOrders | None:
        """Return the orders of all; `None` if they differ in form."""
        first: RowOrders = lanes[0]
        if any(lane.form != first.form for lane in lanes):
            return None
        together = copy.copy(first)
        together.names = tuple(dict.fromkeys(name for lane in lanes for name in lane.names))
        codes = {name: code for code, name in enumerate(together.names)}
        together.codes = concatenated([lane.codes_among(codes) for lane in lanes])
        together.sequences = np.concatenate([lane.sequences for lane in lanes])
        numbers = [lane.numbers for lane in lanes if lane.numbers is not None]
        if numbers:  # all have them, because they have the same form
            together.numbers = concatenated(numbers)
        return together

    def codes_among(self, codes: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the codes of the elements if the names of the origins have these codes."""
        recoded = [codes[name] for name in self.names]
        if recoded == list(range(len(recoded))):
            return self.codes
        return uniform(recoded[0], len(self)) if len(recoded) == 1 else np.array(recoded, np.int64)[self.codes]


class RisingOrders(OrderLane):
    """Ascending orders for elements that are in another order than the total one.

    Attributes:
        tops: for each element, the greatest of the orders up to it.
        ranks: for each element, its number among those of its key.
    """

    def __init__(self, tops: OrderLane, ranks: NDArray[np.int64]) -> None:
        self.tops, self.ranks = tops, ranks

    def __len__(self) -> int:
        return len(self.ranks)

    def bare(self) -> Iterator[tuple[Any, ...]]:
        """Return the greatest order and the number of each."""
        return ((*top, rank) for top, rank in zip(self.tops, self.ranks.tolist(), strict=True))

    def bare_item(self, row: int) -> tuple[Any, ...]:
        """Return the same for one."""
        return (*self.tops.item(row), int(self.ranks[row]))

    def keys(self) -> list[NDArray[np.int64]]:
        """Return the numbers, then the arrays by which the greatest orders compare."""
        return [self.ranks, *self.tops.all_keys()]

    def select(self, rows: slice | NDArray[np.int64]) -> None:
        """Keep only the orders at these rows."""
        self.tops, self.ranks = self.tops.taken(np.arange(len(self))[rows]), self.ranks[rows]

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> RisingOrders | None:
        """Return the orders of all; `None` if they differ in form."""
        first: RisingOrders = lanes[0]
        tops: Sequence[Any] = joined(*(lane.tops for lane in lanes))
        if any(lane.form != first.form for lane in lanes) or not isinstance(tops, OrderLane):
            return None
        together = copy.copy(first)
        together.tops, together.ranks = tops, np.concatenate([lane.ranks for lane in lanes])
        if first.numbers is not None:
            together.numbers = np.concatenate([lane.numbers for lane in lanes])
        return together


class DeferredOrders(OrderLane):
    """Orders that are computed when one of them is first read, which may be never.

    Args:
        count: the number of orders.
        make: a function that returns them; they must not depend on anything that changes in the meantime.

    Example:
        >>> orders = DeferredOrders(2, lambda: [("a", 7), ("b", 0)])
        >>> orders.taken([1]).between((1,), ())
        [(1, 'b', 0)]
    """

    def __init__(self, count: int, make: Callable[[], Sequence[Any]]) -> None:
        self._count = count
        self._orders = functools.cache(make)  # shared with the lanes that are taken from this one
        self._rows: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.made(),)

    def made(self) -> Sequence[Any]:
        """Return the computed orders, as columns if possible, otherwise as a list."""
        made = self.bare()
        if self.is_bare() and isinstance(made, OrderLane):
            return made
        if not isinstance(made, OrderLane) or not made.is_bare():
            return list(self)
        columns = copy.copy(made)
        columns.numbers, columns.before, columns.behind = self.numbers, self.before, self.behind
        return columns

    def bare(self) -> Iterable[tuple[Any, ...]]:
        """Return the orders that `make` returns, without calling it if none is left."""
        if not self._count:
            return []
        return self._orders() if self._rows is None else taken(self._orders(), self._rows)

    @override
    def bare_item(self, row: int) -> tuple[Any, ...]:
        order: tuple[Any, ...] = self._orders()[row if self._rows is None else int(self._rows[row])]
        return order

    def keys(self) -> list[NDArray[np.int64]]:
        """Return the keys of the computed orders: those of their columns, or their ranks."""
        made = self.bare()
        return made.all_keys() if isinstance(made, OrderLane) else [ranks_of(list(made))]

    def select(self, rows: slice | NDArray[np.int64]) -> None:
        """Keep only the orders at these rows."""
        if self._rows is None and isinstance(rows, np.ndarray):
            self._rows = rows
        else:
            self._rows = (np.arange(self._count) if self._rows is None else self._rows)[rows]
        self._count = len(self._rows)

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> DeferredOrders:
        """Return the orders of all."""
        return cls(sum(map(len, lanes)), lambda: joined([], *(lane.made() for lane in lanes)))


def made_orders(orders: Sequence[Any]) -> Sequence[Any]:
    """Return orders as columns or a list, computed if they were deferred."""
    return orders.made() if isinstance(orders, DeferredOrders) else orders


def _restored(orders: Sequence[Any]) -> Sequence[Any]:
    return orders
