"""Sources as values, with everything that a runner needs to read them in process, in a Spark job or in a stream."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, ClassVar, Self

import attrs

from dataflow_model.errors import SourceError, shown
from dataflow_model.plan.columns.source_columns import BadRow, Columns, DecodedRows, decode_columns, split_columns
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.functions.dofn import DeadLetter
from dataflow_model.plan.watermarks.estimators import (
    Arrival,
    AtTheEnd,
    BoundedOutOfOrderness,
    WatermarkEstimator,
)
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.time import Duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from dataflow_model.plan.columns.inferred_columns import ColumnRecord
    from dataflow_model.plan.columns.time_units import TimeUnit
    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.endpoints.program_sources import DataFrameSource, ElementsSource
    from dataflow_model.plan.endpoints.scripts import ScriptSource


class Source(abc.ABC):  # noqa: B024 - what a subclass must define depends on how it is read
    """The origin of a collection. To write your own source, subclass `ColumnSource`.

    Sources are values: they can be pickled, and reading a source twice returns the same rows. One of the properties
    `as_columns`, `as_elements`, `as_script` and `as_dataframe` declares how a source is read; runners check these
    properties, never the class.

    Attributes:
        is_bounded: whether the source ends; an unbounded source is polled for new data.
        event_time: the name of a column, `ARRIVAL`, or `None` if the source provides event times itself.
        processing_time: the column of the replay clock, or `None` for the wall clock.
        watermark: the watermark estimator.
        watermark_origins: the parts of the source that each have a watermark.
        id_columns: the columns that together identify a row; empty if its origin and position do.
        gives_rows: whether the elements are rows with named columns.
    """

    event_time: str | Arrival | None = None
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(Duration(0))
    watermark_origins: WatermarkOrigins = EVERYTHING
    is_bounded: bool = True
    id_columns: tuple[str, ...] = ()
    gives_rows: ClassVar[bool] = False

    @property
    def feature(self) -> Feature:
        """The feature that a runner must support to read the source."""
        return Feature.OTHER_SOURCES

    @property
    def as_columns(self) -> ColumnSource | None:
        """The source, if workers read it by ranges of rows; else `None`."""
        return None

    @property
    def as_elements(self) -> ElementsSource | None:
        """The source, if the program holds its elements, which all arrive at the first tick; else `None`."""
        return None

    @property
    def as_script(self) -> ScriptSource | None:
        """The source, if it is a script, which sets the clock and the watermark itself; else `None`."""
        return None

    @property
    def shared_paths(self) -> tuple[str, ...]:
        """Paths that workers must be able to read, which Spark's executors are asked for when a run starts."""
        return ()

    @property
    def as_dataframe(self) -> DataFrameSource | None:
        """The source, if Spark reads it as a DataFrame; else `None`."""
        return None

    @property
    def contents(self) -> str:
        """What `explain()` calls the source."""
        return type(self).__name__

    @property
    def has_own_clock(self) -> bool:
        """Whether the data determine the clock."""
        return self.processing_time is not None

    @property
    def changes(self) -> bool:
        """Whether the contents of the source change during a run."""
        return not self.is_bounded

    @property
    def names_records(self) -> bool:
        """Whether each record has an id: its position, or the values of `id_columns`."""
        return True

    @property
    def opens_empty(self) -> bool:
        """Whether a side input of its rows is known from the first watermark on, even if there are none."""
        return False

    @property
    def may_be_added(self) -> bool:
        """Whether a run can be resumed with this source added."""
        return True

    def follows(self, directory: str) -> bool:
        """Return whether it would read files that a sink of the same stream writes to a directory."""
        del directory
        return False

    def bound(self) -> Self:
        """Return the source with everything that the driver can determine now, such as the schema, stored in it.

        Raises:
            InvalidArgument: if a time column does not exist.
            SourceError: if the data cannot be read.
        """
        return self

    def definition(self) -> str:
        """Return what else its position depends on: a checkpoint of a source with another definition is rejected."""
        return ""

    def stated_columns(self) -> pa.Schema | None:
        """Return the columns if the program states them; a checkpoint continues only with the same ones."""
        return None

    def recorded_in(self, record: ColumnRecord) -> Self:
        """Return the source with the columns that the run has recorded, if it infers them from its data.

        Args:
            record: the record of the run. If it is empty, the source records the columns as soon as it knows them.
        """
        del record
        return self

    def size(self) -> int:
        """Return the number of bytes to read, or 0 if it is not known; runs on the driver."""
        return 0

    def row_count(self) -> int | None:
        """Return the number of rows to read, or `None` if it is not known; runs on the driver."""
        return None

    def known_columns(self) -> Sequence[str]:
        """Return the names of the columns, if they are known without reading anything."""
        return ()

    def for_bounded_run(self) -> Source:
        """Return the source for a run that ends with its input."""
        return self

    def in_rounds(self) -> Source:
        """Return the source for micro-batch rounds, in which the watermark advances only at the end of the input."""
        assert attrs.has(type(self))  # noqa: S101 - sources are values
        return attrs.evolve(self, watermark=AtTheEnd())  # type: ignore[misc]

    def describe(self) -> str:
        """Return what `explain()` says about the source."""
        clock = "" if self.processing_time is None else f", replayed by the clock in {self.processing_time!r}"
        time = "" if self.event_time is None else f", event time {self.event_time!r}, watermark {self.watermark!r}"
        origins = self.watermark_origins.describe()
        return f"{self.contents}{time}{', ' if origins else ''}{origins}{clock}"


