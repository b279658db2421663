"""`dataflow-model inspect`: what a checkpoint says, without starting, changing or locking anything."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.cli import main
from dataflow_model.runners.local.stopped import StoppedLocalRun
from dataflow_model.runners.operating import inspecting
from dataflow_model.runners.sharded.checkpoint.durable import FORMAT
from tests.support.cli.commands import put, started, until_committed, until_said
from tests.support.folders import content
from tests.support.runners.local_streams import ROWS, Stepped, put_rows
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


def build(folder: Path, trigger: str = "flush") -> Any:
    def applied(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder / "rows", event_time="at", follow=True, schema=ROWS)
        pairs = rows | "pairs" >> dm.WithKeys("key", value="n")
        early = dm.Repeatedly(dm.AfterAny(dm.AfterWatermark(), dm.AfterSignal(trigger)))
        windows = pairs | "windows" >> dm.Window.into(dm.FixedWindows("1 day")).trigger(early).accumulating()
        _ = windows | "groups" >> dm.GroupByKey() | "out" >> dm.io.Collect()

    return applied


@pytest.fixture
def stream(tmp_path: Path) -> Stepped:
    """A stopped stream that has read 12 of 20 rows: one file completely, and half of another."""
    put_rows(tmp_path / "rows", "1", [(row, "a", row) for row in range(4)])
    put_rows(tmp_path / "rows", "2", [(row, "b" if row % 4 else "c", row) for row in range(4, 20)])
    stepped = Stepped(build(tmp_path), tmp_path / "cp", rows=6)
    assert stepped.steps(2) == 2
    return stepped


def facts(capsys: pytest.CaptureFixture[str], *arguments: str | Path, status: int = 0) -> dict[str, Any]:
    assert main(["inspect", "--json", *map(str, arguments)]) == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_inspect_shows_the_progress_and_the_state_of_a_stopped_stream(
    stream: Stepped, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(stream.checkpoint)
    found = facts(capsys, stream.checkpoint)
    assert content(stream.checkpoint) == before
    assert (found["runner"], found["format"], found["shards"]) == ("LocalRunner", FORMAT, 1)
    assert (found["state"], found["process"], found["micro_batch"], found["commits"]) == ("stopped", None, 1, 2)
    [source] = found["sources"]
    assert (source["label"], source["rows"], source["behind"], source["done"]) == ("rows", 12, 8, 1)
    assert source["open"] == [{"name": "2.parquet", "read": 8, "listed": 16}]
    assert found["watermarks"] == {"rows": "1970-01-01T00:00:11Z", "groups": "1970-01-01T00:00:11Z"}
    assert found["watermark_lag_seconds"]["groups"] > 40 * 365 * 86_400
    [groups] = found["transforms"]
    assert (groups["label"], groups["stage"], groups["entries"]) == ("groups", 1, 3)
    assert groups["bytes"] == sum(key["bytes"] for key in groups["largest"])
    assert {key["key"] for key in groups["largest"]} == {"'a'", "'b'", "'c'"}
    assert groups["largest"][0]["key"] == "'b'"
    assert found["graph"]["groups"].startswith("grouping of windows with ")
    assert list(found["graph"]) == ["rows", "pairs", "windows", "groups", "out"]
    assert found["notes"] == []


def test_inspect_prints_a_report_as_text(stream: Stepped, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(stream.checkpoint), "--keys", "1"]) == 0
    printed = capsys.readouterr().out
    for words in (
        f": LocalRunner, format {FORMAT}, run ",
        "stopped, last committed micro-batch 1, clock 20",
        "  rows:  12 rows read, 8 behind  1 origins done, 1 open  watermark 1970-01-01T00:00:11Z, lag ",
        "    2.parquet  8 of 16 rows",
        "  groups:  stage 1  3 keys, ",
        "largest keys:\n  groups:  'b'  ",
        "  out: sink CollectSink of groups\n",
    ):
        assert words in printed


def test_a_run_may_start_while_its_checkpoint_is_inspected(
    stream: Stepped, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError("inspect takes a lock")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert facts(capsys, stream.checkpoint)["state"] == "stopped"


@pytest.mark.parametrize("most", [0, 2])
def test_inspect_lists_as_many_keys_as_requested(
    most: int, stream: Stepped, capsys: pytest.CaptureFixture[str]
) -> None:
    [groups] = facts(capsys, stream.checkpoint, "--keys", str(most))["transforms"]
    assert len(groups["largest"]) == most


def test_the_keys_of_a_large_state_are_listed_only_on_request(
    stream: Stepped, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inspecting, "MOST_BYTES", 10)
    found = facts(capsys, stream.checkpoint)
    assert found["transforms"][0]["largest"] == []
    assert "inspect --keys 5" in found["notes"][0]
    assert facts(capsys, stream.checkpoint, "--keys", "5")["transforms"][0]["largest"]


def test_the_keys_of_a_grouping_in_columns_and_no_ids_of_deduplicate_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = ["UA"] * 30 + ["AA"] * 10
    rows = {"at": list(range(40)), "key": keys, "n": list(range(40))}
    pq.write_table(pa.table(rows), tmp_path / "rows.parquet")

    def applied(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows.parquet", event_time="at")
        pairs = read | "pairs" >> dm.WithKeys("key", value="n")
        _ = pairs | dm.Window.into(dm.FixedWindows(1)) | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()
        ids = read | "ids" >> dm.Deduplicate(lambda row: row.n, horizon="1 day")
        _ = ids | "kept" >> dm.io.Collect()

    stream = Stepped(applied, tmp_path / "cp", rows=40)
    stream.steps(1)
    found = facts(capsys, stream.checkpoint)
    by_label = {state["label"]: state for state in found["transforms"]}
    assert [key["key"] for key in by_label["sums"]["largest"]] in (["'UA'", "'AA'"], ["'AA'"])
    assert by_label["ids"]["largest"] == []
    assert by_label["ids"]["entries"] == 40


def test_a_running_stream_is_neither_changed_nor_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    put(tmp_path, "1", "2013-01-01T00:00Z,a,1")
    with started(tmp_path, "run", "flow:sums", "--checkpoint", "cp", "--json") as process:
        until_committed(process, tmp_path / "cp")
        put(tmp_path, "2", "2013-01-04T00:00Z,b,5")
        until_said(process, "b has arrived")  # it is held in a micro-batch, in the middle of a transaction
        before = content(tmp_path / "cp")
        found = facts(capsys, tmp_path / "cp")
        assert content(tmp_path / "cp") == before
        assert "local/run.sqlite-shm" in before
        (tmp_path / "go").touch()
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
    assert (found["state"], found["micro_batch"]) == ("running", 0)
    assert found["process"].startswith(f"process {process.pid} on ")
    assert found["transforms"][0]["largest"][0]["key"] == "'a'"
    assert process.returncode == 143
    assert json.loads(out)["commits"] == 2
    assert facts(capsys, tmp_path / "cp")["state"] == "stopped"


@pytest.mark.parametrize("has_index", [True, False])
def test_the_log_of_a_killed_stream_is_read_but_not_emptied(
    has_index: bool, stream: Stepped, capsys: pytest.CaptureFixture[str]
) -> None:
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:  # dies with its log, and without closing anything
        with stream.opened() as opened:
            opened.step()
            os.write(writer, b"x")
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.read(reader, 1) == b"x"
    os.waitpid(child, 0)
    os.close(reader)
    os.close(writer)
    log, index = (stream.checkpoint / "local" / f"run.sqlite-{part}" for part in ("wal", "shm"))
    assert log.stat().st_size
    if not has_index:
        index.unlink()
    before = content(stream.checkpoint)
    found = facts(capsys, stream.checkpoint)
    assert content(stream.checkpoint) == before
    assert (found["state"], found["micro_batch"], found["sources"][0]["rows"]) == ("stopped", 2, 18)


def test_inspect_shows_that_a_stream_has_finished_with_its_watermark_at_the_end_of_time(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path / "cp")) as p:
        _ = p | dm.Create([("a", 1)]) | "sums" >> dm.Sum.per_key() | dm.io.Collect()
    found = facts(capsys, tmp_path / "cp")
    assert (found["state"], found["watermarks"]["sums"], found["watermark_lag_seconds"]["sums"]) == (
        "finished",
        "+inf",
        0.0,
    )
    assert main(["inspect", str(tmp_path / "cp")]) == 0
    assert "watermark +inf\n" in capsys.readouterr().out


def test_a_checkpoint_that_everybody_may_write_to_is_not_read_without_the_option(
    stream: Stepped, capsys: pytest.CaptureFixture[str]
) -> None:
    (stream.checkpoint / "local" / "run.sqlite").chmod(0o666)
    error = facts(capsys, stream.checkpoint, status=1)["error"]
    assert error["type"] == "UntrustedCheckpoint"
    assert "run.sqlite" in error["message"]
    assert facts(capsys, stream.checkpoint, "--trust-checkpoint")["state"] == "stopped"


@pytest.mark.parametrize("part", ["local/run.sqlite", "dataflow/run.json", "dataflow/progress.json"])
def test_a_damaged_checkpoint_is_named(part: str, stream: Stepped, capsys: pytest.CaptureFixture[str]) -> None:
    path = stream.checkpoint / part
    path.write_bytes(path.read_bytes()[:90])
    error = facts(capsys, stream.checkpoint, status=1)["error"]
    assert error["type"] == "StateCorruption"
    assert path.name in error["message"]
    assert error["hint"].startswith("restore the checkpoint")


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        ([], "contains no checkpoint of a dataflow_model run"),
        (["offsets"], "contains a checkpoint that was not written by dataflow_model"),
    ],
)
def test_a_directory_of_something_else_is_rejected(
    parts: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for part in parts:
        (tmp_path / part).mkdir()
    assert problem in facts(capsys, tmp_path, status=1)["error"]["message"]
    assert "contains no checkpoint" in facts(capsys, tmp_path / "none", status=1)["error"]["message"]


def test_inspect_shows_that_no_run_has_started_from_an_upgraded_checkpoint(
    stream: Stepped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dm.upgrade(stream.checkpoint, tmp_path / "next")
    error = facts(capsys, tmp_path / "next", status=1)["error"]
    assert "no run has started" in error["message"]


def test_keys_are_left_out_if_the_class_of_a_buffered_element_is_missing(
    stream: Stepped, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(*_: Any) -> Any:
        raise dm.CheckpointMismatch("a stored value is of the class 'Bid' of the module 'bids'", hint="import it")

    monkeypatch.setattr(inspecting, "read_shard", missing)
    found = facts(capsys, stream.checkpoint)
    assert found["notes"] == [
        "the largest keys could not be read: a stored value is of the class 'Bid' of the module 'bids'"
    ]
    assert found["sources"][0]["rows"] == 12


def test_the_logs_of_a_stream_on_spark_are_read_without_java_or_pyspark(
    stream: Stepped, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    offset, _ = StoppedLocalRun(stream.checkpoint).offset(1)
    for path in (stream.checkpoint / "local").iterdir():
        path.unlink()
    (stream.checkpoint / "local").rmdir()
    for log, lines in (
        ("commits", ["v1", "{}"]),
        ("offsets", ["v1", "{}", json.dumps(offset.to_json()), '{"page": 7}']),
    ):
        (stream.checkpoint / "spark" / log).mkdir(parents=True)
        (stream.checkpoint / "spark" / log / "1").write_text("\n".join(lines))
    monkeypatch.setitem(sys.modules, "pyspark", None)
    found = facts(capsys, stream.checkpoint)
    assert (found["runner"], found["state"], found["micro_batch"]) == ("SparkRunner", "stopped", 1)
    assert (found["sources"][0]["rows"], found["transforms"][0]["entries"]) == (12, 3)
    assert found["notes"] == [
        "the largest keys are in Spark's own state store, which only Spark can read",
        "only Spark knows how far it has read the streaming DataFrames, of which there are 1",
    ]


@pytest.mark.slow
def test_a_stream_that_ran_on_spark_is_inspected(
    spark: SparkSession, stream: Stepped, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=tmp_path / "on spark", shards=2, max_rows_per_batch=6)
    p = dm.Pipeline(runner=runner)
    build(tmp_path)(p)
    p.run(until="drained").wait_until_finish()
    before = content(tmp_path / "on spark")
    found = facts(capsys, tmp_path / "on spark")
    assert content(tmp_path / "on spark") == before
    assert (found["runner"], found["state"], found["shards"]) == ("SparkRunner", "drained", 2)
    assert found["sources"][0]["rows"] == 20
    assert found["watermarks"]["groups"] == "+inf"
