"""Streams in process: they go on where they were stopped, and run only when there is something to do."""

from __future__ import annotations

import functools
import itertools
import os
import re
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.runners.engine.grouping.stored.durable import DurableMachine
from dataflow_model.runners.engine.lanes.bundle import Bundle
from dataflow_model.runners.engine.machines.columnar import ColumnarMachine
from dataflow_model.runners.local import streaming
from dataflow_model.runners.local.lock import check_file_system
from dataflow_model.runners.local.run_file import FILE, Commit, RunFile
from dataflow_model.runners.runs.options import checkpoint_path
from dataflow_model.testing import ManualClock, TestStream
from tests.support.faults.outcomes import files_of
from tests.support.folders import Folder, Reader
from tests.support.pipelines import run, seen, start
from tests.support.runners.local_streams import ROWS, Stepped, put_rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.runners.local.stream import LocalStream
    from dataflow_model.runners.sharded.feed.offsets import Offset

SUMS = pa.schema({"key": pa.string(), "value": pa.int64()})
IDLE = 20
"""Polls after which a run that has nothing to do counts as idle."""


def sums(
    folder: Path, windowing: Any = None, watermark: Any = None, out: Path | None = None, **options: Any
) -> Callable[[dm.Pipeline], Any]:
    """Return what builds sums per key and window over a followed folder."""

    def build(p: dm.Pipeline) -> None:
        estimator = dm.BoundedOutOfOrderness(0) if watermark is None else watermark
        rows = p | "rows" >> dm.io.ReadParquet(
            folder, event_time="at", watermark=estimator, follow=True, schema=ROWS, **options
        )
        windows = dm.Window.into(dm.FixedWindows(10)) if windowing is None else windowing
        answer = rows | dm.Map(lambda row: (row.key, row.n)) | windows | "sums" >> dm.Sum.per_key()
        _ = answer | "panes" >> dm.io.Collect()
        if out is not None:
            _ = answer | "files" >> dm.io.WriteParquet(out, schema=SUMS)

    return build


def values(stepped: Stepped) -> list[Any]:
    return [record.value for record in stepped.collected("panes")]


def runner(checkpoint: Path, **options: Any) -> dm.LocalRunner:
    return dm.LocalRunner(checkpoint=checkpoint, **options)


def test_a_restarted_stream_resumes_where_it_was_stopped(tmp_path: Path) -> None:
    rows, out = tmp_path / "rows", tmp_path / "out"
    stepped = Stepped(sums(rows, out=out), tmp_path / "checkpoint")
    put_rows(rows, "1", [(1, "a", 1), (2, "b", 2), (12, "a", 4)])
    stepped.steps()
    assert values(stepped) == [("a", 1), ("b", 2)]
    put_rows(rows, "2", [(13, "a", 8), (25, "a", 16)])
    stepped.steps()
    assert values(stepped) == [("a", 1), ("b", 2), ("a", 12)]
    assert len(files_of(out)) == 3
    assert stepped.metrics()["rows"]["elements_out"] == 5


def test_an_idle_stream_commits_nothing(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stepped = Stepped(sums(tmp_path / "rows"), tmp_path / "checkpoint")
    stepped.steps()
    before = stepped.commits
    with stepped.opened() as stream:
        assert not any(stream.step() for _ in range(IDLE))
    assert stepped.commits == before == 1


def test_a_timer_on_the_wall_clock_runs_when_it_is_due_and_not_before(tmp_path: Path) -> None:
    clock = ManualClock("2013-01-01T00:00Z")
    windowing = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Repeatedly(dm.AfterProcessingTime("1 minute")))
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stepped = Stepped(sums(tmp_path / "rows", windowing.discarding()), tmp_path / "checkpoint", clock=clock)
    stepped.steps()
    clock.advance("59 seconds")
    assert stepped.steps() == 0  # what is due is durable: this is another start of the run
    clock.advance("1 second")
    assert stepped.steps() == 1
    assert values(stepped) == [("a", 1)]
    assert stepped.steps() == 0


