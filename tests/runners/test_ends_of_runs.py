"""How runs end: an error reaches everybody who waits, what was not published is removed, and nothing stays locked."""

from __future__ import annotations

import datetime
import os
import queue
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.errors import UserCodeError
from dataflow_model.io.sinks.text_files import TextFile
from dataflow_model.runners.local.lock import RunLock
from dataflow_model.runners.local.wake_up import WakeUp
from dataflow_model.runners.sharded import results
from dataflow_model.runners.sharded.checkpoint import parts
from dataflow_model.runners.sharded.checkpoint.durable import write_file
from dataflow_model.runners.sharded.checkpoint.requests import request_drain
from tests.support.pipelines import run, start
from tests.support.runners.failing_sinks import FailingSink
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.logical.runner import PipelineResult, Runner

RUNNERS: dict[str, Callable[[Path], Runner]] = {
    "bounded": lambda folder: dm.LocalRunner(),
    "two workers": lambda folder: dm.LocalRunner(workers=2),
    "stream": lambda folder: dm.LocalRunner(checkpoint=folder / "checkpoint"),
}
SUMS = pa.schema({"key": pa.string(), "value": pa.int64()})
ON_ALL = pytest.mark.parametrize("runner", RUNNERS)
BOUNDED = pytest.mark.parametrize("runner", ["bounded", "two workers"])


