"""What sinks remember of commits: as much as a repeated one needs, however many there have been."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import dataflow_model as dm
from dataflow_model.io.sinks.file_sinks import JsonSink
from dataflow_model.plan.endpoints.message_sinks import CollectSink
from tests.support.crashing_commits import every_crash, written
from tests.support.hosts import on_hosts, runner_on
from tests.support.inputs import write_rows
from tests.support.pipelines import run
from tests.support.runners.local_streams import ROWS, Stepped, put_rows
from tests.support.written_files import rows

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest

COLUMNS = pa.schema({"n": pa.int64()})
STARTS = 8
"""How many starts of a run are remembered."""


def commits(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "_commits").iterdir())


def numbers(folder: Path) -> list[int]:
    return sorted(row["n"] for row in rows(JsonSink(path=folder)))


def commit_id(start: int, number: int) -> str:
    return f"7c1f-{start:012x}-{number:08d}"


def test_a_start_of_a_run_records_its_last_commit_and_assumes_earlier_ones_are_published(tmp_path: Path) -> None:
    sink = JsonSink(path=tmp_path / "out", schema=COLUMNS)
    for number in range(20):
        sink.commit(commit_id(1, number), written(sink, commit_id(1, number), [{"n": number}]))
        assert commits(tmp_path / "out") == [commit_id(1, number)]
    before = numbers(tmp_path / "out")
    for number in (19, 3):  # the run repeats its last commit, or one that a copy of its checkpoint has planned
        sink.commit(commit_id(1, number), written(sink, commit_id(1, number), [{"n": -1}], [{"n": -2}]))
    assert numbers(tmp_path / "out") == before == list(range(20))
    sink.commit(commit_id(2, 7), written(sink, commit_id(2, 7), [{"n": 20}]))  # another start has numbers of its own
    assert numbers(tmp_path / "out") == list(range(21))
    assert commits(tmp_path / "out") == [commit_id(1, 19), commit_id(2, 7)]


def test_the_last_starts_of_a_run_are_recorded_and_records_of_other_runs_are_kept(tmp_path: Path) -> None:
    sink = JsonSink(path=tmp_path / "out", schema=COLUMNS)
    others = ["another-00000000000a-00000007", "nightly", "7c1f-1a2b3c4d-00000000000a-00000003"]
    for number, commit in enumerate(others):
        sink.commit(commit, written(sink, commit, [{"n": -number}]))
    for start in range(1, 30):
        sink.commit(commit_id(start, start), written(sink, commit_id(start, start), [{"n": start}]))
    kept = [commit_id(start, start) for start in range(30 - STARTS, 30)]
    assert commits(tmp_path / "out") == sorted([*others, *kept])


def test_a_crash_at_any_step_of_a_commit_neither_loses_nor_repeats_rows_nor_leaves_records(tmp_path: Path) -> None:
    sink = JsonSink(path=tmp_path / "out", schema=COLUMNS).synced()
    for crash in every_crash():
        for number in range(3):
            commit = commit_id(1, number)
            messages = written(sink, commit, [{"n": 2 * number}], [{"n": 2 * number + 1}])
            with crash():
                sink.commit(commit, messages)
            sink.commit(commit, messages)
        assert numbers(tmp_path / "out") == list(range(6))
        assert commits(tmp_path / "out")[-1] == commit_id(1, 2)
        sink.commit(commit_id(1, 3), written(sink, commit_id(1, 3), [{"n": 6}]))
        assert commits(tmp_path / "out") == [commit_id(1, 3)]
        shutil.rmtree(tmp_path / "out")


def stream(folder: Path, out: Path) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS)
        _ = read | dm.Map(lambda row: {"n": row.n}) | "out" >> dm.io.WriteJson(out, schema=COLUMNS)

    return build


def test_a_stream_in_process_that_restarts_and_commits_often_records_few_commits(tmp_path: Path) -> None:
    stepped = Stepped(stream(tmp_path / "rows", tmp_path / "out"), tmp_path / "checkpoint")
    for number in range(2 * STARTS):
        for part in range(3):
            put_rows(tmp_path / "rows", f"{number}-{part}", [(1, "", 3 * number + part)])
            with stepped.opened() as opened:
                while opened.step():
                    pass
        assert len(commits(tmp_path / "out")) <= STARTS
    assert numbers(tmp_path / "out") == list(range(6 * STARTS))


@on_hosts("streaming")
def test_a_stream_on_spark_records_its_last_commit(host: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    write_rows(tmp_path / "rows" / "a.parquet", 0, 120)

    def build(p: dm.Pipeline) -> None:
        read = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", processing_time="seen")
        _ = read | dm.Map(lambda row: {"n": row.n}) | "out" >> dm.io.WriteJson(tmp_path / "out", schema=COLUMNS)

    result = run(runner_on(host, request, tmp_path / "checkpoint", max_rows_per_batch=30), build)
    assert result.report().commits > 1
    assert len(commits(tmp_path / "out")) == 1
    assert numbers(tmp_path / "out") == list(range(120))


@on_hosts("local", "workers", slow=("batch",))
def test_a_bounded_run_leaves_no_record_of_its_commit(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = tmp_path / "numbers.db"

    def build(p: dm.Pipeline) -> None:
        read = p | dm.Create(list(range(10))) | dm.Map(lambda n: {"n": n})
        _ = read | "out" >> dm.io.WriteJson(tmp_path / "out", schema=COLUMNS, if_exists="add")
        _ = read | "table" >> dm.io.WriteTable(f"sqlite:///{database}", table="numbers", keys="n", schema=COLUMNS)

    for _ in range(2):
        run(runner_on(host, request, tmp_path / "checkpoint"), build, until=None)
    assert numbers(tmp_path / "out") == sorted([*range(10), *range(10)])
    assert not commits(tmp_path / "out")
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT count(*) FROM numbers").fetchall() == [(10,)]
    assert not connection.execute("SELECT * FROM dataflow_model_commits").fetchall()
    connection.close()


def test_a_record_that_cannot_be_removed_does_not_fail_a_run_that_has_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the place is gone")

    monkeypatch.setattr(JsonSink, "forget", refuse)
    with dm.Pipeline() as p:
        _ = p | dm.Create([{"n": 1}]) | "out" >> dm.io.WriteJson(tmp_path / "out", schema=COLUMNS)
    assert numbers(tmp_path / "out") == [1]
    assert "'out' could not forget the commit" in caplog.text
    assert CollectSink().forget("1") is None  # type: ignore[func-returns-value]
