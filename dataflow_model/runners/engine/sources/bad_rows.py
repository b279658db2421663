"""Bad rows as dead letters, each at a tick that does not depend on the range of rows that is read at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.runners.engine.lanes.bundle import GLOBAL_ONLY, Bundle
from dataflow_model.runners.engine.lanes.order import name_of_origin, of_row
from dataflow_model.values import NO_FIRING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dataflow_model.plan.columns.source_columns import Columns
    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.logical.nodes import Read


class BadRows:
    """Turns the bad rows of one range of rows into dead letters.

    Under a replay clock, the tick of a bad row is its clock value. If it has none, see `ColumnSource.clock_near`; if no
    row of the origin has one, the tick is the epoch.

    Args:
        read: the node that reads.
        source: its source, as it is read.
        origin: where the rows are.
        wall: the tick of all rows, if there is no replay clock.
        base: what is added to the number of a row in its origin, for the order of its dead letter.
    """

    def __init__(self, read: Read, source: ColumnSource, origin: str, wall: int, base: int = 0) -> None:
        self._read, self._source, self._origin, self._wall, self._base = read, source, origin, wall, base
        self._name = name_of_origin(read.label, origin)
        self._last: int | None = None

    def letters(self, columns: Columns, positions: NDArray[np.int64]) -> Bundle:
        """Return the dead letters of the next batch.

        Args:
            columns: the batch.
            positions: the position of each row, with the base.

        Raises:
            SourceError: for a bad row, if the node has no output for dead letters.
        """
        letters = Bundle()
        for bad in columns.bad:
            position = int(positions[bad.index])
            row = position - self._base - bad.index
            if self._read.dead_letters is None:
                raise self._source.refusal(self._read.label, self._origin, row, bad)
            tick = self._wall
            if columns.clock is not None:
                tick = int(columns.clock[bad.index]) if bad.index >= columns.clock_from else self._last_clock(row)
            letter = self._source.dead_letter(self._read.label, self._origin, row, bad)
            letters.append(letter, tick, GLOBAL_ONLY, NO_FIRING, of_row(self._name, position), tick)
        if columns.clock is not None and columns.clock_from < len(columns.clock):
            self._last = int(columns.clock[-1])
        return letters

    def _last_clock(self, row: int) -> int:
        """Return the tick of rows without a clock at the beginning of a batch."""
        if self._last is None:
            self._last = self._source.clock_near(self._origin, row) or 0
        return self._last
