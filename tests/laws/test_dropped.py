"""Law 11: panes and dropped elements account for every element, and what is dropped can be taken as an output."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, strategies
from dataflow_model.testing.chains import Chain, ChainedGrouping, all_together
from dataflow_model.testing.proving import laws
from dataflow_model.testing.proving.arrivals import schedules
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner
from dataflow_model.testing.proving.proof_runs import Subject, groupings_of
from tests.support.laws.chains import Case, many, of_seed, side_by_side, sinks_of
from tests.support.laws.dropping import check_counts, taking_dropped
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import difference, seen, streaming
from tests.support.runners.shard_threads import ThreadedRunner

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from pyspark.sql import SparkSession


# Drawn chains count refinements again, and take panes back at elements' event times: every runner does it alike.
pytestmark = pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")


def check(drawn: Case) -> Counter[str]:
    """Check one case in process, as a stream on its schedule of shards, cuts and crashes, and on workers."""
    plan = taking_dropped(drawn.plan())
    local = finished(dm.LocalRunner(clock=0), plan)
    hosts = {"stream": MicroBatchRunner(drawn.schedule), "workers": ThreadedRunner(2)}
    check_counts(local, drawn.labels)
    for name, runner in hosts.items():
        result = finished(runner, plan)
        check_counts(result, drawn.labels)
        for label in drawn.labels:
            expected, actual = (seen(each.collected(f"{label}/dropped")) for each in (local, result))
            problem = difference(expected, actual)
            assert not problem, f"{label} on {name}: {problem}"
    if "OddResult" not in repr(drawn.chain):  # which looks at the value, another one in the copy
        observed = Subject(drawn.chain).run(drawn.script, dm.LocalRunner(clock=0), probed=True)
        for node in groupings_of(drawn.plan()):
            laws.check_conservation(node, observed)
    records = (record for label in drawn.labels for record in local.collected(f"{label}/dropped"))
    return Counter(record.value.reason.value for record in records)


def finished(runner: Any, plan: Any) -> Any:
    result = runner.run(plan, until="drained")
    result.wait_until_finish()
    return result


def check_seeds(seeds: range) -> None:
    reasons: Counter[str] = Counter()
    for seed in seeds:
        reasons += check(of_seed(seed))
    assert set(reasons) == {"late", "closed", "retractions"}, "some reason was never drawn"


def test_elements_dropped_by_chains_are_in_their_outputs_on_every_host_in_process() -> None:
    check_seeds(range(24))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(1, 9))
def test_elements_dropped_by_many_chains_are_in_their_outputs(part: int) -> None:
    check_seeds(range(part * 1_000, part * 1_000 + 200))


@share_of_examples(0.2)
@given(strategies.test_streams(keys="adg", max_steps=12, signals=strategies.SIGNALS), strategies.chains(), st.data())
def test_elements_dropped_by_chains_of_the_public_strategy_are_in_their_outputs(
    script: TestStream, chain: Chain, data: st.DataObject
) -> None:
    check(Case(script, chain, data.draw(schedules())))


@pytest.mark.slow
def test_chains_on_spark_streaming_drop_what_they_drop_in_process(spark: SparkSession, tmp_path: Path) -> None:
    cases = many(1, scripts=6, chains=4)
    pipeline = dm.Pipeline()
    side_by_side(cases)(pipeline)
    plan = taking_dropped(pipeline.plan())
    labels = [label for name, (_, chain) in cases.items() for label, _ in sinks_of(name, chain)]
    local = finished(dm.LocalRunner(), plan)
    stream = finished(streaming(spark, tmp_path, shards=2, max_rows_per_batch=90), plan)
    assert check_counts(stream, labels) == check_counts(local, labels) > 0
    for label in labels:
        problem = difference(seen(local.collected(f"{label}/dropped")), seen(stream.collected(f"{label}/dropped")))
        assert not problem, f"{label}: {problem}"


FIRING_ONCE = [dm.AfterCount(1), dm.AfterCount(2), dm.AfterEach(dm.AfterCount(1), dm.AfterCount(1))]
CHAINS = [
    Chain(
        (
            ChainedGrouping(dm.WindowingStrategy(fn, trigger, may_lose_data=True), dm.Sum()),
            ChainedGrouping(None, None, all_together),
        )
    )
    for fn in (dm.FixedWindows(5), dm.Sessions(4), dm.GlobalWindows())
    for trigger in FIRING_ONCE
]
"""In a bounded job nothing is late, but a trigger may finish."""


def test_panes_and_dropped_elements_of_a_spark_batch_job_account_for_every_element(spark: SparkSession) -> None:
    script = TestStream()
    for value in range(12):
        script = script.add(value, 1 + value, key="ab"[value % 2])
    scripts = {f"{number}.0": (script, chain) for number, chain in enumerate(CHAINS)}
    pipeline = dm.Pipeline()
    side_by_side(scripts)(pipeline)
    labels = [label for name, (_, chain) in scripts.items() for label, _ in sinks_of(name, chain)]
    result = finished(dm.SparkRunner(spark), taking_dropped(pipeline.plan()))
    assert check_counts(result, labels) > 0
    for name, (_, chain) in scripts.items():
        (first, panes), _ = sinks_of(name, chain)
        kept = sum(record.value[1] for record in result.collected(panes))
        dropped = sum(record.value.element[1] for record in result.collected(f"{first}/dropped"))
        assert kept + dropped == sum(range(12)), name
