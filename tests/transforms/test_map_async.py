"""`MapAsync`: many calls of a service at once, with time limits, further attempts, a rate and answers that are kept."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.service import ask, ask_async, ask_with_number, running_service
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator
    from pathlib import Path

    from tests.support.service import Service

CODES = [f"c{number}" for number in range(40)]
NAMES = [f"name of {code}" for code in CODES]


@pytest.fixture
def service() -> Iterator[Service]:
    with running_service() as running:
        yield running


def answers(elements: Any, transform: dm.MapAsync[Any, Any], runner: Any = None) -> tuple[list[Any], dict[str, int]]:
    """Return the outputs for some elements in order, and the counters of the transform."""

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create(elements) | "ask" >> transform | "out" >> dm.io.Collect()

    result = run(runner or dm.LocalRunner(), build)
    return [record.value for record in result.collected("out")], dict(result.metrics()["ask"])


def letters(elements: Any, transform: dm.MapAsync[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the outputs for some elements, and the dead letters as pairs of element and reason."""

    def build(p: dm.Pipeline) -> None:
        good, bad = p | dm.Create(elements) | "ask" >> transform.with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()

    result = run(dm.LocalRunner(), build)
    bad = [(record.value.element, record.value.reason) for record in result.collected("bad")]
    return [record.value for record in result.collected("good")], bad


# Calls.


def _begin_asking(code: str, port: int) -> Awaitable[str]:
    return ask_async(code, port)


@pytest.mark.parametrize("function", [ask, ask_async, _begin_asking])
def test_answers_are_in_the_order_of_the_elements_though_calls_overlap(service: Service, function: Any) -> None:
    service.delay = 0.02
    names, counts = answers(CODES, dm.MapAsync(function, service.port, concurrency=8))
    assert names == NAMES
    assert 1 < service.at_once <= 8
    assert counts == {"elements_in": 40, "elements_out": 40, "calls": 40}


@pytest.mark.parametrize("function", [ask, ask_async])
def test_a_failed_call_is_repeated_and_each_attempt_is_counted(service: Service, function: Any) -> None:
    service.failures = {"c3": 2, "c7": 1}
    names, counts = answers(CODES, dm.MapAsync(function, service.port))
    assert names == NAMES
    assert (counts["calls"], counts["retries"]) == (43, 3)


def test_an_element_that_fails_in_each_attempt_is_a_dead_letter_with_the_last_reason(service: Service) -> None:
    service.failures = {"c1": 9}
    good, bad = letters(CODES[:3], dm.MapAsync(ask_async, service.port, retries=1))
    assert good == [NAMES[0], NAMES[2]]
    assert bad == [("c1", "ConnectionError: HTTP/1.0 503 Service Unavailable")]
    assert service.asked["c1"] == 2


def test_without_dead_letters_an_element_that_fails_in_each_attempt_ends_the_run_with_the_label(
    service: Service,
) -> None:
    service.failures = {"c1": 9}
    with pytest.raises(dm.UserCodeError, match=r"503 Service Unavailable[^$]*transform: 'ask'\n  element: 'c1'"):
        answers(CODES, dm.MapAsync(ask_async, service.port, retries=0))


@pytest.mark.parametrize("function", [ask, ask_async])
def test_a_call_without_an_answer_ends_at_its_time_limit_and_does_not_hold_up_the_others(
    service: Service, function: Any
) -> None:
    service.stalls = {"c1"}
    transform = dm.MapAsync(function, service.port, timeout="0.3 seconds", retries=1, concurrency=2)
    good, bad = letters(CODES, transform)
    assert good == [NAMES[0], *NAMES[2:]]
    assert bad == [("c1", "TimeoutError: no answer within 0.3 s")]
    assert service.asked["c1"] == 2


def test_calls_are_not_repeated_after_errors_that_retries_do_not_name() -> None:
    calls = []

    def fails(element: int) -> int:
        calls.append(element)
        raise KeyError(element)

    _, bad = letters([1], dm.MapAsync(fails, retry_on=(ConnectionError, TimeoutError)))
    assert calls == [1]
    assert bad == [(1, "KeyError: 1")]


def test_a_function_that_raises_system_exit_is_an_error_of_its_element() -> None:
    async def ends(element: int) -> int:
        raise SystemExit(3)

    with pytest.raises(dm.UserCodeError, match="a function cannot end the program"):
        answers([1], dm.MapAsync(ends))


