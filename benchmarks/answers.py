"""Whether two folders of Parquet hold the same answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["agree", "timings", "write_sums"]

_WINDOW: Final = 10_000_000
_COLUMNS: Final = ("key", "window_start", "window_end", "value")


def agree(ours: Path, theirs: Path) -> bool:
    """Tell whether both hold the same answers, in any order; compared are key, window bounds and value.

    Where a window has several panes, the last one counts; where panes take earlier ones back, what is left of each
    window. Times count as microseconds, whatever type they are stored as. Empty answers agree with nothing.
    """
    left, right = _answers(ours), _answers(theirs)
    return bool(left.num_rows > 0 and left.equals(right))


def write_sums(events: str, key: str, out: Path) -> None:
    """Write the sums of the values of events per 10-second window and key, which is the column of that name."""
    table = ds.dataset(events, format="parquet").to_table(columns=[key, "event_time", "value"])
    micros = table["event_time"].cast(pa.int64()).to_numpy()
    start = micros - micros % _WINDOW
    keyed = pa.table({"key": table[key], "window_start": start, "window_end": start + _WINDOW, "value": table["value"]})
    sums = keyed.group_by(["key", "window_start", "window_end"]).aggregate([("value", "sum")])
    out.mkdir()
    pq.write_table(sums.rename_columns(["key", "window_start", "window_end", "value"]), out / "sums.parquet")


def timings(folder: Path) -> dict[str, float]:
    """Return the share of each timing among the panes, retractions left out.

    Args:
        folder: Parquet files with the columns that `panes=True` adds.
    """
    panes = _read(folder)
    if "is_retraction" in panes.column_names:
        panes = panes.filter(~pc.field("is_retraction"))
    counted = panes.group_by("pane_timing").aggregate([([], "count_all")])
    named = zip(counted["pane_timing"].to_pylist(), counted["count_all"].to_pylist(), strict=True)
    return {name: count / panes.num_rows for name, count in named}


def _answers(folder: Path) -> pa.Table:
    table = _read(folder)
    columns = {name: _plain(table[name]) for name in _COLUMNS if name in table.column_names}
    plain = pa.table(columns)
    names = plain.column_names
    if "is_retraction" in table.column_names:
        signs = 1 - 2 * table["is_retraction"].to_numpy().astype(np.int8)
        counted = plain.append_column("sign", pa.array(signs)).group_by(names).aggregate([("sign", "sum")])
        left = counted.filter(pc.field("sign_sum") != 0)
        # A value that is there twice, or was taken back without having been there, is no answer.
        plain = left.select(names) if set(left["sign_sum"].to_pylist()) == {1} else left
    elif "pane_index" in table.column_names:
        of = [name for name in names if name != "value"]
        indexed = plain.append_column("pane_index", table["pane_index"])
        last = indexed.group_by(of).aggregate([("pane_index", "max")]).rename_columns([*of, "pane_index"])
        plain = indexed.join(last, [*of, "pane_index"], join_type="inner").select(names)
    return plain.sort_by([(name, "ascending") for name in plain.column_names]).combine_chunks()


def _read(folder: Path) -> pa.Table:
    # Names that begin with `_` or `.` are not data, by the custom that all readers of Parquet follow.
    files = [str(path) for path in folder.rglob("*.parquet") if not _hidden(path.relative_to(folder))]
    return ds.dataset(files, format="parquet").to_table()


def _hidden(path: Path) -> bool:
    return any(part.startswith(("_", ".")) for part in path.parts)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if pa.types.is_list(column.type):
        return pa.chunked_array([pa.array(map(str, column.to_pylist()), pa.large_string())])
    return column.cast(pa.int64() if pa.types.is_integer(column.type) else pa.large_string())
