"""Records as columns: how sinks can take them, and how messages and checkpoints hold those that a run keeps.

Pickling and loading columns takes a third of the time that records take, and only a reader makes records of them.
"""

from __future__ import annotations

import abc
import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import attrs
import numpy as np
import pyarrow as pa

from dataflow_model.plan.columns.orders import OrderColumns
from dataflow_model.plan.columns.records import Record
from dataflow_model.time import EventTime, ProcessingTime
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    from dataflow_model.values import PaneInfo, Window


@attrs.frozen(eq=False)
class PaneColumns:
    """The window and pane of some records, in columns.

    Attributes:
        starts, ends: the windows' bounds, in microseconds.
        indexes: the panes' indexes.
        timings: the names of the panes' timings.
        retractions: whether each record is a retraction.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    indexes: NDArray[np.int64]
    timings: pa.Array
    retractions: NDArray[np.bool_]

    @classmethod
    def of(cls, records: Sequence[Record]) -> PaneColumns:
        """Return the columns of some records, without creating the records of a lazy sequence.

        Example:
            >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
            >>> PaneColumns.of([Record("UA", EventTime(0), GLOBAL_WINDOW, NO_FIRING)]).indexes
            array([0])
        """
        return records.pane_columns() if isinstance(records, LazyRecords) else cls.of_records(records)

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> PaneColumns:
        """Return the columns of some records, by reading each record."""
        return cls.of_panes(
            [record.window for record in records],
            [record.pane for record in records],
            np.array([record.is_retraction for record in records], np.bool_),
        )

    @classmethod
    def of_panes(
        cls, windows: Sequence[Window], panes: Sequence[PaneInfo], retractions: NDArray[np.bool_]
    ) -> PaneColumns:
        """Return windows and panes in columns."""
        return cls(
            np.array([int(window.start) for window in windows], np.int64),
            np.array([int(window.end) for window in windows], np.int64),
            np.array([pane.index for pane in panes], np.int64),
            pa.array([pane.timing.value for pane in panes], pa.string()),
            retractions,
        )

    @classmethod
    def joined(cls, several: Sequence[PaneColumns]) -> PaneColumns:
        """Return the columns of several sequences of records, one after the other."""
        return cls(
            np.concatenate([columns.starts for columns in several]),
            np.concatenate([columns.ends for columns in several]),
            np.concatenate([columns.indexes for columns in several]),
            pa.concat_arrays([columns.timings for columns in several]),
            np.concatenate([columns.retractions for columns in several]),
        )


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
        """Return records as columns, without creating the records of a lazy sequence.

        Example:
            >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
            >>> RecordColumns.of([Record("UA", EventTime(7), GLOBAL_WINDOW, NO_FIRING)]).event_times
            array([7])
        """
        return records.record_columns() if isinstance(records, LazyRecords) else cls.of_records(records)

    @classmethod
    def of_records(cls, records: Sequence[Record]) -> RecordColumns:
        """Return records as columns, record by record."""
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


def records_of_kept(kept: Iterable[KeptRecords]) -> list[Record]:
    """Return the records that the messages of a sink hold, in emission order."""
    records = (record for part in kept for record in part.records())
    return sorted(records, key=lambda record: record.order)


class LazyRecords(Sequence[Record]):
    """Records that are all created when one of them is first read.

    Their number is known before, and a sink can take their fields in columns instead. A subclass that has columns
    overrides the methods that return them; the methods that it leaves alone go through the records.
    """

    @abc.abstractmethod
    def made(self) -> list[Record]:
        """Return the records; called once."""

    @functools.cached_property
    def values(self) -> list[Any]:
        """The records' values."""
        return [record.value for record in self]

    @functools.cached_property
    def columns(self) -> pa.Table | None:
        """The records' values as columns, `None` where they are Python objects."""
        return None

    def orders(self) -> OrderColumns:
        """Return the orders of the records."""
        return OrderColumns.of(record.order for record in self)

    def retractions(self) -> NDArray[np.bool_]:
        """Return for each record whether it is a retraction."""
        return np.array([record.is_retraction for record in self], np.bool_)

    def pane_columns(self) -> PaneColumns:
        """Return window and pane of each record."""
        return PaneColumns.of_records(self)

    def record_columns(self) -> RecordColumns:
        """Return the records' fields."""
        return RecordColumns.of_records(self)

    @functools.cached_property
    def _records(self) -> list[Record]:
        return self.made()

    @overload
    def __getitem__(self, index: int) -> Record: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...
    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        return self._records[index]

    def __iter__(self) -> Iterator[Record]:
        return iter(self._records)


def values_of_records(records: Sequence[Record]) -> list[Any]:
    """Return the records' values, without creating the records of a lazy sequence.

    Example:
        >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
        >>> values_of_records([Record("UA", EventTime(0), GLOBAL_WINDOW, NO_FIRING)])
        ['UA']
    """
    return records.values if isinstance(records, LazyRecords) else [record.value for record in records]


def columns_of_records(records: Sequence[Record]) -> pa.Table | None:
    """Return the records' values as columns, `None` where they are Python objects."""
    return records.columns if isinstance(records, LazyRecords) else None


def orders_of_records(records: Sequence[Record]) -> OrderColumns:
    """Return the orders of the records, without creating the records of a lazy sequence."""
    return records.orders() if isinstance(records, LazyRecords) else OrderColumns.of(record.order for record in records)


def retractions_of_records(records: Sequence[Record]) -> NDArray[np.bool_]:
    """Return for each record whether it is a retraction, without creating the records of a lazy sequence."""
    if isinstance(records, LazyRecords):
        return records.retractions()
    return np.array([record.is_retraction for record in records], np.bool_)
