"""Sinks as values: what tasks write is pending until one commit publishes it."""

from __future__ import annotations

import abc
import pickle
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import cloudpickle

from dataflow_model.errors import SupersededRun
from dataflow_model.plan.features import Feature
from dataflow_model.time import EventTime, ProcessingTime, format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.values import PaneInfo, Window

__all__ = [
    "CollectSink",
    "DataFrameSink",
    "Fence",
    "MessageSink",
    "Record",
    "Sink",
    "SinkWriter",
    "TabularSink",
    "values_of",
]


@attrs.frozen
class Record:
    """One element as a sink sees it.

    Attributes:
        order: a tuple that sorts the records of one commit into emission order.
        processing_time: when it was produced: the deadline that fired its pane, else the clock.
    """

    value: Any
    event_time: EventTime
    window: Window
    pane: PaneInfo
    is_retraction: bool = False
    order: tuple[Any, ...] = ()
    processing_time: ProcessingTime = ProcessingTime(0)


def values_of(records: Sequence[Record]) -> list[Any]:
    """Return the records' values; a sequence that has them in a list, and makes records only when asked, is not asked.

    Example:
        >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
        >>> values_of([Record("UA", EventTime(0), GLOBAL_WINDOW, NO_FIRING)])
        ['UA']
    """
    values = getattr(records, "values", None)
    return values if isinstance(values, list) else [record.value for record in records]


@attrs.frozen
class Fence:
    """Which start of a run writes: each takes a greater sequencer, and only the newest may write.

    Attributes:
        run_id: the run; one that is resumed keeps it.
        sequencer: of this start: when it began, in microseconds since the epoch, or one more than the one before.

    Source: the MillWheel paper's sequencers, section 5.2.
    """

    run_id: str
    sequencer: int

    def refusal(self, newer: int, place: str, who: str = "") -> SupersededRun:
        """Return the error of a run that finds a newer sequencer than its own.

        Args:
            newer: that sequencer.
            place: where it was found.
            who: more about the newer run.

        Example:
            >>> print(Fence("7c1f", 0).refusal(1_000_000, "the checkpoint '/checkpoints/delays'"))
            run 7c1f, started at 1970-01-01T00:00:00Z, may no longer write:
            the checkpoint '/checkpoints/delays' was taken over at 1970-01-01T00:00:01Z by a newer start of the run
            Hint: end this process and let the newer one continue, or stop the newer one and start this pipeline again
        """
        return SupersededRun(
            f"run {self.run_id}, started at {format_instant(self.sequencer)}, may no longer write:\n"
            f"{place} was taken over at {format_instant(newer)} by a newer start of the run{who}",
            hint="end this process and let the newer one continue, or stop the newer one and start this pipeline again",
        )


class SinkWriter(abc.ABC):
    """Writes one task's records to where no reader sees them yet.

    Attributes:
        takes_columns: whether runners may call `write_columns`; a subclass that gives it sets this.
    """

    takes_columns: ClassVar[bool] = False

    @abc.abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Write some records."""

    def write_columns(self, table: pa.Table) -> None:
        """Write panes that are columns already, none of them a retraction; called only if `takes_columns`.

        The columns are `key` and `value`, then those of window and pane if the sink has `panes`.
        """
        raise NotImplementedError

    @property
    def kept(self) -> Sequence[Record]:
        """The records that `close` puts into the message; none where they are pending elsewhere."""
        return ()

    @abc.abstractmethod
    def close(self) -> bytes:
        """Finish writing and return the message that `Sink.commit` needs."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Remove what was written."""


