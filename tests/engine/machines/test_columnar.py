"""A lifted grouping gives what the general path gives: panes, their order, counters and watermarks."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.functions.kernels import Kernel, kernel_of
from dataflow_model.plan.logical.nodes import GroupByKeyAndWindow, Ref
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.plan.logical.strategy import WindowingStrategy
from dataflow_model.plan.rewrites.lifting import Lift, lifts
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import Chunk, Instants, PlacedBundle
from dataflow_model.runners.engine.lanes.ipc import from_ipc, to_ipc
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals
from dataflow_model.runners.engine.lanes.order import of_rows
from dataflow_model.runners.engine.lanes.pane_tables import PaneRecords, PaneTable
from dataflow_model.runners.engine.lanes.value_lanes import Pairs
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.lifted.chunks import chunk_partials
from dataflow_model.runners.engine.machines.columnar import ColumnarMachine
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime
from dataflow_model.values import encode_key
from tests.support.reference.feeding import feed_pairs
from tests.support.reference.grouping import GroupingEngine

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from dataflow_model.plan.functions.combine import CombineFn
    from dataflow_model.values import Window


@attrs.frozen
class TwoLengths(dm.WindowFn):
    """A user's window function: every element is in 10 seconds and in the 20 seconds that begin with them."""

    def assign(self, event_time: EventTime, element: Any) -> list[dm.IntervalWindow]:
        del element
        time = min(int(event_time), FAR - 1)
        start = time - time % (10 * SECOND)
        ends = [min(start + 10 * SECOND, FAR), min(start + 20 * SECOND, FAR)]
        first = EventTime(max(start, int(MIN_TIMESTAMP)))
        return [dm.IntervalWindow(first, EventTime(end)) for end in ends]

    def assign_many(
        self, event_times: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        rows = np.repeat(np.arange(len(event_times)), 2)
        starts = (event_times - event_times % (10 * SECOND))[rows]
        return rows, starts, starts + np.tile([10 * SECOND, 20 * SECOND], len(event_times))


@attrs.frozen
class UnevenSessions(dm.WindowFn):
    """A user's sessions: an event in an even second is followed by a gap of 5 seconds, any other by one of 9."""

    is_merging: ClassVar[bool] = True
    merges_intersecting: ClassVar[bool] = True

    def assign(self, event_time: EventTime, element: Any) -> list[dm.IntervalWindow]:
        del element
        time = min(int(event_time), FAR - 1)
        gap = 5 if time // SECOND % 2 == 0 else 9
        return [dm.IntervalWindow(EventTime(time), EventTime(min(time + gap * SECOND, FAR)))]

    def assign_many(self, event_times: NDArray[np.int64]) -> tuple[None, NDArray[np.int64], NDArray[np.int64]]:
        gaps = np.where(event_times // SECOND % 2 == 0, 5, 9) * SECOND
        return None, event_times, event_times + gaps

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        return dm.Sessions(1).merge(windows)


COMBINERS: list[CombineFn[Any, Any, Any]] = [dm.Sum(), dm.Count(), dm.Mean(), dm.Min(), dm.Max()]
WINDOWS: list[dm.WindowFn] = [
    dm.FixedWindows(10),
    dm.FixedWindows(7, offset=3),
    dm.SlidingWindows(10, 4),
    dm.SlidingWindows(3, 5),
    dm.CalendarWindows.days(),
    TwoLengths(),
]
TRIGGERS = [dm.DefaultTrigger(), dm.AfterWatermark()]
FAR = int(MAX_TIMESTAMP)
SECOND = 1_000_000


@attrs.frozen
class Part:
    """Rows of one chunk in one micro-batch, and the watermark behind them."""

    keys: pa.Array
    values: pa.Array
    times: list[int]
    watermark: int


@attrs.frozen
class Answer:
    """All that a grouping tells."""

    elements: list[tuple[Any, ...]]
    counters: dict[str, int]
    watermark: int


def elements_of(part: Part, window_fn: dm.WindowFn) -> Bundle:
    """Return the rows as the general path takes them."""
    pairs = list(zip(part.keys.to_pylist(), part.values.to_pylist(), strict=True))
    bundle = Bundle.fresh(pairs, part.times, of_rows("origin", range(len(pairs))), 0)
    bundle.windows = [
        tuple(window_fn.assign(EventTime(time), pair)) for time, pair in zip(part.times, pairs, strict=True)
    ]
    return bundle


def answer_of(bundles: list[Bundle], counters: dict[str, int], watermark: int) -> Answer:
    """Sort what has come by its place in each instant, and leave out counters that are 0."""
    rows = [
        sorted(
            zip(bundle.orders, bundle.values, bundle.times, bundle.windows, bundle.panes, bundle.produced, strict=True),
            key=lambda row: row[0],
        )
        for bundle in bundles
    ]
    nonzero = {name: count for name, count in counters.items() if count}
    return Answer([(*row, type(row[1][1])) for rows_of_bundle in rows for row in rows_of_bundle], nonzero, watermark)


def node_of(window_fn: dm.WindowFn, trigger: dm.Trigger, combine: CombineFn[Any, Any, Any]) -> GroupByKeyAndWindow:
    """Return a grouping."""
    strategy = WindowingStrategy(window_fn=window_fn, trigger=trigger, may_lose_data=True)
    return GroupByKeyAndWindow(label="group", input=Ref("read"), strategy=strategy, combine=combine)


def generally(node: GroupByKeyAndWindow, parts: list[Part]) -> Answer:
    """Run micro-batches through the general path."""
    engine = GroupingEngine(node)
    bundles = []
    for tick, part in enumerate(parts, 1):
        engine.advance_clock(tick)
        feed_pairs(engine, elements_of(part, node.strategy.window_fn))
        engine.advance_watermarks(Watermarks(part.watermark))
        engine.leave_instant()
        bundles.append(engine.take_output())
    return answer_of(bundles, engine.counters, engine.output_watermarks().low)


def in_columns(node: GroupByKeyAndWindow, parts: list[Part], *, restarts: Callable[[int], bool]) -> Answer:
    """Run micro-batches through the columnar path; it restarts from its deltas where `restarts` says so."""
    lift = Lift("group", "read", "key", "value", kernel_of(type(node.combine)) or Kernel.SUM)
    engine = ColumnarMachine(node, lift)
    durable: dict[bytes, Any] = {}
    bundles = []
    for tick, part in enumerate(parts, 1):
        engine.advance_clock(tick)
        feed(engine, node, part)
        engine.advance_watermarks(Watermarks(part.watermark))
        bundles.append(rows_of(engine))
        engine.output_watermarks()
        durable.update(engine.settle())
        if restarts(tick):
            before, engine = engine, ColumnarMachine(node, lift)
            engine.apply(durable)
            engine.set_clocks(**before.clocks())
            engine.counters = before.counters
    return answer_of(bundles, engine.counters, engine.output_watermarks().low)


def feed(engine: ColumnarMachine, node: GroupByKeyAndWindow, part: Part) -> None:
    """Give a chunk to the engine, in columns if it can be."""
    batch = pa.record_batch({"key": part.keys, "value": part.values})
    times = np.array(part.times, np.int64)
    table = chunk_partials(engine.lift, node.strategy.window_fn, batch, times) if part.times else None
    if table is None:
        engine.fold(elements_of(part, node.strategy.window_fn))
    else:
        engine.absorb(from_ipc(to_ipc(table)), len(part.times))


def rows_of(engine: ColumnarMachine) -> Bundle:
    """Return the panes of one instant as elements."""
    bundle = Bundle()
    for panes in engine.take_panes():
        bundle.extend(panes.bundle() if isinstance(panes, PaneTable) else panes)
    return bundle


HALVES = st.integers(-6, 6).map(lambda number: number / 2)  # their sums are exact in any order
VALUE_COLUMNS = [
    (pa.int64(), st.integers(-9, 9)),
    (pa.int64(), st.sampled_from([2**62, 2**62 - 1, 1])),  # sums leave 64 bits
    (pa.float64(), HALVES),
    (pa.float64(), st.one_of(HALVES, st.just(float("nan")))),
]


@st.composite
def micro_batches(draw: st.DrawFn, *, edges: bool = True) -> list[Part]:
    """Draw what a shard is given: some chunks of rows, each followed by a watermark."""
    kind, keys = draw(
        st.sampled_from(
            [
                (pa.int64(), st.sampled_from([1, 2, -3, None])),
                (pa.string(), st.sampled_from(["UA", "B6", ""])),
                (pa.float64(), st.sampled_from([0.0, -0.0, 1.5])),
            ]
        )
    )
    value_kind, values = draw(st.sampled_from(VALUE_COLUMNS))
    times = st.integers(-15, 45).map(lambda second: second * SECOND)
    if edges:
        times = st.one_of(times, times, times, st.sampled_from([int(MIN_TIMESTAMP), FAR - 1, FAR]))
    parts = []
    watermark = int(MIN_TIMESTAMP)
    for _ in range(draw(st.integers(1, 12))):
        rows = draw(st.lists(st.tuples(keys, values, times), max_size=12))
        watermark = max(watermark, draw(st.integers(-20, 50)) * SECOND)
        parts.append(
            Part(
                pa.array([row[0] for row in rows], kind),
                pa.array([row[1] for row in rows], value_kind),
                [row[2] for row in rows],
                watermark,
            )
        )
    nothing = Part(pa.array([], kind), pa.array([], value_kind), [], FAR)
    return [*parts, nothing]


def without_nan(answer: Answer) -> Answer:
    """Make NaN equal to itself."""
    return attrs.evolve(answer, elements=[tuple(map(_pair, row)) for row in answer.elements])


def _pair(part: Any) -> Any:
    is_nan = isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], float) and math.isnan(part[1])
    return (part[0], "NaN") if is_nan else part


