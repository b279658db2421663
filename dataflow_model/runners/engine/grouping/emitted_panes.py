"""The panes that a grouping emits, in columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@attrs.frozen(eq=False)
class EmittedPanes:
    """The panes that a grouping has emitted, in columns, in the total order of events.

    Attributes:
        values: the value of each pane; an array of integers or floats, or of structs if all are rows.
        instant: the index of each pane's instant in the chunk.
        watermark: that of the input at its cause.
        phase, at, number: its cause, as in `order.Order`; `at` is a row if the cause is an element, else a deadline.
        cause_start, cause_end, cause_kind: the window whose timer is the cause.
        emission: for a retraction and its replacement, the number of the firing among those of the cause; else −1.
        key, start, end, kind, index, on_time_index, flags, time, produced: the other attributes of each pane.
        hold: by instant, the earliest event time of pending output; +∞ if there is none.
        shown: the representation of each pane's key, if equal keys may differ in it; otherwise see `KeyTable.shown`.
    """

    values: Sequence[Any] | NDArray[Any] | pa.StructArray
    instant: NDArray[np.int64]
    watermark: NDArray[np.int64]
    phase: NDArray[np.int64]
    at: NDArray[np.int64]
    number: NDArray[np.int64]
    cause_start: NDArray[np.int64]
    cause_end: NDArray[np.int64]
    cause_kind: NDArray[np.int64]
    emission: NDArray[np.int64]
    key: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    kind: NDArray[np.int64]
    index: NDArray[np.int64]
    on_time_index: NDArray[np.int64]
    flags: NDArray[np.int64]
    time: NDArray[np.int64]
    produced: NDArray[np.int64]
    hold: NDArray[np.int64]
    shown: Sequence[Any] | None = None

    def __len__(self) -> int:
        return len(self.key)
