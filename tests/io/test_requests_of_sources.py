"""How often a source is asked, what it learns of commits, and what happens while its service does not answer."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.plan.endpoints.retries import Attempts
from tests.support.counting import Counting
from tests.support.micro_batches import planning
from tests.support.pipelines import run, start, streaming
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


def build(p: dm.Pipeline, source: Counting) -> None:
    _ = p | "numbers" >> dm.Read(source) | dm.Map(lambda row: row.n) | "n" >> dm.io.Collect()


def planned(source: Counting, clock: Clock) -> tuple[Any, Any]:
    """Return what plans the micro-batches of a stream, and the first offset."""
    return planning(lambda p: build(p, source), clock)


def next_after_outage(feed: Any, offset: Any, clock: Clock) -> Any:
    """Return the first offset of the next minute that reports something."""
    for _ in range(600):
        clock.seconds += 0.1
        offset = feed.next(offset, drain=False, until_drained=True)
        if offset.sources["numbers"].changes:
            break
    return offset


def values(result: Any) -> list[int]:
    return sorted(record.value for record in result.collected("n"))


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Let no time pass between two attempts, and return the pauses."""
    pauses: list[float] = []
    # Not `time.sleep` itself, which other threads call.
    monkeypatch.setattr("dataflow_model.plan.endpoints.retries.time", SimpleNamespace(sleep=pauses.append))
    return pauses


def test_a_source_is_not_polled_again_before_its_interval_has_passed(tmp_path: Path) -> None:
    source, clock = Counting(folder=tmp_path), Clock()
    source.have(3)
    feed, offset = planned(source, clock)
    offset = feed.next(offset, drain=False)
    for _ in range(100):
        clock.seconds += 0.5
        offset = feed.next(offset, drain=False)
    assert len(source.calls("origins")) == 1
    clock.seconds += 10
    feed.next(offset, drain=False)
    assert len(source.calls("origins")) == 2


def test_a_notifier_lets_a_source_be_polled_before_its_interval_has_passed(tmp_path: Path) -> None:
    source, clock = Counting(folder=tmp_path), Clock()
    source.have(3)
    feed, offset = planned(source, clock)
    offset = feed.next(offset, drain=False)
    feed.polls.hasten()
    feed.next(offset, drain=False)
    assert len(source.calls("origins")) == 2


def test_a_drain_until_now_polls_once_more_without_waiting_for_the_interval(tmp_path: Path) -> None:
    source, clock = Counting(folder=tmp_path), Clock()
    source.have(3)
    feed, offset = planned(source, clock)
    offset = feed.next(offset, drain=False)
    source.have(5)
    offset = feed.next(offset, drain=False, until_drained=True)
    assert len(source.calls("origins")) == 2
    assert not offset.last
    assert feed.next(offset, drain=False, until_drained=True).last


def test_a_failed_poll_is_repeated_later_while_the_run_continues(tmp_path: Path) -> None:
    source, clock = Counting(folder=tmp_path, outages={"origins": 2}), Clock()
    source.have(3)
    feed, offset = planned(source, clock)
    offset = feed.next(offset, drain=False)
    assert not offset.sources["numbers"].open
    offset = feed.next(offset, drain=False, until_drained=True)
    assert not offset.last
    assert len(source.calls("origins")) == 1  # it waits although the run is to end
    offset = next_after_outage(feed, offset, clock)
    assert offset.sources["numbers"].changes == {"retries": 2}
    assert len(source.calls("origins")) == 3
    assert feed.next(offset, drain=False, until_drained=True).last


def test_a_poll_that_fails_for_too_long_is_an_error_that_names_the_last_failure(tmp_path: Path) -> None:
    source, clock = Counting(folder=tmp_path, outages={"origins": 1_000}, retry_for="5 seconds"), Clock()
    feed, offset = planned(source, clock)
    offset = feed.next(offset, drain=False)
    problem = (
        r"'numbers' waited for poll of Counting, which failed \d+ times in 5\.\d s, the last time with "
        r"ConnectionError: no route to host\nHint: .*`retry_for`, which is 5 seconds"
    )
    with pytest.raises(dm.SourceError, match=problem):
        next_after_outage(feed, offset, clock)
    assert len(source.calls("origins")) < 15


