"""Files as sinks: published once, whole, with what did not fit set apart."""

from __future__ import annotations

import datetime as dt
import json
import math
import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, PlanError, SinkError
from dataflow_model.io import ToDataFrame, WriteJson, WriteParquet
from dataflow_model.io.sinks.file_sinks import CsvSink, FileSink, JsonSink, ParquetSink
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.columns.records import Record
from dataflow_model.plan.logical.nodes import Write as WriteNode
from dataflow_model.runners.engine.collections.sink_records import BundleRecords
from dataflow_model.runners.engine.core.operations import PANE_LATE, PANE_ON_TIME
from dataflow_model.runners.engine.grouping.pane_lanes import PaneInfos
from dataflow_model.runners.engine.lanes.bundle import Bundle, Update
from dataflow_model.runners.engine.lanes.lanes import Integers, Intervals, Repeated
from dataflow_model.runners.engine.lanes.value_lanes import Pairs, RowValues
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, EventTime
from dataflow_model.transforms.elementwise.maps import Map
from dataflow_model.transforms.endpoints.create import Create
from dataflow_model.transforms.pipelines.pipeline import Pipeline
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING, IntervalWindow, PaneInfo, PaneTiming, Window
from tests.support.written_files import rows, visible

if TYPE_CHECKING:
    from collections.abc import Iterable

PAIRS = pa.schema({"key": pa.string(), "value": pa.int64()})


def record(value: Any, window: Window = GLOBAL_WINDOW, pane: PaneInfo = NO_FIRING) -> Record:
    return Record(value, EventTime(0), window, pane)


def written(sink: FileSink, commit: str, *tasks: Iterable[Any]) -> list[bytes]:
    messages = []
    for number, values in enumerate(tasks):
        writer = sink.open(commit, str(number))
        writer.write([value if isinstance(value, Record) else record(value) for value in values])
        messages.append(writer.close())
    return messages


def counted(sink: FileSink, values: Iterable[Any]) -> Any:
    """Commit some values that one task writes, and return how many became rows and dead letters."""
    messages = written(sink, "0", values)
    sink.commit("0", messages)
    return sink.counts(messages)


@pytest.fixture(params=[ParquetSink, JsonSink])
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> FileSink:
    made: FileSink = request.param(path=tmp_path / "out", schema=PAIRS)
    made.check()
    return made


def test_rows_appear_at_the_commit_in_files_that_contain_its_id(sink: FileSink) -> None:
    messages = written(sink, "7", [("UA", 1), ("AA", 2)], [], [("UA", 3)])
    assert visible(Path(sink.path)) == []
    sink.commit("7", messages)
    assert visible(Path(sink.path)) == [f"part-7-00000{sink.suffix}", f"part-7-00002{sink.suffix}"]
    assert rows(sink) == [{"key": "UA", "value": 1}, {"key": "AA", "value": 2}, {"key": "UA", "value": 3}]
    assert not Path(sink.path, "_pending").exists()
    assert sink.counts(messages) == {"rows": 3, "dead_letters": 0}


def test_a_repeated_commit_publishes_nothing_more(sink: FileSink) -> None:
    sink.commit("7", written(sink, "7", [("UA", 1)]))
    before = rows(sink), visible(Path(sink.path))
    sink.commit("7", written(sink, "7", [("UA", 1)]))
    assert (rows(sink), visible(Path(sink.path))) == before
    assert not Path(sink.path, "_pending").exists()


