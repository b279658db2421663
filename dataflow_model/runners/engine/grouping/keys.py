"""Numbers for keys."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.core.columns import column, column_of, leading
from dataflow_model.runners.engine.core.integers import IntegerNumbers
from dataflow_model.runners.engine.core.operations import ADD, EXPIRE, FIRE, MERGE, RETRACT, TAKE_BACK
from dataflow_model.runners.engine.lanes.lanes import ranks_of_bytes
from dataflow_model.runners.engine.lanes.value_lanes import Coded
from dataflow_model.values import are_alike, encode_key
from dataflow_model.values.keys import encode_alike, shown_key
from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.runners.engine.core.log import OperationLog

_SMALLEST: Final = -(2**63)
_LARGEST: Final = 2**63 - 1
_COLUMNS: Final = {int: pa.int64(), str: pa.string()}
"""The types of columns by that of keys."""
_FEW_MORE: Final = 4
_ONE_WAY: Final = frozenset({int, str, bytes, bool, type(None)})
"""Types for which equal values have the same representation; but a NumPy scalar may be the same key."""
_NUMPY: Final = b"numpy"
"""The pickle of a NumPy scalar contains this."""


class KeyTable:
    """Assigns a number to each key when it is first seen, and reuses the number when the key has no cells left.

    Attributes:
        shown: the keys by number, as they appear in the output.
        encoded: the keys by number, as bytes.
        varied: whether there is a key that an equal key may represent differently.
        fresh: the numbers assigned since the list was last emptied; `None` if they are not recorded.

    Example:
        >>> table = KeyTable()
        >>> table.numbers(["b"]).tolist(), table.numbers(["a", "b"]).tolist()
        ([0], [1, 0])
        >>> table.ranks().tolist()
        [1, 0]
    """

    def __init__(self) -> None:
        self.varied = False
        self.fresh: list[int] | None = None
        self.shown: list[Any] = []
        self.encoded: list[bytes] = []
        self._is_lent = False
        self._numbers: dict[bytes | None, int] = {}
        self._integers = IntegerNumbers()
        self._alike: dict[type, dict[Any, int]] = {}
        """By type, the keys that are equal only to the same key; integers have a table of their own."""
        self._looked_up_as: dict[int, Any] = {}
        """By number, the key in the table of integers or in that of its type."""
        self._pickled: dict[int | None, bytes] = {}
        """By number, keys that have been pickled and that equal keys represent in the same way."""
        self._free: list[int] = []
        self._ranks: NDArray[np.int64] | None = None
        self._column: pa.Array | None = None

    def __len__(self) -> int:
        """Return how many numbers have been assigned, including those that can be reused."""
        return len(self.shown)

    def in_use(self) -> int:
        """Return how many keys have a number."""
        return len(self._numbers)

    def numbers(self, keys: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        """Return the number of each key; a key that is new gets one.

        Args:
            keys: the keys; an array if all are 64-bit integers.
        """
        if isinstance(keys, np.ndarray):
            return self._numbers_of_integers(keys)
        if isinstance(keys, Coded):
            return self.numbers(keys.values)[keys.codes]
        if not are_alike(keys):
            return np.fromiter(map(self.number, keys), np.int64, len(keys))
        kind = type(keys[0])
        if kind is int:
            try:
                return self._numbers_of_integers(np.array(keys, np.int64))
            except OverflowError:
                return np.fromiter(map(self.number, keys), np.int64, len(keys))
        alike = self._alike.setdefault(kind, {})
        self._add(list(set(keys).difference(alike)))
        return np.fromiter(map(alike.__getitem__, keys), np.int64, len(keys))

    def _numbers_of_integers(self, keys: NDArray[Any]) -> NDArray[np.int64]:
        integers, numbers = column_of(keys), column(len(keys))
        if self._integers.find(integers, numbers):
            self._add(list(dict.fromkeys(_without_repeats(keys[leading(numbers, len(keys)) < 0]).tolist())))
            self._integers.find(integers, numbers)
        return leading(numbers, len(keys))

    def _add(self, keys: list[Any]) -> None:
        """Assign numbers to different keys that are alike, none of which is in the table of its type.

        Integers have at most 64 bits.

        Many new keys at once are faster together than with `number`, and get the same numbers.
        """
        if not keys:
            return
        kind = type(keys[0])
        encoded = encode_alike(keys)
        if not self._numbers.keys().isdisjoint(encoded):
            for key in keys:
                self.number(key)
            return
        self._ranks = self._column = None
        again = min(len(self._free), len(keys))
        numbers = [self._free.pop() for _ in range(again)]
        if numbers:
            self._take_back()
        for number, key, code in zip(numbers, keys, encoded, strict=False):
            self.shown[number], self.encoded[number] = key, code
        numbers += range(len(self.shown), len(self.shown) + len(keys) - again)
        self.shown += keys[again:]
        self.encoded += encoded[again:]
        self._numbers.update(zip(encoded, numbers, strict=True))
        self._looked_up_as.update(zip(numbers, keys, strict=True))
        if self.fresh is not None:
            self.fresh += numbers
        if kind is int:
            self._integers.put_all(column_of(np.array(keys, np.int64)), column_of(np.array(numbers, np.int64)))
        else:
            self._alike[kind].update(zip(keys, numbers, strict=True))

    def number(self, key: Any) -> int:
        """Return the number of a key."""
        encoded = encode_key(key)
        number = self._numbers.get(encoded)
        if number is None:
            self._ranks = self._column = None
            if self._free:
                number = self._free.pop()
                self._take_back()
                self.shown[number], self.encoded[number] = shown_key(key), encoded
            else:
                number = len(self.shown)
                self.shown.append(shown_key(key))
                self.encoded.append(encoded)
            self._numbers[encoded] = number
            if self.fresh is not None:
                self.fresh.append(number)
        elif not self.varied:
            self.varied = not (_looks_one_way(key) and _looks_one_way(self.shown[number]))
        if type(key) is int:
            if _SMALLEST <= key <= _LARGEST:
                self._integers.put(key, number)
                self._looked_up_as[number] = key
        elif are_alike([key]):
            self._alike.setdefault(type(key), {})[key] = number
            self._looked_up_as[number] = key
        return number

    def find(self, encoded: bytes | None) -> int | None:
        """Return the number of an encoded key; `None` if it has none."""
        return self._numbers.get(encoded)

    def find_all(self, encoded: Iterable[bytes | None]) -> list[int | None]:
        """Return the numbers of encoded keys; `None` for those that have none."""
        return list(map(self._numbers.get, encoded))

    def show_as(self, number: int, key: Any) -> None:
        """Set the representation of a key to that of the element that opened the first of its cells."""
        is_other = type(self.shown[number]) is not type(key)
        if type(key) in _ONE_WAY and not is_other:  # it is shown so already
            return
        self.shown[number] = key
        self._column = None
        self._pickled.pop(number, None)
        self.varied = self.varied or is_other or not _looks_one_way(key)

    def all_pickled(self, numbers: Sequence[int]) -> list[bytes]:
        """Return keys, pickled."""
        known = list(map(self._pickled.get, numbers))
        return [
            self.pickled(number) if pickled is None else pickled for number, pickled in zip(numbers, known, strict=True)
        ]

    def pickled(self, number: int) -> bytes:
        """Return a key, pickled."""
        pickled = self._pickled.get(number)
        if pickled is None:
            pickled = dump(self.shown[number])
            if type(self.shown[number]) in _ONE_WAY:
                self._pickled[number] = pickled
        return pickled

    def know_pickled(self, numbers: Sequence[int | None], pickled: Sequence[bytes]) -> list[int]:
        """Record what `pickled` will return for keys, unless equal keys may be pickled in different ways.

        Returns:
            the indices of the other keys, and of those without a number.
        """
        shown: Any = self.shown
        has_numpy = [_NUMPY in each for each in pickled]
        is_plain = None not in numbers and not any(has_numpy)
        if is_plain and _ONE_WAY.issuperset(map(type, map(shown.__getitem__, numbers))):
            self._pickled.update(zip(numbers, pickled, strict=True))
            return []
        are_known = [
            number is not None and type(shown[number]) in _ONE_WAY and not may_be_other
            for number, may_be_other in zip(numbers, has_numpy, strict=True)
        ]
        self._pickled.update(itertools.compress(zip(numbers, pickled, strict=True), are_known))
        return [index for index, is_known in enumerate(are_known) if not is_known]

    def shown_by_pane(
        self,
        log: OperationLog,
        numbers: NDArray[np.int64],
        keys: Sequence[Any],
        live: Mapping[int, int],
        panes: NDArray[np.int64],
    ) -> list[Any]:
        """Return the key of each pane in the representation of the element that opened the first of its cells.

        Args:
            log: the operations of a chunk.
            numbers: the number of each row's key.
            keys: the key of each row.
            live: the key's number of each slot that was in use before.
            panes: the number of each pane's key.
        """
        slots = dict(live)
        cells = Counter(live.values())
        shown: list[Any] = [None] * len(panes)
        number_of_row, number_of_pane = numbers.tolist(), panes.tolist()
        count = log.count
        operations = zip(list(log.kind[:count]), list(log.slot[:count]), list(log.argument[:count]), strict=True)
        for kind, slot, argument in operations:
            if kind in {ADD, TAKE_BACK} and slot not in slots:
                number = slots[slot] = number_of_row[argument]
                if not cells[number]:
                    self.shown[number] = shown_key(keys[argument])
                cells[number] += 1
            elif kind == MERGE:
                number = slots.pop(argument)
                cells[number] -= slot in slots
                slots[slot] = number
            elif kind == EXPIRE:
                cells[slots.pop(slot)] -= 1
            elif kind in {FIRE, RETRACT}:
                shown[argument] = self.shown[number_of_pane[argument]]
        return shown

    def release(self, numbers: NDArray[np.int64]) -> None:
        """Release numbers whose keys have no cells left."""
        released = _without_repeats(np.sort(numbers)).tolist()
        if not released:
            return
        self._take_back()
        shown, encoded, known, looked_up_as = self.shown, self.encoded, self._numbers, self._looked_up_as
        for number in released:
            if known.pop(encoded[number], None) is not None:
                key = looked_up_as.pop(number, None)
                if type(key) is int:
                    self._integers.remove(key)
                elif key is not None:
                    self._alike[type(key)].pop(key)
                self._free.append(number)
                shown[number], encoded[number] = None, b""
        if self._pickled:
            for number in released:
                self._pickled.pop(number, None)

    def lend(self, numbers: NDArray[np.int64]) -> Mapping[int, bytes] | Sequence[bytes]:
        """Return encoded keys by number, which stay as they are when their numbers are reused.

        Example:
            >>> table = KeyTable()
            >>> numbers = table.numbers(["b"])
            >>> lent = table.lend(numbers)
            >>> table.release(numbers)
            >>> lent[0] == encode_key("b"), table.encoded
            (True, [b''])
        """
        if len(self.encoded) > _FEW_MORE * len(numbers):  # a copy of all would be expensive
            return {number: self.encoded[number] for number in numbers.tolist()}
        self._is_lent = True
        return self.encoded

    def _take_back(self) -> None:
        """Leave the encoded keys to whom they are lent, and continue with a copy of them."""
        if self._is_lent:
            self.encoded, self._is_lent = self.encoded.copy(), False

    def shown_as_column(self, numbers: NDArray[np.int64]) -> pa.Array | None:
        """Return the keys with these numbers in a column; `None` unless all keys are 64-bit integers, or all texts.

        Example:
            >>> table = KeyTable()
            >>> table.shown_as_column(table.numbers(["b", "a", "b"])).to_pylist()
            ['b', 'a', 'b']
        """
        known = self._column
        if known is None:
            kind = _COLUMNS.get(type(self.shown[int(numbers[0])])) if len(numbers) else None
            if kind is None or len(set(map(type, self.shown)) - {type(None)}) > 1:
                return None
            try:
                known = self._column = pa.array(self.shown, kind)
            except (pa.ArrowException, OverflowError, UnicodeEncodeError):  # beyond 64 bits, or surrogates
                return None
        keys = known.take(pa.array(numbers))
        return None if keys.null_count else keys

    def ranks(self) -> NDArray[np.int64]:
        """Return the rank of each number's key among the encoded keys."""
        if self._ranks is None:
            self._ranks = ranks_of_bytes(self.encoded)
        return self._ranks


def _without_repeats(numbers: NDArray[Any]) -> NDArray[Any]:
    """Return some integers without those that equal the one before: the rows of a bounded job are sorted by key."""
    if len(numbers) < 2:  # noqa: PLR2004 - there is none before
        return numbers
    distinct: NDArray[Any] = numbers[np.concatenate([[True], numbers[1:] != numbers[:-1]])]
    return distinct


def _looks_one_way(key: Any) -> bool:
    """Return whether every key that is equal to this one has the same representation.

    Example:
        >>> _looks_one_way(("UA", 7)), _looks_one_way((0.0, 7))  # -0.0 in its place is the same key
        (True, False)
    """
    if type(key) is tuple:
        return all(map(_looks_one_way_within, key))
    return type(key) is float or type(key) in _ONE_WAY


def _looks_one_way_within(part: Any) -> bool:
    return all(map(_looks_one_way_within, part)) if type(part) is tuple else type(part) in _ONE_WAY
