"""Damage to a checkpoint: flipped bits, and files and rows that are cut off, lost, swapped or older than the rest."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Damage", "StoppedFolder", "damages", "our_files"]

KINDS: Final = ("flip", "flip", "flip", "truncate", "delete", "swap", "older", "row lost", "rows swapped", "row older")
_TABLES: Final = {
    "heads": ("depth", "shard"),
    "parts": ("depth", "shard", "sequence", "part"),
    "commits": ("number",),
    "done": ("source", "origin"),
}
"""The tables of the file of a run in process, with their keys; the last column is the content."""


class StoppedFolder:
    """The folder of a run that has ended, which is damaged and put back again and again.

    Attributes:
        folder: a folder for everything that belongs to the run.
    """

    folder: Path

    @property
    def work(self) -> Path:
        """The folder of the checkpoint and the output."""
        return self.folder / "work"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint to damage."""
        return self.work / "checkpoint"

    @property
    def earlier(self) -> Path:
        """The same folder as it was some micro-batches earlier."""
        return self.folder / "earlier"

    @property
    def kept(self) -> Path:
        """The same folder as it was when the run has ended."""
        return self.folder / "kept"

    def restore(self) -> None:
        """Put everything back as it was when the run has ended."""
        shutil.rmtree(self.work)
        shutil.copytree(self.kept, self.work)


def our_files(checkpoint: Path) -> list[Path]:
    """Return the files of a checkpoint, but for those that Spark writes, relative to it."""
    files = [path.relative_to(checkpoint) for path in checkpoint.rglob("*") if path.is_file()]
    return sorted(path for path in files if path.parts[0] != "spark")


@attrs.frozen
class Damage:
    """What happens to a checkpoint.

    Attributes:
        kind: one of `KINDS`.
        path: the file, relative to the checkpoint.
        other: the file that changes places with it.
        number: where in the file, as a random number that the size is applied to.
    """

    kind: str
    path: Path
    other: Path | None = None
    number: int = 0

    def apply(self, checkpoint: Path, earlier: Path) -> bool:
        """Damage a checkpoint; return whether that has changed it.

        Args:
            checkpoint: the checkpoint.
            earlier: what it was earlier.
        """
        path = checkpoint / self.path
        content = path.read_bytes()
        match self.kind:
            case "flip" if content:
                at, bit = divmod(self.number % (8 * len(content)), 8)
                path.write_bytes(content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :])
            case "truncate" if content:
                path.write_bytes(content[: self.number % len(content)])
            case "delete":
                path.unlink()
            case "swap" if self.other is not None:
                path.write_bytes((checkpoint / self.other).read_bytes())
                (checkpoint / self.other).write_bytes(content)
            case "older" if (earlier / self.path).exists():
                shutil.copy(earlier / self.path, path)
            case "row lost" | "rows swapped" | "row older" if path.suffix == ".sqlite":
                self._damage_rows(path, earlier / self.path)
        return not path.exists() or path.read_bytes() != content

    def _damage_rows(self, path: Path, earlier: Path) -> None:
        chance = random.Random(self.number)
        table = chance.choice(sorted(_TABLES))
        keys = _TABLES[table]
        where = " AND ".join(f"{name} = ?" for name in keys)
        with _opened(path) as database, _opened(earlier) as before:
            rows = database.execute(_select(table)).fetchall()
            columns = [entry[1] for entry in database.execute(f"PRAGMA table_info({table})")]
            update = f"UPDATE {table} SET {columns[-1]} = ? WHERE {where}"  # noqa: S608 - the names are ours
            chance.shuffle(rows)
            row, *others = rows
            key = row[: len(keys)]
            if self.kind == "row lost":
                database.execute(f"DELETE FROM {table} WHERE {where}", key)  # noqa: S608
            elif self.kind == "rows swapped" and others:
                database.execute(update, (row[-1], *others[0][: len(keys)]))
                database.execute(update, (others[0][-1], *key))
            elif self.kind == "row older":
                older = {old[: len(keys)]: old[-1] for old in before.execute(_select(table))}
                database.execute(update, (older.get(key, next(iter(older.values()))), *key))


def _select(table: str) -> str:
    return f"SELECT * FROM {table}"  # noqa: S608 - the name is ours


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    database = sqlite3.connect(path)
    try:
        with database:
            yield database
    finally:
        database.close()


def damages(checkpoint: Path, count: int, seed: int) -> list[Damage]:
    """Draw damage to a checkpoint: as often to each of its parts, however many files a part has.

    Args:
        checkpoint: the checkpoint.
        count: how many to draw.
        seed: the seed.
    """
    chance = random.Random(seed)
    files = our_files(checkpoint)
    databases = [path for path in files if path.suffix == ".sqlite"]
    kinds = [kind for kind in KINDS if databases or "row" not in kind]
    parts: dict[tuple[str, ...], list[Path]] = {}
    for path in files:
        parts.setdefault(path.parts[:2], []).append(path)
    drawn: list[Damage] = []
    for turn in range(count):
        kind = kinds[turn % len(kinds)]
        candidates = databases if "row" in kind else chance.choice(list(parts.values()))
        path = chance.choice(candidates)
        others = [other for other in candidates if other != path] or [other for other in files if other != path]
        drawn.append(Damage(kind, path, chance.choice(others) if kind == "swap" else None, chance.getrandbits(40)))
    return drawn
