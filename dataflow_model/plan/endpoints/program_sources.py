"""Sources that the program holds: the elements of `Create`, and Spark's DataFrames."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import hashlib
import numbers
from typing import TYPE_CHECKING, Any, Final

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
from dataflow_model.time import Duration, EventTime, Instant

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_PLAIN: Final = (
    str,
    bytes,
    numbers.Number,
    decimal.Decimal,
    enum.Enum,
    dt.date,
    dt.time,
    dt.timedelta,
    Instant,
    Duration,
    type(None),
)
"""Values whose `repr` says all about them."""


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

    def digest(self) -> str:
        """Return what differs for other elements or event times, and is the same in each process.

        Of a value that is neither plain nor made of plain ones, only the class counts: what its `repr` says may differ
        at every start.

        Example:
            >>> ElementsSource((("a", {"x", "y"}),)).digest() == ElementsSource((("a", {"y", "x"}),)).digest()
            True
        """
        times = None if self.event_times is None else [*map(int, self.event_times)]
        return hashlib.sha256(f"{_text(self.elements)}{times}".encode("utf-8", "surrogatepass")).hexdigest()[:12]

    def in_rounds(self) -> Source:
        """Return the source unchanged, since it ends at the first tick."""
        return self

    def describe(self) -> str:
        """Return the number of elements."""
        count = len(self.elements)
        return f"{count} element{'' if count == 1 else 's'} from the program"


def _text(value: Any) -> str:
    """Return text that is equal for equal plain values."""
    kind = type(value).__qualname__
    if isinstance(value, _PLAIN):
        return f"{kind}:{value!r}"
    if isinstance(value, list | tuple):
        return f"{kind}({','.join(map(_text, value))})"
    if isinstance(value, set | frozenset):
        return f"{kind}({','.join(sorted(map(_text, value)))})"
    if isinstance(value, dict):
        return f"{kind}({','.join(f'{_text(key)}={_text(inner)}' for key, inner in value.items())})"
    fields = [field.name for field in attrs.fields(type(value))] if attrs.has(type(value)) else None
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = [field.name for field in dataclasses.fields(value)]
    return kind if fields is None else f"{kind}({','.join(_text(getattr(value, name, None)) for name in fields)})"


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
