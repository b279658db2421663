"""What a run tells the log: its start, its end, and what it drops."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.errors import LOG
from dataflow_model.metrics import RunReport, TransformReport
from dataflow_model.runners.runs.run_log import RunLog
from dataflow_model.runners.runs.silent_sources import SilentSources
from dataflow_model.testing import TestStream
from tests.support.hosts import on_hosts, runner_on
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

LATE = (
    TestStream()
    .add(4, event_time=1, key="UA")
    .watermark(100)
    .add(9, event_time=2, key="UA")
    .add(8, event_time=3, key="UA")
)


def sums(p: dm.Pipeline) -> Any:
    return p | "script" >> LATE | dm.Window.into(dm.FixedWindows("1 minute")) | "sums" >> dm.Sum.per_key()


def lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """Return what was logged, with numbers of seconds left out."""
    return [
        (record.levelname, re.sub(r"after [0-9.]+ s", "after … s", record.getMessage())) for record in caplog.records
    ]


@pytest.fixture(autouse=True)
def every_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "dataflow_model")


def test_a_run_logs_its_start_what_it_drops_and_its_end(caplog: pytest.LogCaptureFixture) -> None:
    p = dm.Pipeline()
    _ = (
        p
        | "script" >> LATE
        | dm.Window.into(dm.FixedWindows("1 minute"))
        | "sums" >> dm.Sum.per_key()
        | dm.io.Collect()
    )
    p.run().wait_until_finish()
    run = "LocalRunner: the run from 'script' to 'Collect'"
    assert lines(caplog) == [
        ("INFO", f"{run} starts, with 4 transforms"),
        ("WARNING", f"{run} has dropped at 'sums': 2 late"),
        ("INFO", f"{run} is done after … s: 3 elements read, 1 written, 2 dropped"),
    ]
    assert {record.name for record in caplog.records} == {"dataflow_model"}


def test_a_run_that_fails_logs_why_and_the_error_is_raised_once(caplog: pytest.LogCaptureFixture) -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([0]) | "divide" >> dm.Map(lambda number: 1 / number)
    with pytest.raises(dm.UserCodeError):
        p.run().wait_until_finish()
    (_, (level, message)) = lines(caplog)
    assert level == "INFO"
    assert message.startswith("LocalRunner: the run from 'Create' to nowhere has failed after … s: UserCodeError: ")
    assert "\n" not in message


def test_rows_that_do_not_fit_a_sink_are_warned_about(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    p = dm.Pipeline()
    write = dm.io.WriteParquet(tmp_path / "out", schema=pa.schema({"value": pa.int64()}))
    _ = p | dm.Create([1, "two"]) | "write" >> write
    p.run().wait_until_finish()
    assert ("WARNING", "at 'write', for elements that do not fit its columns or format: 1") in [
        (level, message.partition("has written dead letters ")[2]) for level, message in lines(caplog)
    ]
    assert not any("has dropped" in message for _, message in lines(caplog))


def test_elements_after_the_end_of_a_trigger_are_logged_as_such(caplog: pytest.LogCaptureFixture) -> None:
    p = dm.Pipeline()
    once = dm.Window.trigger(dm.AfterCount(1), may_lose_data=True)
    script = dm.testing.TestStream().add(1, 0, key="a").add(2, 0, key="a")
    _ = p | script | once | "sums" >> dm.Sum.per_key()
    p.run().wait_until_finish()
    assert any(message.endswith("at 'sums': 1 after the trigger had finished") for _, message in lines(caplog))


def test_a_resumed_run_does_not_warn_again(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    for _ in range(2):
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path / "checkpoint"))
        sums(p)
        p.run().wait_until_finish()
    warnings = [message for level, message in lines(caplog) if level == "WARNING"]
    assert warnings == ["LocalRunner, stream: the run from 'script' to nowhere has dropped at 'sums': 2 late"]


def test_elements_dropped_for_a_static_side_input_are_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    seconds = pa.table({"at": [1, 70, 2], "seen": [100, 101, 102], "n": [1, 2, 4]})
    table = seconds.set_column(0, "at", pa.array([1_000_000, 70_000_000, 2_000_000]))
    with dm.Pipeline() as p:
        rows = p | "rows" >> dm.io.ReadTable(table, event_time="at", processing_time="seen")
        minutes = rows | dm.Window.into(dm.FixedWindows("1 minute")) | dm.Map(lambda row: ("n", row.n))
        sums = minutes | "sums" >> dm.Sum.per_key() | "all" >> dm.Window.into(dm.GlobalWindows())
        _ = p | dm.Create([0]) | dm.Map(lambda _, sums: sorted(sums), dm.AsIter(sums)) | dm.io.Collect()
    assert [record.value for record in p.result.collected("Collect")] == [[("n", 1), ("n", 2)]]
    (warning,) = [message for level, message in lines(caplog) if level == "WARNING"]
    assert warning.endswith("has dropped at 'sums': 1 late")


def test_samples_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    p = dm.Pipeline()
    assert sums(p).head() == [("UA", 4)]
    assert caplog.records == []


def test_a_long_run_logs_new_warnings_every_ten_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    late = [0]
    monkeypatch.setattr("dataflow_model.runners.runs.run_log.time.monotonic", lambda: now[-1])

    def report() -> Any:
        transforms = {node.label: TransformReport(label=node.label, stage=0) for node in plan.nodes}
        transforms["sums"] = TransformReport(label="sums", stage=1, counters={"dropped_because_late": late[-1]})
        instant = dm.processing_time(0)
        return RunReport(
            at=instant, clock=instant, commits=0, system_lag=dm.duration(0), transforms=transforms, stages={}
        )

    p = dm.Pipeline()
    sums(p)
    plan = p.plan()
    log = RunLog(plan, "Runner", report)
    for second, dropped in ((1, 5), (11, 7), (12, 9), (22, 9), (33, 9)):
        now.append(second)
        late.append(dropped)
        log.update()
    warnings = [message.partition("'sums': ")[2] for level, message in lines(caplog) if level == "WARNING"]
    assert warnings == ["7 late", "2 late"]


def test_the_library_installs_no_log_handler() -> None:
    assert LOG.handlers == []
    assert LOG.propagate


# Sources that keep windows open ---------------------------------------------------------------------------------------


def merged(p: dm.Pipeline, first: Any, second: Any) -> Any:
    """Group two sources together in minutes."""
    both = (p | "first" >> first, p | "second" >> second) | dm.Flatten()
    pairs = both | dm.WithKeys(lambda _: "all") | dm.Window.into(dm.FixedWindows("1 minute"))
    return pairs | "counts" >> dm.Count.per_key()


def looks(plan: Any, *watermarks: dict[str, Any]) -> list[list[str]]:
    """Return the messages of looks at a run whose sources have these watermarks, one after the other."""
    silent = SilentSources(plan)
    messages = []
    for known in watermarks:
        transforms = {
            node.label: TransformReport(label=node.label, stage=0, watermark=known.get(node.label), elements_out=3)
            for node in plan.nodes
        }
        at = dm.processing_time(0)
        report = RunReport(at=at, clock=at, commits=0, system_lag=dm.duration(0), transforms=transforms, stages={})
        messages.append(silent.look(report))
    return messages


SILENT = {"first": dm.event_time("2013-01-01T10:00Z"), "second": dm.MIN_TIMESTAMP}


def test_a_source_without_a_watermark_is_reported_once_at_the_second_check() -> None:
    p = dm.Pipeline()
    merged(p, dm.Create([1]), dm.Create([2]))
    silent, [message], again = looks(p.plan(), SILENT, SILENT, SILENT)
    assert (silent, again) == ([], [])
    assert message == (
        "no watermark of 'second' yet, from which 3 elements have been read: 'counts' waits for it, although 'first' "
        "is at 2013-01-01T10:00:00Z; a source that is silent for long needs watermark=dm.WallTime(…)"
    )
    ended = {**SILENT, "first": dm.MAX_TIMESTAMP}
    assert ["although 'first' has ended;" in message for [message] in looks(p.plan(), ended, ended)[1:]] == [True]


def test_a_source_whose_watermark_advances_between_checks_is_not_reported() -> None:
    p = dm.Pipeline()
    merged(p, dm.Create([1]), dm.Create([2]))
    advanced = {**SILENT, "second": dm.event_time("2013-01-01T09:00Z")}
    both_silent = dict.fromkeys(SILENT, dm.MIN_TIMESTAMP)
    assert looks(p.plan(), SILENT, advanced, SILENT, both_silent, SILENT, {}) == [[]] * 6


def test_sources_that_no_windows_wait_for_are_not_reported() -> None:
    p = dm.Pipeline()
    first, second = p | "first" >> dm.Create([1]), p | "second" >> dm.Create([2])
    for name, source in (("a", first), ("b", second)):  # each on its own
        _ = source | f"minutes {name}" >> dm.Window.into(dm.FixedWindows(60)) | f"counts {name}" >> dm.Count.globally()
    _ = (first, second) | dm.Flatten() | "everywhere" >> dm.Count.globally()
    _ = second | "look up" >> dm.Map(lambda element, _: element, dm.AsList(first))  # which is static
    assert looks(p.plan(), SILENT, SILENT) == [[], []]


@pytest.mark.parametrize("join", [dm.Join.as_of(), dm.Join.left(within=5)], ids=repr)
def test_a_side_of_a_join_that_the_other_one_waits_for_is_reported(join: Any) -> None:
    p = dm.Pipeline()
    sides = p | "first" >> dm.Create([("k", 1)]), p | "second" >> dm.Create([("k", 2)])
    _ = sides | "join" >> join
    [_, [message]] = looks(p.plan(), SILENT, SILENT)
    assert message.startswith("no watermark of 'second' yet")
    assert "'join/partners' waits for it" in message


def test_a_changing_side_input_that_elements_wait_for_is_reported() -> None:
    p = dm.Pipeline()
    side = p | "second" >> TestStream().add(1, 0)
    _ = p | "first" >> TestStream().add(1, 0) | "look up" >> dm.Map(lambda element, _: element, dm.AsList(side))
    [_, [message]] = looks(p.plan(), SILENT, SILENT)
    assert "'second'" in message
    assert "'look up'" in message


@on_hosts("process", slow=("streaming",))
def test_a_followed_folder_that_stays_empty_and_keeps_windows_open_is_reported(
    host: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dataflow_model.runners.runs.run_log._EVERY_SECONDS", 0.01)
    monkeypatch.setattr("dataflow_model.runners.runs.background._LOGGED_SECONDS", 0.02)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    (tmp_path / "first" / "0.json").write_text('{"at": "2013-01-01T10:00:00Z"}\n')
    at = pa.schema({"at": pa.timestamp("us", "UTC")})
    sources = (dm.io.ReadJson(tmp_path / name, event_time="at", schema=at, follow=True) for name in ("first", "second"))
    p = dm.Pipeline(runner=runner_on(host, request, tmp_path / "checkpoint"))
    _ = merged(p, *sources) | dm.io.Collect()
    result = p.run()
    message = "has no watermark of 'second' yet, from which 0 elements have been read: 'counts' waits for it"
    try:
        wait_for(result, lambda: any(message in record.getMessage() for record in caplog.records))
    finally:
        result.stop()
