"""Elements by key: in the order of the encoded keys, then of event times, then of their positions in the input."""

import itertools
import random
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.errors import InvalidType
from dataflow_model.plan.logical.nodes import MAIN, GroupByKeyAndWindow, Ref
from dataflow_model.plan.logical.strategy import WindowingStrategy
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.lanes.chunk import Bucket, PlacedBundle
from dataflow_model.runners.engine.lanes.lanes import Integers
from dataflow_model.runners.engine.lanes.order import of_rows
from dataflow_model.runners.engine.lanes.order_lanes import RowOrders
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, in_columns
from dataflow_model.runners.engine.machines.interval_join import IntervalJoinMachine
from dataflow_model.runners.engine.machines.stateful import StatefulMachine
from dataflow_model.runners.engine.protocol.by_key import sorted_by_key
from dataflow_model.runners.engine.protocol.sharding import encoded_keys, rows_by_shard
from dataflow_model.values import encode_key
from tests.support.joins_by_element import FORMS, MODES, MOVES, Move, both, windowing
from tests.support.joins_by_element import KEYS as KEYS_OF_JOINS

INTEGERS = st.integers(-12, 12) | st.sampled_from([100, -(2**63), 2**63 - 1])
ONE_KIND = [INTEGERS, st.sampled_from(["a", "ab", "b", ""]), st.binary(max_size=1)]
MIXED = st.one_of(st.sampled_from([0, 1, True, False, 1.0, -0.0, None, (1, "a"), (True, "a")]), *ONE_KIND)
PAIRS = [st.tuples(ONE_KIND[1], ONE_KIND[0]), st.tuples(MIXED, MIXED)]
KEYS = st.one_of(*(st.lists(keys, max_size=12) for keys in [*ONE_KIND, *PAIRS, MIXED]))


@given(KEYS, st.data())
def test_elements_are_sorted_by_encoded_key_event_time_and_order(keys: list[Any], data: st.DataObject) -> None:
    count = len(keys)
    numbers = st.lists(st.integers(0, 3), min_size=count, max_size=count)
    times = data.draw(numbers)
    positions = data.draw(st.permutations(range(count)))
    orders: Any = RowOrders.of_origin("a", np.array(positions, np.int64))
    columns: list[Any] = [[(key, None) for key in keys], list(times), [*orders]]
    lanes: list[Any] = [columns[0], Integers(np.array(times, np.int64)), orders]
    expected = sorted(range(count), key=lambda row: (encode_key(keys[row]), times[row], positions[row]))
    in_lanes: list[Any] = [in_columns(list(columns[0])), *lanes[1:]]
    for values, at, order in (columns, lanes, in_lanes):
        rows, firsts = sorted_by_key("sum", Bundle.fresh(values, at, order, 0))
        assert rows.tolist() == expected
        groups = [list(group) for _, group in itertools.groupby(expected, key=lambda row: encode_key(keys[row]))]
        assert firsts == [0, *itertools.accumulate(map(len, groups))][: len(groups)]


@given(KEYS)
def test_each_key_of_a_batch_is_encoded_as_it_would_be_alone(keys: list[Any]) -> None:
    encoded, codes = encoded_keys("sum", [(key, None) for key in keys])
    assert [encoded[code] for code in codes.tolist()] == [encode_key(key) for key in keys]


def test_keys_in_a_column_are_encoded_as_those_in_a_list() -> None:
    keys = ["b", "a", "b"]
    encoded, codes = encoded_keys("sum", Pairs(pa.chunked_array([keys]), pa.chunked_array([[1, 2, 3]])))
    assert [encoded[code] for code in codes.tolist()] == [encode_key(key) for key in keys]


FIELDS = st.integers(-3, 3) | st.sampled_from([-(2**63), 2**63 - 1]), st.sampled_from("ab"), st.integers(0, 5)


@given(st.lists(st.tuples(*FIELDS), min_size=1))
def test_tuples_in_columns_are_encoded_as_those_in_a_list(keys: list[tuple[int, str, int]]) -> None:
    pairs = in_columns([(key, None) for key in keys])
    assert isinstance(pairs, Pairs)
    encoded, codes = encoded_keys("sum", pairs)
    assert [encoded[code] for code in codes.tolist()] == [encode_key(key) for key in keys]
    assert len(encoded) == len(set(keys))


@given(st.sampled_from(ONE_KIND).flatmap(st.lists), st.sampled_from([1, 2, 3, 7]))
def test_keys_in_a_column_go_to_the_shards_of_those_in_a_list(keys: list[Any], shards: int) -> None:
    node = GroupByKeyAndWindow(label="sums", input=Ref("numbers"), strategy=WindowingStrategy(), combine=dm.Sum())
    pairs = [(key, key) for key in keys]
    assert not keys or isinstance(in_columns(pairs), Pairs)
    bundles = [
        Bundle.fresh(values, [0] * len(keys), of_rows("a", range(len(keys))), 0)
        for values in (pairs, in_columns(pairs))
    ]
    in_list, in_column = (
        {shard: list(rows) for shard, rows in rows_by_shard(node, bundle, shards).items()} for bundle in bundles
    )
    assert in_column == in_list


def test_an_element_that_is_not_a_pair_is_reported_with_the_transform() -> None:
    with pytest.raises(InvalidType, match=r"'sum' takes \(key, value\) pairs, got 5"):
        encoded_keys("sum", [("a", 1), 5])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@given(moves=MOVES, bounds=st.tuples(st.integers(-8, 8), st.integers(-8, 8)), lateness=st.sampled_from([0, 4, 1_000]))
def test_a_join_in_a_bounded_job_emits_what_a_function_of_one_element_would_in_the_same_order(
    form: str, mode: str, moves: list[Move], bounds: tuple[int, int], lateness: int
) -> None:
    p = dm.Pipeline()
    both(p, [], FORMS[form](between=(min(bounds), max(bounds))), windowing(mode, lateness))
    plan = p.plan()
    join: Any = plan["join/partners"]
    function: Any = plan["by element"]
    elements = [move for move in moves if move[0] in {"left", "right"}]
    pairs = [(KEYS_OF_JOINS[value % 3], (side == "right", number)) for number, (side, _, value) in enumerate(elements)]
    times = [int(dm.duration(at)) for _, at, _ in elements]
    orders = of_rows("rows", range(len(pairs)))
    random.Random(len(moves)).shuffle(orders)
    outputs = []
    for machine in (IntervalJoinMachine(join), StatefulMachine(function, plan, {})):
        bucket = Bucket(Bundle.fresh(list(pairs), list(times), list(orders), 0))
        bundle = machine.run_bounded(bucket).outputs.get(MAIN, PlacedBundle()).bundle
        marks: Any = {row: (update.emission, update.is_retraction) for row, update in bundle.updates.items()}
        emissions = {row: (emission[1], is_retraction) for row, (emission, is_retraction) in marks.items()}
        columns = (bundle.values, bundle.times, bundle.windows, bundle.panes, bundle.orders, bundle.produced)
        outputs.append(([list(column) for column in columns], emissions))
    assert outputs[0] == outputs[1]
