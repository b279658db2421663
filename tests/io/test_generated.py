"""Generated rows: the same ones whatever the cuts and restarts, and none before it is due."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.io.generated import GeneratedSource
from dataflow_model.runners.sharded.feed.origins import SourceOffset
from dataflow_model.testing import ManualClock
from tests.support.pipelines import run, seen, streaming
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

NEW_YEAR = 1_356_998_400
"""2013-01-01T00:00:00Z in seconds since the epoch."""


def source(transform: Any) -> GeneratedSource:
    generated = transform.source
    assert isinstance(generated, GeneratedSource)
    return generated


def rows(source: GeneratedSource, origin: str, start: int, stop: int | None) -> list[tuple[int, int]]:
    """Return number and event time in microseconds."""
    numbers = []
    for batch in source.read(origin, start, stop):
        numbers += list(zip(batch["value"].to_pylist(), batch["at"].cast("int64").to_pylist(), strict=True))
    return numbers


def windows(read: Callable[[], Any]) -> Callable[[dm.Pipeline], Any]:
    """Return what builds the numbers of each ten seconds."""

    def build(p: dm.Pipeline) -> None:
        pairs = p | "numbers" >> read() | dm.Map(lambda row: ("n", row.value))
        _ = pairs | dm.Window.into(dm.FixedWindows(10)) | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


def values(records: Any) -> list[int]:
    return [record.value[1] for record in records]


# Rows.


@given(
    rate=st.integers(1, 10**7),
    period=st.integers(1, 10**13),
    first=st.integers(-(10**6), 10**12),
    start=st.integers(0, 10**5),
    count=st.integers(1, 50),
    cut=st.integers(0, 50),
)
def test_row_n_is_n_periods_after_the_first_wherever_reading_starts(
    rate: int, period: int, first: int, start: int, count: int, cut: int
) -> None:
    made = source(dm.io.GenerateSequence(first, rate=rate, period=dm.Duration(micros=period), begin=100))
    stop, between = start + count, min(start + cut, start + count)
    expected = [(first + n, 100_000_000 + n * period // rate) for n in range(start, stop)]
    assert rows(made, "", start, stop) == expected
    assert rows(made, "", start, between) + rows(made, "", between, stop) == expected


@given(st.integers(1, 50), st.integers(1, 10**7), st.lists(st.integers(0, 10**6), max_size=20))
def test_a_generated_row_is_available_from_its_instant_on_and_not_before(
    rate: int, period: int, steps: list[int]
) -> None:
    made = source(dm.io.GenerateSequence(rate=rate, period=dm.Duration(micros=period)))
    known, clock = SourceOffset(), NEW_YEAR * 10**6
    begun = clock
    for step in [0, *steps]:
        clock += step
        known = known.listed(made, made.poll(known, clock), "numbers")
        known = known.advanced({name: origin.left for name, origin in known.open.items()})
        [name] = known.names()
        origin = known.get(name)
        assert origin is not None
        available = origin.rows or 0
        assert begun + (available - 1) * period // rate <= clock < begun + available * period // rate


def test_the_watermark_of_a_sequence_is_the_event_time_of_the_next_row() -> None:
    made = source(dm.io.GenerateSequence(rate=3))
    times = [at for _, at in rows(made, "1970-01-01T00:00:00Z", 0, 10)]
    for now, following in itertools.pairwise(times):
        assert now < int(made.watermark.watermark(dm.EventTime(now))) <= following


def test_a_sequence_read_in_many_batches_has_each_row_once() -> None:
    made = source(dm.io.GenerateSequence(5, 200_005))
    [origin] = made.origins()
    assert origin.rows == 200_000
    assert rows(made, origin.name, 0, None) == [(5 + n, n * 1_000_000) for n in range(200_000)]


# Bounded.


@pytest.mark.parametrize("replay", [False, True])
def test_a_sequence_with_an_end_is_a_bounded_collection(replay: bool) -> None:
    result = run(dm.LocalRunner(), windows(lambda: dm.io.GenerateSequence(stop=25, replay=replay)), until=None)
    assert values(result.collected("panes")) == [45, 145, 110]


def test_impulses_with_an_end_are_a_bounded_collection() -> None:
    def build(p: dm.Pipeline) -> None:
        impulses = p | dm.io.PeriodicImpulse(NEW_YEAR, NEW_YEAR + 100, interval="40 seconds")
        _ = impulses | dm.Map(lambda row: (row.value, int(row.at.timestamp()))) | "all" >> dm.io.Collect()

    result = run(dm.LocalRunner(), build, until=None)
    expected = [(n, NEW_YEAR + 40 * n) for n in range(3)]
    assert [record.value for record in result.collected("all")] == expected
    assert [int(record.event_time) // 10**6 for record in result.collected("all")] == [at for _, at in expected]


def test_a_sequence_of_zero_rows_is_empty() -> None:
    result = run(dm.LocalRunner(), windows(lambda: dm.io.GenerateSequence(7, 7)), until=None)
    assert values(result.collected("panes")) == []


# Streams.


def test_a_stream_emits_each_row_when_the_wall_clock_reaches_it(tmp_path: Path) -> None:
    clock = ManualClock(NEW_YEAR)
    stepped = Stepped(windows(dm.io.GenerateSequence), tmp_path, clock=clock)
    assert stepped.steps() == 1
    clock.advance(8.9)
    stepped.steps()
    assert stepped.metrics()["numbers"]["elements_out"] == 9
    assert stepped.collected("panes") == []
    clock.advance(0.1)
    assert stepped.steps() == 1
    assert values(stepped.collected("panes")) == [45]  # the next row is at the window's end: it need not be waited for
    assert stepped.steps() == 0


def test_a_resumed_run_continues_with_the_next_row_of_a_sequence(tmp_path: Path) -> None:
    def numbers(p: dm.Pipeline) -> None:
        read = p | dm.io.GenerateSequence(rate=10) | dm.Map(lambda row: (row.value, round(row.at.timestamp() * 1_000)))
        _ = read | "all" >> dm.io.Collect()

    clock = ManualClock(NEW_YEAR)
    stepped = Stepped(numbers, tmp_path, rows=7, clock=clock)
    for seconds in (0, 0.35, 3.1, 0, 12.25):
        clock.advance(seconds)
        stepped.steps()  # each call is another start of the run
    assert [record.value for record in stepped.collected("all")] == [
        (n, NEW_YEAR * 1_000 + 100 * n) for n in range(158)
    ]


@pytest.mark.parametrize(
    "changed",
    [{"start": 1}, {"rate": 3}, {"period": "2 seconds"}, {"begin": "2013-01-01T00:00Z"}, {"stop": 9}],
    ids=lambda changed: next(iter(changed)),
)
def test_a_run_is_not_resumed_with_another_sequence(tmp_path: Path, changed: dict[str, Any]) -> None:
    options: dict[str, Any] = {"start": 0, "stop": 4, "rate": 2, "begin": "2012-01-01T00:00Z"}

    def stepped(**given: Any) -> Stepped:
        read = dm.io.GenerateSequence(**{**options, **given})
        return Stepped(lambda p: p | "numbers" >> read | "out" >> dm.io.Collect(), tmp_path)

    stepped().steps()
    stepped().steps()
    with pytest.raises(dm.CheckpointMismatch, match=r"'numbers' was: .*; it is: "):
        stepped(**changed).steps()


def test_impulses_that_are_due_arrive_immediately_and_others_at_their_instants(tmp_path: Path) -> None:
    def impulses(p: dm.Pipeline) -> None:
        read = p | dm.io.PeriodicImpulse(NEW_YEAR, interval="1 minute") | dm.Map(lambda row: row.value)
        _ = read | "all" >> dm.io.Collect()

    clock = ManualClock(NEW_YEAR - 30)
    stepped = Stepped(impulses, tmp_path / "future", clock=clock)
    stepped.steps()
    assert stepped.collected("all") == []
    clock.advance(30)
    stepped.steps()
    assert [record.value for record in stepped.collected("all")] == [0]
    late = Stepped(impulses, tmp_path / "past", clock=ManualClock(NEW_YEAR + 179))
    late.steps()
    assert [record.value for record in late.collected("all")] == [0, 1, 2]


def test_on_the_replay_clock_panes_do_not_depend_on_when_rows_were_emitted(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        pairs = p | dm.io.GenerateSequence(begin=NEW_YEAR, replay=True) | dm.Map(lambda row: ("n", row.value))
        early = dm.AfterWatermark(early=dm.Repeatedly(dm.AfterProcessingTime(3)), late=dm.AfterCount(1))
        _ = (
            pairs
            | dm.Window.into(dm.FixedWindows(10)).trigger(early).accumulating()
            | dm.Sum.per_key()
            | "panes" >> dm.io.Collect()
        )

    panes = []
    for number, steps in enumerate(([60.0], [3.3] * 19, [0.5, 20.0, 0.0, 39.5])):
        clock = ManualClock(1_000)
        stepped = Stepped(build, tmp_path / str(number), rows=1_000 if number < 2 else 3, clock=clock)
        stepped.steps()
        for seconds in steps:
            clock.advance(seconds)
            stepped.steps()
        panes.append(seen(stepped.collected("panes")))
    assert len(panes[0]) > 15
    shortest = min(map(len, panes))
    assert shortest > len(panes[0]) - 3
    assert panes[0][:shortest] == panes[1][:shortest] == panes[2][:shortest]


def test_a_stream_of_a_bounded_sequence_ends(tmp_path: Path) -> None:
    stepped = Stepped(windows(lambda: dm.io.GenerateSequence(stop=25)), tmp_path, rows=4, clock=ManualClock(NEW_YEAR))
    stepped.steps()
    assert stepped.is_over()
    assert values(stepped.collected("panes")) == [45, 145, 110]


def test_a_sequence_without_an_end_needs_a_stream() -> None:
    with pytest.raises(dm.UnsupportedOnRunner):
        run(dm.LocalRunner(), windows(dm.io.GenerateSequence), until=None)


def test_generated_rows_are_the_same_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        windows(lambda: dm.io.GenerateSequence(stop=25, rate=2))(p)
        impulses = p | dm.io.PeriodicImpulse(NEW_YEAR, interval="1 day") | "count" >> dm.Map(lambda row: row.value)
        _ = impulses | "days" >> dm.io.Collect()

    result = run(streaming(spark, tmp_path / "run", max_rows_per_batch=4_000, shards=2), build)
    assert result.state is dm.RunnerState.DRAINED
    assert sorted(values(result.collected("panes"))) == [110, 190]
    days = [record.value for record in result.collected("days")]
    assert len(days) > 365 * 13
    assert days == list(range(len(days)))


# Options.


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: dm.io.GenerateSequence(5, 3), r"`stop` must not be less than `start`, got start=5 and stop=3"),
        (
            lambda: dm.io.GenerateSequence(rate=0),
            r"`rate` must be from 1 to 1,000,000,000, got 0\nHint: for fewer rows, pass a longer",
        ),
        (lambda: dm.io.GenerateSequence(rate=10**30), "`rate` must be from 1 to 1,000,000,000, got 1000000"),
        (
            lambda: dm.io.GenerateSequence(-(2**63) - 1),
            r"whole numbers of 64 bits, got start=-922.*\nHint: generate from 0",
        ),
        (lambda: dm.io.GenerateSequence(0, 2**63), "whole numbers of 64 bits, got start=0 and stop=922"),
        (lambda: dm.io.GenerateSequence(1.5), r"`start` must be a whole number, got 1\.5"),  # type: ignore[arg-type]
        (
            lambda: dm.io.GenerateSequence(period=0),
            r"`period` must be positive and at most 366 days, got '0 seconds'",
        ),
        (lambda: dm.io.PeriodicImpulse(interval="400 days"), r"`interval` must be positive and at most 366 days"),
        (lambda: dm.io.PeriodicImpulse(stop=5), r"`stop` needs a `start`, got stop=.*\nHint: pass start= too"),
        (lambda: dm.io.PeriodicImpulse(5, 3), r"`stop` must not be before `start`"),
    ],
)
def test_options_that_do_not_describe_a_sequence_are_rejected(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(dm.DataflowError, match=message):
        build()
