"""`LocalRunner(workers=n)` in real processes: answers, files, errors, and that no process or folder is left behind."""

from __future__ import annotations

import os
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import SinkError
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.runners.local.workers import fork_server
from dataflow_model.runners.local.workers.failures import WorkerTraceback, pack_error, unpack_error
from dataflow_model.testing import TestStream
from tests.support.inputs import write_history
from tests.support.pipelines import counters, run, seen, start
from tests.support.upgrade.pipelines import history
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

CLOCK = 1_000


@pytest.fixture(autouse=True)
def folder_of_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Check that no run leaves its folder behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert list(folder.iterdir()) == []


class Extremes(dm.CombineFn[int, tuple[int, int], tuple[int, int]]):
    """The least and the greatest number."""

    def create_accumulator(self) -> tuple[int, int]:
        return 1 << 40, -(1 << 40)

    def add_input(self, accumulator: tuple[int, int], element: int) -> tuple[int, int]:
        return min(accumulator[0], element), max(accumulator[1], element)

    def merge_accumulators(self, accumulators: Any) -> tuple[int, int]:
        several = list(accumulators)
        return min(least for least, _ in several), max(greatest for _, greatest in several)

    def extract_output(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator


def pipeline_of(folder: Path, out: Path | None = None) -> Any:
    """Return a pipeline with lambdas, dead letters, retractions, a grouping behind a grouping, and tags."""
    seen_by_users = dm.metrics.counter("seen")

    def counted(row: Any) -> tuple[str, int]:
        seen_by_users.inc()
        return row.key, row.n // (row.n % 50)

    def split(pair: tuple[bool, Any]) -> Any:
        yield pair
        if pair[0]:
            yield dm.TaggedOutput("early", pair)

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(
            folder, event_time="at", processing_time="seen", watermark=dm.BoundedOutOfOrderness("4 microseconds")
        )
        pairs, letters = rows | "pairs" >> dm.Map(counted).with_exception_handling()
        trigger = dm.AfterWatermark(early=dm.AfterCount(3), late=dm.AfterCount(1))
        windows = (
            dm.Window.into(dm.FixedWindows("20 microseconds")).trigger(trigger).allowed_lateness("30 microseconds")
        )
        extremes = (
            pairs | "windows" >> windows.accumulating_and_retracting() | "extremes" >> dm.CombinePerKey(Extremes())
        )
        halves = extremes | "halves" >> dm.Map(lambda pair: (pair[0] < "d", pair[1][1]))
        sums = halves | "sums" >> dm.Sum.per_key()
        tagged = sums | "split" >> dm.FlatMap(split).with_outputs("early", main="main")
        _ = letters | "letters" >> dm.io.Collect()
        _ = tagged.main | "main" >> dm.io.Collect()
        _ = tagged.early | "early" >> dm.io.Collect()
        if out is not None:
            schema = pa.schema({"key": pa.bool_(), "value": pa.int64()})
            _ = tagged.main | "files" >> dm.io.WriteParquet(str(out), schema=schema, panes=True)

    return build


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    for name in (1, 2):
        write_history(tmp_path / "rows" / f"{name}.parquet", history(name))
    return tmp_path / "rows"


@pytest.mark.parametrize(("size", "period", "count"), [(4, 2, 12), (2, 3, 4)])
def test_a_sink_counts_an_element_once_for_each_window_on_every_runner(
    size: int, period: int, count: int, tmp_path: Path
) -> None:
    def build(p: dm.Pipeline) -> None:
        times = [dm.TimestampedValue(("k", second), second) for second in range(6)]
        windowed = p | dm.Create(times) | dm.Window.into(dm.SlidingWindows(size, period))
        _ = windowed | "rows" >> dm.io.WriteParquet(tempfile.mkdtemp(dir=tmp_path))
        _ = windowed | "kept" >> dm.io.Collect()

    for runner in (dm.LocalRunner(), dm.LocalRunner(workers=2), dm.LocalRunner(checkpoint=tmp_path / "checkpoint")):
        metrics = run(runner, build).metrics()
        assert (metrics["rows"]["rows"], metrics["rows"]["elements_in"], metrics["kept"]["elements_in"]) == (count,) * 3


def test_panes_dead_letters_and_counters_equal_those_of_one_process(rows: Path, tmp_path: Path) -> None:
    single = run(dm.LocalRunner(clock=CLOCK), pipeline_of(rows, tmp_path / "one"))
    double = run(dm.LocalRunner(clock=CLOCK, workers=2), pipeline_of(rows, tmp_path / "two"))
    for sink in ("main", "early"):
        assert seen(double.collected(sink)) == seen(single.collected(sink))
    letters = [[record.value.element for record in result.collected("letters")] for result in (single, double)]
    assert letters[0] == letters[1] != []
    assert counters(double) == counters(single)
    assert double.watermarks() == single.watermarks()
    reports = [result.report() for result in (single, double)]
    assert reports[1].transforms["pairs"].user == reports[0].transforms["pairs"].user
    assert [report.transforms["sums"].elements_in for report in reports] == [
        reports[0].transforms["sums"].elements_in
    ] * 2
    tables = [pq.read_table(tmp_path / name).to_pylist() for name in ("one", "two")]
    assert sorted(map(repr, tables[0])) == sorted(map(repr, tables[1]))
    assert double.state is RunnerState.DONE


def test_a_script_is_run_with_its_signals_and_clock() -> None:
    script = (
        TestStream().add(5, event_time=1, key="a").processing_time(10).add(6, event_time=2, key="b").signal("flush")
    )

    def build(p: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows("10 seconds")).trigger(dm.Repeatedly(dm.AfterSignal("flush")))
        _ = p | script.watermark_to_infinity() | windows.discarding() | dm.Sum.per_key() | dm.io.Collect()

    results = [run(dm.LocalRunner(clock=CLOCK, workers=workers), build).collected("Collect") for workers in (1, 3)]
    assert seen(results[0]) == seen(results[1]) != []


def test_an_empty_output_is_written_with_workers(tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        nothing = p | dm.Create([("a", 1)]) | dm.Filter(lambda pair: pair[1] > 1)
        _ = (
            nothing
            | dm.Sum.per_key()
            | dm.io.WriteParquet(str(tmp_path / "out"), schema=pa.schema({"key": pa.string(), "value": pa.int64()}))
        )

    run(dm.LocalRunner(clock=CLOCK, workers=2), build)
    assert pq.read_table(tmp_path / "out").num_rows == 0


def doing(function: Any, sink: Any = None) -> Any:
    def build(p: dm.Pipeline) -> None:
        pairs = p | dm.Create([(number % 7, number) for number in range(40)])
        _ = pairs | "do" >> dm.Map(function) | dm.Sum.per_key() | (sink or dm.io.Collect())

    return build


class Refused(Exception):
    """An exception of a user's, which cannot be restored from its pickle."""

    def __init__(self, pair: Any, reason: str) -> None:
        super().__init__(f"{pair}: {reason}")


@pytest.mark.parametrize("error", [KeyError, Refused])
def test_an_exception_of_a_users_function_has_its_label_and_the_original_traceback(error: type[Exception]) -> None:
    def fails_at_33(pair: tuple[int, int]) -> tuple[int, int]:
        if pair[1] == 33:
            raise error(pair) if error is KeyError else error(pair, "no")
        return pair

    with pytest.raises(dm.UserCodeError, match=r"transform: 'do'\n  element: \(5, 33\)") as raised:
        run(dm.LocalRunner(workers=2), doing(fails_at_33))
    cause = raised.value.__cause__
    assert isinstance(cause, KeyError if error is KeyError else RuntimeError)
    assert isinstance(cause.__cause__, WorkerTraceback)
    assert "in fails_at_33" in str(cause.__cause__)


def ending(way: Callable[[], object]) -> Any:
    """Return a function that ends its process at one element."""

    def end_at_33(pair: Any) -> Any:
        if pair[1] == 33:
            way()
        return pair

    return end_at_33


@pytest.mark.parametrize(
    ("way", "ended", "way_out"),
    [
        (lambda: os._exit(3), "exited with status 3", "such as by os._exit: raise an exception"),
        (lambda: os._exit(0), "exited with status 0", "such as by os._exit: raise an exception"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "was ended by the signal SIGKILL", "short of memory"),
        (lambda: os.kill(os.getpid(), signal.SIGSEGV), "was ended by the signal SIGSEGV", "PYTHONFAULTHANDLER=1"),
    ],
)
def test_a_worker_that_ends_is_named_with_its_status_and_the_transforms_that_it_ran(
    way: Callable[[], object], ended: str, way_out: str
) -> None:
    message = rf"^worker 1 \(process \d+\) of LocalRunner\(workers=…\) {ended} before its work was done\n"
    with pytest.raises(dm.WorkerLost, match=message + r"  transforms: 'Create', 'do'\nHint: ") as raised:
        run(dm.LocalRunner(workers=2), doing(ending(way)))
    assert way_out in str(raised.value)


def test_a_worker_that_ends_in_a_later_stage_is_named_with_the_transforms_of_that_stage() -> None:
    def build(p: dm.Pipeline) -> None:
        sums = p | dm.Create([("a", 33)]) | dm.Sum.per_key()
        _ = sums | "then" >> dm.Map(ending(lambda: os._exit(3))) | dm.io.Collect()

    with pytest.raises(dm.WorkerLost, match=r"exited with status 3 (.|\n)*transforms: 'Sum.*', 'then'\n"):
        run(dm.LocalRunner(workers=2), build)


@pytest.mark.parametrize("is_forked", [False, True])
def test_a_worker_that_is_killed_is_an_error_although_a_process_that_it_has_started_lives(
    is_forked: bool, tmp_path: Path
) -> None:
    def dies(pair: tuple[int, int]) -> tuple[int, int]:
        if pair[1] == 33:
            child = os.fork() if is_forked else subprocess.Popen(["sleep", "60"], close_fds=False).pid
            if not child:
                signal.pause()
            (tmp_path / "child").write_text(str(child))
            os.kill(os.getpid(), signal.SIGKILL)
        return pair

    p = dm.Pipeline(runner=dm.LocalRunner(workers=2))
    doing(dies)(p)
    result = p.run()
    try:
        with pytest.raises(dm.WorkerLost):
            result.wait_until_finish(PATIENCE)
    finally:
        os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)


def alive(process: int) -> bool:
    """Tell whether a process runs; a zombie does not."""
    try:
        state = pathlib.Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def blocking(folder: Path) -> Any:
    """Return a function that notes its process and then never returns."""

    def block(pair: Any) -> Any:
        (folder / str(os.getpid())).touch()
        threading.Event().wait()  # until the process is ended
        return pair

    return block


def when(condition: Callable[[], bool]) -> None:
    """Return once a condition holds that only other processes bring about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("keyed", [False, True])
def test_an_element_that_cannot_be_sent_to_the_parent_is_named(keyed: bool) -> None:
    def build(p: dm.Pipeline) -> None:
        elements = p | dm.Create([1, 2]) | dm.Map(lambda x: ("k", x))
        grouped = elements | dm.GroupByKey() if keyed else elements
        _ = grouped | "lock" >> dm.Map(lambda _: ("held", threading.Lock())) | "kept" >> dm.io.Collect()

    with pytest.raises(
        dm.InvalidType, match=r"cannot be pickled(.|\n)*transform: 'kept'\n  element: \('held', <unlocked"
    ):
        run(dm.LocalRunner(workers=2), build)


@pytest.mark.parametrize("where", ["elements", "groups", "output"])
def test_an_element_whose_class_does_not_restore_it_is_an_error_that_says_so(where: str) -> None:
    def build(p: dm.Pipeline) -> None:
        failed = Refused("UA", "no flights")
        elements = p | dm.Create([failed if where == "elements" else 1, 2])
        if where == "groups":
            elements = elements | dm.Map(lambda x: (x, failed)) | dm.GroupByKey() | dm.Map(lambda group: group[0])
        _ = elements | dm.Map(lambda x: failed if where == "output" else 0) | "kept" >> dm.io.Collect()

    with pytest.raises(dm.InvalidType, match=r"does not restore it: TypeError: Refused\.__init__\(\) missing"):
        run(dm.LocalRunner(workers=2), build).collected("kept")


def test_stop_ends_the_workers_and_publishes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "processes"
    folder.mkdir()
    result = start(dm.LocalRunner(workers=2), doing(blocking(folder)))
    when(lambda: len(list(folder.iterdir())) == 2)
    result.stop()
    assert result.state is RunnerState.STOPPED
    assert result.collected("Collect") == []
    when(lambda: not any(alive(int(path.name)) for path in folder.iterdir()))


SCRIPT = """
    import os, pathlib, signal, sys, time
    import dataflow_model as dm

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background of a shell ignores it
    folder = pathlib.Path(sys.argv[1])

    def block(pair):
        (folder / str(os.getpid())).touch()
        while True:
            time.sleep(1)

    with dm.Pipeline(runner=dm.LocalRunner(workers=2)) as p:
        _ = p | dm.Create([(n, n) for n in range(10)]) | dm.Map(block) | dm.Sum.per_key() | dm.io.Collect()
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
def test_workers_end_with_a_program_that_is_interrupted_or_killed(
    tmp_path: Path, sent: signal.Signals, folder_of_runs: Path
) -> None:
    folder = tmp_path / "processes"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "TMPDIR": str(folder_of_runs)}
    with subprocess.Popen(
        [sys.executable, str(script), str(folder)], stderr=subprocess.PIPE, env=environment
    ) as program:
        when(lambda: len(list(folder.iterdir())) == 2)
        program.send_signal(sent)
        _, errors = program.communicate()
    assert (b"KeyboardInterrupt" in errors) == (sent is signal.SIGINT)
    when(lambda: not any(alive(int(path.name)) for path in folder.iterdir()))
    when(lambda: not list(folder_of_runs.iterdir()))


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import dataflow_model as dm

            print("main")
            with dm.Pipeline(runner=dm.LocalRunner(workers=2)) as p:
                _ = p | dm.Create([("a", 1), ("b", 2), ("a", 3)]) | dm.Sum.per_key() | dm.io.Collect()
            print(sorted(record.value for record in p.result.collected("Collect")))
        """)
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert ended.stdout == "main\n[('a', 4), ('b', 2)]\n"
    assert ended.stderr == ""


def test_a_process_that_multiprocessing_has_spawned_runs_functions_and_classes_of_the_main_module(
    tmp_path: Path,
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import multiprocessing
            import dataflow_model as dm

            class Delay:
                def __init__(self, minutes):
                    self.minutes = minutes

            def delay(pair):
                return pair[0], Delay(pair[1])

            def run():
                with dm.Pipeline(runner=dm.LocalRunner(workers=2)) as p:
                    delays = p | dm.Create([("a", 1), ("b", 2), ("a", 3)]) | dm.Map(delay)
                    _ = delays | dm.GroupByKey() | "groups" >> dm.io.Collect()
                groups = dict(record.value for record in p.result.collected("groups"))
                assert all(type(delay) is Delay for delay in groups["a"])
                print([delay.minutes for delay in groups["a"]])

            if __name__ == "__main__":
                process = multiprocessing.get_context("spawn").Process(target=run)
                process.start()
                process.join()
        """)
    )
    ended = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert (ended.stdout, ended.stderr) == ("[1, 3]\n", "")