class Sink(abc.ABC):
    """Where a collection goes. Sinks are values and pickle; `open` runs on workers, the rest on the driver.

    `commit` must be idempotent: after a crash at any moment it is called again with the same `commit_id`, and must
    publish the records once. Its messages are either the same ones, from a host that has recorded them and rolls the
    commit forward, or those of tasks that ran again and have written the same records anew, which is what Spark does.
    So a commit id may be used for one micro-batch of one run only: another run that writes to the same place needs ids
    of its own, or its output counts as published already.

    Attributes:
        panes: whether window and pane are columns too.
        feature: what a runner must support to write to it.
        keeps_records: whether the runner keeps what `records` returns for `PipelineResult.collected`.
    """

    panes: bool = False
    keeps_records: ClassVar[bool] = False
    feature: ClassVar[Feature] = Feature.SINKS

    @abc.abstractmethod
    def check(self) -> None:
        """Raise `SinkError` now if the sink cannot be written; runs at plan time."""

    def check_unbounded(self) -> None:  # noqa: B027 - most sinks have nothing to check
        """Raise `PlanError` if the sink cannot take a stream as it stands; runs at plan time."""

    def place(self) -> str | None:
        """Return the directory that no other sink of the pipeline may write to, or `None`.

        All sinks of a run commit under the same ids. A sink that finds out from its place alone whether a commit has
        been published would take another sink's commit there for its own.
        """
        return None

    def counts(self, messages: Sequence[bytes]) -> Mapping[str, int]:
        """Return what the tasks of one commit have counted, such as `rows` and `dead_letters`, for the metrics."""
        del messages
        return {}

    def fenced(self, fence: Fence) -> Sink:
        """Return the sink as one start of a run uses it; one that can, refuses in its commits what an older one writes.

        Whatever the sink, the runner looks for newer starts before each commit.
        """
        del fence
        return self

    def synced(self) -> Sink:
        """Return the sink as a host uses it that records a commit before publishing it, and then never runs it again.

        When the machine loses power, such a host needs what is pending: `SinkWriter.close` returns only once that is
        on disk. And it forgets a commit that was published: `commit` returns only once what it published is on disk.
        Spark keeps the input of a micro-batch until it is committed, and does without. A sink whose rows are in the
        messages, or that writes to a database, returns itself.
        """
        return self

    def claim(self) -> None:  # noqa: B027 - most sinks leave it to the runner
        """Let no older start of the run write from here on; called on a fenced sink when a run starts."""

    @abc.abstractmethod
    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        """Begin one task's part of one commit."""

    def open_weak(self, commit_id: str, part: str) -> SinkWriter | None:
        """Begin a part of a micro-batch that `close` publishes at once, or return `None` if the sink cannot do so.

        Under `productions="weak"`. The micro-batch may fail after that, and comes again with the same parts, so
        what is published again under the same commit id and part should take the place of what is there.

        Args:
            commit_id: names the micro-batch.
            part: names the part in it.
        """
        del commit_id, part
        return None

    def records(self, messages: Sequence[bytes]) -> list[Record]:
        """Return the records of one commit in emission order, if they travel to the driver inside the messages."""
        del messages
        return []

    @abc.abstractmethod
    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Publish what the tasks have written."""

    @abc.abstractmethod
    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Remove what the tasks have written."""


class _MessageWriter(SinkWriter):
    """Keeps the records and puts them into the message."""

    def __init__(self) -> None:
        self._records: list[Record] = []

    @property
    def kept(self) -> Sequence[Record]:
        return self._records

    def write(self, records: Sequence[Record]) -> None:
        self._records.extend(records)

    def close(self) -> bytes:
        # cloudpickle, since the values may be of classes that live in the user's main program.
        message: bytes = cloudpickle.dumps(self._records, protocol=5) if self._records else b""
        return message

    def abort(self) -> None:
        self._records.clear()


class MessageSink(Sink):
    """A sink whose records travel to the driver inside the commit messages; for results that fit there."""

    def check(self) -> None:
        """Do nothing: there is no place that could be unwritable."""

    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        """Begin to keep records."""
        del commit_id, task_id
        return _MessageWriter()

    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Do nothing; the runner takes `records(messages)`."""

    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Do nothing: nothing is written outside the messages."""

    def records(self, messages: Sequence[bytes]) -> list[Record]:
        """Return the records of one commit in emission order.

        Example:
            >>> from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
            >>> sink = CollectSink()
            >>> writer = sink.open("0", "0")
            >>> writer.write([Record(n, EventTime(0), GLOBAL_WINDOW, NO_FIRING, order=(n,)) for n in (2, 1)])
            >>> [record.value for record in sink.records([writer.close()])]
            [1, 2]
        """
        records: list[Record] = []
        for message in messages:
            if message:
                records.extend(pickle.loads(message))
        records.sort(key=lambda record: record.order)
        return records


class TabularSink(MessageSink):
    """A sink whose records the runner keeps, and which can give them as columns."""

    keeps_records: ClassVar[bool] = True

    @abc.abstractmethod
    def table(self, records: Sequence[Record]) -> pa.Table:
        """Return records as columns.

        Raises:
            SinkError: when a record does not fit the schema.
        """


@attrs.frozen
class CollectSink(MessageSink):
    """Keeps records for `PipelineResult.collected`; that of `io.Collect` gives them as a table too."""

    keeps_records: ClassVar[bool] = True


class DataFrameSink(TabularSink):
    """Gives the records of a bounded run as a DataFrame: `io.ToDataFrame`."""

    feature: ClassVar[Feature] = Feature.DATAFRAME_OUTPUT
