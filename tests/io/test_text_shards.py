"""The number of text files of a commit, whatever tasks have written its lines and wherever a crash interrupts it."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, SinkError
from dataflow_model.io.sinks.text_files import LinesWriter
from dataflow_model.io.write import WriteText
from tests.support.crashing_commits import Crash, every_crash, written
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.written_files import visible

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.io.sinks.file_sinks import TextSink

LINES = [f"line {number:02d}" for number in range(20)]
TASKS: list[list[Any]] = [LINES[:5], [*LINES[5:6], 7], LINES[6:], []]


def texts(folder: Path) -> list[list[str]]:
    """Return the lines of each file."""
    return [(folder / name).read_text().splitlines() for name in visible(folder)]


@pytest.fixture(params=[False, True], ids=["not synced", "synced"])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> TextSink:
    sink = WriteText(tmp_path / "out", header="head", num_shards=3).sink
    return sink.synced() if request.param else sink


def check_published_once(sink: TextSink) -> None:
    folder = Path(sink.path)
    assert texts(folder) == [["head", *LINES[:6]], ["head", *LINES[6:13]], ["head", *LINES[13:]]]
    assert visible(folder) == [f"part-7-{number:05d}.txt" for number in range(3)]
    assert [file.read_text().count("\n") for file in (folder / "_dead_letters").iterdir()] == [1]
    assert not (folder / "_pending").exists()
    assert [file.name for file in (folder / "_commits").iterdir()] == ["7"]


@on_hosts("local", "workers", slow=("batch",))
def test_a_bounded_run_writes_the_requested_number_of_files(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    for num_shards, count in ((1, 20), (3, 2)):
        out = tmp_path / f"{count}"

        def build(p: dm.Pipeline, count: int = count, num_shards: int = num_shards, out: Path = out) -> None:
            _ = (
                p
                | dm.Create([(line, 1) for line in LINES[:count]])
                | dm.CombinePerKey(sum)
                | dm.MapTuple(lambda line, _: line)
                | dm.io.WriteText(out, header="head", num_shards=num_shards)
            )

        run(runner_on(host, request, tmp_path / "unused"), build, until=None)
        files = texts(out)
        assert len(files) == num_shards
        assert [file.pop(0) for file in files] == ["head"] * num_shards
        assert sorted(itertools.chain(*files)) == LINES[:count]
        assert max(map(len, files)) - min(map(len, files)) <= 1


def test_a_bounded_run_without_lines_still_writes_its_files(tmp_path: Path) -> None:
    none: list[str] = []
    with dm.Pipeline() as p:
        _ = p | dm.Create(none) | dm.io.WriteText(tmp_path, header="head", num_shards=2)
    assert texts(tmp_path) == [["head"], ["head"]]


def lines_of_files(folder: Path) -> Callable[[dm.Pipeline], None]:
    """Return a pipeline that groups the lines of four files and writes them to at most two in each commit."""
    (folder / "in").mkdir()
    for number in range(4):
        (folder / "in" / f"{number}.txt").write_text("".join(f"{line}\n" for line in LINES[number::4]))

    def build(p: dm.Pipeline) -> None:
        _ = (
            p
            | "read" >> dm.io.ReadText(folder / "in", event_time=dm.ARRIVAL)
            | dm.WithKeys(lambda line: line)
            | dm.GroupByKey()
            | dm.Keys()
            | dm.io.WriteText(folder / "out", num_shards=2)
        )

    return build


@on_hosts("process", slow=("streaming",))
def test_no_commit_of_a_stream_writes_more_than_the_requested_files_or_an_empty_one(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    run(runner_on(host, request, tmp_path / "checkpoint"), lines_of_files(tmp_path), until=None)
    files = texts(tmp_path / "out")
    commits = [name.rsplit("-", 1)[0] for name in visible(tmp_path / "out")]
    assert max(map(commits.count, commits)) == 2
    assert all(files)
    assert sorted(itertools.chain(*files)) == LINES


@pytest.mark.parametrize("shard", [0, 1])
def test_a_stream_that_fails_while_copying_lines_writes_each_once_after_a_restart(shard: int, tmp_path: Path) -> None:
    build = lines_of_files(tmp_path)
    with (
        pytest.raises(SinkError, match="No space left"),
        interrupted("copy_lines", shard, OSError(28, "No space left")),
    ):
        run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build, until=None)
    assert not visible(tmp_path / "out")
    run(dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), build, until=None)
    assert sorted(itertools.chain(*texts(tmp_path / "out"))) == LINES


def test_lines_stay_in_order_and_are_compressed_again_below_a_header_of_several_lines(tmp_path: Path) -> None:
    lines = ["a\x85b", "", "\u2028", "z" * 100_000]
    with dm.Pipeline() as p:
        _ = p | dm.Create(lines) | dm.io.WriteText(tmp_path, header="x\ny", suffix=".csv.gz", num_shards=2)
    contents = [gzip.decompress((tmp_path / name).read_bytes()).decode() for name in visible(tmp_path)]
    assert contents == ["x\ny\na\x85b\n\n", f"x\ny\n\u2028\n{lines[3]}\n"]


def test_a_commit_of_a_stream_with_fewer_lines_than_files_has_a_file_for_each(sink: TextSink) -> None:
    sink.commit("7", written(sink, "7", ["a"], ["b"]))
    sink.commit("8", written(sink, "8", []))
    assert texts(Path(sink.path)) == [["head", "a"], ["head", "b"]]


def test_dead_letters_of_a_commit_without_lines_are_kept(sink: TextSink) -> None:
    sink.commit("7", written(sink, "7", [5]))
    assert not visible(Path(sink.path))
    assert len(list(Path(sink.path, "_dead_letters").iterdir())) == 1


def test_a_commit_that_is_repeated_with_the_same_messages_changes_nothing(sink: TextSink) -> None:
    messages = written(sink, "7", *TASKS)
    for _ in range(3):
        sink.commit("7", messages)
        check_published_once(sink)
    assert sink.counts(messages) == {"rows": 20, "dead_letters": 1}


@pytest.mark.parametrize("markers", ["kept", "lost"])
def test_a_commit_is_rolled_forward_from_every_step_at_which_it_can_crash(sink: TextSink, markers: str) -> None:
    for crash in every_crash():
        messages = written(sink, "7", *TASKS)
        with crash():
            sink.commit("7", messages)
        if markers == "lost":
            shutil.rmtree(Path(sink.path, "_commits"), ignore_errors=True)
        for _ in range(2):
            sink.commit("7", messages)
            check_published_once(sink)
        shutil.rmtree(sink.path)


def test_a_commit_whose_tasks_run_again_replaces_what_was_renamed(sink: TextSink) -> None:
    for crash in every_crash():
        with crash():
            sink.commit("7", written(sink, "7", LINES[10:], [7], LINES[:10]))
        messages = written(sink, "7", *TASKS)
        with crash():
            sink.commit("7", messages)
        sink.commit("7", messages)
        assert sorted(itertools.chain(*texts(Path(sink.path)))) == [*["head"] * 3, *LINES]
        assert len(list(Path(sink.path, "_dead_letters").iterdir())) == 1
        shutil.rmtree(sink.path)


@pytest.mark.parametrize("shard", [0, 1, 2])
@pytest.mark.parametrize("step", ["copy_lines", "close"])
def test_a_crash_while_lines_are_copied_neither_loses_nor_repeats_a_line(sink: TextSink, shard: int, step: str) -> None:
    messages = written(sink, "7", *TASKS)
    with contextlib.suppress(Crash), interrupted(step, shard, Crash()):
        sink.commit("7", messages)
    assert not visible(Path(sink.path))
    sink.commit("7", messages)
    check_published_once(sink)


@contextlib.contextmanager
def interrupted(step: str, shard: int, error: BaseException) -> Iterator[None]:
    """Raise an error after a step of the file with a number."""
    calls = itertools.count()
    change = getattr(LinesWriter, step)

    def changed(*args: Any) -> None:
        change(*args)
        if next(calls) == shard:
            raise error

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LinesWriter, step, changed)
        yield


def test_a_lost_pending_file_is_an_error_instead_of_a_file_without_its_lines(sink: TextSink) -> None:
    messages = written(sink, "7", *TASKS)
    next(Path(sink.path, "_pending", "7").glob("*.txt")).unlink()
    with pytest.raises(SinkError, match="commit 7 cannot be published"):
        sink.commit("7", messages)
    assert not visible(Path(sink.path))


def test_a_rejected_bounded_run_leaves_no_files(tmp_path: Path) -> None:
    def build(p: dm.Pipeline, **options: Any) -> None:
        _ = p | dm.Create(LINES) | dm.io.WriteText(tmp_path, num_shards=2, **options)

    run(dm.LocalRunner(), build, until=None)
    with pytest.raises(SinkError, match="another run"):
        run(dm.LocalRunner(), build, until=None)
    assert texts(tmp_path) == [LINES[:10], LINES[10:]]
    run(dm.LocalRunner(), lambda p: build(p, if_exists="replace"), until=None)
    assert texts(tmp_path) == [LINES[:10], LINES[10:]]


def test_a_stream_may_not_change_its_number_of_files() -> None:
    assert WriteText("out", num_shards=1).sink.destination() != WriteText("out", num_shards=2).sink.destination()
    assert "num_shards" not in WriteText("out").sink.destination()


@pytest.mark.parametrize("number", [0, -1, True, 1.5, "1"])
def test_an_invalid_number_of_files_is_rejected(number: Any) -> None:
    with pytest.raises(InvalidArgument, match="`num_shards` must be a positive whole number, got"):
        dm.io.WriteText("out", num_shards=number)
