"""Lanes: columns of a bundle in another form than a list of Python objects.

A lane is a sequence that never changes, so bundles can share it. It is read like a list. The functions `sliced`,
`taken` and `joined` select and concatenate items of both lanes and lists.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, overload

import numpy as np

from dataflow_model.overriding import override
from dataflow_model.runners.engine.lanes.uniform import concatenated, picked
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, Window
from dataflow_model.values import interval as interval_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_WORD_BYTES: Final = 8

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Lane(Sequence[T_co]):
    """A sequence that never changes. Subclasses define its items, and how it is cut and joined."""

    @abc.abstractmethod
    def items(self) -> Iterator[T_co]:
        """Return an iterator over the items."""

    @abc.abstractmethod
    def sliced(self, start: int, stop: int) -> Lane[T_co]:
        """Return the items `[start, stop)`."""

    @abc.abstractmethod
    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> Lane[T_co]:
        """Return the items at these rows, in this order."""

    @classmethod
    @abc.abstractmethod
    def joined(cls, lanes: Sequence[Any]) -> Lane[T_co] | None:
        """Return the items of several lanes of this class as one lane; `None` if one lane cannot hold them."""

    @abc.abstractmethod
    def item(self, row: int) -> T_co:
        """Return the item at a row, counted from 0."""

    def __iter__(self) -> Iterator[T_co]:
        return self.items()

    @overload
    def __getitem__(self, row: int) -> T_co: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[T_co]: ...
    def __getitem__(self, row: int | slice) -> T_co | Sequence[T_co]:
        if isinstance(row, slice):
            start, stop, step = row.indices(len(self))
            return list(self.sliced(start, max(start, stop))) if step == 1 else list(self.items())[row]
        return self.item(range(len(self))[row])

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(_equal, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self.items()))


class Repeated(Lane[T_co]):
    """The same item many times.

    Example:
        >>> list(Repeated("a", 3))
        ['a', 'a', 'a']
    """

    def __init__(self, value: T_co, count: int) -> None:
        self.value = value
        self._count = count

    def __len__(self) -> int:
        return self._count

    @override
    def items(self) -> Iterator[T_co]:
        return itertools.repeat(self.value, self._count)

    def item(self, row: int) -> T_co:
        """Return the item."""
        del row
        return self.value

    @override
    def sliced(self, start: int, stop: int) -> Repeated[T_co]:
        return Repeated(self.value, len(range(self._count)[start:stop]))

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> Repeated[T_co]:
        """Return the item, once for each row."""
        return Repeated(self.value, len(rows))

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> Lane[T_co] | None:
        """Return the item, as often as in all lanes together; `None` if their items differ."""
        value = lanes[0].value
        if all(lane.value is value or lane.value == value for lane in lanes):
            return Repeated(value, sum(map(len, lanes)))
        return None


class Integers(Lane[int]):
    """Integers in an array, which become Python numbers when they are read.

    Attributes:
        array: the integers.

    Example:
        >>> list(Integers(np.array([3, 5])).taken([1, 1, 0]))
        [5, 5, 3]
    """

    def __init__(self, array: NDArray[np.int64]) -> None:
        self.array = array

    def __len__(self) -> int:
        return len(self.array)

    def __array__(self, dtype: Any = None, *, copy: bool | None = None) -> NDArray[Any]:
        """Return the array, as NumPy asks for it."""
        return np.array(self.array, dtype) if copy else np.asarray(self.array, dtype)

    def items(self) -> Iterator[int]:
        """Return an iterator over the numbers."""
        numbers: list[int] = self.array.tolist()
        return iter(numbers)

    def item(self, row: int) -> int:
        """Return a number."""
        return int(self.array[row])

    def sliced(self, start: int, stop: int) -> Integers:
        """Return the numbers `[start, stop)`."""
        return Integers(self.array[start:stop])

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> Integers:
        """Return the numbers at these rows."""
        return Integers(picked(self.array, np.asarray(rows, np.int64)))

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> Integers:
        """Return the numbers of all."""
        return Integers(concatenated([lane.array for lane in lanes]))


class Intervals(Lane["tuple[Window, ...]"]):
    """One window for each element: a plain interval, or the global window.

    Attributes:
        starts, ends: the bounds.
        is_global: whether −∞ to +∞ is the global window.
        length: the length of all windows; `None` if they differ, or if nobody has looked.

    Example:
        >>> starts = np.array([0, 60])
        >>> windows = Intervals.alike(starts, starts + 60)
        >>> windows.length, windows.taken([1]).ends
        (60, array([120]))
    """

    def __init__(
        self,
        starts: NDArray[np.int64],
        ends: NDArray[np.int64],
        *,
        is_global: bool = False,
        length: int | None = None,
    ) -> None:
        self.starts, self.ends, self.is_global, self.length = starts, ends, is_global, length

    @classmethod
    def alike(cls, starts: NDArray[np.int64], ends: NDArray[np.int64], *, is_global: bool = False) -> Intervals:
        """Return windows that probably have one length: then only their starts are selected, sent and stored."""
        lengths = ends - starts
        same = len(lengths) > 0 and bool((lengths == lengths[0]).all())
        return cls(starts, ends, is_global=is_global, length=int(lengths[0]) if same else None)

    def __reduce__(self) -> tuple[Any, ...]:
        lengths = self.ends - self.starts if self.length is None else self.length
        return _intervals, (self.starts, lengths, self.is_global)

    def __len__(self) -> int:
        return len(self.starts)

    def items(self) -> Iterator[tuple[Window, ...]]:
        """Return an iterator over the windows; equal neighbours are the same object."""
        made: dict[tuple[int, int], tuple[Window, ...]] = {}
        for bounds in self.bounds():
            window = made.get(bounds)
            if window is None:
                window = made[bounds] = self.at(*bounds)
            yield window

    def item(self, row: int) -> tuple[Window, ...]:
        """Return a window."""
        return self.at(int(self.starts[row]), int(self.ends[row]))

    def sliced(self, start: int, stop: int) -> Intervals:
        """Return the windows `[start, stop)`."""
        starts, ends = self.starts[start:stop], self.ends[start:stop]
        return Intervals(starts, ends, is_global=self.is_global, length=self.length)

    def taken(self, rows: Sequence[int] | NDArray[np.int64]) -> Intervals:
        """Return the windows at these rows."""
        indices = np.asarray(rows, np.int64)
        starts = self.starts[indices]
        ends = self.ends[indices] if self.length is None else starts + self.length
        return Intervals(starts, ends, is_global=self.is_global, length=self.length)

    @classmethod
    def joined(cls, lanes: Sequence[Any]) -> Intervals | None:
        """Return the windows of all; `None` if only some are global."""
        is_global = lanes[0].is_global
        if any(lane.is_global != is_global for lane in lanes):
            return None
        starts = np.concatenate([lane.starts for lane in lanes])
        ends = np.concatenate([lane.ends for lane in lanes])
        [length, *others] = {lane.length for lane in lanes}
        return Intervals(starts, ends, is_global=is_global, length=None if others else length)

    def bounds(self) -> list[tuple[int, int]]:
        """Return start and end of the window of each element."""
        return list(zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def at(self, start: int, end: int) -> tuple[Window, ...]:
        """Return the windows of the elements with these bounds."""
        return (GLOBAL_WINDOW,) if self.is_global else (interval_of(start, end),)


def windows_in_columns(windows: Sequence[tuple[Window, ...]]) -> Sequence[tuple[Window, ...]]:
    """Return the windows of elements that are in one plain interval each in columns, and others as they are.

    Example:
        >>> windows_in_columns([(interval_of(0, 60),), (interval_of(60, 120),)]).starts
        array([ 0, 60])
        >>> windows_in_columns([(GLOBAL_WINDOW,)])
        [(GlobalWindow(),)]
    """
    if isinstance(windows, Lane):
        return windows
    alone = [several[0] for several in windows if len(several) == 1]
    if len(alone) < len(windows) or set(map(type, alone)) != {IntervalWindow}:
        return windows
    starts, ends = ([getattr(window, bound) for window in alone] for bound in ("start", "end"))
    return Intervals.alike(np.array(starts, np.int64), np.array(ends, np.int64))


def sliced(items: Sequence[T], start: int, stop: int) -> Sequence[T]:
    """Return the items `[start, stop)`."""
    return items.sliced(start, stop) if isinstance(items, Lane) else items[start:stop]


def taken(items: Sequence[T], rows: Sequence[int] | NDArray[np.int64]) -> Sequence[T]:
    """Return the items at these rows, in this order.

    Example:
        >>> taken(["a", "b"], [1, 0, 1])
        ['b', 'a', 'b']
    """
    if isinstance(items, Lane):
        return items.taken(rows)
    return [items[row] for row in (rows.tolist() if isinstance(rows, np.ndarray) else rows)]


def joined(items: Sequence[T], *others: Sequence[T]) -> Sequence[T]:
    """Return the items of all; if the first is a list, it is extended and returned.

    Example:
        >>> joined(Integers(np.array([1])), Integers(np.array([2])))
        [1, 2]
        >>> joined([1], Repeated(2, 2))
        [1, 2, 2]
    """
    parts = [part for part in (items, *others) if len(part)] or [items]
    first = parts[0]
    if isinstance(first, Lane) and all(type(part) is type(first) for part in parts):
        lane = first if len(parts) == 1 else first.joined(parts)
        if lane is not None:
            return lane
    together = items if isinstance(items, list) else []
    for part in parts:
        if part is not together:
            together.extend(part)
    return together


def array_of(numbers: Sequence[int]) -> NDArray[np.int64]:
    """Return integers as an array, which may be shared with a lane."""
    if isinstance(numbers, range):
        return np.arange(numbers.start, numbers.stop, numbers.step)
    return numbers.array if isinstance(numbers, Integers) else np.fromiter(numbers, np.int64, len(numbers))


def ranks_of(items: Sequence[Any]) -> NDArray[np.int64]:
    """Return the rank of each item in sorted order; equal items keep their relative order.

    Example:
        >>> ranks_of([b"b", b"c", b"a"])
        array([1, 2, 0])
    """
    ranks = np.empty(len(items), np.int64)
    ranks[sorted(range(len(items)), key=items.__getitem__)] = np.arange(len(items))
    return ranks


def ranks_of_bytes(items: Sequence[bytes]) -> NDArray[np.int64]:
    """Return the same for bytes, faster if all are short.

    Example:
        >>> ranks_of_bytes([b"b", b"c", b"a"])
        array([1, 2, 0])
    """
    # NumPy pads with zero bytes, so an item with one of its own might rank like a shorter item.
    if max(map(len, items), default=0) > _WORD_BYTES or b"\0" in b"".join(items):
        return ranks_of(items)
    words = np.array(items, f"S{_WORD_BYTES}").view(">u8").astype(np.uint64)
    ranks = np.empty(len(items), np.int64)
    ranks[np.argsort(words, kind="stable")] = np.arange(len(items))
    return ranks


def _equal(mine: object, other: object) -> bool:
    return bool(mine == other)


def _intervals(
    starts: NDArray[np.int64],
    lengths: NDArray[np.int64] | int,
    is_global: bool,  # noqa: FBT001
) -> Intervals:
    length = lengths if isinstance(lengths, int) else None
    return Intervals(starts, starts + lengths, is_global=is_global, length=length)
