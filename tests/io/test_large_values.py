"""Sinks write in batches of bounded size, so that neither their memory nor Arrow's 2 GiB an array limit a commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.io.sinks import cast_columns, file_sinks, file_writer
from dataflow_model.io.sinks.element_rows import fit_batches
from dataflow_model.io.sinks.file_sinks import CsvSink, FileSink, JsonSink, ParquetSink, TextSink
from dataflow_model.plan.columns import element_columns as shapes
from dataflow_model.plan.columns.element_columns import BATCH_BYTES, weight_of
from dataflow_model.plan.columns.records import Record
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
from tests.support.laws.examples import share_of_examples

if TYPE_CHECKING:
    from collections.abc import Sequence

MEGABYTE = "x" * 1_000_000
SINKS = [CsvSink, JsonSink, ParquetSink, TextSink]


def records(values: Sequence[Any]) -> list[Record]:
    return [Record(value, EventTime(0), GLOBAL_WINDOW, NO_FIRING) for value in values]


def commit(sink: FileSink, *calls: Sequence[Any]) -> tuple[dict[str, Any], list[bytes]]:
    """Write the values of some calls, and return the counts and the contents of the files that appear."""
    writer = sink.open("0", "0")
    for values in calls:
        writer.write(records(values))
    messages = [writer.close()]
    sink.commit("0", messages)
    files = sorted(path for path in Path(sink.path).rglob("part-*") if path.is_file())
    contents = [
        repr(pq.read_table(file).to_pylist()).encode() if file.suffix == ".parquet" else file.read_bytes()
        for file in files
    ]
    return dict(sink.counts(messages)), contents


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[pa.RecordBatch]:
    """Limit batches to 100 bytes, and return the batches that will be written."""
    batches: list[pa.RecordBatch] = []
    flush = file_writer.FileSinkWriter._add

    def noted(self: Any, batch: pa.RecordBatch) -> None:
        batches.append(batch)
        flush(self, batch)

    monkeypatch.setattr(shapes, "BATCH_BYTES", 100)
    monkeypatch.setattr(file_writer, "BATCH_BYTES", 100)
    monkeypatch.setattr(cast_columns, "BATCH_BYTES", 100)
    monkeypatch.setattr(file_writer.FileSinkWriter, "_add", noted)
    return batches


VALUES = st.one_of(
    st.text(max_size=60),
    st.binary(max_size=60),
    st.none(),
    st.integers(-(2**40), 2**40),
    st.lists(st.text(max_size=30), max_size=4),
    st.fixed_dictionaries({"value": st.text(max_size=90)}, optional={"other": st.text(max_size=9)}),
)


@pytest.mark.parametrize("kind", SINKS)
@share_of_examples(0.6)
@given(
    values=st.lists(VALUES, max_size=30) | st.lists(st.text(max_size=90), max_size=30),
    column=st.sampled_from([pa.string(), pa.binary(), pa.list_(pa.string())]),
)
def test_the_written_rows_do_not_depend_on_the_size_of_batches(
    tmp_path_factory: pytest.TempPathFactory, kind: type[FileSink], values: list[Any], column: pa.DataType
) -> None:
    schema = pa.schema({"value": pa.string() if kind is TextSink else column})
    whole = commit(kind(path=tmp_path_factory.mktemp("whole"), schema=schema), values)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shapes, "BATCH_BYTES", 100)
        patch.setattr(file_writer, "BATCH_BYTES", 100)
        assert commit(kind(path=tmp_path_factory.mktemp("parts"), schema=schema), values) == whole


@pytest.mark.parametrize("kind", SINKS)
@pytest.mark.parametrize("value", ["x" * 30, "é" * 30])
def test_a_batch_holds_a_bounded_number_of_bytes(
    tmp_path: Path, small: list[pa.RecordBatch], kind: type[FileSink], value: str
) -> None:
    counts, _ = commit(kind(path=tmp_path, schema=pa.schema({"value": pa.string()})), [value] * 20)
    assert counts == {"rows": 20, "dead_letters": 0}
    assert [batch.num_rows for batch in small] == [3] * 6 + [2]


def test_a_batch_of_columns_holds_a_bounded_number_of_bytes(tmp_path: Path, small: list[pa.RecordBatch]) -> None:
    sink = ParquetSink(path=tmp_path, schema=pa.schema({"value": pa.string()}))
    writer = sink.open("0", "0")
    writer.write_columns(pa.table({"value": pa.array(["x" * 30] * 20, pa.large_string())}))
    sink.commit("0", [writer.close()])
    assert max(batch.num_rows for batch in small) == 2
    [file] = tmp_path.glob("*.parquet")
    assert pq.read_table(file)["value"].to_pylist() == ["x" * 30] * 20
    assert pq.ParquetFile(file).num_row_groups > 1


def test_columns_are_inferred_from_a_bounded_number_of_bytes(tmp_path: Path, small: list[pa.RecordBatch]) -> None:
    writer = ParquetSink(path=tmp_path).open("0", "0")
    for _ in range(3):
        writer.write(records(["x" * 60]))
    assert sum(batch.num_rows for batch in small) == 3


def test_files_with_narrower_columns_are_widened_by_row_groups(tmp_path: Path, small: list[pa.RecordBatch]) -> None:
    sink = ParquetSink(path=tmp_path)
    messages = []
    tasks: list[list[Any]] = [[{"value": "x" * 30}] * 9, [{"value": "y", "count": 1}]]
    for task, values in enumerate(tasks):
        writer = sink.open("0", str(task))
        writer.write(records(values))
        messages.append(writer.close())
    sink.commit("0", messages)
    narrow, wide = sorted(tmp_path.glob("*.parquet"))
    assert pq.ParquetFile(narrow).num_row_groups == 3
    assert pq.read_table(narrow).to_pylist() == [{"value": "x" * 30, "count": None}] * 9
    assert pq.read_schema(narrow) == pq.read_schema(wide)
    assert small


@pytest.mark.slow
@pytest.mark.parametrize("column", [pa.string(), pa.binary()])
def test_a_column_of_a_commit_may_hold_more_than_two_gibibytes(tmp_path: Path, column: pa.DataType) -> None:
    value = MEGABYTE.encode() if pa.types.is_binary(column) else MEGABYTE
    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        _ = (
            p
            | dm.Create(range(2_200))
            | dm.Map(lambda number: {"number": number, "text": value})
            | dm.io.WriteParquet(tmp_path, schema=pa.schema({"number": pa.int64(), "text": column}))
        )
    [path] = tmp_path.glob("*.parquet")
    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(number) for number in range(file.num_row_groups)]
        assert sum(group.num_rows for group in groups) == 2_200
        assert max(group.num_rows for group in groups) <= BATCH_BYTES // 1_000_000
        assert file.read(columns=["number"])["number"].to_pylist() == list(range(2_200))


@pytest.mark.parametrize("column", [pa.large_string(), pa.list_(pa.large_string())])
def test_a_text_that_is_too_long_for_parquet_is_a_dead_letter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, column: pa.DataType
) -> None:
    monkeypatch.setattr(file_sinks, "_PARQUET_BYTES", 100)
    values: list[Any] = ["x" * 99, "x" * 100, "x" * 30]
    values = values if pa.types.is_large_string(column) else [[value, "y"] for value in values]
    counts, contents = commit(ParquetSink(path=tmp_path, schema=pa.schema({"value": column})), values)
    assert counts == {"rows": 2, "dead_letters": 1}
    assert b"column 'value' holds a text of 2 GiB or more, which Parquet cannot" in b"".join(contents)


def test_a_text_that_is_too_long_for_its_column_names_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    array = shapes._array

    def limited(values: list[Any], field: pa.Field) -> pa.Array | None:
        too_long = pa.types.is_string(field.type) and any(value is not None and len(value) > 9 for value in values)
        return None if too_long else array(values, field)

    monkeypatch.setattr(shapes, "_array", limited)
    monkeypatch.setattr(shapes, "_PERHAPS_LONG", 9)
    [(_, places, misfits)] = fit_batches(records(["x" * 10, "UA"]), pa.schema({"value": pa.string()}), panes=False)
    assert places == [1]
    assert misfits[0].reason.endswith(
        "whose text takes 2 GiB or more: pass a schema with pa.large_string() or pa.large_binary()"
    )


def test_the_size_of_values_includes_the_text_inside_of_them() -> None:
    inner = {"text": "x" * 1_000}
    for value in ("x" * 1_000, b"x" * 1_000, ["x" * 500] * 2, inner, [inner], ("UA", inner), {"x" * 500: "y" * 500}):
        assert 1_000 <= weight_of([value]) <= 1_100
