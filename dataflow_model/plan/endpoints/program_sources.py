"""Sources that the program holds: the elements of `Create`, and Spark's DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from dataflow_model.plan.columns.time_units import TimeUnit, checked_unit
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.sources import RowSource, Source
from dataflow_model.plan.watermarks.estimators import (
    ARRIVAL,
    Arrival,
    BoundedOutOfOrderness,
    WatermarkEstimator,
)
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.time import Duration, EventTime

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa


@attrs.frozen(eq=False)
class ElementsSource(Source):
    """Elements that the program holds: the source of `Create`.

    Attributes:
        elements: the values.
        event_times: one per value, or `None` if all are at `MIN_TIMESTAMP`.
    """

    elements: tuple[Any, ...]
    event_times: tuple[EventTime, ...] | None = None

    @property
    def feature(self) -> Feature:
        """The feature `ELEMENTS`."""
        return Feature.ELEMENTS

    @property
    def as_elements(self) -> ElementsSource:
        """The source itself."""
        return self

    def row_count(self) -> int:
        """Return the number of elements."""
        return len(self.elements)

    def in_rounds(self) -> Source:
        """Return the source unchanged, since it ends at the first tick."""
        return self

    def describe(self) -> str:
        """Return the number of elements."""
        count = len(self.elements)
        return f"{count} element{'' if count == 1 else 's'} from the program"


@attrs.frozen(eq=False)
class DataFrameSource(RowSource):
    """Rows of the user's Spark DataFrame, batch or streaming; only Spark runners support it.

    Attributes:
        columns: the columns as they reach the workers.
        origin, sequence: the columns with a row's origin and its position there, or `None`.
    """

    dataframe: Any
    columns: pa.Schema | None = attrs.field(default=None, kw_only=True)
    event_time: str | Arrival | None = ARRIVAL
    processing_time: str | None = None
    watermark: WatermarkEstimator = BoundedOutOfOrderness(Duration(0))
    is_bounded: bool = True
    origin: str | None = None
    sequence: str | None = None
    watermark_origins: WatermarkOrigins = EVERYTHING
    id_columns: tuple[str, ...] = ()
    event_time_unit: TimeUnit | None = attrs.field(default=None, converter=checked_unit)

    @property
    def feature(self) -> Feature:
        """The feature of a batch or a streaming DataFrame."""
        return Feature.DATAFRAMES if self.is_bounded else Feature.STREAMING_DATAFRAMES

    @property
    def as_dataframe(self) -> DataFrameSource:
        """The source itself."""
        return self

    @property
    def names_records(self) -> bool:
        """Whether columns identify each row, since rows of a DataFrame have no positions."""
        return bool(self.id_columns)

    @property
    def may_be_added(self) -> bool:
        """Whether the DataFrame is bounded: Spark does not resume a query with another streaming source."""
        return self.is_bounded

    def known_columns(self) -> Sequence[str]:
        """Return the DataFrame's columns."""
        names: list[str] = self.dataframe.columns
        return names

    def stated_columns(self) -> pa.Schema | None:
        """Return the columns of a streaming DataFrame; the rows of another one are kept in the checkpoint."""
        return None if self.is_bounded else self.columns

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the DataFrame, which is a handle that only the driver can use."""
        rest = (self.event_time, self.processing_time, self.watermark, self.is_bounded, self.origin, self.sequence)
        return type(self), (None, *rest, self.watermark_origins, self.id_columns, self.event_time_unit)
