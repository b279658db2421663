"""Law 2 for keyed nodes side by side: what two of them emit for one cause has one order, on any number of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from tests.support.pipelines import difference, run, seen

if TYPE_CHECKING:
    from collections.abc import Callable

    Branch = Callable[[dm.PCollection], dm.PCollection]

SINKS = ("merged", "lists")
KEYS = "abcd"
EARLY = dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterWatermark(early=dm.AfterCount(1)))


def script() -> TestStream:
    steps = TestStream()
    for start in (0, 10):
        for number, key in enumerate(KEYS):
            steps = steps.add(start + number, start + number, key=key)
        steps = steps.watermark(start + 10)
    return steps


def twice(pair: Any) -> list[Any]:
    return [(pair, "first"), (pair, "second")]


BRANCHES: dict[str, Branch] = {
    "sums": lambda pairs: pairs | "sum" >> dm.Sum.per_key(),
    "counts": lambda pairs: pairs | "count" >> dm.Count.per_key(),
    "reshuffled": lambda pairs: pairs | "shuffle" >> dm.Reshuffle(),
    "doubled": lambda pairs: pairs | "shuffle before" >> dm.Reshuffle() | dm.FlatMap(twice),
    "distinct": lambda pairs: pairs | "deduplicate" >> dm.Deduplicate(lambda pair: pair, horizon=60),
}


def side_by_side(*names: str) -> Callable[[dm.Pipeline], Any]:
    """Return a pipeline in which keyed nodes are given the same elements, and one grouping all that they emit."""

    def build(p: dm.Pipeline) -> None:
        pairs = p | script() | EARLY
        named = [
            BRANCHES[name](pairs) | f"name {name}" >> dm.Map(lambda pair, name: (name, pair), name) for name in names
        ]
        merged = tuple(named) | dm.Flatten()
        _ = merged | "merged" >> dm.io.Collect()
        listed = merged | dm.Map(lambda value: ("all", value)) | "one list" >> dm.GroupByKey()
        _ = listed | "lists" >> dm.io.Collect()

    return build


@pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")
@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 6), marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize("shards", [1, 2, 3])
@pytest.mark.parametrize(
    "names",
    [
        ("sums", "reshuffled"),
        ("reshuffled", "sums"),
        ("sums", "counts"),
        ("doubled", "reshuffled"),
        ("distinct", "doubled", "counts"),
    ],
    ids=" and ".join,
)
def test_outputs_of_parallel_nodes_are_in_the_order_of_the_local_runner(
    names: tuple[str, ...], shards: int, seeds: range
) -> None:
    build = side_by_side(*names)
    expected = run(dm.LocalRunner(), build)
    for seed in seeds:
        sharded: Any = MicroBatchRunner(Schedule(shards, cuts=(3,) if seed % 2 else (1_000,), seed=seed))
        actual = run(sharded, build)
        for sink in SINKS:
            problem = difference(seen(expected.collected(sink)), seen(actual.collected(sink)))
            assert not problem, f"seed {seed}, {sink}: {problem}"
