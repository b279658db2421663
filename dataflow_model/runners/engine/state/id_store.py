"""The ids of one Deduplicate on one shard: an exact set in slices of event time, with a Bloom filter in front of it.

A slice is an interval of event time; an id is in the slice of its element. A slice is dropped as a whole when the
watermark has passed its end by the horizon. New ids are kept one by one until they are *sealed*, that is, put into a
segment of their slice. A slice's segments are a stack: a new segment is merged with those on top that are not larger.
So a micro-batch writes only new ids, an id is rewritten a few times in its life, and a slice has few segments.
"""

from __future__ import annotations

import heapq
import struct
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from dataflow_model.runners.engine.state.bloom import BloomFilter
from dataflow_model.runners.engine.state.id_segments import Segment, hash_of, hashes_of
from dataflow_model.runners.engine.state.key_store import StoredKey
from dataflow_model.time import MAX_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_SLICES_A_HORIZON: Final = 16
ADDRESS: Final = struct.Struct(">qI")
"""The name of a segment in durable state: its slice, and its index in the slice's stack."""
_SEAL_AT: Final = 1 << 16
_LARGEST: Final = 8 << 20
"""Segments with more bytes than this are no longer merged."""
_FEW: Final = 32
"""Up to this number of ids, the filter is queried one by one, which is faster than creating an array."""
_LEAST_FILTER: Final = 1 << 10
_OBJECT_BYTES: Final = 150
"""The approximate memory of an unsealed id besides its bytes: two object headers, and its entry in a table."""


