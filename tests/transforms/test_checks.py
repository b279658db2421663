"""What is refused at run(), before any data are read; and the plan in words."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.endpoints.sources import Source
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.watermarks.estimators import Arrival


@attrs.frozen
class Feed(Source):
    event_time: str | Arrival | None = "at"
    processing_time: str | None = None
    is_bounded: bool = False


def fed(windowing: dm.WindowInto | None = None, **options: Any) -> dm.Pipeline:
    p = dm.Pipeline()
    pairs = p | dm.Read(Feed(**options)) | dm.Map(lambda row: (row, 1))
    if windowing is not None:
        pairs = pairs | windowing
    _ = pairs | dm.Sum.per_key()
    return p


@pytest.mark.parametrize(
    "trigger",
    [
        dm.DefaultTrigger(),
        dm.Repeatedly(dm.AfterWatermark()),
        dm.AfterWatermark(late=dm.AfterCount(1)),
        dm.Repeatedly(dm.AfterAll(dm.AfterCount(1), dm.AfterWatermark())),
        dm.AfterEach(dm.AfterWatermark(), dm.Repeatedly(dm.AfterCount(1))),
    ],
)
def test_a_grouping_of_an_unbounded_input_that_waits_for_its_end_is_refused(trigger: dm.Trigger) -> None:
    with pytest.raises(dm.PlanError, match=r"'Sum.PerKey' would never emit anything(.|\n)*Hint: put dm.Window.into"):
        check(fed(dm.Window.trigger(trigger)).plan())


@pytest.mark.parametrize(
    "windowing",
    [
        dm.Window.into(dm.FixedWindows("1 hour")),
        dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))),
        dm.Window.trigger(dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute"))),
        dm.Window.trigger(dm.Repeatedly(dm.AfterAny(dm.AfterCount(1), dm.AfterWatermark()))),
    ],
)
def test_a_grouping_of_an_unbounded_input_that_fires_before_its_end_is_accepted(windowing: dm.WindowInto) -> None:
    check(fed(windowing).plan())


def test_a_bounded_or_drained_input_has_an_end() -> None:
    check(fed(is_bounded=True).plan())
    check(fed().plan(), drained=True)
    with pytest.raises(dm.PlanError):
        check(fed().plan())


def test_run_checks_the_plan_before_it_asks_the_runner() -> None:
    with pytest.raises(dm.PlanError, match="would never emit anything"):
        fed().run()


def test_a_flatten_with_an_unbounded_input_is_unbounded_but_a_side_input_does_not_count() -> None:
    p = dm.Pipeline()
    endless = p | dm.Read(Feed())
    shown = endless | dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1)))
    pairs = p | dm.Create([("a", 1)])
    _ = pairs | dm.Map(lambda pair, side: pair, dm.AsIter(shown)) | dm.Sum.per_key()
    check(p.plan())
    _ = (pairs, endless) | dm.Flatten() | dm.GroupByKey()
    with pytest.raises(dm.PlanError, match="'GroupByKey' would never emit anything"):
        check(p.plan())


@pytest.mark.parametrize(
    "windowing",
    [
        dm.Window.into(dm.FixedWindows("1 hour")),
        dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))),
        dm.Window.trigger(dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute"))),
    ],
)
def test_an_unbounded_side_input_that_would_never_be_seen_is_refused(windowing: dm.WindowInto) -> None:
    def with_side(*before: dm.WindowInto) -> dm.Pipeline:
        p = dm.Pipeline()
        side: Any = p | dm.Read(Feed()) | dm.Map(lambda row: row)
        for part in before:
            side = side | part
        _ = p | dm.Create([1]) | "main" >> dm.Map(lambda x, side: x, dm.AsIter(side))
        return p

    check(with_side(windowing).plan())
    check(with_side().plan(), drained=True)
    expected = (
        r"'main' would wait forever for its side input 'Map', which is unbounded(.|\n)*\nHint: put dm.Window.into"
    )
    with pytest.raises(dm.PlanError, match=expected):
        check(with_side().plan())


def test_a_side_input_of_panes_is_seen_with_each_pane() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Read(Feed()) | dm.Map(lambda row: (row, 1)) | dm.Window.into(dm.FixedWindows("1 hour"))
    totals = pairs | dm.Sum.per_key() | "all of time" >> dm.Window.into(dm.GlobalWindows())
    _ = p | dm.Create([1]) | "main" >> dm.Map(lambda x, side: x, dm.AsDict(totals))
    check(p.plan())


def test_replay_and_wall_clocks_cannot_be_mixed_but_create_can_be_used_with_both() -> None:
    p = dm.Pipeline()
    _ = p | "replayed" >> dm.Read(Feed(processing_time="seen"))
    _ = p | dm.Create([1])
    check(p.plan())
    _ = p | "live" >> dm.Read(Feed())
    with pytest.raises(
        dm.PlanError, match=r"one clock, but \['replayed'\] use a replay clock and \['live'\] use the wall clock"
    ):
        check(p.plan())


class Last(dm.CombineFn[int, int, int]):
    def create_accumulator(self) -> int:
        return 0

    def add_input(self, accumulator: int, element: int) -> int:
        return element

    def merge_accumulators(self, accumulators: Iterable[int]) -> int:
        return max(accumulators)

    def extract_output(self, accumulator: int) -> int:
        return accumulator


@pytest.mark.parametrize(
    ("combine", "words"),
    [
        (dm.CombinePerKey(math.prod), "combine by prod per key"),
        (dm.CombinePerKey(lambda values: max(*values, 0)), r"combine by lambda values: max\(\*values, 0\) per key"),
        (
            dm.CombinePerKey(lambda values, by: max(values) * by, 2),
            r"combine by lambda values, by: max\(values\) \* by per",
        ),
        (dm.CombinePerKey(Last()), r"combine by Last\(\) per key"),
        (dm.Together(last=Last(), total=sum).per_key(), r"combine by Together\(last=Last\(\), total=Sum\(\)\) per key"),
    ],
)
def test_a_combiner_is_explained_as_it_is_written(combine: Any, words: str) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | combine
    assert re.search(words, explain(p.plan()))


def test_a_plan_is_explained_in_words() -> None:
    p = dm.Pipeline()
    hourly = (
        dm.Window.into(dm.FixedWindows("1 hour"))
        .trigger(dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute"), late=dm.AfterCount(1)))
        .allowed_lateness("2 hours")
        .accumulating()
    )
    factor = p | "factor" >> dm.Create([2, 3])
    flights = p | "flights" >> dm.Read(Feed(processing_time="seen"))
    scaled, dead = flights | "scale" >> dm.Map(lambda x, by: x * by, dm.AsSingleton(factor)).with_exception_handling()
    _ = scaled | dm.WithKeys("carrier", value="delay") | hourly | dm.Mean.per_key() | dm.Values()
    _ = dead | dm.Reshuffle()
    lines = explain(p.plan()).replace(", partly before the shuffle (lifted)", "").splitlines()
    assert lines[3].endswith("replayed by the clock in 'seen', unbounded")
    assert lines[10].endswith("passes the end of the window; late: at each element, for 2 hours")
    assert [line if len(line) < 105 else f"{line[:92]}…" for line in lines] == [
        "ahead of the run, stage 0",
        "  factor: 2 elements from the program",
        "stage 0",
        "  flights: Feed, event time 'at', watermark BoundedOutOfOrderness(delay=Duration(0s)), repla…",
        "    + scale: Map(lambda); side inputs factor as singleton; dead letters to dead_letters",
        "    + WithKeys: pairs of 'carrier' and 'delay', read as columns where possible",
        "    + Window.into: FixedWindows('1 hour')",
        "stage 1",
        "  Mean.PerKey: combine by Mean() per key and window",
        "      where: FixedWindows('1 hour')",
        "      when: early: every minute of processing time, from the first new element; on time: whe…",
        "      how: accumulating",
        "    + Values: Map",
        "  Reshuffle: redistributed over the workers",
    ]


def test_an_empty_pipeline_is_explained() -> None:
    assert explain(dm.Pipeline().plan()) == "an empty pipeline"


@pytest.mark.parametrize(
    ("windowing", "said"),
    [
        (
            dm.Window.into(dm.FixedWindows(60)),
            "on time: when the watermark passes the end of the window; late elements are dropped",
        ),
        (
            dm.Window.into(dm.FixedWindows(60))
            .trigger(dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1)))
            .accumulating()
            .late_data("duplicate_window")
            .on_time("fire_if_non_empty"),
            (
                "early: at every 2 elements; on time: when the watermark passes the end of the window; "
                "late elements reopen their window; no empty pane on time"
            ),
        ),
        (
            dm.Window.into(dm.FixedWindows(60)).allowed_lateness(60).closing("fire_always"),
            (
                "on time: when the watermark passes the end of the window; late: at each element, for 1 minute; "
                "always a last pane at expiry"
            ),
        ),
        (dm.Window.into(dm.GlobalWindows()), "on time: when the watermark passes the end of the window"),
    ],
)
def test_the_plan_in_words_says_what_happens_to_late_elements(windowing: dm.WindowInto, said: str) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([("a", 1)]) | windowing | dm.Sum.per_key()
    assert f"\n      when: {said}\n" in explain(p.plan())


def test_the_plan_in_words_is_that_of_micro_batch_mode_if_the_runner_has_it() -> None:
    p = dm.Pipeline(runner=dm.LocalRunner(mode="microbatch", interval="1 minute"))
    _ = p | dm.Create([("a", 1)]) | dm.Window.into(dm.FixedWindows(60)) | dm.Sum.per_key()
    printed = p.explain()
    assert "when: every full minute of processing time" in printed
    assert printed.endswith("how: accumulating")


def test_a_pipeline_is_explained_in_the_form_in_which_it_is_written() -> None:
    p = dm.Pipeline()
    elements = p | TestStream().add(5, 1, key="A").watermark(40)
    _ = elements | dm.io.Collect()
    _ = elements | "each" >> dm.io.ForeachBundle(print)
    _ = elements | dm.CombinePerKey(sum).with_hot_key_fanout(4) | dm.io.WriteParquet("/data/out", panes=True)
    _ = p | dm.Create([{"a": 1, "b": 2}]) | dm.WithKeys("a") | "pairs" >> dm.io.Collect(panes=True)
    _ = p | dm.io.ReadTable(pa.table({"at": [1]}), event_time="at")
    text = explain(p.plan())
    for words in (
        "TestStream: a script of 2 steps",
        "+ Collect: to Collect()",
        "+ each: to ForeachBundle(print)",
        "each pair to one of 4 parts of its key",
        "to WriteParquet('/data/out', panes=True)",
        "pairs of 'a' and the row",
        "+ pairs: to Collect(panes=True)",
        "ReadTable: a table, event time 'at'",
    ):
        assert words in text
    assert not any(name in text for name in ("Sink", "Source", "HashedParts"))
