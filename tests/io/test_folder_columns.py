"""Columns in the names of folders, such as `dt=2024-05-01/hour=03/`: read with types, and folders that are skipped."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, SourceError
from dataflow_model.io.listing.folder_columns import value_in, with_folder_columns
from dataflow_model.io.listing.folder_filter import FolderFilter, checked_filter
from dataflow_model.io.listing.listed_folder import ListedFolder
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HOSTS = on_hosts("local", "workers", "process", "batch", slow=("streaming",))
READERS: dict[str, Any] = {"parquet": dm.io.ReadParquet, "csv": dm.io.ReadCsv, "json": dm.io.ReadJson}
FORMATS = pytest.mark.parametrize("kind", READERS)


def put(folder: Path, rows: list[dict[str, Any]], kind: str = "parquet", name: str = "part-0") -> Path:
    """Let a file appear whole."""
    folder.mkdir(parents=True, exist_ok=True)
    fresh = folder / f".{name}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), fresh)
    elif kind == "json":
        fresh.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        lines = [list(rows[0]), *(list(row.values()) for row in rows)]
        fresh.write_text("".join(",".join("" if v is None else str(v) for v in line) + "\n" for line in lines))
    return fresh.rename(folder / f"{name}.{kind}")


def collected(kind: str, path: Any, runner: Any = None, **options: Any) -> list[dict[str, Any]]:
    """Return the rows that are read, in order of `n`."""
    options = {"event_time": None, **options}

    def build(p: dm.Pipeline) -> None:
        _ = p | "rows" >> READERS[kind](path, **options) | "out" >> dm.io.Collect()

    result = run(dm.LocalRunner() if runner is None else runner, build)
    return sorted((record.value._asdict() for record in result.collected("out")), key=lambda row: row["n"])


def with_letters(folder: Path, kind: str = "parquet", **options: Any) -> tuple[list[Any], list[str]]:
    """Return the rows that are read, and the reasons of the bad ones."""
    with dm.Pipeline() as p:
        rows, letters = p | READERS[kind](folder, event_time=None, **options).with_exception_handling()
        _ = rows | "out" >> dm.io.Collect()
        _ = letters | "reasons" >> dm.Map(lambda letter: letter.reason) | "bad" >> dm.io.Collect()
    return (
        [record.value._asdict() for record in p.result.collected("out")],
        [record.value for record in p.result.collected("bad")],
    )


@HOSTS
def test_all_hosts_read_columns_with_types_from_the_names_of_folders(
    host: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder = tmp_path / "rows"
    put(folder / "dt=2024-05-01" / "hour=03" / "n=7", [{"v": 1}, {"v": 2}])
    put(folder / "dt=2024-05-02" / "hour=__HIVE_DEFAULT_PARTITION__" / "n=12", [{"v": 3}])

    def build(p: dm.Pipeline) -> None:
        _ = p | "rows" >> dm.io.ReadParquet(folder, event_time="dt") | "out" >> dm.io.Collect()

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    found = sorted((record.value, str(record.event_time)) for record in result.collected("out"))
    first, second = "EventTime(2024-05-01T00:00:00Z)", "EventTime(2024-05-02T00:00:00Z)"
    assert found == [
        ((1, date(2024, 5, 1), "03", 7), first),
        ((2, date(2024, 5, 1), "03", 7), first),
        ((3, date(2024, 5, 2), None, 12), second),
    ]


@FORMATS
def test_readers_of_all_formats_have_the_columns_of_folders_with_types_from_the_schema(
    kind: str, tmp_path: Path
) -> None:
    put(tmp_path / "gate=B%2F7" / "hour=03", [{"n": 1}], kind)
    put(tmp_path / "gate=caf%C3%A9" / "hour=11", [{"n": 2}], kind)
    assert collected(kind, tmp_path) == [
        {"n": 1, "gate": "B/7", "hour": "03"},
        {"n": 2, "gate": "café", "hour": "11"},
    ]
    schema = pa.schema({"hour": pa.int8(), "n": pa.int64()})
    assert collected(kind, tmp_path, schema=schema) == [{"hour": 3, "n": 1}, {"hour": 11, "n": 2}]
    assert collected(kind, tmp_path, hive_partitioning=False) == [{"n": 1}, {"n": 2}]


@FORMATS
def test_a_pipeline_that_uses_only_the_columns_of_folders_counts_all_rows(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "day=1", [{"n": 1}, {"n": 2}], kind)
    put(tmp_path / "day=2", [{"n": 3}], kind)
    with dm.Pipeline() as p:
        rows = p | READERS[kind](tmp_path, event_time=None)
        _ = rows | dm.WithKeys("day", value="day") | dm.Count.per_key() | "out" >> dm.io.Collect()
    assert sorted(record.value for record in p.result.collected("out")) == [(1, 2), (2, 1)]


def test_folders_above_the_path_are_not_columns(tmp_path: Path) -> None:
    put(tmp_path / "dt=2024-05-01" / "hour=3", [{"n": 1}])
    assert collected("parquet", tmp_path / "dt=2024-05-01") == [{"n": 1, "hour": 3}]
    assert collected("parquet", str(tmp_path / "dt=*" / "hour=3")) == [{"n": 1, "dt": date(2024, 5, 1), "hour": 3}]


@FORMATS
def test_a_row_that_contradicts_the_name_of_its_folder_is_a_bad_row(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "day=01", [{"n": 1, "day": 1}, {"n": 2, "day": 2}], kind)
    with pytest.raises(
        SourceError, match=r"(row 1|line [23]) of day=01.*column 'day' holds '?2'? in the file, but.* says '01'"
    ):
        collected(kind, tmp_path)
    rows, reasons = with_letters(tmp_path, kind)
    assert rows == [{"n": 1, "day": 1}]
    assert len(reasons) == 1
    assert "its folder says '01'" in reasons[0]


@FORMATS
def test_a_null_in_a_row_is_replaced_by_the_value_in_the_name_of_its_folder(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "day=5", [{"n": 1, "day": None}, {"n": 2, "day": 5}], kind)
    assert [row["day"] for row in collected(kind, tmp_path)] == [5, 5]


@pytest.mark.parametrize("stated", [False, True], ids=["inferred", "stated"])
def test_parquet_types_may_differ_between_partitions(tmp_path: Path, stated: bool) -> None:
    put(tmp_path / "day=1", [{"n": 1, "x": 1, "day": 1}])
    put(tmp_path / "day=2", [{"n": 2, "x": 2.0}, {"n": 3, "x": 2.5}])
    put(tmp_path / "day=3", [{"n": 4, "x": 3, "day": "3"}, {"n": 5, "x": 4, "day": "4"}])
    schema = pa.schema({"n": pa.int64(), "x": pa.int64(), "day": pa.int64()}) if stated else None
    rows, reasons = with_letters(tmp_path, schema=schema)
    assert [(row["n"], row["day"]) for row in rows] == [(1, 1), (2, 2), (4, 3)]
    assert [reason.partition(": ")[2] for reason in sorted(reasons)] == [
        "column 'x' is int64 and cannot hold 2.5",
        "column 'day' holds '4' in the file, but its folder says '3'",
    ]


@FORMATS
def test_times_in_the_names_of_folders_need_event_time_unit(kind: str, tmp_path: Path) -> None:
    put(tmp_path / "at=1709315512", [{"n": 1}], kind)
    with pytest.raises(InvalidArgument, match="event_time_unit"):
        READERS[kind](tmp_path, event_time="at")
    with pytest.raises(InvalidArgument, match="event_time_unit"):
        READERS[kind](tmp_path, event_time="at", schema=pa.schema({"n": pa.int64(), "at": pa.int64()}))
    assert collected(kind, tmp_path, event_time="at", event_time_unit="s") == [{"n": 1, "at": 1709315512}]


def test_files_in_folders_of_different_columns_are_rejected(tmp_path: Path) -> None:
    put(tmp_path / "dt=2024-05-01", [{"n": 1}])
    put(tmp_path, [{"n": 2}])
    with pytest.raises(InvalidArgument, match=r"(?s)lies in folders of dt, but .* in no folder .*hive_partitioning=F"):
        dm.io.ReadParquet(tmp_path, event_time=None)
    with pytest.raises(InvalidArgument, match="lies in folders of dt"):
        dm.io.ReadParquet(tmp_path, event_time=None, schema=pa.schema({"n": pa.int64()}))
    assert collected("parquet", tmp_path, hive_partitioning=False) == [{"n": 1}, {"n": 2}]


def test_hive_partitioning_can_be_required(tmp_path: Path) -> None:
    put(tmp_path, [{"n": 2}])
    with pytest.raises(InvalidArgument, match="needs files in folders such as"):
        dm.io.ReadParquet(tmp_path, event_time=None, hive_partitioning=True)


def test_a_repeated_folder_column_and_files_without_other_columns_are_rejected(tmp_path: Path) -> None:
    put(tmp_path / "a" / "x=1" / "x=2", [{"n": 1}])
    with pytest.raises(InvalidArgument, match="name a column twice: x, x"):
        dm.io.ReadParquet(tmp_path / "a", event_time=None)
    put(tmp_path / "b" / "x=1", [{"x": 1}])
    with pytest.raises(InvalidArgument, match="must have a column beside those in the names of folders, x"):
        dm.io.ReadParquet(tmp_path / "b", event_time=None)


def following(folder: Path, **options: Any) -> Callable[[dm.Pipeline], Any]:
    def build(p: dm.Pipeline) -> None:
        source = dm.io.ReadParquet(folder, event_time=dm.ARRIVAL, follow=True, **options)
        rows, letters = p | "rows" >> source.with_exception_handling()
        _ = rows | "pairs" >> dm.Map(lambda row: (row.n, row.hour)) | "out" >> dm.io.Collect()
        _ = letters | "reasons" >> dm.Map(lambda letter: letter.reason) | "bad" >> dm.io.Collect()

    return build


def test_the_inferred_types_of_folder_columns_hold_for_later_folders_and_restarts(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    first = put(folder / "hour=3", [{"n": 1}])
    stream = Stepped(following(folder), tmp_path / "checkpoint")
    stream.steps()
    first.unlink()
    first.parent.rmdir()
    put(folder / "hour=011", [{"n": 2}])  # alone, it would be text
    put(folder / "hour=night", [{"n": 3}])
    put(folder / "hour=4" / "minute=5", [{"n": 4}])
    put(folder, [{"n": 5}])
    stream.steps()
    put(folder / "hour=12", [{"n": 6}])
    stream.steps()
    assert sorted(record.value for record in stream.collected("out")) == [(1, 3), (2, 11), (6, 12)]
    reasons = sorted(record.value.split(": ", 1)[1] for record in stream.collected("bad"))
    assert reasons == [
        "it lies in folders of hour, minute, not in folders of hour",
        "it lies in no folder of the form name=value, not in folders of hour",
        "its folder says hour='night', but the column is int64",
    ]


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_stream_that_begins_with_an_empty_folder_has_the_columns_of_its_schema(kind: str, tmp_path: Path) -> None:
    folder, schema = tmp_path / "rows", pa.schema({"dt": pa.date32(), "n": pa.int64()})
    folder.mkdir()

    def build(p: dm.Pipeline) -> None:
        source = READERS[kind](folder, event_time="dt", follow=True, schema=schema)
        rows, letters = p | "rows" >> source.with_exception_handling()
        _ = rows | "out" >> dm.io.Collect()
        _ = letters | "bad" >> dm.io.Collect()

    stream = Stepped(build, tmp_path / "checkpoint")
    stream.steps()
    put(folder / "dt=2024-05-01" / "hour=3", [{"n": 1}], kind)
    stream.steps()
    put(folder / "dt=soon" / "hour=4", [{"n": 2}], kind)
    put(folder, [{"n": 3, "dt": "2024-05-02"}] if kind == "json" else [{"n": 3, "dt": date(2024, 5, 2)}], kind)
    stream.steps()
    assert [record.value for record in stream.collected("out")] == [(date(2024, 5, 1), 1)]
    reasons = sorted(record.value.reason.split(": ", 1)[1] for record in stream.collected("bad"))
    assert reasons[0] == "it lies in no folder of the form name=value, not in folders of dt"
    assert reasons[1] == "its folder says dt='soon', but the column is date32[day]"


def test_a_filter_stays_valid_when_a_file_in_no_folder_appears(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder / "hour=3", [{"n": 1}])
    stream = Stepped(following(folder, partition_filter=[("hour", "<", 10)]), tmp_path / "checkpoint")
    stream.steps()
    put(folder, [{"n": 2}], name="a")
    stream.steps()
    put(folder / "hour=4", [{"n": 3}])
    stream.steps()
    assert sorted(record.value for record in stream.collected("out")) == [(1, 3), (3, 4)]
    assert len(stream.collected("bad")) == 1


@given(
    st.sets(
        st.none() | st.from_regex(r"-?[0-9]{1,20}|[0-9]{4}-[0-9]{2}-[0-9]{2}|[a-c]{0,2}", fullmatch=True), min_size=1
    )
)
def test_the_inferred_type_of_a_folder_column_preserves_the_text_of_the_names(values: set[str | None]) -> None:
    columns = with_folder_columns(pa.schema({"n": pa.int64()}), {"k": values}, is_stated=False, types={})
    kind = columns.field("k").type
    texts = pa.array(sorted(values, key=str), pa.string())
    assert texts.cast(kind).cast(pa.string()) == texts


def test_new_folders_appear_while_a_stream_runs_and_those_filtered_out_are_skipped(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder / "hour=3", [{"n": 1}])
    stream = Stepped(following(folder, partition_filter=[("hour", "<", 10)]), tmp_path / "checkpoint")
    with stream.opened() as opened:
        opened.step()
        put(folder / "hour=4", [{"n": 2}])
        put(folder / "hour=12", [{"n": 3}])
        (folder / "hour=13").mkdir()
        (folder / "hour=13" / "broken.parquet").write_text("no Parquet")
        while opened.step():
            pass
    assert sorted(record.value for record in stream.collected("out")) == [(1, 3), (2, 4)]
    assert not stream.collected("bad")


@pytest.mark.parametrize("path", [".", "dt=*", "**", "dt=*/hour=*/*.parquet"])
def test_folders_that_do_not_match_the_filter_are_neither_listed_nor_opened(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "dt=2024-05-01" / "hour=3", [{"n": 1}])
    put(tmp_path / "dt=2024-05-02" / "hour=3", [{"n": 2}])
    put(tmp_path / "dt=2024-05-02" / "hour=4", [{"n": 3}])
    put(tmp_path / "dt=2024-05-03" / "hour=4", [{"n": 4}]).write_text("broken")
    listed = []
    look = ListedFolder.look

    def counted(self: ListedFolder, *args: Any, **options: Any) -> None:
        listed.append(self.path)
        look(self, *args, **options)

    monkeypatch.setattr(ListedFolder, "look", counted)
    conditions = [("dt", "in", [date(2024, 5, 1), date(2024, 5, 2)]), ("hour", "!=", 4)]
    rows = collected("parquet", str(tmp_path / path), partition_filter=conditions)
    assert [row["n"] for row in rows] == [1, 2]
    assert not any("05-03" in name or "hour=4" in name for name in listed)


def test_a_list_of_paths_is_filtered_too(tmp_path: Path) -> None:
    folders = [tmp_path / f"day={day}" for day in (1, 2, 3)]
    files = [put(folder, [{"n": n}]) for n, folder in enumerate(folders)]
    paths = [folders[0], files[1], files[2]]
    assert collected("parquet", paths, partition_filter=[("day", ">=", 3)]) == [{"n": 2, "day": 3}]
    assert collected("parquet", paths, partition_filter=[("day", "<", 3)]) == [{"n": 0, "day": 1}, {"n": 1, "day": 2}]


def test_a_filter_that_does_not_suit_the_columns_is_rejected(tmp_path: Path) -> None:
    put(tmp_path / "dt=2024-05-01" / "hour=03", [{"n": 1}])

    def read(*conditions: Any) -> Any:
        return dm.io.ReadParquet(tmp_path, event_time=None, partition_filter=list(conditions))

    with pytest.raises(InvalidArgument, match=r"names 'n', which is no column of the folders\nHint: .*dt, hour"):
        read(("n", "==", 1))
    with pytest.raises(InvalidArgument, match=r"compares 'dt', which is date32\[day\], with 5"):
        read(("dt", ">", 5))
    with pytest.raises(InvalidArgument, match="must be one of ==, !="):
        read(("dt", "=", "2024-05-01"))
    with pytest.raises(InvalidType, match="needs a list of values, got '2024-05-01'"):
        read(("dt", "in", "2024-05-01"))
    with pytest.raises(InvalidType, match=r"text, whole numbers or dates, got 0\.5"):
        read(("dt", "<", 0.5))
    with pytest.raises(InvalidType, match=r"must be \(column, comparison, value\), got 'dt'"):
        read("dt")
    with pytest.raises(SourceError, match="`partition_filter` skips other folders"):
        collected("parquet", tmp_path, partition_filter=[("dt", "<", "2024-01-01")])
    assert collected("parquet", tmp_path, partition_filter=[("hour", "==", 3)])[0]["hour"] == 3
    assert collected("parquet", tmp_path, partition_filter=[("hour", "==", "03")])[0]["hour"] == "03"


def test_explain_shows_the_columns_of_folders_and_the_filter(tmp_path: Path) -> None:
    put(tmp_path / "dt=2024-05-01", [{"n": 1}])
    p = dm.Pipeline()
    _ = p | dm.io.ReadParquet(tmp_path, event_time=None, partition_filter=[("dt", ">", "2024")]) | dm.io.Collect()
    assert "Parquet files with dt from the names of folders where dt > '2024'" in p.explain()


@given(st.integers(), st.none() | st.integers(), st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
def test_a_filter_compares_like_python_and_null_equals_only_null(operand: int, value: int | None, sign: str) -> None:
    name = f"n={'__HIVE_DEFAULT_PARTITION__' if value is None else value}"
    assert value_in(name) == ("n", None if value is None else str(value))
    meets = not FolderFilter((("n", sign, operand),)).skips(name)
    assert meets == (value is not None and eval(f"value {sign} operand"))  # noqa: S307 - the signs are ours
    assert FolderFilter((("n", "==", None),)).skips(name) == (value is not None)
    both = checked_filter([("n", "in", [None, operand])])
    assert both.skips(name) == (value is not None and value != operand)
