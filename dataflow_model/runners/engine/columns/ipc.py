"""Tables as Arrow streams: of a part of a table they hold that part alone, where a pickle holds the whole columns."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["from_ipc", "to_ipc"]


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


def from_ipc(content: bytes) -> pa.Table:
    """Read what `to_ipc` wrote, without a copy of the columns."""
    return pa.ipc.open_stream(pa.BufferReader(content)).read_all()
