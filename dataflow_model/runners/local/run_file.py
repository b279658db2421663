"""The durable record of a run in process: state, offset and pending output, in one SQLite file."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
import sqlite3
import tempfile
import zlib
from typing import TYPE_CHECKING, Any, Final, Self

import attrs

from dataflow_model.errors import SinkError
from dataflow_model.runners.local.finished_files import FINISHED_FILES, read_finished, write_finished
from dataflow_model.runners.sharded.checkpoint.durable import corrupt, seal, touch, unseal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from dataflow_model.errors import StateCorruption
    from dataflow_model.runners.sharded.feed.offsets import Offset
    from dataflow_model.runners.sharded.feed.origins import OriginOffset
    from dataflow_model.runners.sharded.outputs.pending import Pending

HOST: Final = "local"
"""The name of this host's part of a checkpoint."""
FILE: Final = "run.sqlite"
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS heads (depth, shard, head BLOB, PRIMARY KEY (depth, shard));
CREATE TABLE IF NOT EXISTS parts (depth, shard, sequence, part, payload BLOB,
    PRIMARY KEY (depth, shard, sequence, part));
CREATE TABLE IF NOT EXISTS commits (number INTEGER PRIMARY KEY, is_published, record BLOB);
"""
_PART: Final = "FROM parts WHERE depth = ? AND shard = ? AND sequence = ? AND part = ?"
_GET_PART: Final = f"SELECT payload {_PART}"
_REMOVE_PART: Final = f"DELETE {_PART}"
_DAMAGED: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_RETRIED: Final = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY)
_ATTEMPTS: Final = 5
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
        heads: the checksum of the head of each shard's state, by stage and shard; `put_commit` fills it in.
        done: by source, the sum of the checksums of its rows in the table `done`; `put_commit` fills it in.
    """

    number: int
    offset: Offset
    ended: tuple[str, ...]
    moment: int | None
    pending: tuple[Pending, ...]
    heads: Mapping[tuple[int, int], int] = attrs.field(factory=dict)
    done: Mapping[str, int] = attrs.field(factory=dict)