@pytest.mark.parametrize("renames", range(5))
def test_a_crash_during_the_commit_and_another_number_of_tasks_still_publish_once(
    sink: FileSink, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    class Crash(BaseException):
        pass

    replace, done = Path.replace, 0

    def replace_or_crash(self: Path, target: Path) -> Path:
        nonlocal done
        if done == renames:
            raise Crash
        done += 1
        return replace(self, target)

    sink.commit("6", written(sink, "6", [("before", 0)]))
    messages = written(sink, "7", [("UA", 1), "misfit"], [("AA", 2)])
    monkeypatch.setattr(Path, "replace", replace_or_crash)
    with pytest.raises(Crash):
        sink.commit("7", messages)
    monkeypatch.undo()
    sink.commit("7", written(sink, "7", [("AA", 2), ("UA", 1), "misfit"]))
    actual = sorted((row["key"], row["value"]) for row in rows(sink))
    assert actual == [("AA", 2), ("UA", 1), ("before", 0)]
    letters = [line for file in Path(sink.path, "_dead_letters").iterdir() for line in file.read_text().splitlines()]
    assert len(letters) == 1


def test_an_aborted_commit_leaves_no_files(sink: FileSink) -> None:
    messages = written(sink, "7", [("UA", 1)], ["misfit"])
    sink.abort("7", messages)
    assert [file for file in Path(sink.path).rglob("*") if file.is_file()] == []
    writer = sink.open("8", "0")
    writer.write([record(("UA", 1)), record("misfit")])
    writer.abort()
    assert [file for file in Path(sink.path).rglob("*") if file.is_file()] == []


def test_a_commit_without_rows_writes_nothing(sink: FileSink) -> None:
    sink.commit("7", written(sink, "7", [], []))
    assert [file for file in Path(sink.path).rglob("*") if file.is_file()] == []


@pytest.mark.parametrize("kind", [ParquetSink, JsonSink, CsvSink])
@pytest.mark.parametrize("schema", [None, pa.schema([])])
def test_records_without_fields_are_dead_letters_if_there_are_no_columns(
    tmp_path: Path, kind: Any, schema: pa.Schema | None
) -> None:
    sink = kind(path=tmp_path, schema=schema)
    assert counted(sink, [{}, {}]) == {"rows": 0, "dead_letters": 2}
    [file] = (tmp_path / "_dead_letters").iterdir()
    reasons = {json.loads(line)["reason"] for line in file.read_text().splitlines()}
    assert reasons == {"it has no fields, and a row must have at least one column"}


def test_a_record_without_fields_is_a_row_of_nulls_if_there_are_columns(sink: FileSink) -> None:
    assert counted(attrs.evolve(sink, schema=pa.schema({"value": pa.int64()})), [{}, {"value": 1}, {}]) == {
        "rows": 3,
        "dead_letters": 0,
    }
    assert rows(sink) == [{"value": None}, {"value": 1}, {"value": None}]


def test_rows_that_do_not_fit_go_to_the_dead_letters_and_are_counted(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("key", pa.string(), nullable=False), pa.field("value", pa.int32())])
    sink = ParquetSink(path=tmp_path, schema=schema, label="Out/WriteParquet")
    bad = [("UA", 1.5), ("UA", "one"), (None, 1), ("UA", 2**40), ("UA", True), {"key": "UA", "more": 1}, "UA"]
    messages = written(sink, "0", [("UA", 1), *bad, ("AA", None), {"key": "B6"}])
    sink.commit("0", messages)
    assert [tuple(row.values()) for row in rows(sink)] == [("UA", 1), ("AA", None), ("B6", None)]
    assert sink.counts(messages) == {"rows": 3, "dead_letters": 7}
    letters = [json.loads(line) for line in (tmp_path / "_dead_letters" / "part-0-00000.json").read_text().splitlines()]
    assert {letter["row"] for letter in letters} == {repr(value) for value in bad}
    assert {letter["label"] for letter in letters} == {"Out/WriteParquet"}
    reasons = {letter["row"]: letter["reason"] for letter in letters}
    assert reasons["('UA', 1.5)"] == "column 'value' is int32 and cannot hold 1.5 of type float"
    assert reasons["(None, 1)"] == "column 'key' must not be null"
    assert reasons[repr(bad[5])] == "the schema has no column 'more'; it has key, value"


@pytest.mark.parametrize("odd", [{"\ud800": 1}, {"a": {"\ud800": 1}}], ids=["field", "inner field"])
@pytest.mark.parametrize("others", [[], [{"a": 1}]], ids=["alone", "among others"])
def test_a_row_with_a_field_name_that_is_not_text_is_a_dead_letter(
    odd: dict[str, Any], others: list[dict[str, Any]], tmp_path: Path
) -> None:
    sink = JsonSink(path=tmp_path, label="Out")
    assert counted(sink, [*others, odd]) == {"rows": len(others), "dead_letters": 1}
    assert rows(sink) == others


