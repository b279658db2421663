"""The total order: orders compare as the rule says, whoever has made them."""

from __future__ import annotations

import functools
import itertools
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataflow_model.runners.engine.core.operations import AT, BEFORE, ELEMENT, WATERMARK
from dataflow_model.runners.engine.lanes.order import (
    Emissions,
    Order,
    at_instant,
    before_stages,
    by_producer,
    by_window,
    numbered,
    numbered_by_cause,
    of_release,
    of_row,
    of_watermark,
    order_in_window,
    part_of_join,
    pass_stages,
    relayed,
    replayed,
    rising,
    rising_by_key,
    shard_by_order,
    sorting,
    timer_cause,
)
from dataflow_model.runners.engine.lanes.order_lanes import DeferredOrders, InstantLane, RowOrders, as_one, made_orders
from dataflow_model.time import EventTime
from dataflow_model.values import IntervalWindow, Window, encode_window

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

PHASES = [BEFORE, ELEMENT, WATERMARK, AT]
STAGES = 3


@attrs.frozen
class Row:
    """An element that functions behind a source have made of one of its rows."""

    origin: str
    sequence: int
    number: int

    def order(self) -> Order:
        return numbered(of_row(self.origin, self.sequence), self.number)


@attrs.frozen
class Passed:
    """An element that passes a stage by."""

    element: Element

    def order(self) -> Order:
        (order,) = pass_stages([self.element.order()], 1)
        return order


@attrs.frozen
class Emitted:
    """What a keyed node emits for an element, and a function behind it has made something of."""

    element: Element
    emission: int
    number: int
    index: int

    def order(self) -> Order:
        return _placed(
            _nth(self.emission, lambda emissions: emissions.of_element(self.element.order())), self.number, self.index
        )


@attrs.frozen
class Relayed:
    """An element that a reshuffle has emitted as it is."""

    element: Element
    number: int
    index: int

    def order(self) -> Order:
        (order,) = relayed([self.element.order()])
        return _placed(order, self.number, self.index)


@attrs.frozen
class Replayed:
    """An output that was kept for retractions."""

    element: Element
    function: int
    emission: int
    number: int
    index: int

    def order(self) -> Order:
        return _placed(replayed(self.element.order(), self.function, self.emission), self.number, self.index)


@attrs.frozen
class Joined:
    """An output of a function with side inputs."""

    element: Element
    window: int
    output: int
    emission: int
    number: int
    index: int

    def order(self) -> Order:
        seen = numbered(order_in_window(self.element.order(), self.window), self.emission)
        return _placed(part_of_join(seen, self.output), self.number, self.index)


@attrs.frozen
class Fired:
    """What a timer has caused."""

    phase: int
    deadline: int
    window: Window
    key: bytes
    emission: int
    number: int
    index: int

    def order(self) -> Order:
        cause = timer_cause(self.deadline, by_window(self.window), self.key)
        return _placed(
            _nth(self.emission, lambda emissions: emissions.of_timer(self.phase, cause)), self.number, self.index
        )


Element: TypeAlias = Row | Passed | Emitted | Relayed | Replayed | Joined | Fired


def _placed(order: Order, number: int, index: int) -> Order:
    """Return where an output stands of the functions behind the node that has this index in its stage."""
    (placed,) = by_producer([numbered(order, number)], index)
    return placed


def _nth(number: int, begin: Callable[[Emissions], None]) -> Order:
    emissions = Emissions()
    begin(emissions)
    return [emissions.next() for _ in range(number + 1)][number]


def by_the_rule(first: Element, second: Element) -> int:
    """Compare two elements in the input of one stage, by the rule in words of the module's docstring."""
    if isinstance(first, Row) and isinstance(second, Row):
        return _compare(attrs.astuple(first), attrs.astuple(second))
    phases = [element.phase if isinstance(element, Fired) else ELEMENT for element in (first, second)]
    if phases[0] != phases[1]:
        return _compare(*map(PHASES.index, phases))
    if isinstance(first, Fired) and isinstance(second, Fired):
        return _compare(_of_timer(first), _of_timer(second))
    assert not isinstance(first, Row | Fired)
    assert not isinstance(second, Row | Fired)
    return by_the_rule(first.element, second.element) or _compare(_of_output(first), _of_output(second))


def _of_timer(element: Fired) -> tuple[Any, ...]:
    window = element.window
    bounds = int(window.end), int(window.start), encode_window(window)
    return (element.deadline, *bounds, element.key, element.emission, element.number, element.index)


