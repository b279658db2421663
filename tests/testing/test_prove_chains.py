"""`prove` on groupings in a row: as streams too, on any number of shards, cut and interrupted anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import LawBroken, TestStream, prove
from dataflow_model.testing.chains import Chain, ChainedGrouping, all_together, by_remainder
from dataflow_model.testing.proving import laws, proof
from dataflow_model.testing.proving.arrivals import Case
from dataflow_model.testing.proving.drawing import Broken
from dataflow_model.testing.proving.micro_batches import MicroBatch, Schedule
from dataflow_model.testing.proving.proof_runs import Subject, groupings_of
from dataflow_model.testing.proving.runner_proof import RESTART

if TYPE_CHECKING:
    from collections.abc import Iterator


DATA = [(("a", 3), 1), (("a", 5), 8), (("g", 2), 12), (("d", 7), 4), (("g", 1), 25)]
EAGER = dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1))
TENS = dm.Window.into(dm.FixedWindows(10)).trigger(EAGER).allowed_lateness(15)
THIRTIES = dm.Window.into(dm.FixedWindows(30)).trigger(EAGER).allowed_lateness(15)
ARRIVING = TestStream([step for element in DATA for step in TestStream().bundle([element]).steps])


def test_three_groupings_in_sequence_keep_the_laws() -> None:
    def refining(windowing: dm.WindowInto) -> dm.WindowingStrategy:
        return windowing.accumulating_and_retracting().strategy

    chain = Chain(
        (
            ChainedGrouping(refining(TENS), dm.Sum()),
            ChainedGrouping(refining(THIRTIES), dm.Sum(), by_remainder),
            ChainedGrouping(refining(THIRTIES), dm.Max(), all_together),
        )
    )
    prove(chain, DATA, examples=15)


def test_the_probe_beside_each_grouping_fires_as_the_grouping_does() -> None:
    # Were each of its panes kept twice, laws 1 and 5 would never be checked against it.
    observed = Subject(numbered).run(ARRIVING, dm.LocalRunner(clock=0), probed=True)
    assert {label: len(panes) for label, panes in observed.panes.items()} == {
        label: len(traces) for label, traces in observed.traces.items()
    }


class MeanOfMeans(dm.CombineFn[Any, Any, Any]):
    """Wrong: partial means weigh the same, however many values they are of."""

    def create_accumulator(self) -> list[float]:
        return []

    def add_input(self, accumulator: list[float], element: float) -> list[float]:
        return [*accumulator, element]

    def merge_accumulators(self, accumulators: Any) -> list[float]:
        return [sum(means) / len(means) for means in accumulators if means]

    def extract_output(self, accumulator: list[float]) -> float:
        return sum(accumulator) / max(len(accumulator), 1)


def test_a_combiner_that_is_not_associative_is_found_in_the_second_grouping() -> None:
    seconds = dm.Window.into(dm.FixedWindows(1)).allowed_lateness(40)
    by_twos = dm.Window.into(dm.FixedWindows(30)).trigger(dm.Repeatedly(dm.AfterCount(2))).allowed_lateness(40)
    first = ChainedGrouping(seconds.strategy, dm.Sum())
    second = ChainedGrouping(by_twos.strategy, MeanOfMeans(), all_together)
    with pytest.raises(LawBroken) as caught:
        prove(Chain((first, second)), DATA[:3], examples=60)
    assert caught.value.law == laws.BATCH_IS_STREAM
    assert "'grouping 2'" in caught.value.problem


class Numbering(dm.DoFn):
    """Wrong: it remembers what it has seen, in its worker."""

    def setup(self) -> None:
        self.count = 0

    def process(self, element: tuple[Any, Any]) -> Iterator[tuple[Any, Any]]:
        self.count += 1
        yield element[0], (self.count, element[1])


def numbered(elements: Any) -> Any:
    sums = elements | TENS | "first" >> dm.Sum.per_key()
    return sums | dm.ParDo(Numbering()) | "thirties" >> THIRTIES | "second" >> dm.GroupByKey()


@pytest.mark.parametrize(
    ("schedule", "law", "said"),
    [
        (Schedule(shards=3, cuts=(2,)), proof.SHARDING, "on 3 shards, in micro-batches of 2 events"),
        (
            Schedule(shards=1, cuts=(1,), restarts=frozenset({5})),
            RESTART,
            "on one shard, in micro-batches of 1 events, with new workers before the micro-batches [5]",
        ),
    ],
)
def test_a_function_with_memory_between_two_groupings_is_found(schedule: Schedule, law: str, said: str) -> None:
    subject = Subject(numbered)
    with pytest.raises(Broken) as caught:
        proof.check_stream(subject, Case(ARRIVING, (), schedule), subject.run(ARRIVING, dm.LocalRunner(clock=0)))
    assert caught.value.law == law
    assert caught.value.columns[1] == said
    assert "'second'" in caught.value.problem


def test_a_pane_behind_the_watermark_of_its_own_collection_is_found() -> None:
    node = groupings_of(Subject(numbered).plan(ARRIVING)[0])[-1]
    result = dm.LocalRunner(clock=0).run(Subject(numbered).plan(ARRIVING)[0])
    result.wait_until_finish()
    [pane, *_] = result.collected("what is compared")
    metrics: Any = {
        "depth": 1,
        "counters": {"second": {}},
        "sources": {},
        "watermarks": {"second": int(pane.event_time) + 1},
    }
    before, after = MicroBatch({}, [metrics]), MicroBatch({"panes": [pane]}, [metrics])
    laws.check_on_time(node, [after, before], "panes")
    with pytest.raises(Broken, match="not late behind its output watermark"):
        laws.check_on_time(node, [before, after], "panes")