def test_panes_add_window_and_pane_with_null_for_infinite_bounds(tmp_path: Path) -> None:
    hour = IntervalWindow(EventTime(0), EventTime(3_600_000_000))
    to_the_end = IntervalWindow(EventTime(5), MAX_TIMESTAMP)
    late = PaneInfo(index=2, timing=PaneTiming.LATE)
    given = [record(("UA", 1), hour, late), record(("AA", 2)), record(("B6", 3), to_the_end)]
    for kind in (ParquetSink, JsonSink):
        sink = kind(path=tmp_path / kind.__name__, schema=PAIRS, panes=True)
        sink.commit("0", written(sink, "0", given))
        actual = rows(sink)
        assert list(actual[0]) == ["key", "value", "window_start", "window_end", "pane_index", "pane_timing"]
        assert [(row["pane_index"], row["pane_timing"]) for row in actual] == [
            (2, "LATE"),
            (0, "UNKNOWN"),
            (0, "UNKNOWN"),
        ]
        assert [row["window_end"] for row in actual[1:]] == [None, None]
        assert actual[1]["window_start"] is None
        if kind is ParquetSink:
            assert actual[0]["window_end"] == dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize("schema", [PAIRS, None])
@pytest.mark.parametrize(("panes", "retractions"), [(True, False), (True, True), (False, True)])
def test_panes_in_columns_are_written_like_their_records(
    tmp_path: Path, schema: pa.Schema | None, panes: bool, retractions: bool
) -> None:
    starts = np.array([0, 10, int(MIN_TIMESTAMP)])
    ends = np.array([10, int(MAX_TIMESTAMP), 5])
    flags = np.array([0, PANE_ON_TIME, PANE_LATE])
    orders: Any = [("rows", index) for index in range(3)]
    bundle = Bundle(
        values=Pairs(pa.chunked_array([["UA", "AA", "B6"]]), pa.chunked_array([[1, 2, 3]])),
        times=Integers(ends - 1),
        windows=Intervals(starts, ends),
        panes=PaneInfos(flags, np.array([0, 0, 1]), np.array([-1, 0, 1]), "Always()"),
        orders=orders,
        produced=Integers(np.zeros(3, np.int64)),
        updates={2: Update(("rows", 2), is_retraction=True)},
    )
    records = BundleRecords(bundle, Repeated((0, 0), 3))
    files = []
    for name, given in (("columns", records), ("records", list(records))):
        sink = ParquetSink(path=tmp_path / name, schema=schema, panes=panes, retractions=retractions)
        writer = sink.open("0", "0")
        writer.write(given)
        sink.commit("0", [writer.close()])
        [path] = visible(Path(sink.path))
        files.append(pq.read_table(Path(sink.path, path)))
    assert files[0].equals(files[1])
    assert files[0].num_rows == 3


class Flight(NamedTuple):
    carrier: str
    delay: int | None


@attrs.frozen
class Total:
    count: int
    mean: float


@pytest.mark.parametrize(
    ("value", "row"),
    [
        (Flight("UA", 4), {"carrier": "UA", "delay": 4}),
        (("UA", Total(2, 1.5)), {"key": "UA", "count": 2, "mean": 1.5}),
        (("UA", {"mean": 1.5}), {"key": "UA", "mean": 1.5}),
        ((Flight("UA", 4), 1), {"key": {"carrier": "UA", "delay": 4}, "value": 1}),
        ((("UA", 2013), 1), {"key": {"_1": "UA", "_2": 2013}, "value": 1}),
        (("UA", ("EWR", 1)), {"key": "UA", "value": {"_1": "EWR", "_2": 1}}),
        (("UA", [1, 2]), {"key": "UA", "value": [1, 2]}),
        (("a", "b", "c"), {"value": {"_1": "a", "_2": "b", "_3": "c"}}),
        (7, {"value": 7}),
        (EventTime(0), {"value": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}),
        (Duration(micros=1_000_000), {"value": dt.timedelta(seconds=1)}),
    ],
)
def test_the_fields_of_an_element_are_the_columns_of_its_row(tmp_path: Path, value: Any, row: dict[str, Any]) -> None:
    sink = ParquetSink(path=tmp_path)
    sink.commit("0", written(sink, "0", [value]))
    assert rows(sink) == [row]