@given(
    micro_batches(),
    st.sampled_from(WINDOWS),
    st.sampled_from(TRIGGERS),
    st.sampled_from(COMBINERS),
    st.integers(1, 4),
)
def test_micro_batches_give_the_panes_of_the_general_path(
    parts: list[Part], window_fn: dm.WindowFn, trigger: dm.Trigger, combine: CombineFn[Any, Any, Any], period: int
) -> None:
    node = node_of(window_fn, trigger, combine)
    actual = in_columns(node, parts, restarts=lambda tick: tick % period == 0)
    assert without_nan(actual) == without_nan(generally(node, parts))


@given(
    micro_batches(),
    st.sampled_from([*WINDOWS, dm.Sessions(5), dm.GlobalWindows(), UnevenSessions()]),
    st.sampled_from(TRIGGERS),
    st.sampled_from(COMBINERS),
)
def test_bounded_input_gives_the_panes_of_the_general_path(
    parts: list[Part], window_fn: dm.WindowFn, trigger: dm.Trigger, combine: CombineFn[Any, Any, Any]
) -> None:
    node = node_of(window_fn, trigger, combine)
    columnar = ColumnarMachine(
        node, Lift("group", "read", "key", "value", kernel_of(type(combine)) or Kernel.SUM), is_bounded=True
    )
    for part in parts:
        feed(columnar, node, part)
    columnar.advance_watermarks(Watermarks(FAR))
    actual = answer_of([rows_of(columnar)], columnar.counters, FAR)
    assert without_nan(actual) == without_nan(bounded(node, parts))


