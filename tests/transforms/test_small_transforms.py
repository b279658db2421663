"""ToDict, CombineValues, BatchElements, Tee, LogElements, ptransform_fn and GroupBy."""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


def values(transform: dm.PTransform, *elements: Any) -> list[Any]:
    with dm.Pipeline() as p:
        _ = p | dm.Create(elements) | transform | "out" >> dm.io.Collect()
    assert p.result is not None
    return [record.value for record in p.result.collected("out")]


def in_order(transform: dm.PTransform, *elements: Any) -> list[Any]:
    """Return what comes out in order: keys come in any."""
    return sorted(values(transform, *elements), key=repr)


# ToDict, CombineValues ----------------------------------------------------------------------------------------------


def test_to_dict_gives_values_that_do_not_depend_on_the_order() -> None:
    assert values(dm.ToDict.globally(), ("a", 1), ("b", 2)) == [{"a": 1, "b": 2}]
    assert values(dm.ToDict.globally(), ("a", 1), ("a", 2)) == values(dm.ToDict.globally(), ("a", 2), ("a", 1))
    assert values(dm.ToDict.per_key(), ("k", ("a", 1)), ("k", ("b", 2))) == [("k", {"a": 1, "b": 2})]
    assert dm.ToDict().merge_accumulators([]) == {}


def test_combine_values_combines_the_list_of_each_pair() -> None:
    assert values(dm.CombineValues(max), ("a", [1, 3]), ("a", [2])) == [("a", 3), ("a", 2)]
    assert values(dm.CombineValues(dm.Mean), ("a", (1, 2))) == [("a", 1.5)]
    assert values(dm.CombineValues(lambda numbers, at_most: min(at_most, *numbers), 2), ("a", [3, 4])) == [("a", 2)]
    with pytest.raises(dm.InvalidType, match="takes pairs"):
        values(dm.CombineValues(sum), 1, 2)


def test_a_combiner_of_values_lives_as_long_as_its_worker() -> None:
    assert values(dm.CombineValues(Tracked()), ("a", [1]), ("b", [2])) == [("a", 1), ("b", 2)]
    assert Tracked.calls == ["setup", "teardown"]


class Tracked(dm.CombineFn[int, int, int]):
    """Adds up, and notes its life."""

    calls: list[str] = []  # noqa: RUF012 - of the class, whatever copy of it runs

    def setup(self) -> None:
        Tracked.calls.append("setup")

    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return accumulator + element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return sum(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator

    def teardown(self) -> None:
        Tracked.calls.append("teardown")


# BatchElements ------------------------------------------------------------------------------------------------------


def test_batch_elements_puts_every_element_into_one_list_of_at_most_the_given_size() -> None:
    lists = values(dm.BatchElements(4), *range(50), {"a": 1}, object)
    assert all(1 <= len(batch) <= 4 for batch in lists)
    assert sorted(map(repr, (element for batch in lists for element in batch))) == sorted(
        map(repr, [*range(50), {"a": 1}, object])
    )


def test_batch_elements_with_one_shard_fills_lists_in_order() -> None:
    assert values(dm.BatchElements(2, shards=1), 1, 2, 3, 4, 5) == [[1, 2], [3, 4], [5]]


def test_invalid_sizes_of_batch_elements_are_refused() -> None:
    with pytest.raises(dm.InvalidArgument, match="`shards` must be positive, got 0"):
        dm.BatchElements(5, shards=0)
    with pytest.raises(dm.InvalidType, match="`shards` must be an int"):
        dm.BatchElements(5, shards="many")  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidArgument, match="`size` must be positive, got 0"):
        dm.BatchElements(0)


def test_the_minimal_size_of_beams_batch_elements_is_refused() -> None:
    with pytest.raises(dm.InvalidType, match=r"no argument 'min_batch_size'\nHint: use max_batch_size"):
        dm.BatchElements(min_batch_size=5)  # type: ignore[arg-type]