def test_a_value_with_a_field_called_key_beside_a_key_does_not_fit(tmp_path: Path) -> None:
    sink = ParquetSink(path=tmp_path)
    messages = written(sink, "0", [("UA", {"key": 1}), ("UA", {"n": 1})])
    assert sink.counts(messages) == {"rows": 1, "dead_letters": 1}


def test_the_columns_inferred_by_different_tasks_are_reconciled_at_the_commit(tmp_path: Path) -> None:
    sink = ParquetSink(path=tmp_path)
    sink.commit("0", written(sink, "0", [{"n": 1}], [{"n": 1.5, "s": "x"}], []))
    assert rows(sink) == [{"n": 1.0, "s": None}, {"n": 1.5, "s": "x"}]
    clash = written(sink, "1", [{"n": 1}], [{"n": "one"}])
    with pytest.raises(SinkError, match=r"incompatible columns.*\n?.*pass schema="):
        sink.commit("1", clash)


def test_columns_are_written_like_rows(sink: FileSink) -> None:
    writer = sink.open("0", "0")
    writer.write_columns(pa.table({"key": ["UA", "AA"], "value": pa.array([1, 2], pa.int32())}))
    writer.write_columns(pa.table({"value": [3.0, 4.5], "key": ["UA", "UA"]}))
    message = writer.close()
    sink.commit("0", [message])
    assert [row["value"] for row in rows(sink)] == [1, 2]
    assert sink.counts([message]) == {"rows": 2, "dead_letters": 2}


def test_json_files_have_text_for_values_that_json_cannot_express(tmp_path: Path) -> None:
    sink = JsonSink(path=tmp_path)
    value = {
        "nan": float("nan"),
        "at": dt.datetime(2013, 1, 1, tzinfo=dt.UTC),
        "raw": b"\x00",
        "for": dt.timedelta(seconds=1),
    }
    sink.commit("0", written(sink, "0", [value]))
    line = json.loads((tmp_path / "part-0-00000.json").read_text())
    assert line == {"nan": "NaN", "at": "2013-01-01T00:00:00Z", "raw": "AA==", "for": 1.0}


def test_lines_of_json_equal_what_the_json_module_writes(tmp_path: Path) -> None:
    lines = [
        {"100 %s": 2**62, 'a "name"': -0.1, "is_late": True, "text": 'ü "%d"\n', "list": [1, None], "row": {"x": 1.5}},
        {"100 %s": None, 'a "name"': 1e300, "is_late": False, "text": None, "list": [], "row": None},
    ]
    sink = JsonSink(path=tmp_path)
    sink.commit("0", written(sink, "0", lines))
    text = (tmp_path / "part-0-00000.json").read_text()
    assert text == "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def test_a_sink_whose_folder_cannot_be_written_is_refused_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file, no directory")
    with pytest.raises(SinkError, match=r"'Write' cannot write to .*out: .*\nHint: choose a directory"):
        ParquetSink(path=tmp_path / "out").check()
    with pytest.raises(SinkError, match=r"cannot write below .*out"):
        written(ParquetSink(path=tmp_path / "out"), "0", [("UA", 1)])


@pytest.mark.parametrize(
    "kind", [pa.struct([]), pa.list_(pa.struct([])), pa.month_day_nano_interval(), pa.decimal128(5, -2)]
)
def test_a_type_that_parquet_does_not_have_is_refused_at_construction(kind: pa.DataType) -> None:
    with pytest.raises(InvalidArgument, match=r"'WriteParquet' has a column 'v' of type .*, which Parquet .*\nHint: "):
        WriteParquet("out", schema=pa.schema({"n": pa.int64(), "v": kind}))


def test_the_error_for_an_inferred_type_that_parquet_does_not_have_names_the_transform(tmp_path: Path) -> None:
    with pytest.raises(SinkError, match=r"'Write' cannot write below .*struct type 'v'.*\nHint: pass schema="):
        written(ParquetSink(path=tmp_path), "0", [{"v": {}}])


def test_two_columns_of_one_name_in_a_schema_are_refused_at_construction() -> None:
    twice = pa.schema([("n", pa.int64()), ("v", pa.int64()), ("n", pa.string())])
    for write in (WriteJson, WriteParquet):
        with pytest.raises(InvalidArgument, match=r"2 columns named 'n'.* n, v, n\nHint: give each column of `schema`"):
            write("out", schema=twice)
    with pytest.raises(InvalidArgument, match="2 columns named 'n'"):
        ToDataFrame(schema=twice)


