"""The elements of a join by distance that may still have partners, on one shard.

They are in columns: an element has a slot, and a search tree for each key and side has its slots by event time. So an
element costs a few steps in compiled code, however many others its key has. Between commits, all that is open stays in
the columns; under a bound of memory, it leaves them as bytes, and only what a chunk needs is in columns.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from dataflow_model.plan.functions.interval_joins import Firing
from dataflow_model.runners.engine.core.columns import column_of, leading
from dataflow_model.runners.engine.core.deadlines import DeadlineQueue
from dataflow_model.runners.engine.core.search_trees import SearchTrees
from dataflow_model.runners.engine.grouping.keys import KeyTable
from dataflow_model.runners.engine.state.key_store import StoredKey, dues_of, earliest, head_bytes
from dataflow_model.runners.engine.state.queues import Deadlines
from dataflow_model.runners.engine.state.settled import SettledKeys
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.functions.interval_joins import JoinWithin

NEVER: Final = int(MAX_TIMESTAMP)
_LEAST: Final = int(MIN_TIMESTAMP)
_CLOSED: Final = -1
"""In place of the instant until which an element is open without a partner: it has one, or is not open."""
_RIGHT, _MATCHED, _EMITTED, _HOLDS = 1, 2, 4, 8
"""What a stored element is, as a sum of flags."""
_DUE, _HOLD = range(2)


def plus(times: NDArray[np.int64], micros: int) -> NDArray[np.int64]:
    """Return times that are later by a number of microseconds, or earlier; beyond ±∞ they are ±∞.

    Example:
        >>> plus(np.array([5, 2**63 - 3]), 7).tolist() == [12, 2**63 - 1]
        True
    """
    micros = max(min(micros, NEVER), -NEVER)
    if micros >= 0:
        return np.minimum(times, NEVER - micros) + micros
    return np.maximum(times, _LEAST - micros) + micros


@attrs.frozen(eq=False)
class Matches:
    """What some elements have found.

    Attributes:
        slots: the slot of each element.
        rows, partners: of each pair the row of the later element, ascending, and the slot of the earlier one.
    """

    slots: NDArray[np.int64]
    rows: NDArray[np.int64]
    partners: NDArray[np.int64]


class OpenElements:
    """A `KeyedStore` of the open elements of both sides.

    Args:
        join: what is joined.
        is_durable: whether `settle` is called, so that changes have to be known.

    Attributes:
        keys: the numbers of the keys that have elements.
        time, key, is_right, values: of each slot the event time, the number of the key, the side, and the value.
        number: of each slot, its number in the order of arrival.
        is_emitted: whether the element in a slot stands emitted without a partner.
        until: of each slot the index of the instant of the current chunk at which it finds its first partner or can
            have no more of them; −1 if that was before, `NEVER` if it is later.
    """

    def __init__(self, join: JoinWithin, *, is_durable: bool) -> None:
        distance, lateness = join.distance, join.lateness
        self._reach = [distance.reach(is_right=is_right) for is_right in (False, True)]
        self._lateness = lateness
        self._bounds = [(distance.least, distance.greatest), (-distance.greatest, -distance.least)]
        self._keeps = np.array(join.keeps)
        self._is_on_time = join.firing is Firing.ON_TIME
        self._is_durable = is_durable
        self._cold: SettledKeys | None = None
        self._cold_dues: Deadlines[bytes] = Deadlines(2)
        self._gone: set[bytes] = set()
        self._touched: list[NDArray[np.int64]] = []
        self._arrived = 0
        self._clear()

    def _clear(self) -> None:
        """Begin without elements."""
        self.keys = KeyTable()
        self._trees = SearchTrees()
        self._expiries, self._waits, self._alone = DeadlineQueue(), DeadlineQueue(), DeadlineQueue()
        self._used = 0
        self._free = np.empty(0, np.int64)
        self.time, self.key, self.number, self.until = (np.empty(0, np.int64) for _ in range(4))
        self.is_right, self.is_emitted, self._holds = (np.empty(0, np.bool_) for _ in range(3))
        self.values = np.empty(0, object)
        self._open_of_key, self._bytes_of_key = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._bytes = 0

    # Elements ------------------------------------------------------------------------------------------------------

    def is_kept(self, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether elements are emitted without a partner."""
        kept: NDArray[np.bool_] = self._keeps[self.is_right[slots].astype(np.int64)]
        return kept

    def late_after(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the last watermark at which elements with these event times are not too late."""
        return plus(times, self._lateness)

    def waited(self, times: NDArray[np.int64], is_right: NDArray[np.bool_], lateness: int) -> NDArray[np.int64]:
        """Return the watermarks at which elements have waited for their partners, and for those that are so late."""
        begin = np.maximum(times, _LEAST + 1)  # one at −∞ waits until the watermark moves
        left, right = (np.maximum(plus(begin, reach + lateness + 1), _LEAST + 1) for reach in self._reach)
        return np.where(is_right, right, left)

    def expiry(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the watermarks at which elements can have no more partners."""
        return self.waited(self.time[slots], self.is_right[slots], self._lateness)

    def wait(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the watermarks at which elements have waited for their partners that are not late."""
        return self.waited(self.time[slots], self.is_right[slots], 0)

    def add(
        self,
        keys: Sequence[Any],
        is_right: NDArray[np.bool_],
        times: NDArray[np.int64],
        values: Sequence[Any],
    ) -> Matches:
        """Add elements in order of arrival, each after it has been matched with those that are there.

        Raises:
            KeyEncodingError: for a key without a deterministic encoding.
        """
        numbers = self.keys.numbers(keys)
        first, last = (
            np.where(is_right, plus(times, self._bounds[1][bound]), plus(times, self._bounds[0][bound]))
            for bound in range(2)
        )
        slots, count = self._insert(numbers, is_right, times, values, (first, last))
        return Matches(slots, *self._found(count))

    def _insert(
        self,
        numbers: NDArray[np.int64],
        is_right: NDArray[np.bool_],
        times: NDArray[np.int64],
        values: Sequence[Any],
        bounds: tuple[NDArray[np.int64], NDArray[np.int64]],
    ) -> tuple[NDArray[np.int64], int]:
        """Insert elements, and return their slots, and how many they have found within their bounds."""
        count = len(numbers)
        slots = self._new_slots(count)
        self.time[slots], self.key[slots], self.is_right[slots] = times, numbers, is_right
        self.number[slots] = np.arange(self._arrived, self._arrived + count)
        self._arrived += count
        self.values[slots] = np.fromiter(values, object, count)
        self.is_emitted[slots] = self._holds[slots] = False
        self.until[slots] = NEVER
        self._trees.reserve(2 * len(self.keys), len(self.time))
        if len(self.keys) > len(self._open_of_key):
            grown = max(len(self.keys), 2 * len(self._open_of_key))
            self._open_of_key, self._bytes_of_key = (
                np.concatenate([column, np.zeros(grown - len(column), np.int64)])
                for column in (self._open_of_key, self._bytes_of_key)
            )
        np.add.at(self._open_of_key, numbers, 1)
        if self._is_durable:
            self._touched.append(numbers)
        trees = 2 * numbers + is_right
        columns = [column_of(column) for column in (trees, slots, times, trees ^ 1, *bounds)]
        pairs = self._trees.join(count, *columns)
        self._expiries.push_all(count, column_of(self.expiry(slots)), column_of(slots))
        return slots, pairs

    def _found(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return leading(self._trees.rows, count).copy(), leading(self._trees.slots, count).copy()

    def _new_slots(self, count: int) -> NDArray[np.int64]:
        again = min(count, len(self._free))
        slots = np.concatenate(
            [self._free[len(self._free) - again :], np.arange(self._used, self._used + count - again)]
        )
        self._free = self._free[: len(self._free) - again]
        self._used += count - again
        if self._used > len(self.time):
            more = max(self._used, 2 * len(self.time), 64) - len(self.time)
            self.time, self.key, self.number, self.until = (
                np.concatenate([column, np.empty(more, np.int64)])
                for column in (self.time, self.key, self.number, self.until)
            )
            self.is_right, self.is_emitted, self._holds = (
                np.concatenate([column, np.empty(more, np.bool_)])
                for column in (self.is_right, self.is_emitted, self._holds)
            )
            self.values = np.concatenate([self.values, np.empty(more, object)])
        return slots

    def touch(self, slots: NDArray[np.int64]) -> None:
        """Note that elements have changed."""
        if self._is_durable:
            self._touched.append(self.key[slots])

    # What waits ----------------------------------------------------------------------------------------------------

    def wait_for(self, slots: NDArray[np.int64]) -> None:
        """Let elements wait until those that are not late have arrived."""
        self._waits.push_all(len(slots), column_of(self.wait(slots)), column_of(slots))

    def take_waiting(self, watermark: int) -> NDArray[np.int64]:
        """Return the open elements that have waited so and have not been emitted, and let them wait no longer."""
        count = self._waits.pop_until(watermark)
        slots = _distinct(leading(self._waits.popped, count))
        is_waiting = (self.until[slots] >= 0) & ~self.is_emitted[slots] & self.is_kept(slots)
        return slots[is_waiting & (self.wait(slots) <= watermark)]  # a slot may have been used again

    def take_expired(self, watermark: int) -> NDArray[np.int64]:
        """Return the elements that can have no more partners; they stay in their slots until `remove`."""
        count = self._expiries.pop_until(watermark)
        slots = _distinct(leading(self._expiries.popped, count))
        return slots[(self.number[slots] >= 0) & (self.expiry(slots) <= watermark)]

    def remove(self, slots: NDArray[np.int64]) -> None:
        """Remove elements."""
        if not len(slots):
            return
        numbers = self.key[slots]
        self._trees.remove_all(len(slots), column_of(2 * numbers + self.is_right[slots]), column_of(slots))
        self.values[slots] = None
        self.until[slots], self.number[slots] = _CLOSED, _CLOSED
        self._free = np.concatenate([self._free, slots])
        np.subtract.at(self._open_of_key, numbers, 1)
        numbers = _distinct(numbers)
        empty = numbers[self._open_of_key[numbers] == 0]
        self._bytes -= int(self._bytes_of_key[empty].sum())
        self._bytes_of_key[empty] = 0
        if self._is_durable:
            self._gone.update(map(self.keys.encoded.__getitem__, empty.tolist()))
            self._touched.append(numbers)
        self.keys.release(empty)

    # Holds ---------------------------------------------------------------------------------------------------------

    def hold_at(self, slots: NDArray[np.int64]) -> None:
        """Let elements hold the watermark as long as they have no partner and may have one."""
        self._holds[slots] = True
        self._alone.push_all(len(slots), column_of(self.time[slots]), column_of(slots))

    def held_after(self, index: int) -> int:
        """Return the earliest event time of an element that holds the watermark after an instant of the chunk."""
        alone = self._alone
        while alone.size > 0:
            slot = alone.first_slot()
            if self.until[slot] > index and self._holds[slot] and self.time[slot] == alone.first_time():
                return alone.first_time()
            alone.pop()
        return NEVER

    def end_chunk(self, matched: NDArray[np.int64], expired: NDArray[np.int64]) -> None:
        """End the chunk: forget when elements have met their first partners, and remove those that can have none."""
        self.until[matched] = _CLOSED
        self.remove(expired)

    # What the store of a machine does ------------------------------------------------------------------------------

    def next_due(self) -> int | None:
        """Return the watermark at which an element next expires or has waited for those that are not late."""
        dues = [queue.first_time() for queue in (self._expiries, self._waits) if queue.size > 0]
        return earliest([*dues, self._cold_dues.first(_DUE)])

    def hold(self) -> int | None:
        """Return the earliest event time of pending output."""
        held = self.held_after(_CLOSED)
        return earliest([self.next_due(), self._cold_dues.first(_HOLD), None if held == NEVER else held])

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return the watermark at which something next happens; nothing waits for the clock."""
        return self.next_due(), None

    def size(self) -> tuple[int, int]:
        """Return the number of keys, and the number of bytes of the settled ones."""
        cold = (0, 0) if self._cold is None else (len(self._cold), self._cold.bytes)
        return self.keys.in_use() + cold[0], self._bytes + cold[1]

    def bound(self, most: int) -> None:
        """Keep settled keys in memory up to about this many bytes, and the rest on disk; see `KeyedMachine`."""
        self._cold = SettledKeys()
        self._cold.bound(most)

    def settle(self) -> dict[bytes, bytes | None]:
        """Return the changes since the last call, by encoded key; `None` for a key without elements."""
        changes: dict[bytes, bytes | None] = dict.fromkeys(self._gone)
        numbers = _distinct(np.concatenate([*self._touched, np.empty(0, np.int64)]))
        self._gone.clear()
        self._touched.clear()
        changes |= self._entries(numbers[self._open_of_key[numbers] > 0])
        if self._cold is not None:
            rest = np.flatnonzero(self._open_of_key)
            for encoded, entry in (changes | self._entries(np.setdiff1d(rest, numbers))).items():
                if entry is not None:
                    self._cold[encoded] = entry
                    self._cold_dues.set(encoded, _dues(entry))
            self._cold.spill()
            self._clear()
        return changes

    def stored(self, encoded: bytes) -> bytes | None:
        """Return a settled key's state; `None` if there is none."""
        number = self.keys.find(encoded)
        if number is not None:
            return self._entries(np.array([number]))[encoded]
        return None if self._cold is None else self._cold.peek(encoded)

    def apply(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply changes that another worker has made durable; `None` for a key without elements."""
        known = [number for number in self.keys.find_all(changes) if number is not None]
        if known:
            self.remove(self._slots_of(np.array(known))[1])
        entries = {encoded: entry for encoded, entry in changes.items() if entry is not None}
        if self._cold is None:
            self._load(entries.values())
        else:
            for encoded in changes:
                self._cold.pop(encoded, None)
                self._cold_dues.remove(encoded)
            for encoded, entry in entries.items():
                self._cold[encoded] = entry
                self._cold_dues.set(encoded, _dues(entry))
            self._cold.spill()
        self._gone.clear()
        self._touched.clear()

    def load_for(self, encoded: Iterable[bytes], watermark: int) -> None:
        """Load what a chunk needs: some keys, and those for which something is due up to a watermark."""
        if self._cold is None:
            return
        loaded = []
        for key in itertools.chain(encoded, self._cold_dues.take(_DUE, watermark)):
            entry = self._cold.pop(key, None)
            if entry is not None:
                self._cold_dues.remove(key)
                loaded.append(entry)
        self._load(loaded)

    @property
    def is_bounded(self) -> bool:
        """Whether settled keys leave the columns."""
        return self._cold is not None

    # Keys as bytes -------------------------------------------------------------------------------------------------

    def _slots_of(self, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the slots of some keys, those of each key in order of side, time and arrival, with its index."""
        trees = np.repeat(2 * numbers, 2)
        trees[1::2] += 1
        rows, slots = self._found(self._trees.walk(len(trees), column_of(trees)))
        return rows // 2, slots

    def _entries(self, numbers: NDArray[np.int64]) -> dict[bytes, bytes | None]:
        """Return what is stored of some keys, which have elements."""
        if not len(numbers):
            return {}
        rows, slots = self._slots_of(numbers)
        begins = np.flatnonzero(np.diff(rows, prepend=-1))
        is_alone = self.until[slots] == NEVER
        flags = self.is_right[slots] * _RIGHT + ~is_alone * _MATCHED + self.is_emitted[slots] * _EMITTED
        flags = flags + self._holds[slots] * _HOLDS
        waits = is_alone & ~self.is_emitted[slots] & self.is_kept(slots)
        dues = self.expiry(slots)
        if self._is_on_time:
            dues = np.where(waits, np.minimum(self.wait(slots), dues), dues)
        holds = np.where(is_alone & self._holds[slots], self.time[slots], NEVER)
        dues, holds = (np.minimum.reduceat(column, begins) for column in (dues, holds))
        elements = list(zip(flags.tolist(), self.time[slots].tolist(), self.values[slots].tolist(), strict=True))
        bounds = itertools.pairwise([*begins.tolist(), len(slots)])
        entries: dict[bytes, bytes | None] = {}
        sizes = []
        of_keys = zip(numbers.tolist(), bounds, dues.tolist(), np.minimum(dues, holds).tolist(), strict=True)
        for number, (begin, end), due, hold in of_keys:
            state = dump((self.keys.shown[number], elements[begin:end]))
            entry = entries[self.keys.encoded[number]] = StoredKey(state, (due, None), hold).packed()
            sizes.append(len(entry))
        self._bytes += sum(sizes) - int(self._bytes_of_key[numbers].sum())
        self._bytes_of_key[numbers] = sizes
        return entries

    def _load(self, entries: Iterable[bytes]) -> None:
        """Put stored keys into columns."""
        keys: list[Any] = []
        flags: list[int] = []
        times: list[int] = []
        values: list[Any] = []
        for entry in entries:
            key, elements = load(StoredKey.unpacked(entry).state)
            for flag, time, value in elements:
                keys.append(key)
                flags.append(flag)
                times.append(time)
                values.append(value)
        if not keys:
            return
        flag, at = np.array(flags), np.array(times, np.int64)
        nowhere = np.full(len(at), NEVER), np.full(len(at), _LEAST)
        is_matched = (flag & _MATCHED) > 0
        slots, _ = self._insert(self.keys.numbers(keys), (flag & _RIGHT) > 0, at, values, nowhere)
        self.until[slots[is_matched]] = _CLOSED
        self.is_emitted[slots] = (flag & _EMITTED) > 0
        self.hold_at(slots[((flag & _HOLDS) > 0) & ~is_matched])
        if self._is_on_time:
            is_waiting = (flag & (_MATCHED | _EMITTED)) == 0
            self.wait_for(slots[is_waiting & self.is_kept(slots)])


def _distinct(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return different numbers in order; with few repeats, sorting is faster than the hash table of `np.unique`."""
    in_order = np.sort(numbers)
    distinct: NDArray[np.int64] = in_order[np.diff(in_order, prepend=_CLOSED) > 0]
    return distinct


def _dues(entry: bytes) -> tuple[int | None, int | None]:
    """Return when something is next due for a stored key, and its hold of the watermark."""
    due, _, hold = dues_of(entry[: head_bytes(entry[0])])
    return due, hold
