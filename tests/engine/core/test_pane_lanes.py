"""What is said of panes in columns is what lists would say, however bundles of them are cut and put together."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.core.operations import ELEMENT, INTERVAL_KIND, PANE_LATE, PANE_ON_TIME, WATERMARK
from dataflow_model.runners.engine.grouping.emitted_panes import EmittedPanes
from dataflow_model.runners.engine.grouping.pane_lanes import PaneInfos, PaneOrders, PaneUpdates
from dataflow_model.runners.engine.lanes.bundle import Bundle, Update, firings, retracted
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals
from dataflow_model.runners.engine.lanes.matching import matched
from dataflow_model.runners.engine.lanes.order import (
    Order,
    numbered_by_cause,
    of_rows,
    pass_stages,
    rising_by_key,
    sorting,
)
from dataflow_model.runners.engine.lanes.order_lanes import DeferredOrders, RisingOrders, RowOrders
from dataflow_model.runners.sharded.tasks.compact import dump_compact
from dataflow_model.values import Window, interval
from dataflow_model.values.pickles import load

KEYS = [b"a", b"b"]
INPUTS = of_rows("in", range(4))
COLUMNS: Any = RowOrders(("in", "at"), np.array([0, 1, 0, 1]), np.array([3, 0, 0, 3]))

DEFERRED: Any = DeferredOrders(4, lambda: COLUMNS.rising([0, 2]))


def window(start: int, end: int, kind: int) -> Window:
    assert kind == INTERVAL_KIND
    return interval(start, end)


def column(
    draw: Any, count: int, of: st.SearchStrategy[int] | st.SearchStrategy[bool]
) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(draw(st.lists(of, min_size=count, max_size=count)), np.int64)


@st.composite
def bundles(draw: st.DrawFn, inputs: Any = INPUTS) -> Bundle:
    """Draw panes as the core gives them: those that elements have caused, then those of the watermark."""
    keys_of_shard = draw(st.sampled_from([KEYS, KEYS[::-1]]))  # each shard numbers keys in its own way
    of_elements, of_timers = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    count = of_elements + of_timers
    phases = np.repeat(np.array([ELEMENT, WATERMARK]), [of_elements, of_timers])
    rows = np.sort(column(draw, of_elements, st.integers(0, len(inputs) - 1)))
    timer = st.tuples(st.integers(10, 12), st.integers(0, 3), st.integers(0, len(KEYS) - 1))
    drawn = draw(st.lists(timer, min_size=of_timers, max_size=of_timers))
    in_order = sorted(drawn, key=lambda cause: (cause[0], cause[1], keys_of_shard[cause[2]]))
    timers = np.array(in_order, np.int64).reshape(-1, 3)
    starts = np.concatenate([column(draw, of_elements, st.integers(0, 3)), timers[:, 1]])
    keys = np.concatenate([column(draw, of_elements, st.integers(0, len(KEYS) - 1)), timers[:, 2]])
    flags = column(draw, count, st.sampled_from([0, PANE_ON_TIME, PANE_LATE]))
    zeros = np.zeros(count, np.int64)
    panes = EmittedPanes(
        values=zeros,
        instant=zeros,
        phase=phases,
        at=np.concatenate([rows, timers[:, 0]]),
        number=np.arange(count),
        watermark=zeros,
        cause_start=starts,
        cause_end=starts + 5,
        cause_kind=np.full(count, INTERVAL_KIND),
        emission=column(draw, count, st.integers(-1, 1)),
        key=keys,
        start=starts,
        end=starts + 5,
        kind=np.full(count, INTERVAL_KIND),
        index=column(draw, count, st.integers(0, 2)),
        on_time_index=zeros,
        flags=flags,
        time=starts + 4,
        produced=zeros,
        hold=zeros[:0],
    )
    orders: Any = PaneOrders(panes, inputs, window, keys_of_shard)
    retractions = (panes.emission >= 0) & column(draw, count, st.booleans()).astype(np.bool_)
    return Bundle(
        values=list(range(count)),
        times=Integers(panes.time),
        windows=Intervals(panes.start, panes.end),
        panes=PaneInfos(panes.flags, panes.index, panes.on_time_index, "Always()"),
        orders=orders,
        produced=Integers(panes.produced),
        updates=PaneUpdates("sums", orders, panes.emission, retractions),
    )


@given(bundles(), bundles(), st.data())
def test_panes_in_columns_equal_panes_in_lists(bundle: Bundle, other: Bundle, data: st.DataObject) -> None:
    plain = bundle.plain()
    assert bundle == plain
    assert pickle.loads(pickle.dumps(bundle)) == plain
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(bundle))] * 2)))
    assert bundle.sliced(start, stop) == plain.sliced(start, stop)
    rows = data.draw(st.lists(st.integers(0, len(bundle) - 1))) if len(bundle) else []
    assert bundle.take(rows) == plain.take(rows)
    assert bundle.take(rows).take(range(len(rows))[::2]) == plain.take(rows[::2])
    together, together_plain = copy.copy(bundle), bundle.plain()
    together.extend(other)
    together_plain.extend(other.plain())
    assert together == together_plain
    assert together.sliced(start, stop) == together_plain.sliced(start, stop)


@given(bundles(), st.data())
def test_panes_in_columns_that_are_known_to_be_in_order_sort_like_lists(bundle: Bundle, data: st.DataObject) -> None:
    orders: Any = bundle.orders.taken(data.draw(st.permutations(range(len(bundle)))))  # type: ignore[attr-defined]
    orders.instants = np.arange(len(orders))  # each at an instant of its own
    for _ in range(2):
        majors = column(data.draw, len(orders), st.integers(0, 2))
        expected = sorting(list(orders), majors.tolist())
        actual = orders.sorting(majors)
        assert (actual is None) == (expected is None)
        assert actual is None or actual.tolist() == expected
        start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(orders))] * 2)))
        rows = data.draw(st.lists(st.integers(0, len(orders) - 1))) if len(orders) else []
        orders = data.draw(st.sampled_from([orders.sliced(start, stop), orders.taken(rows)]))


@given(st.lists(bundles(COLUMNS), min_size=1, max_size=3), st.booleans())
def test_panes_of_several_shards_remain_columns_and_compare_like_lists(parts: list[Bundle], passes: bool) -> None:
    if passes:
        for part in parts:
            part.orders = pass_stages(numbered_by_cause(part.orders, range(len(part))), 1)
    plain = Bundle()
    plain.extend(*(part.plain() for part in parts))
    together = Bundle()
    together.extend(*parts)
    assert together == plain
    if len(together):
        assert isinstance(together.orders, PaneOrders)
        assert isinstance(together.updates, PaneUpdates)
    assert together.in_order() == plain.in_order()
    assert load(dump_compact(together)).in_order() == plain.in_order()
    assert retracted(together.updates, len(plain)).tolist() == retracted(plain.updates, len(plain)).tolist()
    numbers = firings(together.updates, len(plain)).tolist()
    expected = firings(plain.updates, len(plain)).tolist()
    assert len(set(zip(numbers, expected, strict=True))) == len(set(numbers)) == len(set(expected))
    assert [number < 0 for number in numbers] == [number < 0 for number in expected]


@given(st.sampled_from([COLUMNS, DEFERRED]).flatmap(lambda of: st.lists(bundles(of), min_size=1)), st.data())
def test_orders_of_panes_are_made_increasing_by_key_in_columns_as_in_a_list(
    parts: list[Bundle], data: st.DataObject
) -> None:
    together, expected = Bundle(), list[Order]()
    for part in parts:
        part.orders = part.take(data.draw(st.permutations(range(len(part))))).orders
        firsts = [0, *sorted(data.draw(st.lists(st.integers(0, len(part)), max_size=3)))]
        of_part = numbered_by_cause(list(rising_by_key(list(part.orders), firsts)), range(len(part)))
        rising: Any = rising_by_key(part.orders, firsts)
        part.orders = numbered_by_cause(DeferredOrders(len(part), lambda made=rising: made), range(len(part)))  # type: ignore[misc]
        assert list(load(dump_compact(part.orders))) == list(part.orders) == of_part
        expected += of_part
        together.extend(load(dump_compact(part)))
    assert list(together.orders) == expected
    if expected:
        assert isinstance(together.orders, RisingOrders)
        in_order = sorting(together.orders)
        rows = range(len(expected)) if in_order is None else in_order
        assert [expected[row] for row in rows] == sorted(expected)


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans())))
def test_a_value_replaces_the_retractions_in_its_group_since_the_previous_value(
    entries: list[tuple[int, bool]],
) -> None:
    waiting: dict[int, list[int]] = {}
    counts, replaced = [0] * len(entries), []
    for index, (group, is_retraction) in enumerate(entries):
        if is_retraction:
            waiting.setdefault(group, []).append(index)
        else:
            before = waiting.pop(group, [])
            counts[index] = len(before)
            replaced += before
    for alone in waiting.values():
        for index in alone:
            counts[index] = -1
    groups, retractions = [group for group, _ in entries], [is_retraction for _, is_retraction in entries]
    actual = matched(np.array(groups, np.int64), np.array(retractions, np.bool_))
    assert [column.tolist() for column in actual] == [counts, replaced]


@given(bundles())
def test_elements_appended_to_panes_in_columns_belong_to_no_update(bundle: Bundle) -> None:
    count = len(bundle)
    bundle.extend(Bundle.fresh(["later"], [0], of_rows("in", [9]), 0))
    assert bundle.take([count]).updates == {}


@given(bundles())
def test_panes_in_columns_are_in_increasing_order(bundle: Bundle) -> None:
    orders: list[Order] = list(bundle.orders)
    assert sorted(orders) == orders
    assert sorting(bundle.orders) is None
    assert numbered_by_cause(bundle.orders, range(len(orders))) == numbered_by_cause(orders, range(len(orders)))


@given(bundles())
def test_an_update_contains_the_cause_and_the_emission_of_its_pane(bundle: Bundle) -> None:
    for row, update in bundle.updates.items():
        assert isinstance(update, Update)
        emission: Any = update.emission
        assert emission[0] == "sums"
        assert emission[1][:-1] == bundle.orders[row][:-1]