class RowSource(Source):
    """A source of rows in Arrow batches; the rows become named tuples of the columns, in the columns' order."""

    gives_rows: ClassVar[bool] = True
    event_time_unit: TimeUnit | None = None
    """The unit of whole numbers in the time columns; microseconds by default."""

    def columns_of(self, batch: pa.RecordBatch) -> Columns:
        """Split a batch from `read` into columns, event times and clock, without creating a Python object per row."""
        return split_columns(batch, self.event_time, self.processing_time, self.event_time_unit)

    def decode(self, batch: pa.RecordBatch) -> DecodedRows:
        """Turn a batch from `read` into named tuples with event times and clock, with the bad rows separate."""
        return decode_columns(self.columns_of(batch))

    def dead_letter(self, label: str, origin: str, start: int, bad: BadRow) -> DeadLetter:
        """Return a bad row as an element of the dead-letter output.

        Args:
            label: the full label of the read.
            origin: where the batch was read from.
            start: the row of the origin at which the batch starts.
            bad: the bad row.
        """
        return DeadLetter(bad.row, label, f"{origin}, {self.where(origin, start + bad.index)}: {bad.reason}", "")

    def refusal(self, label: str, origin: str, start: int, bad: BadRow) -> SourceError:
        """Return the error that stops a run without a dead-letter output; the arguments are those of `dead_letter`."""
        problem = f"{label!r} cannot read {self.where(origin, start + bad.index)} of {origin}"
        row = shown(bad.row) if isinstance(bad.row, str) else repr(bad.row)
        return SourceError(f"{problem}: {bad.reason}; the row is {row}", hint=way_out_for(self, self.advice(bad)))

    def where(self, origin: str, row: int) -> str:
        """Return how messages call a row of an origin."""
        del origin
        return f"row {row}"

    def advice(self, bad: BadRow) -> str:
        """Return what the hint of an error suggests before it says what to do about any bad row."""
        del bad
        return ""


def way_out_for(source: Source, advice: str = "") -> str:
    """Return what the hint of an error suggests for the bad rows of a source, behind particular advice."""
    if not source.is_bounded and not source.shared_paths:
        return (
            f"{advice}send such rows to a separate output with .with_exception_handling() and start the run again, "
            "after dataflow-model upgrade if you add a sink for them"
        )
    if not source.is_bounded:
        return (
            f"{advice}send such rows to a separate output with .with_exception_handling() and start the run again, "
            "after dataflow-model upgrade if you add a sink for them; do not edit a file that has been read in part, "
            "since all of its rows would be read again"
        )
    return f"{advice}fix the row, or send such rows to a separate output with .with_exception_handling()"
