"""`dataflow-model run`: what it runs, how it is stopped, and its exit status."""

from __future__ import annotations

import json
import signal
import sys
import threading
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest

from dataflow_model.cli import main
from dataflow_model.runners.sharded.commits.progress import read_progress
from dataflow_model.runners.spark.deployment import installation
from tests.support.cli.commands import put, started, until_said
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A current directory with `flow.py` and one file of rows."""
    put(tmp_path, "1", "2013-01-01T00:00Z,a,1", "2013-01-03T00:00Z,a,2")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield tmp_path
    sys.modules.pop("flow", None)


def committed(folder: Path) -> int:
    commits: int = read_progress(str(folder / "cp" / "dataflow")).get("commits", 0)
    return commits


def test_a_stream_that_is_drained_ends_with_status_0_and_its_counts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "flow:sums", "--checkpoint", "cp", "--until", "drained"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("drained after ")
    assert "sums:   2 in, 2 out  watermark +inf" in printed


def test_json_is_one_object_on_standard_output_and_nothing_else(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "flow:sums", "--checkpoint", "cp", "--until", "drained", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["state"] == "drained"
    assert answer["signal"] is None
    assert answer["transforms"]["rows"]["elements_out"] == 2
    assert answer["transforms"]["sums"]["panes"] == {"on_time": 2}
    assert answer["transforms"]["sums"]["watermark"] == "+inf"


def test_options_after_the_dashes_reach_the_function(folder: Path) -> None:
    assert main(["run", "flow:listed", "--workers", "1", "--", "--day", "2013-01-01"]) == 0
    [written] = (folder / "out").glob("*.txt")
    assert written.read_text() == "--day\n2013-01-01\n"


def test_a_pipeline_of_a_module_is_run_with_the_runner_of_the_options(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "flow.py").write_text("import dataflow_model as dm\np = dm.Pipeline()\np | dm.Create([1, 2])\n")
    assert main(["run", "flow:p", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["transforms"]["Create"]["elements_out"] == 2


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["flow"], "the pipeline must be MODULE:NAME, got 'flow'"),
        (["flou:sums"], "there is no module 'flou' here"),
        (["flow:sum"], "the module 'flow' has no 'sum'\nHint: it defines 'held', 'sums', 'listed'"),
        (["flow:here"], "what is run must be a function of a pipeline, or a pipeline, got "),
        (["flow:sums", "--", "--day"], "sums takes only the pipeline, got the options '--day'"),
        (["flow:sums", "--mode", "streaming"], "--mode streaming needs --checkpoint"),
        (["flow:sums", "--mode", "batch", "--checkpoint", "cp"], "--mode batch keeps no checkpoint"),
        (["flow:sums", "--mode", "microbatch"], "`interval`"),
        (["flow:sums", "--shards", "2"], "--shards has no meaning with --runner local, got 2"),
        (["flow:sums", "--runner", "spark", "--workers", "2"], "--workers has no meaning with --runner spark"),
        (["flow:sums", "--checkpoint", "cp", "--workers", "2"], "a stream with a checkpoint runs in one process"),
        (["flow:sums", "--checkpoint", "s3://bucket/cp"], "got the URL"),
        (["flow:sums", "--max-state-memory", "1 banana", "--checkpoint", "cp"], "`max_state_memory` must be"),
        (["flow:sums", "--port", "70000"], "expected a port from 0 to 65535, got '70000'"),
        (["flow:sums", "--port", "0", "--stalled-after", "-1 s"], "`DURATION` must be positive"),
    ],
)
def test_arguments_that_make_no_sense_end_with_status_2_and_the_way_out(
    arguments: list[str], problem: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", *arguments])
    assert stopped.value.code == 2
    assert problem in capsys.readouterr().err
    assert not (folder / "cp").exists()


def test_other_commands_take_no_options_after_the_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["prepare-spark", "--", "--day"])
    assert stopped.value.code == 2
    assert "options after it are for `run` and `upgrade`, got '--day'" in capsys.readouterr().err


def test_a_pipeline_with_a_runner_of_its_own_is_rejected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "flow.py").write_text("import dataflow_model as dm\np = dm.Pipeline(runner=dm.LocalRunner())\n")
    with pytest.raises(SystemExit):
        main(["run", "flow:p"])
    assert "the pipeline has a runner of its own" in capsys.readouterr().err


def test_a_run_that_fails_ends_with_status_1_and_its_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(folder, "2", "no instant,a,1")
    assert main(["run", "flow:sums", "--checkpoint", "cp", "--until", "drained", "--json"]) == 1
    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert error["type"] == "SourceError"
    assert "2.csv" in error["message"]
    assert "Traceback" not in printed.err


def test_an_error_of_the_module_is_shown_with_its_traceback(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "flow.py").write_text("import a_module_that_is_missing\n")
    assert main(["run", "flow:sums"]) == 1
    assert "flow.py" in (shown := capsys.readouterr().err)
    assert "No module named 'a_module_that_is_missing'" in shown


def test_running_on_spark_without_java_is_refused_before_anything_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(installation, "_pyspark_is_there", lambda: True)
    monkeypatch.setattr(installation, "_java_is_there", lambda: False)
    assert main(["run", "flow:sums", "--runner", "spark", "--checkpoint", "cp"]) == 1
    assert "--runner spark runs Spark: Spark needs Java 17" in capsys.readouterr().err


def test_sigterm_stops_a_stream_that_serves_its_health_after_its_micro_batch_and_it_resumes(folder: Path) -> None:
    put(folder, "2", "2013-01-04T00:00Z,b,5")
    with started(folder, "run", "flow:sums", "--checkpoint", "cp", "--json", "--port", "0") as process:
        port = until_said(process, r"(?<=http://127\.0\.0\.1:)\d+")
        until_said(process, "b has arrived")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=30) as answer:
            health: dict[str, Any] = json.load(answer)
        process.send_signal(signal.SIGTERM)
        until_said(process, "stopping after the current micro-batch")
        (folder / "go").touch()
        out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143
    assert (health["healthy"], health["state"]) == (True, "running")
    answer = json.loads(out)
    assert (answer["state"], answer["signal"]) == ("stopped", "SIGTERM")
    assert answer["commits"] == committed(folder) >= 1
    assert answer["transforms"]["rows"]["elements_out"] == 3  # the micro-batch that ran has been committed
    assert main(["run", "flow:sums", "--checkpoint", "cp", "--until", "drained"]) == 0


@pytest.mark.parametrize(
    ("second", "status"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.slow)]
)
def test_a_second_signal_ends_the_process_in_the_middle_of_a_micro_batch(
    second: signal.Signals, status: int, folder: Path
) -> None:
    put(folder, "1", "2013-01-04T00:00Z,b,5")
    with started(folder, "run", "flow:sums", "--checkpoint", "cp") as process:
        until_said(process, "b has arrived")
        process.send_signal(signal.SIGINT)
        until_said(process, "stopping after the current micro-batch")
        process.send_signal(second)
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == status
    assert not out
    assert "ended at once" in said
    assert committed(folder) == 0


def test_a_missing_prometheus_client_is_reported_with_its_extra_before_anything_runs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    assert main(["run", "flow:sums", "--checkpoint", "cp", "--port", "0"]) == 1
    assert "pip install 'dataflow-model[prometheus]'" in capsys.readouterr().err
    assert not (folder / "cp").exists()


def test_signal_handlers_are_not_installed_outside_of_the_main_thread(folder: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    statuses: list[int] = []
    thread = threading.Thread(target=lambda: statuses.append(main(["run", "flow:listed", "--", "x"])))
    thread.start()
    thread.join()
    assert statuses == [0]
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.slow
@pytest.mark.spark
def test_a_stream_runs_on_spark_and_stops_with_sigterm(folder: Path) -> None:
    (folder / "go").touch()
    put(folder, "2", "2013-01-04T00:00Z,b,5")
    arguments = ["run", "flow:sums", "--runner", "spark", "--checkpoint", "cp", "--json"]
    with started(folder, *arguments, "--master", "local[1]", "--shards", "1") as process:
        until_said(process, "b has arrived")
        process.send_signal(signal.SIGTERM)
        out, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 143, said
    assert json.loads(out)["state"] == "stopped"
