"""What a run tells of itself: numbers that can be counted by hand, on LocalRunner."""

from __future__ import annotations

import io
import re
import sys
import threading
import types
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pytest
from rich.console import Console

import dataflow_model as dm
from dataflow_model.display import Board
from dataflow_model.metrics.report_table import row_of
from dataflow_model.metrics.tally import Tally
from dataflow_model.plan.logical.runner import unobserved
from dataflow_model.plan.logical.stages import cut_into_stages
from dataflow_model.runners.engine.bounded.execution import Execution
from dataflow_model.runners.engine.state.settled import SettledKeys
from dataflow_model.runners.reporting import Measured, make_report
from dataflow_model.runners.runs.progress import live_progress, progress_board, progress_table
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from dataflow_model.metrics import RunReport

SECOND = 1_000_000


def sums(p: dm.Pipeline, script: TestStream) -> None:
    trigger = dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1))
    _ = (
        p
        | "script" >> script
        | "double" >> dm.FlatMap(lambda pair: [pair, pair])
        | dm.Window.into(dm.FixedWindows("10 seconds")).trigger(trigger).allowed_lateness("5 seconds").accumulating()
        | "sums" >> dm.Sum.per_key()
        | "out" >> dm.io.Collect()
    )


SCRIPT = (
    TestStream()
    .bundle([(1, 1), (2, 2)], key="a")
    .add(3, event_time=3, key="b")
    .watermark(12)
    .processing_time(60)
    .add(4, event_time=4, key="a")  # late
    .watermark(20)
    .add(5, event_time=5, key="a")  # behind the allowed lateness
)


def report_of(script: TestStream) -> RunReport:
    p = dm.Pipeline(runner=dm.LocalRunner())
    sums(p, script)
    result = p.run()
    result.wait_until_finish()
    return result.report()


def test_a_report_has_what_can_be_counted_by_hand() -> None:
    report = report_of(SCRIPT)
    assert list(report.transforms) == ["script", "double", "Window.into", "sums", "out"]
    assert [transform.stage for transform in report.transforms.values()] == [0, 0, 0, 1, 2]
    script, double, _, grouping, out = report.transforms.values()
    assert (script.elements_in, script.elements_out) == (0, 5)
    assert (double.elements_in, double.elements_out) == (5, 10)
    assert double.bundle_sizes == dm.metrics.DistributionValue(4, 5, 1, 2)
    assert grouping.elements_in == 10
    assert grouping.dropped == {"late": 2}
    assert grouping.panes == {"early": 3, "on_time": 2, "late": 2}
    assert grouping.elements_out == out.elements_in == 7
    assert grouping.bundle_sizes == dm.metrics.DistributionValue(5, 10, 2, 2)  # each element of the script is an event
    assert grouping.state_entries == 0
    assert grouping.state_bytes is None
    assert {key.key: key.elements for key in grouping.slowest_keys} == {"a": 8, "b": 2}  # one chunk, which was timed
    assert report.stages[1].transforms == ("sums",)
    assert report.commits == 1
    assert report.system_lag == dm.duration(0)


def test_under_a_replay_clock_the_lag_is_measured_from_that_clock() -> None:
    p = dm.Pipeline()
    sums(p, SCRIPT)
    staged = cut_into_stages(p.plan())

    def lag(watermark: int) -> dm.Duration | None:
        marks = {"sums": watermark}
        measured = Measured(
            counters={}, watermarks=marks, tally=Tally(), state={}, clock=60 * SECOND, commits=0, pending_since=None
        )
        return make_report(staged, measured).transforms["sums"].watermark_lag

    assert lag(12 * SECOND) == dm.duration(48)
    assert lag(90 * SECOND) == dm.duration(-30)  # it is ahead
    assert lag(int(dm.MAX_TIMESTAMP)) == dm.duration(0)
    assert lag(int(dm.MIN_TIMESTAMP)) is None


def test_under_the_wall_clock_the_lag_is_measured_from_now() -> None:
    p = dm.Pipeline()
    _ = p | "ones" >> dm.Create([1]) | dm.io.Collect()
    measured = Measured(
        counters={}, watermarks={"ones": 5}, tally=Tally(), state={}, clock=7, commits=3, pending_since=90 * SECOND
    )
    report = make_report(cut_into_stages(p.plan()), measured, at=100 * SECOND)
    assert report.transforms["ones"].watermark_lag == dm.Duration(micros=100 * SECOND - 5)
    assert report.system_lag == dm.duration(10)
    assert report.at == report.clock == dm.ProcessingTime(100 * SECOND)


