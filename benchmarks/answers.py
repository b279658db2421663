"""Whether two folders of Parquet hold the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["agree"]

_COLUMNS: Final = ("key", "window_start", "window_end", "value")


def agree(ours: Path, theirs: Path) -> bool:
    """Tell whether both hold the same rows, in any order; compared are key, window bounds and value.

    Times count as microseconds, whatever type they are stored as. Empty answers agree with nothing.
    """
    left, right = _read(ours), _read(theirs)
    return bool(left.num_rows > 0 and left.equals(right))


def _read(folder: Path) -> pa.Table:
    # Names that begin with `_` or `.` are not data, by the custom that all readers of Parquet follow.
    files = [str(path) for path in folder.rglob("*.parquet") if not _hidden(path.relative_to(folder))]
    table = ds.dataset(files, format="parquet").to_table()
    columns = {name: _plain(table[name]) for name in _COLUMNS if name in table.column_names}
    plain = pa.table(columns)
    return plain.sort_by([(name, "ascending") for name in plain.column_names]).combine_chunks()


def _hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.large_string())