def _of_output(element: Passed | Emitted | Relayed | Replayed | Joined) -> tuple[int, ...]:
    match element:
        case Replayed():
            return 0, element.function, element.emission, element.number, element.index
        case Joined():
            return 1, element.window, element.output, element.emission, element.number, element.index
        case Passed():
            return (2,)
        case Relayed():
            return 3, 0, element.number, element.index
        case Emitted():
            return 3, element.emission, element.number, element.index


def _compare(first: Any, second: Any) -> int:
    return int(first > second) - int(first < second)


few = st.integers(0, 2)
windows = st.builds(
    lambda start, size: IntervalWindow(EventTime(start), EventTime(start + size)), few, st.integers(1, 3)
)
rows = st.builds(Row, st.sampled_from(["in:a", "in:b", "in"]), few, few)


def inputs(stage: int) -> st.SearchStrategy[Element]:
    """Draw elements of the input of a stage."""
    if stage == 1:
        return rows
    before = inputs(stage - 1)
    return st.one_of(
        st.builds(Passed, before),
        st.builds(Emitted, before, few, few, few),
        st.builds(Relayed, before, few, few),
        st.builds(Replayed, before, few, few, few, few),
        st.builds(Joined, before, few, few, few, few, few),
        st.builds(Fired, st.sampled_from([BEFORE, WATERMARK, AT]), few, windows, st.binary(max_size=2), few, few, few),
    )


@given(st.integers(1, STAGES).flatmap(lambda stage: st.lists(inputs(stage), max_size=12)))
def test_orders_of_elements_sort_by_the_rule_in_the_design(elements: list[Element]) -> None:
    assert sorted(elements, key=lambda element: element.order()) == sorted(
        elements, key=functools.cmp_to_key(by_the_rule)
    )
    for first, second in itertools.combinations(elements, 2):
        assert (first.order() == second.order()) == (by_the_rule(first, second) == 0)


@given(st.integers(1, STAGES).flatmap(lambda stage: st.lists(inputs(stage), max_size=12)))
def test_no_order_is_a_prefix_of_another(elements: list[Element]) -> None:
    orders = {element.order() for element in elements}
    assert not any(first == second[: len(first)] for first, second in itertools.permutations(orders, 2))


@given(st.integers(1, STAGES).flatmap(inputs), st.integers(0, 3))
def test_the_order_before_passed_stages_can_be_restored(element: Element, stages: int) -> None:
    (order,) = pass_stages([element.order()], stages)
    assert before_stages(order, stages) == element.order()


@given(st.lists(st.tuples(st.tuples(few, few), rows), max_size=8))
def test_elements_are_ordered_by_instant_first(elements: list[tuple[tuple[int, int], Row]]) -> None:
    assert sorted(elements, key=lambda element: at_instant(element[0], element[1].order())) == sorted(
        elements, key=lambda element: (element[0], attrs.astuple(element[1]))
    )


@given(st.lists(rows, max_size=8))
def test_rising_orders_are_distinct_and_increasing_in_the_order_of_arrival(elements: Iterable[Row]) -> None:
    orders = rising([element.order() for element in elements])
    assert orders == sorted(orders)
    assert len(set(orders)) == len(orders)


@given(few, windows, st.binary(max_size=2))
def test_a_pane_in_columns_has_the_order_that_the_timer_of_its_watermark_would_give_it(
    emission: int, window: IntervalWindow, key: bytes
) -> None:
    end, start = int(window.end), int(window.start)
    cause = timer_cause(end, by_window(window), key)
    assert of_watermark(end, start, key) == _nth(0, lambda e: e.of_timer(WATERMARK, cause))
    assert of_watermark(end, start, key) <= _nth(emission, lambda e: e.of_timer(WATERMARK, cause))


def test_released_elements_are_ordered_by_production_then_arrival_and_before_timers() -> None:
    window, zero = IntervalWindow(EventTime(0), EventTime(1)), of_row("in", 0)
    released = [of_release(*arguments) for arguments in [(1, 1, zero, 0), (1, 1, of_row("in", 1), 0), (1, 2, zero, 0)]]
    assert sorted(released) == released
    emissions = Emissions()
    emissions.of_timer(WATERMARK, timer_cause(1, by_window(window), b"k"))
    assert released[0] < emissions.next()


def test_emissions_of_the_same_cause_are_numbered_consecutively_until_the_instant_ends() -> None:
    emissions = Emissions()
    emissions.of_element(of_row("in", 0))
    first = emissions.next()
    emissions.of_element(of_row("in", 0))
    assert emissions.next() > first
    emissions.end()
    emissions.of_element(of_row("in", 0))
    assert emissions.next() == first


