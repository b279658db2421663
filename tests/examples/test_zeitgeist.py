"""Zeitgeist finds what was planted, and takes nothing that is merely delayed for missing."""

from __future__ import annotations

import io
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.examples.zeitgeist import (
    Anomaly,
    Bucket,
    Calendar,
    Detection,
    Expectation,
    History,
    Kind,
    Late,
    Model,
    Outcome,
    Scenario,
    SpikeDipDetector,
    WindowCounter,
    run,
    runner_of,
    score,
)
from dataflow_model.examples.zeitgeist.__main__ import main
from dataflow_model.examples.zeitgeist.detection import DIPPED, SPIKED, Run, evidence
from dataflow_model.examples.zeitgeist.topology import OUT_OF_ORDER
from dataflow_model.examples.zeitgeist.values import SECOND
from dataflow_model.testing import TestStream
from tests.support.examples import plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DAY = Calendar(slot_seconds=5, slots=4)


def extents(anomalies: Any) -> list[Any]:
    """Return the anomalies without the counts that had been seen when they were reported."""
    return sorted((anomaly.query, anomaly.kind, anomaly.since, anomaly.second) for anomaly in anomalies)


# The history ----------------------------------------------------------------------------------------------------------


def test_a_history_is_determined_by_its_seed(scenario: Scenario, history: History) -> None:
    assert scenario.make().table.equals(history.table)
    assert not Scenario(days=3, seed=8).make().table.equals(history.table)


def test_no_query_is_seen_before_it_was_asked_and_rows_are_in_the_order_of_the_clock(history: History) -> None:
    table = history.table
    asked, seen = (table[name].cast("int64").to_numpy() for name in ("asked", "seen"))
    assert (asked <= seen).all()
    assert (np.diff(seen) >= 0).all()
    assert table.num_rows - len(table["id"].unique()) == history.redelivered > 0


def test_a_data_centre_in_an_outage_sends_nothing_and_all_of_its_records_afterwards(history: History) -> None:
    [outage] = history.outages
    rows = history.table.filter(pc.field("centre") == outage.centre)
    asked, seen = (rows[name].cast("int64").to_numpy() / SECOND for name in ("asked", "seen"))
    assert not ((asked >= outage.start) & (seen < outage.end)).any()
    kept_back = np.bincount(asked.astype(int))[outage.start : outage.end]
    assert kept_back.min() > 0


def test_apart_from_stragglers_no_data_centre_exceeds_the_out_of_orderness_of_its_watermark() -> None:
    table = Scenario(days=3, stragglers=0, redelivered=0).make().table
    for centre in ("dublin", "iowa", "taipei"):
        asked = table.filter(pc.field("centre") == centre)["asked"].cast("int64").to_numpy()
        assert (np.maximum.accumulate(asked) - asked).max() < int(OUT_OF_ORDER)


# The model and the evidence -------------------------------------------------------------------------------------------


def test_the_model_learns_the_profile_of_a_day_and_its_growth() -> None:
    model = Model(DAY)
    usual = [4.0, 8.0, 12.0, 6.0]
    for day, slot in itertools.product(range(12), range(4)):
        for second in range(5):
            model.learn((day * 4 + slot) * 5 + second, round(usual[slot] * 1.05**day))
    rates = [model.rate(slot) for slot in range(4)]
    assert rates == pytest.approx([rate * 1.05**11 for rate in usual], rel=0.12)


def test_an_anomaly_does_not_change_the_expectation_for_the_next_day() -> None:
    model = Model(DAY)
    for second in range(60):
        model.learn(second, 10)
    for second in range(60, 65):
        model.learn(second, 100)
    assert 10 < (model.rate(0) or 0) < 11


def test_the_model_learns_a_low_rate_for_a_slot_without_queries() -> None:
    model = Model(DAY)
    for second in range(20):
        model.learn(second, 0)
    assert 0 < (model.rate(0) or 0) < 0.1


