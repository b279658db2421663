"""The benchmarks run, on few rows, and both sides of each agree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from benchmarks.answers import agree, timings
from benchmarks.baseline import read_baseline, regressions
from benchmarks.cases import BENCHMARKS
from benchmarks.data import make_events
from benchmarks.harness import Result, measure
from benchmarks.processes import PeakMemory, processor_seconds, proportional, resident

ROOT = Path(__file__).resolve().parent.parent.parent
LONG = {"beam", "local_workers", "local_words"}
"""Comparisons that start more processes than one a side, or import Beam; so do those of memory and those with peers."""


@pytest.mark.slow
@pytest.mark.spark
def test_every_benchmark_runs_and_its_sides_agree(tmp_path: Path) -> None:
    output = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks", "--rows", "20000", "--repeats", "1", "--output", str(output)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    results = json.loads(output.read_text())
    there = [name for name, benchmark in BENCHMARKS.items() if benchmark.missing is None]
    assert [result["name"] for result in results] == there
    assert [result["name"] for result in results if not result["agree"]] == []
    required = {"name", "rows", "ours_s", "theirs_s", "ratio", "target", "spread", "agree"}
    assert all(required <= set(result) for result in results)
    assert all(result["ratio"] > 0 for result in results)


def test_an_unknown_benchmark_is_refused_with_the_names_of_all_benchmarks() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "batch_sums"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "unknown benchmark 'batch_sums'" in done.stderr
    assert "batch_sum," in done.stderr


def test_events_are_generated_once_and_no_two_are_exactly_one_session_gap_apart(tmp_path: Path) -> None:
    events = make_events(5_000, files=3, cache=tmp_path)
    assert make_events(5_000, files=3, cache=tmp_path) == events
    table = ds.dataset(events.events).to_table()
    assert table.num_rows == 5_000
    assert events.rows_per_file == 1_667
    times = np.unique(table["event_time"].cast(pa.int64()).to_numpy())
    assert not np.isin(times + 5_000_000, times).any()
    sentinel = ds.dataset(str(events.folder / "sentinel")).to_table()
    assert sentinel["event_time"][0].as_py() > pc.call_function("max", [table["event_time"]]).as_py()


def test_string_keys_stand_for_the_same_events(tmp_path: Path) -> None:
    ints, strings = (
        ds.dataset(make_events(500, string_keys=kind, cache=tmp_path).events).to_table() for kind in (False, True)
    )
    assert strings["key"].to_pylist() == [f"customer-{key:06}" for key in ints["key"].to_pylist()]
    assert strings.drop(["key"]).equals(ints.drop(["key"]))


def test_answers_are_compared_without_regard_to_order_number_of_files_and_types(tmp_path: Path) -> None:
    answer_folder, same_answer, wrong, empty = (tmp_path / name for name in ("one", "two", "wrong", "empty"))
    for folder in (answer_folder, same_answer, wrong, empty):
        folder.mkdir()
    answer = pa.table({"key": ["a", "b"], "window_start": [0, 10], "window_end": [10, 20], "value": [1, 2]})
    pq.write_table(answer, answer_folder / "0.parquet")
    for row, name in enumerate(("1.parquet", "0.parquet")):
        part = answer.slice(row, 1).append_column("pane_index", pa.array([0]))
        stamps = part["window_start"].cast(pa.timestamp("us", "UTC"))
        part = part.set_column(1, "window_start", stamps).set_column(3, "value", part["value"].cast(pa.int32()))
        pq.write_table(part, same_answer / name)
    pq.write_table(answer.set_column(3, "value", pa.array([1, 3])), wrong / "0.parquet")
    pq.write_table(answer.slice(0, 0), empty / "0.parquet")
    (same_answer / "_dead_letters").mkdir()
    pq.write_table(answer, same_answer / "_dead_letters" / "0.parquet")
    assert agree(answer_folder, same_answer)
    assert not agree(answer_folder, wrong)
    assert not agree(empty, empty)


def test_each_side_of_the_hot_key_benchmark_is_compared_with_the_sums_of_its_own_column(tmp_path: Path) -> None:
    events = make_events(3_000, files=1, keys=50, hot=True, cache=tmp_path / "cache")
    rows = ds.dataset(events.events).to_table().to_pylist()
    assert 0.85 < sum(row["hot_key"] == 0 for row in rows) / len(rows) < 0.95
    assert all(row["hot_key"] in {0, row["key"]} for row in rows)
    benchmark = BENCHMARKS["local_hot_keys"]
    for name, ours in (("right", "hot_key"), ("wrong", "key")):
        for side, key in (("ours", ours), ("theirs", "key")):
            totals: Counter[tuple[int, int]] = Counter()
            for row in rows:
                micros = int(row["event_time"].timestamp() * 1_000_000)
                totals[row[key], micros - micros % 10_000_000] += row["value"]
            keys, starts = ([place[at] for place in totals] for at in (0, 1))
            ends = [start + 10_000_000 for start in starts]
            (tmp_path / name).mkdir(exist_ok=True)
            _write(tmp_path / name / side, key=keys, window_start=starts, window_end=ends, value=list(totals.values()))
        assert benchmark.agrees(events, tmp_path / name) is (name == "right")


def test_the_last_pane_of_a_window_is_compared(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    panes: dict[str, list[Any]] = {
        "key": [1, 1, 2],
        "window_start": [0, 0, 0],
        "window_end": [10, 10, 10],
        "value": [[3, 4], [3], [5]],
    }
    _write(ours, **panes, pane_index=[1, 0, 0], pane_timing=["LATE", "EARLY", "ON_TIME"])
    _write(theirs, key=[2, 1], window_start=[0, 0], window_end=[10, 10], value=[[5], [3, 4]])
    assert agree(ours, theirs)
    assert timings(ours) == {name: pytest.approx(1 / 3) for name in ("LATE", "EARLY", "ON_TIME")}


def test_retracted_panes_are_not_compared(tmp_path: Path) -> None:
    ours, theirs, twice = tmp_path / "ours", tmp_path / "theirs", tmp_path / "twice"
    bounds: dict[str, list[Any]] = {"window_start": [0, 0, 0], "window_end": [10, 10, 15]}
    timing: dict[str, list[Any]] = {"pane_index": [0, 0, 0], "pane_timing": ["EARLY", "EARLY", "ON_TIME"]}
    _write(ours, key=[1, 1, 1], **bounds, value=[3, 3, 7], is_retraction=[False, True, False], **timing)
    _write(theirs, key=[1], window_start=[0], window_end=[15], value=[7])
    _write(twice, key=[1, 1, 1], **bounds, value=[3, 3, 7], is_retraction=[False, False, False], **timing)
    assert agree(ours, theirs)
    assert not agree(twice, theirs)
    assert timings(ours) == {"EARLY": 0.5, "ON_TIME": 0.5}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if benchmark.peers or benchmark.memory or name in LONG else ())
        for name, benchmark in BENCHMARKS.items()
        if benchmark.local
    ],
)
def test_both_sides_of_each_comparison_in_process_agree(name: str) -> None:
    benchmark = BENCHMARKS[name]
    if benchmark.missing is not None:
        pytest.skip(benchmark.missing)
    rows = 2_000 if benchmark.peers else 500
    result = measure(benchmark, int(rows / benchmark.scale), 1)
    assert result.rows == rows
    assert result.agree
    assert (result.peer is not None) == bool(benchmark.peers)


def _write(folder: Path, **columns: list[Any]) -> None:
    folder.mkdir()
    pq.write_table(pa.table(columns), folder / "0.parquet")


def test_memory_is_counted_over_the_whole_tree_of_processes() -> None:
    alone = resident(os.getpid())
    program = "import sys; block = bytearray(64 << 20); print(); sys.stdin.read()"
    with (
        PeakMemory(os.getpid()) as memory,
        subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child,
    ):
        assert child.stdout is not None
        child.stdout.readline()
        assert resident(os.getpid()) >= alone + (64 << 20)
        deadline = time.monotonic() + 10
        while memory.mib * (1 << 20) < alone + (64 << 20) and time.monotonic() < deadline:
            resident(os.getpid())
        assert child.stdin is not None
        child.stdin.close()
    assert memory.mib * (1 << 20) >= alone + (64 << 20)


def test_memory_that_a_forked_process_shares_is_counted_once_or_for_each() -> None:
    program = (
        "import os, sys; block = bytearray(b'x') * (64 << 20); child = os.fork(); "
        "print(len(block)) if child == 0 else None; sys.stdout.flush(); sys.stdin.read()"
    )
    command = [sys.executable, "-c", program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        parent.stdout.readline()
        each, once = resident(parent.pid), proportional(parent.pid)
        parent.stdin.close()
    assert (64 << 20) <= once < (100 << 20)
    assert each >= once + (32 << 20)


def test_processor_time_is_that_of_the_whole_tree_also_of_processes_that_have_ended() -> None:
    program = "import time; started = time.process_time()\nwhile time.process_time() < started + 0.3: pass\nprint()"
    alone, before = time.process_time(), processor_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", program], check=True)
    with subprocess.Popen(
        [sys.executable, "-c", program + "; input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        taken = processor_seconds(os.getpid()) - before - (time.process_time() - alone)
        child.communicate(b"\n")
    assert 0.55 < taken < 1.5


def test_a_peer_with_another_answer_gives_no_ratio() -> None:
    benchmark = attrs.evolve(BENCHMARKS["beam_q3"], peers=("FnApiRunner",))  # which gives no pair
    if benchmark.missing is not None:
        pytest.skip(benchmark.missing)
    result = measure(benchmark, int(2_000 / benchmark.scale), 1)
    assert (result.agree, result.ratio) == (False, None)
    assert result.ours_s is not None


def test_memory_of_a_jvm_that_is_forking_a_process_is_counted_once(tmp_path: Path) -> None:
    java = tmp_path / "java"
    shutil.copy(Path(sys.executable).resolve(), java)
    program = (
        "import os, sys; block = bytearray(b'x') * (64 << 20); child = os.fork()\n"
        "if child == 0: block[:] = bytes(len(block)); print(child)\n"
        "sys.stdout.flush(); sys.stdin.read()"
    )
    command = [str(java), "-S", "-c", program]
    home = {**os.environ, "PYTHONHOME": sys.base_prefix}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=home) as parent:
        assert parent.stdout is not None
        assert parent.stdin is not None
        assert parent.stdout.readline() == b"0\n"
        once = proportional(parent.pid)
        parent.stdin.close()
    assert (64 << 20) <= once < (100 << 20)


def test_a_ratio_worse_by_more_than_a_quarter_is_a_regression() -> None:
    def measured(name: str, ratio: float | None) -> Result:
        return Result(name, 1_000, 1.0, 1.0, ratio, 1.0, 0.0, agree=True)

    results = [measured("slow", 2.51), measured("steady", 2.5), measured("new", 9.0), measured("one_side", None)]
    worse = regressions(results, {"slow": 2.0, "steady": 2.0, "one_side": 1.0, "not_run": 1.0})
    assert worse == ["slow: the ratio is 2.51, the baseline 2; it may be 2.5"]


def test_a_run_against_a_baseline_fails_with_the_ratio_that_became_worse(tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text('{"local_group_by_key": 0.001}')
    command = [sys.executable, "-m", "benchmarks", "--baseline", str(baseline), "--rows", "4000", "--repeats", "1"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert "local_group_by_key: the ratio is" in run.stdout


def test_every_baseline_belongs_to_a_benchmark_that_exists() -> None:
    assert set(read_baseline(ROOT / "benchmarks/baseline.json")) <= set(BENCHMARKS)
