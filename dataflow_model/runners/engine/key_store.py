"""The keys of one grouping on one shard: their state, decoded when touched, and when each has to be looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from dataflow_model.runners.engine.cells import KeyState
from dataflow_model.runners.engine.queues import DeadlineQueue
from dataflow_model.time import MIN_TIMESTAMP
from dataflow_model.triggers import TimeDomain
from dataflow_model.values import Window

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dataflow_model.plan.strategy import WindowingStrategy

__all__ = ["Due", "KeyStore", "StoredKey"]

Due: TypeAlias = tuple[int, Window, KeyState, bytes]
"""A window to look at: a deadline, the window, its key's state, the encoded key."""
_Place: TypeAlias = tuple[bytes, Window | None]
"""A key and a window of it; a settled key has one place without a window."""
_EVENT: Final = TimeDomain.EVENT_TIME
_CLOCK: Final = TimeDomain.PROCESSING_TIME


@attrs.frozen
class StoredKey:
    """What a runner keeps of one key: the state as `freeze` made it, and when it next has to be looked at."""

    state: bytes
    event_due: int | None
    clock_due: int | None
    hold: int | None


class KeyStore:
    """Keys in memory, settled keys as bytes, and queues over both.

    Whoever changes a window's cell says so with `mark`; the queues are brought up to date when they are next asked.

    Args:
        strategy: the grouping's.
        thaw: turns a settled key's bytes into its state.
    """

    def __init__(self, strategy: WindowingStrategy, thaw: Callable[[bytes], KeyState] | None = None) -> None:
        self.keys: dict[bytes, KeyState] = {}
        self.touched: set[bytes] = set()
        self._strategy = strategy
        self._lateness = int(strategy.allowed_lateness)
        self._thaw = thaw
        self._settled: dict[bytes, StoredKey] = {}
        self._stale: set[tuple[bytes, Window]] = set()
        self._event_queue: DeadlineQueue[_Place] = DeadlineQueue()
        self._clock_queue: DeadlineQueue[_Place] = DeadlineQueue()
        self._holds: DeadlineQueue[_Place] = DeadlineQueue()

    def open(self, encoded: bytes, key: Any = None) -> KeyState:
        """Return a key's state, decoded if it was settled, new if there is none."""
        state = self.keys.get(encoded)
        if state is None:
            settled = self._settled.pop(encoded, None)
            if settled is None or self._thaw is None:
                state = KeyState(key)
            else:
                state = self._thaw(settled.state)
                self._enqueue((encoded, None), None, None, None)
                self._stale.update((encoded, window) for window in (*state.cells, *state.reopened))
            self.keys[encoded] = state
        return state

    def mark(self, encoded: bytes, window: Window) -> None:
        """Note that a window's cell has changed, or is gone."""
        self._stale.add((encoded, window))
        self.touched.add(encoded)

    # Queues --------------------------------------------------------------------------------------------------------

    def next_due(self, domain: TimeDomain) -> int | None:
        """Return when a timer, or an expiry, is next due in a domain."""
        self._refresh()
        return self._queue(domain).first()

    def is_due(self, watermark: int, processing_time: int) -> bool:
        """Tell whether anything is due by these clocks, or has changed since the queues were last asked."""
        event_due, clock_due = self._event_queue.first(), self._clock_queue.first()
        return bool(
            self._stale
            or (event_due is not None and event_due <= watermark)
            or (clock_due is not None and clock_due <= processing_time)
        )

    def hold(self) -> int | None:
        """Return the earliest event time of a pane that is still to come."""
        self._refresh()
        return self._holds.first()

    def take_due(self, domain: TimeDomain, until: int) -> list[Due]:
        """Return what has a timer or an expiry at `until` or before; when it fires, the triggers have yet to say."""
        found: list[Due] = []
        queue = self._queue(domain)
        while True:
            self._refresh()
            first = queue.first()
            if first is None or first > until:
                break
            for encoded, window in queue.take(until):
                state = self.open(encoded)  # a settled key's windows come up in the next round
                if window is not None:
                    found.append((until, window, state, encoded))
        for _, window, _, encoded in found:
            self.mark(encoded, window)
        return found

    def _queue(self, domain: TimeDomain) -> DeadlineQueue[_Place]:
        return self._event_queue if domain is _EVENT else self._clock_queue

    def _refresh(self) -> None:
        """Bring the queues up to date with the windows that have changed."""
        if not self._stale:
            return
        for encoded, window in self._stale:
            event_due = clock_due = hold = None
            state = self.keys.get(encoded)
            if state is None:
                self._enqueue((encoded, window), None, None, None)
                continue
            cell = state.cells.get(window)
            if cell is not None:
                event_due, clock_due = cell.next_due(window, self._lateness)
                hold = cell.output_time(window, self._strategy.timestamp_combiner) if cell.pending else None
            if window in state.reopened:
                event_due = int(MIN_TIMESTAMP)  # whatever the next watermark is
            self._enqueue((encoded, window), event_due, clock_due, hold)
            if not state.cells and not state.reopened:
                del self.keys[encoded]
        self._stale.clear()

    def _enqueue(self, place: _Place, event_due: int | None, clock_due: int | None, hold: int | None) -> None:
        self._event_queue.set(place, event_due)
        self._clock_queue.set(place, clock_due)
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

    def _store(self, encoded: bytes, entry: StoredKey) -> None:
        self._settled[encoded] = entry
        self._enqueue((encoded, None), entry.event_due, entry.clock_due, entry.hold)

    def _forget(self, encoded: bytes) -> None:
        """Take a key out of memory and of the queues."""
        state = self.keys.pop(encoded, None)
        windows = () if state is None else (*state.cells, *state.reopened)
        self._settled.pop(encoded, None)
        for window in (None, *windows):
            self._enqueue((encoded, window), None, None, None)

    def _frozen(self, state: KeyState, freeze: Callable[[KeyState], bytes]) -> StoredKey:
        return StoredKey(
            freeze(state),
            state.next_due(_EVENT, self._lateness),
            state.next_due(_CLOCK, self._lateness),
            state.hold(self._strategy),
        )