def test_counts_before_a_gap_do_not_contribute_to_the_slot_after_it() -> None:
    model = Model(DAY)
    for second in (0, 1):
        model.learn(second, 50)
    for second in range(15, 20):
        model.learn(second, 10)
    assert model.rate(3) == 10
    assert model.rate(0) is None


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.floats(0.5, 30)), min_size=1, max_size=12))
def test_a_spike_found_in_half_of_the_records_remains_a_spike_with_all_of_them(buckets: list[Any]) -> None:
    """What the detector relies on when it tells spikes before their buckets are complete."""
    half, whole = Run(), Run()
    for second, (first_half, second_half, expected) in enumerate(buckets):
        half = half.after(second, first_half, expected, SPIKED)
        whole = whole.after(second, first_half + second_half, expected, SPIKED)
        assert whole.score >= half.score


@given(st.integers(0, 100), st.floats(0.5, 30))
def test_more_records_never_increase_the_evidence_for_a_dip(count: int, expected: float) -> None:
    assert evidence(count + 1, expected, DIPPED) < evidence(count, expected, DIPPED)
    assert evidence(0, expected, DIPPED) == pytest.approx(expected * (1 - DIPPED))


@pytest.mark.parametrize("histories", [5, pytest.param(20, marks=pytest.mark.slow)])
def test_the_plain_detector_finds_the_planted_anomalies_in_complete_histories(histories: int) -> None:
    hits = planted = false = 0
    for seed in range(histories):
        scenario = Scenario(seed=seed)
        history = scenario.make()
        result = score(
            history.planted, [Detection(anomaly, -math.inf) for anomaly in plain.anomalies(scenario, history)]
        )
        hits, planted, false = hits + result.hits, planted + len(result.pairs), false + len(result.false)
    assert planted == 24 * histories
    assert hits / planted >= 0.95
    assert hits / (hits + false) >= 0.95


# The computations by example ------------------------------------------------------------------------------------------


def outputs(topology: dm.Topology, *streams: str) -> dict[str, list[Any]]:
    for stream in streams:
        topology.sink(stream, dm.io.Collect())
    result = topology.run()
    result.wait_until_finish()
    return {stream: [record.value[1] for record in result.collected(stream)] for stream in streams}


def counted(script: TestStream, **options: Any) -> dict[str, list[Any]]:
    topology = dm.Topology()
    topology.inject("queries", script)
    counter = WindowCounter(**{"forget": 100, **options})
    topology.add(counter, subscribe={"queries": str}, produces=["counts", "buckets", "late"])
    return outputs(topology, "counts", "buckets", "late")


def test_the_count_of_each_second_is_produced_when_the_watermark_reaches_its_end_even_if_it_is_0() -> None:
    script = TestStream().bundle([("q", 1.2), ("q", 4.1), ("q", 1.9), ("r", 3)]).watermark(4)
    buckets = counted(script)["buckets"]
    assert [bucket for bucket in buckets if bucket.query == "q"] == [
        Bucket("q", 1, 2), Bucket("q", 2, 0), Bucket("q", 3, 0), Bucket("q", 4, 1),
    ]  # fmt: skip
    assert [bucket for bucket in buckets if bucket.query == "r"] == [Bucket("r", 3, 1)]


def test_a_record_behind_the_watermark_counts_while_its_second_is_open_and_is_late_after_that() -> None:
    script = TestStream().add("q", 5.1).watermark(5.5).add("q", 5.2).watermark(6).add("q", 5.3).add("q", 3)
    streams = counted(script)
    assert streams["buckets"] == [Bucket("q", 5, 2)]
    assert streams["late"] == [Late("q", 5), Late("q", 3)]


def test_a_record_of_an_open_second_is_counted_even_if_it_arrives_after_a_record_of_a_later_second() -> None:
    script = TestStream().add("q", 5).add("q", 3).watermark(9)
    assert [bucket.second for bucket in counted(script)["buckets"]][:3] == [3, 4, 5]


def test_each_fourth_record_of_a_second_produces_a_running_count() -> None:
    script = TestStream().bundle([("q", 1)] * 9)
    assert counted(script)["counts"] == [Bucket("q", 1, 4), Bucket("q", 1, 8)]


def test_a_query_that_is_no_longer_asked_is_forgotten() -> None:
    script = TestStream().add("q", 1).watermark(60).add("q", 70).watermark(72)
    assert [bucket.second for bucket in counted(script, forget=10)["buckets"]] == [*range(1, 12), 70, 71]