def test_pauses_between_attempts_grow_and_differ(tmp_path: Path) -> None:
    clock = Clock()
    attempts = Attempts(Counting(folder=tmp_path, retry_for="1 hour"), "numbers", "poll", clock)
    pauses = [attempts.failed(ConnectionError()) for _ in range(12)]
    longest = [min(10.0, 0.1 * 2**number) for number in range(12)]
    assert all(limit / 2 <= pause <= limit for pause, limit in zip(pauses, longest, strict=True))
    assert len(set(pauses[-4:])) == 4


@pytest.mark.parametrize("runner", [dm.LocalRunner(), dm.LocalRunner(workers=2)])
def test_a_bounded_run_repeats_failed_requests(tmp_path: Path, runner: dm.LocalRunner, no_pauses: list[float]) -> None:
    source = Counting(folder=tmp_path, outages={"origins": 2, "read": 2}, is_bounded=True)
    source.have(5)
    result = run(runner, lambda p: build(p, source), until=None)
    assert values(result) == [0, 1, 2, 3, 4]
    assert result.metrics()["numbers"]["retries"] == 4


def test_a_failed_read_is_resumed_after_the_last_row_and_counted(
    tmp_path: Path, no_pauses: list[float], caplog: pytest.LogCaptureFixture
) -> None:
    source = Counting(folder=tmp_path, outages={"read": 2})
    source.have(5)
    with caplog.at_level(logging.WARNING, "dataflow_model"):
        result = run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), lambda p: build(p, source))
    assert values(result) == [0, 1, 2, 3, 4]
    assert result.metrics()["numbers"]["retries"] == 2
    assert len(no_pauses) == 2
    assert "'numbers': read('numbers', …) failed and is retried in" in caplog.text


def test_a_read_that_fails_for_too_long_is_an_error_that_names_the_origin(tmp_path: Path) -> None:
    source = Counting(folder=tmp_path, outages={"read": 1_000}, retry_for=0)
    source.have(5)
    with pytest.raises(
        dm.SourceError, match=r"'numbers' waited for read\('numbers', …\) of Counting, which failed once"
    ):
        run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), lambda p: build(p, source))


class Refusing(Counting):
    """A source whose errors do not pass."""

    transient_errors = (TimeoutError,)


def test_an_error_that_the_source_does_not_declare_ends_the_run(tmp_path: Path) -> None:
    source = Refusing(folder=tmp_path, outages={"origins": 1})
    with pytest.raises(Exception, match="no route to host"):
        run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), lambda p: build(p, source))


def told(source: Counting) -> list[Any]:
    return [json.loads(line)["numbers"] for line in source.calls("committed") if "numbers" in json.loads(line)]


def test_a_source_is_told_of_each_commit_and_of_the_last_one_after_a_restart(tmp_path: Path) -> None:
    source = Counting(folder=tmp_path, poll_interval=None)
    source.have(5)
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=2)
    result: Any = start(runner, lambda p: build(p, source))
    wait_for(result, lambda: told(source)[-1:] == [[5, 5]])
    result.stop()
    assert sorted(told(source)) == told(source)
    assert [2, 5] in told(source)
    before = len(told(source))
    result = start(runner, lambda p: build(p, source))
    wait_for(result, lambda: len(told(source)) > before)
    result.stop()
    assert told(source)[before] == [5, 5]


def test_a_source_is_told_of_each_commit_of_a_stream_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    source = Counting(folder=tmp_path, poll_interval=None)
    source.have(5)
    run(streaming(spark, tmp_path / "checkpoint", max_rows_per_batch=2), lambda p: build(p, source))
    assert sorted(told(source)) == told(source)
    assert told(source)[-1] == [5, 5]
    assert [2, 5] in told(source)


@pytest.mark.slow
def test_an_idle_source_is_polled_at_its_interval_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    source = Counting(folder=tmp_path)
    source.have(5)
    runner = streaming(spark, tmp_path / "checkpoint", trigger_interval="10 ms")
    result: Any = start(runner, lambda p: build(p, source))
    wait_for(result, lambda: values(result) == [0, 1, 2, 3, 4])
    result.drain()
    result.wait_until_finish()
    assert len(source.calls("origins")) == 1