def test_no_more_calls_begin_in_a_second_than_the_rate_allows() -> None:
    starts = []

    async def note(element: int) -> int:
        starts.append(time.monotonic())
        return element

    answers(range(11), dm.MapAsync(note, rate=50))
    assert starts[-1] - starts[0] >= 10 / 50


def test_the_thread_of_the_calls_ends_when_the_run_fails() -> None:
    async def waits(element: int) -> int:
        if element == 0:
            raise ValueError(element)
        await asyncio.sleep(60)
        return element

    with pytest.raises(dm.UserCodeError):
        answers(range(20), dm.MapAsync(waits, retries=0))
    assert not [thread.name for thread in threading.enumerate() if thread.name == "dataflow_model calls"]


# Answers that are kept.


def test_equal_elements_share_an_answer_for_as_long_as_it_is_kept(service: Service) -> None:
    names, counts = answers(["a", "b", "a", "a"], dm.MapAsync(ask_async, service.port, cache="1 hour"))
    assert names == ["name of a", "name of b", "name of a", "name of a"]
    assert service.asked == {"a": 1, "b": 1}
    assert (counts["calls"], counts["cache_hits"]) == (2, 2)


def test_elements_that_are_equal_but_of_other_types_do_not_share_an_answer() -> None:
    assert answers([1, True, 1.0], dm.MapAsync(repr, cache="1 hour"))[0] == ["1", "True", "1.0"]


@pytest.mark.parametrize(("cache", "calls"), [("1 hour", 1), (dm.Duration(micros=1), 2)])
def test_a_cached_answer_that_has_expired_is_requested_again(service: Service, cache: Any, calls: int) -> None:
    def build(p: dm.Pipeline) -> None:
        script = TestStream().add("a", 1).processing_time(10).add("a", 2)
        _ = p | script | dm.MapAsync(ask_async, service.port, cache=cache) | "out" >> dm.io.Collect()

    assert len(run(dm.LocalRunner(), build).collected("out")) == 2
    assert service.asked == {"a": calls}


def test_failures_are_not_cached() -> None:
    calls: list[int] = []

    async def fails_once(element: int) -> int:
        calls.append(element)
        await asyncio.sleep(0)
        if len(calls) == 1:
            raise ValueError(element)
        return element

    def build(p: dm.Pipeline) -> None:
        script = TestStream().add(7, 1).processing_time(10).add(7, 2)
        good, bad = p | script | dm.MapAsync(fails_once, retries=0, cache="1 hour").with_exception_handling()
        _ = good | "good" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()

    result = run(dm.LocalRunner(), build)
    assert [record.value for record in result.collected("good")] == [7]
    assert [record.value.element for record in result.collected("bad")] == [7]


def test_an_element_without_a_hash_is_named_where_answers_are_kept() -> None:
    with pytest.raises(dm.UserCodeError, match="`cache` needs elements with a hash: unhashable type: 'list'"):
        answers([[1]], dm.MapAsync(str, cache="1 hour"))


# Arguments of functions.


async def _with_all(element: str, names: dict[str, str], timestamp: dm.EventTime, *, suffix: str) -> str:
    await asyncio.sleep(0)
    return f"{names[element]} at {int(timestamp) // 1_000_000}{suffix}"


def test_a_function_gets_side_inputs_metadata_and_further_arguments() -> None:
    def build(p: dm.Pipeline) -> None:
        names = p | "names" >> dm.Create([("UA", "United")])
        elements = p | dm.Create([dm.TimestampedValue("UA", 5)])
        _ = elements | dm.MapAsync(_with_all, dm.AsDict(names), suffix="!") | "out" >> dm.io.Collect()

    assert [record.value for record in run(dm.LocalRunner(), build).collected("out")] == ["United at 5!"]


def test_the_type_of_the_outputs_is_the_one_that_the_function_returns() -> None:
    async def length(text: str) -> int:
        return len(text)

    assert (dm.Pipeline() | dm.Create(["a"]) | dm.MapAsync(length)).element_type is int


