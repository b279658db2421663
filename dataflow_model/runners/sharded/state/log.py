"""Durable state of a shard: a log of deltas in a map state, and a head that names them.

A call to Spark's state server costs about 0.1 ms, so keys are not stored one by one: each micro-batch appends one
delta with all its changes. Runs of small deltas are merged into larger ones. Large ones stay as they are; once most of
the log is outdated, each micro-batch moves a few entries of the oldest record to its delta, until nothing in that
record is needed. So no micro-batch writes much more than it changes, however large the state is.

Each record contains the tokens of the micro-batches that it covers and the token before them, so that the cache of
another or a superseded attempt is recognised. Each part has a checksum, and so has the head.
"""

from __future__ import annotations

import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

import attrs

from dataflow_model.runners.sharded.checkpoint.durable import corrupt, seal, unseal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from dataflow_model.errors import StateCorruption

__all__ = ["Contents", "Delta", "Record", "StateLog", "StateStore"]

_Place: TypeAlias = tuple[str, bytes]
"""An owner and a key."""

PART_BYTES: Final = 4 << 20
FAN_IN: Final = 4
"""How many records of one level are merged into one record of the next level."""
MOST_MERGED: Final = 8_192
"""How many entries a merge writes at most."""
FEW_OUTDATED: Final = 1_024
"""Up to this number of outdated entries, none are moved to be rid of them."""
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
    entries: dict[_Place, Any]


@attrs.frozen
class Record:
    """One record of the log, as the head describes it."""

    sequence: int
    level: int
    parent: str
    tokens: tuple[str, ...]
    checksums: tuple[int, ...]

    @property
    def identity(self) -> tuple[int, int]:
        """What tells it from all other records of the log: its number, and its level, which a merge raises."""
        return self.sequence, self.level


@attrs.define
class Contents:
    """The keys in the records of a log, which a worker keeps beside its copy of the state.

    Attributes:
        places: the keys in each record, by its identity; those that were moved out of the oldest record are left out.
        newest: the identity of the record with the newest entry of each key that is not deleted.
    """

    places: dict[tuple[int, int], list[_Place]] = attrs.field(factory=dict)
    newest: dict[_Place, tuple[int, int]] = attrs.field(factory=dict)

    def note(self, record: Record, entries: Mapping[_Place, Any]) -> None:
        """Note the entries of a record, which are newer than those of all records noted before."""
        identity = record.identity
        self.places[identity] = list(entries)
        self.newest.update(dict.fromkeys(entries, identity))
        for place, entry in entries.items():
            if entry is None:
                del self.newest[place]

    def keep_only(self, records: Sequence[Record]) -> None:
        """Forget all records but these, since the number of one that is gone may be given to a new one."""
        self.places = {record.identity: self.places[record.identity] for record in records}

    def count(self) -> int:
        """Return the number of entries in the log, without those that were moved."""
        return sum(map(len, self.places.values()))


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

    def since(self, token: str) -> list[Record] | None:
        """Return the records that lead from `token` to the head; `None` if there are no such records.

        A record contains whole entries, so it may cover more than is needed. An exception is the lowest record, which
        no longer contains the keys that were deleted within it, so it cannot be applied to a state that has part of it.
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
        return path[::-1]

    def append(self, delta: Delta, current: Callable[[_Place], Any], contents: Contents) -> str:
        """Append a delta, merge records that are due, write the head, and return its token.

        Args:
            delta: the changes of this micro-batch; entries of the oldest record may be added.
            current: a function from a key to its newest entry.
            contents: the keys in the records; the caller keeps it with its cache, and it is changed in place.
        """
        token = uuid.uuid4().hex
        parent = self.records[-1].tokens[-1] if self.records else ""
        sequence = self.records[-1].sequence + 1 if self.records else 0
        self._move_oldest(delta, current, contents)
        merged = Record(sequence, 0, parent, (token,), ())
        keys = dict.fromkeys(delta.entries)
        merged_records: list[Record] = []
        while self._is_due(merged.level, len(keys), contents):
            run, self.records = self.records[-(FAN_IN - 1) :], self.records[: -(FAN_IN - 1)]
            for record in run:
                keys |= dict.fromkeys(contents.places.pop(record.identity))
            merged_records += run
            tokens = (*(token for record in run for token in record.tokens), *merged.tokens)[-_TOKENS_KEPT:]
            merged = Record(run[0].sequence, merged.level + 1, run[0].parent, tokens, ())
        if merged_records:
            delta = Delta(delta.meta, {key: current(key) for key in keys})
        contents.note(merged, delta.entries)
        if merged_records and not self.records:  # there is no older record in which a deletion would have to hide a key
            delta.entries = {key: entry for key, entry in delta.entries.items() if entry is not None}
            contents.places[merged.identity] = list(delta.entries)
            merged = attrs.evolve(merged, parent="")  # a state that has what was removed below needs the deletions
        for record in merged_records:
            self._remove(record)
        self.records.append(attrs.evolve(merged, checksums=self._write(merged.sequence, delta)))
        self.store.put_head(seal(self.records))
        return token

    def _move_oldest(self, delta: Delta, current: Callable[[_Place], Any], contents: Contents) -> None:
        """Move entries that are not outdated from the oldest records to a delta, while most of the log is outdated.

        At most as many are moved as there are changes, but some in any case. Records of which nothing is needed any
        more are removed.
        """
        changes = len(delta.entries)
        budget = max(changes, FEW_OUTDATED)
        count = contents.count() + changes
        while self.records and budget and count > 2 * len(contents.newest) + FEW_OUTDATED:
            oldest = self.records[0]
            places = contents.places[oldest.identity]
            while places and budget:
                place = places.pop()
                count -= 1
                if contents.newest.get(place) == oldest.identity and place not in delta.entries:
                    delta.entries[place] = current(place)
                    count += 1
                    budget -= 1
            if not places:
                del contents.places[oldest.identity], self.records[0]
                self._remove(oldest)

    def _is_due(self, level: int, count: int, contents: Contents) -> bool:
        """Return whether the last records, all of one level, are to be merged with `count` entries."""
        run = self.records[-(FAN_IN - 1) :]
        if len(run) < FAN_IN - 1 or any(record.level != level for record in run):
            return False
        return count + sum(len(contents.places[record.identity]) for record in run) <= MOST_MERGED

    def _remove(self, record: Record) -> None:
        for part in range(len(record.checksums)):
            self.store.remove(record.sequence, part)

    def _write(self, sequence: int, delta: Delta) -> tuple[int, ...]:
        payload = seal(delta)  # sealed with its own format number, since later versions write newer heads only
        parts = [payload[start : start + PART_BYTES] for start in range(0, len(payload), PART_BYTES)]
        for part, content in enumerate(parts):
            self.store.put(sequence, part, content)
        return tuple(map(zlib.crc32, parts))

    def read(self, record: Record) -> Delta:
        """Return the changes in a record.

        Raises:
            StateCorruption: if it is damaged.
        """
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