def failing(p: dm.Pipeline) -> None:
    _ = p | dm.Create([0]) | dm.Map(lambda n: 1 // n) | dm.io.Collect()


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def outcomes(result: PipelineResult, waiters: int) -> list[type[BaseException] | dm.RunnerState]:
    """Return what several threads get that wait for the end of a run."""
    ends: list[type[BaseException] | dm.RunnerState] = []

    def wait() -> None:
        try:
            ends.append(result.wait_until_finish())
        except UserCodeError as error:
            ends.append(type(error))

    threads = [threading.Thread(target=wait) for _ in range(waiters)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


@ON_ALL
def test_the_error_of_a_run_is_raised_in_each_thread_that_waits_and_at_each_call(tmp_path: Path, runner: str) -> None:
    result = start(RUNNERS[runner](tmp_path), failing)
    assert outcomes(result, 3) == [UserCodeError] * 3
    for _ in range(2):
        with pytest.raises(UserCodeError, match="ZeroDivisionError"):
            result.wait_until_finish()
        with pytest.raises(UserCodeError, match="ZeroDivisionError"):
            result.drain()
    assert result.state is dm.RunnerState.FAILED


@ON_ALL
@pytest.mark.parametrize("forever", ["1 day", datetime.timedelta.max, dm.duration("1 hour"), 3600, float("inf"), None])
def test_wait_until_finish_waits_for_at_most_the_given_duration(tmp_path: Path, runner: str, forever: Any) -> None:
    result = start(RUNNERS[runner](tmp_path), lambda p: p | dm.Create([1]) | dm.io.Collect())
    assert result.wait_until_finish(forever) is dm.RunnerState.DONE


@pytest.mark.parametrize("short", ["1 ms", datetime.timedelta(milliseconds=1), dm.duration(0.001), 0.001, 0])
def test_waiting_for_an_unbounded_run_ends_after_the_given_duration(tmp_path: Path, short: Any) -> None:
    result = start(RUNNERS["stream"](tmp_path), lambda p: p | dm.io.GenerateSequence(rate=1) | dm.io.Collect())
    try:
        assert result.wait_until_finish(short) is dm.RunnerState.RUNNING
        with pytest.raises(dm.InvalidArgument, match="'soon' is not a duration"):
            result.wait_until_finish("soon")
    finally:
        result.stop()


@ON_ALL
@pytest.mark.parametrize("timeout", [-1, "-5 minutes", datetime.timedelta(-1), float("-inf")])
def test_a_negative_timeout_is_refused(tmp_path: Path, runner: str, timeout: Any) -> None:
    result = start(RUNNERS[runner](tmp_path), lambda p: p | dm.Create([1]) | dm.io.Collect())
    with pytest.raises(dm.InvalidArgument, match=r"`timeout` must not be negative, got '-.*\nHint: use 0 to return at"):
        result.wait_until_finish(timeout)
    assert result.wait_until_finish() is dm.RunnerState.DONE


def two_sinks(out: Path, *fails: str) -> Callable[[dm.Pipeline], Any]:
    """Return what builds a pipeline with a sink that works, one that fails at some steps, and one more that works."""

    def build(p: dm.Pipeline) -> None:
        words = p | dm.Create(["a", "b"])
        _ = words | "first" >> dm.io.WriteText(out / "first")
        _ = words | "failing" >> dm.Write(FailingSink(fails))
        _ = words | "last" >> dm.io.WriteText(out / "last")

    return build


@BOUNDED
@pytest.mark.parametrize("step", ["write", "close"])
def test_a_bounded_run_of_which_one_sink_cannot_be_written_publishes_nothing(
    tmp_path: Path, runner: str, step: str
) -> None:
    with pytest.raises(OSError, match=f"no space left to {step}"):
        run(RUNNERS[runner](tmp_path), two_sinks(tmp_path / "out", step), until=None)
    assert files(tmp_path / "out") == []


@BOUNDED
def test_pending_output_of_one_sink_is_removed_although_another_sink_has_published(tmp_path: Path, runner: str) -> None:
    with pytest.raises(OSError, match="no space left to commit"):
        run(RUNNERS[runner](tmp_path), two_sinks(tmp_path / "out", "commit"), until=None)
    published = [file for file in files(tmp_path / "out") if "_commits" not in file]
    assert all(file.startswith("first/part-") for file in published)
    assert published


@ON_ALL
def test_output_that_cannot_be_removed_hides_neither_the_error_nor_the_output_of_others(
    tmp_path: Path, runner: str, caplog: pytest.LogCaptureFixture
) -> None:
    build = two_sinks(tmp_path / "out", "close", "abort", "abort a writer")
    with pytest.raises(OSError, match="no space left to close"):
        run(RUNNERS[runner](tmp_path), build, until=None)
    assert [file for file in files(tmp_path / "out") if "_pending" in file] == []
    assert "output of 'failing' that was not published could not be removed" in caplog.text


def test_a_file_on_a_full_disk_is_removed_and_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        """A file on a full disk, which raises again when it is closed, since it has something to flush."""

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, content: bytes) -> None:
            raise OSError(28, "No space left on device")

        def close(self) -> None:
            self.file.close()
            self.write(b"")

    opened = TextFile.__init__

    def open_full(file: Any, path: Path) -> None:
        opened(file, path)
        file._file = Full(file._file)

    monkeypatch.setattr(TextFile, "__init__", open_full)
    with pytest.raises(dm.SinkError, match=r"(?s)No space left on device.*\nHint: "):
        run(dm.LocalRunner(), lambda p: p | dm.Create(["a"]) | dm.io.WriteText(tmp_path / "out"), until=None)
    assert files(tmp_path / "out") == []


def followed(folder: Path) -> Callable[[dm.Pipeline], Any]:
    (folder / "in").mkdir()
    (folder / "in" / "a.txt").write_text("x\n")
    return lambda p: p | dm.io.ReadText(folder / "in" / "*.txt", event_time=dm.ARRIVAL, follow=True) | dm.io.Collect()


def test_a_stream_whose_end_cannot_be_recorded_fails_and_releases_its_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(results, "note_drained", fail)
    checkpoint = tmp_path / "checkpoint"
    result = start(dm.LocalRunner(checkpoint=checkpoint), followed(tmp_path), until="drained")
    with pytest.raises(dm.SinkError, match=r"(?s)cannot be written: .*No space left on device.*start the run again"):
        result.wait_until_finish(PATIENCE)
    assert result.state is dm.RunnerState.FAILED
    lock = RunLock.of(str(checkpoint), "local")
    lock.take()
    lock.release()


def test_a_full_disk_during_publishing_ends_the_run_with_a_way_out_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: Path, content: bytes, **options: Any) -> None:
        if path.name == "progress.json":
            raise OSError(28, "No space left on device")
        write_file(path, content, **options)

    build = followed(tmp_path)
    with monkeypatch.context() as full:
        full.setattr(parts, "write_file", write)
        with pytest.raises(dm.SinkError, match=r"(?s)progress.json' in the checkpoint directory cannot be written"):
            run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build)
    result = run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build)
    assert [record.value for record in result.collected("Collect")] == ["x"]


