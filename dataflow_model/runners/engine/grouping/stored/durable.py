"""The core with durable state.

The durable form of a key is a `StoredKey`, whose state is packed (`packed_form`).
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from dataflow_model.overriding import override
from dataflow_model.runners.engine.core.byte_table import ByteTable
from dataflow_model.runners.engine.core.columns import leading
from dataflow_model.runners.engine.core.moving import changed_heads
from dataflow_model.runners.engine.core.program import compile_tree
from dataflow_model.runners.engine.grouping.core_grouping import CoreGrouping
from dataflow_model.runners.engine.grouping.keyed import CoreMachine
from dataflow_model.runners.engine.grouping.stored.joined import Joined
from dataflow_model.runners.engine.grouping.stored.packing import pack
from dataflow_model.runners.engine.grouping.stored.renewing import from_windows, renewed
from dataflow_model.runners.engine.grouping.stored.unpacking import unpack
from dataflow_model.runners.engine.lanes.lanes import array_of
from dataflow_model.runners.engine.lanes.watermarks import WatermarkLane
from dataflow_model.runners.engine.state.key_store import CLOCK, dues_of, earliest, head_bytes
from dataflow_model.runners.engine.state.queues import WaitingKeys
from dataflow_model.runners.engine.state.resharding import keys_of_share
from dataflow_model.runners.engine.state.settled import SettledKeys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow
    from dataflow_model.plan.logical.strategy import LateData
    from dataflow_model.runners.engine.core.cells import CellTable
    from dataflow_model.runners.engine.grouping.stored.packed_form import CellForm
    from dataflow_model.runners.engine.lanes.chunk import Chunk, Produced
    from dataflow_model.runners.engine.lanes.watermarks import Watermarks
    from dataflow_model.runners.engine.state.queues import Dues
    from dataflow_model.runners.engine.state.resharding import Share

_KEPT: Final = 1 << 17
_CELL_BYTES: Final = 320
"""The approximate memory of a cell in columns, in addition to the bytes of its key."""


class _StoredKeys:
    """The durable form of every key, and the deadlines of the keys that are not in columns.

    Args:
        domains: the number of clocks that have deadlines.

    Attributes:
        entries: the stored keys, by encoded key; see `StoredKey`.
        begin: where the state of a key begins in its stored form.
    """

    def __init__(self, domains: int) -> None:
        self.entries: ByteTable | SettledKeys = ByteTable()
        self.begin = head_bytes(domains + 1)
        self._loaded: dict[bytes, bytes] = {}
        """The keys that are in columns, with the heads of their stored form."""
        self._not_waiting: set[bytes] = set()
        """Those of them that may not be among the waiting keys with this head; the others need not be added again."""
        self._domains = domains
        self._waiting: WaitingKeys[bytes] = WaitingKeys(domains + 1, self._waiting_dues)

    def load(self, keys: Iterable[bytes]) -> Joined:
        """Return the stored form of keys to load into columns, without those that are loaded already, or are new.

        Args:
            keys: different keys.
        """
        loaded = self._loaded
        known, whole, ends = self.entries.joined([encoded for encoded in keys if encoded not in loaded])
        entries = Joined.of(known, whole, ends)
        loaded.update(zip(known, entries.parts(0, self.begin), strict=True))
        return entries

    def due(self, untils: Iterable[int]) -> list[bytes]:
        """Return the keys outside the columns with a deadline up to the clock of a domain, which the caller loads."""
        by_domain = [self._waiting.take(domain, until) for domain, until in enumerate(untils)]
        due = dict.fromkeys(itertools.chain(*by_domain))  # a key may be due in several time domains
        self._not_waiting.update(due)
        return list(due)

    def store(self, changes: dict[bytes, bytes | None]) -> None:
        """Store changed keys that are in columns, with `None` for those that were removed."""
        changed = changed_heads(self._put(changes), self._loaded, self.begin)
        self._loaded.update(changed)
        self._not_waiting.update(changed)

    def apply(self, changes: Mapping[bytes, bytes | None]) -> None:
        """Store keys that another process has changed; no key may be in columns."""
        self._wait(self._heads(self._put(changes)))
        self.spill()

    def bound(self, most: int) -> None:
        """Keep entries in memory up to about this many bytes, and the rest on disk; there are no entries yet."""
        self.entries = SettledKeys()
        self.entries.bound(most)

    def spill(self) -> None:
        """Move entries to disk if those in memory take more bytes than they may."""
        if isinstance(self.entries, SettledKeys):
            self.entries.spill()

    def unload(self) -> None:
        """Record that all keys have been removed from the columns."""
        loaded, not_waiting = self._loaded, self._not_waiting
        self._loaded, self._not_waiting = {}, set()
        self._wait({encoded: loaded[encoded] for encoded in not_waiting if encoded in loaded})

    def hold(self) -> int | None:
        """Return the earliest event time of pending output of the keys outside the columns."""
        return self._waiting.first(self._domains)

    def next_dues(self) -> Dues:
        """Return the next deadline of the keys outside the columns, for each time domain."""
        return tuple(map(self._waiting.first, range(self._domains)))

    def _heads(self, entries: Mapping[bytes, bytes]) -> dict[bytes, bytes]:
        begin = self.begin
        return {encoded: entry[:begin] for encoded, entry in entries.items()}

    def _put(self, changes: Mapping[bytes, bytes | None]) -> dict[bytes, bytes]:
        """Put changes into the entries, and forget removed keys; return the changes of the others."""
        every: Any = changes
        fresh: dict[bytes, bytes] = every
        if None in changes.values():
            fresh = {encoded: entry for encoded, entry in changes.items() if entry is not None}
            for encoded in changes.keys() - fresh.keys():
                self.entries.pop(encoded)
                self._loaded.pop(encoded, None)
        self.entries.put(fresh)
        return fresh

    def _wait(self, heads: Mapping[bytes, bytes]) -> None:
        """Add the deadlines of keys outside the columns, and remove outdated ones if most of them are."""
        for dues, keys in _by_dues(heads.items()):
            self._waiting.add(dues, keys)
        if self._waiting.are_mostly_outdated(len(self.entries)):
            heads_of_all = ((encoded, self._waiting_head(encoded)) for encoded in self.entries)
            self._waiting.refill(_by_dues(heads_of_all))

    def _waiting_dues(self, encoded: bytes) -> Dues | None:
        """Return the deadlines of a key outside the columns; note a key in columns, which no longer waits."""
        if encoded in self._loaded:
            self._not_waiting.add(encoded)
            return None
        head = self._waiting_head(encoded)
        return dues_of(head) if head else None

    def _waiting_head(self, encoded: bytes) -> bytes:
        """Return the head of a stored key; `b""` for other keys."""
        entry = self.entries.peek(encoded)
        return b"" if entry is None else entry[: self.begin]


def _by_dues(heads: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[Dues, list[bytes]]]:
    """Yield the keys with the same head together, with their deadlines."""
    keys_by_head: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for encoded, head in heads:
        keys_by_head[head].append(encoded)
    for head, keys in keys_by_head.items():
        yield dues_of(head), keys


class _DurableGrouping(CoreGrouping):
    """A grouping that loads stored keys into columns when their elements arrive.

    Args:
        node: the grouping.
        late_data: the pipeline's default for expired windows.
        stored: the stored keys.
        takes_back: whether its input may contain retractions.
        cells: see `GroupingMachine`.
    """

    def __init__(
        self,
        node: GroupByKeyAndWindow,
        late_data: LateData,
        stored: _StoredKeys,
        *,
        takes_back: bool,
        cells: CellTable | None = None,
    ) -> None:
        super().__init__(node, late_data, takes_back=takes_back, cells=cells)
        self._stored = stored
        self._touched: set[bytes] = set()
        self._loaded = 0
        self.keys.fresh = []

    def load(self, keys: Iterable[bytes]) -> None:
        """Load keys that are stored but not in columns."""
        begin = self._stored.begin
        entries = self._stored.load(keys)
        if not len(entries):
            return
        self._note_touched()
        before = self.machine.cells.live
        unpack(self, entries, begin)
        self._loaded += self.machine.cells.live - before
        self.machine.cells.forget_touched()

    def recycle(self) -> None:
        """Release the last chunk, and record which keys it has changed."""
        self._note_touched()
        super().recycle()

    def take_changes(self) -> dict[bytes, bytes | None]:
        """Return the keys that have changed since the last call, with `None` for those that were removed.

        Keys that were both created and removed since then are left out.
        """
        self.recycle()
        touched = list(self._touched)
        self._touched.clear()
        numbers = zip(self.keys.find_all(touched), touched, strict=True)
        encoded = {number: key for number, key in numbers if number is not None}
        packed = pack(self, encoded)
        if len(packed) == len(touched):
            return packed
        gone = [key for key in touched if key not in packed and key in self._stored.entries]
        return {**dict.fromkeys(gone), **packed}

    def is_changed(self) -> bool:
        """Return whether keys have changed since the changes were last taken."""
        return bool(self._touched) or self.machine.cells.touched_count > 0

    def will_exceed(self, cells: int) -> bool:
        """Return whether there are columns for more cells than this, or will be after another such micro-batch.

        The same bound applies to the number of windows of users' classes.
        """
        loaded, self._loaded = self._loaded, 0
        table = self.machine.cells
        every = table.live * len(self._stored.entries) // max(self.keys.in_use(), 1)  # about as many are stored
        return max(table.used, min(table.used + loaded, every)) > cells or len(self._windows) > cells

    def has_objects(self) -> bool:
        """Return whether cells have accumulators or states that are Python objects, whose memory is not known."""
        trees = self.machine.trees
        return self.kernels is None or bool(trees.memory) or trees.users is not None

    def waits_for(self, names: Iterable[str]) -> bool:
        """Return whether the trigger waits for one of these signals."""
        return not self._signals.keys().isdisjoint(names)

    def _admit(self, keys: Sequence[Any] | NDArray[Any]) -> NDArray[np.int64]:
        numbers = super()._admit(keys)
        fresh, self.keys.fresh = self.keys.fresh, []
        self.load(list(map(self.keys.encoded.__getitem__, fresh or ())))
        return numbers

    def _note_touched(self) -> None:
        cells = self.machine.cells
        numbers = leading(cells.touched, cells.touched_count).tolist()
        self._touched.update([self.keys.encoded[number] for number in numbers])
        cells.forget_touched()


class DurableMachine(CoreMachine):
    """One grouping on one shard, run by the core, with durable state.

    The stored form of every key is kept as bytes, because a host may ask for it at any time: in memory, or beyond a
    bound on disk. The cells of a key are created when an element or a deadline first needs them, and stay in columns
    after a commit, so that a busy key is not decoded in every micro-batch. If there are too many cells after a commit,
    all of them are discarded.

    Args:
        node: the grouping.
        late_data: the pipeline's default for expired windows.
        percentiles: the percentiles below 100 that any trigger of the plan waits for, in order.
        takes_back: whether its input may contain retractions.
        records_percentile: whether a function downstream requests `watermark_percentile`.
        kept: the number of cells that may stay in columns after a commit.
    """

    def __init__(
        self,
        node: GroupByKeyAndWindow,
        late_data: LateData,
        percentiles: tuple[float, ...] = (),
        *,
        takes_back: bool = False,
        records_percentile: bool = False,
        kept: int = _KEPT,
    ) -> None:
        self._kept = kept
        self._is_bounded = False
        self._stored = _StoredKeys(compile_tree(node.strategy.trigger).domains)
        self._make = functools.partial(_DurableGrouping, node, late_data, self._stored, takes_back=takes_back)
        self._new_core = functools.partial(CoreGrouping, node, late_data, takes_back=takes_back)
        self._grouping = self._make()
        super().__init__(
            node,
            late_data,
            percentiles,
            takes_back=takes_back,
            records_percentile=records_percentile,
            core=self._grouping,
        )

    @override
    def run(self, chunk: Chunk) -> Produced:
        self._load_due(chunk)
        produced = super().run(chunk)
        hold = self._stored.hold()
        if hold is not None:
            produced.watermarks = WatermarkLane.of(produced.watermarks).held(hold)
        return produced

    def _load_due(self, chunk: Chunk) -> None:
        """Load the keys with a deadline in a chunk, or waiting for one of its signals; those of its elements follow."""
        advanced = WatermarkLane.of(chunk.watermarks).advanced(self.watermarks)
        reached = advanced[-1] if len(advanced) else self.watermarks
        further = reached.further(self._width)
        clock = int(np.max(array_of(chunk.instants.clocks), initial=self._core.machine.clock))
        keys = self._stored.due([reached.low, clock, *(further[domain] for domain in self._domains)])
        if any(map(self._grouping.waits_for, chunk.instants.signals.values())):
            keys = list(self._stored.entries)
        if keys:
            self._lifetime.set_up()
            self._grouping.load(keys)

    # What a host reads off -----------------------------------------------------------------------------------------

    @override
    def output_watermarks(self) -> Watermarks:
        hold = self._stored.hold()
        watermarks = self.watermarks.held(self._core.machine.schedule.held())
        return watermarks if hold is None else watermarks.held(hold)

    @override
    def next_moments(self) -> tuple[int | None, int | None]:
        event, clock = super().next_moments()
        dues = self._stored.next_dues()
        event_dues = [event, *(due for domain, due in enumerate(dues) if domain != CLOCK)]
        return earliest(event_dues), earliest([clock, dues[CLOCK]])

    def bound_memory(self, most: int) -> None:
        """Keep settled state in memory up to about this many bytes, and the rest on disk.

        Half of it is for cells in columns. Accumulators that are Python objects do not stay there, since they may
        take far more memory than their bytes.
        """
        self._is_bounded = True
        self._kept = min(self._kept, most // 2 // _CELL_BYTES)
        self._stored.bound(most - most // 2)

    def state_size(self) -> tuple[int, int] | None:
        """Return the number of stored keys, and their size in bytes."""
        return len(self._stored.entries), self._stored.entries.bytes

    # Durable state -------------------------------------------------------------------------------------------------

    def settle(self) -> dict[bytes, Any]:
        """Return the keys that have changed since the last call, with `None` for those that were removed."""
        changes = self._grouping.take_changes()
        self._stored.store(changes)
        if self._grouping.will_exceed(self._kept) or (self._is_bounded and self._grouping.has_objects()):
            self._drop_columns()
        self._stored.spill()
        return changes

    def stored(self, name: bytes) -> Any:
        """Return the stored form of a key; `None` if there is none."""
        return self._stored.entries.peek(name)

    def apply(self, changes: Mapping[bytes, Any]) -> None:
        """Apply keys that another process has made durable, with `None` for those that were removed."""
        assert not self._grouping.is_changed(), f"{self.label!r} has changes that are not durable"  # noqa: S101
        self._drop_columns()
        self._stored.apply(changes)

    def share(self, parts: Iterable[Mapping[bytes, Any]], share: Share) -> dict[bytes, Any]:
        """Return the keys of one shard."""
        return keys_of_share(parts, share)

    def renewed(
        self, entries: Mapping[bytes, bytes], before: CellForm | None, *, watermark: int, clock: int
    ) -> dict[bytes, bytes]:
        """Return the stored keys of the grouping when it had another trigger, mode or lateness as they are now.

        See `renewing`.
        """
        return renewed(self._new_core, entries, before, watermark=watermark, clock=clock)

    def from_windows(
        self, windows: Mapping[tuple[bytes, int, int], tuple[Any, Any, int]], *, watermark: int, clock: int
    ) -> dict[bytes, bytes]:
        """Return the stored keys of the grouping when its windows were in columns as they are now; see `renewing`."""
        return from_windows(self._new_core, windows, watermark=watermark, clock=clock)

    def _drop_columns(self) -> None:
        """Discard all cells in columns, and keep the clocks; the table is used again unless it has become large."""
        clocks, cells = self.clocks(), self._grouping.machine.cells
        if cells.capacity > 2 * self._kept:
            self._core = self._grouping = self._make()
        else:
            cells.clear()
            self._core = self._grouping = self._make(cells=cells)
        self._stored.unload()
        self.set_clocks(**clocks)
