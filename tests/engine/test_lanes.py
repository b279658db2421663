"""Lanes read as the lists that they stand for, and functions give the same on them as on lists."""

from __future__ import annotations

import itertools
import operator
import pickle
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.columns.rows import named_row_type
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.engine.elementwise.fragments import Fragment
from dataflow_model.runners.engine.lanes.bundle import Bundle, all_joined
from dataflow_model.runners.engine.lanes.chunk import PlacedBundle
from dataflow_model.runners.engine.lanes.lanes import (
    Integers,
    Intervals,
    Lane,
    Repeated,
    joined,
    ranks_of,
    ranks_of_bytes,
    sliced,
    taken,
    windows_in_columns,
)
from dataflow_model.runners.engine.lanes.order import by_producer, numbered_by_cause, pass_stages, relayed, sorting
from dataflow_model.runners.engine.lanes.order_lanes import DeferredOrders, RowOrders
from dataflow_model.runners.engine.lanes.uniform import uniform
from dataflow_model.runners.engine.lanes.value_lanes import ColumnValues, Pairs, RowValues, in_columns
from dataflow_model.values import GLOBAL_WINDOW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hypothesis.strategies import DrawFn

_SMALL = st.integers(-3, 3)
_STRUCT = pa.struct({"n": pa.int64()})
_ROW = named_row_type((("n", "Any"),))


@st.composite
def lanes(draw: DrawFn, of: int | None = None) -> Lane[Any]:
    """Draw a lane of few items; `of` is which kind."""
    count = draw(st.integers(0, 6))
    numbers = np.array(draw(st.lists(_SMALL, min_size=count, max_size=count)), np.int64)
    others = np.array(draw(st.lists(_SMALL, min_size=count, max_size=count)), np.int64)
    kinds: list[Callable[[], Lane[Any]]] = [
        lambda: Repeated("a", count),
        lambda: Integers(numbers),
        lambda: Intervals(numbers, numbers + 5),
        lambda: Intervals.alike(numbers, numbers + 5),
        lambda: Intervals.alike(numbers, numbers + np.abs(others) + 1),
        lambda: Integers(uniform(count % 2, count)),
        lambda: RowValues(pa.table({"number": numbers, "other": others})),
        lambda: Pairs(pa.chunked_array([numbers]), pa.chunked_array([others])),
        lambda: Pairs(
            pa.chunked_array([numbers]), pa.chunked_array([pa.array([{"n": int(n)} for n in others], _STRUCT)]), _ROW
        ),
        lambda: _pairs([((n, str(m)), (m, 0.5)) for n, m in zip(numbers.tolist(), others.tolist(), strict=True)]),
        lambda: _pairs([(_ROW(number), 1) for number in numbers.tolist()]),
        lambda: ColumnValues(pa.chunked_array([numbers])),
        lambda: RowOrders.of_origin("origin", numbers),
        lambda: RowOrders(("b", "a"), np.abs(numbers) % 2, others).between((1,), (-1,)),
        lambda: _is_there(RowOrders.of_origin("origin", numbers).numbered(np.arange(count))),
        lambda: _is_there(RowOrders.of_origin("origin", numbers).numbered(range(count))),
        lambda: DeferredOrders(count, lambda: RowOrders.of_origin("origin", numbers)),
        lambda: DeferredOrders(count, lambda: list(zip(numbers.tolist(), others.tolist(), strict=True))).between(
            (1,), (-1,)
        ),
    ]
    return draw(st.sampled_from(kinds))() if of is None else kinds[of]()


def _pairs(pairs: list[Any]) -> Pairs:
    columns = in_columns([*pairs, pairs[0]] if pairs else [((0, ""), (0, 0.5))])
    assert isinstance(columns, Pairs)
    return columns.sliced(0, len(pairs))


def _is_there(orders: RowOrders | None) -> RowOrders:
    assert orders is not None
    return orders


@given(lanes(), st.data())
def test_a_lane_is_sliced_like_its_list(lane: Lane[Any], data: st.DataObject) -> None:
    items = list(lane)
    assert lane == items
    assert [lane[row] for row in range(-len(items), len(items))] == items * 2
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(items))] * 2)))
    assert sliced(lane, start, stop) == items[start:stop] == lane[start:stop]
    rows = data.draw(st.lists(st.integers(0, len(items) - 1))) if items else []
    assert taken(lane, rows) == [items[row] for row in rows] == taken(items, np.array(rows, np.int64))
    assert pickle.loads(pickle.dumps(sliced(lane, start, stop))) == items[start:stop]


