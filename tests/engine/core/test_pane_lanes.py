"""What is said of panes in columns is what lists would say, however bundles of them are cut and put together."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.bundle import Bundle, Update
from dataflow_model.runners.engine.core.grouping import Panes
from dataflow_model.runners.engine.core.operations import INTERVAL_KIND, PANE_LATE, PANE_ON_TIME
from dataflow_model.runners.engine.core.pane_lanes import PaneInfos, PaneOrders, PaneUpdates
from dataflow_model.runners.engine.lanes import Integers, Intervals
from dataflow_model.runners.engine.order import ELEMENT, WATERMARK, Order, numbered_by_cause, of_rows, sorting
from dataflow_model.values import Window, interval

KEYS = [b"a", b"b"]
INPUTS = of_rows("in", range(4))


def window(start: int, end: int, kind: int) -> Window:
    assert kind == INTERVAL_KIND
    return interval(start, end)


def column(draw: st.DrawFn, count: int, of: st.SearchStrategy[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array(draw(st.lists(of, min_size=count, max_size=count)), np.int64)


@st.composite
def bundles(draw: st.DrawFn) -> Bundle:
    """Draw panes as the core gives them: those that elements have caused, then those of the watermark."""
    of_elements, of_timers = draw(st.integers(0, 4)), draw(st.integers(0, 3))
    count = of_elements + of_timers
    phases = np.repeat(np.array([ELEMENT, WATERMARK]), [of_elements, of_timers])
    rows = np.sort(column(draw, of_elements, st.integers(0, len(INPUTS) - 1)))
    timer = st.tuples(st.integers(10, 12), st.integers(0, 3), st.integers(0, len(KEYS) - 1))
    timers = np.array(sorted(draw(st.lists(timer, min_size=of_timers, max_size=of_timers))), np.int64).reshape(-1, 3)
    starts = np.concatenate([column(draw, of_elements, st.integers(0, 3)), timers[:, 1]])
    keys = np.concatenate([column(draw, of_elements, st.integers(0, len(KEYS) - 1)), timers[:, 2]])
    flags = column(draw, count, st.sampled_from([0, PANE_ON_TIME, PANE_LATE]))
    zeros = np.zeros(count, np.int64)
    panes = Panes(
        values=zeros,
        instant=zeros,
        phase=phases,
        at=np.concatenate([rows, timers[:, 0]]),
        number=np.arange(count),
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
    orders: Any = PaneOrders(panes, INPUTS, window, KEYS)
    retractions = column(draw, count, st.integers(0, 1)).astype(np.bool_)
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
def test_panes_in_columns_are_those_in_lists(bundle: Bundle, other: Bundle, data: st.DataObject) -> None:
    plain = bundle.plain()
    assert bundle == plain
    assert pickle.loads(pickle.dumps(bundle)) == plain
    start, stop = sorted(data.draw(st.tuples(*[st.integers(0, len(bundle))] * 2)))
    assert bundle.part(start, stop) == plain.part(start, stop)
    rows = data.draw(st.lists(st.integers(0, len(bundle) - 1))) if len(bundle) else []
    assert bundle.take(rows) == plain.take(rows)
    assert bundle.take(rows).take(range(len(rows))[::2]) == plain.take(rows[::2])
    together, together_plain = copy.copy(bundle), bundle.plain()
    together.extend(other)
    together_plain.extend(other.plain())
    assert together == together_plain
    assert together.part(start, stop) == together_plain.part(start, stop)


@given(bundles())
def test_nothing_is_taken_back_in_what_follows_panes_in_columns(bundle: Bundle) -> None:
    count = len(bundle)
    bundle.extend(Bundle.fresh(["later"], [0], of_rows("in", [9]), 0))
    assert bundle.take([count]).updates == {}


@given(bundles())
def test_orders_of_panes_rise_as_they_came(bundle: Bundle) -> None:
    orders: list[Order] = list(bundle.orders)
    assert sorted(orders) == orders
    assert sorting(bundle.orders) is None
    assert numbered_by_cause(bundle.orders, range(len(orders))) == numbered_by_cause(orders, range(len(orders)))


@given(bundles())
def test_an_update_names_the_cause_and_the_emission(bundle: Bundle) -> None:
    for row, update in bundle.updates.items():
        assert isinstance(update, Update)
        emission: Any = update.emission
        assert emission[0] == "sums"
        assert emission[1][:-1] == bundle.orders[row][:-1]
