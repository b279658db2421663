"""Bounded rows in memory that arrive at one tick or are replayed, and runs of them in parts of any size."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pyarrow as pa
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.origins import Origin
from dataflow_model.plan.watermarks.estimators import AdaptiveLateness
from dataflow_model.plan.watermarks.origins import EVERYTHING, WatermarkOrigins
from dataflow_model.runners.engine.bounded import files, rows
from dataflow_model.runners.engine.bounded.execution import Execution
from tests.support.laws.dropping import taking_dropped
from tests.support.upgrade.pipelines import Quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.strategy import WindowingStrategy
    from dataflow_model.plan.watermarks.estimators import Arrival
    from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
    from dataflow_model.runners.engine.sources.timeline import Timeline

__all__ = [
    "COMBINERS",
    "SIZES",
    "WHOLE",
    "HeldRows",
    "SortedRows",
    "check",
    "grouping_twice",
    "held_by_chunks",
    "held_rows",
    "keeping",
    "keyed",
    "merging",
    "most_held",
    "open_at_a_time",
    "ran",
    "replayed_rows",
]

WHOLE = 1_000_000
"""A size of parts that none of these inputs has."""
SIZES = st.integers(1, 9)
COMBINERS = st.sampled_from([dm.Sum, dm.Count, dm.Mean, dm.Min, dm.Max])
_COUNTED = frozenset({"bundle_size", "bloom_hits", "bloom_false"})
"""What counts how the input is cut."""
_BEHIND = dm.BoundedOutOfOrderness("2 seconds")
_IDLE = WatermarkOrigins("file", idle_after=dm.duration(5))
Row = tuple[Any, ...]


@attrs.frozen(kw_only=True, eq=False)
class HeldRows(ColumnSource):
    """Rows of some origins, read in batches of three.

    Attributes:
        rows: event time, key and value of each row, by origin; and the replay clock, if there is one.
        kind: the type of the values.
    """

    is_typed: ClassVar[bool] = True
    rows: Mapping[str, list[Row]]
    kind: pa.DataType
    event_time: str | Arrival | None = "at"
    processing_time: str | None = None
    watermark: Any = _BEHIND
    watermark_origins: WatermarkOrigins = EVERYTHING

    def origins(self) -> list[Origin]:
        return [Origin(name, len(rows)) for name, rows in sorted(self.rows.items())]

    def read(self, origin: str, start: int, stop: int | None) -> Iterator[pa.RecordBatch]:
        rows = self.rows[origin][start:stop]
        for first in range(0, len(rows), 3):
            columns = zip(*rows[first : first + 3], strict=True)
            arrays = [pa.array(list(column), field.type) for column, field in zip(columns, self.schema(), strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self.schema())

    def schema(self) -> pa.Schema:
        columns = {"at": pa.timestamp("us"), "key": pa.string(), "value": self.kind}
        clock = {} if self.processing_time is None else {self.processing_time: pa.timestamp("us")}
        return pa.schema(columns | clock)


@attrs.frozen(kw_only=True, eq=False)
class SortedRows(HeldRows):
    """Rows in the order of their replay clock."""

    sorted_by_clock: ClassVar[bool] = True


@st.composite
def held_rows(draw: st.DrawFn, *, floats: bool | None = None) -> HeldRows:
    """Draw rows of one to three origins, in any order, with whole numbers or floats."""
    is_float = draw(st.booleans()) if floats is None else floats
    values: st.SearchStrategy[Any] = st.integers(-9, 9)
    if is_float:
        values = st.floats(-1e9, 1e9, width=32) | st.sampled_from([0.1, 1e16, -1e16, -0.0])
    keys = st.sampled_from(["a", "b", "aa", None])
    row = st.tuples(st.integers(0, 30).map(lambda second: second * 1_000_000), keys, values)
    origins = draw(st.dictionaries(st.sampled_from(["2", "10", "b"]), st.lists(row, max_size=12), min_size=1))
    estimators = [_BEHIND, dm.Monotonic(), AdaptiveLateness(0.1)]
    by = draw(st.sampled_from([EVERYTHING, WatermarkOrigins("file"), WatermarkOrigins("key")]))
    kind = pa.float64() if is_float else pa.int64()
    return HeldRows(rows=origins, kind=kind, watermark=draw(st.sampled_from(estimators)), watermark_origins=by)


@st.composite
def replayed_rows(draw: st.DrawFn) -> HeldRows:
    """Draw rows that were seen some seconds after they happened, or before; in the order of the clock, or in any."""
    drawn = draw(held_rows(floats=False))
    in_order = draw(st.booleans())
    lags = st.integers(-2, 20).map(lambda second: second * 1_000_000)
    seen = {name: [(*row, row[0] + draw(lags)) for row in rows] for name, rows in drawn.rows.items()}
    if in_order:
        seen = {name: sorted(rows, key=lambda row: row[-1]) for name, rows in seen.items()}
    return (SortedRows if in_order else HeldRows)(
        rows=seen,
        kind=drawn.kind,
        processing_time="seen",
        watermark=drawn.watermark,
        watermark_origins=draw(st.sampled_from([drawn.watermark_origins, _IDLE])),
    )


def ran(
    build: Callable[[dm.Pipeline], Any], size: int, *, takes_dropped: bool = False
) -> tuple[dict[str, list[Record]], Any, Any]:
    """Run a pipeline in parts of so many rows; return the records of each sink, the counters and the watermarks.

    Args:
        build: adds the transforms to the pipeline.
        size: the size of a part.
        takes_dropped: whether the records that each grouping drops are collected too.
    """
    pipeline = dm.Pipeline()
    build(pipeline)
    plan = taking_dropped(pipeline.plan()) if takes_dropped else pipeline.plan()
    execution = Execution.of(plan, 60_000_000, rows=size)
    records: dict[str, list[Record]] = {}
    for reached in execution.run():
        for sink, chunk in reached.items():
            records.setdefault(sink, []).extend(chunk)
    counted = {
        label: {name: count for name, count in counters.items() if name not in _COUNTED}
        for label, counters in execution.metrics().items()
    }
    return {sink: of_sink for sink, of_sink in sorted(records.items()) if of_sink}, counted, execution.watermarks


def check(build: Callable[[dm.Pipeline], Any], size: int, **options: bool) -> None:
    """Check that a run in parts of a size has the records, counters and watermarks of a run in one part."""
    records, counters, watermarks = ran(build, size, **options)
    expected, counters_of_whole, watermarks_of_whole = ran(build, WHOLE, **options)
    assert repr(records) == repr(expected)  # which tells -0.0 from 0.0
    assert counters == counters_of_whole
    assert watermarks == watermarks_of_whole


def keyed(p: dm.Pipeline, source: HeldRows, label: str = "rows") -> Any:
    """Return the rows of a source as pairs."""
    return p | label >> dm.Read(source) | f"{label} by key" >> dm.WithKeys("key", value="value")


def keeping(p: dm.Pipeline, source: HeldRows, modulus: int) -> None:
    """Add a stateful function with timers, transforms that keep ids, and one that keeps its outputs."""
    pairs = keyed(p, source)
    _ = pairs | "quiet" >> dm.ParDo(Quiet()) | "all quiet" >> dm.io.Collect()
    once = pairs | "once" >> dm.Deduplicate(lambda pair: pair[1] % modulus, horizon="1 hour")
    sessions = dm.Window.into(dm.Sessions(3)).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))
    counts = once | sessions.accumulating_and_retracting() | "counts" >> dm.Count.per_key()
    swapped = counts | dm.Map(lambda pair: (pair[1], pair[0])).retractable("memoised")
    _ = swapped | "by count" >> dm.Count.per_key() | "all by count" >> dm.io.Collect()


def grouping_twice(p: dm.Pipeline, source: HeldRows, windowing: WindowingStrategy, combiner: Any) -> None:
    """Add two groupings in sequence."""
    first = keyed(p, source) | dm.Window.into(windowing) | "first" >> combiner.per_key()
    _ = first | "all firsts" >> dm.io.Collect()
    _ = first | "seconds" >> dm.Count.per_key() | "all seconds" >> dm.io.Collect()


def merging(p: dm.Pipeline, left: HeldRows, right: HeldRows, windowing: WindowingStrategy) -> None:
    """Add transforms whose results show the order of the elements of several sources."""
    created = p | "middle" >> dm.Create([("a", 5), ("b", 6)])
    both = (keyed(p, right, "right"), created, keyed(p, left, "left")) | dm.Flatten()
    groups = both | dm.Window.into(windowing) | dm.GroupByKey()
    _ = groups | "groups" >> dm.io.Collect()
    _ = both | "shuffled" >> dm.Reshuffle() | "elements" >> dm.io.Collect()


@contextlib.contextmanager
def open_at_a_time(count: int) -> Iterator[None]:
    """Let runs keep at most so many origins open."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "_MOST_OPEN", count)
        yield


def held_by_chunks(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of elements of each chunk of the runs that follow."""
    held: list[int] = []
    take_arrivals = files.RowReader.arrivals

    def arrivals(reader: files.RowReader, timeline: Timeline, *, is_last: bool = True) -> dict[str, PlacedBundle]:
        held.append(reader.waiting)
        return take_arrivals(reader, timeline, is_last=is_last)

    monkeypatch.setattr(files.RowReader, "arrivals", arrivals)
    return held


def most_held(source: HeldRows) -> int:
    """Return the greatest number of rows that a run in parts of six rows has read and not run."""
    with pytest.MonkeyPatch.context() as patch:
        held = held_by_chunks(patch)
        ran(lambda p: keyed(p, source) | dm.Window.into(dm.FixedWindows(10)) | dm.Count.per_key() | dm.io.Collect(), 6)
    return max(held)