@pytest.mark.parametrize("kind", [RowValues, Pairs, ColumnValues])
def test_the_pickle_of_a_slice_of_columns_contains_only_that_slice(kind: Any) -> None:
    column = pa.chunked_array([np.arange(100_000)])
    lane = {
        RowValues: RowValues(pa.table({"n": column})),
        Pairs: Pairs(column, column),
        ColumnValues: ColumnValues(column),
    }[kind]
    assert len(pickle.dumps(lane.sliced(5, 9))) < 2_000


@given(st.data())
def test_lanes_and_lists_are_concatenated_like_lists(data: st.DataObject) -> None:
    kind = data.draw(st.integers(0, 16))
    lane, others = data.draw(lanes(kind)), data.draw(st.lists(lanes(kind) | lanes(), max_size=3))
    items, further = list(lane), [list(other) for other in others]
    everything = list(itertools.chain(items, *further))
    assert joined(lane, *others) == everything
    assert joined(list(items), *others) == joined(lane, *further) == everything
    assert lane == items
    assert list(map(list, others)) == further


@given(st.lists(st.tuples(st.sampled_from("abc"), _SMALL, _SMALL), max_size=8), st.data())
def test_orders_in_columns_sort_and_change_like_tuples(rows: list[tuple[str, int, int]], data: st.DataObject) -> None:
    causes = sorted(data.draw(st.lists(st.integers(0, len(rows) - 1)))) if rows else []
    orders: Any = all_joined([_of_origin(name, sequence) for name, sequence, _ in rows]).orders
    tuples: Any = [(name, sequence) for name, sequence, _ in rows]
    assert orders == tuples
    changes: list[Callable[[Any], Any]] = [
        lambda orders: numbered_by_cause(orders, causes),
        lambda orders: pass_stages(numbered_by_cause(orders, range(len(rows))), 2),
        lambda orders: by_producer(relayed(pass_stages(orders, 1)), 3),
    ]
    for change in changes:
        assert change(orders) == change(tuples)
        majors = data.draw(st.lists(_SMALL, min_size=len(change(tuples)), max_size=len(change(tuples))))
        for major in (None, majors):
            mine, theirs = sorting(change(orders), major), sorting(change(tuples), major)
            assert (mine is None) == (theirs is None)
            assert mine is None or list(map(int, mine)) == theirs


def _of_origin(name: str, sequence: int) -> Bundle:
    orders: Any = RowOrders.of_origin(name, np.array([sequence]))
    return Bundle.fresh([None], Integers(np.array([0])), orders, 0)


def test_elements_are_grouped_by_instant_alike_in_lanes_and_lists() -> None:
    numbers = (2, 2, 5, 5, 5, 9)
    orders: Any = RowOrders.of_origin("a", np.arange(6))
    bundle = Bundle.fresh(list("abcdef"), list(range(6)), orders, 0)
    in_lanes = PlacedBundle(bundle, Integers(np.array(numbers)))
    in_lists = PlacedBundle(bundle, list(numbers))
    assert [(index, run.values) for index, run in in_lanes.runs()] == [
        (2, ["a", "b"]),
        (5, ["c", "d", "e"]),
        (9, ["f"]),
    ]
    assert list(in_lanes.runs()) == list(in_lists.runs())
    assert in_lanes.instants([(10, 0)] * 10) == in_lists.instants([(10, 0)] * 10) == [(10, 0)] * 6


# Functions on lanes ---------------------------------------------------------------------------------------------------


def _by_metadata(row: Any, timestamp: Any, window: Any, pane: Any, production_time: Any) -> list[Any]:
    return [(row, timestamp, window, pane, production_time)]


