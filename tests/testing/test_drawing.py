"""Drawing cases, and the error where hypothesis is missing."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import check_combine_fn, check_trigger, check_window_fn, prove
from dataflow_model.testing.comparing import difference, identical, same
from dataflow_model.testing.proving.drawing import Broken, drawn_cases, smallest_broken


def test_the_smallest_broken_case_is_returned() -> None:
    def has_two_alike(case: list[int]) -> None:
        if len(set(case)) < len(case):
            raise Broken("two alike")

    breach = smallest_broken(st.lists(st.integers()), has_two_alike, 200)
    assert breach is not None
    assert breach[0] == [0, 0]


def test_a_case_that_breaks_only_once_is_still_returned() -> None:
    seen: list[int] = []

    def breaks_once(case: int) -> None:
        seen.append(case)
        if len(seen) == 5:
            raise Broken("once")

    breach = smallest_broken(st.integers(), breaks_once, 50)
    assert breach is not None
    assert breach[1].problem == "once"


def test_the_same_cases_are_drawn_each_time() -> None:
    assert drawn_cases(st.integers(), 20) == drawn_cases(st.integers(), 20)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        (prove, (lambda elements: elements, [])),
        (check_combine_fn, (dm.Sum(), [1])),
        (check_trigger, (dm.Always(),)),
        (check_window_fn, (dm.FixedWindows(1),)),
    ],
    ids=["prove", "check_combine_fn", "check_trigger", "check_window_fn"],
)
def test_without_hypothesis_a_tool_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tool: Any, arguments: tuple[Any, ...]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ModuleNotFoundError, match=r"not installed\nHint: run pip install 'dataflow-model\[testing\]'"):
        tool(*arguments)


def test_floats_are_compared_to_nine_digits_and_lists_in_any_order() -> None:
    nan = float("nan")
    assert same([0.1 + 0.2, ("a", nan)], [("a", nan), 0.3])
    assert not same(("a", "b"), ("b", "a"))
    assert not same(1.0, 1.00001)
    assert same({"a": [1, 2]}, {"a": [2, 1]})
    assert not same({"a": 1}, {"b": 1})
    assert difference([1, 1], [1]) == ([1], [])


def test_identical_values_are_identical_to_the_last_bit() -> None:
    assert not identical(0.1 + 0.2, 0.3)
    assert identical(float("nan"), float("nan"))
    assert not identical({"a": 1, "b": 2}, {"b": 2, "a": 1})


@dataclasses.dataclass
class Reading:
    """A value with a float inside."""

    degrees: Any


class Plain:
    """A value without `__eq__`."""

    def __init__(self, degrees: Any) -> None:
        self.degrees = degrees


class Failing:
    """A value whose `==` fails."""

    def __eq__(self, other: object) -> bool:
        raise ValueError("no truth")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "wrap", [Reading, Plain, np.array, lambda value: np.array([1, value]), lambda value: value * 1j]
)
def test_floats_inside_other_values_are_compared_to_nine_digits(wrap: Any) -> None:
    assert same(wrap(0.1 + 0.2), wrap(0.3))
    assert not identical(wrap(0.1 + 0.2), wrap(0.3))
    assert identical(wrap(0.3), wrap(0.3))
    assert identical(wrap(float("nan")), wrap(float("nan")))
    assert not same(wrap(0.3), wrap(0.4))


def test_values_that_cannot_be_compared_are_reported() -> None:
    for compare in (same, identical):
        with pytest.raises(dm.InvalidType, match="values of type Failing and Failing cannot be compared: no truth"):
            compare(Failing(), Failing())


def test_the_check_of_a_combiner_compares_arrays_and_complex_numbers() -> None:
    check_combine_fn(functools.partial(sum, start=0), [np.array([1.5, 2]), np.array([0.1, 3])])
    check_combine_fn(functools.partial(sum, start=0), [0.1 + 1j, 0.2 + 2j, 0.3j])
    with pytest.raises(dm.InvalidType, match="cannot be compared: no truth"):
        check_combine_fn(dm.Top(1, key=id), [Failing(), Failing()])
