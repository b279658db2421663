"""The combiners' laws: merging is associative and commutative, what is added can be taken back."""

from __future__ import annotations

import copy
import dataclasses
import datetime
import functools
import math
import pickle
import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import InvalidType
from dataflow_model.plan.functions.kernels import Kernel
from dataflow_model.testing import TestStream
from dataflow_model.transforms.grouping.associative import AssociativeFn
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Iterable
    from decimal import Decimal
    from pathlib import Path

NUMBERS = st.lists(st.integers(-1000, 1000))
COMBINERS: list[dm.CombineFn[Any, Any, Any]] = [
    dm.Sum(), dm.Count(), dm.Mean(), dm.Min(), dm.Max(), dm.Top(3), dm.Top(3, key=abs, reverse=True), dm.ToSet(),
    AssociativeFn(sum), dm.Together(count=dm.Count(), most=max), dm.Sample(3), dm.ApproximateUnique(16),
    dm.ApproximateQuantiles(4),
]  # fmt: skip


def largest(values: Iterable[Any]) -> Any:
    return max(values)


def folded(combine: dm.CombineFn[Any, Any, Any], values: list[Any]) -> Any:
    accumulator = combine.create_accumulator()
    for value in values:
        accumulator = combine.add_input(accumulator, value)
    return accumulator


def best_of(top: dm.Top, values: list[Any]) -> list[Any]:
    best: list[Any] = top.extract_output(folded(top, values))
    return best


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
def test_subtracting_an_added_input_restores_the_result(
    combine: dm.CombineFn[Any, Any, Any], values: list[int], taken: int
) -> None:
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
def test_each_combiner_has_its_value_for_no_inputs(combine: dm.CombineFn[Any, Any, Any], nothing: Any) -> None:
    assert combine.extract_output(combine.create_accumulator()) == nothing


def test_the_mean_of_nothing_is_nan() -> None:
    assert math.isnan(dm.Mean().extract_output(dm.Mean().create_accumulator()))


@given(st.permutations([3.0, 1.0, math.nan, 2.0, math.nan]))
def test_nan_does_not_make_extremes_depend_on_the_order(values: list[float]) -> None:
    assert folded(dm.Min(), values) == 1.0
    assert folded(dm.Max(), values) == 3.0


@given(st.permutations([3.0, 1.0, math.nan, 2.0, math.nan]))
def test_top_keeps_nan_only_behind_all_numbers(values: list[float]) -> None:
    for reverse, best in ((False, [3.0, 2.0]), (True, [1.0, 2.0])):
        assert best_of(dm.Top(2, reverse=reverse), values) == best
        assert best_of(dm.Top(2, key=lambda value: value, reverse=reverse), values) == best
        most = best_of(dm.Top(9, reverse=reverse), values)
        assert sorted(most[:3]) == [1.0, 2.0, 3.0]
        assert all(map(math.isnan, most[3:]))
        assert len(most) == 5


@pytest.mark.parametrize("combine", [dm.Min(), dm.Max()])
@pytest.mark.parametrize("values", [[None], [None, 4], [4, None]])
def test_none_is_refused_among_extremes_wherever_it_occurs(combine: Any, values: list[Any]) -> None:
    with pytest.raises(TypeError):
        functools.reduce(combine.add_input, values, combine.create_accumulator())


def test_the_sum_of_ints_stays_exact() -> None:
    total = dm.Sum().extract_output(folded(dm.Sum(), [2**62, 2**62, 2**62]))
    assert (total, type(total)) == (3 * 2**62, int)


def test_per_key_and_globally_pass_on_the_arguments_and_the_name() -> None:
    per_key = dm.Top.per_key(2, reverse=True)
    assert (per_key.label, per_key.fn) == ("Top.PerKey", dm.Top(2, reverse=True))
    assert dm.Mean.globally().label == "Mean.Globally"
    assert dm.Together(n=dm.Count()).per_key().fn == dm.Together(n=dm.Count())


def test_a_form_of_an_instance_takes_no_arguments() -> None:
    top: Any = dm.Top(2)
    forms: list[Any] = [lambda: top.per_key(3), lambda: top.globally(n=3)]
    for form in forms:
        with pytest.raises(InvalidType, match=r"takes no arguments, got \(3,\) for Top\(n=2.*\nHint: pass them to"):
            form()


def test_classes_and_builtin_functions_are_accepted_as_combiners() -> None:
    assert dm.CombinePerKey(dm.Mean).fn == dm.Mean()
    assert dm.CombinePerKey(sum).fn == dm.Sum()
    assert dm.CombineGlobally(min).fn == dm.Min()


class Unfinished(dm.CombineFn[int, int, int]):
    """Defines two of the four methods."""

    def create_accumulator(self) -> int:
        return 0

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)