def detected(counts: list[tuple[str, int, int]]) -> list[Anomaly]:
    """Run the detector with 10 queries a second expected from 0 to 20 s, on counts by stream, second and count."""
    topology = dm.Topology()
    values: list[Any] = [("expectations", Expectation("q", slot, 10.0)) for slot in range(4)]
    values += [(stream, Bucket("q", second, count)) for stream, second, count in counts]
    ordered = [dm.TimestampedValue(value, at) for at, value in enumerate(values)]
    topology.inject("all", dm.Create(ordered))
    topology.add(_Split(), subscribe={"all": lambda _: "q"}, produces=["counts", "buckets", "expectations"])
    subscribe: dict[str, Any] = dict.fromkeys(("counts", "buckets", "expectations"), lambda value: value.query)
    topology.add(SpikeDipDetector(DAY), subscribe=subscribe, produces=["anomalies"])
    return outputs(topology, "anomalies")["anomalies"]


class _Split(dm.Computation):
    def process_record(self, record: dm.StreamRecord) -> None:
        stream, value = record.value
        self.produce(dm.StreamRecord("q", value, record.timestamp), stream)


def test_a_spike_is_reported_once_while_its_seconds_are_still_open() -> None:
    open_still = [("counts", 6, 12), ("counts", 6, 24), ("counts", 7, 28), ("counts", 7, 32)]
    complete = [("buckets", second, count) for second, count in ((5, 10), (6, 30), (7, 40), (8, 35), (9, 10))]
    [anomaly] = detected([("buckets", 4, 10), *open_still, *complete])
    assert extents([anomaly]) == [("q", Kind.SPIKE, 6, 7)]
    assert (anomaly.seen, anomaly.expected) == (24 + 28, 20)


def test_open_seconds_without_records_are_not_a_dip() -> None:
    assert detected([("buckets", 4, 10), ("counts", 15, 4)]) == []


def test_a_dip_is_reported_when_enough_seconds_are_complete() -> None:
    actual = detected([("buckets", second, 10 if second < 5 else 1) for second in range(12)])
    assert extents(actual) == [("q", Kind.DIP, 5, 8)]


def test_a_second_anomaly_is_reported_after_the_first_is_over() -> None:
    counts = [10] * 3 + [40] * 2 + [10] * 11 + [40] * 2
    actual = detected([("buckets", second, count) for second, count in enumerate(counts)])
    assert [(anomaly.kind, anomaly.since) for anomaly in actual] == [(Kind.SPIKE, 3), (Kind.SPIKE, 16)]


def test_evidence_from_before_a_gap_does_not_count_after_it() -> None:
    assert detected([("buckets", 3, 2), ("buckets", 4, 2), ("buckets", 5, 2)]) == []
    counts = [(second, 2) for second in (3, 4, 5, 15, 16, 17)]
    assert detected([("buckets", second, count) for second, count in counts]) == []


# The whole ------------------------------------------------------------------------------------------------------------


def test_planted_anomalies_are_detected_with_few_false_ones(history: History, local: Outcome) -> None:
    result = score(history.planted, local.detections)
    assert len(result.pairs) == 8
    assert result.precision >= 0.95
    assert result.recall >= 0.95


def test_every_record_is_in_one_bucket_or_late_or_a_duplicate(history: History, local: Outcome) -> None:
    assert local.duplicates == history.redelivered
    assert local.late > 0
    assert sum(bucket.times for bucket in local.buckets) + local.late + local.duplicates == history.table.num_rows


def test_delayed_records_are_not_reported_as_a_dip_and_dips_are_reported_after_the_delay(
    history: History, local: Outcome
) -> None:
    assert score(history.planted, local.detections).false_of(Kind.DIP) == 0
    [outage] = history.outages
    waited = [
        detection
        for detection in local.detections
        if detection.anomaly.kind is Kind.DIP and outage.start <= detection.anomaly.second < outage.end
    ]
    assert waited
    assert all(detection.reported > outage.end for detection in waited)


