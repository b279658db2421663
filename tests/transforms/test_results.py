"""A few transforms end to end, in process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Iterable


def largest(values: Iterable[Any]) -> Any:
    return max(values)


def run(build: Any, *values: Any) -> list[Any]:
    p = dm.Pipeline()
    _ = build(p | dm.Create(values)) | "kept" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    return [record.value for record in result.collected("kept")]


@pytest.mark.parametrize(
    ("build", "values", "expected"),
    [
        (lambda c: c | dm.Map(lambda x, by: x * by, 10), (1, 2), [10, 20]),
        (lambda c: c | dm.MapTuple(lambda a, b: a + b), ((1, 2), (3, 4)), [3, 7]),
        (lambda c: c | dm.FlatMapTuple(lambda a, n: [a] * n), (("x", 2),), ["x", "x"]),
        (lambda c: (c, c) | dm.Flatten(), (1,), [1, 1]),
        (lambda c: (c | dm.Partition(lambda x, n: x % n, 2))[1], (1, 2, 3), [1, 3]),
        (lambda c: c | dm.Distinct(), (2, 1, 2), [1, 2]),
        (lambda c: c | dm.Distinct.per_key(), (("a", 1), ("a", 1), ("a", 2)), [("a", 1), ("a", 2)]),
        (lambda c: c | dm.Count.per_element(), ("b", "a", "b"), [("a", 1), ("b", 2)]),
        (lambda c: c | dm.Mean.globally(), (1, 2), [1.5]),
        (lambda c: c | dm.CombineGlobally(largest), tuple(range(100)), [99]),
        (lambda c: c | dm.CombineGlobally(sum), (), []),
        (lambda c: c | dm.Top.globally(2), (3, 1, 2), [[3, 2]]),
        (lambda c: c | dm.WithKeys("k", value="v") | dm.Sum.per_key(), ({"k": 1, "v": 2}, {"k": 1, "v": 3}), [(1, 5)]),
        (lambda c: c | dm.WithKeys(len), ("aa",), [(2, "aa")]),
        (lambda c: c | dm.Reshuffle() | dm.Filter(lambda x: x > 1), (1, 2), [2]),
    ],
)
def test_each_transform_gives_the_expected_elements(build: Any, values: tuple[Any, ...], expected: list[Any]) -> None:
    assert sorted(run(build, *values)) == expected


def test_outputs_of_a_map_are_separated_by_tag() -> None:
    def sort(x: int) -> Any:
        return dm.TaggedOutput("large", x) if x > 1 else x

    assert run(lambda c: (c | dm.Map(sort).with_outputs("large")).large, 1, 2) == [2]
    assert run(lambda c: (c | dm.Map(sort).with_outputs("large")).main, 1, 2) == [1]


def test_elements_that_fail_become_dead_letters() -> None:
    def ok_and_dead(c: Any) -> Any:
        return c | dm.Map(lambda x: 10 // x).with_exception_handling()

    assert run(lambda c: ok_and_dead(c)[0], 5, 0) == [2]
    (dead,) = run(lambda c: ok_and_dead(c)[1], 5, 0)
    assert (dead.element, dead.label) == (0, "Map")
    assert "ZeroDivisionError" in dead.reason


def test_collections_are_grouped_by_one_key() -> None:
    def join(c: Any) -> Any:
        names = c.pipeline | "names" >> dm.Create([("UA", "United")])
        return {"name": names, "delay": c} | dm.CoGroupByKey()

    rows = run(join, ("UA", 4), ("AA", 1))
    assert sorted(rows, key=str) == [("AA", {"name": [], "delay": [1]}), ("UA", {"name": ["United"], "delay": [4]})]


def test_distinct_emits_an_element_once_however_often_its_window_fires() -> None:
    often = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
    assert run(lambda c: c | often | dm.Distinct(), 1, 1, 1) == [1]


def test_with_timestamps_determines_the_windows_of_elements() -> None:
    def hourly(c: Any) -> Any:
        timed = c | dm.WithTimestamps(lambda e: e[1]) | dm.Window.into(dm.FixedWindows("1 hour"))
        return timed | dm.Together(count=dm.Count, last=max).per_key()

    panes = run(hourly, ("UA", 60), ("UA", 61), ("UA", 3600))
    assert [(key, row.count, row.last) for key, row in panes] == [("UA", 2, 61), ("UA", 1, 3600)]
