"""Records as columns: how messages and checkpoints hold the records that a run keeps.

Pickling and loading columns takes a third of the time that records take, and only a reader makes records of them.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np

from dataflow_model.plan.sinks import Record
from dataflow_model.time import EventTime, ProcessingTime
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from dataflow_model.values import PaneInfo, Window

__all__ = ["KeptRecords", "RecordColumns"]


@attrs.frozen(eq=False)
class RecordColumns:
    """The fields of some records, in columns; see `Record`.

    Checkpoints contain pickles of this class, so they hold plain values and arrays only.
    """

    values: list[Any]
    event_times: NDArray[np.int64]
    windows: list[Window]
    panes: list[PaneInfo]
    retractions: NDArray[np.bool_]
    orders: list[tuple[Any, ...]]
    processing_times: NDArray[np.int64]

    @classmethod
    def of(cls, records: Sequence[Record]) -> RecordColumns:
        """Return records as columns.

        A sequence that has its records in columns makes none.

        Example:
            >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
            >>> RecordColumns.of([Record("UA", EventTime(7), GLOBAL_WINDOW, NO_FIRING)]).event_times
            array([7])
        """
        in_columns: Callable[[], RecordColumns] | None = getattr(records, "record_columns", None)
        if in_columns is not None:
            return in_columns()
        return cls(
            [record.value for record in records],
            np.array([int(record.event_time) for record in records], np.int64),
            [record.window for record in records],
            [record.pane for record in records],
            np.array([record.is_retraction for record in records], np.bool_),
            [record.order for record in records],
            np.array([int(record.processing_time) for record in records], np.int64),
        )

    def records(self) -> list[Record]:
        """Return the records."""
        columns = zip(
            self.values,
            self.event_times.tolist(),
            self.windows,
            self.panes,
            self.retractions.tolist(),
            self.orders,
            self.processing_times.tolist(),
            strict=True,
        )
        return [
            Record(value, EventTime(event_time), window, pane, is_retraction, order, ProcessingTime(processing_time))
            for value, event_time, window, pane, is_retraction, order, processing_time in columns
        ]


@attrs.frozen
class KeptRecords:
    """Records as a message and a checkpoint hold them.

    Attributes:
        count: the number of records.
        content: the pickled columns of each part, which are loaded only when the records are read.
    """

    count: int
    content: bytes

    @classmethod
    def of(cls, parts: Sequence[RecordColumns]) -> KeptRecords:
        """Return records for keeping.

        Example:
            >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
            >>> kept = KeptRecords.of([RecordColumns.of([Record("UA", EventTime(7), GLOBAL_WINDOW, NO_FIRING)])])
            >>> kept.count, [record.value for record in kept.records()]
            (1, ['UA'])
        """
        return cls(sum(len(part.values) for part in parts), dump(list(parts)))

    def records(self) -> list[Record]:
        """Return the records."""
        parts: list[RecordColumns] = load(self.content)
        return list(itertools.chain.from_iterable(part.records() for part in parts))