@on_hosts("process")
def test_a_stream_fills_lists_independently_of_its_micro_batches(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    script = TestStream()
    for number in range(10):
        script = script.processing_time(number).add(number, number)
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    windowed = p | script | dm.Window.into(dm.FixedWindows(100))
    _ = windowed | dm.BatchElements(4, shards=1) | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish(60)
    assert [record.value for record in result.collected("out")] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


# Tee, LogElements ---------------------------------------------------------------------------------------------------


def test_a_tee_passes_its_input_to_each_consumer_and_returns_it() -> None:
    with dm.Pipeline() as p:
        numbers = p | dm.Create([1, 2])
        passed = numbers | dm.Tee(
            "twice" >> dm.Map(lambda x: 2 * x), lambda seen: seen | "side" >> dm.io.Collect(), dm.io.Collect()
        )
        assert passed is numbers
        _ = passed | "main" >> dm.io.Collect()
    assert p.result is not None
    assert [node.label for node in p.plan().nodes] == ["Create", "Tee/twice", "Tee/side", "Tee/Collect", "main"]
    assert [record.value for record in p.result.collected("Tee/side")] == [1, 2]


@pytest.mark.parametrize("wrong", [3, dm.Map])
def test_a_tee_refuses_values_that_are_not_transforms(wrong: Any) -> None:
    with pytest.raises(dm.InvalidType, match=r"Tee takes transforms or functions of a collection(.|\n)*Hint"):
        dm.Tee(wrong)


def test_elements_are_printed_with_the_requested_metadata(capsys: pytest.CaptureFixture[str]) -> None:
    logged = dm.LogElements("> ", with_timestamp=True, with_window=True, with_pane=True)
    assert values(logged, dm.TimestampedValue("a", 5)) == ["a"]
    assert capsys.readouterr().out == ("> a, timestamp=1970-01-01T00:00:05Z, window=GlobalWindow(), pane=UNKNOWN 0\n")


def test_elements_are_logged_to_the_packages_logger(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "dataflow_model"):
        assert values(dm.LogElements(level=logging.INFO), 1, 2) == [1, 2]
    started, *elements, finished = [(record.name, record.getMessage()) for record in caplog.records]
    assert elements == [("dataflow_model", "1"), ("dataflow_model", "2")]
    assert "starts" in started[1]
    assert started[0] == finished[0] == "dataflow_model"
    with pytest.raises(dm.InvalidType, match=r"`level` must be a number, got 'INFO'\nHint"):
        dm.LogElements(level="INFO")  # type: ignore[arg-type] # the point


def test_a_retraction_is_logged_as_a_retraction(capsys: pytest.CaptureFixture[str]) -> None:
    each = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    with dm.Pipeline() as p:
        _ = p | dm.Create([("a", 1), ("a", 2)]) | each | dm.Sum.per_key() | dm.LogElements()
    assert capsys.readouterr().out.splitlines() == ["('a', 1)", "retraction of ('a', 1)", "('a', 3)"]


# ptransform_fn ------------------------------------------------------------------------------------------------------


@dm.ptransform_fn
def Scaled(numbers: Any, by: int, *, plus: int = 0) -> Any:  # noqa: N802 - a transform
    """Multiply."""
    return numbers | dm.Map(lambda x: x * by + plus)


def test_a_function_becomes_a_composite_of_its_name() -> None:
    p = dm.Pipeline()
    numbers = p | dm.Create([1])
    _ = numbers | Scaled(2) | "again" >> Scaled(by=3, plus=1)
    assert [node.label for node in p.plan().nodes] == ["Create", "Scaled/Map", "again/Map"]
    assert Scaled.__doc__ == "Multiply."
    assert values(Scaled(3, plus=1), 2) == [7]


def test_any_callable_can_define_a_composite() -> None:
    def plus(numbers: Any, n: int) -> Any:
        return numbers | dm.Map(lambda number: number + n)

    p = dm.Pipeline()
    numbers = p | dm.Create([1])
    transform = dm.ptransform_fn(functools.partial(plus, n=3))
    assert repr(numbers | transform()) == "PCollection('plus/Map', element_type=Any)"
    with pytest.raises(dm.InvalidArgument, match=r"plus\(numbers: .* cannot be called with a collection"):
        transform(1, 2, 3)


def test_arguments_that_the_function_does_not_accept_are_refused_at_construction() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"Scaled\(.*cannot be called with a collection(.|\n)*Hint"):
        Scaled()
    with pytest.raises(dm.InvalidType, match="ptransform_fn decorates a function"):
        dm.ptransform_fn(3)  # type: ignore[arg-type] # the point


# GroupBy ------------------------------------------------------------------------------------------------------------


class Flight(NamedTuple):
    carrier: str
    origin: str
    delay: int


FLIGHTS = [Flight("UA", "EWR", 4), Flight("UA", "JFK", 6), Flight("AA", "JFK", 1)]