def bounded(node: GroupByKeyAndWindow, parts: list[Part]) -> Answer:
    """Run keys one after the other, in event-time order, the watermark following."""
    inbox = Bundle()
    for part in parts:
        inbox.extend(elements_of(part, node.strategy.window_fn))
    engine = GroupingEngine(node)
    encoded = [encode_key(value[0]) for value in inbox.values]
    never = int(MIN_TIMESTAMP)
    for key in sorted(set(encoded)):
        engine.set_clocks(watermark=never, clock=never)
        rows = [row for row, other in enumerate(encoded) if other == key]
        feed_pairs(engine, inbox.take(sorted(rows, key=inbox.times.__getitem__)), follow=True)
        engine.advance_watermarks(Watermarks(FAR))
    return answer_of([engine.take_output()], engine.counters, FAR)


@pytest.mark.parametrize("fn", [TwoLengths(), UnevenSessions(), dm.CalendarWindows.days()], ids=repr)
def test_a_window_function_that_assigns_columns_is_lifted_whoever_wrote_it(fn: dm.WindowFn, tmp_path: Path) -> None:
    pq.write_table(pa.table({"at": [5], "carrier": ["UA"], "delay": [3]}), tmp_path / "a.parquet")
    p = dm.Pipeline()
    rows = p | dm.io.ReadParquet(str(tmp_path), event_time="at") | dm.Window.into(fn)
    _ = rows | dm.WithKeys("carrier", value="delay") | "sums" >> dm.Sum.per_key()
    assert list(lifts(cut_into_stages(p.plan()), streaming=False)) == ["sums"]
    assert bool(lifts(cut_into_stages(p.plan()), streaming=True)) is not fn.is_merging


