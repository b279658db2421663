"""How values look: a short `repr`, and a table in a notebook that is escaped and bounded."""

from __future__ import annotations

import copy
import pickle
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.display import MOST_ROWS, Board, Count, html_table
from dataflow_model.figures import FIGURES, run
from dataflow_model.plan.logical.nodes import Write
from dataflow_model.runners.runs import background
from dataflow_model.testing import TestStream
from dataflow_model.values.tables import Table

if TYPE_CHECKING:
    from pathlib import Path

MOST_LETTERS = 60_000


class Flight(NamedTuple):
    carrier: str
    year: int


class Page(HTMLParser):
    """Reads HTML: its tags must be closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        del attrs
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.texts.append(data)


def shown(value: Any) -> Page:
    text = value._repr_html_()
    assert len(text) < MOST_LETTERS
    return Page(text)


def run_of(values: list[Any]) -> Any:
    p = dm.Pipeline()
    _ = p | dm.Create(values) | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    return result


def late_run() -> Any:
    script = TestStream().add(4, event_time=1, key="UA").watermark(100).add(9, event_time=2, key="UA")
    p = dm.Pipeline()
    _ = p | script | dm.Window.into(dm.FixedWindows("1 minute")) | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    return result


def test_records_are_shown_with_time_window_and_pane() -> None:
    records = late_run().collected("out")
    texts = shown(records).texts
    assert texts[:4] == ["key", "value", "window", "pane"]
    assert texts[4:] == ["UA", "4", "[1970-01-01 00:00, 00:01)", "on time, #0, last", "1 record, times in UTC"]
    assert shown(records[0]).texts == texts


def test_event_times_are_shown_if_the_windows_do_not_imply_them() -> None:
    p = dm.Pipeline()
    start = dm.Window.into(dm.FixedWindows("1 minute")).timestamp_combiner(dm.TimestampCombiner.EARLIEST)
    timed = p | dm.Create([dm.TimestampedValue(("UA", 4), 5.25)])
    _ = timed | "timed" >> dm.io.Collect()
    _ = timed | start | dm.Sum.per_key() | "earliest" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    for label, columns in (("timed", 3), ("earliest", 5)):
        texts = shown(result.collected(label)).texts
        assert texts[2] == "event time"
        assert texts[columns + 2] == "1970-01-01 00:00:05.25"


def test_cells_of_an_html_table_are_aligned_whatever_the_style_of_the_page() -> None:
    page = late_run().collected("out")._repr_html_()
    assert page.count("<td") == page.count('<td style="text-align:left"') + page.count('<td class="number" style="te')


def test_collected_records_are_printed_as_a_table() -> None:
    records = run_of([("UA", 4), ("AA", 12)] * 11).collected("out")
    assert repr(records).splitlines() == [
        "key  value",
        *["UA       4", "AA      12"] * 10,
        "… 2 more rows",
        "22 records",
    ]
    assert repr(records[:1]).splitlines() == ["key  value", "UA       4", "1 record"]
    assert repr(records[22:]) == "no records"
    assert repr(run_of(["a\nb", ("UA", 1)]).collected("out")).splitlines() == [
        *("value", "a b", "('UA', 1)", "2 records")
    ]


def test_long_lines_of_a_printed_table_are_cut() -> None:
    assert max(map(len, repr(run_of(["x" * 10_000]).collected("out")).splitlines())) == 60


def test_the_repr_of_a_record_shows_only_fields_that_are_not_defaults() -> None:
    record = late_run().collected("out")[0]
    assert repr(record) == "Record(('UA', 4), window=[1970-01-01 00:00, 00:01), pane='on time, #0, last')"
    assert repr(run_of([5]).collected("out")[0]) == "Record(5)"
    assert repr(dm.PaneInfo(index=1, is_first=False)) == "PaneInfo(index=1, is_first=False)"


def test_rows_are_shown_by_column() -> None:
    records = run_of([Flight("UA", 2013), Flight("AA", 2014)]).collected("out")
    assert shown(records).texts[:2] == ["carrier", "year"]
    assert "2013" in shown(records).texts


def test_collected_records_are_a_list() -> None:
    records = run_of([1, 2]).collected("out")
    assert isinstance(records, list)
    assert [record.value for record in records] == [1, 2]


@pytest.mark.parametrize("mark", ["<script>alert(1)</script>", '"&<b>', "a\nb"])
def test_html_in_the_data_is_escaped(mark: str) -> None:
    for value in (run_of([mark]).collected("out"), Table(pa.table({mark: [mark]})), run_of([mark]).collected("out")[0]):
        page = shown(value)
        assert not {"script", "b"} & set(page.tags)
        assert any(mark in text for text in page.texts)


def test_large_values_are_cut() -> None:
    result = run_of(["x" * 10_000] * 1_000)
    page = shown(result.collected("out"))
    assert page.tags.count("tr") == MOST_ROWS + 1
    assert "… 980 more rows" in page.texts
    assert max(map(len, page.texts)) == 200
    wide = shown(Table(pa.table({f"column {index}": [index] for index in range(1_000)})))
    assert wide.tags.count("td") == 30
    assert "… 970 more columns" in wide.texts


def test_a_table_shows_its_first_rows_and_its_size() -> None:
    page = shown(Table(pa.table({"carrier": ["UA"] * 25, "delay": list(range(25))})))
    assert page.texts[:2] == ["carrier\nstring", "delay\nint64"]
    assert page.texts[-2:] == ["… 5 more rows", "25 rows, 2 columns"]
    assert shown(Table(pa.table({}))).texts == ["0 rows, 0 columns"]


@pytest.mark.parametrize(
    ("look", "message"),
    [
        (lambda table: table.plot(), "'Table' has no attribute 'plot'"),
        (lambda table: table["delay"], "a Table has no items, got table\\['delay'\\]"),
        (list, "a Table has no items, got table\\[0\\]"),
    ],
)
def test_a_method_that_a_result_lacks_is_refused_with_the_libraries_that_have_it(look: Any, message: str) -> None:
    table = Table(pa.table({"delay": [1, 2]}))
    with pytest.raises((AttributeError, TypeError), match=rf"^{message}\nHint: use table\.to_pandas\(\), "):
        look(table)
    assert not hasattr(table, "plot")
    assert pa.table(copy.copy(table)).equals(pickle.loads(pickle.dumps(table)).arrow)


def test_a_report_is_shown_as_a_table_and_printed_as_one() -> None:
    report = late_run().report()
    assert "sums" in shown(report).texts
    lines = repr(report).splitlines()
    assert lines[0].startswith("RunReport at ")
    assert lines[1].split() == ["watermark", "lag", "in", "out", "early", "on", "time", "late", "dropped"]
    assert [line.split() for line in lines if line.startswith("sums")] == [
        ["sums", "+inf", "0", "s", "2", "1", "1", "1"]
    ]
    assert lines[-1] == "1 commit"
    assert "{'late': 1}" in shown(report.transforms["sums"]).texts
    assert "dropped={'late': 1}" in repr(report.transforms["sums"])


def test_a_result_shows_its_state_the_counts_of_its_sinks_and_how_to_continue() -> None:
    result = run_of([1, 2])
    assert repr(result) == "<LocalRunner: done, received: 'out' 2>"
    texts = shown(result).texts
    assert texts[0] == "LocalRunner: done"
    assert texts[texts.index("out") :][:4] == ["out", "2", "Collect", "result.table('out') or result.collected('out')"]
    assert texts[-1].startswith("result.report()")


def test_a_sink_of_dataframes_is_shown_with_the_call_that_reads_it() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([(1, "a")]) | "rows" >> dm.io.ToDataFrame()
    sink = p.plan()["rows"]
    assert isinstance(sink, Write)
    assert (background._kind(sink.sink), background._way_to(sink)) == ("ToDataFrame", "result.dataframe('rows')")


def test_a_result_shows_where_a_sink_has_written(tmp_path: Path) -> None:
    with dm.Pipeline() as p:
        _ = p | dm.Create([(1, "a")]) | "files" >> dm.io.WriteParquet(tmp_path)
    assert f"Parquet in {tmp_path}" in shown(p.result).texts


def test_a_failed_result_shows_the_error() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([0]) | "divide" >> dm.Map(lambda number: 1 / number) | dm.io.Collect()
    result = p.run()
    with pytest.raises(dm.UserCodeError):
        result.wait_until_finish()
    texts = shown(result).texts
    assert texts[0] == "LocalRunner: failed"
    assert any("division by zero" in text for text in texts)
    assert repr(result).startswith("<LocalRunner: failed")


def test_panes_are_shown_in_the_order_in_which_they_were_emitted() -> None:
    (panel_run,) = run("6J")
    texts = shown(panel_run).texts
    assert texts[:5] == ["emitted", "key", "window", "value", "pane"]
    assert any(text.startswith("retraction, ") for text in texts)
    assert shown(panel_run.panes[0]).texts[5] == texts[5]
    assert repr(panel_run) == "<run of <6J, Figure 14: Sessions, Retracting>: 12 panes>"
    assert repr(FIGURES["sessions"]) == "<sessions: Sessions that grow and merge>"


def test_counts_have_separators_of_thousands_and_other_numbers_do_not() -> None:
    page = Page(html_table("", ["year", "rows"], [(2013, Count(336_776))]))
    assert page.texts == ["year", "rows", "2013", "336,776"]


def test_a_long_live_table_is_cut() -> None:
    board = Board(["", "in"], [[f"map {number}", number] for number in range(100)], "100 transforms")
    assert len(repr(board).splitlines()) == MOST_ROWS + 3
    assert "… 80 more rows" in repr(board)


def test_an_empty_collection_is_shown_as_no_records() -> None:
    assert shown(run_of([]).collected("out")).texts == ["no records"]


def test_the_repr_of_a_pipeline_shows_its_number_of_transforms() -> None:
    p = dm.Pipeline()
    _ = p | dm.Create([1]) | dm.Map(str)
    assert repr(p) == "<Pipeline of 2 transforms>"