@attrs.define
class RunFile:
    """The file, open for one process.

    Args:
        path: the file.
    """

    path: pathlib.Path
    _database: sqlite3.Connection = attrs.field(init=False)
    _held: contextlib.ExitStack = attrs.field(init=False, factory=contextlib.ExitStack)

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
            file._database.text_factory = _text
            undone.callback(file.close)
            file._database.execute(f"PRAGMA page_size = {_PAGE_BYTES}")  # of a new file
            file._database.execute("PRAGMA journal_mode = WAL")
            file._database.execute("PRAGMA synchronous = FULL")
            file._database.executescript(_TABLES + FINISHED_FILES)
            undone.pop_all()
        return file

    @classmethod
    def read_only(cls, folder: str) -> Self | None:
        """Open the file for reading, without changing anything in its folder; `None` if there is none.

        The run may be running: it does not wait for readers.

        Raises:
            StateCorruption: if the file is not an SQLite file, or is damaged.
            SinkError: if it cannot be read.
        """
        file = cls(pathlib.Path(folder, FILE))
        if not file.path.exists():
            return None
        with file.explained():
            for attempts_left in reversed(range(_ATTEMPTS)):
                try:
                    file._open_to_read()
                    break
                except sqlite3.OperationalError as error:  # a run has just started or ended, with its other files
                    if getattr(error, "sqlite_errorcode", 0) & _PRIMARY not in _RETRIED or not attempts_left:
                        raise
        return file

    def _open_to_read(self) -> None:
        path, how = self.path, "mode=ro&immutable=1"  # without a log, SQLite needs and creates no other files
        log, index = (self.path.with_name(FILE + ending) for ending in ("-wal", "-shm"))
        if index.exists():
            how = "mode=ro&readonly_shm=1"
        elif log.exists() and log.stat().st_size:  # copied without its index, which SQLite would create
            folder = self._held.enter_context(tempfile.TemporaryDirectory(prefix="dataflow_model-"))
            for part in (self.path, log):
                shutil.copy(part, folder)
            path, how = pathlib.Path(folder, FILE), "mode=ro"
        with contextlib.ExitStack() as undone:
            undone.callback(self._held.close)
            self._database = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)
            undone.callback(self._database.close)
            self._database.text_factory = _text
            self._database.execute("PRAGMA schema_version")  # reads, so that what is missing shows here
            undone.pop_all()

    def close(self) -> None:
        """Close the file."""
        with self._held:
            self._database.close()

    @contextlib.contextmanager
    def snapshot(self) -> Iterator[None]:
        """Read what was committed last, in the `with` block, whatever a running run commits meanwhile."""
        with self.explained():
            self._database.execute("BEGIN")
            try:
                yield
            finally:
                with contextlib.suppress(sqlite3.Error):
                    self._database.execute("ROLLBACK")

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

    def execute_many(self, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run a statement for each row of values."""
        with self.explained():
            self._database.executemany(statement, rows)

    # Commits -------------------------------------------------------------------------------------------------------

    def last_commit(self) -> Commit | None:
        """Return the last commit; `None` if there is none.

        Raises:
            StateCorruption: if it is damaged, or the rest of the file does not belong to it.
        """
        rows = self.execute("SELECT number, record FROM commits ORDER BY number DESC LIMIT 1")
        if not rows:
            return None
        number, record = rows[0]
        commit: Commit = unseal(_bytes(record), repr(str(self.path)), "its last commit")
        if commit.number != number:
            raise self.corrupt(f"its last commit has the number {commit.number}, but is stored as {number}")
        if commit.heads != self._heads():
            raise self.corrupt("the heads of its shards are not those of its last commit")
        return attrs.evolve(commit, offset=_with_done(commit.offset, read_finished(self, commit.done)))

    def _heads(self) -> dict[tuple[int, int], int]:
        rows = self.execute("SELECT depth, shard, head FROM heads")
        return {(depth, shard): zlib.crc32(_bytes(head)) for depth, shard, head in rows}

    def put_commit(self, commit: Commit, before: Commit | None) -> Commit:
        """Replace the last commit; the one before it must be published.

        Args:
            commit: the commit.
            before: the last one, if there is one.

        Returns:
            The commit, with the checksums of the rest of the file.
        """
        known = {} if before is None else before.offset.sources
        sums: dict[str, int] = {} if before is None else dict(before.done)
        for label in commit.offset.sources.keys() | known.keys():
            after = commit.offset.of_source(label)
            changed = after.done if before is None else after.completed
            done = known[label].done if label in known else {}
            sums[label] = write_finished(self, label, after.done, done, changed, sums.get(label, 0))
        commit = attrs.evolve(commit, heads=self._heads(), done=sums)
        record = seal(attrs.evolve(commit, offset=_with_done(commit.offset, {})))
        self.execute("DELETE FROM commits")
        self.execute("INSERT INTO commits VALUES (?, 0, ?)", (commit.number, record))
        return commit

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
                raise self.corrupt(str(error)) from error
            raise SinkError(
                f"{str(self.path)!r} in the checkpoint directory cannot be used: {error}",
                hint="check free space and permissions, and start the run again: it resumes where it stopped",
            ) from error

    def corrupt(self, problem: str) -> StateCorruption:
        """Return the error for damage to the file."""
        return corrupt(repr(str(self.path)), problem)


@attrs.frozen
class ShardStore:
    """The state store of one shard in the file; see `StateStore`. Writes are part of the open transaction."""

    file: RunFile
    depth: int
    shard: int

    def get_head(self) -> bytes | None:
        """Return the head."""
        key = (self.depth, self.shard)
        return _only(self.file.execute("SELECT head FROM heads WHERE depth = ? AND shard = ?", key))

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


def _with_done(offset: Offset, done: Mapping[str, Mapping[str, OriginOffset]]) -> Offset:
    """Return an offset with these origins as those that have been read completely, by source."""
    sources = {label: attrs.evolve(source, done=done.get(label, {})) for label, source in offset.sources.items()}
    return attrs.evolve(offset, sources=sources)


def _only(rows: list[tuple[Any, ...]]) -> bytes | None:
    return None if not rows else _bytes(rows[0][0])


def _bytes(value: Any) -> bytes:
    """Return a value of the file; if damage has turned it into another type, the result fails every checksum."""
    return value if isinstance(value, bytes) else b""


def _text(stored: bytes) -> str:
    """Return text, whatever damage has made of it: its checksum shows that."""
    return stored.decode(errors="surrogateescape")


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
    return commit is not None and commit.offset.last