def test_a_subclass_with_an_assign_of_its_own_does_not_inherit_the_columns_of_another() -> None:
    class Rounded(dm.FixedWindows):
        def assign(self, event_time: EventTime, element: Any) -> tuple[dm.IntervalWindow]:
            return super().assign(EventTime(int(event_time) + SECOND), element)

    assert dm.FixedWindows(10).assigns_columns
    assert not Rounded(10).assigns_columns
    assert Rounded(10).length is None


@given(
    st.lists(st.tuples(st.integers(0, 39), st.integers(0, 4)), max_size=8),
    st.lists(st.integers(-1, 45), min_size=5, max_size=5).map(sorted),
    st.integers(-1, 15),
)
@example([(5, 0), (6, 2)], [-1, 10, 10, 10, 10], -1)  # one window, whose end the watermark passes between them
def test_elements_of_a_chunk_are_dropped_by_the_watermark_of_their_own_instant(
    rows: list[tuple[int, int]], reached: list[int], watermark: int
) -> None:
    rows.sort(key=lambda row: row[1])
    reached = [max(watermark, low) for low in reached]
    node = node_of(dm.FixedWindows(dm.Duration(micros=10)), dm.DefaultTrigger(), dm.Sum())

    def run(chunks: Iterable[Chunk]) -> tuple[list[str], Counter[str]]:
        engine = ColumnarMachine(node, Lift("group", "read", "key", "value", Kernel.SUM))
        engine.advance_watermarks(Watermarks(watermark))
        tables = [panes.table for chunk in chunks for _, panes in engine.run(chunk).panes]
        return sorted(str(pane) for table in tables for pane in table.to_pylist()), engine.counters

    def chunk(first: int, stop: int) -> Chunk:
        mine = [row for row, (_, index) in enumerate(rows) if first <= index < stop]
        times = np.array([rows[row][0] for row in mine], np.int64)
        ones = pa.chunked_array([np.ones(len(mine), np.int64)])
        bundle = Bundle.fresh(Pairs(ones, ones), Integers(times), of_rows("read", mine), 0)
        bundle.windows = Intervals(times - times % 10, times - times % 10 + 10)
        indices = Integers(np.array([rows[row][1] - first for row in mine], np.int64))
        count = stop - first
        watermarks = [Watermarks(low) for low in reached[first:stop]]
        return Chunk(Instants([0] * count, [True] * count), PlacedBundle(bundle, indices), watermarks)

    assert run([chunk(0, 5)]) == run(chunk(index, index + 1) for index in range(5))


def test_state_of_many_micro_batches_is_merged_into_one_part() -> None:
    node = node_of(dm.FixedWindows(1000), dm.DefaultTrigger(), dm.Sum())
    engine = ColumnarMachine(node, Lift("group", "read", "key", "value", Kernel.SUM))
    durable: dict[bytes, Any] = {}
    for second in range(20):
        feed(engine, node, Part(pa.array([7]), pa.array([second]), [second * SECOND], 0))
        durable.update(engine.settle())
    assert sum(entry is not None for entry in durable.values()) <= 9
    partials, _ = engine.state_size()
    assert partials <= 9


def test_records_of_panes_in_columns_are_created_on_access() -> None:
    table = pa.table({"key": ["UA"], "window_start": [0], "window_end": [10], "value": [3]})
    records = PaneRecords(PaneTable(table, 5, "DefaultTrigger()"), (1, 0), 0)
    assert len(records) == 1
    assert records[0].value == ("UA", 3)
    assert records[0].event_time == EventTime(9)
    assert records[0].order == (1, 0, 2, (10, 10, 0, b"", encode_key("UA")), 0, 0)
    assert list(records) == list(records[:])


def test_infinite_bounds_are_null_in_a_sinks_columns() -> None:
    table = pa.table(
        {"key": [1], "window_start": [int(MIN_TIMESTAMP)], "window_end": [FAR], "value": pa.array([3], pa.int64())}
    )
    columns = PaneTable(table, 5, "DefaultTrigger()").columns(panes=True)
    assert columns.to_pylist() == [
        {"key": 1, "value": 3, "window_start": None, "window_end": None, "pane_index": 0, "pane_timing": "ON_TIME"}
    ]


def test_an_element_that_the_combiner_refuses_is_named() -> None:
    node = node_of(dm.FixedWindows(10), dm.DefaultTrigger(), dm.Sum())
    engine = ColumnarMachine(node, Lift("group", "read", "key", "value", Kernel.SUM))
    with pytest.raises(dm.UserCodeError, match="group"):
        feed(engine, node, Part(pa.array(["UA"]), pa.array([None], pa.int64()), [0], 0))
