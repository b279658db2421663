"""The durable record of a run in process: state, offset and pending output, in one SQLite file."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import SinkError
from dataflow_model.runners.sharded.checkpoint.durable import corrupt, seal, touch, unseal

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.pending import Pending

__all__ = ["FILE", "HOST", "Commit", "RunFile", "ShardStore", "is_input_over"]

HOST: Final = "local"
"""The name of this host's part of a checkpoint."""
FILE: Final = "run.sqlite"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS heads (depth, shard, head BLOB, PRIMARY KEY (depth, shard));
CREATE TABLE IF NOT EXISTS parts (depth, shard, sequence, part, payload BLOB,
    PRIMARY KEY (depth, shard, sequence, part));
CREATE TABLE IF NOT EXISTS commits (number INTEGER PRIMARY KEY, is_published, record BLOB);
CREATE TABLE IF NOT EXISTS done (source, origin, entry, PRIMARY KEY (source, origin)) WITHOUT ROWID;
"""
_PART: Final = "FROM parts WHERE depth = ? AND shard = ? AND sequence = ? AND part = ?"
_GET_PART: Final = f"SELECT payload {_PART}"
_REMOVE_PART: Final = f"DELETE {_PART}"
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_PRIMARY: Final = 0xFF
"""The bits of an error code of SQLite that remain if its details are left out."""
_PAGE_BYTES: Final = 16_384
"""Micro-batches write megabytes: with SQLite's 4,096, a transaction took half as long again."""


@attrs.frozen
class Commit:
    """A committed micro-batch; the file contains the last one.

    Attributes:
        number: the number of the micro-batch, from 0.
        offset: the offset of the sources after it.
        ended: the labels of the sources whose end has been processed.
        moment: the wall-clock time at which something happens without new data, if there is one.
        pending: the output that the sinks publish.
    """

    number: int
    offset: Offset
    ended: tuple[str, ...]
    moment: int | None
    pending: tuple[Pending, ...]