def test_a_type_that_has_no_values_is_refused_at_construction() -> None:
    union = pa.dense_union([pa.field("n", pa.int64())])
    with pytest.raises(InvalidArgument, match=r"a column 'v' of type list<.*union.*no value of Python can be\nHint: "):
        WriteJson("out", schema=pa.schema({"v": pa.list_(union)}))


_FILLED = pa.struct([pa.field("n", pa.int64(), nullable=False)])


@pytest.mark.parametrize(
    ("kind", "bad", "good"),
    [
        (_FILLED, {}, {"n": 1}),
        (_FILLED, {"n": None}, None),
        (pa.struct({"inner": _FILLED}), {"inner": {}}, {"inner": None}),
        (pa.list_(pa.field("item", pa.int64(), nullable=False)), [1, None], [1]),
        (pa.list_(_FILLED), [{"n": 1}, {}], [None]),
        (pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)), {"n": None}, {"n": 1}),
    ],
)
def test_a_null_in_a_nested_field_that_does_not_allow_it_is_a_dead_letter(
    sink: FileSink, kind: pa.DataType, bad: Any, good: Any
) -> None:
    sink = attrs.evolve(sink, schema=pa.schema({"v": kind}))
    assert counted(sink, [{"v": good}, {"v": bad}, {"v": good}]) == {"rows": 2, "dead_letters": 1}


@pytest.mark.parametrize(
    ("kind", "large", "held"),
    [
        (pa.float32(), 1e300, 1e38),
        (pa.float16(), 70_000, 65_504),
        (pa.float16(), -70_000.0, math.inf),
        (pa.list_(pa.float32()), [math.inf, 1e300], [math.inf, 0.5]),
        (pa.struct({"share": pa.float32()}), {"share": -1e300}, {"share": -math.inf}),
        (pa.map_(pa.string(), pa.float32()), {"share": 1e300}, {"share": None}),
    ],
)
def test_a_number_too_large_for_the_float_type_of_its_column_is_a_dead_letter(
    sink: FileSink, kind: pa.DataType, large: Any, held: Any
) -> None:
    sink = attrs.evolve(sink, schema=pa.schema({"v": kind}))
    assert counted(sink, [{"v": held}, {"v": large}, {"v": None}]) == {"rows": 2, "dead_letters": 1}
    [file] = Path(sink.path, "_dead_letters").iterdir()
    assert json.loads(file.read_text())["reason"].startswith(f"column 'v' is {kind} and cannot hold ")


@pytest.mark.parametrize("kind", [pa.float64(), pa.int64()])
def test_a_number_in_columns_too_large_for_the_float_type_of_a_sink_is_a_dead_letter(
    tmp_path: Path, kind: pa.DataType
) -> None:
    sink = ParquetSink(path=tmp_path, schema=pa.schema({"n": pa.float16()}))
    writer = sink.open("0", "0")
    writer.write_columns(pa.table({"n": pa.array([1, 70_000], kind)}))
    assert sink.counts([writer.close()]) == {"rows": 1, "dead_letters": 1}


def test_a_sink_transform_infers_columns_from_the_type_of_elements(tmp_path: Path) -> None:
    pipeline = Pipeline()
    _ = pipeline | Create([Flight("UA", 1)]) | "delays" >> WriteParquet(tmp_path, panes=True)
    node = pipeline.plan().nodes[-1]
    assert isinstance(node, WriteNode)
    assert isinstance(node.sink, ParquetSink)
    assert node.sink.schema == pa.schema({"carrier": pa.string(), "delay": pa.int64()})
    assert node.sink.label == "delays"
    assert pickle.loads(pickle.dumps(node.sink)) == node.sink


class Named(NamedTuple):
    window_start: str


def test_a_schema_with_a_column_that_panes_add_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="already have a column 'window_start'"):
        _ = Pipeline() | Create([Named("x")]) | WriteParquet(tmp_path, panes=True)