def test_the_end_of_a_drained_stream_is_after_timers_that_fired_without_data(tmp_path: Path) -> None:
    clock = ManualClock("2013-01-01T00:00Z")
    windowing = dm.Window.into(dm.FixedWindows(10)).trigger(dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute")))
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    build = sums(tmp_path / "rows", windowing.discarding())
    stepped = Stepped(build, tmp_path / "checkpoint", clock=clock)
    stepped.steps()
    clock.advance("1 minute")
    stepped.steps()
    result: Any = start(runner(tmp_path / "checkpoint", clock=clock), build)
    result.drain()
    assert [(r.value, r.pane.timing.name) for r in result.collected("panes")] == [
        (("a", 1), "EARLY"),
        (("a", 0), "ON_TIME"),
    ]


def test_a_watermark_that_follows_the_wall_clock_closes_a_window_at_its_moment(tmp_path: Path) -> None:
    clock = ManualClock(5)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    estimator = dm.WallTime("3 seconds")
    stepped = Stepped(sums(tmp_path / "rows", watermark=estimator), tmp_path / "checkpoint", clock=clock)
    stepped.steps()
    clock.advance_to(12.999999)
    assert stepped.steps() == 0
    clock.advance_to(13)
    assert stepped.steps() == 1
    assert values(stepped) == [("a", 1)]
    assert stepped.steps() == 0


def test_an_idle_origin_no_longer_holds_back_the_watermark_of_others(tmp_path: Path) -> None:
    clock = ManualClock(100)
    build = sums(tmp_path / "rows", watermark_origin="key", idle_after="1 minute")
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (2, "b", 2)])
    stepped = Stepped(build, tmp_path / "checkpoint", clock=clock)
    stepped.steps()
    clock.advance("30 seconds")
    put_rows(tmp_path / "rows", "2", [(12, "a", 4)])
    stepped.steps()
    assert values(stepped) == []  # 'b' holds the watermark at 2 s
    clock.advance("30 seconds")
    assert stepped.steps() == 0
    clock.advance("1 microsecond")
    assert stepped.steps() == 1
    assert values(stepped) == [("a", 1), ("b", 2)]


def test_a_stream_without_data_reacts_to_a_signal_and_a_drain(tmp_path: Path) -> None:
    windowing = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Repeatedly(dm.AfterSignal("flush"))).discarding()
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    checkpoint = tmp_path / "checkpoint"
    build = sums(tmp_path / "rows", windowing)
    Stepped(build, checkpoint).steps()
    result: Any = start(runner(checkpoint), build)
    result.signal("flush")
    result.drain()
    assert result.state is dm.RunnerState.DRAINED
    assert [record.value for record in result.collected("panes")] == [("a", 1)]
    with pytest.raises(dm.CheckpointMismatch, match="was drained"):
        start(runner(checkpoint), build)


def test_a_stream_run_until_drained_reads_the_available_data_and_ends(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "a", 2)])
    result: Any = start(runner(tmp_path / "checkpoint"), sums(tmp_path / "rows"), until="drained")
    assert result.wait_until_finish() is dm.RunnerState.DRAINED
    assert [record.value for record in result.collected("panes")] == [("a", 1), ("a", 2)]
    assert result.watermarks()["sums"] == dm.MAX_TIMESTAMP
    assert result.report().transforms["rows"].elements_out == 2


def test_a_second_run_on_a_checkpoint_in_use_is_refused(tmp_path: Path) -> None:
    build, checkpoint = sums(tmp_path / "rows"), tmp_path / "checkpoint"
    result = start(runner(checkpoint), build)
    with pytest.raises(dm.CheckpointMismatch, match=re.escape(f"process {os.getpid()} on")):
        start(runner(checkpoint), build)
    result.stop()
    assert result.state is dm.RunnerState.STOPPED
    start(runner(checkpoint), build).stop()


def test_a_stream_that_could_not_be_started_can_be_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(notifiers: Any) -> None:
        raise OSError(24, "Too many open files")

    build, checkpoint = sums(tmp_path / "rows"), tmp_path / "checkpoint"
    with monkeypatch.context() as patched:
        patched.setattr(streaming, "WakeUp", fail)
        with pytest.raises(OSError, match="Too many open files") as failure:
            start(runner(checkpoint), build)
    start(runner(checkpoint), build).stop()
    del failure  # it holds what could not be started