@pytest.mark.parametrize(
    "use",
    [
        lambda: dm.CombinePerKey(Unfinished()),
        lambda: dm.CombineGlobally(Unfinished),
        lambda: dm.CombinePerKey(Unfinished(), 5),
        lambda: dm.CombineValues(Unfinished()),
        lambda: dm.GroupBy("carrier").aggregate_field("delay", Unfinished(), "total"),
        lambda: dm.Together(total=Unfinished()),
        lambda: dm.CombiningStateSpec(Unfinished()),
    ],
)
def test_a_combiner_without_one_of_the_four_methods_is_rejected_when_it_is_applied(use: Any) -> None:
    message = r"^Unfinished must define `add_input\(self, accumulator, element\)`\nHint: a CombineFn has four methods: "
    with pytest.raises(dm.InvalidArgument, match=message):
        use()


class MergesTwo(dm.CombineFn[int, int, int]):
    """Merges two accumulators, where an iterable of them is given."""

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, one: int, other: int) -> int:  # type: ignore[override] # the point
        return one + other

    def extract_output(self, accumulator: int) -> int:
        return accumulator


class SubtractsNothing(dm.Sum):
    def subtract_input(self, accumulator: Any) -> Any:  # type: ignore[override] # the point
        return accumulator


@pytest.mark.parametrize(
    ("combiner", "message"),
    [
        (
            MergesTwo,
            r"^`merge_accumulators\(one.* cannot be called with \(accumulators\): (.|\n)*; `accumulators` is an iter",
        ),
        (
            SubtractsNothing,
            r"^`subtract_input\(.* cannot be called with \(accumulator, element\)(.|\n)*\nHint: define sub",
        ),
    ],
)
def test_a_combiner_whose_methods_take_something_else_is_rejected_when_it_is_applied(
    combiner: Any, message: str
) -> None:
    for use in (dm.CombinePerKey, dm.CombineGlobally, lambda fn: dm.Together(total=fn()), dm.CombiningStateSpec):
        with pytest.raises(dm.InvalidArgument, match=message):
            use(combiner)


@pytest.mark.parametrize("combiner", [dm.Sum, dm.Mean, dm.Min, dm.Max])
@pytest.mark.parametrize("values", [[None, 1], [1, None], [1.5] * 1_000 + [None]], ids=["first", "second", "last"])
def test_none_is_rejected_with_a_way_out_for_per_key_and_globally(combiner: Any, values: list[Any]) -> None:
    message = rf"^an element of {combiner.__name__} must not be None, got None\n(.|\n)*"
    with pytest.raises(dm.UserCodeError, match=message + r"Hint: .*lambda element: element is not None"):
        run_on(values, combiner.globally())
    with pytest.raises(dm.UserCodeError, match=message + r"Hint: .*lambda pair: pair\[1\] is not None"):
        run_on([("a", value) for value in values], combiner.per_key())


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("delay", r"got 'delay'\nHint: use key=lambda element: element\.delay"),
        (0, r"got 0\nHint: use key=len"),
        (
            lambda left, right: left,
            r"got <lambda>\(left, right\): missing a required(.|\n)*\nHint: a key returns",
        ),
    ],
)
def test_the_key_of_top_must_be_a_function_of_an_element(key: Any, message: str) -> None:
    for make in (dm.Top, dm.Top.globally, dm.Top.per_key):
        with pytest.raises(dm.InvalidType, match=rf"^`key` must be a function of .*{message}"):
            make(2, key=key)


def test_a_key_of_top_that_may_be_none_is_reported_with_a_way_out() -> None:
    with pytest.raises(
        dm.UserCodeError, match=r"\('a', 1\) with \('b', None\), whose keys are 1 and None: (.|\n)*Hint: leave such el"
    ):
        run_on([("a", 1), ("b", None)], dm.Top.globally(2, key=lambda pair: pair[1]))
    given = dm.Top.globally(2, key=lambda pair: (pair[1] is not None, pair[1]))
    assert run_on([("b", None), ("a", 1), ("c", None)], given) == [[("a", 1), ("b", None)]]


def test_a_combiner_may_set_its_methods_on_the_object() -> None:
    combiner: Any = Unfinished()
    combiner.add_input = lambda accumulator, element: accumulator + element
    combiner.extract_output = lambda accumulator: accumulator
    assert run_on([3, 9], dm.CombineGlobally(combiner)) == [12]


# Further arguments --------------------------------------------------------------------------------------------------


def run_on(values: list[Any], transform: dm.PTransform) -> list[Any]:
    with dm.Pipeline() as p:
        _ = p | dm.Create(values) | transform | "out" >> dm.io.Collect()
    assert p.result is not None
    return [record.value for record in p.result.collected("out")]


def at_most(values: Iterable[int], limit: int) -> int:
    return min(limit, sum(values))


