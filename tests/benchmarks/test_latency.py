"""The latency benchmark: what comes is what was written, what is seen is what was published, and it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from benchmarks import latency
from benchmarks.latency_feed import KEYS, Feed, Watcher, published_by_spark, published_by_us, write_records

ROOT = Path(__file__).resolve().parent.parent.parent


def outputs(*records: tuple[int, int, int]) -> list[tuple[int, dict[str, Any]]]:
    return [(0, {"key": key, "count": count, "n": n}) for key, count, n in records]


@pytest.mark.parametrize(
    ("given", "complete"),
    [
        (outputs((7, 1, 0), (7, 2, 1), (8, 1, 2)), True),
        (outputs((7, 1, 0), (7, 2, 1)), False),  # one is lost
        (outputs((7, 1, 0), (7, 2, 1), (8, 1, 2), (8, 1, 2)), False),  # one came twice
        (outputs((7, 1, 0), (7, 1, 1), (8, 1, 2)), False),  # one was not counted
    ],
)
def test_a_lost_or_repeated_record_is_noticed(given: Any, complete: bool) -> None:
    assert latency._is_complete(given, 3) is complete


def test_a_measurement_fails_if_the_first_records_are_not_published_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "_PATIENCE", 0.1)
    monkeypatch.setattr(latency, "_started", lambda *_: None)
    with pytest.raises(TimeoutError, match="records that are there at the start"):
        latency._latency(None, "in process", rate=100, seconds=1, files_per_second=1)


def test_a_file_appears_whole_and_its_records_are_numbered(tmp_path: Path) -> None:
    write_records(tmp_path, 200, 150)
    [file] = tmp_path.iterdir()
    table = pq.read_table(file)
    assert table["n"].to_pylist() == list(range(200, 350))
    assert set(table["key"].to_pylist()) == set(range(KEYS))
    assert len(set(table["sent"].to_pylist())) == 1


def test_the_feed_starts_on_a_signal_and_writes_the_announced_number_of_records(tmp_path: Path) -> None:
    with Feed(tmp_path, 100, rate=500, seconds=0.3) as feed:
        assert not list(tmp_path.iterdir())
        feed.go()
        feed._process.join(60)
    numbers = [n for path in sorted(tmp_path.iterdir()) for n in pq.read_table(path)["n"].to_pylist()]
    assert numbers == list(range(100, 100 + feed.records))
    assert feed.records == 150


def test_the_watcher_sees_what_is_published_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "_pending").mkdir()
    (tmp_path / "_pending" / "part-1.json").write_text('{"n": 1}\n')
    (tmp_path / "part-0.json").write_text('{"n": 0}\n')
    with Watcher(published_by_us(tmp_path)) as watcher:
        assert [record for _, record in watcher.wait_for(1, 60)] == [{"n": 0}]


def test_only_files_of_spark_that_its_log_names_are_seen(tmp_path: Path) -> None:
    listed = published_by_spark(tmp_path)
    assert list(listed()) == []
    (tmp_path / "_spark_metadata").mkdir()
    (tmp_path / "part-00000-x.json").write_text('{"n": 0}\n')
    assert list(listed()) == []
    entry = json.dumps({"path": f"file://{tmp_path}/part-00000-x.json", "size": 9})
    (tmp_path / "_spark_metadata" / "0").write_text(f"v1\n{entry}\n")
    assert list(listed()) == [f"{tmp_path}/part-00000-x.json"]


def test_results_of_rates_that_were_not_measured_again_are_preserved(tmp_path: Path) -> None:
    output = tmp_path / "latency.json"
    before = [latency.Latency(side, 1_000, 10, 9, 1.0, 2.0, 3.0, True) for side in ("in process", "strong")]
    latency._write(output, before, [latency.Lag("ours", "all", 1_000, 1.0, 2.0, 9)])
    latency._write(output, [latency.Latency("in process", 1_000, 10, 9, 0.5, 1.0, 1.5, True)], [])
    latency._write(output, [latency.Latency("in process", 1_000, 40, 9, 0.1, 0.2, 0.3, True)], [])
    actual = json.loads(output.read_text())
    assert [(latency["side"], latency["files_per_second"], latency["p50_ms"]) for latency in actual["latency"]] == [
        ("in process", 10, 0.5),
        ("strong", 10, 1.0),
        ("in process", 40, 0.1),
    ]
    assert [lag["stage"] for lag in actual["lag"]] == ["all"]


@pytest.mark.slow
@pytest.mark.spark
def test_the_latency_benchmark_runs_and_loses_no_record(tmp_path: Path, java_home: str) -> None:
    output = tmp_path / "latency.json"
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "latency",
        "--rates",
        "200",
        "--seconds",
        "4",
        "--output",
        str(output),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=_environment(java_home))
    assert done.returncode == 0, done.stdout + done.stderr
    actual = json.loads(output.read_text())
    assert [row["side"] for row in actual["latency"]] == list(latency.SIDES)
    assert all(row["complete"] and 0 < row["p50_ms"] <= row["p99_ms"] for row in actual["latency"])
    assert {lag["stage"] for lag in actual["lag"] if lag["side"] == "ours"} == {"by key", "by tens", "all"}


def _environment(java_home: str) -> dict[str, str]:
    return {**os.environ, "JAVA_HOME": java_home}
