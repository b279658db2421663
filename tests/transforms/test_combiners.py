"""The combiners' laws: merging is associative and commutative, what is added can be taken back."""

from __future__ import annotations

import copy
import math
import pickle
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.transforms.associative import AssociativeFn

if TYPE_CHECKING:
    from collections.abc import Iterable

NUMBERS = st.lists(st.integers(-1000, 1000))
COMBINERS: list[dm.CombineFn[Any, Any, Any]] = [
    dm.Sum(), dm.Count(), dm.Mean(), dm.Min(), dm.Max(), dm.Top(3), dm.Top(3, key=abs, reverse=True), dm.ToSet(),
    AssociativeFn(sum), dm.Together(count=dm.Count(), most=max),
]  # fmt: skip


def largest(values: Iterable[Any]) -> Any:
    return max(values)


def folded(combine: dm.CombineFn[Any, Any, Any], values: list[Any]) -> Any:
    accumulator = combine.create_accumulator()
    for value in values:
        accumulator = combine.add_input(accumulator, value)
    return accumulator


def same(left: Any, right: Any) -> bool:
    return bool(left == right) or (left != left and right != right)  # noqa: PLR0124 - NaN


@pytest.mark.parametrize("combine", COMBINERS, ids=repr)
@given(parts=st.lists(NUMBERS, max_size=4), data=st.data())
def test_cutting_the_input_and_merging_in_any_order_changes_nothing(
    combine: dm.CombineFn[Any, Any, Any], parts: list[list[int]], data: st.DataObject
) -> None:
    # Equal keys in Top may come in either order; distinct absolute values keep that out of this law.
    parts = [[abs(value) for value in part] for part in parts]
    whole = combine.extract_output(folded(combine, [value for part in parts for value in part]))
    accumulators = data.draw(st.permutations([folded(combine, part) for part in parts]))
    assert same(combine.extract_output(combine.merge_accumulators(copy.deepcopy(accumulators))), whole)


@pytest.mark.parametrize("combine", [c for c in COMBINERS if c.can_subtract], ids=repr)
@given(values=NUMBERS, taken=st.integers(-1000, 1000))
def test_what_was_added_can_be_taken_back(combine: dm.CombineFn[Any, Any, Any], values: list[int], taken: int) -> None:
    before = combine.extract_output(folded(combine, values))
    after = combine.extract_output(combine.subtract_input(folded(combine, [taken, *values]), taken))
    assert same(after, before)


@pytest.mark.parametrize("combine", COMBINERS, ids=repr)
def test_accumulators_pickle_and_output_leaves_them_usable(combine: dm.CombineFn[Any, Any, Any]) -> None:
    accumulator = folded(combine, [1, 2])
    first = combine.extract_output(accumulator)
    assert pickle.loads(pickle.dumps(accumulator)) == accumulator
    assert pickle.loads(pickle.dumps(first)) == first
    assert combine.extract_output(accumulator) == first


@pytest.mark.parametrize(
    ("combine", "nothing"),
    [
        (dm.Sum(), 0), (dm.Count(), 0), (dm.Min(), None), (dm.Max(), None), (dm.Top(1), []), (dm.ToList(), []),
        (dm.ToSet(), set()), (AssociativeFn(sum), 0), (AssociativeFn(largest), None),
    ],
)  # fmt: skip
def test_the_value_of_nothing(combine: dm.CombineFn[Any, Any, Any], nothing: Any) -> None:
    assert combine.extract_output(combine.create_accumulator()) == nothing


def test_the_mean_of_nothing_is_nan() -> None:
    assert math.isnan(dm.Mean().extract_output(dm.Mean().create_accumulator()))


@given(st.permutations([3.0, 1.0, math.nan, 2.0, math.nan]))
def test_nan_does_not_make_extremes_depend_on_the_order(values: list[float]) -> None:
    assert folded(dm.Min(), values) == 1.0
    assert folded(dm.Max(), values) == 3.0


def test_the_sum_of_ints_stays_exact() -> None:
    total = dm.Sum().extract_output(folded(dm.Sum(), [2**62, 2**62, 2**62]))
    assert (total, type(total)) == (3 * 2**62, int)


def test_forms_carry_the_arguments_and_the_name() -> None:
    per_key = dm.Top.per_key(2, reverse=True)
    assert (per_key.label, per_key.fn) == ("Top.PerKey", dm.Top(2, reverse=True))
    assert dm.Mean.globally().label == "Mean.Globally"
    assert dm.Together(n=dm.Count()).per_key().fn == dm.Together(n=dm.Count())


def test_classes_and_builtins_stand_for_combiners() -> None:
    assert dm.CombinePerKey(dm.Mean).fn == dm.Mean()
    assert dm.CombinePerKey(sum).fn == dm.Sum()
    assert dm.CombineGlobally(min).fn == dm.Min()
