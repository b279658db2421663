"""A run that writes to a folder with output of another run is rejected, adds to it, or replaces it in one step."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, PlanError, SinkError, UserCodeError
from dataflow_model.io.sinks.file_sinks import FileSink, JsonSink
from tests.support.crashing_commits import Crashing, every_crash, written
from tests.support.hosts import on_hosts, runner_on
from tests.support.laws.examples import share_of_examples
from tests.support.pipelines import run
from tests.support.written_files import rows, visible

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.io.sinks.earlier_output import IfExists

NUMBERS = pa.schema({"n": pa.int64()})
RUNS = [f"{number:012x}" for number in range(10)]
ANY: tuple[IfExists, ...] = ("error", "add", "replace")
EITHER: tuple[IfExists, ...] = ("error", "add")
BOUNDED = on_hosts("local", "workers", slow=("batch",))
WRITERS = {
    "parquet": dm.io.WriteParquet,
    "json": dm.io.WriteJson,
    "csv": dm.io.WriteCsv,
    "text": dm.io.WriteText,
}


def writing(folder: Path, numbers: Any, **options: Any) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([{"n": n} for n in numbers]) | "out" >> dm.io.WriteJson(folder, schema=NUMBERS, **options)

    return build


def numbers(folder: Path) -> list[int]:
    return sorted(row["n"] for row in rows(JsonSink(path=folder))) if visible(folder) else []


def commit(sink: FileSink, run_id: str, *tasks: Any, crash: Any = contextlib.nullcontext) -> None:
    """Publish as a bounded run does, which may crash."""
    bounded = sink.bounded()
    messages = written(sink, run_id, *tasks)
    with crash():
        publish(bounded, run_id, messages)


def publish(bounded: FileSink, run_id: str, messages: list[bytes]) -> None:
    try:
        bounded.commit(run_id, messages)
    except Exception:
        bounded.abort(run_id, [])
        raise
    bounded.forget(run_id)


@BOUNDED
def test_a_bounded_run_that_is_run_again_is_rejected_before_anything_runs(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "out"
    runner = runner_on(host, request, tmp_path / "unused")
    run(runner, writing(out, [1, 2]), until=None)
    before = visible(out)

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1]) | dm.Map(lambda _: 1 / 0) | "out" >> dm.io.WriteJson(out)

    with pytest.raises(
        SinkError, match=r"'out' would add its rows to those of another run: .*out contains .*part-"
    ) as e:
        run(runner, build, until=None)
    assert "if_exists='replace'" in str(e.value)
    assert visible(out) == before
    assert numbers(out) == [1, 2]


@BOUNDED
def test_a_bounded_run_adds_to_earlier_output_or_replaces_it(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "out"
    runner = runner_on(host, request, tmp_path / "unused")
    for values, if_exists, expected in (
        ([1, 2], "error", [1, 2]),
        ([3], "add", [1, 2, 3]),
        ([4, 5], "replace", [4, 5]),
        ([], "replace", []),
        ([6], "error", [6]),
    ):
        run(runner, writing(out, values, if_exists=if_exists), until=None)
        assert numbers(out) == expected
    assert not list((out / "_commits").glob("*+run"))


@pytest.mark.parametrize("kind", WRITERS)
def test_each_file_sink_has_the_option_if_exists(tmp_path: Path, kind: str) -> None:
    def build(**options: Any) -> Callable[[dm.Pipeline], Any]:
        def write(p: dm.Pipeline) -> None:
            _ = p | dm.Create(["a", "b"]) | WRITERS[kind](tmp_path / "out", **options)

        return write

    run(dm.LocalRunner(), build(), until=None)
    with pytest.raises(SinkError, match="another run"):
        run(dm.LocalRunner(), build(), until=None)
    run(dm.LocalRunner(), build(if_exists="replace"), until=None)
    assert len(visible(tmp_path / "out")) == 1


def test_dead_letters_of_an_earlier_run_count_as_output_and_are_replaced(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create(["x"]) | dm.io.WriteJson(tmp_path, schema=NUMBERS)

    run(dm.LocalRunner(), build, until=None)
    [before] = (path.name for path in (tmp_path / "_dead_letters").iterdir())
    with pytest.raises(SinkError, match=f"_dead_letters/{before}"):
        run(dm.LocalRunner(), build, until=None)
    run(dm.LocalRunner(), writing(tmp_path, [1], if_exists="replace"), until=None)
    assert not list((tmp_path / "_dead_letters").iterdir())


@pytest.mark.parametrize("name", ["data.json", "part-00000-0b5f0c9e-c000.snappy.parquet", "part-r-00000.parquet"])
def test_files_of_other_programs_are_reported_and_never_removed(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text('{"n": 0}\n')
    with pytest.raises(SinkError, match=f"files that are not of dataflow_model: .* contains '{name}'"):
        run(dm.LocalRunner(), writing(tmp_path, [1]), until=None)
    run(dm.LocalRunner(), writing(tmp_path, [1], if_exists="add"), until=None)
    run(dm.LocalRunner(), writing(tmp_path, [2], if_exists="replace"), until=None)
    assert (tmp_path / name).exists()
    assert len(visible(tmp_path)) == 2


def test_files_in_partitions_count_as_existing_output_but_hidden_files_and_other_folders_do_not(tmp_path: Path) -> None:
    for name in ("_SUCCESS", ".part.crc"):
        (tmp_path / name).touch()
    (tmp_path / "checkpoint").mkdir()
    run(dm.LocalRunner(), writing(tmp_path, [1]), until=None)
    (tmp_path / "year=2013").mkdir()
    (tmp_path / "year=2013" / "theirs.json").touch()
    shutil.rmtree(tmp_path / "checkpoint")
    for file in tmp_path.glob("part-*"):
        file.unlink()
    with pytest.raises(SinkError, match=r"'year=2013/theirs\.json'"):
        run(dm.LocalRunner(), writing(tmp_path, [1]), until=None)


def test_a_run_that_failed_may_be_run_again(tmp_path: Path) -> None:
    def failing(p: dm.Pipeline) -> None:
        _ = p | dm.Create([1, 0]) | dm.Map(lambda n: {"n": 1 // n}) | dm.io.WriteJson(tmp_path, schema=NUMBERS)

    for _ in range(2):
        with pytest.raises(UserCodeError):
            run(dm.LocalRunner(), failing, until=None)
    run(dm.LocalRunner(), writing(tmp_path, [1]), until=None)
    assert numbers(tmp_path) == [1]


def test_a_run_that_could_not_publish_all_its_files_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = JsonSink(path=tmp_path, schema=NUMBERS, label="out", if_exists="replace")
    commit(sink, RUNS[0], [{"n": 1}])
    replace = Path.replace

    def fails(self: Path, target: Path) -> Path:
        if target.name.endswith("00001.json"):
            raise OSError(28, "No space left on device")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(SinkError, match="No space left"):
        commit(sink, RUNS[1], [{"n": 2}], [{"n": 3}])
    monkeypatch.undo()
    assert numbers(tmp_path) == [1]
    commit(sink, RUNS[2], [{"n": 2}], [{"n": 3}])
    assert numbers(tmp_path) == [2, 3]


@pytest.mark.parametrize("new", [([{"n": 2}], [{"n": 3}, "misfit"]), ([],)])
def test_after_a_crash_at_any_step_the_folder_has_the_old_output_or_the_new(tmp_path: Path, new: Any) -> None:
    old, fresh, seen = [{"n": 0}, {"n": 1}], [row for task in new for row in task if row != "misfit"], set()
    for crash in every_crash():
        for again in every_crash():  # the next start may crash while it settles
            sink = JsonSink(path=tmp_path / "out", schema=NUMBERS, label="out", if_exists="replace")
            commit(sink, RUNS[0], old[:1], old[1:])
            commit(sink, RUNS[1], *new, crash=crash)
            with again():
                sink.check_earlier()
            sink.check_earlier()
            content = rows(sink) if visible(tmp_path / "out") else []
            assert content in (old, fresh)
            letters = tmp_path / "out" / "_dead_letters"
            assert len(list(letters.glob("*"))) == (content == fresh and len(fresh) > 0)
            assert not list((tmp_path / "out" / "_commits").glob("*+run"))
            seen.add(len(content))
            commit(sink, RUNS[2], [{"n": 9}])
            assert rows(sink) == [{"n": 9}]
            shutil.rmtree(tmp_path / "out")
    assert seen == {len(old), len(fresh)} if len(fresh) != len(old) else {len(old)}


def test_files_of_a_partly_published_run_do_not_count_as_output(tmp_path: Path) -> None:
    for if_exists in EITHER:
        for crash in every_crash():
            sink = JsonSink(path=tmp_path / "out", schema=NUMBERS, label="out", if_exists=if_exists)
            commit(sink, RUNS[0], [{"n": 1}], [{"n": 2}], crash=crash)
            try:
                sink.check_earlier()
            except SinkError:
                assert numbers(tmp_path / "out") == [1, 2]
            else:
                commit(sink, RUNS[1], [{"n": 1}], [{"n": 2}])
                assert numbers(tmp_path / "out") in ([1, 2], [1, 1, 2, 2] if if_exists == "add" else [1, 2])
            shutil.rmtree(tmp_path / "out")


@share_of_examples(0.4)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["error", "add", "replace"]),
            st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=1, max_size=3),
            st.none() | st.integers(0, 12),
        ),
        max_size=6,
    )
)
def test_a_folder_contains_only_complete_outputs_however_runs_crash(tmp_path_factory: Any, steps: Any) -> None:
    folder: Path = tmp_path_factory.mktemp("out")
    expected: list[int] = []
    for number, (if_exists, tasks, crash_after) in enumerate(steps):
        sink = JsonSink(path=folder, schema=NUMBERS, label="out", if_exists=if_exists)
        own = sorted(n for task in tasks for n in task)
        try:
            sink.check_earlier()
        except SinkError:
            assert expected
            continue
        assert numbers(folder) == expected
        wanted = sorted(expected + own) if if_exists == "add" else own
        crash = Crashing(10**6 if crash_after is None else crash_after)
        commit(sink, RUNS[number], *[[{"n": n} for n in task] for task in tasks], crash=crash)
        JsonSink(path=folder, label="out", if_exists="add").check_earlier()
        content = numbers(folder)
        assert content in ((wanted,) if crash_after is None else (expected, wanted))
        expected = content


def _publish_slowly(folder: Path, begun: Any, resume: Any) -> None:
    replace = Path.replace

    def slow(self: Path, target: Path) -> Path:
        if target.name.endswith("00001.json"):
            begun.set()
            resume.wait(60)
        return replace(self, target)

    Path.replace = slow  # type: ignore[method-assign, assignment]
    commit(JsonSink(path=folder, schema=NUMBERS, label="out", if_exists="add"), RUNS[0], [{"n": 1}], [{"n": 2}])


@pytest.mark.parametrize("dies", [False, True])
def test_the_files_of_a_run_that_is_publishing_are_not_touched_while_it_is_alive(tmp_path: Path, dies: bool) -> None:
    processes = multiprocessing.get_context("spawn")
    begun, resume = processes.Event(), processes.Event()
    process = processes.Process(target=_publish_slowly, args=(tmp_path, begun, resume))
    process.start()
    assert begun.wait(60)
    if dies:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
    adding = JsonSink(path=tmp_path, schema=NUMBERS, label="out", if_exists="add")
    adding.check_earlier()
    commit(adding, RUNS[1], [{"n": 3}])
    assert numbers(tmp_path) == ([3] if dies else [1, 3])
    if dies:
        return
    resume.set()  # it would wait for ever for a process that was killed while it waited
    process.join()
    assert numbers(tmp_path) == [1, 2, 3]


def test_output_that_another_run_has_published_in_the_meantime_is_not_added_to(tmp_path: Path) -> None:
    sink = JsonSink(path=tmp_path, schema=NUMBERS, label="out")
    sink.check_earlier()
    commit(sink, RUNS[0], [{"n": 1}])
    with pytest.raises(SinkError, match="'out' would add its rows to those of another run"):
        commit(sink, RUNS[1], [{"n": 1}])
    assert numbers(tmp_path) == [1]
    assert not (tmp_path / "_pending").exists()


def test_a_commit_of_a_bounded_run_that_is_repeated_changes_nothing(tmp_path: Path) -> None:
    for if_exists in ANY:
        for crash in every_crash():
            sink = JsonSink(path=tmp_path / "out", schema=NUMBERS, if_exists=if_exists).bounded()
            messages = written(sink, RUNS[0], [{"n": 1}], [{"n": 2}])
            with crash():
                sink.commit(RUNS[0], messages)
            for _ in range(2):
                sink.commit(RUNS[0], messages)
                assert numbers(tmp_path / "out") == [1, 2]
            shutil.rmtree(tmp_path / "out")


@on_hosts("process", slow=("streaming",))
def test_a_stream_continues_its_own_output_and_a_new_one_is_not_added_to_it(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    out = tmp_path / "out"
    for _ in range(2):  # the second start continues
        run(runner_on(host, request, tmp_path / "checkpoint"), writing(out, [1, 2]))
        assert numbers(out) == [1, 2]
    for _ in range(2):  # a start that was rejected is rejected again
        with pytest.raises(SinkError, match="'out' would add its rows to those of another run") as e:
            run(runner_on(host, request, tmp_path / "new"), writing(out, [1, 2]))
        assert "start with its checkpoint" in str(e.value)
    assert numbers(out) == [1, 2]
    run(runner_on(host, request, tmp_path / "new"), writing(out, [1, 2], if_exists="add"))
    assert numbers(out) == [1, 1, 2, 2]


def test_streams_and_bounded_runs_may_not_add_to_the_output_of_each_other(tmp_path: Path) -> None:
    stream, bounded = dm.LocalRunner(checkpoint=tmp_path / "checkpoint"), dm.LocalRunner()
    for first, second, out in ((stream, bounded, tmp_path / "a"), (bounded, stream, tmp_path / "b")):
        shutil.rmtree(tmp_path / "checkpoint", ignore_errors=True)
        run(first, writing(out, [1]))
        with pytest.raises(SinkError, match="another run"):
            run(second, writing(out, [1]))
    run(bounded, writing(tmp_path / "a", [2], if_exists="replace"))
    assert numbers(tmp_path / "a") == [2]


def test_a_stream_rejects_the_option_to_replace_existing_output(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="'out' has if_exists='replace', but a stream adds files with each commit"):
        run(dm.LocalRunner(checkpoint=tmp_path / "c"), writing(tmp_path / "out", [1], if_exists="replace"))


@pytest.mark.parametrize(("given_value", "meant"), [("append", "add"), ("overwrite", "replace"), (True, "replace")])
def test_an_unknown_value_of_if_exists_is_rejected_with_the_nearest_one(given_value: Any, meant: str) -> None:
    with pytest.raises(InvalidArgument, match=f"if_exists.* got {given_value!r}\nHint: write if_exists='{meant}'"):
        dm.io.WriteParquet("out", if_exists=given_value)
    with pytest.raises(InvalidType, match="if_exists='replace'"):
        dm.io.WriteParquet("out", mode="overwrite")  # type: ignore[call-arg]


def test_the_error_of_a_failed_run_names_the_sinks_that_had_already_published(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        values = p | dm.Create([1])
        _ = values | "first" >> dm.io.WriteJson(tmp_path / "first")
        _ = values | "second" >> dm.io.ForeachBundle(lambda _: 1 / 0)

    with pytest.raises(UserCodeError):
        run(dm.LocalRunner(), build, until=None)
    with pytest.raises(SinkError, match="'first' would add"):
        run(dm.LocalRunner(), build, until=None)
