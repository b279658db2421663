"""`head` and `show`: a sample of a collection, in process."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument
from dataflow_model.testing import TestStream, run_script

if TYPE_CHECKING:
    from pathlib import Path

START = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of three files with four rows each, a row a minute."""
    for file in range(3):
        minutes = range(4 * file, 4 * file + 4)
        table = pa.table({"at": [START + dt.timedelta(minutes=minute) for minute in minutes], "minute": minutes})
        pq.write_table(table, tmp_path / f"{file}.parquet")
    return tmp_path


def test_head_reads_only_the_first_rows_of_each_source(folder: Path) -> None:
    p = dm.Pipeline()
    files = p | "files" >> dm.io.ReadParquet(folder, event_time="at") | "minutes" >> dm.Map(lambda row: row.minute)
    program = p | "program" >> dm.Create([-1, -2, -3, -4])
    count = (files, program) | dm.Flatten() | dm.Count.globally()
    assert files.head(5) == [0, 1, 2, 3, 4]
    assert files.head(sample=6) == [0, 1, 2, 3, 4, 5]
    assert count.head(sample=3) == [6]
    assert count.head() == [16]


def test_head_of_a_followed_source_ends(folder: Path) -> None:
    rows = dm.Pipeline() | dm.io.ReadParquet(folder, event_time="at", follow=True)
    assert [row.minute for row in rows.head(2)] == [0, 1]


def test_head_of_a_generator_without_an_end_is_its_first_numbers() -> None:
    p = dm.Pipeline()
    numbers = p | dm.io.GenerateSequence(5, rate=100, begin="2013-01-01T00:00Z")
    assert [row.value for row in numbers.head(3)] == [5, 6, 7]
    some = p | "some" >> dm.io.GenerateSequence(0, 2, rate=100, begin="2013-01-01T00:00Z")
    assert [row.value for row in some.head(3)] == [0, 1]


def test_an_interrupt_while_a_sample_is_computed_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[Any] = []
    results: Any = type(dm.LocalRunner().run(dm.Pipeline().plan()))

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(results, "wait_until_finish", interrupted)
    monkeypatch.setattr(results, "stop", lambda result: stopped.append(result))  # noqa: PLW0108 - bound to each
    for compute in (
        (dm.Pipeline() | dm.Create([1, 2])).head,
        lambda: run_script(TestStream().add(1, 0, key="a"), dm.GlobalWindows()),
    ):
        with pytest.raises(KeyboardInterrupt):
            compute()
    assert len(stopped) == 2


def test_head_writes_nothing_and_calls_only_what_the_collection_comes_from(tmp_path: Path) -> None:
    calls: list[int] = []
    p = dm.Pipeline()
    numbers = p | dm.Create([1, 2])
    _ = numbers | dm.Map(calls.append) | dm.io.WriteParquet(tmp_path / "out")
    assert numbers.head() == [1, 2]
    assert calls == []
    assert not (tmp_path / "out").exists()


def test_head_leaves_the_pipeline_as_it_was_so_that_a_cell_may_run_twice() -> None:
    p = dm.Pipeline()
    total = p | dm.Create([("UA", 1), ("UA", 2)]) | dm.Sum.per_key()
    nodes = p.plan().nodes
    assert total.head() == total.head() == [("UA", 3)]
    assert p.plan().nodes == nodes
    assert p.runner is None


def test_head_of_a_script_runs_the_whole_script() -> None:
    script = TestStream().add(("UA", 1), 1).watermark(100).add(("UA", 2), 3)
    windows = dm.Pipeline() | script | dm.Window.into(dm.FixedWindows("10 seconds")).allowed_lateness("1 hour")
    assert (windows | dm.Sum.per_key()).head(sample=1) == [("UA", 1), ("UA", 2)]


def test_head_returns_dead_letters_of_rows_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("at,delay\n2013-01-01T00:00Z,4\nyesterday,5\n")
    read = dm.io.ReadCsv(tmp_path / "rows.csv", event_time="at").with_exception_handling()
    good, bad = dm.Pipeline() | read
    assert [row.delay for row in good.head()] == [4]
    assert [letter.element["delay"] for letter in bad.head()] == [5]


@pytest.mark.parametrize("options", [{"n": 0}, {"n": True}, {"sample": -1}, {"sample": "all"}])
def test_numbers_out_of_range_are_rejected(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="must be a positive int, got"):
        (dm.Pipeline() | dm.Create([1])).head(**options)