def test_a_checkpoint_of_spark_is_left_as_it_is(tmp_path: Path) -> None:
    build, checkpoint = sums(tmp_path / "rows"), tmp_path / "checkpoint"
    start(runner(checkpoint), build).stop()
    (checkpoint / "local").rename(checkpoint / "spark")
    with pytest.raises(dm.CheckpointMismatch, match="made by SparkRunner, and this is LocalRunner") as refused:
        start(runner(checkpoint), build)
    assert "dataflow-model upgrade" in str(refused.value)
    assert not (checkpoint / "local").exists()


def test_a_network_file_system_is_refused_for_a_checkpoint(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    share = tmp_path / "my share"
    share.mkdir()
    escaped = str(share).replace(" ", r"\040")
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {escaped} nfs4 rw 0 0\n")
    with pytest.raises(dm.SinkError, match="network file system"):
        check_file_system(share / "checkpoint" / "local", "checkpoint", mounts)
    check_file_system(tmp_path / "checkpoint" / "local", "checkpoint", mounts)


def write_and_fail(stream: LocalStream) -> None:
    with stream.file.transaction():
        stream.file.store(1, 0).put(99, 0, b"half")
        stream.file.store(1, 0).put_head(b"damaged")
        raise ZeroDivisionError


def test_writes_of_a_failed_transaction_are_rolled_back(tmp_path: Path) -> None:
    stepped = Stepped(sums(tmp_path / "rows"), tmp_path / "checkpoint")
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stepped.steps()
    with stepped.opened() as stream, pytest.raises(ZeroDivisionError):
        write_and_fail(stream)
    put_rows(tmp_path / "rows", "2", [(12, "a", 2)])
    stepped.steps()
    assert values(stepped) == [("a", 1)]


def test_the_last_commit_of_a_stopped_run_is_recorded_as_published(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stepped = Stepped(sums(tmp_path / "rows"), tmp_path / "checkpoint")
    stepped.steps()
    file = RunFile.read_only(str(tmp_path / "checkpoint" / "local"))
    assert file is not None
    assert file.is_published()
    file.close()


def test_output_that_a_sink_failed_to_publish_is_published_by_the_next_start_without_a_rerun(tmp_path: Path) -> None:
    runs: list[int] = []
    published: list[tuple[str, list[int]]] = []
    fails = [True]

    def note(row: Any) -> int:
        runs.append(row.n)
        return int(row.n)

    def publish(numbers: list[int], commit_id: str) -> None:
        if fails[0]:
            raise OSError("the service is down")
        published.append((commit_id, numbers))

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
        _ = rows | dm.Map(note) | dm.io.ForeachBundle(publish)

    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (2, "b", 2)])
    result = start(runner(tmp_path / "checkpoint"), build)
    with pytest.raises(dm.UserCodeError, match="the service is down"):
        result.wait_until_finish()
    assert result.state is dm.RunnerState.FAILED
    fails[0] = False
    start(runner(tmp_path / "checkpoint"), build, until="drained").wait_until_finish()
    assert [numbers for _, numbers in published] == [[1, 2]]
    assert runs == [1, 2]


def test_a_failing_function_leaves_the_stream_at_its_last_commit(tmp_path: Path) -> None:
    refused = {2}

    def check(row: Any) -> tuple[str, int]:
        if row.n in refused:
            raise ValueError(row.n)
        return row.key, row.n

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
        sums = rows | dm.Map(check) | dm.Window.into(dm.FixedWindows(10)) | dm.Sum.per_key()
        _ = sums | "panes" >> dm.io.Collect()

    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    stepped = Stepped(build, tmp_path / "checkpoint")
    stepped.steps()
    put_rows(tmp_path / "rows", "2", [(2, "a", 2)])
    with pytest.raises(dm.UserCodeError):
        stepped.steps()
    refused.clear()
    put_rows(tmp_path / "rows", "3", [(12, "a", 4)])
    stepped.steps()
    assert values(stepped) == [("a", 3)]


def test_elements_between_the_stages_of_a_stream_in_process_are_not_pickled(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
        functions = rows | dm.Map(lambda row: (row.key, (n for n in [row.n])))  # no pickle has a generator
        numbers = functions | dm.Reshuffle() | dm.Map(lambda pair: next(pair[1]))
        _ = numbers | "panes" >> dm.io.Collect()

    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (2, "b", 2)])
    stepped = Stepped(build, tmp_path / "checkpoint")
    stepped.steps()
    assert values(stepped) == [1, 2]