@pytest.mark.slow
def test_with_a_single_watermark_for_all_data_centres_a_delay_is_reported_as_dips(
    scenario: Scenario, history: History
) -> None:
    outcome = run(scenario, history, dm.LocalRunner(), by_centre=False)
    result = score(history.planted, outcome.detections)
    assert result.false_of(Kind.DIP) > 0
    assert result.false_of(Kind.SPIKE) == 0


def test_spikes_are_reported_before_the_watermark_could_complete_their_second(local: Outcome) -> None:
    spikes = [detection for detection in local.detections if detection.anomaly.kind is Kind.SPIKE]
    allowed = int(OUT_OF_ORDER) / SECOND
    assert len(spikes) == 4
    assert all(detection.reported < detection.anomaly.second + 1 + allowed for detection in spikes)


@pytest.mark.slow
def test_without_stragglers_the_stream_finds_exactly_what_the_plain_detector_finds() -> None:
    scenario = Scenario(days=3, stragglers=0, seed=3, popularity=Scenario().popularity[:2])
    history = scenario.make()
    outcome = run(scenario, history, dm.LocalRunner())
    assert outcome.late == 0
    expected = {query: dict(counts) for query, counts in plain.bucket_counts(history).items()}
    actual: dict[str, dict[int, int]] = {query: {} for query in expected}
    for bucket in outcome.buckets:
        if bucket.times:
            actual[bucket.query][bucket.second] = bucket.times
    assert actual == expected
    dips = [place for place in extents(actual.anomaly for actual in outcome.detections) if place[1] is Kind.DIP]
    assert dips == [place for place in extents(plain.anomalies(scenario, history)) if place[1] is Kind.DIP]


def test_the_program_prints_what_was_found(
    local: Outcome, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dataflow_model.examples.zeitgeist.__main__.run", lambda *args, **options: local)
    assert main(["--days", "3"]) == 0
    printed = capsys.readouterr().out
    for words in ("lasagne", "dip", "precision 1.00, recall 1.00", "redelivered", "0 false dips"):
        assert words in printed


def test_a_picture_of_a_day_is_drawn(scenario: Scenario, history: History, local: Outcome) -> None:
    pytest.importorskip("matplotlib")
    from dataflow_model.examples.zeitgeist.picture import draw

    figure = draw(scenario, history, local, day=2)
    assert [axes.get_title(loc="left") for axes in figure.axes[:4]] == [
        "“carpe diem”", "“eclipse”", "“lasagne”", "“weather”",
    ]  # fmt: skip
    shown = [text.get_text() for axes in figure.axes for text in axes.texts]
    assert sum(text.startswith("reported") for text in shown) == 8
    figure.savefig(io.BytesIO(), format="png")


def test_a_number_of_days_within_the_learning_period_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--days", "2"])
    assert "--days must be more than the 2 learning days, got 2" in capsys.readouterr().err


# On Spark -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_stream_on_spark_finds_the_same_anomalies_at_the_same_times(
    spark: SparkSession, scenario: Scenario, history: History, local: Outcome
) -> None:
    with runner_of("streaming", spark) as runner:
        outcome = run(scenario, history, runner)
    assert outcome.detections == local.detections
    assert (outcome.late, outcome.duplicates) == (local.late, local.duplicates)
    assert sorted(outcome.buckets) == sorted(local.buckets)
    assert sorted(outcome.expectations) == sorted(local.expectations)


@pytest.mark.slow
def test_a_bounded_job_on_spark_finds_the_same_anomalies(
    spark: SparkSession, scenario: Scenario, history: History, local: Outcome
) -> None:
    """No arrival order: nothing is late, so that a few buckets hold more, and a spike may be settled a second apart."""
    with runner_of("batch", spark) as runner:
        outcome = run(scenario, history, runner)
    assert (outcome.late, outcome.duplicates) == (0, history.redelivered)
    assert sum(bucket.times for bucket in outcome.buckets) == history.table.num_rows - history.redelivered
    assert extents(detection.anomaly for detection in outcome.detections) == extents(plain.anomalies(scenario, history))
    mine, streams = (score(history.planted, found_by.detections) for found_by in (outcome, local))
    assert [(planted, actual is None) for planted, actual in mine.pairs] == [
        (planted, actual is None) for planted, actual in streams.pairs
    ]
    assert len(mine.false) == len(streams.false)