def test_a_report_can_be_requested_during_the_run_and_shows_everything_as_pending() -> None:
    inside, go = threading.Event(), threading.Event()

    def wait(number: int) -> int:
        inside.set()
        assert go.wait(60)
        return number

    p = dm.Pipeline(runner=dm.LocalRunner())
    _ = p | dm.Create([1, 2]) | "wait" >> dm.Map(wait) | "out" >> dm.io.Collect()
    result = p.run()
    assert inside.wait(60)
    report = result.report()
    assert report.commits == 0
    assert report.system_lag > dm.duration(0)
    assert report.transforms["wait"].elements_in == 2
    assert report.transforms["wait"].elements_out == 0
    go.set()
    result.wait_until_finish()
    assert result.report().system_lag == dm.duration(0)
    assert result.report().transforms["wait"].elements_out == 2


def test_the_store_of_settled_keys_counts_its_bytes() -> None:
    keys = SettledKeys()
    keys[b"a"], keys[b"b"] = b"xxx", b"yyyy"
    keys[b"a"] = b"x"
    assert (len(keys), keys.bytes) == (2, 5)
    assert keys.pop(b"c", None) is None
    keys.pop(b"b")
    assert (list(keys), keys.bytes) == ([b"a"], 1)


def test_the_table_has_a_line_for_each_source_keyed_transform_and_sink() -> None:
    p = dm.Pipeline(runner=dm.LocalRunner())
    sums(p, SCRIPT)
    board = progress_board(report_of(SCRIPT), cut_into_stages(p.plan()))
    written = io.StringIO()
    Console(file=written, width=120).print(progress_table(board))
    lines = [line.split() for line in written.getvalue().splitlines()]
    assert lines[0] == ["watermark", "lag", "in", "out", "early", "on", "time", "late", "dropped"]
    assert lines[1] == ["script", "+inf", "0", "s", "5"]
    assert lines[2] == ["sums", "+inf", "0", "s", "10", "7", "3", "2", "2", "2"]
    assert lines[3] == ["out", "7"]


def test_the_caption_of_the_live_table_stays_on_one_line() -> None:
    caption = "LocalRunner: running after 12 s; 3 commits, the oldest work pending is 396 ms old"
    written = io.StringIO()
    Console(file=written, width=100).print(progress_table(Board(["", "in"], [["sums", 2]], caption)))
    assert written.getvalue().splitlines()[2:] == [caption]


def test_the_table_has_times_as_people_read_them() -> None:
    p = dm.Pipeline()
    _ = p | "old" >> dm.Create([dm.TimestampedValue(1, "2024-05-01T12:00:10.396080Z")]) | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    report = result.report()
    assert re.fullmatch(r"RunReport at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", repr(report).splitlines()[0])
    at = dm.event_time("2024-05-01T12:00:10.396080Z")
    source = attrs.evolve(report.transforms["old"], watermark=at, watermark_lag=dm.duration(81_312_302.73752))
    assert row_of(source)[:3] == ["old", "2024-05-01 12:00:10", "2.6 years"]
    lagging = attrs.evolve(source, watermark_lag=dm.duration(0.396_080))
    assert row_of(lagging)[2] == "396 ms"
    assert ">2024-05-01 12:00:10.39608<" in lagging._repr_html_()
    assert ">396 ms<" in lagging._repr_html_()


def test_a_bounded_run_reports_the_fraction_that_is_done() -> None:
    rows = pa.table({"at": pa.array(range(3_000), pa.timestamp("s", "UTC")), "n": range(3_000)})
    p = dm.Pipeline()
    numbers = p | dm.io.ReadTable(rows, event_time="at", processing_time="at") | dm.WithKeys("n", value="n")
    _ = numbers | dm.Window.into(dm.FixedWindows("1 minute")) | dm.Sum.per_key() | "out" >> dm.io.Collect()
    execution = Execution.of(p.plan(), most=1_000)
    parts = [execution.done(), *(execution.done() for _ in execution.run()), execution.done()]
    assert parts[0] is None
    assert parts[1] == 0.5  # all rows have been read, and no chunk is done
    assert parts[1:] == sorted(parts[1:])  # type: ignore[type-var]  # known from here on
    assert parts[-1] == 1.0
    result = p.run()
    result.wait_until_finish()
    assert getattr(result, "_board")().done == 1.0  # noqa: B009 - of the class behind the protocol