def test_show_prints_fields_of_rows_and_event_times(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (dm.Pipeline() | dm.io.ReadParquet(folder, event_time="at")).show(2)
    printed = capsys.readouterr().out
    for words in ("minute", "event time", "2013-01-01T00:01:00"):
        assert words in printed
    assert "window" not in printed
    assert "pane" not in printed


def test_show_prints_windows_panes_and_retractions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    script = TestStream().add(("UA", 1), 1).watermark(100).add(("UA", 2), 3)
    windowing = dm.Window.into(dm.FixedWindows("10 seconds")).allowed_lateness("1 hour").accumulating_and_retracting()
    (dm.Pipeline() | script | windowing | dm.Sum.per_key()).show()
    printed = capsys.readouterr().out
    for words in ("[1970-01-01 00:00:00, 00:00:10)", "on time", "retraction, "):
        assert words in printed
    cells = [line.strip("│").split("│") for line in printed.splitlines() if line.startswith("│")]
    assert [(key.strip(), int(value)) for key, value, *_ in cells] == [("UA", 1), ("UA", 1), ("UA", 3)]


def test_show_does_not_wrap_times_in_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    rows = [dm.TimestampedValue(("one key that is long", "x" * 60), "2013-01-01T12:59:59.999999Z")]
    (dm.Pipeline() | dm.Create(rows) | dm.Window.into(dm.FixedWindows("1 hour"))).show()
    printed = capsys.readouterr().out
    assert "│ 2013-01-01 12:59:59.999999 │" in printed
    assert "│ [2013-01-01 12:00, 13:00) │" in printed


def test_show_has_no_column_of_event_times_for_elements_without_them(capsys: pytest.CaptureFixture[str]) -> None:
    elements = dm.Pipeline() | dm.Create([("UA", 1)])
    elements.show()
    assert "event time" not in capsys.readouterr().out
    (elements | dm.Window.into(dm.FixedWindows("1 minute"))).show()
    printed = capsys.readouterr().out
    assert "│ before year 1 │" in printed
    assert "us" not in printed


def test_the_title_of_a_narrow_table_stays_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    (dm.Pipeline() | "all of the flights" >> dm.Create([1, 2])).show()
    assert capsys.readouterr().out.splitlines()[0] == "PCollection('all of the flights', element_type=int)"


def test_show_prints_a_note_for_an_empty_collection(capsys: pytest.CaptureFixture[str]) -> None:
    (dm.Pipeline() | dm.Create([1, 3]) | dm.Filter(lambda number: number % 2 == 0)).show()
    assert "no elements" in capsys.readouterr().out


# Results of a sample --------------------------------------------------------------------------------------------------

NOTE = "results of a sample, of at most 3 rows of each source; sample=None reads all"


def counts(p: dm.Pipeline, source: Any) -> Any:
    return p | "source" >> source | dm.Count.globally()


def write_lines(folder: Path, *files: int) -> Path:
    """Write JSON files of so many lines."""
    for number, lines in enumerate(files):
        rows = "".join(f'{{"at": "2013-01-01T00:00:{line:02}Z"}}\n' for line in range(lines))
        (folder / f"{number}.json").write_text(rows)
    return folder


def test_results_computed_from_a_sample_are_marked_as_text_and_in_a_notebook() -> None:
    total: Any = counts(dm.Pipeline(), dm.Create(list("abcd"))).head(sample=3)
    assert total == [3]
    assert repr(total) == f"[3]  # {NOTE}"
    html = total._repr_html_()
    assert ">3</td>" in html
    assert NOTE in html


def test_show_marks_results_computed_from_a_sample(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    total = counts(dm.Pipeline(), dm.Create(list("abcd")))
    total.show(sample=3)
    assert NOTE in capsys.readouterr().out
    total.show(sample=4)
    assert "sample" not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["program", "table", "files", "followed files", "folder"])
def test_results_are_marked_only_if_their_source_has_more_rows(kind: str, folder: Path, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.mkdir()
    sources: dict[str, Any] = {
        "program": lambda: dm.Create(range(12)),
        "table": lambda: dm.io.ReadTable(pa.table({"n": range(12)}), event_time=None),
        "files": lambda: dm.io.ReadParquet(folder, event_time="at"),
        "followed files": lambda: dm.io.ReadParquet(folder, event_time="at", follow=True),
        "folder": lambda: dm.io.ReadJson(write_lines(lines, 5, 7), event_time="at"),
    }
    total = counts(dm.Pipeline(), sources[kind]())
    for sample in (5, 11):
        assert "results of a sample" in repr(total.head(sample=sample)), sample
    for whole in (12, 13, None):
        assert repr(total.head(sample=whole)) == "[12]"


def test_elements_that_depend_on_single_elements_of_a_sample_are_not_marked() -> None:
    p = dm.Pipeline()
    numbers = p | dm.Create(range(12))
    doubled = numbers | dm.Map(lambda number: number * 2)
    beside = numbers | "beside" >> dm.Map(lambda number, others: number + len(others), dm.AsIter(doubled))
    assert repr(doubled.head(2, sample=3)) == "[0, 2]"
    assert repr(beside.head(2, sample=3)) == f"[3, 4]  # {NOTE}"


def test_head_of_all_rows_of_an_unbounded_generator_is_refused() -> None:
    p = dm.Pipeline()
    endless = p | dm.io.GenerateSequence(0, rate=100, begin="2013-01-01T00:00Z")
    with pytest.raises(InvalidArgument, match=r"has no end, so its elements cannot all be read\nHint: pass sample="):
        endless.head(sample=None)
    some = p | "some" >> dm.io.GenerateSequence(0, 12, rate=100, begin="2013-01-01T00:00Z")
    assert len(some.head(20, sample=None)) == 12