@attrs.define
class RunFile:
    """The file, open for one process.

    Args:
        path: the file.
    """

    path: pathlib.Path
    _database: sqlite3.Connection = attrs.field(init=False)

    @classmethod
    def create(cls, folder: str) -> Self:
        """Open the file for writing, and create it if it does not exist.

        Raises:
            StateCorruption: if the file is not an SQLite file, or is damaged.
            SinkError: if it cannot be written.
        """
        file = cls(pathlib.Path(folder, FILE))
        with file.explained(), contextlib.ExitStack() as undone:
            with contextlib.suppress(OSError):  # SQLite reports it
                touch(file.path)  # SQLite would let everybody read it, and gives its log the same permissions
            file._database = sqlite3.connect(file.path, isolation_level=None, check_same_thread=False)
            undone.callback(file.close)
            file._database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a new file
            file._database.execute("PRAGMA journal_mode = WAL")
            file._database.execute("PRAGMA synchronous = FULL")
            file._database.executescript(_TABLES)
            undone.pop_all()
        return file

    @classmethod
    def read_only(cls, folder: str) -> Self | None:
        """Open the file of a stopped run for reading; `None` if there is none."""
        file = cls(pathlib.Path(folder, FILE))
        if not file.path.exists():
            return None
        log = file.path.with_name(FILE + "-wal")
        # Without a write-ahead log, SQLite needs and creates no other files.
        how = "mode=ro" if log.exists() and log.stat().st_size else "mode=ro&immutable=1"
        with file.explained():
            file._database = sqlite3.connect(f"{file.path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)
        return file

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Commit what is written in the `with` block durably, or nothing if it raises."""
        with self.explained():
            self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise
        try:
            with self.explained():
                self._database.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise

    def execute(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        with self.explained():
            return self._database.execute(statement, values).fetchall()

    # Commits -------------------------------------------------------------------------------------------------------

    def last_commit(self) -> Commit | None:
        """Return the last commit; `None` if there is none.

        Raises:
            StateCorruption: if it is damaged.
        """
        rows = self.execute("SELECT record FROM commits ORDER BY number DESC LIMIT 1")
        if not rows:
            return None
        commit: Commit = unseal(rows[0][0], repr(str(self.path)), "its last commit")
        done: dict[str, dict[str, Any]] = {}
        for source, origin, entry in self.execute("SELECT source, origin, entry FROM done"):
            done.setdefault(source, {})[json.loads(origin)] = json.loads(entry)
        return attrs.evolve(commit, offset={**commit.offset, "done": done})

    def put_commit(self, commit: Commit, before: Commit | None) -> None:
        """Replace the last commit; the one before it must be published.

        A folder may contain many files that have been read completely, and a micro-batch changes few of them. So they
        have a table of their own, to which only the differences are written.

        Args:
            commit: the commit.
            before: the last one, if there is one.
        """
        done: dict[str, dict[str, Any]] = commit.offset["done"]
        known: dict[str, dict[str, Any]] = {} if before is None else before.offset["done"]
        changed: Mapping[str, Collection[str]] = done if before is None else commit.offset["completed"]
        for source in done.keys() | known.keys():
            self._put_done(source, done.get(source, {}), known.get(source, {}), changed.get(source, ()))
        record = seal(attrs.evolve(commit, offset={**commit.offset, "done": {}}))
        self.execute("DELETE FROM commits")
        self.execute("INSERT INTO commits VALUES (?, 0, ?)", (commit.number, record))

    def _put_done(self, source: str, done: dict[str, Any], known: dict[str, Any], changed: Collection[str]) -> None:
        """Store the completely read origins of a source that have changed, and remove those that no longer exist."""
        is_shorter = len(done) - sum(name not in known for name in changed) < len(known)
        removed = [name for name in known if name not in done] if is_shorter else []
        # JSON can represent file names with bytes that are not UTF-8, which text in SQLite cannot.
        with self.explained():
            self._database.executemany(
                "DELETE FROM done WHERE source = ? AND origin = ?", [(source, json.dumps(name)) for name in removed]
            )
            self._database.executemany(
                "INSERT OR REPLACE INTO done VALUES (?, ?, ?)",
                [(source, json.dumps(name), json.dumps(done[name])) for name in changed],
            )

    def is_published(self) -> bool:
        """Return whether the last commit is marked as published."""
        return all(published for (published,) in self.execute("SELECT is_published FROM commits"))

    def note_published(self) -> None:
        """Mark the last commit as published."""
        if not self.is_published():
            self.execute("UPDATE commits SET is_published = 1")

    # State ---------------------------------------------------------------------------------------------------------

    def store(self, depth: int, shard: int) -> ShardStore:
        """Return the state store of one shard of one stage."""
        return ShardStore(self, depth, shard)

    def shards(self) -> list[tuple[int, int]]:
        """Return the stage and the id of each shard that has state."""
        return [(depth, shard) for depth, shard in self.execute("SELECT depth, shard FROM heads ORDER BY depth, shard")]

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """Raise SQLite's errors as errors of this package."""
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & _PRIMARY in _DAMAGED:
                raise corrupt(repr(str(self.path)), str(error)) from error
            raise SinkError(
                f"{str(self.path)!r} in the checkpoint directory cannot be used: {error}",
                hint="check free space and permissions, and start the run again: it resumes where it stopped",
            ) from error


@attrs.frozen
class ShardStore:
    """The state store of one shard in the file; see `StateStore`. Writes are part of the open transaction."""

    file: RunFile
    depth: int
    shard: int

    def get_head(self) -> bytes | None:
        """Return the head."""
        place = (self.depth, self.shard)
        return _only(self.file.execute("SELECT head FROM heads WHERE depth = ? AND shard = ?", place))

    def put_head(self, head: bytes) -> None:
        """Replace the head."""
        self.file.execute("INSERT OR REPLACE INTO heads VALUES (?, ?, ?)", (self.depth, self.shard, head))

    def get(self, sequence: int, part: int) -> bytes | None:
        """Return one part of a record."""
        return _only(self.file.execute(_GET_PART, (self.depth, self.shard, sequence, part)))

    def put(self, sequence: int, part: int, payload: bytes) -> None:
        """Write one part of a record."""
        row = (self.depth, self.shard, sequence, part, payload)
        self.file.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?)", row)

    def remove(self, sequence: int, part: int) -> None:
        """Delete one part of a record."""
        self.file.execute(_REMOVE_PART, (self.depth, self.shard, sequence, part))


def _only(rows: list[tuple[Any, ...]]) -> bytes | None:
    return None if not rows else bytes(rows[0][0])


def is_input_over(host_part: str) -> bool:
    """Return whether the last commit of a run ends its input.

    Args:
        host_part: this host's part of its checkpoint.
    """
    file = RunFile.read_only(host_part)
    if file is None:
        return False
    with contextlib.closing(file):
        commit = file.last_commit()
    return commit is not None and bool(commit.offset["last"])