@pytest.mark.parametrize("schema", [PAIRS, None])
@pytest.mark.parametrize("kind", [ParquetSink, JsonSink, CsvSink])
def test_a_field_with_the_name_of_a_column_that_panes_add_makes_its_row_a_dead_letter(
    tmp_path: Path, kind: type[FileSink], schema: pa.Schema | None
) -> None:
    sink = kind(path=tmp_path, schema=schema, panes=True)
    hour = IntervalWindow(EventTime(0), EventTime(3_600_000_000))
    clashing = {"key": "UA", "value": 1, "window_start": "mine"}
    assert counted(sink, [record(clashing, hour), record(("AA", 2), hour)]) == {"rows": 1, "dead_letters": 1}
    [letter] = (tmp_path / "_dead_letters").iterdir()
    assert "a field 'window_start', which is the name of the column that `panes=True` adds" in letter.read_text()
    if kind is ParquetSink:
        assert [(row["key"], row["window_start"].isoformat()) for row in rows(sink)] == [
            ("AA", "1970-01-01T00:00:00+00:00")
        ]


@pytest.mark.parametrize("schema", [pa.schema({"user": pa.string()}), None])
def test_rows_in_columns_with_the_name_of_a_column_that_panes_add_are_dead_letters(
    tmp_path: Path, schema: pa.Schema | None
) -> None:
    sink = ParquetSink(path=tmp_path, schema=schema, panes=True)
    orders: Any = [("rows", 0)]
    times = Integers(np.zeros(1, np.int64))
    bundle = Bundle.fresh(RowValues(pa.table({"user": ["ann"], "pane_index": [7]})), times, orders, times)
    writer = sink.open("0", "0")
    writer.write(BundleRecords(bundle, Repeated((0, 0), 1)))
    assert sink.counts([writer.close()]) == {"rows": 0, "dead_letters": 1}


# ------------------------------------------------------------------------------------------- several sinks in one place


@pytest.mark.parametrize("other", ["out/", "./out", "sub/../out", "link", "link/../out"])
def test_two_sinks_of_a_pipeline_in_one_directory_are_refused_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    p = Pipeline()
    _ = p | "numbers" >> Create([1, 2]) | "first" >> WriteParquet(str(tmp_path / "out"))
    _ = p | "others" >> Create([3, 4]) | "second" >> WriteJson(other)
    with pytest.raises(PlanError, match=r"'first' and 'second' both write to .*/out, .*\nHint: .*dm\.Flatten\(\)"):
        p.run()
    assert not list((tmp_path / "out").iterdir())


def test_two_sinks_of_a_pipeline_in_one_missing_directory_are_refused(tmp_path: Path) -> None:
    p = Pipeline()
    for label in ("first", "second"):
        _ = p | f"numbers for {label}" >> Create([1]) | label >> WriteParquet(tmp_path / "new" / "out")
    with pytest.raises(PlanError, match="'first' and 'second' both write to"):
        p.run()
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(("place", "is_read"), [("in", True), ("in/a/out", True), ("in/_out", False), ("out", False)])
def test_a_stream_may_not_write_where_it_would_read_its_own_output(tmp_path: Path, place: str, is_read: bool) -> None:
    (tmp_path / "in").mkdir()
    p = Pipeline()
    numbers = dm.io.ReadJson(tmp_path / "in", event_time="n", schema=pa.schema({"n": pa.int64()}), follow=True)
    _ = p | "numbers" >> numbers | "out" >> WriteJson(tmp_path / place)
    if is_read:
        with pytest.raises(PlanError, match=r"'out' writes to .*, which 'numbers' follows, .*\nHint: "):
            check(p.plan())
    else:
        check(p.plan())


def test_a_sink_may_write_below_another_but_not_among_its_own_files(tmp_path: Path) -> None:
    def write(inner: str) -> Pipeline:
        p = Pipeline()
        _ = p | "numbers" >> Create([1, 2]) | "outer" >> WriteJson(tmp_path / "out")
        _ = p | "others" >> Create([3, 4]) | "inner" >> WriteJson(tmp_path / "out" / inner)
        p.run().wait_until_finish()
        return p

    write("others")
    for place in ("out", "out/others"):
        assert len(visible(tmp_path / place)) == (2 if place == "out" else 1)
    with pytest.raises(
        PlanError, match=r"'inner' writes to .*_dead_letters, which is reserved for the internal files of 'outer'"
    ):
        write("_dead_letters")