_FUNCTIONS: dict[str, Callable[[], Any]] = {
    "map": lambda: dm.Map(lambda row: row.value * 2),
    "filter": lambda: dm.Filter(lambda row: row.value % 2),
    "flat map": lambda: dm.FlatMap(lambda row: [row.value] * (row.value % 3)),
    "stamped": lambda: dm.Map(
        lambda row: dm.TimestampedValue(row, dm.EventTime(dm.event_time(row.at) + dm.Duration(micros=row.value)))
    ),
    "metadata": lambda: dm.FlatMap(_by_metadata),
    "pairs": lambda: dm.WithKeys("key", value="value"),
    "pairs of rows": lambda: dm.WithKeys("key"),
    "timestamps": lambda: dm.WithTimestamps(operator.attrgetter("at")),
}
_WINDOWS: dict[str, Callable[[], Any]] = {
    "fixed": lambda: dm.FixedWindows(2),
    "sliding": lambda: dm.SlidingWindows(4, 2),
    "sessions": lambda: dm.Sessions(1),
    "global": dm.GlobalWindows,
    "days": lambda: dm.CalendarWindows.days(1, "America/New_York"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder whose file says what columns there are."""
    made = tmp_path_factory.mktemp("rows")
    pq.write_table(_table([]), made / "0.parquet")
    return made


def _table(rows: list[tuple[str | None, int, int]]) -> pa.Table:
    keys, values, times = zip(*rows, strict=True) if rows else ((), (), ())
    columns = {"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.int64())}
    return pa.table({**columns, "at": pa.array(times, pa.int64()).cast(pa.timestamp("us", "UTC"))})


@pytest.mark.parametrize("function", _FUNCTIONS)
@given(
    window=st.sampled_from(sorted(_WINDOWS)),
    rows=st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9), st.integers(0, 5_000_000))),
)
def test_functions_give_the_same_outputs_on_lanes_as_on_lists(
    folder: Path, function: str, window: str, rows: list[tuple[str | None, int, int]]
) -> None:
    p = dm.Pipeline()
    source = p | "rows" >> dm.io.ReadParquet(folder, event_time="at")
    before = source | "before" >> _FUNCTIONS[function]()
    windows = dm.Window.into(_WINDOWS[window]())
    _ = before | "windows" >> windows | "behind" >> dm.io.Collect()
    _ = source | "windows first" >> windows | "late" >> _FUNCTIONS[function]() | "later" >> dm.io.Collect()
    _ = (before, source) | dm.Flatten() | "both" >> dm.io.Collect()
    plan = p.plan()
    cuts = cut_into_stages(plan).cuts
    orders: Any = RowOrders.of_origin("rows:a", np.arange(len(rows)))
    times = Integers(np.array([time for *_, time in rows], np.int64))
    lanes = Bundle.fresh(RowValues(_table(rows)), times, orders, 7)
    lists = Bundle(
        list(lanes.values),
        list(lanes.times),
        list(lanes.windows),
        list(lanes.panes),
        list(lanes.orders),
        list(lanes.produced),
    )
    assert Fragment(plan, "rows", cuts).run(lanes) == Fragment(plan, "rows", cuts).run(lists)


@pytest.mark.parametrize(
    "pairs",
    [
        [("a", 1), ("b", -(2**63))],
        [(1, 1.5), (2, float("inf"))],
        [(b"a", None), (b"", None)],
        [("a", "x")],
        [(("a", 1), (0.5, None)), (("b", -3), (-0.0, None))],
        [(_ROW(1), ("x",)), (_ROW(2), ("y",))],
        [((None, 1.5), 1)],
    ],
)
def test_pairs_of_plain_types_become_columns_with_the_same_content(pairs: list[Any]) -> None:
    columns = in_columns(pairs)
    assert isinstance(columns, Pairs)
    assert list(map(repr, columns)) == list(map(repr, pairs))


@pytest.mark.parametrize(
    "pairs",
    [
        [],
        [("a", 1), ("b", 1.0)],
        [("a", True), ("b", 1)],
        [("a", 1), (b"a", 1)],
        [("a", 2**63)],
        [("\ud800", 1)],
        [(("a", "b"), 1), (("a", 1), 1)],
        [(("a", "b"), 1), (("a",), 1)],
        [(("a", ("b",)), 1)],
        [((), 1)],
        [(_ROW(1), 1), ((1,), 1)],
        [("a", (1, True))],
        [("a", 1, 2)],
        [["a", 1]],
    ],
)
def test_pairs_of_other_types_are_not_put_into_columns(pairs: list[Any]) -> None:
    assert in_columns(pairs) is pairs


@given(st.lists(st.binary(max_size=10) | st.text("ab\0", max_size=3).map(str.encode)))
def test_byte_strings_have_the_ranks_of_the_general_function(items: list[bytes]) -> None:
    assert ranks_of_bytes(items).tolist() == ranks_of(items).tolist()


class Named(dm.IntervalWindow):
    """A window that is more than its bounds."""


_OF_ALL_KINDS = st.one_of(
    st.integers(-3, 3).map(lambda start: dm.IntervalWindow(dm.EventTime(start), dm.EventTime(start + 5))),
    st.sampled_from([GLOBAL_WINDOW, Named(dm.EventTime(0), dm.EventTime(5))]),
)


@given(st.lists(st.lists(_OF_ALL_KINDS, min_size=0, max_size=2).map(tuple), max_size=6))
def test_windows_in_columns_are_the_same_windows(windows: list[tuple[Any, ...]]) -> None:
    columns = windows_in_columns(windows)
    assert list(columns) == windows
    assert [[type(window) for window in several] for several in columns] == [
        [type(window) for window in several] for several in windows
    ]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_windows_that_are_plain_intervals_become_columns(starts: list[int]) -> None:
    windows: list[tuple[Any, ...]] = [
        (dm.IntervalWindow(dm.EventTime(start), dm.EventTime(start + 5)),) for start in starts
    ]
    assert isinstance(windows_in_columns(windows), Intervals)