def test_workers_run_with_the_options_of_the_interpreter_that_starts_them(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import sys
            import dataflow_model as dm

            def options(_):
                return sys.flags.optimize, sys.flags.utf8_mode, sys.warnoptions

            with dm.Pipeline(runner=dm.LocalRunner(workers=2)) as p:
                _ = p | dm.Create([1]) | dm.Map(options) | dm.io.Collect()
            print(p.result.collected("Collect")[0].value == options(0) == (1, 1, ["ignore::BytesWarning"]))
        """)
    )
    command = [sys.executable, "-O", "-X", "utf8", "-W", "ignore::BytesWarning", str(script)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


def test_what_workers_have_printed_is_there_when_one_of_them_fails(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import os, threading
            import dataflow_model as dm

            def show(pair):
                print(pair)
                return pair

            def fail(pair):
                try:
                    os.mkdir("failed")
                except FileExistsError:
                    threading.Event().wait()  # the other worker has failed, and its error ends this one
                raise ValueError(pair)

            p = dm.Pipeline(runner=dm.LocalRunner(workers=2))
            shown = p | dm.Create([(n, n) for n in range(8)]) | dm.Map(show)
            _ = shown | dm.Sum.per_key() | "fail" >> dm.Map(fail) | dm.io.Collect()
            p.run().wait_until_finish()
        """)
    )
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    ended = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, check=False, env=buffered, cwd=tmp_path
    )
    assert "ValueError" in ended.stderr
    assert sorted(ended.stdout.splitlines()) == [f"({n}, {n})" for n in range(8)]