def test_streams_and_scripts_have_no_progress_bar() -> None:
    p = dm.Pipeline()
    sums(p, SCRIPT)
    execution = Execution.of(p.plan())
    assert {execution.done() for _ in execution.run()} == {None}


def test_a_progress_bar_is_shown_below_the_table_if_the_fraction_done_is_known() -> None:
    board = Board(["", "in"], [["sums", 2]], "running", 0.5)
    written = io.StringIO()
    Console(file=written, width=100).print(progress_table(board))
    assert written.getvalue().splitlines()[-1].count("━") == 20
    assert '<progress max="1" value="0.500"' in board._repr_html_()
    assert "progress" not in attrs.evolve(board, done=None)._repr_html_()


class Boards:
    """Counts how often a table is asked for."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self) -> Board:
        self.made += 1
        return Board(["", "in"], [["sums", self.made]], f"table {self.made}")


def leave_pytest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run believe that it does not run in a test; called in the test, where pytest has set its variable."""
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def seconds(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the clock of the live table, as its last item."""
    clock = [60.0]
    monkeypatch.setattr("dataflow_model.runners.runs.progress.time.monotonic", lambda: clock[-1])
    return clock


def test_no_live_table_is_created_if_the_output_is_not_a_terminal() -> None:
    boards = Boards()
    progress = live_progress()
    progress.update(boards)
    progress.end(boards)
    assert not progress.is_shown
    assert boards.made == 0


def test_on_a_terminal_the_live_table_is_drawn_and_disappears_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    terminal, boards = Terminal(), Boards()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    leave_pytest(monkeypatch)
    progress = live_progress()
    progress.update(boards)
    progress.update(boards)
    assert "table 2" in terminal.getvalue()
    progress.end(boards)
    assert boards.made == 2


class Notebook:
    """Stands for IPython in a kernel."""

    kernel = True

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, board: Board, *, display_id: bool) -> Notebook:
        assert display_id
        self.update(board)
        return self

    def update(self, board: Board) -> None:
        self.shown.append(board.caption)


@pytest.fixture
def notebook(monkeypatch: pytest.MonkeyPatch) -> Notebook:
    actual = Notebook()
    ipython = types.ModuleType("IPython")
    display = types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: actual  # type: ignore[attr-defined] # as the package has it
    display.display = actual.display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return actual


def test_in_a_notebook_the_table_of_a_long_run_remains(
    monkeypatch: pytest.MonkeyPatch, notebook: Notebook, seconds: list[float]
) -> None:
    leave_pytest(monkeypatch)
    boards = Boards()
    progress = live_progress()
    for second in (60.1, 60.9, 61.1, 61.7):
        seconds.append(second)
        progress.update(boards)
    progress.end(boards)
    assert notebook.shown == ["table 1", "table 2", "table 3"]


@pytest.mark.usefixtures("seconds")
def test_in_a_notebook_a_short_run_shows_nothing(monkeypatch: pytest.MonkeyPatch, notebook: Notebook) -> None:
    leave_pytest(monkeypatch)
    boards = Boards()
    progress = live_progress()
    progress.update(boards)
    progress.end(boards)
    assert notebook.shown == []


@pytest.mark.usefixtures("notebook", "seconds")
def test_a_sample_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    leave_pytest(monkeypatch)
    with unobserved():
        assert not live_progress().is_shown
    assert live_progress().is_shown


def test_the_state_of_deduplicate_is_reported_as_its_number_of_ids() -> None:
    script = TestStream().bundle([(1, 1), (2, 2), (1, 3)], key="a").watermark(2).add(3, event_time=4, key="a")
    p = dm.Pipeline(runner=dm.LocalRunner())
    _ = p | script | "unique" >> dm.Deduplicate(lambda pair: pair, horizon="1 hour") | "out" >> dm.io.Collect()
    execution = Execution.of(p.plan(), most=1)
    sizes = [execution.measured(commits=0, pending_since=None).state["unique"] for _ in execution.run()]
    assert max(sizes) == (3, None)
    result = p.run()
    result.wait_until_finish()
    unique_report = result.report().transforms["unique"]
    assert unique_report.counters["duplicates"] == 1
    assert (unique_report.elements_in, unique_report.elements_out) == (4, 3)
    assert unique_report.state_entries == 0
