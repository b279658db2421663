"""Sinks as values: the output of tasks is pending until a commit publishes it."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import attrs

from dataflow_model.errors import SupersededRun
from dataflow_model.plan.columns.record_columns import KeptRecords, RecordColumns
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.outcomes import Reader
from dataflow_model.time import format_instant

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from dataflow_model.plan.columns.records import Record


@attrs.frozen
class Fence:
    """Identifies one start of a run: each start has a greater sequencer, and only the newest start may write.

    Attributes:
        run_id: the id of the run, which stays the same when it is resumed.
        sequencer: the time of this start, in microseconds since the epoch, or the previous sequencer plus one if that
            is greater.
        marks: the sinks that have been renamed since the run began, each with the label that it had before, under which
            it has noted the run's commits.

    Source: the MillWheel paper's sequencers, section 5.2.
    """

    run_id: str
    sequencer: int
    marks: tuple[tuple[str, str], ...] = ()

    def mark_of(self, label: str) -> str:
        """Return the label under which a sink notes the run's commits: the one that it had when the run began.

        Example:
            >>> fence = Fence("7c1f", 0, marks=(("totals", "sums"),))
            >>> fence.mark_of("totals"), fence.mark_of("counts")
            ('sums', 'counts')
        """
        return dict(self.marks).get(label, label)

    def refusal(self, newer: int, where: str, who: str = "") -> SupersededRun:
        """Return the error for a run that finds a newer sequencer than its own.

        Args:
            newer: the newer sequencer.
            where: where it was found.
            who: a description of the newer run.

        Example:
            >>> print(Fence("7c1f", 0).refusal(1_000_000, "the checkpoint '/checkpoints/delays'"))
            run 7c1f, started at 1970-01-01T00:00:00Z, may no longer write:
            the checkpoint '/checkpoints/delays' was taken over at 1970-01-01T00:00:01Z by a newer start of the run
            Hint: end this process and let the newer one continue, or stop the newer one and start this pipeline again
        """
        return SupersededRun(
            f"run {self.run_id}, started at {format_instant(self.sequencer)}, may no longer write:\n"
            f"{where} was taken over at {format_instant(newer)} by a newer start of the run{who}",
            hint="end this process and let the newer one continue, or stop the newer one and start this pipeline again",
        )


class KnownCommits(NamedTuple):
    """The ids of commits that a sink knows.

    Attributes:
        published: those that are published, at least in part.
        pending: those of which only pending output is left.
    """

    published: Sequence[str] = ()
    pending: Sequence[str] = ()


class SinkWriter(abc.ABC):
    """Writes one task's records where readers do not see them yet.

    Attributes:
        takes_columns: whether runners may call `write_columns`; a subclass that defines it sets this.
    """

    takes_columns: ClassVar[bool] = False

    @abc.abstractmethod
    def write(self, records: Sequence[Record]) -> None:
        """Write some records."""

    def write_columns(self, table: pa.Table) -> None:
        """Write panes in columns, none of which is a retraction; called only if `takes_columns`.

        The columns are `key` and `value`, followed by those of window and pane if the sink has `panes`.
        """
        raise NotImplementedError

    @property
    def needs_all(self) -> bool:
        """Whether `write` is to be called once, with all records, as when the columns are inferred from them.

        A bounded run in process then holds the records until its end; elsewhere this makes no difference.
        """
        return False

    @property
    def in_message(self) -> Sequence[Record]:
        """The records that `close` puts into the message; empty if they are pending elsewhere."""
        return ()

    @abc.abstractmethod
    def close(self) -> bytes:
        """Finish writing and return the message for `Sink.commit`."""

    @abc.abstractmethod
    def abort(self) -> None:
        """Remove the output written so far."""


class Sink(abc.ABC):
    """The destination of a collection; subclass it to write your own sink.

    Sinks are values and can be pickled; `open` runs on workers, everything else on the driver. `commit` must be
    idempotent: after a crash at any moment it is called again with the same `commit_id`, and must publish the records
    once. The messages are then either the same ones (from a host that recorded them and rolls the commit forward) or
    those of tasks that ran again and wrote the same records again (on Spark). A commit id identifies one micro-batch of
    one run, as it was planned by one start of the run; a later start that repeats or publishes it keeps its id. Another
    run that writes to the same location needs its own ids, or its output counts as already published.

    Attributes:
        panes: whether window and pane are written as columns too.
        feature: the feature that a runner must support to write to the sink.
        keeps_records: whether the runner keeps the records (see `packed_records`) for `PipelineResult.collected`.
    """

    panes: bool = False
    keeps_records: ClassVar[bool] = False
    feature: ClassVar[Feature] = Feature.SINKS

    @abc.abstractmethod
    def check(self) -> None:
        """Raise `SinkError` if the sink cannot be written to; runs at plan time."""

    def describe(self) -> str:
        """Return what `explain()` says about the sink."""
        return repr(self)

    def check_unbounded(self) -> None:  # noqa: B027 - most sinks have nothing to check
        """Raise `PlanError` if a stream, even one of bounded inputs, cannot write to the sink; runs at plan time."""

    def reader(self, *, has_window: bool, keeps_windows: bool) -> Reader:
        """Return what the sink can tell about the panes of a grouping, by which `run()` decides whether it is right.

        By default it is assumed that the sink tells them apart, as one can that is passed whole records.

        Args:
            has_window: whether the elements themselves identify their windows.
            keeps_windows: whether their windows are those of the grouping, and not assigned after it.
        """
        del has_window, keeps_windows
        return Reader.RECORDS

    def check_earlier(self, run_id: str = "") -> None:
        """Raise `SinkError` if output of other runs is there to which this one must not add.

        It is called before a bounded run starts, before `check`, and before a stream with a new checkpoint starts.

        Args:
            run_id: the id of the stream, whose own output may be there; empty for a bounded run.
        """
        del run_id

    @property
    def awaits_columns(self) -> bool:
        """Whether the columns are neither stated nor known from type hints.

        In a stream, the first commit with rows then decides them: the runner writes these rows with `open`, takes the
        columns from the message, records them, and from then on uses the sink `with_columns`.
        """
        return False

    def with_columns(self, columns: pa.Schema) -> Sink:
        """Return a sink that awaits its columns with those of its rows."""
        del columns
        return self

    def columns_in(self, message: bytes) -> pa.Schema | None:
        """Return the columns that a writer has inferred, without those that the sink adds; `None` if it had no row."""
        del message
        return None

    def directory(self) -> str | None:
        """Return the directory to which no other sink of the pipeline may write, or `None`.

        All sinks of a run commit under the same ids. A sink that decides only by its directory whether a commit has
        been published would take another sink's commit there for its own.
        """
        return None

    def destination(self) -> Mapping[str, object]:
        """Return the options that decide where the output goes and in which form, by name.

        A stream records their `repr`s, and is rejected if one has changed when it is resumed: the old location would
        keep its output, and the new one would get only the rest. They are shown in errors, so leave out passwords. By
        default, they are the directory and `panes`.
        """
        directory = self.directory()
        return {"panes": self.panes} if directory is None else {"path": directory, "panes": self.panes}

    def counts(self, messages: Sequence[bytes]) -> Mapping[str, int]:
        """Return the counts of the tasks of one commit, such as `rows` and `dead_letters`, for the metrics."""
        del messages
        return {}

    def fenced(self, fence: Fence) -> Sink:
        """Return the sink for one start of a run; if it can, its `commit` rejects the writes of older starts.

        Independently of the sink, the runner checks for newer starts before each commit.
        """
        del fence
        return self

    def synced(self) -> Sink:
        """Return the sink for a host that records a commit before publishing it, and never runs it again after that.

        Such a host needs pending output to survive a power failure, so `SinkWriter.close` returns only when it is on
        disk. It also forgets a commit once it is published, so `commit` returns only when the published output is on
        disk. Spark does not need this, since it keeps the input of a micro-batch until it is committed. A sink whose
        rows are in the messages, or that writes to a database, returns itself.
        """
        return self

    def bounded(self) -> Sink:
        """Return the sink for a bounded run, whose only commit publishes all its output, and is never repeated."""
        return self

    def claim(self) -> None:  # noqa: B027 - most sinks leave it to the runner
        """Prevent older starts of the run from writing; called on a fenced sink when a run starts."""

    def commits_of(self, run_id: str) -> KnownCommits:
        """Return the commits of a run that the sink knows; called on a stream's fenced sinks when a run starts.

        The runner aborts those that are pending, unless it will publish them. Of those that are published, it logs the
        ones that its checkpoint does not contain. A sink that keeps no record of its commits returns none.

        Args:
            run_id: the id with which the ids of the run's commits begin; others may begin with it too.
        """
        del run_id
        return KnownCommits()

    @abc.abstractmethod
    def open(self, commit_id: str, task_id: str) -> SinkWriter:
        """Return a writer for one task's part of one commit."""

    def open_weak(self, commit_id: str, part: str) -> SinkWriter | None:
        """Return a writer whose `close` publishes its part of a micro-batch immediately; `None` if that is impossible.

        This is used with `productions="weak"`. The micro-batch may fail afterwards and is then repeated with the same
        parts, so output under the same commit id and part should replace what is already published.

        Args:
            commit_id: the id of the micro-batch.
            part: the name of the part.
        """
        del commit_id, part
        return None

    def records(self, messages: Sequence[bytes]) -> list[Record]:
        """Return the records of one commit in emission order, if the messages contain them."""
        del messages
        return []

    def count_records(self, messages: Sequence[bytes]) -> int:
        """Return the number of `records`."""
        return len(self.records(messages))

    def packed_records(self, messages: Sequence[bytes]) -> Sequence[KeptRecords]:
        """Return the `records` in the form in which the runner keeps them, in any order."""
        records = self.records(messages)
        return [KeptRecords.of([RecordColumns.of(records)])] if records else []

    @abc.abstractmethod
    def commit(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Publish the output of the tasks."""

    def forget(self, commit_id: str) -> None:  # noqa: B027 - most sinks remember no commits
        """Forget a published commit that will not be repeated: that of a bounded run, which commits once.

        It is not called for a stream. A sink that remembers the commits of a stream must recognise the last one of a
        run, and may forget those before it: they are published in the order of their numbers.
        """

    @abc.abstractmethod
    def abort(self, commit_id: str, messages: Sequence[bytes]) -> None:
        """Remove the output of the tasks."""