def open_files() -> int:
    return len(list(pathlib.Path("/proc/self/fd").iterdir()))


def test_the_pipe_of_a_run_that_has_ended_is_closed_and_stop_does_nothing() -> None:
    before = open_files()
    results = [run(dm.LocalRunner(workers=2), doing(tuple)) for _ in range(3)]
    assert open_files() < before + len(results)
    for result in results:
        result.stop()
        assert result.state is RunnerState.DONE


def test_a_full_disk_for_what_workers_exchange_is_an_error_that_names_the_folder() -> None:
    def pairs(number: int) -> tuple[int, str]:
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000, most))  # in this worker, a file cannot become longer
        return number, str(number)

    with pytest.raises(SinkError, match=r"exchange to '.*dataflow_model-workers-.*': File too large") as error:
        run(
            dm.LocalRunner(workers=2),
            lambda p: p | dm.Create(list(range(1_000))) | dm.Map(pairs) | dm.GroupByKey() | dm.io.Collect(),
        )
    assert "name a folder on a larger disk in the environment variable TMPDIR" in str(error.value)


def test_workers_without_a_working_directory_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(dm.UnsupportedOnRunner, match=r"working directory, which no longer exists\nHint: .*os\.chdir"):
        run(dm.LocalRunner(workers=2), doing(tuple))


