"""The elements of a lifted grouping at an instant that arrives in several chunks, combined as if they came in one.

They are combined in their order, each after those before it: sums of floats are the same wherever the instant is cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from dataflow_model.runners.engine.lanes.bundle import all_joined
from dataflow_model.runners.engine.lifted.chunks import PairColumns, chunk_partials

if TYPE_CHECKING:
    import pyarrow as pa

    from dataflow_model.plan.rewrites.lifting import Lift
    from dataflow_model.runners.engine.lanes.bundle import Bundle
    from dataflow_model.windowing import WindowFn

_FEW: Final = 1 << 19
"""The number of elements below which they wait to be combined: with many cells, combining them is not free.

With more cells than this, as many elements wait as there are cells, so that each is combined in constant time.
"""


class Gathering:
    """Combines the elements of an instant that is not complete.

    Args:
        lift: the lift of the grouping; its columns have other names here.
        window_fn: the window function.

    Attributes:
        table: what has been combined; `None` if nothing has.
        waiting: the elements that have not been combined yet, in order.
    """

    def __init__(self, lift: Lift, window_fn: WindowFn) -> None:
        self.table: pa.Table | None = None
        self.waiting: list[Bundle] = []
        self._window_fn = window_fn
        self._lift = attrs.evolve(lift, key="key", value=None if lift.kernel.reduction is None else "value")
        self._schema: pa.Schema | None = None

    def add(self, elements: Bundle, *, is_last: bool) -> bool:
        """Add elements, and combine all that wait if these are many, or the last ones.

        Args:
            elements: the elements, which belong to this object from now on.
            is_last: whether they are the last ones of the instant.

        Returns:
            whether that was possible; otherwise `waiting` keeps them.
        """
        if len(elements):
            self.waiting.append(elements)
        cells = 0 if self.table is None else self.table.num_rows
        is_due = is_last or sum(map(len, self.waiting)) >= max(_FEW, cells)
        if not is_due or not self.waiting:
            return True
        self.waiting = [all_joined(self.waiting)]
        columns = PairColumns.of(self.waiting[0], self._lift)
        table = None if columns is None else self._continued(columns)
        if table is not None:
            self.table, self.waiting = table, []
        return table is not None

    def _continued(self, columns: PairColumns) -> pa.Table | None:
        """Return the table with further elements; `None` if the kernel cannot process them."""
        if self._schema is not None and columns.batch.schema != self._schema:
            return None
        self._schema = columns.batch.schema
        windows = None, columns.windows.starts, columns.windows.ends
        return chunk_partials(
            self._lift, self._window_fn, columns.batch, columns.times.array, windows, before=self.table
        )
