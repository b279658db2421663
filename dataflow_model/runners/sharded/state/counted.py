"""A state store that counts its calls and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from dataflow_model.runners.sharded.state.log import StateStore


@attrs.define
class CountedStore:
    """Passes each call on to a `StateStore` and counts it.

    Attributes:
        calls: the number of calls.
        read, written: the number of bytes.
    """

    store: StateStore
    calls: int = 0
    read: int = 0
    written: int = 0

    def get_head(self) -> bytes | None:
        """Return the head."""
        return self._got(self.store.get_head())

    def put_head(self, head: bytes) -> None:
        """Replace the head."""
        self._puts(head)
        self.store.put_head(head)

    def get(self, sequence: int, part: int) -> bytes | None:
        """Return one part of a record."""
        return self._got(self.store.get(sequence, part))

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        """Write one part of a record."""
        self._puts(payload)
        self.store.put(sequence, part, payload)

    def remove(self, sequence: int, part: int) -> None:
        """Delete one part of a record."""
        self.calls += 1
        self.store.remove(sequence, part)

    def counts(self) -> dict[str, int]:
        """Return the counts under the names of a stage's report."""
        return {"state_calls": self.calls, "state_bytes_read": self.read, "state_bytes_written": self.written}

    def _got(self, payload: bytes | None) -> bytes | None:
        self.calls += 1
        self.read += 0 if payload is None else len(payload)
        return payload

    def _puts(self, payload: bytes) -> None:
        self.calls += 1
        self.written += len(payload)