def test_a_signal_while_it_runs_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "processes"
    folder.mkdir()

    def build(p: dm.Pipeline) -> None:
        windows = dm.Window.into(dm.FixedWindows("1 hour")).trigger(dm.Repeatedly(dm.AfterSignal("flush"))).discarding()
        _ = p | dm.Create([("a", 1)]) | dm.Map(blocking(folder)) | windows | dm.Sum.per_key() | dm.io.Collect()

    result = start(dm.LocalRunner(workers=2), build)
    with pytest.raises(dm.UnsupportedOnRunner, match=r"which LocalRunner\(workers=n\) does not support"):
        result.signal("flush")
    result.stop()


def test_what_cannot_be_sent_to_a_worker_is_refused_with_its_label() -> None:
    lock = threading.Lock()

    def locked(pair: Any) -> Any:
        with lock:
            return pair

    with pytest.raises(dm.PlanError, match=r"^'do' cannot be sent to workers: TypeError: cannot pickle"):
        start(dm.LocalRunner(workers=2), doing(locked))

    def build(p: dm.Pipeline) -> None:
        locks = p | dm.Create(range(40)) | "locks" >> dm.Map(lambda number: (number, threading.Lock()))
        _ = locks | "group" >> dm.GroupByKey() | dm.Map(str) | dm.io.Collect()

    with pytest.raises(dm.InvalidType, match=r"an element cannot be pickled(?s:.*)transform: 'group'"):
        run(dm.LocalRunner(workers=2), build)


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2"])
def test_a_number_of_workers_is_a_positive_int(workers: Any) -> None:
    with pytest.raises(dm.InvalidArgument, match="`workers` must be a positive int, got"):
        dm.LocalRunner(workers=workers)


def test_workers_and_a_checkpoint_are_refused_together() -> None:
    with pytest.raises(dm.InvalidArgument, match="a stream with a checkpoint runs in one process, got workers=2"):
        dm.LocalRunner(workers=2, checkpoint="checkpoints/delays")
    assert repr(dm.LocalRunner(workers=2)) == "LocalRunner(workers=2)"


def test_an_error_that_is_its_own_cause_is_sent_once() -> None:
    error = ValueError("again")
    error.__cause__ = error
    assert repr(unpack_error(pack_error(error))) == "ValueError('again')"


def test_a_child_that_ends_late_does_not_wake_the_server_of_forks_by_a_closed_socket() -> None:
    handler = signal.getsignal(signal.SIGCHLD)
    try:
        with fork_server._ended_children():
            pass
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.signal(signal.SIGCHLD, handler)
