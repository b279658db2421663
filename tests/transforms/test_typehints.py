"""Element types: inferred where hints are, refused only where nothing could be right."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from typing import Any, Generic, NamedTuple, Optional, TypeVar, get_type_hints

import attrs
import pytest

import dataflow_model as dm
from dataflow_model.transforms.pipelines.typehints import clashes, may_be_pair, type_of_values

T = TypeVar("T")


class Flight(NamedTuple):
    carrier: str
    dep_delay: float
    origin: str


@attrs.frozen
class Plane:
    tail: str


class Box(Generic[T]):
    pass


class Span(dm.CombineFn[float, list[float], str]):
    def create_accumulator(self) -> list[float]:
        return []

    def add_input(self, accumulator: list[float], element: float) -> list[float]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Iterable[list[float]]) -> list[float]:
        return [element for accumulator in accumulators for element in accumulator]

    def extract_output(self, accumulator: list[float]) -> str:
        return f"{min(accumulator)} to {max(accumulator)}"


def created(values: list[Any]) -> Any:
    return dm.Pipeline() | dm.Create(values)


def length(text: str) -> int:
    return len(text)


def words(text: str) -> Iterator[str]:
    yield from text.split()


def generic(value: T) -> T:
    return value


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2], int),
        ([1, None], Optional[int]),  # noqa: UP045 - what typing makes at run time
        ([("a", 1), ("b", 2)], tuple[str, int]),
        ([Flight("UA", 1.0, "JFK")], Flight),
        ([], Any),
        ([1, "a", 2.0, b"", None], Any),
    ],
)
def test_create_knows_the_type_of_its_values(values: list[Any], expected: Any) -> None:
    assert type_of_values(values) == expected


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (dm.Map(length), int),
        (dm.Map(len), Any),
        (dm.Map(float), float),
        (dm.Map(generic), Any),
        (dm.FlatMap(words), str),
        (dm.Filter(lambda x: x), str),
        (dm.Count.per_element(), tuple[str, int]),
        (dm.WithKeys(length), tuple[int, str]),
        (dm.ToList.globally(), list[str]),
        (dm.Map(lambda x: x).with_output_types(bytes), bytes),
    ],
)
def test_element_types_follow_from_the_type_hints_of_functions(transform: dm.PTransform, expected: Any) -> None:
    assert (created(["a", "b"]) | transform).element_type == expected


@pytest.mark.parametrize(
    ("transform", "expected"),
    [
        (dm.Sum.per_key(), tuple[str, int]),
        (dm.Mean.per_key(), tuple[str, float]),
        (dm.Top.per_key(2), tuple[str, list[int]]),
        (dm.GroupByKey(), tuple[str, list[int]]),
        (dm.CombinePerKey(Span()), tuple[str, str]),
        (dm.KvSwap(), tuple[int, str]),
        (dm.Max.globally(), tuple[str, int]),
    ],
)
def test_types_of_pairs_follow_through_groupings(transform: dm.PTransform, expected: Any) -> None:
    assert (created([("a", 1)]) | transform).element_type == expected


@pytest.mark.parametrize("values", [[1], [1.5, None], [1, 1.5, True, None]])
def test_a_mean_of_numbers_that_may_be_missing_is_a_float(values: list[Any]) -> None:
    assert (created(values) | dm.Mean.globally()).element_type is float


def test_the_type_of_a_mean_of_other_values_is_not_known() -> None:
    assert (created([dt.timedelta(1), None]) | dm.Mean.globally()).element_type is Any


def test_together_returns_a_row_with_the_types_of_its_combiners() -> None:
    both = dm.Together(count=dm.Count(), mean=dm.Mean(), most=dm.Max(), span=Span(), all=dm.ToSet())
    known = (created([1, None]) | both.globally()).element_type
    assert get_type_hints(known) == {
        "count": int | None,
        "mean": float | None,
        "most": int | None,
        "span": str | None,
        "all": Any,
    }


def test_grouping_by_fields_returns_a_row_with_the_types_of_keys_and_aggregates() -> None:
    totals = dm.GroupBy("carrier", day=lambda flight: len(flight.carrier)).aggregate_field(
        "dep_delay", dm.Mean(), "mean"
    )
    known = (created([Flight("UA", 1.0, "JFK")]) | totals).element_type
    assert get_type_hints(known) == {"carrier": str | None, "day": Any, "mean": float | None}


@pytest.mark.parametrize(
    "values", [[1], ["ab"], [Flight("UA", 1.0, "JFK")], [("a", 1, 2)], [Plane("N1")], [["a", 1]], [None]]
)
def test_grouping_elements_that_are_certainly_not_pairs_is_refused(values: list[Any]) -> None:
    for transform in (dm.GroupByKey(), dm.Sum.per_key(), dm.Keys(), dm.Distinct.per_key()):
        with pytest.raises(dm.InvalidType, match=r"takes pairs \(key, value\), got elements of type"):
            _ = created(values) | transform


@pytest.mark.parametrize(
    "hint", [Any, object, tuple, tuple[int, ...], tuple[str, int], Box[int], Iterable[int], int | tuple[int, int]]
)
def test_grouping_elements_that_may_be_pairs_is_accepted(hint: Any) -> None:
    assert may_be_pair(hint)


def test_a_function_annotated_for_something_else_is_refused_with_both_types() -> None:
    with pytest.raises(dm.InvalidType, match=r"'Map' calls length\(text: str\) on elements of type int"):
        _ = created([1]) | dm.Map(length)
    with pytest.raises(dm.InvalidType, match="'FlatMap' calls words"):
        _ = created([1]) | dm.FlatMap(words)


@pytest.mark.parametrize("transform", [dm.MapTuple, dm.FlatMapTuple])
@pytest.mark.parametrize(
    ("values", "fn", "args", "problem"),
    [
        ([1], lambda a, b: a, (), "calls its function with the parts of each element, got elements of type int"),
        ([1, None], lambda a, b: a, (), "the parts of each element, got elements of type "),
        ([Plane("N1")], lambda a: a, (), "the parts of each element, got elements of type Plane"),
        (
            [("a", 1)],
            lambda a: a,
            (),
            r"calls <lambda>\(a\) with the parts of elements of type .*: too many",
        ),
        ([("a", 1)], lambda a, b, c: a, (), r"calls <lambda>\(a, b, c\) .*: missing a required argument: 'c'"),
        ([("a", 1)], lambda a, b: a, (5,), "too many positional arguments"),
        ([Flight("UA", 1.0, "JFK")], lambda a, b: a, (), "elements of type Flight: too many positional arguments"),
    ],
)
def test_a_function_that_cannot_accept_the_parts_of_elements_is_refused_when_it_is_applied(
    transform: Any, values: list[Any], fn: Any, args: tuple[Any, ...], problem: str
) -> None:
    with pytest.raises(dm.InvalidType, match=problem):
        _ = created(values) | transform(fn, *args)


@pytest.mark.parametrize(
    ("values", "fn"),
    [
        ([("a", 1), ("a",)], lambda a, b: a),
        ([("a", 1)], lambda first, *others: first),
        ([("a", 1)], lambda a, b, c=5: a),
        (["ab"], lambda a, b: a),
        ([[1, 2]], lambda a, b: a),
        ([Flight("UA", 1.0, "JFK"), None], lambda a, b, c: a),
        ([("a", 1)], max),
    ],
)
def test_a_function_that_may_accept_the_parts_of_elements_is_accepted(values: list[Any], fn: Any) -> None:
    _ = created(values) | dm.MapTuple(fn)


def test_summing_values_that_cannot_be_added_is_refused() -> None:
    message = r"combines by Sum\(\), which cannot take values of type str\nHint: map the texts .* null_values=\['-'\]"
    with pytest.raises(dm.InvalidType, match=message):
        _ = created([("a", "b")]) | dm.Sum.per_key()
    with pytest.raises(dm.InvalidType, match="cannot take values of type Flight\nHint: select the value with"):
        _ = created([Flight("UA", 1.0, "JFK")]) | dm.WithKeys("carrier") | dm.Mean.per_key()
    with pytest.raises(dm.InvalidType, match="cannot take values of type str"):
        _ = created([("a", "b")]) | dm.CombinePerKey(Span())


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, float), (float, int), (bool, int), (Any, int), (int, Any), (object, str), (int, T), (Plane, Flight),
        (int | str, int), (int, int | str), (Flight, tuple), (tuple, Flight), (list[int], list[str]),
        (Iterable[int], list), (list, Iterable[int]), (dt.date, dt.datetime), (tuple[int, ...], tuple[int, int]),
        (None, Optional[int]),  # noqa: UP045 - both spellings are met
    ],
)  # fmt: skip
def test_types_that_may_be_compatible_do_not_clash(given: Any, wanted: Any) -> None:
    assert not clashes(given, wanted)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (int, str),
        (str, int),
        (tuple[int, int], tuple[int, int, int]),
        (None, int),
        (int | None, str),
        (Flight, str),
        (str, Plane),
    ],
)
def test_types_that_are_never_compatible_clash(given: Any, wanted: Any) -> None:
    assert clashes(given, wanted)


def test_a_field_that_the_rows_do_not_have_is_refused() -> None:
    flights = created([Flight("UA", 1.0, "JFK")])
    with pytest.raises(
        dm.InvalidArgument, match=r"the field 'delay', which Flight does not have\nHint: its fields are .*dep_delay"
    ):
        _ = flights | dm.WithKeys("carrier", value="delay")
    expected = tuple[tuple[str, str], float]
    assert (flights | dm.WithKeys(("carrier", "origin"), value="dep_delay")).element_type == expected


def _named(letter: str, number: int) -> str:
    return letter * number


def _swapped(number: int, letter: str) -> str:
    return letter * number


@pytest.mark.parametrize("transform", [dm.MapTuple, dm.FlatMapTuple])
def test_a_part_of_an_element_that_contradicts_the_annotation_is_refused(transform: Any) -> None:
    pairs = dm.Pipeline() | dm.Create([("a", 1)])
    _ = pairs | "fits" >> transform(_named)
    with pytest.raises(
        dm.InvalidType, match=r"tuple\[str, int\]: number takes int, not str\nHint: change the annotation"
    ):
        _ = pairs | transform(_swapped)