def test_orders_pickle_as_plain_tuples() -> None:
    """So that state and shuffles that hold them can be read by whoever knows tuples."""
    (order,) = pass_stages([numbered(of_row("in:a.parquet", 7), 0)], 1)
    assert type(pickle.loads(pickle.dumps(order))) is tuple


NUMBERS = st.integers(-2, 2) | st.sampled_from([-(2**63), -(2**40), 2**40, 2**63 - 1])


@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1))
def test_columns_combined_into_one_number_compare_like_the_columns(rows: list[tuple[int, int]]) -> None:
    major, minor = np.array(rows, np.int64).T
    numbers = as_one([minor, major]).tolist()
    for one, row in zip(numbers, rows, strict=True):
        assert [(other < one, other == one) for other in numbers] == [(other < row, other == row) for other in rows]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 3), st.integers(0, 1)), unique=True), st.data(), st.booleans()
)
def test_orders_in_columns_are_made_increasing_by_key_like_those_in_a_list(
    rows: list[tuple[int, int, int]], data: st.DataObject, passes: bool
) -> None:
    codes, sequences, numbers = np.array(rows, np.int64).reshape(len(rows), 3).T
    lane = RowOrders(("b", "a"), codes, sequences)
    lane.numbers = numbers
    orders: Any = pass_stages(lane, 1) if passes else lane
    firsts = [0, *sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=3)))]
    expected = rising_by_key(list(orders), firsts)
    columns = rising_by_key(orders, firsts)
    deferred = DeferredOrders(len(orders), lambda: orders)
    assert list(rising_by_key(made_orders(deferred), firsts)) == expected
    assert list(columns) == expected == [columns[row] for row in range(len(rows))]
    indices = list(range(len(rows) - 1, -1, -2))
    chosen: Any = columns
    taken = chosen.taken(indices)
    assert list(taken) == [expected[index] for index in indices]
    in_order = sorting(taken)
    assert [taken[row] for row in (range(len(taken)) if in_order is None else in_order)] == sorted(taken)


def test_deferred_orders_are_not_computed_if_none_is_selected() -> None:
    def make() -> list[tuple[int, int]]:
        raise AssertionError

    none = DeferredOrders(3, make).taken(np.array([], np.int64))
    assert list(none) == list(made_orders(none)) == []
    assert len(none.ranked()) == 0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), unique=True), st.data())
def test_deferred_orders_sort_and_change_like_tuples(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    made: list[None] = []

    def make() -> list[tuple[int, int]]:
        made.append(None)
        return rows

    indices = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True)) if rows else []
    lane = DeferredOrders(len(rows), make).taken(indices)
    joined_twice = DeferredOrders.joined([lane.sliced(0, 2), lane.sliced(2, len(lane))]).between((1,), (-1,))
    causes = [index for index in range(len(indices)) for _ in range(2)]
    numbered = numbered_by_cause(lane, causes)
    assert not made, "nobody has read an order"
    expected: Any = [rows[index] for index in indices]
    assert list(lane) == expected
    assert list(joined_twice) == [(1, *order, -1) for order in expected]
    assert list(numbered) == list(numbered_by_cause(expected, causes))
    for orders in (lane, joined_twice, numbered):
        in_order = sorting(orders)
        assert [orders[row] for row in (range(len(orders)) if in_order is None else in_order)] == sorted(orders)
        assert pickle.loads(pickle.dumps(orders)) == list(orders)
    assert len(made) <= 1, "orders are made once"


CLOCKS = st.integers(-3, 9) | st.sampled_from([-(2**62), 2**62 - 1, 2**62])
INSTANTS = st.lists(st.tuples(CLOCKS, st.integers(-2, 2) | st.just(10**9)), unique=True)


@given(INSTANTS, INSTANTS)
def test_instants_are_located_by_their_index_in_a_timeline(known: list[Any], others: list[Any]) -> None:
    timeline = sorted(known)
    indices = InstantLane.of(timeline).indices_of(InstantLane.of(others)).tolist()
    assert indices == [timeline.index(instant) if instant in timeline else -1 for instant in others]


@pytest.mark.parametrize("shards", [2, 3, 4])
@pytest.mark.parametrize("every", [1, 2, 10, 100])
def test_few_elements_without_a_key_are_spread_evenly_over_the_shards(shards: int, every: int) -> None:
    rows = pass_stages([of_row("shards", number * every) for number in range(16)], 2)
    counts = Counter(shard_by_order(row, shards) for row in rows)
    assert sorted(counts) == list(range(shards))
    assert max(counts.values()) <= 16 // shards + 2
