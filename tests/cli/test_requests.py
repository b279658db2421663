"""`dataflow-model drain` and `signal`: requests to a run in another process."""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.runners.operating import requesting
from dataflow_model.runners.sharded.checkpoint.requests import (
    drain_requests,
    expect_requests,
    pending_signals,
    request_drain,
    request_signal,
    signal_of,
)
from tests.support.cli.commands import put, started, until_committed
from tests.support.runners.local_streams import ROWS, put_rows
from tests.support.waiting import PATIENCE, wait_for

if TYPE_CHECKING:
    from pathlib import Path


def start(folder: Path) -> Any:
    """Start a stream over `rows` that emits at the signals `flush` and `it's`."""
    p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=folder / "cp"))
    rows = p | "rows" >> dm.io.ReadParquet(folder / "rows", event_time="at", follow=True, schema=ROWS)
    trigger = dm.Repeatedly(dm.AfterAny(dm.AfterSignal("flush"), dm.AfterSignal("it's")))
    pairs = rows | dm.WithKeys("key", value="n")
    windows = pairs | dm.Window.into(dm.FixedWindows("1 day")).trigger(trigger).accumulating()
    _ = windows | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()
    return p.run()


def stopped(folder: Path) -> Path:
    put_rows(folder / "rows", "1", [(1, "a", 1)])
    result = start(folder)
    wait_for(result, lambda: result.report().commits > 0)
    result.stop()
    return folder / "cp"


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> dict[str, Any]:
    assert main([str(argument) for argument in (*arguments, "--json")]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_a_stream_that_runs_in_another_process_receives_a_signal_and_is_drained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "1", "2013-01-01T00:00Z,a,1")
    with started(tmp_path, "run", "flow:sums", "--checkpoint", "cp", "--json") as process:
        until_committed(process, tmp_path / "cp")
        signalled = answer(capsys, "signal", tmp_path / "cp", "flush")
        assert answer(capsys, "drain", tmp_path / "cp", "--timeout", f"{PATIENCE} seconds")["state"] == "drained"
        out, _ = process.communicate(timeout=PATIENCE)
    assert signalled["process"].startswith(f"process {process.pid} on ")
    assert process.returncode == 0
    ended = json.loads(out)
    assert ended["state"] == "drained"
    assert ended["transforms"]["sums"]["panes"] == {"early": 1, "on_time": 1}
    assert answer(capsys, "drain", tmp_path / "cp")["state"] == "drained"  # as it was
    error = answer(capsys, "signal", tmp_path / "cp", "flush", status=1)["error"]
    assert "was drained" in error["message"]


def test_a_signal_to_a_stopped_stream_takes_effect_when_it_is_restarted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stopped(tmp_path)
    assert answer(capsys, "signal", checkpoint, "it's")["process"] is None
    assert main(["signal", str(checkpoint), "flush"]) == 0
    assert "will be taken when the run is started again" in capsys.readouterr().out
    result = start(tmp_path)
    wait_for(result, lambda: len(result.collected("out")) == 1)
    result.stop()
    assert not pending_signals(checkpoint / "dataflow" / "requests")


def test_a_signal_that_no_trigger_waits_for_is_rejected_with_the_expected_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = answer(capsys, "signal", stopped(tmp_path), "flusch", status=1)["error"]
    assert error["message"] == "no trigger waits for the signal 'flusch'"
    assert error["hint"] == "the signals are flush, it's"


def test_a_stopped_stream_is_drained_on_its_next_start_if_drain_does_not_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stopped(tmp_path)
    error = answer(capsys, "drain", checkpoint, status=1)["error"]
    assert "is stopped" in error["message"]
    assert drain_requests(checkpoint / "dataflow" / "requests") == (False, False)
    assert answer(capsys, "drain", checkpoint, "--no-wait")["state"] == "draining"
    assert start(tmp_path).wait_until_finish(PATIENCE) is dm.RunnerState.DRAINED
    assert answer(capsys, "drain", checkpoint)["state"] == "drained"


def test_a_stream_that_does_not_drain_in_time_keeps_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stopped(tmp_path)
    monkeypatch.setattr(requesting, "who_is_running", lambda _: "process 1 on db-1")
    assert answer(capsys, "drain", checkpoint, "--timeout", "1 millisecond", status=1)["state"] == "draining"
    assert drain_requests(checkpoint / "dataflow" / "requests") == (True, False)


def test_a_stream_that_ends_without_being_drained_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stopped(tmp_path)
    answers = iter(["process 1 on db-1", None])
    monkeypatch.setattr(requesting, "who_is_running", lambda _: next(answers))
    error = answer(capsys, "drain", checkpoint, status=1)["error"]
    assert "has ended before it was drained" in error["message"]


def test_the_checkpoint_of_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = stopped(tmp_path)
    own = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: own + 12_345)
    error = answer(capsys, "drain", checkpoint, "--no-wait", status=1)["error"]
    assert "the run could not read the request" in error["message"]
    assert error["hint"].startswith("run the command as that user: sudo -u ")


@pytest.mark.parametrize("arguments", [["drain"], ["signal", "flush"]])
def test_a_directory_without_a_checkpoint_is_rejected(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = arguments
    error = answer(capsys, command, tmp_path / "none", *rest, status=1)["error"]
    assert "contains no checkpoint of a dataflow_model run" in error["message"]
    assert not (tmp_path / "none").exists()


def test_concurrent_requests_of_several_processes_are_all_recorded(tmp_path: Path) -> None:
    requests = tmp_path / "requests"
    requests.mkdir()
    expect_requests(requests)
    children = []
    for number in range(4):
        if (child := os.fork()) == 0:
            for turn in range(10):
                request_signal(requests, f"{number}-{turn}")
            os._exit(0)
        children.append(child)
    threads = [threading.Thread(target=request_signal, args=(requests, f"here-{turn}")) for turn in range(10)]
    for thread in threads:
        thread.start()
    request_drain(requests)
    for thread in threads:
        thread.join()
    assert all(os.waitpid(child, 0)[1] == 0 for child in children)
    assert len({signal_of(request) for request in pending_signals(requests)}) == 50
    listed = json.loads((requests / "requested.json").read_text().replace("\n", ""))["signals"]
    assert len(listed) == 50
    assert drain_requests(requests) == (True, False)
