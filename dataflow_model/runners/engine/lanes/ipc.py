"""Tables as Arrow streams, which contain only the given part of a table; a pickle contains the whole columns."""

from __future__ import annotations

import pyarrow as pa

from dataflow_model.runners.engine.lanes.narrow import narrowed_table, widened_table


def to_ipc(table: pa.Table) -> bytes:
    """Return a table as an Arrow stream.

    Example:
        >>> table = pa.table({"n": range(1_000_000)})
        >>> len(to_ipc(table.slice(5, 3))) < 1_000
        True
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def to_narrow_ipc(table: pa.Table) -> bytes:
    """Return a table as a smaller Arrow stream, in which integers take only the bytes that their range needs.

    Example:
        >>> table = pa.table({"n": range(100_000)})
        >>> len(to_narrow_ipc(table)) < len(to_ipc(table)), from_ipc(to_narrow_ipc(table)).equals(table)
        (True, True)
    """
    return to_ipc(narrowed_table(table))


def from_ipc(content: bytes) -> pa.Table:
    """Read what `to_ipc` or `to_narrow_ipc` wrote; only narrow columns are copied."""
    return widened_table(pa.ipc.open_stream(pa.BufferReader(content)).read_all())