@pytest.mark.parametrize("is_async", [True, False])
def test_counters_of_the_function_itself_are_exact(is_async: bool) -> None:
    seen = dm.metrics.counter("seen")

    def count(element: int) -> int:
        seen.inc()
        return element

    async def count_async(element: int) -> int:
        return count(element)

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create(range(3_000)) | "ask" >> dm.MapAsync(count_async if is_async else count) | dm.io.Collect()

    result = run(dm.LocalRunner(), build)
    assert result.report().transforms["ask"].user.counters == {"seen": 3_000}


# Hosts, restarts and retractions.


@on_hosts("local", "process", slow=("workers", "batch", "streaming"))
def test_each_host_gives_each_answer_once(
    host: str, request: pytest.FixtureRequest, tmp_path: Path, service: Service
) -> None:
    service.failures = {"c3": 1}

    def build(p: dm.Pipeline) -> None:
        elements = p | dm.Create(CODES) | dm.WithKeys(lambda code: int(code[1:]) % 3)
        names = elements | dm.MapAsync(partial(_of_pair, port=service.port))
        _ = names | dm.ToSet.per_key() | "out" >> dm.io.Collect()

    records = run(runner_on(host, request, tmp_path / "checkpoint"), build).collected("out")
    assert sorted(name for record in records for name in record.value[1]) == sorted(NAMES)


async def _of_pair(pair: tuple[int, str], port: int) -> tuple[int, str]:
    return pair[0], await ask_async(pair[1], port)


def _has_collected(result: Any, count: int) -> bool:
    return len(result.collected("out")) == count


def test_elements_of_a_committed_micro_batch_are_not_asked_for_again_after_a_restart(
    service: Service, tmp_path: Path
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path / "checkpoint"))
    lines = p | dm.io.ReadText(str(folder / "*.txt"), event_time=dm.ARRIVAL, follow=True)
    _ = lines | dm.MapAsync(partial(ask_with_number, port=service.port)) | "out" >> dm.io.Collect()
    names = []
    for number in range(2):
        (folder / f"{number}.txt").write_text(f"c{number}\n")
        result = p.run()
        wait_for(result, partial(_has_collected, result, number + 1))
        result.stop()
        names = [record.value for record in result.collected("out")]
    assert service.asked == {"c0": 1, "c1": 1}
    assert names == ["name of c0 #1", "name of c1 #2"]


def test_a_retraction_takes_back_the_answer_that_was_given_without_a_call(service: Service) -> None:
    def build(p: dm.Pipeline) -> None:
        script = TestStream().add(1, 1, key="a").processing_time(10).add(2, 2, key="a")
        each = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
        sums = p | script | each | dm.Sum.per_key() | dm.MapTuple(lambda key, total: f"{key}{total}")
        _ = sums | dm.MapAsync(partial(ask_with_number, port=service.port)) | "out" >> dm.io.Collect()

    records = run(dm.LocalRunner(), build).collected("out")
    assert [(record.value, record.is_retraction) for record in records] == [
        ("name of a1 #1", False),
        ("name of a1 #1", True),
        ("name of a3 #2", False),
    ]


# Arguments of the transform.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"concurrency": 0}, "`concurrency` must be a positive int, got 0"),
        ({"timeout": 0}, "`timeout` must be positive, got '0 seconds'"),
        ({"retries": -1}, "`retries` must be 0 or a positive int, got -1"),
        ({"retry_on": "all"}, "`retry_on` must be a class of exceptions, or a tuple of such, got 'all'"),
        ({"rate": 0}, "`rate` must be positive, got 0"),
        ({"rate": "fast"}, "`rate` must be a number of calls a second, got 'fast'"),
        ({"cache": "-1 hour"}, "`cache` must be positive"),
    ],
)
def test_limits_that_make_no_sense_are_rejected(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(dm.DataflowError, match=message):
        dm.MapAsync(str, **arguments)


def test_a_generator_and_a_value_that_is_no_function_are_rejected() -> None:
    async def spread(element: int) -> Any:
        yield element

    with pytest.raises(dm.InvalidArgument, match="a function that returns one output, got the generator"):
        dm.MapAsync(spread)
    with pytest.raises(dm.InvalidType, match="MapAsync takes a function, got 3"):
        dm.MapAsync(3)  # type: ignore[call-overload]


def test_map_with_an_async_function_names_map_async() -> None:
    with pytest.raises(dm.InvalidType, match=r"dm\.MapAsync, which awaits many calls at once"):
        dm.Map(ask_async)
