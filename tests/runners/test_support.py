"""What the runners' tables say is so: they reject what they say they lack, and run everything else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidType, UnsupportedOnRunner
from dataflow_model.plan.checks.support import Support, Supported, Unsupported, features_of
from dataflow_model.plan.endpoints.features import Feature
from dataflow_model.plan.endpoints.program_sources import DataFrameSource
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.plan.logical.nodes import Node
from dataflow_model.runners.local.bounded import support as local
from dataflow_model.runners.spark import support as spark
from dataflow_model.testing import TestStream
from tests.support.resuming import Counting

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataflow_model.plan.logical.runner import Runner

RUN_TIME = {Feature.SIGNALS, Feature.LARGE_DATAFRAMES, Feature.DRAINING_DATAFRAMES}
"""What no plan shows: these are looked up when the run needs them."""
HOURS = dm.Window.into(dm.FixedWindows("1 hour"))


@attrs.frozen(eq=False)
class Nothing(Source):
    """A source that does not say how it is read."""


class Remember(dm.DoFn):
    seen: dm.ValueStateSpec[Any] = dm.ValueStateSpec()

    def process(self, element: Any, seen: Any) -> Any:
        seen.write(element)
        yield element


def rows(p: dm.Pipeline, folder: Path, **options: Any) -> Any:
    return p | dm.io.ReadParquet(str(folder), event_time="at", **options)


def frame(p: dm.Pipeline, *, bounded: bool) -> Any:
    return p | dm.Read(DataFrameSource(dataframe=None, is_bounded=bounded))


def create(p: dm.Pipeline) -> Any:
    return p | dm.Create([("a", 1), ("b", 2)])


def with_changing_side(p: dm.Pipeline, script: TestStream) -> Any:
    factor = dm.AsSingleton(p | "factor" >> TestStream().add(2, event_time=0).watermark_to_infinity(), default=1)
    return p | script | dm.Map(lambda pair, by: (pair[0], pair[1] * by), factor)


def examples(folder: Path) -> dict[Feature, Callable[[dm.Pipeline], Any]]:
    """Return for each feature of plans a pipeline that needs it."""
    script = TestStream().add(1, event_time=0, key="a").watermark_to_infinity()
    return {
        Feature.ELEMENTS: create,
        Feature.ROWS: lambda p: rows(p, folder) | dm.WithKeys("key", value="value") | HOURS | dm.Sum.per_key(),
        Feature.FOLLOWED_ROWS: lambda p: rows(p, folder, follow=True),
        Feature.SCRIPTS: lambda p: p | script,
        Feature.DATAFRAMES: lambda p: frame(p, bounded=True),
        Feature.STREAMING_DATAFRAMES: lambda p: frame(p, bounded=False),
        Feature.OTHER_SOURCES: lambda p: p | dm.Read(Nothing()),
        Feature.REPLAY_CLOCK: lambda p: rows(p, folder, processing_time="at"),
        Feature.ELEMENT_WISE: lambda p: (
            (create(p) | dm.WithTimestamps(lambda _: 5), p | "more" >> dm.Create([])) | dm.Flatten() | dm.Reshuffle()
        ),
        Feature.STATE: lambda p: create(p) | dm.ParDo(Remember()),
        Feature.RESUMING: lambda p: create(p) | dm.ParDo(Counting()),
        Feature.STATIC_SIDE_INPUTS: lambda p: (
            create(p) | dm.Map(lambda pair, by: (pair, by), dm.AsSingleton(p | "by" >> dm.Create([1])))
        ),
        Feature.CHANGING_SIDE_INPUTS: lambda p: with_changing_side(p, script),
        Feature.DEDUPLICATION: lambda p: create(p) | dm.Deduplicate(lambda pair: pair[0], horizon="1 hour"),
        Feature.RECORD_IDS: lambda p: create(p) | dm.Map(lambda pair, record_id: record_id),
        Feature.WINDOWS: lambda p: create(p) | HOURS,
        Feature.GROUPINGS: lambda p: create(p) | dm.GroupByKey(),
        Feature.TRIGGERS: lambda p: create(p) | HOURS.trigger(dm.Always()) | dm.GroupByKey(),
        Feature.LATENESS: lambda p: create(p) | HOURS.allowed_lateness("1 hour") | dm.GroupByKey(),
        Feature.REFINEMENTS: lambda p: create(p) | HOURS.accumulating() | dm.GroupByKey(),
        Feature.SINKS: lambda p: create(p) | dm.io.Collect(),
        Feature.DATAFRAME_OUTPUT: lambda p: create(p) | dm.io.ToDataFrame(schema=pa.schema({"key": pa.string()})),
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rows")
    pq.write_table(pa.table({"at": [1, 2], "key": ["a", "b"], "value": [1, 2]}), folder / "a.parquet")
    return folder


def pipeline_for(feature: Feature, folder: Path, runner: Runner | None = None) -> dm.Pipeline:
    p = dm.Pipeline(runner=runner)
    examples(folder)[feature](p)
    return p


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_every_feature_is_found_in_a_plan_that_needs_it(feature: Feature, folder: Path) -> None:
    if feature in RUN_TIME:
        assert feature not in examples(folder)
    else:
        assert feature in {needed for _, needed in features_of(pipeline_for(feature, folder).plan())}


def test_the_examples_have_every_kind_of_node(folder: Path) -> None:
    plans = [pipeline_for(feature, folder).plan() for feature in Feature if feature not in RUN_TIME]
    assert {type(node) for plan in plans for node in plan.nodes} == set(get_args(Node))


@pytest.mark.parametrize("mode", dm.AccumulationMode, ids=lambda mode: mode.name)
def test_an_accumulation_mode_needs_the_feature_of_refinements_if_it_may_accumulate(mode: dm.AccumulationMode) -> None:
    window = HOURS.accumulation(mode)
    p = dm.Pipeline()
    _ = create(p) | window | "grouped" >> dm.GroupByKey()
    assert (("grouped", Feature.REFINEMENTS) in set(features_of(p.plan()))) is window.strategy.accumulates


@pytest.mark.parametrize(
    "trigger",
    [
        dm.AfterWatermark(),
        dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterProcessingTime(5)),
        dm.Repeatedly(dm.AfterAny(dm.AtPeriod("1 minute"), dm.AfterSignal("now"))),
        dm.Always(),
        dm.Never(),
    ],
    ids=repr,
)
def test_every_trigger_but_the_default_is_a_feature(trigger: dm.Trigger) -> None:
    for given, needs in ((trigger, True), (dm.DefaultTrigger(), False)):
        p = dm.Pipeline()
        _ = create(p) | HOURS.trigger(given, may_lose_data=True) | "grouped" >> dm.GroupByKey()
        assert (("grouped", Feature.TRIGGERS) in set(features_of(p.plan()))) is needs


CASES = [
    pytest.param(table, make, feature, id=f"{table.runner} {feature.name}")
    for table, make in (
        (local.BOUNDED, lambda folder: dm.LocalRunner()),
        (local.STREAMING, lambda folder: dm.LocalRunner(checkpoint=str(folder))),
        (spark.BATCH, lambda folder: dm.SparkRunner(None, mode="batch")),
        (spark.STREAMING, lambda folder: dm.SparkRunner(None, mode="streaming", checkpoint=str(folder))),
    )
    for feature in Feature
    if feature not in RUN_TIME
]


@pytest.mark.parametrize(("table", "make", "feature"), CASES)
def test_a_runner_rejects_what_its_table_lacks_and_runs_what_it_has(
    table: Support, make: Callable[[Path], Runner], feature: Feature, folder: Path, tmp_path: Path
) -> None:
    answer = table.answers[feature]
    p = pipeline_for(feature, folder, make(tmp_path / "checkpoint"))
    if isinstance(answer, Unsupported):
        with pytest.raises(UnsupportedOnRunner) as raised:
            p.run(until="drained")
        for part in (feature.value, table.runner, answer.reason, answer.instead):
            assert part in str(raised.value)
    elif table not in spark.TABLES:
        assert p.run(until="drained").wait_until_finish() in {dm.RunnerState.DONE, dm.RunnerState.DRAINED}
    else:
        table.check(p.plan())  # the suites that run on Spark show that it runs


def test_a_table_without_an_answer_to_a_feature_is_rejected() -> None:
    with pytest.raises(ValueError, match="ToyRunner says nothing about SIGNALS"):
        Support("ToyRunner", {feature: Supported() for feature in Feature if feature is not Feature.SIGNALS})


class Session:
    """The class of a session, in place of a session."""

    conf = property(repr)


def test_a_spark_runner_without_a_session_says_how_to_create_one() -> None:
    p = dm.Pipeline(runner=dm.SparkRunner(None, mode="batch"))
    _ = p | dm.Create([1]) | dm.io.Collect()
    with pytest.raises(InvalidType, match=r"`spark` must be a SparkSession, got None\nHint: "):
        p.run()


@pytest.mark.parametrize("session", ["local[2]", 2, Session])
def test_a_spark_runner_rejects_a_value_that_is_not_a_session(session: Any) -> None:
    with pytest.raises(InvalidType, match=r"`spark` must be a SparkSession, got ('local\[2\]'|2|<class .*>)\nHint: "):
        dm.SparkRunner(session)