@attrs.frozen
class Slices:
    """How event time is divided into slices, and when a slice expires.

    Attributes:
        horizon: the horizon in microseconds.
        width: the width of a slice in microseconds.

    Example:
        >>> slices = Slices(160)
        >>> slices.of(25), slices.expiry(slices.of(25))
        (2, 190)
    """

    horizon: int
    width: int = attrs.field(
        init=False, default=attrs.Factory(lambda self: max(1, self.horizon // _SLICES_A_HORIZON), takes_self=True)
    )

    def of(self, time: int) -> int:
        """Return the slice that contains an event time."""
        return time // self.width

    def expiry(self, number: int) -> int:
        """Return the watermark at which a slice expires."""
        return min((number + 1) * self.width + self.horizon, int(MAX_TIMESTAMP))


class IdStore:
    """A `KeyedStore` whose keys are segments of ids.

    Args:
        slices: the division of event time into slices.
        seal_at: the maximum number of unsealed ids, apart from those of one bundle.

    Attributes:
        filter_hits: the number of ids that the filter reported as present.
        filter_errors: the number of these that were not.
    """

    def __init__(self, slices: Slices, seal_at: int = _SEAL_AT) -> None:
        self.slices = slices
        self.filter_hits = 0
        self.filter_errors = 0
        self._seal_at = seal_at
        self._fresh: set[bytes] = set()
        self._fresh_of: dict[int, list[bytes]] = {}
        self._fresh_bytes = 0
        self._stacks: dict[int, list[Segment]] = {}
        self._expiries: list[int] = []
        self._listed: set[int] = set()
        self._touched: set[tuple[int, int]] = set()
        self._totals: tuple[int, int] | None = None
        self._filter: BloomFilter | None = None

    # Ids -----------------------------------------------------------------------------------------------------------

    def sealed(self, ids: Sequence[bytes]) -> Sequence[bool]:
        """Return, for each id, whether it is sealed; for the others `add` checks whether they are new."""
        if not self._stacks:
            return [False] * len(ids)
        known = self._known_filter()
        if len(ids) <= _FEW:
            suspects = [row for row, encoded in enumerate(ids) if known.may_hold_one(hash_of(encoded))]
            if not suspects:
                return [False] * len(ids)
            hashes = hashes_of([ids[row] for row in suspects])
        else:
            all_hashes = hashes_of(ids)
            rows = np.flatnonzero(known.may_hold(all_hashes))
            suspects, hashes = rows.tolist(), all_hashes[rows]
        matches = self._look_up([ids[row] for row in suspects], hashes)
        self.filter_hits += len(suspects)
        self.filter_errors += len(suspects) - int(np.count_nonzero(matches))
        duplicates = np.zeros(len(ids), np.bool_)
        duplicates[suspects] = matches
        answer: list[bool] = duplicates.tolist()
        return answer

    def add(self, encoded: bytes, number: int) -> bool:
        """Add an unsealed id to a slice; return whether it is new."""
        if encoded in self._fresh:
            return False
        self._fresh.add(encoded)
        self._fresh_bytes += _OBJECT_BYTES + len(encoded)
        self._fresh_of.setdefault(number, []).append(encoded)
        self._list(number)
        return True

    def forget_behind(self, watermark: int) -> None:
        """Drop the slices that have expired at a watermark."""
        while self._expiries and self.slices.expiry(self._expiries[0]) <= watermark:
            number = heapq.heappop(self._expiries)
            self._listed.discard(number)
            expired = self._fresh_of.pop(number, [])
            self._fresh.difference_update(expired)
            self._fresh_bytes -= _OBJECT_BYTES * len(expired) + sum(map(len, expired))
            if number in self._stacks:
                self._touched.update((number, index) for index in range(len(self._stacks.pop(number))))
                self._totals = None

    def seal_if_many(self) -> None:
        """Seal ids if there are many unsealed ones."""
        if len(self._fresh) >= self._seal_at:
            self._seal()

    def __len__(self) -> int:
        return len(self._fresh) + self._sealed_totals()[0]

    @property
    def nbytes(self) -> int:
        """The approximate memory of ids and filter, in bytes."""
        return self._fresh_bytes + self._sealed_totals()[1] + (0 if self._filter is None else self._filter.nbytes)

    def size(self) -> tuple[int, int]:
        """Return the number of ids, and the number of bytes of the sealed ones."""
        return len(self), self._sealed_totals()[1]

    def _sealed_totals(self) -> tuple[int, int]:
        """Return the number of sealed ids and their bytes; recomputed only for segments that have changed."""
        if self._totals is None:  # a list of the stacks first, since another thread may ask
            segments = [segment for stack in list(self._stacks.values()) for segment in list(stack)]
            self._totals = sum(map(len, segments)), sum(len(segment.packed) for segment in segments)
        return self._totals

    def _list(self, number: int) -> None:
        if number not in self._listed:
            self._listed.add(number)
            heapq.heappush(self._expiries, number)

    def _look_up(self, ids: list[bytes], hashes: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Look for ids in all segments."""
        matches = np.zeros(len(ids), np.bool_)
        left = np.arange(len(ids))
        for stack in self._stacks.values():
            for segment in stack:
                if not len(left):
                    return matches
                hits = segment.finds(ids, hashes, left)
                matches[left[hits]] = True
                left = left[~hits]
        return matches

    def _seal(self) -> None:
        if self._fresh_of:
            self._totals = None
        for number, ids in self._fresh_of.items():
            top = Segment.of(ids)
            self._note(top)
            stack = self._stacks.setdefault(number, [])
            merged = [top]
            size = len(top.packed)
            while stack and len(stack[-1].packed) <= size <= _LARGEST:
                self._touched.add((number, len(stack) - 1))
                merged.append(stack.pop())
                size += len(merged[-1].packed)
            stack.append(top if len(merged) == 1 else Segment.merged(merged))
            self._touched.add((number, len(stack) - 1))
        self._fresh.clear()
        self._fresh_of.clear()
        self._fresh_bytes = 0

    # The filter: never stored, but rebuilt from the hashes in the segments ------------------------------------------

    def _known_filter(self) -> BloomFilter:
        if self._filter is None:
            self._filter = BloomFilter(max(2 * self._sealed_totals()[0], _LEAST_FILTER))
            for stack in self._stacks.values():
                for segment in stack:
                    self._filter.add(segment.hashes)
        return self._filter

    def _note(self, segment: Segment) -> None:
        """Add a segment to the filter, or rebuild the filter if it is full, since it still contains expired ids."""
        if self._filter is not None and self._filter.added + len(segment) <= self._filter.capacity:
            self._filter.add(segment.hashes)
        else:
            self._filter = None

    # Durable state -------------------------------------------------------------------------------------------------

    def bound(self, most: int) -> None:
        """Do nothing: ids are compact, and each lookup may need any segment."""
        del most

    def hold(self) -> int | None:
        """Return `None`, since no output is pending for an id."""
        return None

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return no moments, since expiring ids have no visible effect."""
        return None, None

    def apply(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Apply changes that another worker has made durable."""
        self._totals = None
        for address, entry in sorted(changes.items(), key=_address):  # a stack's lower indices first
            number, index = ADDRESS.unpack(address)
            stack = self._stacks.get(number, [])
            if entry is None:
                del stack[index:]  # segments above are removed too, or follow in these changes
            else:
                segment = Segment.read(StoredKey.unpacked(entry).state)
                stack[index : index + 1] = [segment]
                self._stacks[number] = stack
                self._list(number)
                self._note(segment)
            if not stack:
                self._stacks.pop(number, None)

    def settle(self) -> dict[bytes, bytes | None]:
        """Seal all ids, and return the segments that have changed since the last call; `None` for a removed one."""
        self._seal()
        touched, self._touched = self._touched, set()
        return {(address := ADDRESS.pack(*index)): self.stored(address) for index in touched}

    def stored(self, encoded: bytes) -> bytes | None:
        """Return a segment in its stored form; `None` if there is none."""
        number, index = ADDRESS.unpack(encoded)
        stack = self._stacks.get(number, [])
        return StoredKey(stack[index].packed, (), None).packed() if index < len(stack) else None


def _address(change: tuple[bytes, Any]) -> tuple[int, int]:
    number, index = ADDRESS.unpack(change[0])
    return number, index