def test_a_lock_that_cannot_be_written_is_released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(*arguments: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", write)
        with pytest.raises(dm.SinkError, match=r"(?s)cannot be written: .*\nHint: .* free space"):
            RunLock.of(str(tmp_path), "local").take()
    lock = RunLock.of(str(tmp_path), "local")
    lock.take()
    lock.release()


@pytest.mark.parametrize("runner", ["bounded", "stream"])
@pytest.mark.parametrize("call", ["stop", "drain", "wait_until_finish"])
def test_a_function_of_a_run_may_end_it_but_not_wait_for_its_end(tmp_path: Path, runner: str, call: str) -> None:
    results: list[PipelineResult] = []
    started = threading.Event()

    def end(values: list[str]) -> None:
        started.wait(PATIENCE)
        getattr(results[0], call)()

    pipeline = dm.Pipeline(RUNNERS[runner](tmp_path))
    if runner == "stream":
        followed(tmp_path)(pipeline)
    _ = pipeline | dm.Create(["x"]) | "calls" >> dm.io.ForeachBundle(end)
    results.append(pipeline.run())
    started.set()
    if call == "wait_until_finish":
        with pytest.raises(dm.DataflowError, match="was called in a function of the run that it waits for"):
            results[0].wait_until_finish(PATIENCE)
    else:
        ended = {"stop": dm.RunnerState.STOPPED, "drain": dm.RunnerState.DRAINED} if runner == "stream" else {}
        assert results[0].wait_until_finish(PATIENCE) is ended.get(call, dm.RunnerState.DONE)


def test_a_run_that_cannot_release_its_resources_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    closed = WakeUp.close

    def close(wake_up: WakeUp) -> None:
        closed(wake_up)
        raise OSError(9, "Bad file descriptor")

    monkeypatch.setattr(WakeUp, "close", close)
    result = start(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), followed(tmp_path), until="drained")
    assert result.wait_until_finish(PATIENCE) is dm.RunnerState.DRAINED
    assert "not everything that it held could be released" in caplog.text


