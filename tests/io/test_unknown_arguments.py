"""An argument that a reader does not have is rejected, with the argument that was probably meant."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.arguments import calls_explained
from dataflow_model.errors import InvalidType

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "a.csv").write_text("time;celsius\n2024-05-01T12:00:10Z;21\n")
    return str(tmp_path / "a.csv")


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("separator", "use `delimiter`"),
        ("sep", "use `delimiter`"),
        ("time_zone", "use `zone`"),
        ("na_values", "use `null_values`"),
        ("delimeter", "use `delimiter`"),
        ("folow", "use `follow`"),
        ("max_skeww", "use `max_skew`"),
    ],
)
def test_a_misspelt_argument_of_read_csv_names_the_right_one(path: str, given: str, hint: str) -> None:
    wrong: Any = {given: ";"}
    with pytest.raises(InvalidType, match=f"^ReadCsv has no argument '{given}'\nHint: {re.escape(hint)}$"):
        dm.io.ReadCsv(path, event_time="time", **wrong)


def test_an_argument_similar_to_none_is_rejected_with_the_list_of_arguments(path: str) -> None:
    wrong: Any = {"qqq": 1}
    with pytest.raises(
        InvalidType, match=r"ReadCsv has no argument 'qqq'\nHint: its arguments are .*`delimiter`, .*`zone`"
    ):
        dm.io.ReadCsv(path, event_time="time", **wrong)


@pytest.mark.parametrize("reader", [dm.io.ReadParquet, dm.io.ReadJson])
def test_other_readers_of_files_reject_unknown_arguments(path: str, reader: Any) -> None:
    with pytest.raises(InvalidType, match=rf"{reader.__name__} has no argument 'folow'\nHint: use `follow`"):
        reader(path, event_time="time", folow=True)


def test_readers_of_tables_in_memory_reject_unknown_arguments() -> None:
    wrong: Any = {"watermark_origins": "file"}
    with pytest.raises(
        InvalidType, match=r"ReadTable has no argument 'watermark_origins'\nHint: use `watermark_origin`"
    ):
        dm.io.ReadTable(pa.table({"time": [1]}), event_time="time", **wrong)


ANY: Any = dm
"""The package without types: what type checkers reject is the point."""


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (
            lambda: ANY.io.Collect("means"),
            r"Collect takes no argument by position, got 'means'\nHint: write 'means'",
        ),
        (lambda: ANY.io.Collect(label="x"), r"Collect has no argument 'label'\nHint: write 'x' >> dm.io.Collect\(\)"),
        (lambda: ANY.io.WriteCsv("o", sep=";"), r"WriteCsv has no argument 'sep'\nHint: use `delimiter`"),
        (lambda: ANY.io.WriteText("o", sufix=".log"), r"WriteText has no argument 'sufix'\nHint: use `suffix`"),
        (
            lambda: ANY.io.ReadText("x", event_tme=None),
            r"ReadText has no argument 'event_tme'\nHint: use `event_time`",
        ),
        (lambda: ANY.io.ReadCsv("x", event_tme="t"), r"ReadCsv has no argument 'event_tme'\nHint: use `event_time`"),
        (
            lambda: ANY.io.ReadParquet("x"),
            r"ReadParquet needs the argument `event_time`\nHint: name the column .*event_time='time'",
        ),
        (
            lambda: ANY.io.ReadParquet("x", "t"),
            r"ReadParquet takes 1 argument by position, got 't'\nHint: pass event_time='t'",
        ),
        (
            lambda: ANY.CalendarWindows("1 day"),
            r"CalendarWindows needs .*\nHint: write dm.CalendarWindows.days\(\), ",
        ),
        (
            lambda: ANY.Pipeline(options={}),
            r"Pipeline has no argument 'options'\nHint: there are no options of a pipe",
        ),
        (
            lambda: ANY.Window.into(dm.FixedWindows(1), trigger=1),
            r"Window.into has no .*\nHint: use dm.WindowInto",
        ),
        (lambda: ANY.Deduplicate(str), r"Deduplicate needs the argument `horizon`\nHint: .*horizon='10 minutes'"),
        (lambda: ANY.Join(on="id"), r"Join has no argument 'on'\nHint: .*dm.WithKeys\('id'\)"),
        (lambda: ANY.Join(how="left"), r"Join has no argument 'how'\nHint: write .*dm.Join.left\(\)"),
        (
            lambda: ANY.Join([]),
            r"Join takes no argument by position, got \[\]\nHint: .*\(left, right\) \| dm.",
        ),
        (lambda: ANY.Join.left(on="id"), r"Join.left has no argument 'on'\nHint: .*dm.WithKeys\('id'\)"),
        (lambda: ANY.Together(sum, max), r"Together takes no argument by position, .*\nHint: name each result"),
        (lambda: ANY.WithKeys("a", "b"), r"WithKeys takes 1 argument by position, got 'b'\nHint: use value='field'"),
        (
            lambda: ANY.LocalRunner(checkpointLocation="c"),
            r"LocalRunner has no argument 'checkpointLocation'\nHint: use `checkpoint`",
        ),
        (lambda: ANY.LocalRunner(worker=2), r"LocalRunner has no argument 'worker'\nHint: use `workers`"),
        (ANY.SparkRunner, r"SparkRunner needs the argument `spark`\nHint: pass the session"),
        (
            lambda: ANY.SparkRunner(None, mode="streaming", checkpoint_location="c"),
            r"SparkRunner has no argument 'checkpoint_location'\nHint: use `checkpoint`",
        ),
        (
            lambda: ANY.Pipeline() | [1],
            r"`\|` applies only transforms, got \[1\]\nHint: make a source of .*dm.Create",
        ),
        (
            lambda: ANY.Pipeline() | pa.table({}),
            r"`\|` applies only transforms, got pyarrow.Table[^!]*\nHint: make a source of it: p \| dm.io.ReadTable",
        ),
        (
            lambda: ANY.AsSingleton(None, default_value=3),
            r"AsSingleton has no argument 'default_value'\nHint: use `default`",
        ),
        (lambda: ANY.WindowInto(windowfn=3), r"WindowInto has no .*\nHint: pass the window function first"),
        (
            lambda: ANY.metrics.counter("rows", "bad"),
            r"counter takes 1 argument by position, got 'bad'\nHint: a metric has",
        ),
        (
            lambda: ANY.Distinct(str),
            r"Distinct takes no argument by position, got .*\nHint: it compares whole elements",
        ),
        (
            lambda: ANY.Sum.per_key().with_exception_handling(exc_class=ValueError),
            r"with_exception_handling has no argument 'exc_class'\nHint: it takes only the tag",
        ),
        (lambda: ANY.Sessions(gap_size=3), r"Sessions has no argument 'gap_size'\nHint: use `gap`"),
        (lambda: ANY.FixedWindows(period=3), r"FixedWindows has no argument 'period'\nHint: use `size`"),
        (
            lambda: ANY.SlidingWindows(3),
            r"SlidingWindows needs the argument `period`\nHint: pass the time",
        ),
        (lambda: ANY.SlidingWindows(3, slide=1), r"SlidingWindows has no argument 'slide'\nHint: use `period`"),
    ],
)
def test_the_error_for_unknown_or_missing_arguments_names_the_right_ones(make: Any, problem: str) -> None:
    with pytest.raises(InvalidType, match=f"^{problem}"):
        make()


def test_an_exception_inside_of_a_call_with_valid_arguments_is_not_changed() -> None:
    @calls_explained()
    def add(first: int, second: int) -> int:
        return first + second

    wrong: Any = "2"
    with pytest.raises(TypeError, match="unsupported operand"):
        add(1, wrong)
    assert dm.Sessions.__init__.__name__ == "__init__"
    assert str(inspect.signature(dm.io.Collect)) == "(*, panes: 'bool' = False) -> 'None'"
