"""The keys of one grouping on one shard: their state, decoded when touched, and when each has to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from dataflow_model.runners.engine.cells import WHATEVER_COMES, Dues, KeyState
from dataflow_model.runners.engine.queues import DeadlineQueue
from dataflow_model.runners.engine.settled import SettledKeys
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import Window
from dataflow_model.values.keys import shown_key

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.strategy import WindowingStrategy

__all__ = ["Clocks", "Found", "KeyStore", "StoredKey"]

Found: TypeAlias = tuple[Window, KeyState, bytes]
"""A window to look at: with its key's state, and the encoded key."""
Clocks: TypeAlias = tuple[int, ...]
"""The low watermark, the processing clock, and the percentiles of the watermark that a trigger waits for."""
_Place: TypeAlias = tuple[bytes, Window | None]
"""A key and a window of it; a settled key has one place without a window."""
_CLOCK_LINE: Final = 1


@attrs.frozen
class StoredKey:
    """What a runner keeps of one key: the state as `freeze` made it, and when it next has to be looked at."""

    state: bytes
    dues: Dues
    hold: int | None


class KeyStore:
    """Keys in memory, settled keys as bytes, and queues over both.

    Whoever changes a window's cell says so with `mark`; the queues are brought up to date when they are next asked.

    Args:
        strategy: the grouping's.
        thaw: turns a settled key's bytes into its state.
        percentiles: those below 100 that the trigger waits for.
    """

    def __init__(
        self,
        strategy: WindowingStrategy,
        thaw: Callable[[bytes], KeyState] | None = None,
        percentiles: tuple[float, ...] = (),
    ) -> None:
        self.keys: dict[bytes, KeyState] = {}
        self.touched: set[bytes] = set()
        self._strategy = strategy
        self._lateness = int(strategy.allowed_lateness)
        self._thaw = thaw
        self._settled: SettledKeys[StoredKey] = SettledKeys()
        self._stale: set[tuple[bytes, Window]] = set()
        self._percentiles = percentiles
        self._nothing_due: Dues = (None,) * (2 + len(percentiles))
        self._queues: tuple[DeadlineQueue[_Place], ...] = tuple(DeadlineQueue() for _ in self._nothing_due)
        self._event_lines = tuple(line for line in range(len(self._queues)) if line != _CLOCK_LINE)
        self._holds: DeadlineQueue[_Place] = DeadlineQueue()

    def open(self, encoded: bytes, key: Any = None) -> KeyState:
        """Return a key's state, decoded if it was settled, new if there is none."""
        state = self.keys.get(encoded)
        if state is None:
            settled = self._settled.pop(encoded, None)
            if settled is None or self._thaw is None:
                state = KeyState(shown_key(key))
            else:
                state = self._thaw(settled.state)
                self._enqueue((encoded, None), self._nothing_due, None)
                self._stale.update((encoded, window) for window in (*state.cells, *state.reopened))
            self.keys[encoded] = state
        return state

    def mark(self, encoded: bytes, window: Window) -> None:
        """Note that a window's cell has changed, or is gone."""
        self._stale.add((encoded, window))
        self.touched.add(encoded)

    # Queues --------------------------------------------------------------------------------------------------------

    def next_dues(self) -> Dues:
        """Return when a timer, or an expiry, is next due on each clock."""
        self._refresh()
        return tuple(queue.first() for queue in self._queues)

    def next_moments(self) -> tuple[int | None, int | None]:
        """Return when a timer, or an expiry, is next due in event time and on the processing clock."""
        dues = self.next_dues()
        return min((due for due in (dues[line] for line in self._event_lines) if due is not None), default=None), dues[
            _CLOCK_LINE
        ]

    def is_due(self, clocks: Clocks) -> bool:
        """Tell whether anything is due by these clocks, or has changed since the queues were last asked."""
        if self._stale:
            return True
        for queue, until in zip(self._queues, clocks, strict=True):
            first = queue.first()
            if first is not None and first <= until:
                return True
        return False

    def hold(self) -> int | None:
        """Return the earliest event time of a pane that is still to come."""
        self._refresh()
        return self._holds.first()

    def take_due(self, domain: TimeDomain, clocks: Clocks) -> list[Found]:
        """Return what has a timer or an expiry at a domain's clocks or before; what fires, the triggers have to say."""
        lines = (_CLOCK_LINE,) if domain is TimeDomain.PROCESSING_TIME else self._event_lines
        self._refresh()
        found: dict[_Place, Found] = {}
        for line in lines:
            until, queue = clocks[line], self._queues[line]
            while (first := queue.first()) is not None and first <= until:
                for encoded, window in queue.take(until):
                    state = self.open(encoded)  # a settled key's windows come up in the next round
                    if window is not None:
                        found[encoded, window] = (window, state, encoded)
                self._refresh()
        for window, _, encoded in found.values():
            self.mark(encoded, window)
        return list(found.values())

    def every_window(self) -> list[Found]:
        """Return all windows there are, settled ones too."""
        for encoded in list(self._settled):
            self.open(encoded)
        return [(window, state, encoded) for encoded, state in self.keys.items() for window in state.cells]

    def _refresh(self) -> None:
        """Bring the queues up to date with the windows that have changed."""
        if not self._stale:
            return
        for encoded, window in self._stale:
            dues, hold = self._nothing_due, None
            state = self.keys.get(encoded)
            if state is None:
                self._enqueue((encoded, window), dues, None)
                continue
            cell = state.cells.get(window)
            if cell is not None:
                dues = cell.dues(window, self._lateness, self._percentiles)
                hold = cell.hold(window, self._strategy.timestamp_combiner)
            if window in state.reopened:
                dues = (WHATEVER_COMES, *dues[1:])
            self._enqueue((encoded, window), dues, hold)
            if not state.cells and not state.reopened:
                del self.keys[encoded]
        self._stale.clear()

    def _enqueue(self, place: _Place, dues: Dues, hold: int | None) -> None:
        for queue, due in zip(self._queues, dues, strict=True):
            queue.set(place, due)
        self._holds.set(place, hold)

    # Durable state -------------------------------------------------------------------------------------------------

    def apply(self, changes: Mapping[bytes, StoredKey | None]) -> None:
        """Take in changes that another worker has made durable; `None` for a key that has no state left."""
        for encoded, entry in changes.items():
            self._forget(encoded)
            if entry is not None:
                self._store(encoded, entry)

    def take_touched(self, freeze: Callable[[KeyState], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed since the last call, by encoded key; `None` for a key that has no state left."""
        self._refresh()
        changed: dict[bytes, StoredKey | None] = {}
        for encoded in self.touched:
            state = self.keys.get(encoded)
            changed[encoded] = None if state is None else self._frozen(state, freeze)
        self.touched.clear()
        return changed

    def settle(self, freeze: Callable[[KeyState], bytes]) -> dict[bytes, StoredKey | None]:
        """Return what has changed, and keep all state as bytes from here on."""
        changes = self.take_touched(freeze)
        for encoded in list(self.keys):
            entry = changes.get(encoded) or self._frozen(self.keys[encoded], freeze)
            self._forget(encoded)
            self._store(encoded, entry)
        return changes

    def stored(self, encoded: bytes) -> StoredKey | None:
        """Return a settled key's state; `None` where there is none."""
        return self._settled.get(encoded)

    def size(self) -> tuple[int, int]:
        """Return how many keys there are, and how many bytes the settled ones have."""
        return len(self.keys) + len(self._settled), self._settled.bytes

    def _store(self, encoded: bytes, entry: StoredKey) -> None:
        self._settled[encoded] = entry
        self._enqueue((encoded, None), entry.dues, entry.hold)

    def _forget(self, encoded: bytes) -> None:
        """Take a key out of memory and of the queues."""
        state = self.keys.pop(encoded, None)
        windows = () if state is None else (*state.cells, *state.reopened)
        self._settled.pop(encoded, None)
        for window in (None, *windows):
            self._enqueue((encoded, window), self._nothing_due, None)

    def _frozen(self, state: KeyState, freeze: Callable[[KeyState], bytes]) -> StoredKey:
        dues = state.dues(self._lateness, self._percentiles)
        return StoredKey(freeze(state), dues, state.hold(self._strategy))
