"""`check_combine_fn` takes the built-in combiners and finds what is wrong with others."""

from __future__ import annotations

import functools
import math
import operator
import statistics
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import check_combine_fn

if TYPE_CHECKING:
    from collections.abc import Iterable

FLOATS = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("combine", "inputs"),
    [
        (dm.Sum(), [1, 2, 5]),
        (dm.Sum(), FLOATS),
        (dm.Count(), ["a", None]),
        (dm.Mean(), st.integers(-5, 5)),
        (dm.Mean(), FLOATS),
        (dm.Min(), st.floats()),
        (dm.Max(), ["a", "b"]),
        (dm.ToList(), [1, 2]),
        (dm.ToSet(), [1, 2, 2]),
        (dm.Top(2), [1, 2, 3, 4]),
        (dm.Top(2), [1.0, 2.0, float("nan")]),
    ],
)
def test_the_built_in_combiners_keep_the_rules(combine: dm.CombineFn[Any, Any, Any], inputs: Any) -> None:
    check_combine_fn(combine, inputs)


class Keeping(dm.CombineFn[Any, list[Any], Any]):
    """A good combiner, for others to spoil."""

    def create_accumulator(self) -> list[Any]:
        return []

    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        accumulator.append(element)
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        return [value for accumulator in accumulators for value in accumulator]

    def extract_output(self, accumulator: list[Any]) -> Any:
        return sorted(accumulator)


class GivesItsOwnList(Keeping):
    def extract_output(self, accumulator: list[Any]) -> Any:
        return accumulator


class EmptiesItself(Keeping):
    def extract_output(self, accumulator: list[Any]) -> Any:
        total = sum(accumulator)
        accumulator.clear()
        return total


class SharesOneList(Keeping):
    only: ClassVar[list[Any]] = []

    def create_accumulator(self) -> list[Any]:
        return self.only


class InOrder(Keeping):
    def extract_output(self, accumulator: list[Any]) -> Any:
        return tuple(accumulator)


