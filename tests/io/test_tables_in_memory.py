"""Tables in memory: read from pandas, Polars and Arrow, and results given as tables."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, PlanError, SourceError
from dataflow_model.io.table_source import TableSource

if TYPE_CHECKING:
    from pathlib import Path

TABLE = pa.table({"at": [0, 60_000_000, 7_200_000_000], "carrier": ["UA", "AA", "UA"], "delay": [4, 2, 6]})


class Capsule:
    """What another library gives: nothing but Arrow's PyCapsule interface."""

    def __init__(self, columns: Any) -> None:
        self._columns = columns

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._columns.__arrow_c_stream__(requested_schema)


TABLES = {
    "arrow": TABLE,
    "batch": TABLE.to_batches()[0],
    "reader": TABLE.to_reader,
    "pandas": TABLE.to_pandas(),
    "capsule": Capsule(TABLE),
}


def source_of(table: Any, **options: Any) -> TableSource:
    options.setdefault("event_time", "at")
    source = dm.io.ReadTable(table, **options).source
    assert isinstance(source, TableSource)
    return source


def hourly(runner: Any, table: Any) -> list[Any]:
    p = dm.Pipeline(runner=runner)
    rows = p | dm.io.ReadTable(table, event_time="at") | dm.WithKeys("carrier", value="delay")
    _ = rows | dm.Window.into(dm.FixedWindows("1 hour")) | dm.Sum.per_key() | "sums" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    return sorted((int(record.window.start), record.value) for record in result.collected("sums"))


@pytest.mark.parametrize("kind", TABLES)
def test_tables_of_several_libraries_are_read(kind: str) -> None:
    table = TABLES[kind]() if kind == "reader" else TABLES[kind]
    assert hourly(dm.LocalRunner(), table) == [(0, ("AA", 2)), (0, ("UA", 4)), (7_200_000_000, ("UA", 6))]


def test_a_stream_reads_a_table_and_a_resumed_run_continues(tmp_path: Path) -> None:
    expected = hourly(dm.LocalRunner(), TABLE)
    assert hourly(dm.LocalRunner(checkpoint=tmp_path / "a", max_rows_per_batch=1), TABLE) == expected


@pytest.mark.spark
@pytest.mark.slow
def test_spark_reads_a_table(spark: Any) -> None:
    assert hourly(dm.SparkRunner(spark), TABLE) == hourly(dm.LocalRunner(), TABLE)


def test_create_accepts_every_object_that_exports_arrow_columns() -> None:
    for table in (Capsule(TABLE), TABLE.to_reader(), TABLE.to_batches()[0]):
        source: Any = dm.Create(table).source
        assert source.elements[0] == (0, "UA", 4)
        assert source.elements[0].carrier == "UA"
    series: Any = dm.Create(Capsule(pa.chunked_array([[1, 2], [3]]))).source
    assert series.elements == (1, 2, 3)


def test_any_range_of_a_table_can_be_read_after_pickling() -> None:
    source = pickle.loads(pickle.dumps(source_of(TABLE)))
    [origin] = source.origins()
    assert origin.rows == 3
    source.check_version(origin.name, origin.version)
    [batch] = source.read("table", 1, 3)
    assert batch["delay"].to_pylist() == [2, 6]
    assert source.project(["delay"]).schema().names == ["at", "delay"]
    assert source.project(["delay"]).origins() == source.origins()


def test_a_run_that_is_resumed_with_other_rows_is_refused() -> None:
    [origin] = source_of(TABLE).origins()
    assert origin.version is not None
    with pytest.raises(SourceError, match=r"not have the rows with which the run began\nHint: pass the same table"):
        source_of(TABLE.slice(1)).check_version(origin.name, origin.version)


def test_rows_without_a_time_are_dead_letters() -> None:
    with dm.Pipeline() as p:
        table = pa.table({"at": ["2013-01-01", None, "soon"], "n": [1, 2, 3]})
        rows, bad = p | dm.io.ReadTable(table, event_time="at").with_exception_handling()
        _ = rows | "rows" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()
    assert p.result is not None
    assert [record.value.n for record in p.result.collected("rows")] == [1]
    assert [record.value.element["n"] for record in p.result.collected("bad")] == [2, 3]


def test_a_replay_clock_that_goes_back_is_refused_with_row_and_values() -> None:
    table = pa.table({"at": [1, 1, 1, 1], "seen": [10, None, 20, 15]})
    with pytest.raises(InvalidArgument, match=r"column 'seen' goes backward from 20 to 15 at row 3\nHint: sort it"):
        dm.io.ReadTable(table, event_time="at", processing_time="seen")


