"""Keys have numbers: each key one, whatever it looks like, and none that another key has."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.core.columns import column, column_of
from dataflow_model.runners.engine.core.integers import IntegerNumbers
from dataflow_model.runners.engine.grouping.keys import KeyTable
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, in_columns
from dataflow_model.testing import TestStream
from dataflow_model.values import encode_key
from dataflow_model.values.pickles import dump

if TYPE_CHECKING:
    from pathlib import Path

_COLLIDING = st.integers(-20, 20).map(lambda number: number << 35) | st.integers(-20, 20)


class Route(NamedTuple):
    """A key that a type tells apart from a tuple with the same parts."""

    origin: Any
    number: Any


_PARTS = st.sampled_from([1, 2, "1", b"1", None])
_ROUTES = st.tuples(_PARTS, _PARTS)
_KEYS = (
    st.lists(st.integers(-5, 5) | st.sampled_from([2**63 - 1, -(2**63)]))
    | st.lists(st.integers(-3, 3) | st.sampled_from([2**63, 2**70]))
    | st.lists(st.sampled_from("abc"))
    | st.lists(st.sampled_from([1, 2, "1", b"1", None, (1, "a"), 1.0, True]))
    | st.lists(_ROUTES | st.tuples(_PARTS))
    | st.lists(st.builds(Route, _PARTS, _PARTS))
    | st.lists(_ROUTES | _ROUTES.map(lambda parts: Route(*parts)) | st.tuples(st.booleans() | _PARTS))
)


@given(st.lists(st.tuples(st.booleans(), _COLLIDING), max_size=60))
def test_a_table_of_integers_behaves_like_a_dict(changes: list[tuple[bool, int]]) -> None:
    table, expected = IntegerNumbers(), dict[int, int]()
    for number, (is_put, integer) in enumerate(changes):
        if is_put:
            table.put(integer, number)
            expected[integer] = number
        elif integer in expected:
            table.remove(integer)
            del expected[integer]
        asked = sorted({integer for _, integer in changes})
        slots = column(len(asked))
        missing = table.find(column_of(np.array(asked, np.int64)), slots)
        assert list(slots) == [expected.get(integer, -1) for integer in asked]
        assert missing == len(asked) - len(expected)
        assert table.count == len(expected)


@given(st.lists(st.tuples(_KEYS, st.booleans()), max_size=6), st.data())
def test_equal_keys_share_a_number_until_it_is_released(
    chunks: list[tuple[list[Any], bool]], data: st.DataObject
) -> None:
    table, known = KeyTable(), dict[bytes, int]()
    for keys, in_column in chunks:
        numbers = table.numbers(_column(keys) if in_column else keys).tolist()
        for key, number in zip(keys, numbers, strict=True):
            assert known.setdefault(encode_key(key), number) == number
            assert (type(table.shown[number]), table.shown[number]) == (type(key), key)
        assert len(set(known.values())) == len(known) == table.in_use()
        gone = data.draw(st.lists(st.sampled_from(sorted(known.values())), unique=True)) if known else []
        table.release(np.array(gone, np.int64))
        known = {key: number for key, number in known.items() if number not in gone}


def _column(keys: list[Any]) -> Any:
    """Return keys as a column if a column can hold them, and as they are otherwise."""
    pairs = in_columns([(key, None) for key in keys]) if keys else []
    return pairs.integers_or_keys() if isinstance(pairs, Pairs) and pairs.keys_are_alike() else keys


@pytest.mark.parametrize(("other", "plain"), [(np.int64(5), 5), (np.str_("a"), "a")])
def test_a_key_that_first_was_a_numpy_scalar_does_not_take_the_number_of_another_key(other: Any, plain: Any) -> None:
    table = KeyTable()
    numbers = [int(table.numbers([key])[0]) for key in (other, plain)]
    assert numbers == [0, 0]
    table.release(np.array([0]))
    assert table.numbers(["another"]).tolist() == [0]
    assert table.numbers([plain]).tolist() == [1]


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        ([3, 5, 3], pa.int64()),
        (["b", "a", "b"], pa.string()),
        ([1, 2**63], None),
        ([1, "a"], None),
        ([1, None], None),
        ([1, True], None),
        (["\ud800"], None),
        ([(1, 2)], None),
        ([0.5], None),
        ([], None),
    ],
)
def test_keys_are_shown_as_a_column_if_one_type_holds_them(keys: list[Any], kind: pa.DataType | None) -> None:
    table = KeyTable()
    table.release(table.numbers(["gone", 7]))
    shown = table.shown_as_column(table.numbers(keys))
    assert (None if shown is None else shown.type) == kind
    assert shown is None or shown.to_pylist() == keys


def test_the_column_of_keys_is_updated_as_keys_are_added_and_released() -> None:
    table = KeyTable()
    for keys in itertools.accumulate([[1], [2], [3]]):
        shown = table.shown_as_column(table.numbers(keys))
        assert shown is not None
        assert shown.to_pylist() == keys
    table.release(table.numbers([1, 2, 3]))
    assert table.shown_as_column(table.numbers([4.5])) is None


def test_a_key_is_pickled_again_only_if_equal_keys_may_look_different() -> None:
    table = KeyTable()
    text, number = (table.number(key) for key in ("a", 0.0))
    assert table.know_pickled([None, text, number], [b"unknown", b"text", b"number"]) == [0, 2]
    assert table.pickled(text) == b"text"
    assert table.pickled(number) == dump(0.0)
    table.release(np.array([text]))
    assert table.number("b") == text
    assert table.pickled(text) == dump("b")


@given(
    st.lists(
        st.tuples(
            st.sampled_from([int, str, bytes]),
            st.lists(st.integers(0, 5), min_size=1, max_size=4),
            st.booleans(),
            st.booleans(),
        ),
        max_size=8,
    )
)
def test_keys_get_the_same_numbers_together_as_one_by_one(
    steps: list[tuple[type, list[int], bool, bool]],
) -> None:
    together, single = KeyTable(), KeyTable()
    together.fresh, single.fresh = [], []
    for kind, digits, is_scalar, is_released in steps:
        keys: list[Any] = [bytes([digit]) if kind is bytes else kind(digit) for digit in dict.fromkeys(digits)]
        if is_scalar and kind is int:  # the same keys, but not in the table of integers
            keys = list(map(np.int64, keys))
        expected = [single.number(key) for key in sorted(keys)]
        numbers = together.numbers(sorted(keys))
        assert [together.encoded[number] for number in numbers] == [single.encoded[number] for number in expected]
        assert [together.shown[number] for number in numbers] == sorted(keys)
        assert together.find_all(map(encode_key, sorted(keys))) == numbers.tolist()
        assert len(set(numbers.tolist())) == len(keys)
        assert (together.in_use(), len(together.fresh)) == (single.in_use(), len(single.fresh))
        if is_released:
            together.release(numbers)
            single.release(np.array(expected))


@pytest.mark.parametrize(
    ("first", "second"), [(1, np.int64(1)), (np.int64(1), 1), ("x", np.str_("x")), (np.bool_(True), True)], ids=repr
)
@pytest.mark.parametrize("bound", [None, 1])
def test_the_first_of_a_plain_key_and_an_equal_numpy_key_is_shown_however_the_input_is_cut(
    tmp_path: Path, first: Any, second: Any, bound: int | None
) -> None:
    def shown(runner: Any) -> list[Any]:
        p = dm.Pipeline(runner=runner)
        script = TestStream().add((first, 1), 0).add((second, 2), 1).watermark(20)
        trigger = dm.AfterWatermark(early=dm.AfterCount(1))
        windowing = dm.Window.into(dm.FixedWindows(10)).trigger(trigger).accumulating_and_retracting()
        shown = p | script | windowing | dm.Sum.per_key() | dm.Map(lambda pair: (repr(pair[0]), pair[1]))
        _ = shown | "out" >> dm.io.Collect()
        result = p.run()
        result.wait_until_finish()
        return [(record.value, record.is_retraction) for record in result.collected("out")]

    stream = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1, max_state_memory=bound)
    assert shown(stream) == shown(dm.LocalRunner())


@pytest.mark.parametrize(("first", "second"), [(1, np.int64(1)), (np.int64(1), 1), (np.str_("x"), "x")], ids=repr)
@pytest.mark.parametrize(("watermark", "at"), [(20, 1), (-20, -2)], ids=["dropped as late", "in no window"])
def test_a_dropped_element_does_not_decide_how_its_key_is_shown(
    tmp_path: Path, first: Any, second: Any, watermark: int, at: int
) -> None:
    def shown(runner: Any) -> list[str]:
        p = dm.Pipeline(runner=runner)
        script = TestStream().watermark(watermark).add((first, 1), at).add((second, 2), 29).watermark(40)
        _ = p | script | dm.Window.into(dm.SlidingWindows(3, 7)) | dm.Sum.per_key() | "out" >> dm.io.Collect()
        result = p.run()
        result.wait_until_finish()
        return [repr(record.value) for record in result.collected("out")]

    stream = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1)
    assert shown(dm.LocalRunner()) == shown(stream) == [repr((second, 2))]