class AveragesPairs(dm.CombineFn[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return None

    def add_input(self, accumulator: Any, element: Any) -> Any:
        return element if accumulator is None else (accumulator + element) / 2

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        present = [accumulator for accumulator in accumulators if accumulator is not None]
        return sum(present) / len(present) if present else None

    def extract_output(self, accumulator: Any) -> Any:
        return accumulator


class EmptiesWhatItMerges(Keeping):
    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        first, *others = accumulators
        for other in others:
            first.extend(other)
            other.clear()
        return first


class AdoptsItsInput(Keeping):
    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        element.extend(accumulator)
        return list(element)


class LosesTheFirstAlone(Keeping):
    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        to_merge = list(accumulators)
        return super().merge_accumulators(to_merge) if len(to_merge) > 1 else []


class HoldsALock(Keeping):
    def create_accumulator(self) -> list[Any]:
        return [threading.Lock()]

    def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
        merged = self.create_accumulator()
        for accumulator in accumulators:
            merged.extend(accumulator[1:])
        return merged

    def extract_output(self, accumulator: list[Any]) -> Any:
        return len(accumulator) - 1


class ForgetsToSubtract(dm.Sum):
    def subtract_input(self, accumulator: Any, element: Any) -> Any:
        return accumulator


class NamesTheWrongKernel(dm.Count):
    kernel = "sum"


class HasOtherAccumulators(dm.Max):
    kernel = "max"

    def create_accumulator(self) -> Any:
        return -math.inf

    def extract_output(self, accumulator: Any) -> Any:
        return None if accumulator == -math.inf else accumulator


class AddsInAnotherOrder(dm.Sum):
    """Differs from its kernel in the last bit only."""

    kernel = "sum"

    def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
        sums = [accumulator for accumulator in accumulators if accumulator]
        return math.fsum(sums) if sums else 0


class RoundsItsOutput(dm.Mean):
    kernel = "mean"

    def extract_output(self, accumulator: Any) -> Any:
        return round(super().extract_output(accumulator), 1)


class SubtractsTwice(dm.Mean):
    kernel = "mean"

    def subtract_input(self, accumulator: Any, element: Any) -> Any:
        total, count = super().subtract_input(accumulator, element)
        return total, count or 0.0


class Raises(Keeping):
    def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
        if element == 3:
            raise ZeroDivisionError
        return super().add_input(accumulator, element)


@pytest.mark.parametrize(
    ("combine", "inputs", "words"),
    [
        (GivesItsOwnList(), [1, 2], "must not change an output after returning it"),
        (EmptiesItself(), [1, 2], "must return the same output when it is extracted twice"),
        (SharesOneList(), [1, 2], "must create a new accumulator each time"),
        (InOrder(), [1, 2], "must not depend on the order|must be commutative"),
        (AveragesPairs(), [1, 2], "must not depend on the order|must be associative|must merge"),
        (EmptiesWhatItMerges(), [1, 2], "must not change the accumulators that it merges"),
        (AdoptsItsInput(), [[1], [2]], "must not change its inputs"),
        (LosesTheFirstAlone(), [1], "must not be changed by merging a single accumulator"),
        (HoldsALock(), [1], "must have picklable accumulators"),
        (ForgetsToSubtract(), [1], "must reverse adding 1 when it is subtracted"),
        (NamesTheWrongKernel(), [1, 2], "must have the same accumulators as its kernel 'sum', got 1 instead of 2"),
        (
            HasOtherAccumulators(),
            [1, 2],
            "must have the same accumulators as its kernel 'max', got -inf",
        ),
        (AddsInAnotherOrder(), [0.1, 0.2, 0.3], "must have the same accumulators as its kernel 'sum', got 0.6"),
        (RoundsItsOutput(), [1.0, 1.25], "must return the same as its kernel 'mean', got 1.2 instead of 1.25"),
        (SubtractsTwice(), [1, 2], "must have the same accumulators as its kernel 'mean'"),
        (Raises(), [1, 3], "raises ZeroDivisionError"),
    ],
)
def test_combiners_that_break_a_rule_are_found(
    combine: dm.CombineFn[Any, Any, Any], inputs: list[Any], words: str
) -> None:
    with pytest.raises(AssertionError, match=words) as caught:
        check_combine_fn(combine, inputs)
    assert "inputs: [" in str(caught.value)


def test_inputs_that_a_kernel_does_not_take_are_not_compared_with_it() -> None:
    class Longest(dm.Max):
        kernel = "max"

        def add_input(self, accumulator: Any, element: Any) -> Any:
            if not isinstance(element, str):
                return super().add_input(accumulator, element)
            return element if accumulator is None else max(accumulator, element, key=lambda text: (len(text), text))

    check_combine_fn(Longest(), ["a", "bb", "cc"])
    check_combine_fn(Longest(), [1, 2])
    check_combine_fn(Longest(), [1.0, 2])


def test_a_subclass_is_not_compared_with_the_kernel_of_its_base_class() -> None:
    class Tens(dm.Count):
        def extract_output(self, accumulator: int) -> int:
            return 10 * accumulator

    check_combine_fn(Tens(), [1, 2])


def test_the_inputs_shown_are_the_smallest_that_break_the_rule() -> None:
    with pytest.raises(AssertionError, match=r"inputs: \[3\]"):
        check_combine_fn(Raises(), [1, 2, 3])


def test_the_comparison_may_be_restricted_to_a_part_of_the_output() -> None:
    check_combine_fn(InOrder(), [1, 2, 3], by=sorted)


def test_a_check_without_inputs_is_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match="check_combine_fn draws from `inputs`, got none"):
        check_combine_fn(dm.Sum(), [])


@pytest.mark.parametrize(
    "function", [sum, max, math.prod, lambda values: max(0, *values), functools.partial(sum, start=0)]
)
def test_an_associative_function_is_a_combiner(function: Any) -> None:
    check_combine_fn(function, [1, 2, 5])


def number(values: Any) -> int:
    return len(list(values))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            number,
            r"^number must return the same over the results of \[.*\n  inputs: .*\nHint: .* write a CombineFn instead",
        ),
        (statistics.geometric_mean, "^geometric_mean must return the same over the results of"),
        (lambda values: {value % 2 for value in values}, "must take its own results, of .*, as inputs: "),
        (
            lambda values: functools.reduce(operator.sub, values),
            "must return the same over|must not depend on the order",
        ),
    ],
)
def test_a_function_that_is_not_associative_is_found_with_few_inputs(function: Any, words: str) -> None:
    with pytest.raises(AssertionError, match=words):
        check_combine_fn(function, [1, 2, 5])


class NeedsItsSetup(dm.CombineFn[int, int, int]):
    """Holds in between what cannot be pickled."""

    steps: ClassVar[list[str]] = []

    def setup(self) -> None:
        self.steps.append("setup")
        self.lock = threading.Lock()

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        with self.lock:
            return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        with self.lock:
            return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        with self.lock:
            return accumulator

    def teardown(self) -> None:
        self.steps.append("teardown")
        del self.lock


def test_a_combiner_is_set_up_before_it_is_checked_and_torn_down_at_the_end() -> None:
    check_combine_fn(NeedsItsSetup(), [1, 2])
    assert NeedsItsSetup.steps == ["setup", "setup", "teardown", "teardown"]  # it and its pickled copy


class CannotBePickled(dm.Sum):
    """Is no value that a worker can get."""

    def __reduce__(self) -> Any:
        raise TypeError("not that")


def test_a_combiner_that_cannot_be_pickled_is_found() -> None:
    with pytest.raises(AssertionError, match="must be picklable: not that"):
        check_combine_fn(CannotBePickled(), [1])
