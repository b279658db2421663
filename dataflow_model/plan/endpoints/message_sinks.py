"""Sinks whose records are in the messages of their tasks, for results that fit in the driver's memory."""

from __future__ import annotations

import abc
import itertools
from typing import TYPE_CHECKING, ClassVar

import attrs

from dataflow_model.plan.columns.record_columns import KeptRecords, RecordColumns, records_of_kept
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.sinks import Sink, SinkWriter
from dataflow_model.values.pickles import dump, load

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dataflow_model.plan.columns.records import Record


class MessageWriter(SinkWriter):
    """Keeps the records and puts them into the message."""

    def __init__(self) -> None:
        self._parts: list[RecordColumns] = []

    @property
    def in_message(self) -> Sequence[Record]:
        """The records."""
        return list(itertools.chain.from_iterable(part.records() for part in self._parts))

    def write(self, records: Sequence[Record]) -> None:
        """Keep records."""
        if len(records):
            self._parts.append(RecordColumns.of(records))

    def close(self) -> bytes:
        """Return the message with the records; empty if there are none."""
        return dump(KeptRecords.of(self._parts)) if self._parts else b""

    def abort(self) -> None:
        """Forget the records."""
        self._parts.clear()


class MessageSink(Sink):
    """A sink whose records are sent to the driver in the commit messages."""

    def check(self) -> None:
        """Do nothing, since there is nothing to write to."""

    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        """Return a writer that keeps the records."""
        del commit_id, task_id
        return MessageWriter()

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Do nothing; the runner takes `packed_records(messages)`."""

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Do nothing, since nothing is written outside the messages."""

    def records(self, messages: Sequence[bytes]) -> list[Record]:
        """Return the records of one commit in emission order.

        Example:
            >>> from dataflow_model.plan.columns.records import Record
            >>> from dataflow_model.time import EventTime
            >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
            >>> sink = CollectSink()
            >>> writer = sink.open("0", "0")
            >>> writer.write([Record(n, EventTime(0), GLOBAL_WINDOW, NO_FIRING, order=(n,)) for n in (2, 1)])
            >>> [record.value for record in sink.records([writer.close()])]
            [1, 2]
        """
        return records_of_kept(self.packed_records(messages))

    def count_records(self, messages: Sequence[bytes]) -> int:
        """Return the number of records, without loading them."""
        return sum(packed.count for packed in self.packed_records(messages))

    def packed_records(self, messages: Sequence[bytes]) -> list[KeptRecords]:
        """Return the records as the messages hold them."""
        return [load(message) for message in filter(None, messages)]


class TabularSink(MessageSink):
    """A sink whose records the runner keeps and which can convert them to columns."""

    keeps_records: ClassVar[bool] = True

    @abc.abstractmethod
    def table(self, records: Sequence[Record]) -> pa.Table:
        """Return records as columns.

        Raises:
            SinkError: if a record does not fit the schema.
        """


@attrs.frozen
class CollectSink(MessageSink):
    """Keeps records for `PipelineResult.collected`; the sink of `io.Collect` also returns them as a table."""

    keeps_records: ClassVar[bool] = True


class DataFrameSink(TabularSink):
    """The sink of `io.ToDataFrame`, which returns the records of a bounded run as a DataFrame."""

    feature: ClassVar[Feature] = Feature.DATAFRAME_OUTPUT