def test_elements_are_grouped_by_the_value_of_a_field() -> None:
    assert in_order(dm.GroupBy("carrier"), *FLIGHTS) == [("AA", FLIGHTS[2:]), ("UA", FLIGHTS[:2])]
    assert in_order(dm.GroupBy(lambda flight: flight.delay % 2), *FLIGHTS) == [(0, FLIGHTS[:2]), (1, FLIGHTS[2:])]


def test_elements_are_grouped_by_several_fields_under_a_row() -> None:
    *_, first = in_order(dm.GroupBy("carrier", at="origin", odd=lambda flight: flight.delay % 2), *FLIGHTS)
    assert first[0]._asdict() == {"carrier": "UA", "at": "JFK", "odd": 0}
    [(key, _), _] = in_order(dm.GroupBy("carrier").force_tuple_keys(), *FLIGHTS)
    assert key._asdict() == {"carrier": "AA"}
    [(key, _), *_] = in_order(dm.GroupBy("carrier", len), *FLIGHTS)
    assert key._asdict() == {"carrier": "AA", "key1": 3}


def test_aggregates_of_groups_become_fields_of_rows() -> None:
    totals = (
        dm.GroupBy("carrier")
        .aggregate_field("delay", sum, "total")
        .aggregate_field("delay", dm.Mean(), "mean")
        .aggregate_field(lambda flight: flight.origin, dm.Count, "flights")
    )
    assert [row._asdict() for row in in_order(totals, *FLIGHTS)] == [
        {"carrier": "AA", "total": 1, "mean": 1.0, "flights": 1},
        {"carrier": "UA", "total": 10, "mean": 5.0, "flights": 2},
    ]


def test_dicts_are_grouped_by_their_keys() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 1, "b": 3}]
    assert values(dm.GroupBy("a").aggregate_field("b", max, "most"), *rows)[0]._asdict() == {"a": 1, "most": 3}


def test_groups_apply_retractions_if_all_combiners_can() -> None:
    each = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    sums = dm.GroupBy(lambda pair: pair[1] % 2).aggregate_field(lambda pair: pair[1], sum, "total")
    with dm.Pipeline() as p:
        totals = p | dm.Create([("a", 1), ("a", 2), ("b", 2)]) | each | dm.Sum.per_key() | sums
        _ = totals | "out" >> dm.io.Collect()
    assert p.result is not None
    standing: dict[Any, Any] = {}
    for record in p.result.collected("out"):
        standing[record.value.key] = None if record.is_retraction else record.value.total
    assert standing == {0: 2, 1: 3}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (dm.GroupBy, "needs something to group by"),
        (lambda: dm.GroupBy(3), "takes names of fields or functions, got 3"),  # type: ignore[arg-type] # the point
        (lambda: dm.GroupBy("a", a="b"), "'a' is there already"),
        (lambda: dm.GroupBy("a").aggregate_field("b", sum, "a"), "'a' is there already"),
        (lambda: dm.GroupBy("a").aggregate_field("b", 3, "c"), "takes a CombineFn"),  # type: ignore[arg-type] # the point
        (lambda: values(dm.GroupBy("airline"), *FLIGHTS), "names the field 'airline', which Flight does not have"),
        (lambda: values(dm.GroupBy("carrier").aggregate_field("x", sum, "y"), *FLIGHTS), "names the field 'x'"),
    ],
)
def test_grouping_by_a_missing_field_is_refused_when_it_is_built(wrong: Any, message: str) -> None:
    with pytest.raises(dm.DataflowError, match=rf"(?s){message}.*Hint: "):
        wrong()


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [
        (dm.GroupBy, r"use dm\.GroupBy\('carrier'\), or dm\.Together\(total=sum\)\.globally\(\)"),
        (
            lambda: dm.GroupBy("a").aggregate_field("b", sum, "a"),
            r"pass another name as the third argument: \.aggregate_f",
        ),
        (lambda: dm.GroupBy("a").aggregate_field("b", "total", sum), "pass another name as the third argument"),  # type: ignore[arg-type] # the point
        (lambda: dm.GroupBy("a", a="b"), r"give the expression another name: dm\.GroupBy\("),
    ],
)
def test_an_invalid_grouping_by_fields_is_reported_with_its_own_way_out(wrong: Any, hint: str) -> None:
    with pytest.raises(dm.DataflowError, match=rf"\nHint: {hint}"):
        wrong()
