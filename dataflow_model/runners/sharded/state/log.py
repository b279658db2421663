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
    from collections.abc import Callable, Iterable, Mapping, Sequence, Sized

    from dataflow_model.errors import StateCorruption

Entries: TypeAlias = dict[str, dict[bytes, Any]]
"""The new state of each key, or `None` for a deleted one, by owner. Where it is bytes, Python's garbage collector does
not visit it, however many keys there are."""

PART_BYTES: Final = 4 << 20
FAN_IN: Final = 4
"""How many records of one level are merged into one record of the next level."""
MOST_MERGED: Final = 8_192
"""How many entries a merge writes at most."""
FEW_OUTDATED: Final = 1_024
"""Up to this number of outdated entries, none are moved to be rid of them."""
_TOKENS_KEPT: Final = 64
_LEVEL_BITS: Final = 8


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
        entries: the new state of keys.
    """

    meta: Any
    entries: Entries


@attrs.frozen
class Record:
    """One record of the log, as the head describes it."""

    sequence: int
    level: int
    parent: str
    tokens: tuple[str, ...]
    checksums: tuple[int, ...]

    @property
    def identity(self) -> int:
        """A number that no other record of the log has, made of its number and its level, which a merge raises."""
        return self.sequence << _LEVEL_BITS | self.level


@attrs.define
class Contents:
    """The keys in the records of a log, which a worker keeps beside its copy of the state.

    Attributes:
        keys: the keys in each record, by its identity and by owner; those that were moved out of the oldest record are
            left out.
        newest: the identity of the record with the newest entry of each key that is not deleted, by owner.
    """

    keys: dict[int, dict[str, tuple[bytes, ...]]] = attrs.field(factory=dict)
    newest: dict[str, dict[bytes, int]] = attrs.field(factory=dict)

    def note(self, record: Record, entries: Entries) -> None:
        """Note the entries of a record, which are newer than those of all records noted before."""
        identity = record.identity
        self.keys[identity] = {owner: tuple(of_owner) for owner, of_owner in entries.items()}
        for owner, of_owner in entries.items():
            newest = self.newest.setdefault(owner, {})
            newest.update(dict.fromkeys(of_owner, identity))
            if None in of_owner.values():
                for key, entry in of_owner.items():
                    if entry is None:
                        del newest[key]

    def keep_only(self, records: Sequence[Record]) -> None:
        """Forget all records but these, since a new record may reuse the number of a removed one."""
        self.keys = {record.identity: self.keys[record.identity] for record in records}

    def count(self) -> int:
        """Return the number of entries in the log, without those that were moved."""
        return sum(map(_count, self.keys.values()))

    def needed(self) -> int:
        """Return the number of entries that are not outdated."""
        return _count(self.newest)


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

    def append(self, delta: Delta, current: Callable[[str], Callable[[bytes], Any]], contents: Contents) -> str:
        """Append a delta, merge records that are due, write the head, and return its token.

        Args:
            delta: the changes of this micro-batch; entries of the oldest record may be added.
            current: a function from an owner to one that returns the newest entry of a key.
            contents: the keys in the records; the caller keeps it with its cache, and it is changed in place.
        """
        token = uuid.uuid4().hex
        parent = self.records[-1].tokens[-1] if self.records else ""
        sequence = self.records[-1].sequence + 1 if self.records else 0
        self._move_oldest(delta, current, contents)
        merged = Record(sequence, 0, parent, (token,), ())
        keys = {owner: dict.fromkeys(of_owner) for owner, of_owner in delta.entries.items()}
        merged_records: list[Record] = []
        while self._is_due(merged.level, _count(keys), contents):
            run, self.records = self.records[-(FAN_IN - 1) :], self.records[: -(FAN_IN - 1)]
            for record in run:
                for owner, of_owner in contents.keys.pop(record.identity).items():
                    keys.setdefault(owner, {}).update(dict.fromkeys(of_owner))
            merged_records += run
            tokens = (*(token for record in run for token in record.tokens), *merged.tokens)[-_TOKENS_KEPT:]
            merged = Record(run[0].sequence, merged.level + 1, run[0].parent, tokens, ())
        if merged_records:
            newest = {owner: _entries(of_owner, current(owner)) for owner, of_owner in keys.items()}
            delta = Delta(delta.meta, newest)
        contents.note(merged, delta.entries)
        if merged_records and not self.records:  # there is no older record in which a deletion would have to hide a key
            delta = Delta(delta.meta, without_removed(delta.entries))
            contents.keys[merged.identity] = {owner: tuple(entries) for owner, entries in delta.entries.items()}
            merged = attrs.evolve(merged, parent="")  # a state that has what was removed below needs the deletions
        for record in merged_records:
            self._remove(record)
        self.records.append(attrs.evolve(merged, checksums=self._write(merged.sequence, delta)))
        self.store.put_head(seal(self.records))
        return token

    def _move_oldest(self, delta: Delta, current: Callable[[str], Callable[[bytes], Any]], contents: Contents) -> None:
        """Move entries that are not outdated from the oldest records to a delta, while most of the log is outdated.

        At most as many are moved as there are changes, or `FEW_OUTDATED` if that is more. Records with no entries left
        are removed.
        """
        changes = _count(delta.entries)
        budget = max(changes, FEW_OUTDATED)
        count = contents.count() + changes
        while self.records and budget and count > 2 * contents.needed() + FEW_OUTDATED:
            oldest = self.records[0]
            identity = oldest.identity
            keys_by_owner = contents.keys[identity]
            for owner in list(keys_by_owner):
                newest, changed = contents.newest[owner], delta.entries.setdefault(owner, {})
                while budget and (keys := keys_by_owner.pop(owner)):
                    keys_by_owner[owner], last = keys[:-budget], keys[-budget:]
                    moved = [key for key in last if newest.get(key) == identity and key not in changed]
                    changed.update(_entries(moved, current(owner)))
                    count += len(moved) - len(last)
                    budget -= len(moved)
            if not keys_by_owner:
                del contents.keys[identity], self.records[0]
                self._remove(oldest)

    def _is_due(self, level: int, count: int, contents: Contents) -> bool:
        """Return whether the last records, all of one level, are to be merged with `count` entries."""
        run = self.records[-(FAN_IN - 1) :]
        if len(run) < FAN_IN - 1 or any(record.level != level for record in run):
            return False
        return count + sum(_count(contents.keys[record.identity]) for record in run) <= MOST_MERGED

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


def without_removed(entries: Entries) -> Entries:
    """Return entries without those of deleted keys."""
    return {
        owner: {key: entry for key, entry in of_owner.items() if entry is not None}
        for owner, of_owner in entries.items()
    }


def _entries(keys: Iterable[bytes], current: Callable[[bytes], Any]) -> dict[bytes, Any]:
    return {key: current(key) for key in keys}


def _count(by_owner: Mapping[str, Sized]) -> int:
    return sum(map(len, by_owner.values()))
