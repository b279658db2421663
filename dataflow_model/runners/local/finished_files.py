"""The table of the files that a run in process has read completely, and its checksum.

A folder may contain many such files, and a micro-batch changes few of them. So they have a table of their own, to which
only the differences are written; the commit contains a sum of the checksums of its rows, in any order.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final

from dataflow_model.runners.sharded.feed.origins import OriginOffset

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from dataflow_model.runners.local.run_file import RunFile

FINISHED_FILES: Final = """
CREATE TABLE IF NOT EXISTS done (source, origin, entry, PRIMARY KEY (source, origin)) WITHOUT ROWID;
"""
_DIGEST_BYTES: Final = 8
_MODULUS: Final = 1 << 8 * _DIGEST_BYTES


def read_finished(file: RunFile, sums: Mapping[str, int]) -> dict[str, dict[str, OriginOffset]]:
    """Return the completely read origins of each source.

    Args:
        file: the file with the table.
        sums: by source, the sum of the checksums of its rows.

    Raises:
        StateCorruption: if rows are missing or damaged.
    """
    actual = dict.fromkeys(sums, 0)
    finished: dict[str, dict[str, OriginOffset]] = {}
    for source, origin, entry in file.execute("SELECT source, origin, entry FROM done"):
        try:
            finished.setdefault(source, {})[json.loads(origin)] = OriginOffset.of_json(json.loads(entry))
            actual[source] = (actual.get(source, 0) + _checksum(source, origin, entry)) % _MODULUS
        except (TypeError, ValueError) as error:
            raise file.corrupt(f"a row of its table of finished files cannot be read: {error}") from error
    for source, total in actual.items():
        if total != sums.get(source, 0):
            raise file.corrupt(f"its table of finished files fails its checksum for the source {source!r}")
    return finished


def write_finished(
    file: RunFile,
    source: str,
    done: Mapping[str, OriginOffset],
    known: Mapping[str, OriginOffset],
    changed: Collection[str],
    total: int,
) -> int:
    """Store the completely read origins of a source that have changed, and remove those that no longer exist.

    Args:
        file: the file with the table.
        source: the label of the source.
        done: its origins.
        known: those in the table.
        changed: the names of those that have changed.
        total: the sum of the checksums of its rows.

    Returns:
        The sum after the change.
    """
    is_shorter = len(done) - sum(name not in known for name in changed) < len(known)
    removed = [name for name in known if name not in done] if is_shorter else []
    replaced = [name for name in changed if name in known]
    # JSON can represent file names with bytes that are not UTF-8, which text in SQLite cannot.
    old = [(source, json.dumps(name), json.dumps(known[name].to_json())) for name in (*removed, *replaced)]
    new = [(source, json.dumps(name), json.dumps(done[name].to_json())) for name in changed]
    file.execute_many("DELETE FROM done WHERE source = ? AND origin = ?", [row[:2] for row in old])
    file.execute_many("INSERT INTO done VALUES (?, ?, ?)", new)
    return (total + sum(_checksum(*row) for row in new) - sum(_checksum(*row) for row in old)) % _MODULUS


def _checksum(source: str, origin: str, entry: str) -> int:
    row = f"{source}\0{origin}\0{entry}".encode(errors="surrogateescape")
    return int.from_bytes(hashlib.blake2b(row, digest_size=_DIGEST_BYTES).digest())
