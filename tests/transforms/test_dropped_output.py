"""Outputs of dropped elements: on every kind of transform that drops any, and on every host."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.plan.rewrites.early_end import percentile_that_ends
from dataflow_model.testing import TestStream
from tests.support.dropping import SCRIPT, TRANSFORMS, Remember, apply_all, collected
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import plan_warnings, run

if TYPE_CHECKING:
    from pathlib import Path

# The panes that the memoised function gets have the event times of elements, so that some are late: that is the test.
pytestmark = pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")

MINUTES = dm.Window.into(dm.FixedWindows("1 minute"))
DROPPED = "dropped_because_late"


@on_hosts("local", "workers", "process", "streaming")
def test_every_kind_of_transform_can_return_its_dropped_elements(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    result = run(runner_on(host, request, tmp_path / "state"), apply_all)
    dropped = {name: sorted(record.element for record in collected(result, name)) for name in TRANSFORMS}
    assert dropped == {name: sorted(expected) for name, (_, expected) in TRANSFORMS.items()}
    reports = result.report().transforms
    for name in TRANSFORMS:
        counted: Counter[tuple[str, str]] = Counter()
        for label, transform in reports.items():
            if label.startswith(f"{name}/"):
                counted += Counter({(label, reason): count for reason, count in transform.dropped.items()})
        records = Counter((record.label, record.reason.value) for record in collected(result, name))
        if name == "looked up":  # the count that is looked up drops the elements too, without an output
            counted = Counter({key: count for key, count in counted.items() if key in records})
        assert records == counted, name
    assert {record.input for record in collected(result, "several")} == {"only"}
    for name in ("joined", "partners"):
        assert Counter(record.input for record in collected(result, name)) == {"left": 2, "right": 2}


def test_the_record_of_a_dropped_element_says_why_and_when_it_was_dropped() -> None:
    with dm.Pipeline() as p:
        _, dropped = p | SCRIPT | MINUTES | dm.Sum.per_key().with_dropped_output()
        _ = dropped | "out" >> dm.io.Collect()
    first, second = p.result.collected("out")
    assert first.value == dm.Dropped(
        element=("UA", 8),
        label="Sum.PerKey",
        reason=dm.DropReason.LATE,
        windows=(dm.IntervalWindow(dm.EventTime(0), dm.event_time(60)),),
        timestamp=dm.event_time(40),
        watermark=dm.event_time(60),
    )
    assert (first.window, first.event_time) == (dm.GlobalWindow(), dm.event_time(60))
    assert (second.value.timestamp, second.event_time) == (dm.event_time(130), dm.event_time(500))


def test_records_of_dropped_elements_are_not_late_in_any_windows() -> None:
    with dm.Pipeline() as p:
        _, dropped = p | SCRIPT | MINUTES | dm.Sum.per_key().with_dropped_output()
        counts = dropped | "seconds" >> dm.Window.into(dm.FixedWindows(1)) | "counts" >> dm.Count.globally()
        _ = counts | "out" >> dm.io.Collect()
    assert [(record.value, int(record.window.start)) for record in p.result.collected("out")] == [
        (1, 60_000_000),
        (1, 500_000_000),
    ]


def test_dropped_elements_after_the_end_of_the_input_can_be_counted_in_the_global_window() -> None:
    script = TestStream().add(4, 30, key="UA").watermark_to_infinity().add(8, 40, key="UA")
    with dm.Pipeline() as p:
        _, dropped = p | script | MINUTES | dm.Sum.per_key().with_dropped_output()
        _ = dropped | "counts" >> dm.Count.globally() | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == [1]
    assert not p.result.metrics()["counts/CombinePerKey"].get(DROPPED)


def test_elements_dropped_by_a_finished_trigger_and_retractions_have_their_own_reasons() -> None:
    once = MINUTES.trigger(dm.AfterCount(1), may_lose_data=True)
    script = TestStream().add(1, 10, key="a").add(2, 11, key="a")
    with dm.Pipeline() as p:
        _, dropped = p | script | once | dm.Sum.per_key().with_dropped_output()
        _ = dropped | "out" >> dm.io.Collect()
    [record] = [record.value for record in p.result.collected("out")]
    assert (record.element, record.reason) == (("a", 2), dm.DropReason.CLOSED)


def test_an_element_that_is_dropped_from_two_windows_has_two_records() -> None:
    sliding = dm.Window.into(dm.SlidingWindows("2 minutes", "1 minute"))
    script = TestStream().watermark(600).add(2, 130, key="a")
    with dm.Pipeline() as p:
        _, dropped = p | script | sliding | dm.Sum.per_key().with_dropped_output()
        _ = dropped | "out" >> dm.io.Collect()
    records = [record.value for record in p.result.collected("out")]
    assert [int(record.windows[0].start) // 60_000_000 for record in records] == [1, 2]
    assert p.result.metrics()["Sum.PerKey"][DROPPED] == 2


@pytest.mark.parametrize("used", [False, True])
def test_dropped_rows_stay_in_columns_unless_the_dropped_output_is_used(tmp_path: Path, *, used: bool) -> None:
    at = pa.array([10_000_000, 70_000_000, 20_000_000], pa.timestamp("us", "UTC"))
    table = pa.table({"at": at, "key": ["a", "a", "b"], "value": [1, 2, 3]})
    (tmp_path / "rows").mkdir()
    pq.write_table(table, tmp_path / "rows" / "rows.parquet")

    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadParquet(str(tmp_path / "rows"), event_time="at", follow=True)
        pairs = p | read | MINUTES | dm.WithKeys("key", value="value")
        sums: Any = dm.Sum.per_key()
        if used:
            sums, dropped = pairs | "sums" >> sums.with_dropped_output()
            _ = dropped | "dropped" >> dm.io.Collect()
        else:
            sums = pairs | "sums" >> sums
        _ = sums | "out" >> dm.io.Collect()

    result = run(dm.LocalRunner(checkpoint=tmp_path / "state", max_rows_per_batch=1), build)
    assert result.metrics()["sums"][DROPPED] == 1
    assert sorted(record.value for record in result.collected("out")) == [("a", 1), ("a", 2)]
    if used:
        assert [record.value.element for record in result.collected("dropped")] == [("b", 3)]


def test_records_of_dropped_elements_are_written_as_rows(tmp_path: Path) -> None:
    def row(record: dm.Dropped) -> dict[str, Any]:
        key, value = record.element
        return {"key": key, "value": value, "reason": record.reason.value, "seconds": int(record.timestamp) // 10**6}

    with dm.Pipeline() as p:
        _, dropped = p | SCRIPT | MINUTES | dm.Sum.per_key().with_dropped_output()
        _ = dropped | dm.Map(row) | dm.io.WriteJson(str(tmp_path))
    rows = [json.loads(line) for path in tmp_path.glob("*.json*") for line in path.read_text().splitlines()]
    assert [(row["key"], row["value"], row["reason"], row["seconds"]) for row in rows] == [
        ("UA", 8, "late", 40),
        ("UA", 1, "late", 130),
    ]


@pytest.mark.parametrize(
    "transform",
    [
        dm.Sum.per_key(),
        dm.Sum.per_key().with_hot_key_fanout(2),
        dm.CombineGlobally(dm.Count()),
        dm.GroupBy(lambda pair: pair[0]).aggregate_field(lambda pair: pair[1], sum, "total"),
        dm.ParDo(Remember()),
        dm.ParDo(Remember()).with_outputs("other"),
    ],
)
def test_dead_letters_and_dropped_elements_are_returned_in_the_order_of_the_calls(transform: Any) -> None:
    pairs = dm.Pipeline() | SCRIPT | MINUTES
    handled, dropped = pairs | "a" >> transform.with_exception_handling("failed").with_dropped_output("late")
    assert handled.good is handled[0]
    assert handled.bad is handled.failed is handled[1]
    assert (handled.bad.element_type, dropped.element_type) == (dm.DeadLetter, dm.Dropped)
    handled = pairs | "b" >> transform.with_dropped_output("late").with_exception_handling("failed")
    results, dropped = handled.good
    assert handled.bad is handled.failed is handled[1]
    assert (handled.bad.element_type, dropped.element_type) == (dm.DeadLetter, dm.Dropped)
    assert isinstance(results, dm.PCollection | dm.OutputTuple)


class Numbers(dm.DoFn):
    seen = dm.ValueStateSpec[int](default=0)

    def process(self, pair: Any, seen: dm.ValueState[int]) -> Any:
        seen.write(int(pair[1]))
        yield pair


@on_hosts("local", "workers", "process", slow=("streaming",))
@pytest.mark.parametrize("threshold", [0.5, 0.4])
def test_the_limit_of_dead_letters_works_together_with_dropped_elements(
    host: str, threshold: float, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    script = TestStream().add(4, 30, key="UA").add("?", 35, key="UA").watermark(60).add(8, 40, key="UA")
    failing = dm.ParDo(Numbers()).with_exception_handling(threshold=threshold)

    def build(p: dm.Pipeline) -> None:
        handled, dropped = p | script | MINUTES | "numbers" >> failing.with_dropped_output()
        for name, part in {"kept": handled.good, "failed": handled.bad, "dropped": dropped}.items():
            _ = part | name >> dm.io.Collect()

    if threshold < 0.5:
        with pytest.raises(dm.UserCodeError, match=r"1 of 2 elements of 'numbers' in .* are dead letters"):
            run(runner_on(host, request, tmp_path / "state"), build)
        return
    result = run(runner_on(host, request, tmp_path / "state"), build)
    assert [record.value for record in result.collected("kept")] == [("UA", 4)]
    assert [record.value.element for record in result.collected("failed")] == [("UA", "?")]
    assert [record.value.element for record in result.collected("dropped")] == [("UA", 8)]


def test_a_function_that_never_drops_elements_has_no_dropped_output() -> None:
    with pytest.raises(dm.InvalidArgument, match=r"'Map' never drops an element"):
        _ = dm.Pipeline() | dm.Create([1]) | dm.Map(str).with_dropped_output()


@pytest.mark.parametrize("tag", ["main", 7])
def test_the_tag_of_the_dropped_output_must_be_text_that_no_other_output_has(tag: Any) -> None:
    for transform in (dm.Sum.per_key(), dm.GroupByKey(), dm.ParDo(Remember()), dm.Join(), dm.CoGroupByKey()):
        with pytest.raises((dm.InvalidArgument, dm.InvalidType), match="dropped elements"):
            transform.with_dropped_output(tag)
    with pytest.raises(dm.InvalidArgument, match="a tag that no other output has"):
        dm.Sum.per_key().with_exception_handling("x").with_dropped_output("x")
    for transform in (dm.Sum.per_key(), dm.ParDo(Remember())):
        with pytest.raises(dm.InvalidArgument, match="a tag that no other output has"):
            transform.with_dropped_output("x").with_exception_handling("x")


def test_the_plan_in_words_names_the_dropped_output() -> None:
    p = dm.Pipeline()
    _ = p | SCRIPT | MINUTES | dm.Sum.per_key().with_dropped_output("too late")
    assert "combine by Sum() per key and window; dropped elements to too late" in p.explain()


def test_dropped_elements_of_a_retracting_grouping_are_not_retractions() -> None:
    retracting = MINUTES.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    with dm.Pipeline() as p:
        _, dropped = p | SCRIPT | retracting | dm.Sum.per_key().with_dropped_output()
        keyed = dropped | "keys" >> dm.Map(lambda record: record.element)
        _ = keyed | dm.ParDo(Remember()) | "out" >> dm.io.Collect()  # which is refused behind retractions
    assert [record.value for record in p.result.collected("out")] == [("UA", 8), ("UA", 1)]


def test_the_dropped_output_of_an_accumulating_grouping_has_no_refinements() -> None:
    accumulating = MINUTES.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
    pipeline = dm.Pipeline()
    sums, dropped = pipeline | SCRIPT | accumulating | "sums" >> dm.Sum.per_key().with_dropped_output()
    _ = dropped | dm.Count.globally() | "out" >> dm.io.Collect()
    assert plan_warnings(pipeline) == []
    _ = sums | "again" >> dm.Count.globally() | "other" >> dm.io.Collect()
    assert len(plan_warnings(pipeline)) == 1


def test_a_run_whose_dropped_output_is_used_reads_every_row() -> None:
    def ends_at(*, takes: bool) -> float | None:
        p = dm.Pipeline()
        most = MINUTES.trigger(dm.AfterWatermark(percentile=50), may_lose_data=True)
        sums: Any = dm.Sum.per_key().with_dropped_output() if takes else dm.Sum.per_key()
        _ = p | dm.Create([("a", 1)]) | most | sums
        return percentile_that_ends(p.plan())

    assert (ends_at(takes=False), ends_at(takes=True)) == (50, None)


def test_micro_batch_mode_supports_the_dropped_output() -> None:
    def build(p: dm.Pipeline) -> None:
        sums, dropped = p | SCRIPT | MINUTES | dm.Sum.per_key().with_hot_key_fanout(2).with_dropped_output()
        _ = sums | "out" >> dm.io.Collect()
        _ = dropped | "dropped" >> dm.io.Collect()

    result = run(dm.LocalRunner(mode="microbatch", interval="1 minute"), build)
    assert result.collected("dropped") == []
    assert sorted(record.value for record in result.collected("out")) == [("AA", 19), ("UA", 1), ("UA", 12)]
