"""Values that a combiner refuses become dead letters, and the results are those of the other values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.testing import TestStream, prove
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

ROWS: dict[str, list[Any]] = {"at": [1, 2, 3, 12, 13, 14], "key": list("aababa"), "amount": [1, None, 2, 4, None, 8]}
"""Two windows of ten seconds; the combiner refuses one amount in each."""


class Longest(dm.CombineFn[Any, Any, Any]):
    """Refuses numbers."""

    def create_accumulator(self) -> Any:
        return ""

    def add_input(self, accumulator: str, element: str) -> str:
        return max(accumulator, element, key=len)

    def merge_accumulators(self, accumulators: Iterable[str]) -> str:
        return max(accumulators, key=len)

    def extract_output(self, accumulator: str) -> str:
        return accumulator


def _doubled(values: Iterable[Any]) -> Any:
    """A function over values that fails for `None` alone."""
    return sum(value + 0 for value in values)


def answers(result: Any, *labels: str) -> list[Any]:
    return [sorted((record.value for record in result.collected(label)), key=repr) for label in labels]


def elements(result: Any, label: str) -> list[Any]:
    return sorted((record.value.element for record in result.collected(label)), key=repr)


@on_hosts("local", "workers", "process", slow=("batch", "streaming"))
def test_a_value_that_a_combiner_refuses_is_a_dead_letter_on_every_host(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    (tmp_path / "rows").mkdir()
    seconds = pa.array([at * 1_000_000 for at in ROWS["at"]], pa.int64())
    pq.write_table(pa.table({**ROWS, "at": seconds}), tmp_path / "rows" / "a.parquet")
    windows = dm.Window.into(dm.FixedWindows(10))
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at") | "ten seconds" >> windows
    pairs = rows | "columns" >> dm.WithKeys("key", value="amount")
    mapped = rows | "pairs" >> dm.Map(lambda row: (row.key, row.amount))
    built: dict[str, Any] = {
        "sums": pairs | "sums" >> dm.Sum.per_key().with_exception_handling(),
        "function": mapped | "function" >> dm.CombinePerKey(_doubled).with_exception_handling("refused"),
        "parts": mapped | "parts" >> dm.Mean.per_key().with_hot_key_fanout(3).with_exception_handling(),
        "all": mapped | dm.Values() | "all" >> dm.Max.globally().with_exception_handling(),
        "rows by key": rows
        | "rows by key" >> dm.GroupBy("key").aggregate_field("amount", sum, "total").with_exception_handling(),
    }
    for label, (results, refused) in built.items():
        _ = results | f"out {label}" >> dm.io.Collect()
        _ = refused | f"bad {label}" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish(300)
    sums = [("a", 1), ("a", 12), ("b", 2)]
    assert answers(result, "out sums", "out function") == [sums, sums]
    assert answers(result, "out parts") == [[("a", 1.0), ("a", 6.0), ("b", 2.0)]]
    assert answers(result, "out all") == [[2, 8]]
    assert [tuple(row) for row in answers(result, "out rows by key")[0]] == sums
    for label in ("sums", "function", "parts"):
        assert elements(result, f"bad {label}") == [("a", None), ("b", None)], label
    assert elements(result, "bad all") == [None, None]
    assert sorted(row.key for row in elements(result, "bad rows by key")) == ["a", "b"]


def test_the_retraction_of_a_refused_value_is_a_dead_letter_that_is_a_retraction() -> None:
    script = TestStream().add("x", 1, key="a").add("yy", 2, key="a").add(7, 3, key="a").add("zzz", 4, key="a")
    each = dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))
    with dm.Pipeline() as p:
        latest = p | script | each.accumulating_and_retracting() | dm.Latest.per_key()
        longest, refused = latest | "longest" >> dm.CombinePerKey(Longest()).with_exception_handling()
        _ = longest | "out" >> dm.io.Collect()
        _ = refused | "bad" >> dm.io.Collect()
    bad = [(record.value.element, record.is_retraction) for record in p.result.collected("bad")]
    assert bad == [(("a", 7), False), (("a", 7), True)]
    standing: dict[Any, int] = {}
    for record in p.result.collected("out"):
        standing[record.value] = standing.get(record.value, 0) + (-1 if record.is_retraction else 1)
    assert {value for value, count in standing.items() if count} == {("a", "zzz")}


def test_the_laws_hold_if_values_are_refused_by_a_combiner() -> None:
    def sums(values: Any) -> Any:
        windowing = dm.Window.into(dm.Sessions(5)).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))
        windowed = values | windowing.accumulating_and_retracting()
        combined, _ = windowed | dm.Sum.per_key().with_exception_handling()
        return combined

    prove(sums, [(("a", 1), 1), (("a", None), 3), (("a", 4), 7), (("b", "x"), 2), (("b", 3), 20)], examples=15)


def test_the_check_acquires_and_releases_its_own_combiner() -> None:
    steps: list[str] = []

    class Connected(dm.CombineFn[Any, Any, Any]):
        def __init__(self) -> None:
            self.connection: list[str] = []

        def setup(self) -> None:
            self.connection.append("open")
            steps.append("open")

        def create_accumulator(self) -> Any:
            return 0

        def add_input(self, accumulator: Any, element: Any) -> Any:
            assert self.connection == ["open"]
            return accumulator + element

        def merge_accumulators(self, accumulators: Iterable[Any]) -> Any:
            return sum(accumulators)

        def extract_output(self, accumulator: Any) -> Any:
            return accumulator

        def teardown(self) -> None:
            self.connection.clear()
            steps.append("close")

    with dm.Pipeline() as p:
        sums, _ = p | dm.Create([("a", 1), ("a", None)]) | dm.CombinePerKey(Connected()).with_exception_handling()
        _ = sums | dm.io.Collect()
    assert [record.value for record in p.result.collected("Collect")] == [("a", 1)]
    assert (steps.count("open"), steps.count("close")) == (2, 2)


def test_a_combiner_that_keeps_and_changes_its_accumulator_does_not_see_refused_values() -> None:
    class Listing(dm.CombineFn[Any, list[Any], list[Any]]):
        """Changes its accumulator before it raises."""

        def create_accumulator(self) -> list[Any]:
            return []

        def add_input(self, accumulator: list[Any], element: Any) -> list[Any]:
            accumulator.append(element)
            return accumulator if element > 0 else []

        def merge_accumulators(self, accumulators: Iterable[list[Any]]) -> list[Any]:
            return [value for accumulator in accumulators for value in accumulator]

        def extract_output(self, accumulator: list[Any]) -> list[Any]:
            return sorted(accumulator)

    with dm.Pipeline() as p:
        pairs = p | dm.Create([("a", 1), ("a", None), ("a", 2)])
        lists, _ = pairs | dm.CombinePerKey(Listing()).with_exception_handling()
        _ = lists | dm.io.Collect()
    assert [record.value for record in p.result.collected("Collect")] == [("a", [1, 2])]


def test_an_error_that_depends_on_other_values_still_stops_the_run() -> None:
    p = dm.Pipeline()
    sums, _ = p | dm.Create([("a", 1), ("a", "x")]) | dm.Max.per_key().with_exception_handling()
    _ = sums | dm.io.Collect()
    with pytest.raises(dm.UserCodeError, match="not supported between instances of"):
        p.run().wait_until_finish()


def test_dead_letters_of_a_combiner_are_explained_and_do_not_change_the_label() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | dm.Sum.per_key().with_exception_handling("bad")
    explained = explain(p.plan())
    assert "+ Sum.PerKey/Check: the elements that Sum() takes; dead letters to bad" in explained
    assert "\n  Sum.PerKey: combine by Sum() per key and window" in explained


def test_dead_letters_of_a_grouping_need_a_tag_and_a_combiner() -> None:
    with pytest.raises(dm.InvalidArgument, match="need a tag that no other output has, got 'main'"):
        dm.Sum.per_key().with_exception_handling("main")
    wrong: Any = 5
    with pytest.raises(dm.InvalidType, match="the tag of dead letters must be text, got 5"):
        dm.Sum.globally().with_exception_handling(wrong)
    with pytest.raises(dm.InvalidArgument, match="'GroupBy' combines nothing, so that no combiner could refuse"):
        _ = dm.Pipeline() | dm.Create([("a", 1)]) | dm.GroupBy(lambda pair: pair[0]).with_exception_handling()