class SumAbove(dm.CombineFn[int, int, int]):
    """Adds up what is above a limit."""

    def create_accumulator(self, limit: int = 0) -> int:
        return 0

    def add_input(self, accumulator: int, element: int, limit: int = 0) -> int:
        return accumulator + (element if element > limit else 0)

    def merge_accumulators(self, accumulators: Iterable[int], limit: int = 0) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int, limit: int = 0) -> int:
        return accumulator


def test_additional_arguments_reach_the_function_or_each_method_of_the_combiner() -> None:
    assert run_on([3, 4, 5], dm.CombineGlobally(at_most, 10)) == [10]
    assert run_on([3, 4, 5], dm.CombineGlobally(at_most, limit=11)) == [11]
    assert run_on([("a", 3), ("a", 9)], dm.CombinePerKey(SumAbove(), 5)) == [("a", 9)]
    assert run_on([3, 9], dm.CombineGlobally(SumAbove, limit=5)) == [9]


def test_arguments_that_a_combiner_does_not_accept_are_refused() -> None:
    with pytest.raises(dm.InvalidType, match=r"CombinePerKey got further arguments that at_most.*does not take"):
        dm.CombinePerKey(at_most, 1, 2)
    with pytest.raises(dm.InvalidType, match=r"(?s)Sum.create_accumulator.*does not take.*Hint: .*dm.Top\(3\)"):
        dm.CombinePerKey(dm.Sum(), 3)


@pytest.mark.parametrize("function", [lambda left, right: left + right, lambda: 0])
def test_a_function_that_does_not_accept_an_iterable_is_refused_when_it_is_applied(function: Any) -> None:
    pairs = dm.Pipeline() | dm.Create([("a", 1)])
    for combining in (dm.CombinePerKey, dm.CombineGlobally):
        with pytest.raises(dm.InvalidType, match=r"with an iterable of values, which .*lambda.*\nHint: .*reduce"):
            _ = pairs | combining(function)


def test_side_inputs_of_a_combiner_are_refused() -> None:
    numbers = dm.Pipeline() | dm.Create([1])
    with pytest.raises(dm.InvalidType, match="combiners take no side inputs"):
        dm.CombineGlobally(at_most, dm.AsSingleton(numbers))


def test_a_singleton_view_is_the_combined_value_or_the_value_for_no_inputs() -> None:
    with dm.Pipeline() as p:
        numbers = p | dm.Create([1, 2, 5])
        total = numbers | dm.CombineGlobally(sum).as_singleton_view()
        none = numbers | dm.Filter(lambda x: x > 9) | "none" >> dm.Mean.globally().as_singleton_view()
        _ = numbers | dm.Map(lambda x, total, none: (x / total, none != none), total, none=none) | dm.io.Collect()  # noqa: PLR0124 - NaN
    assert p.result is not None
    assert [record.value for record in p.result.collected("Collect")] == [(0.125, True), (0.25, True), (0.625, True)]


@pytest.mark.parametrize("combiner", [dm.Sum(), sum], ids=["Sum", "sum"])
def test_durations_of_sessions_are_summed_after_one_of_them_has_discarded_its_pane(combiner: Any) -> None:
    arrivals = (
        TestStream().add(dm.duration(1), 0, key="a").add(dm.duration(2), 8, key="a").add(dm.duration(4), 8, key="a")
    )
    windows = dm.Window.into(dm.Sessions(5)).trigger(dm.Repeatedly(dm.AfterCount(2))).allowed_lateness(100).discarding()
    with dm.Pipeline() as p:
        sums = p | arrivals.add(dm.duration(8), 4, key="a") | windows | dm.CombinePerKey(combiner)
        _ = sums | "out" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value[1] for record in p.result.collected("out")] == [dm.duration(6), dm.duration(9)]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**36), max_value=10**36, places=3)))
def test_decimals_are_added_exactly_in_any_order_and_taken_back(numbers: list[Decimal]) -> None:
    total = sum(map(Fraction, numbers))
    for combine in (dm.Sum(), dm.Mean()):
        whole, reverse = combine.create_accumulator(), combine.create_accumulator()
        for number, other in zip(numbers, reversed(numbers), strict=True):
            whole, reverse = combine.add_input(whole, number), combine.add_input(reverse, other)
        merged = combine.merge_accumulators([combine.create_accumulator(), whole, reverse])
        for number in numbers:
            merged = combine.subtract_input(merged, number)
        for accumulator in (whole, reverse, merged):
            added: Any = accumulator[0] if isinstance(accumulator, tuple) else accumulator
            assert Fraction(added) == total


# Kernels