def test_two_runs_that_write_to_one_directory_both_add_their_rows(tmp_path: Path) -> None:
    for number in (1, 2):
        with Pipeline() as p:
            _ = p | Create([{"key": "a", "value": number}]) | WriteParquet(tmp_path, if_exists="add")
    actual = ds.dataset(tmp_path, format="parquet").to_table().to_pylist()
    assert sorted(row["value"] for row in actual) == [1, 2]


@pytest.mark.parametrize(
    ("values", "declared", "expected"),
    [
        ([{"a": 1}, {"b": 2, "c": 3}, {}], dict[str, int], [[("a", 1)], [("b", 2), ("c", 3)], []]),
        ([(0,), (0, 1), (0, 1, 2), ()], tuple[int, ...], [[0], [0, 1], [0, 1, 2], []]),
        ([[0], [0, 1]], list[int], [[0], [0, 1]]),
    ],
)
@pytest.mark.parametrize("keyed", [False, True])
def test_an_element_declared_as_one_column_is_written_as_one_whatever_its_fields(
    tmp_path: Path, values: list[Any], declared: Any, expected: list[Any], keyed: bool
) -> None:
    elements = [("k", value) for value in values] if keyed else values
    pipeline = Pipeline()
    typed = (
        pipeline
        | Create(elements)
        | Map(lambda element: element).with_output_types(tuple[str, declared] if keyed else declared)
    )
    _ = typed | WriteParquet(tmp_path / "out")
    result = pipeline.run()
    result.wait_until_finish()
    table = ds.dataset(tmp_path / "out", format="parquet").to_table()
    assert table.column_names == (["key", "value"] if keyed else ["value"])
    assert table["value"].to_pylist() == expected
    assert result.metrics()["WriteParquet"]["dead_letters"] == 0


def test_a_dict_with_only_the_column_of_a_map_is_a_record(tmp_path: Path) -> None:
    schema = pa.schema({"value": pa.map_(pa.string(), pa.int64())})
    sink = ParquetSink(path=tmp_path / "out", schema=schema)
    sink.commit("c", written(sink, "c", [{"value": {"a": 1}}, {"b": 2}]))
    table = ds.dataset(tmp_path / "out", format="parquet").to_table()
    assert table["value"].to_pylist() == [[("a", 1)], [("b", 2)]]


PAIR = pa.list_(pa.int64(), 2)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        (PAIR, [1, 2], None),
        (pa.list_(PAIR), [[1, 2]], [[1, 2], None]),
        (pa.list_(PAIR), None, [None]),
        (pa.struct({"pair": PAIR}), {"pair": [1, 2]}, {"pair": None}),
        (pa.struct({"pair": PAIR}), {"pair": [1, 2]}, None),
        (pa.list_(PAIR, 1), [[1, 2]], [None]),
        (pa.map_(pa.string(), PAIR), [("a", [1, 2])], [("a", None)]),
    ],
)
def test_a_null_that_arrow_could_not_read_back_from_a_list_of_fixed_size_is_a_dead_letter(
    tmp_path: Path, kind: pa.DataType, good: Any, bad: Any
) -> None:
    schema = pa.schema({"at": pa.int64(), "v": kind})
    table = pa.table({"at": [1, 2], "v": pa.array([good, bad], kind)}, schema)
    with dm.Pipeline() as p:
        rows = p | dm.io.ReadTable(table, event_time="at")
        _ = rows | WriteParquet(tmp_path, schema=schema)
    assert p.result is not None
    assert p.result.metrics()["WriteParquet"]["dead_letters"] == 1
    assert pq.read_table(tmp_path).to_pylist() == table.slice(0, 1).to_pylist()


@pytest.mark.parametrize("view", [pa.string_view(), pa.struct({"a": pa.string_view()})])
def test_rows_in_columns_of_view_types_are_written_although_one_of_them_does_not_fit(
    tmp_path: Path, view: pa.DataType
) -> None:
    value = "a" if pa.types.is_string_view(view) else {"a": "a"}
    with dm.Pipeline() as p:
        _ = p | dm.Create([{"v": value}, {"v": 5}]) | WriteParquet(tmp_path, schema=pa.schema({"v": view}))
    assert pq.read_table(tmp_path).to_pylist() == [{"v": value}]
