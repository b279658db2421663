"""Durable state of a shard: a log of deltas in a map state, and a head that names them.

A call to Spark's state server costs about 0.1 ms, so keys are not stored one by one: each micro-batch appends one
delta with all its changes, and runs of deltas are merged into larger ones. Each record contains the tokens of the
micro-batches that it covers and the token before them, so that the cache of another or a superseded attempt is
recognised. Each part has a checksum, and so has the head.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from dataflow_model.runners.sharded.checkpoint.durable import corrupt, seal, unseal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dataflow_model.errors import StateCorruption

__all__ = ["Delta", "Record", "StateLog", "StateStore", "keys_of"]

PART_BYTES: Final = 4 << 20
FAN_IN: Final = 4
"""How many records of one level are merged into one record of the next level."""
_TOKENS_KEPT: Final = 64


class StateStore(Protocol):
    """The state store that the log needs; on Spark it is backed by map and value state."""

    def get_head(self) -> bytes | None:
        """Return the head."""
        ...

    def put_head(self, head: bytes) -> None:
        """Replace the head."""
        ...

    def get(self, sequence: int, part: int) -> bytes | None:
        """Return one part of a record."""
        ...

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        """Write one part of a record."""
        ...

    def remove(self, sequence: int, part: int) -> None:
        """Delete one part of a record."""
        ...


@attrs.define
class Delta:
    """The changes of one or several micro-batches.

    Attributes:
        meta: small state that is replaced as a whole.
        entries: the new state by owner and key, or `None` for a deleted key.
    """

    meta: Any
    entries: dict[tuple[str, bytes], Any]


@attrs.frozen
class Record:
    """One record of the log, as the head describes it."""

    sequence: int
    level: int
    parent: str
    tokens: tuple[str, ...]
    checksums: tuple[int, ...]


@attrs.define
class StateLog:
    """The log of one shard, as of its head.

    Args:
        store: the state store.
        name: the name of the shard, for errors.
    """

    store: StateStore
    name: str
    records: list[Record] = attrs.field(init=False, factory=list)

    def open(self) -> str:
        """Read the head and return its token; `""` for a new shard.

        Raises:
            CheckpointMismatch: if a version of the package wrote it in another format.
            StateCorruption: if it is damaged.
        """
        head = self.store.get_head()
        if head is None:
            self.records = []
            return ""
        self.records = unseal(head, self._title, "its head")
        if not self.records:
            raise self._corrupt("its head names no record")
        return self.records[-1].tokens[-1]

    def since(self, token: str) -> list[Delta] | None:
        """Return the deltas that lead from `token` to the head; `None` if there are no such deltas.

        A delta contains whole entries, so it may cover more than is needed. An exception is the lowest delta, which no
        longer contains the keys that were deleted within it, so it cannot be applied to a state that has part of it.
        """
        path: list[Record] = []
        for record in reversed(self.records):
            if token == record.tokens[-1]:
                break
            if token in record.tokens and record is self.records[0]:
                return None
            path.append(record)
            if token in record.tokens or token == record.parent:
                break
        else:
            if token:
                return None
        return [self._read(record) for record in reversed(path)]

    def append(
        self, delta: Delta, current: Callable[[tuple[str, bytes]], Any], known: list[set[tuple[str, bytes]]]
    ) -> str:
        """Append a delta, merge records that are due, write the head, and return its token.

        Args:
            delta: the changes of this micro-batch.
            current: a function from a key to its newest entry.
            known: the keys in each record; the caller keeps it with its cache, and it is changed in place.
        """
        token = uuid.uuid4().hex
        parent = self.records[-1].tokens[-1] if self.records else ""
        sequence = self.records[-1].sequence + 1 if self.records else 0
        merged = Record(sequence, 0, parent, (token,), ())
        keys = set(delta.entries)
        merged_records: list[Record] = []
        while self._is_due(merged.level):
            run, self.records = self.records[-(FAN_IN - 1) :], self.records[: -(FAN_IN - 1)]
            for _ in run:
                keys |= known.pop()
            merged_records += run
            tokens = (*(token for record in run for token in record.tokens), *merged.tokens)[-_TOKENS_KEPT:]
            merged = Record(run[0].sequence, merged.level + 1, run[0].parent, tokens, ())
        if merged_records:
            entries = {key: current(key) for key in keys}
            if not self.records:  # there is no older record in which a deletion would have to hide a key
                entries = {key: entry for key, entry in entries.items() if entry is not None}
                keys = set(entries)
            delta = Delta(delta.meta, entries)
        for record in merged_records:
            for part in range(len(record.checksums)):
                self.store.remove(record.sequence, part)
        self.records.append(attrs.evolve(merged, checksums=self._write(merged.sequence, delta)))
        known.append(keys)
        self.store.put_head(seal(self.records))
        return token

    def _is_due(self, level: int) -> bool:
        run = self.records[-(FAN_IN - 1) :]
        return len(run) == FAN_IN - 1 and all(record.level == level for record in run)

    def _write(self, sequence: int, delta: Delta) -> tuple[int, ...]:
        payload = seal(delta)  # sealed with its own format number, since later versions write newer heads only
        parts = [payload[start : start + PART_BYTES] for start in range(0, len(payload), PART_BYTES)]
        for part, content in enumerate(parts):
            self.store.put(sequence, part, content)
        return tuple(map(zlib.crc32, parts))

    def _read(self, record: Record) -> Delta:
        parts = []
        for part, checksum in enumerate(record.checksums):
            content = self.store.get(record.sequence, part)
            if content is None:
                raise self._corrupt(f"part {part} of record {record.sequence} is missing")
            if zlib.crc32(content) != checksum:
                raise self._corrupt(f"part {part} of record {record.sequence} fails its checksum")
            parts.append(content)
        delta: Delta = unseal(b"".join(parts), self._title, f"record {record.sequence}")
        return delta

    def _corrupt(self, problem: str) -> StateCorruption:
        return corrupt(self._title, problem)

    @property
    def _title(self) -> str:
        return f"the state of {self.name}"


def keys_of(deltas: Iterable[Delta]) -> list[set[tuple[str, bytes]]]:
    """Return the keys in each of several deltas."""
    return [set(delta.entries) for delta in deltas]
