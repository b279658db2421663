"""Where a run records the columns of a source that infers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnRecord(Protocol):
    """The columns of one source in the checkpoint of a run; it can be pickled."""

    def read(self) -> pa.Schema | None:
        """Return the columns; `None` if they are not known yet."""
        ...

    def record(self, schema: pa.Schema) -> None:
        """Record columns that were inferred; they are durable when this returns."""
        ...
