"""What sinks of rows have in common whose columns are stated, known from type hints, or decided by the first rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import attrs

from dataflow_model.io.sinks.sink_columns import full_schema, own_columns
from dataflow_model.plan.endpoints.sinks import Sink
from dataflow_model.values import pickles

if TYPE_CHECKING:
    import pyarrow as pa


class ColumnSink(Sink):
    """A sink of rows with columns.

    Attributes:
        schema: the columns, those of `panes` and `retractions` apart; `None` if the first rows decide them.
        panes: whether window and pane are columns too.
        retractions: whether there is a column `is_retraction`.
    """

    schema: pa.Schema | None
    panes: bool
    retractions: bool = False

    @property
    def full_schema(self) -> pa.Schema | None:
        """The columns with those of `panes` and `retractions`."""
        if self.schema is None:
            return None
        return full_schema(self.schema, panes=self.panes, retractions=self.retractions)

    @property
    def awaits_columns(self) -> bool:
        """Whether the columns are not known."""
        return self.schema is None

    def with_columns(self, columns: pa.Schema) -> Self:
        """Return the sink with the columns that its first rows have decided."""
        sink: Any = self  # the subclasses are attrs classes
        changed: Self = attrs.evolve(sink, schema=columns)
        return changed

    def columns_in(self, message: bytes) -> pa.Schema | None:
        """Return the columns that a writer has inferred, without those that the sink adds."""
        return own_columns(pickles.load(message).schema, panes=self.panes, retractions=self.retractions)
