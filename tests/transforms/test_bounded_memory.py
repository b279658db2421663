"""Sample, ApproximateUnique and ApproximateQuantiles: what they give, and that it depends on the elements alone."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, check_combine_fn
from dataflow_model.transforms.grouping.element_bytes import element_bytes
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from pathlib import Path

MANY = range(20_000)


def folded(combine: dm.CombineFn[Any, Any, Any], values: Any, parts: int = 1) -> Any:
    """Combine values in so many parts."""
    accumulators = []
    for part in range(parts):
        accumulator = combine.create_accumulator()
        for value in list(values)[part::parts]:
            accumulator = combine.add_input(accumulator, value)
        accumulators.append(accumulator)
    return combine.extract_output(combine.merge_accumulators(accumulators))


@pytest.mark.parametrize(
    "combine", [dm.Sample(5), dm.Sample(100), dm.ApproximateUnique(64), dm.ApproximateQuantiles(7)], ids=repr
)
def test_combiners_in_bounded_memory_do_not_depend_on_order_or_on_how_inputs_are_merged(combine: Any) -> None:
    values = [*range(1000), *range(100), *[7] * 500]
    answer = folded(combine, values)
    for parts in (2, 9):
        random.Random(parts).shuffle(values)
        assert folded(combine, values, parts) == answer


@pytest.mark.parametrize("combine", [dm.Sample(2), dm.ApproximateUnique(16), dm.ApproximateQuantiles(3)], ids=repr)
def test_combiners_in_bounded_memory_keep_the_laws_of_combiners(combine: Any) -> None:
    check_combine_fn(combine, st.integers(-5, 5) | st.integers())


# Sample -------------------------------------------------------------------------------------------------------------


def test_a_sample_has_n_elements_or_all_of_them() -> None:
    assert len(folded(dm.Sample(5), MANY)) == 5
    assert sorted(folded(dm.Sample(5), [3, 1, 1])) == [1, 1, 3]
    assert sorted(folded(dm.Sample(200), range(150))) == list(range(150))


@dataclasses.dataclass(frozen=True)
class Event:
    number: int
    note: str = dataclasses.field(default="", compare=False)


@pytest.mark.parametrize(
    ("same", "kept"),
    [([0.0, -0.0], 0.0), ([Event(1, "a"), Event(1, "b")], Event(1, "b")), ([1, np.int64(1)], np.int64(1))],
)
def test_elements_that_are_equal_as_keys_are_one_that_occurs_twice(same: list[Any], kept: Any) -> None:
    for values in (same, same[::-1]):
        for parts in (1, 2):
            assert repr(folded(dm.Sample(5), values, parts)) == repr([kept, kept])


def test_another_seed_draws_another_sample() -> None:
    assert folded(dm.Sample(5, seed=1), MANY) != folded(dm.Sample(5, seed=2), MANY)


def test_each_element_has_the_same_chance() -> None:
    hits = [0] * 10
    for seed in range(2000):
        for element in folded(dm.Sample(3, seed=seed), range(10)):
            hits[element] += 1
    assert sum(hits) == 6000
    assert all(abs(hit - 600) < 5 * math.sqrt(600 * 0.7) for hit in hits), hits


def test_an_element_that_occurs_often_is_drawn_by_its_share() -> None:
    values = ["a"] * 900 + ["b"] * 100
    drawn = [element for seed in range(400) for element in folded(dm.Sample(10, seed=seed), values)]
    assert len(drawn) == 4000
    assert abs(drawn.count("b") - 400) < 5 * math.sqrt(360)


def test_elements_without_an_encoding_as_keys_are_drawn_by_value() -> None:
    values: list[Any] = [{"a": [1, 2]}, {1, 2}, math.nan, np.array([1.5]), [None]]
    assert len(folded(dm.Sample(3), values)) == 3
    with pytest.raises(dm.KeyEncodingError, match="has no encoding by its value"):
        folded(dm.Sample(3), [object()])


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_the_bytes_of_an_element_are_those_of_an_equal_one(element: Any) -> None:
    import copy

    assert element_bytes(copy.deepcopy(element)) == element_bytes(element)


@pytest.mark.parametrize("wrong", [0, -1])
def test_a_sample_of_nothing_is_refused(wrong: int) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"`n` must be at least 1, got .*\nHint"):
        dm.Sample(wrong)


def test_the_size_and_the_seed_of_a_sample_are_ints() -> None:
    with pytest.raises(dm.InvalidType, match="`n` must be an int"):
        dm.Sample(0.5)  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidType, match="`seed` must be an int"):
        dm.Sample(5, seed="a")  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidArgument, match="`seed` must fit into 64 bits"):
        dm.Sample(5, seed=2**63)


# ApproximateUnique --------------------------------------------------------------------------------------------------


def test_few_distinct_elements_are_counted_exactly() -> None:
    assert folded(dm.ApproximateUnique(16), [1, 1.0, True, "a", "a", [1], [1], math.nan, math.nan]) == 6
    assert folded(dm.ApproximateUnique(16), []) == 0
    assert folded(dm.ApproximateUnique(16), [math.nan, ("float",), ("builtins", "float")]) == 3
    odd = [np.float32("nan"), math.nan, np.float64("nan"), Decimal("nan"), np.datetime64("NaT", "us"), bytearray(b"a")]
    assert folded(dm.ApproximateUnique(16), odd) == 4


def test_values_of_two_classes_with_one_name_are_distinct() -> None:
    kinds = [attrs.make_class("Of", ["items"]) for _ in range(2)]
    kinds[1].__module__ = "another"
    assert folded(dm.ApproximateUnique(16), [kind([1]) for kind in kinds]) == 2


def test_fields_that_are_compared_by_a_function_count_as_what_it_returns() -> None:
    kind = attrs.make_class("Named", {"name": attrs.field(eq=str.lower), "items": attrs.field()})
    assert folded(dm.ApproximateUnique(16), [kind("A", [1]), kind("a", [1]), kind("b", [1])]) == 2


@pytest.mark.parametrize("error", [0.05, 0.2])
def test_the_error_of_estimates_is_exceeded_in_one_case_of_twenty_at_most(error: float) -> None:
    combine = dm.ApproximateUnique(error=error)
    errors = [abs(folded(combine, range(first, first + 3000)) / 3000 - 1) for first in range(0, 60_000, 3000)]
    assert sum(each > error for each in errors) <= 3
    assert max(errors) < 2 * error


def test_an_invalid_size_of_an_estimate_is_refused() -> None:
    assert dm.ApproximateUnique(error=0.1) == dm.ApproximateUnique(400)
    for wrong in ({}, {"size": 20, "error": 0.1}):
        with pytest.raises(dm.InvalidArgument, match="takes either `size` or `error`"):
            dm.ApproximateUnique(**wrong)  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidArgument, match="`size` must be an int of at least 16, got 15"):
        dm.ApproximateUnique(15)
    with pytest.raises(dm.InvalidArgument, match=r"`error` must be from 0\.01 to 0\.5, got 0\.6"):
        dm.ApproximateUnique(error=0.6)


# ApproximateQuantiles -----------------------------------------------------------------------------------------------


def test_quantiles_of_small_whole_numbers_are_exact() -> None:
    assert folded(dm.ApproximateQuantiles(5), range(101)) == [0, 25, 50, 75, 100]
    assert folded(dm.ApproximateQuantiles(5, reverse=True), range(101)) == [100, 75, 50, 25, 0]
    flag: Any = 1  # which is true too
    assert folded(dm.ApproximateQuantiles(3, reverse=flag), [0.3, 0.3001, 0.3002]) == [0.3002, 0.3001, 0.3]
    assert folded(dm.ApproximateQuantiles(3), [5]) == [5, 5, 5]
    assert folded(dm.ApproximateQuantiles(2), []) == []


@given(st.lists(st.floats(-1e300, 1e300) | st.integers(-(10**400), 10**400), min_size=1), st.integers(2, 9))
def test_quantiles_are_within_a_thousandth_and_their_ends_exact(values: list[Any], number: int) -> None:
    answer = folded(dm.ApproximateQuantiles(number), values)
    in_order, parts = sorted(values), number - 1
    exact = [in_order[max((part * len(values) - 1) // parts, 0)] for part in range(number)]
    assert (answer[0], answer[-1]) == (in_order[0], in_order[-1])
    for given_, wanted in zip(answer, exact, strict=True):
        if abs(wanted) < 1e300:
            assert abs(float(given_) - float(wanted)) <= abs(float(wanted)) / 1000 + 1e-300
    assert answer == sorted(answer)


def test_quantiles_compare_elements_by_the_key() -> None:
    words = ["ccc", "a", "dddd", "bb", "eeeee"]
    assert folded(dm.ApproximateQuantiles(3, key=len), words) == ["a", "ccc", "eeeee"]
    days = [dt.date(2013, 1, day) for day in (5, 1, 9)]
    assert folded(dm.ApproximateQuantiles(2, key=dt.date.toordinal), days) == [days[1], days[2]]


def test_nan_is_left_out_and_infinities_are_at_the_ends() -> None:
    values = [math.nan, math.inf, 3.0, -math.inf, 10**400]
    assert folded(dm.ApproximateQuantiles(4), values) == [-math.inf, 3.0, 10**400, math.inf]
    assert folded(dm.ApproximateQuantiles(3), [math.nan]) == []


def test_values_that_are_not_numbers_are_refused_with_the_way_out() -> None:
    with pytest.raises(dm.InvalidType, match=r"compares numbers, got 'a'\nHint: pass a key"):
        folded(dm.ApproximateQuantiles(3), ["a"])
    with pytest.raises(dm.InvalidArgument, match="`num_quantiles` must be at least 2, got 1"):
        dm.ApproximateQuantiles(1)
    with pytest.raises(dm.InvalidType, match="`num_quantiles` must be an int"):
        dm.ApproximateQuantiles("5")  # type: ignore[arg-type] # the point


# Latest -------------------------------------------------------------------------------------------------------------


def latest(*timed: Any) -> list[Any]:
    with dm.Pipeline() as p:
        elements = p | dm.Create([dm.TimestampedValue(value, at) for value, at in timed])
        _ = elements | dm.Window.into(dm.FixedWindows(10)) | dm.Latest.globally() | dm.io.Collect()
    assert p.result is not None
    return [record.value for record in p.result.collected("Collect")]


def test_the_latest_is_by_event_time_in_each_window() -> None:
    assert latest(("b", 4), ("a", 2), ("c", 11)) == ["b", "c"]


def test_the_latest_of_several_elements_at_one_time_does_not_depend_on_their_order() -> None:
    assert latest(("a", 4), ("b", 4)) == latest(("b", 4), ("a", 4))
    assert latest(({"x": 1}, 4), ({"x": 2}, 4)) == latest(({"x": 2}, 4), ({"x": 1}, 4))


@on_hosts("process")
def test_combiners_in_bounded_memory_give_the_same_results_on_every_host(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def build(p: dm.Pipeline) -> None:
        script = TestStream()
        for number in range(200):
            script = script.processing_time(number).add(number % 70, number % 50, key="ab"[number % 2])
        pairs = p | script | dm.Window.into(dm.FixedWindows(10))
        transforms: dict[str, Any] = {
            "sample": dm.Sample.per_key(3), "unique": dm.ApproximateUnique.per_key(16),
            "quantiles": dm.ApproximateQuantiles.per_key(4), "latest": dm.Latest.per_key(),
        }  # fmt: skip
        for name, transform in transforms.items():
            _ = pairs | transform | name >> dm.io.Collect()

    def answers(runner: Any) -> Any:
        p = dm.Pipeline(runner=runner)
        build(p)
        result = p.run()
        result.wait_until_finish(60)
        names = ("sample", "unique", "quantiles", "latest")
        return [sorted((repr(record.window), record.value) for record in result.collected(name)) for name in names]

    assert answers(runner_on(host, request, tmp_path / "checkpoint")) == answers(dm.LocalRunner())