class Multiplying:
    """The methods of a combiner that multiplies."""

    def create_accumulator(self) -> int:
        return 1

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator * element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return math.prod(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


@pytest.mark.parametrize("kernel", ["product", "Sum", "", 1, ["sum"]], ids=repr)
def test_a_kernel_that_does_not_exist_is_rejected_when_the_class_is_made(kernel: Any) -> None:
    message = (
        "`kernel` of Product must be the name of a kernel, 'sum', 'count', 'mean', 'min', 'max', or None, "
        f"got {kernel!r}\nHint: leave it out"
    )
    with pytest.raises(dm.InvalidArgument, match=re.escape(message)):
        type("Product", (Multiplying, dm.CombineFn), {"kernel": kernel})


@pytest.mark.parametrize("decorate", [attrs.frozen, attrs.define(slots=False), dataclasses.dataclass(frozen=True)])
def test_a_kernel_may_be_named_in_a_class_that_is_decorated(decorate: Any) -> None:
    class Total(dm.Sum):
        kernel = "sum"

    assert decorate(Total)().own_kernel is Kernel.SUM


def test_a_kernel_that_is_set_later_is_rejected_when_it_is_used() -> None:
    class Product(Multiplying, dm.CombineFn[Any, Any, Any]):
        pass

    Product.kernel = "product"
    pairs = dm.Pipeline() | dm.Create([("a", 3), ("a", 4)])
    with pytest.raises(dm.InvalidArgument, match="`kernel` of Product must be the name of a kernel"):
        _ = pairs | dm.CombinePerKey(Product())


def test_a_combiner_without_a_kernel_is_called() -> None:
    class Product(Multiplying, dm.CombineFn[Any, Any, Any]):
        kernel = None

    with dm.Pipeline() as p:
        _ = p | dm.Create([("a", 3), ("a", 4)]) | dm.CombinePerKey(Product()) | dm.io.Collect()
    assert [record.value for record in p.result.collected("Collect")] == [("a", 12)]


@pytest.mark.parametrize("kernel", ["min", "max"])
def test_a_kernel_that_compares_is_rejected_beside_a_method_that_subtracts(kernel: str) -> None:
    with pytest.raises(dm.InvalidArgument, match=rf"Total defines `subtract_input`, but its kernel '{kernel}' cannot"):
        type("Total", (dm.Sum,), {"kernel": kernel})


LENGTHS = [datetime.timedelta(seconds=1), datetime.timedelta(seconds=2, microseconds=1), datetime.timedelta(days=-1)]
KINDS_OF_LENGTHS: dict[str, Any] = {
    "timedelta": lambda length: length,
    "pandas": pd.Timedelta,
    "numpy": np.timedelta64,
    "Duration": dm.duration,
}


@pytest.mark.parametrize("kind", KINDS_OF_LENGTHS)
def test_durations_are_added_merged_subtracted_and_averaged(kind: str) -> None:
    values = list(map(KINDS_OF_LENGTHS[kind], LENGTHS))
    total, mean = dm.Sum(), dm.Mean()
    expected = sum(LENGTHS, datetime.timedelta(0))
    added = folded(total, values)
    assert dm.duration(added) == dm.duration(expected)
    assert type(added) is type(values[0])
    assert dm.duration(total.merge_accumulators([0, folded(total, values[:1]), 0, folded(total, values[1:])])) == (
        dm.duration(expected)
    )
    assert dm.duration(total.subtract_input(added, values[2])) == dm.duration(3.000001)
    assert dm.duration(total.subtract_input(0, values[0])) == dm.duration(-1)
    assert dm.duration(mean.extract_output(folded(mean, values[:1] * 2 + [values[0] * 2]))) == dm.duration(4 / 3)
    assert type(mean.extract_output(folded(mean, values))) is type(values[0])


def test_the_mean_of_numpy_durations_is_not_truncated_to_their_unit() -> None:
    mean = dm.Mean()
    values = [np.timedelta64(1, "s"), np.timedelta64(2, "s")]
    assert mean.extract_output(folded(mean, values)) == np.timedelta64(1_500, "ms")


def test_durations_are_not_added_to_numbers() -> None:
    for values in ([5, LENGTHS[0]], [LENGTHS[0], 5], [dm.duration(5), LENGTHS[0]]):
        with pytest.raises(TypeError):
            folded(dm.Sum(), values)


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_a_pipeline_adds_durations(host: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    pairs = p | dm.Create([(key, length) for length in LENGTHS for key in "ab"])
    _ = pairs | dm.Together(total=sum, mean=dm.Mean()).per_key() | "both" >> dm.io.Collect()
    _ = pairs | dm.CombinePerKey(sum).with_hot_key_fanout(2) | "sums" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    total = sum(LENGTHS, datetime.timedelta(0))
    assert sorted(record.value for record in result.collected("sums")) == [("a", total), ("b", total)]
    assert sorted(record.value for record in result.collected("both")) == [(key, (total, total / 3)) for key in "ab"]