@pytest.mark.parametrize("given", [[1, 2], {"a": 1}, pa.array([1]), pa.chunked_array([[1]])])
def test_a_value_that_is_not_a_table_is_refused(given: Any) -> None:
    with pytest.raises(InvalidType, match=r"ReadTable takes a DataFrame .*\nHint: use dm\.Create"):
        dm.io.ReadTable(given, event_time=None)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"watermark_origin": "file"}, "no files that could be origins or wait, got origins by file"),
        ({"max_skew": "1 hour"}, "no files that could be origins or wait, got at most 1 hour ahead"),
        ({"event_time": None, "watermark_origin": "k"}, "without event times .* event_time=None and origins by k"),
        (
            {"event_time": None, "weight": "records"},
            "without event times .* event_time=None and percentiles by records",
        ),
    ],
)
def test_options_that_have_no_effect_on_a_table_are_refused(options: dict[str, Any], said: str) -> None:
    arguments: dict[str, Any] = {"event_time": "at"} | options
    with pytest.raises(InvalidArgument, match=f"{said}\nHint: "):
        dm.io.ReadTable(pa.table({"k": ["a"], "at": [1]}), **arguments)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame([[1, 2]], columns=["n", "n"]),
        pd.DataFrame([[1, 2]], columns=["n", "m"]).set_index(pd.Index([0], name="n")),
    ],
)
def test_two_columns_of_one_name_in_pandas_are_refused(frame: pd.DataFrame) -> None:
    for take in (lambda frame: dm.io.ReadTable(frame, event_time=None), dm.Create):
        with pytest.raises(InvalidArgument, match=r"there are 2 columns named 'n'.*\nHint: rename the columns"):
            take(frame)


def test_a_missing_column_is_refused_with_the_existing_ones() -> None:
    with pytest.raises(InvalidArgument, match=r"names the column 'when', .*\nHint: the columns are at, carrier, delay"):
        dm.io.ReadTable(TABLE, event_time="when")


def test_times_in_an_index_without_a_name_are_refused_until_it_has_one() -> None:
    frame = pd.DataFrame({"delay": [4]}, index=pd.to_datetime(["2013-01-01"]))
    with pytest.raises(InvalidArgument, match=r"'at', .* index has no name\nHint: .*: frame\.rename_axis\('at'\)$"):
        dm.io.ReadTable(frame, event_time="at")
    [row] = (dm.Pipeline() | dm.io.ReadTable(frame.rename_axis("at"), event_time="at")).head()
    assert (row.at, row.delay) == (pd.Timestamp("2013-01-01"), 4)
    [row] = (dm.Pipeline() | dm.io.ReadTable(frame, event_time=None)).head()
    assert row == (4,)


def test_collected_records_can_be_read_as_a_table_by_other_libraries() -> None:
    with dm.Pipeline() as p:
        _ = p | dm.Create([("UA", 4), ("AA", 2)]) | "kept" >> dm.io.Collect(panes=True)
    assert p.result is not None
    table = p.result.table("kept")
    assert len(table) == 2
    assert pa.table(table).column_names == ["key", "value", "window_start", "window_end", "pane_index", "pane_timing"]
    frame = table.to_pandas()
    assert isinstance(frame, pd.DataFrame)
    assert frame["value"].tolist() == [4, 2]
    with pytest.raises(InvalidArgument, match=r"no dm\.io\.Collect\(\) sink has the label 'lost'"):
        p.result.table("lost")


def test_collected_records_become_a_polars_table_if_polars_is_installed() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"at": [0], "carrier": ["UA"], "delay": [4]})
    assert hourly(dm.LocalRunner(), frame) == [(0, ("UA", 4))]
    created: Any = dm.Create(frame).source
    assert created.elements == ((0, "UA", 4),)
    with pytest.raises(InvalidType, match=r"got a LazyFrame\nHint: write ReadTable\(frame\.collect\(\)\)"):
        dm.io.ReadTable(frame.lazy(), event_time="at")
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadTable(frame, event_time="at") | "rows" >> dm.io.Collect()
    assert p.result is not None
    assert p.result.table("rows").to_polars().equals(frame)


def test_without_polars_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "polars", None)
    with dm.Pipeline() as p:
        _ = p | dm.Create([1]) | "kept" >> dm.io.Collect()
    assert p.result is not None
    with pytest.raises(PlanError, match="not installed\nHint: run pip install polars"):
        p.result.table("kept").to_polars()


def test_retractions_are_marked_in_the_table() -> None:
    each = dm.Window.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    with dm.Pipeline() as p:
        _ = p | dm.Create([("a", 1), ("a", 2)]) | each | dm.Sum.per_key() | "sums" >> dm.io.Collect()
    assert p.result is not None
    rows = p.result.table("sums").arrow.to_pylist()
    assert [(row["value"], row["is_retraction"]) for row in rows] == [(1, False), (1, True), (3, False)]


def test_reading_a_table_of_arrow_imports_no_other_library() -> None:
    program = (
        "import sys, pyarrow as pa, dataflow_model as dm; dm.io.ReadTable(pa.table({'a': [1]}), event_time=None); "
        "assert not {'polars', 'pyspark'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