def test_a_stream_in_micro_batch_mode_emits_the_panes_of_a_run_without_a_checkpoint(tmp_path: Path) -> None:
    script = TestStream()
    for second in range(12):
        script = script.processing_time(second).add(second, event_time=second % 5, key="ab"[second % 2])

    def build(p: dm.Pipeline) -> None:
        sums = p | script | dm.Window.into(dm.FixedWindows(3)) | dm.Sum.per_key()
        _ = sums | "panes" >> dm.io.Collect()

    def rounds(**options: Any) -> Any:
        return run(dm.LocalRunner(mode="microbatch", interval=4, **options), build)

    plain = rounds().collected("panes")
    streamed = rounds(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=5).collected("panes")
    assert seen(plain) == seen(streamed)


def test_a_source_is_added_to_a_stream_that_is_started_again(tmp_path: Path) -> None:
    def build(*folders: str) -> Callable[[dm.Pipeline], Any]:
        def both(p: dm.Pipeline) -> None:
            pairs = [
                p
                | folder >> dm.io.ReadParquet(tmp_path / folder, event_time="at", follow=True, schema=ROWS)
                | f"{folder} pairs" >> dm.Map(lambda row: (row.key, row.n))
                for folder in folders
            ]
            windows = tuple(pairs) | dm.Flatten() | dm.Window.into(dm.FixedWindows(10))
            _ = windows | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

        return both

    put_rows(tmp_path / "east", "1", [(1, "a", 1)])
    put_rows(tmp_path / "west", "1", [(2, "a", 2)])
    Stepped(build("east"), tmp_path / "checkpoint").steps()
    stepped = Stepped(build("east", "west"), tmp_path / "checkpoint", until="drained")
    stepped.steps()
    assert values(stepped) == [("a", 3)]


def test_a_run_is_not_resumed_with_other_elements_of_the_program(tmp_path: Path) -> None:
    def build(*elements: Any) -> Any:
        return lambda p: p | "made" >> dm.Create([*elements]) | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()

    Stepped(build(("a", 1), ("b", 2)), tmp_path).steps()
    Stepped(build(("a", 1), ("b", 2)), tmp_path).steps()
    for others in ([("a", 1), ("b", 3)], [("a", 1)], [("a", 1), ("b", 2.0)]):
        with pytest.raises(dm.CheckpointMismatch, match="2 elements from the program with the digest"):
            Stepped(build(*others), tmp_path).steps()


def test_elements_that_only_static_side_inputs_need_stay_those_of_the_first_start_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def build(factor: int) -> Any:
        def built(p: dm.Pipeline) -> None:
            factors = dm.AsSingleton(p | "factor" >> dm.Create([factor]))
            rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
            _ = rows | dm.Map(lambda row, factor: row.n * factor, factor=factors) | "panes" >> dm.io.Collect()

        return built

    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    Stepped(build(2), tmp_path / "checkpoint").steps()
    put_rows(tmp_path / "rows", "2", [(2, "a", 1)])
    again = Stepped(build(3), tmp_path / "checkpoint")
    again.steps()
    assert values(again) == [2, 2]
    assert "'factor': read for static side inputs when the run began, and changed since" in caplog.text


def test_a_changed_pipeline_is_refused_with_the_command_that_upgrades_its_checkpoint(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])
    Stepped(sums(tmp_path / "rows"), tmp_path / "checkpoint").steps()
    changed = sums(tmp_path / "rows", dm.Window.into(dm.FixedWindows(20)))
    with pytest.raises(dm.CheckpointMismatch, match="dataflow-model upgrade"):
        start(runner(tmp_path / "checkpoint"), changed)
    start(runner(tmp_path / "checkpoint"), sums(tmp_path / "rows")).stop()  # the lock was released


def test_an_unbounded_source_without_a_checkpoint_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(dm.UnsupportedOnRunner, match="checkpoint='checkpoints/delays'"):
        run(dm.LocalRunner(), sums(tmp_path / "rows"))


def test_the_elements_of_many_files_in_a_micro_batch_are_copied_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copied_again: list[int] = []
    extend = Bundle.extend

    def watched(bundle: Bundle, *others: Bundle) -> None:
        copied_again.append(len(bundle))
        extend(bundle, *others)

    for number in range(40):
        put_rows(tmp_path / "rows", f"{number:02}", [(number, "a", 1)])
    monkeypatch.setattr(Bundle, "extend", watched)
    assert Stepped(sums(tmp_path / "rows"), tmp_path / "checkpoint").steps() == 1
    assert copied_again
    assert sum(copied_again) <= 40


