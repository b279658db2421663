"""Integers in as few bytes as their range needs, for rows that Spark shuffles: it copies, sorts and compresses them.

Event times, window bounds and positions take eight bytes each in memory, but those of one bundle are close together.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from dataflow_model.runners.engine.lanes.uniform import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LEAST: Final = b"dataflow_model.least"
"""In a schema's metadata: the least value of each column that was narrowed, by the column's index."""
_WORD: Final = 8
_FEW: Final = 64
"""Fewer integers than these are left as they are: their bytes count for less than the work."""


def narrowed(numbers: NDArray[np.int64]) -> tuple[int, int | NDArray[Any]]:
    """Return the least of some integers and by how much each exceeds it, or their count if all are equal.

    A few integers are left as they are, with 0 in place of the least.

    Example:
        >>> least, excess = narrowed(np.arange(1_000_000, 1_000_100))
        >>> least, excess[:3], excess.dtype
        (1000000, array([0, 1, 2], dtype=uint8), dtype('uint8'))
        >>> narrowed(np.full(100, 60))
        (60, 100)
    """
    if len(numbers) < _FEW:
        return 0, numbers
    least, greatest = int(numbers.min()), int(numbers.max())
    if least == greatest:
        return least, len(numbers)
    kind = np.min_scalar_type(greatest - least)
    if kind.itemsize >= _WORD:  # nothing is gained
        return 0, numbers
    return least, (numbers - least).astype(kind)


def widened(least: int, excess: int | NDArray[Any]) -> NDArray[np.int64]:
    """Return the integers that were passed to `narrowed`.

    Example:
        >>> widened(60, np.array([3, 0], np.uint8)), widened(60, 3)
        (array([63, 60]), array([60, 60, 60]))
    """
    if isinstance(excess, int):
        return uniform(least, excess)
    wide: NDArray[np.int64] = np.add(excess, least, dtype=np.int64)
    return wide


def narrowed_table(table: pa.Table) -> pa.Table:
    """Return a table whose columns of 64-bit integers without nulls are narrow; `widened_table` restores it.

    Example:
        >>> table = pa.table({"start": [60] * 100, "sum": range(1_000, 1_100)})
        >>> narrow = narrowed_table(table)
        >>> [str(kind) for kind in narrow.schema.types], widened_table(narrow).equals(table)
        (['null', 'uint8'], True)
    """
    if len(table) < _FEW:
        return table
    least: dict[str, int] = {}
    columns: list[Any] = table.columns
    for index, column in enumerate(table.columns):
        if column.type != pa.int64() or column.null_count:
            continue
        least[str(index)], excess = narrowed(column.to_numpy())
        columns[index] = pa.nulls(excess) if isinstance(excess, int) else pa.array(excess)
    narrow = pa.table(columns, names=table.column_names)
    return narrow.replace_schema_metadata({**(table.schema.metadata or {}), _LEAST: json.dumps(least)})


def widened_table(table: pa.Table) -> pa.Table:
    """Return the table that was passed to `narrowed_table`; another table is returned as it is."""
    metadata = dict(table.schema.metadata or {})
    if _LEAST not in metadata:
        return table
    least: dict[str, int] = json.loads(metadata.pop(_LEAST))
    columns: list[Any] = table.columns
    for index, column in enumerate(table.columns):
        if str(index) in least:
            excess = len(column) if pa.types.is_null(column.type) else column.to_numpy()
            columns[index] = pa.array(widened(least[str(index)], excess))
    return pa.table(columns, names=table.column_names).replace_schema_metadata(metadata or None)
