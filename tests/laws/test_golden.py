"""Golden panes: drawn pipelines show on every host what they showed when their digests were written."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import attrs
import pytest

import dataflow_model as dm
from tests.support.golden.drawing import COUNT, drawn
from tests.support.golden.families import COMBINERS, FAMILIES
from tests.support.golden.hosts import HOSTS, Host
from tests.support.golden.jobs import BOUNDED, answers, jobs_of, outcomes
from tests.support.golden.kept import difference, digests_of, kept
from tests.support.golden.outcomes import digest, text_of
from tests.support.golden.parts import LEAVES
from tests.support.pipelines import streaming
from tests.support.settings import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dataflow_model.plan.columns.records import Record

QUICK = 120
"""How many pipelines `make test` runs in process."""
PARTS = 8
OTHERS = ("stream", "workers", "2 shards", "3 shards")
"""The other hosts without Java; each runs a quarter of the pipelines, and together they run all."""
NOTHING = digest([])


# What is kept ---------------------------------------------------------------------------------------------------------


def test_a_sample_of_the_golden_pipelines_has_the_stored_digests_in_process() -> None:
    assert difference(range(QUICK)) == ""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_all_golden_pipelines_have_the_stored_digests_in_process(part: int) -> None:
    assert difference(range(QUICK + part, COUNT, PARTS)) == ""


@pytest.mark.parametrize("host", OTHERS)
def test_a_few_golden_pipelines_have_the_stored_digests_on_the_other_hosts(host: str) -> None:
    first = 10 * OTHERS.index(host)
    assert difference(range(first, first + 8), host) == ""


@pytest.mark.slow
@pytest.mark.parametrize("host", OTHERS)
def test_a_quarter_of_the_golden_pipelines_has_the_stored_digests_on_each_other_host(host: str) -> None:
    turn = OTHERS.index(host)
    assert difference([number for number in range(COUNT) if number // 10 % len(OTHERS) == turn], host) == ""


# On Spark, many in one job, so compared with what the same job shows in process.


@pytest.mark.parametrize(
    "numbers", [range(40, 42), *(pytest.param(range(at, at + 30), marks=pytest.mark.slow) for at in (100, 130, 160))]
)
def test_golden_pipelines_run_together_on_spark_streaming_emit_what_they_emit_in_process(
    spark: SparkSession, tmp_path: Path, numbers: range
) -> None:
    for index, job in enumerate(jobs_of(numbers)):
        expected = outcomes(job, dm.LocalRunner(clock=0))
        runner = streaming(spark, tmp_path / str(index), shards=2, max_rows_per_batch=300)
        actual = outcomes(job, runner)
        for number in job:
            assert actual[number] == expected[number], drawn(number).described()


@pytest.mark.parametrize("numbers", [range(40, 44), pytest.param(range(200, 400), marks=pytest.mark.slow)])
def test_golden_pipelines_that_emit_once_have_the_same_results_in_a_spark_batch_job(
    spark: SparkSession, numbers: range
) -> None:
    bounded = [number for number in numbers if drawn(number).family in BOUNDED]
    expected, actual = answers(bounded, dm.LocalRunner(clock=0)), answers(bounded, dm.SparkRunner(spark))
    for number in bounded:
        assert actual[number] == expected[number], drawn(number).described()


# What a change of the engine would show -------------------------------------------------------------------------------


def another_value(records: list[Record]) -> list[Record]:
    key, value = records[-1].value
    return [*records[:-1], attrs.evolve(records[-1], value=(key, (value, "changed")))]


def another_order(records: list[Record]) -> list[Record]:
    return [*records[1:], records[0]]


def another_clock(records: list[Record]) -> list[Record]:
    return [attrs.evolve(records[0], processing_time=records[0].processing_time + dm.duration(1)), *records[1:]]


def another_number(records: list[Record]) -> list[Record]:
    return [*records[:-1], attrs.evolve(records[-1], pane=attrs.evolve(records[-1].pane, index=99))]


def another_sign(records: list[Record]) -> list[Record]:
    return [attrs.evolve(records[0], is_retraction=not records[0].is_retraction), *records[1:]]


def one_too_few(records: list[Record]) -> list[Record]:
    return records[:-1]


@attrs.frozen
class Changed:
    """A run whose sinks received something else than they did."""

    result: Any
    change: Callable[[list[Record]], list[Record]]

    def collected(self, label: str) -> list[Record]:
        records = self.result.collected(label)
        return self.change(records) if len(records) > 1 else records

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)


@attrs.frozen
class Changing:
    """A runner whose runs are changed."""

    change: Callable[[list[Record]], list[Record]]

    def run(self, plan: Any, *, until: Any = None) -> Any:
        return Changed(dm.LocalRunner(clock=0).run(plan, until=until), self.change)


@pytest.mark.parametrize(
    "change", [another_value, another_order, another_clock, another_number, another_sign, one_too_few]
)
def test_a_pane_that_changes_is_reported_with_its_pipeline(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Record]], list[Record]]
) -> None:
    monkeypatch.setitem(HOSTS, "in process", Host("in process", lambda *_: Changing(change)))
    problem = difference([1])
    assert problem.startswith("panes of pipeline 1 on 'in process' differ; `python -m tests.support.golden show 1")
    assert drawn(1).described() in problem


@attrs.frozen
class Counted:
    """A run that has counted something else."""

    result: Any
    label: str
    counter: str

    def metrics(self) -> Any:
        metrics = {label: dict(counts) for label, counts in self.result.metrics().items()}
        metrics[self.label][self.counter] = metrics[self.label].get(self.counter, 0) + 1
        return metrics

    def __getattr__(self, name: str) -> Any:
        return getattr(self.result, name)


@pytest.mark.parametrize(
    ("counter", "names"), [("panes_late", "metrics"), ("dropped_because_late", "drops and metrics")]
)
def test_a_counter_that_changes_is_reported_with_its_pipeline(
    monkeypatch: pytest.MonkeyPatch, counter: str, names: str
) -> None:
    class Counting:
        def run(self, plan: Any, *, until: Any = None) -> Any:
            return Counted(dm.LocalRunner(clock=0).run(plan, until=until), "grouping 1", counter)

    monkeypatch.setitem(HOSTS, "in process", Host("in process", lambda *_: Counting()))
    assert difference([1]).startswith(f"{names} of pipeline 1 on 'in process' differ; ")


def test_a_differently_drawn_pipeline_is_not_reported_as_one_whose_panes_have_changed() -> None:
    wrong = attrs.evolve(kept()[1], drawn="00000000", panes="00000000")
    assert "another pipeline is drawn than the one whose digests are kept" in difference([1], expected={1: wrong})


# What is drawn --------------------------------------------------------------------------------------------------------


def test_another_process_draws_the_same_pipelines_and_sees_the_same_panes() -> None:
    check = [sys.executable, "-m", "tests.support.golden", "check", "--last", "9"]
    environment = {**os.environ, "PYTHONHASHSEED": "17", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(check, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "all the same\n"), done.stderr


def test_every_golden_pipeline_has_digests_and_many_drop_elements() -> None:
    digests = kept()
    assert list(digests) == list(range(COUNT))
    assert sum(it.panes != NOTHING for it in digests.values()) > 0.95 * COUNT
    assert sum(it.drops != NOTHING for it in digests.values()) > 0.25 * COUNT


def test_the_golden_pipelines_are_of_every_kind() -> None:
    found: set[str] = set()
    wanted = {*FAMILIES, "in rounds of", "retracting=True", *(f"<{mode}:" for mode in dm.AccumulationMode)}
    wanted |= {f"<{member}:" for kind in (dm.LateData, dm.TimestampCombiner, dm.OnTimeBehavior) for member in kind}
    wanted |= {leaf for leaf in LEAVES if leaf.isidentifier() and hasattr(dm, leaf)}
    wanted |= {type(combine).__name__ for combine in COMBINERS if isinstance(combine, dm.CombineFn)}
    wanted |= {"Sorter", "Mourner", "'changing'", "'static'", "'within'", "'full'", "'json'", "'parquet'", "Explicit"}
    for text in (drawn(number).described() for number in range(600)):
        found |= {word for word in wanted if word in text}
    assert found == wanted


def test_the_order_within_lists_sets_and_dicts_does_not_change_a_digest() -> None:
    shown: Iterable[Any] = ([2, 1], {"b", "a"}, {"b": 1, "a": [2, 1]}, (2, 1), 0.1 + 0.2)
    assert [text_of(value) for value in shown] == ["[1, 2]", "set('a', 'b')", "{'a': [1, 2], 'b': 1}", "(2, 1)", "0.3"]


def test_the_digests_of_an_outcome_cover_panes_drops_and_counters() -> None:
    outcome = HOSTS["in process"].outcome(1)
    assert outcome is not None
    assert digests_of(1, outcome) == kept()[1]
    assert digests_of(1, attrs.evolve(outcome, panes=[])).panes == NOTHING