def test_files_of_a_stream_are_on_disk_before_they_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a power failure a file system may have kept the name of a file without its content."""
    synced: set[int] = set()
    unsafe: list[str] = []
    sync, replace = os.fsync, os.replace

    def note_sync(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        sync(descriptor)

    def note_replace(source: Any, target: Any) -> None:
        if os.stat(source).st_ino not in synced and str(target).startswith(str(tmp_path)):  # noqa: PTH116 - any path
            unsafe.append(Path(target).name)
        replace(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(os, "replace", note_replace)

    def build(p: dm.Pipeline) -> None:
        lines = followed(tmp_path)(p)
        del lines
        words = p | dm.Create(["a", "b"])
        _ = words | dm.io.WriteText(tmp_path / "text")
        _ = words | dm.Map(lambda word: (word, 1)) | dm.Sum.per_key() | dm.io.WriteJson(tmp_path / "json", schema=SUMS)

    run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build)
    # An empty mark of a running process counts as none, and so does an empty note of what is published.
    assert set(unsafe) <= {"running", "publishing.json"}


def follow(folder: Path, function: Callable[[Any], Any]) -> Callable[[dm.Pipeline], Any]:
    """Return what builds a pipeline that sums the numbers in a followed folder."""

    def build(p: dm.Pipeline) -> None:
        schema = pa.schema({"at": pa.int64(), "n": pa.int64()})
        rows = p | dm.io.ReadJson(str(folder), event_time="at", schema=schema, follow=True)
        pairs = rows | dm.Map(lambda row: ("k", function(row.n)))
        _ = pairs | dm.Window.into(dm.FixedWindows("1 day")) | dm.Sum.per_key() | "out" >> dm.io.Collect()

    return build


def arrive(folder: Path, name: str, *numbers: int) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f'{{"at": {n}, "n": {n}}}\n' for n in numbers))


def drained(tmp_path: Path, function: Callable[[Any], Any]) -> PipelineResult:
    pipeline = dm.Pipeline(runner=dm.LocalRunner(checkpoint=tmp_path / "checkpoint", max_rows_per_batch=1))
    follow(tmp_path / "in", function)(pipeline)
    return pipeline.run(until="drained")


def test_a_draining_start_lists_the_sources_again_after_one_that_failed(tmp_path: Path) -> None:
    arrive(tmp_path / "in", "1.json", 1, 7)
    with pytest.raises(UserCodeError):
        drained(tmp_path, lambda n: n // (n != 7)).wait_until_finish(PATIENCE)
    arrive(tmp_path / "in", "2.json", 100)
    result = drained(tmp_path, lambda n: n)
    assert result.wait_until_finish(PATIENCE) is dm.RunnerState.DRAINED
    assert [record.value for record in result.collected("out")] == [("k", 108)]


def test_a_run_that_has_ended_cannot_be_drained_and_the_next_one_reads_on(tmp_path: Path) -> None:
    arrive(tmp_path / "in", "1.json", 1)
    first = start(RUNNERS["stream"](tmp_path), follow(tmp_path / "in", lambda n: n))
    first.stop()
    with pytest.raises(dm.InvalidArgument, match="this one is stopped\nHint: start the pipeline again"):
        first.drain()
    arrive(tmp_path / "in", "2.json", 100)
    result = drained(tmp_path, lambda n: n)
    assert result.wait_until_finish(PATIENCE) is dm.RunnerState.DRAINED
    assert [record.value for record in result.collected("out")] == [("k", 101)]


def test_a_drain_of_a_run_that_is_stopped_meanwhile_fails_and_the_next_start_is_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: queue.Queue[PipelineResult] = queue.Queue()
    is_stopping, is_requested = threading.Event(), threading.Event()

    def drain(requests: Path) -> None:
        request_drain(requests)
        is_requested.set()

    def stops(n: int) -> int:
        started.get().stop()
        is_stopping.set()
        is_requested.wait(PATIENCE)
        return n

    monkeypatch.setattr(results, "request_drain", drain)
    arrive(tmp_path / "in", "1.json", 1)
    result = start(RUNNERS["stream"](tmp_path), follow(tmp_path / "in", stops))
    started.put(result)
    is_stopping.wait(PATIENCE)
    with pytest.raises(dm.InvalidArgument, match="stopped before it was drained"):
        result.drain()
    arrive(tmp_path / "in", "2.json", 100)
    again = start(RUNNERS["stream"](tmp_path), follow(tmp_path / "in", stops))
    assert again.wait_until_finish(PATIENCE) is dm.RunnerState.DRAINED
    assert [record.value for record in again.collected("out")] == [("k", 1)]


def test_draining_a_run_whose_input_has_ended_leaves_no_request(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1]) | "out" >> dm.io.Collect()

    for _ in range(2):
        result = start(RUNNERS["stream"](tmp_path), build)
        assert result.wait_until_finish(PATIENCE) is dm.RunnerState.DONE
        result.drain()
        assert result.state is dm.RunnerState.DONE


def test_an_interrupt_while_a_with_block_waits_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(results.StreamResult, "wait_until_finish", interrupted)
    arrive(tmp_path / "in", "1.json", 1)
    pipeline = dm.Pipeline(runner=RUNNERS["stream"](tmp_path))
    with pytest.raises(KeyboardInterrupt), pipeline:
        follow(tmp_path / "in", lambda n: n)(pipeline)
    assert pipeline.result is not None
    assert pipeline.result.state is dm.RunnerState.STOPPED
