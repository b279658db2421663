"""Late elements that would have joined a session that has expired: the stream has two sessions, a batch job one."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import LawBroken, TestStream, prove
from dataflow_model.testing.proving import laws, proof
from dataflow_model.testing.proving.arrivals import Case
from dataflow_model.testing.proving.drawing import Broken
from dataflow_model.testing.proving.micro_batches import Schedule
from dataflow_model.testing.proving.proof_runs import Observed
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

COUNTER = "possible_session_splits"
SESSIONS = dm.Window.into(dm.Sessions(10)).allowed_lateness(10).accumulating()
SPLIT = TestStream().add(1, 0, key="a").add(2, 15, key="a").watermark(20).add(4, 9, key="a")
"""At 20, the session of the 1 has expired. The 4 would have joined it and that of the 2, and joins only the latter."""


def sums(elements: Any) -> Any:
    return elements | SESSIONS | "sums" >> dm.Sum.per_key()


def splits(script: TestStream, runner: Any = None) -> tuple[int, dict[tuple[int, int], int]]:
    """Return the number that a run counts, and the last value of each session."""

    def build(p: dm.Pipeline) -> None:
        _ = sums(p | script) | "out" >> dm.io.Collect()

    result = run(runner or dm.LocalRunner(), build)
    assert not result.report().transforms["sums"].dropped.get("late")
    seconds = [
        (int(record.window.start) // 10**6, int(record.window.end) // 10**6) for record in result.collected("out")
    ]
    values = [record.value[1] for record in result.collected("out")]
    return result.metrics()["sums"].get(COUNTER, 0), dict(zip(seconds, values, strict=True))


@on_hosts("local", "workers", "process", slow=("streaming",))
def test_possible_session_splits_are_counted_on_every_host_of_streams(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    assert splits(SPLIT, runner_on(host, request, tmp_path)) == (1, {(0, 10): 1, (9, 25): 6})


def test_a_batch_job_has_one_session_and_counts_nothing(spark: Any) -> None:
    assert splits(SPLIT, dm.SparkRunner(spark)) == (0, {(0, 25): 7})


@pytest.mark.parametrize(
    ("late", "counted"),
    [
        pytest.param(9, 1, id="the last that an expired session may have contained"),
        pytest.param(10, 0, id="at the end of the last session that can have expired"),
        pytest.param(16, 0, id="within a session that is open"),
    ],
)
def test_only_elements_before_every_open_session_can_be_split_from_an_expired_one(late: int, counted: int) -> None:
    script = TestStream().add(1, 0, key="a").add(2, 15, key="a").watermark(20).add(4, late, key="a")
    assert splits(script)[0] == counted


def test_the_count_of_session_splits_is_an_upper_bound() -> None:
    assert splits(TestStream().watermark(20).add(4, 9, key="a"))[0] == 1


def test_windows_that_do_not_merge_count_no_session_splits() -> None:
    fixed = dm.Window.into(dm.FixedWindows(10)).allowed_lateness(10)
    with dm.Pipeline() as p:
        _ = p | SPLIT | fixed | "sums" >> dm.Sum.per_key() | dm.io.Collect()
    assert not p.result.metrics()["sums"].get(COUNTER)


@pytest.fixture(name="only_the_split")
def _only_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let proofs draw nothing but the script above."""
    drawn = Case(SPLIT, cuts=(False,) * 9, schedule=Schedule(2, cuts=(1,)))
    monkeypatch.setattr(proof, "cases_of", lambda *_: st.just(drawn))


@pytest.mark.usefixtures("only_the_split")
def test_prove_mentions_possible_session_splits_and_reports_no_broken_law(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "dataflow_model"):
        prove(sums, [(("a", 1), 0)], examples=1)
    [message] = [record.getMessage() for record in caplog.records if COUNTER in record.getMessage()]
    assert message.startswith("no law is broken")
    assert ".watermark(" in message


@pytest.mark.usefixtures("only_the_split")
def test_without_the_count_of_session_splits_prove_would_report_a_broken_law(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Observed, "may_have_split_sessions", lambda _: False)
    with pytest.raises(LawBroken, match="law 1, batch ≡ stream does not hold"):
        prove(sums, [(("a", 1), 0)], examples=1)


@pytest.mark.usefixtures("only_the_split")
def test_other_broken_laws_are_reported_despite_session_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(node: Any, _: Any) -> None:
        raise Broken("lost", law=laws.CONSERVATION, columns=("", ""), sides=([node.label], []))

    monkeypatch.setattr(laws, "check_conservation", lose)
    with pytest.raises(LawBroken, match="law 5, conservation does not hold"):
        prove(sums, [(("a", 1), 0)], examples=1)