def test_what_a_micro_batch_commits_does_not_grow_with_the_files_that_were_read(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    for number in range(300):
        put_rows(rows, f"{number:03}", [(number, "a", 1)])
    put_rows(rows, "caf\xe9", [(300, "a", 1)])
    stepped = Stepped(sums(rows), tmp_path / "checkpoint")
    with stepped.opened() as stream:
        while stream.step():
            continue
        put_rows(rows, "new", [(301, "a", 1)])
        assert stream.step()
        [(size,)] = stream.file.execute("SELECT length(record) FROM commits")
        done = stream.offset.sources["rows"].done
    assert len(done) == 302
    assert size < 4_000  # what is done takes 30,000 bytes
    with stepped.opened() as stream:
        assert stream.offset.sources["rows"].done == done
        stream.step()
        assert not stream.step()
    assert sum(value for _, value in values(stepped)) < 302  # nothing came twice


@pytest.mark.parametrize("checkpoint", ["", 5])
def test_a_checkpoint_that_is_not_a_path_is_refused(checkpoint: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match="must be the path of a directory"):
        dm.LocalRunner(checkpoint=checkpoint)


@pytest.mark.parametrize(
    "checkpoint", ["s3://bucket/run", "hdfs://name/run", "dbfs:/run", "file://host/run", Path("s3://bucket/run")]
)
@pytest.mark.parametrize("runner", [dm.LocalRunner, functools.partial(dm.SparkRunner, None, "streaming")])
def test_a_checkpoint_that_is_a_url_is_rejected(runner: Any, checkpoint: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match="must be a directory of a mounted file system, got the URL"):
        runner(checkpoint=checkpoint)


def test_a_checkpoint_is_one_directory_however_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    names = ["~/runs/a:b", "file:///home/ada/runs/a:b", "file:/home/ada/runs/a:b", Path("/home/ada/runs/a:b")]
    assert {checkpoint_path(name) for name in names} == {"/home/ada/runs/a:b"}
    assert checkpoint_path("runs/a:b") == "runs/a:b"
    assert checkpoint_path(Path("/home/ada/my runs").as_uri()) == "/home/ada/my runs"


def test_the_file_of_a_run_is_closed_if_it_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened.append(connect(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    (tmp_path / FILE).write_bytes(b"no database" * 1_000)
    with pytest.raises(dm.StateCorruption):
        RunFile.create(str(tmp_path))
    with pytest.raises(sqlite3.ProgrammingError, match="closed database"):
        opened[0].execute("SELECT 1")


FILES = st.sampled_from(["a", "b", "caf\xe9"])


@given(st.lists(st.tuples(st.sampled_from(["put", "remove", "micro-batch", "restart"]), FILES), max_size=25))
def test_the_file_of_a_run_contains_the_files_that_are_done_after_its_last_commit(
    events: list[tuple[str, str]],
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Folder(Path(scratch, "rows"))
        reader = Reader(folder)
        file, last, numbers = RunFile.create(scratch), None, itertools.count()
        for event, name in events:
            if event == "put":
                folder.put(name, [next(numbers)])
            elif event == "remove" and folder.file(name).exists():
                folder.remove(name)
            elif event == "micro-batch":
                reader.micro_batch()
                last = _put(file, reader.offset, last)
                stored = file.last_commit()
                assert stored is not None
                assert _done(stored) == _done(last)
            elif event == "restart":
                file.close()
                file = RunFile.create(scratch)
                last = file.last_commit()
        file.close()


def _done(commit: Commit) -> dict[str, Any]:
    return dict(commit.offset.of_source("rows").done)


def _put(file: RunFile, offset: Offset, before: Commit | None) -> Commit:
    commit = Commit(0 if before is None else before.number + 1, offset, (), None, ())
    with file.transaction():
        return file.put_commit(commit, before)


@pytest.mark.parametrize("bound", [0, -1, True, 1.5, "", "500", "500 potatoes", "0 MB", "-1 MB", "9" * 400 + "B"])
def test_a_memory_bound_that_is_not_a_number_of_bytes_is_rejected(bound: Any, tmp_path: Path) -> None:
    with pytest.raises(dm.InvalidArgument, match=r"`max_state_memory` must be a positive number of bytes.*\nHint: use"):
        runner(tmp_path, max_state_memory=bound)


def test_a_stream_with_a_tiny_memory_bound_resumes_with_or_without_the_bound(
    tmp_path: Path,
) -> None:
    rows = tmp_path / "rows"
    bounds: dict[str, list[int | None]] = {
        "free": [None] * 3,
        "bounded": [1_000] * 3,
        "sometimes": [None, 1_000, None],
        "later": [None, None, 1],
    }
    collected: dict[str, list[Any]] = {}
    puts = [[(number, f"{key}", number) for key in range(100)] for number in (1, 2)] + [[(25, "end", 1)]]
    for name, of_turns in bounds.items():
        for number, put in enumerate(puts):
            put_rows(rows / name, str(number), put)
            Stepped(sums(rows / name), tmp_path / name, max_state_memory=of_turns[number]).steps()
        collected[name] = values(Stepped(sums(rows / name), tmp_path / name))
    assert len(collected["free"]) == 100
    assert all(sorted(each) == sorted(collected["free"]) for each in collected.values())


def test_a_stream_with_a_memory_bound_keeps_no_grouping_in_columns(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1)])

    def build(p: dm.Pipeline) -> None:
        estimator = dm.BoundedOutOfOrderness(0)
        rows = p | dm.io.ReadParquet(tmp_path / "rows", event_time="at", watermark=estimator, follow=True, schema=ROWS)
        keyed = rows | dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows(10))
        _ = keyed | "sums" >> dm.Sum.per_key() | dm.io.Collect()

    def engine(name: str, bound: int | None) -> Any:
        with Stepped(build, tmp_path / name, max_state_memory=bound).opened() as stream:
            stream.step()
            (state,) = stream._cache._shards.values()
            return state.shard.machines["sums"]

    assert isinstance(engine("free", None), ColumnarMachine)
    assert isinstance(engine("bounded", 1_000), DurableMachine)


def followed(folder: Path, *, follow: bool) -> Callable[[dm.Pipeline], Any]:
    """Return what builds a pipeline with the rows of a folder."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=follow, schema=ROWS)
        _ = rows | "numbers" >> dm.Map(lambda row: row.n) | "out" >> dm.io.Collect()

    return build


@pytest.mark.parametrize("rows", [1, 10])
@pytest.mark.parametrize("is_upgraded", [False, True])
def test_a_source_that_followed_a_folder_cannot_resume_without_following(
    tmp_path: Path, rows: int, *, is_upgraded: bool
) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "old"
    put_rows(folder, "1", [(1, "a", 1), (2, "a", 2)])
    Stepped(followed(folder, follow=True), checkpoint, rows=rows).steps(1)
    put_rows(folder, "2", [(3, "a", 3)])
    if is_upgraded:
        dm.upgrade(str(checkpoint), str(tmp_path / "new"))
        checkpoint = tmp_path / "new"
    with pytest.raises(dm.CheckpointMismatch, match=r"'rows' had no end in the run in .*, and has one now"):
        Stepped(followed(folder, follow=False), checkpoint).steps()
    stepped = Stepped(followed(folder, follow=True), checkpoint)
    stepped.steps()
    assert [record.value for record in stepped.collected("out")] == [1, 2, 3]


def test_a_followed_source_may_replace_a_bounded_one_that_was_not_read_to_its_end(tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put_rows(folder, "1", [(1, "a", 1), (2, "a", 2)])
    Stepped(followed(folder, follow=False), checkpoint, rows=1).steps(1)
    put_rows(folder, "2", [(3, "a", 3)])
    stepped = Stepped(followed(folder, follow=True), checkpoint)
    stepped.steps()
    assert [record.value for record in stepped.collected("out")] == [1, 2, 3]


def test_a_followed_source_may_not_replace_a_bounded_one_that_was_read_to_its_end(tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    put_rows(folder, "1", [(1, "a", 1)])
    Stepped(followed(folder, follow=False), checkpoint).steps()
    with pytest.raises(dm.CheckpointMismatch, match="is complete, so 'rows' cannot go on without an end"):
        Stepped(followed(folder, follow=True), checkpoint).steps()
