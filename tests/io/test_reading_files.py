"""Files as sources: origins, row ranges, formats."""

from __future__ import annotations

import datetime as dt
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, SourceError
from dataflow_model.io import ReadCsv, ReadJson, ReadParquet
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.io.json.json_source import JsonSource
from dataflow_model.io.listing.paths import absolute_path
from dataflow_model.io.parquet.parquet_source import ParquetSource
from dataflow_model.plan.functions.dofn import DeadLetter
from dataflow_model.plan.logical.nodes import Read as ReadNode
from dataflow_model.plan.watermarks.estimators import ARRIVAL, BoundedOutOfOrderness
from dataflow_model.transforms.pipelines.pipeline import Pipeline

if TYPE_CHECKING:
    from dataflow_model.io.files.file_source import FileSource

ROWS = 5_000
SCHEMA = pa.schema(
    {
        "at": pa.timestamp("us", "UTC"),
        "seen": pa.timestamp("us", "UTC"),
        "carrier": pa.string(),
        "delay": pa.int64(),
        "fare": pa.float64(),
    }
)
SOURCES: dict[str, type[FileSource]] = {"parquet": ParquetSource, "csv": CsvSource, "json": JsonSource}


def a_table(rows: int = ROWS) -> pa.Table:
    start = dt.datetime(2013, 1, 1, tzinfo=dt.UTC)
    return pa.table(
        {
            "at": [start + dt.timedelta(seconds=n * 7 % 1000, microseconds=n) for n in range(rows)],
            "seen": [start + dt.timedelta(seconds=n // 3) for n in range(rows)],
            "carrier": [("UA", "AA", "B6, Inc")[n % 3] for n in range(rows)],
            "delay": [None if n % 11 == 0 else n for n in range(rows)],
            "fare": [n / 4 for n in range(rows)],
        },
        schema=SCHEMA,
    )


def write(table: pa.Table, path: Path) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, row_group_size=700)
    elif path.suffix == ".csv":
        pa_csv.write_csv(table, path)
    else:
        lines = [json.dumps(row, default=lambda value: value.isoformat()) for row in table.to_pylist()]
        path.write_text("\n".join(lines) + "\n")
    return path


def a_source(kind: str, path: Any, **options: Any) -> FileSource:
    options.setdefault("event_time", "at")
    return SOURCES[kind](paths=path, **options).bound()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    return {kind: write(a_table(), folder / f"rows.{kind}") for kind in SOURCES}


def read_all(source: FileSource, origin: str, start: int = 0, stop: int | None = None) -> pa.Table:
    return pa.Table.from_batches(list(source.read(origin, start, stop)), schema=source.schema())


@given(data=st.data(), kind=st.sampled_from(sorted(SOURCES)), clock=st.booleans())
def test_reading_in_ranges_gives_the_same_rows_as_reading_at_once(
    files: dict[str, Path], data: st.DataObject, kind: str, clock: bool
) -> None:
    source = a_source(kind, files[kind], given=SCHEMA, processing_time="seen" if clock else None)
    cuts = sorted(data.draw(st.lists(st.integers(0, ROWS), max_size=6)))
    pieces = [read_all(source, f"rows.{kind}", low, high) for low, high in zip([0, *cuts], [*cuts, None], strict=True)]
    assert [piece.num_rows for piece in pieces[:-1]] == [
        high - low for low, high in zip([0, *cuts], cuts, strict=False)
    ]
    assert pa.concat_tables(pieces).combine_chunks() == a_table().combine_chunks()


def test_the_three_formats_give_the_same_rows(files: dict[str, Path]) -> None:
    rows = {}
    for kind, file in files.items():
        source = a_source(kind, file, given=SCHEMA, processing_time="seen")
        decoded = [source.decode(batch) for batch in source.read(file.name, 0, None)]
        rows[kind] = [
            (row, int(at), int(seen))
            for part in decoded
            if part.event_times is not None and part.clock is not None
            for row, at, seen in zip(part.values, part.event_times, part.clock, strict=True)
        ]
    assert len(rows["parquet"]) == ROWS
    assert rows["csv"] == rows["parquet"]
    assert rows["json"] == rows["parquet"]
    row, at, _ = rows["parquet"][1]
    assert row.at == dt.datetime(2013, 1, 1, 0, 0, 7, 1, tzinfo=dt.UTC)
    assert at == 1_356_998_407_000_001


def test_files_are_read_with_inferred_types(files: dict[str, Path]) -> None:
    for kind in ("csv", "json"):
        source = a_source(kind, files[kind])
        assert source.schema().names == SCHEMA.names
        assert sum(len(source.decode(batch).values) for batch in source.read(f"rows.{kind}", 0, None)) == ROWS


def test_origins_are_files_by_name_with_their_rows(tmp_path: Path) -> None:
    (tmp_path / "b" / "_hidden").mkdir(parents=True)
    for kind in SOURCES:
        write(a_table(10), tmp_path / f"z.{kind}")
        write(a_table(20), tmp_path / "b" / f"a.{kind}")
        write(a_table(5), tmp_path / "b" / f"_staged.{kind}")
        write(a_table(5), tmp_path / "b" / "_hidden" / f"a.{kind}")
        write(a_table(5), tmp_path / f".part.{kind}")
        actual = a_source(kind, [tmp_path / "b" / f"a.{kind}", tmp_path / f"z.{kind}"]).origins()
        assert [(origin.name, origin.rows) for origin in actual] == [(f"b/a.{kind}", 20), (f"z.{kind}", 10)]
        assert a_source(kind, tmp_path / "**" / f"*.{kind}").origins() == actual
    only_json = tmp_path / "b"
    assert [origin.name for origin in a_source("json", str(only_json / "*.json")).origins()] == ["a.json"]
    (tmp_path / "_SUCCESS").touch()
    for other in [
        *tmp_path.glob("*.csv"),
        *tmp_path.glob("*.json"),
        *only_json.glob("a.csv"),
        *only_json.glob("a.json"),
    ]:
        other.unlink()
    assert [origin.name for origin in a_source("parquet", tmp_path).origins()] == ["b/a.parquet", "z.parquet"]


@pytest.mark.parametrize("kind", sorted(SOURCES))
def test_the_columns_of_a_replaced_file_of_the_same_size_and_time_are_read_again(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"rows.{kind}"
    sizes = set()
    for name in "nm":
        new = write(pa.table({"at": [1], name: [2]}), tmp_path / f"_new.{kind}")
        os.utime(new, ns=(10**18, 10**18))
        sizes.add(new.stat().st_size)
        new.rename(path)
        assert a_source(kind, path).schema().names == ["at", name]
    assert len(sizes) == 1


def test_empty_lines_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"\n\r\nat,n\r\n\r\n1,10\r\n\n\n2,20\n3,30")
    source = a_source("csv", tmp_path / "a.csv")
    assert source.origins()[0].rows == 3
    assert read_all(source, "a.csv", 1).to_pylist() == [{"at": 2, "n": 20}, {"at": 3, "n": 30}]
    (tmp_path / "a.json").write_bytes(b'\n{"at": 1}\n\r\n\n{"at": 2}')
    assert read_all(a_source("json", tmp_path / "a.json"), "a.json", 1, 5).to_pylist() == [{"at": 2}]


def test_files_and_schemas_without_columns_are_refused(tmp_path: Path) -> None:
    """Their rows could not be counted."""
    (tmp_path / "a.json").write_text("{}\n{}\n")
    pq.write_table(pa.table({"n": [1, 2]}).select([]), tmp_path / "a.parquet")
    for read, name in ((ReadJson, "a.json"), (ReadParquet, "a.parquet")):
        with pytest.raises(InvalidArgument, match=r"a row must have .* files in .* have none\nHint: pass schema="):
            read(tmp_path / name, event_time=None)
        with pytest.raises(InvalidArgument, match=r"a row must have .* but `schema` has none\nHint: pass schema="):
            read(tmp_path / name, event_time=None, schema=pa.schema([]))


def test_objects_without_fields_are_rows_of_nulls(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}\n{}\n")
    for kind in (pa.int64(), pa.date32()):
        source = JsonSource(paths=(tmp_path,), event_time=None, given=pa.schema({"value": kind}))
        [batch] = source.read("a.json", 0, None)
        assert batch.to_pylist() == [{"value": None}, {"value": None}]


def test_projection_reads_the_named_columns_and_the_time_columns(files: dict[str, Path]) -> None:
    for kind, file in files.items():
        source = a_source(kind, file, given=SCHEMA, processing_time="seen").project(["delay"])
        assert source.schema().names == ["at", "seen", "delay"]
        assert read_all(source, file.name, 3, 5) == a_table().select(["at", "seen", "delay"]).slice(3, 2)


def test_only_the_row_groups_of_the_range_are_read(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[int]] = []
    iter_batches = pq.ParquetFile.iter_batches

    def spy(self: Any, *args: Any, **kwargs: Any) -> Any:
        read.append(kwargs["row_groups"])
        return iter_batches(self, *args, **kwargs)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spy)
    assert read_all(a_source("parquet", files["parquet"]), "rows.parquet", 1400, 1401).num_rows == 1
    assert read == [[2]]


def test_a_followed_directory_is_unbounded_and_shows_new_files(tmp_path: Path) -> None:
    source = a_source("parquet", tmp_path, follow=True, given=SCHEMA)
    assert not source.is_bounded
    assert source.origins() == []
    write(a_table(3), tmp_path / "new.parquet")
    assert [origin.rows for origin in source.origins()] == [3]


def test_rows_and_sources_pickle_into_another_process(files: dict[str, Path]) -> None:
    source = a_source("parquet", files["parquet"], watermark=BoundedOutOfOrderness("5 min"))
    assert pickle.loads(pickle.dumps(source)) == source
    rows = source.decode(next(source.read("rows.parquet", 0, 2))).values
    program = "import pickle, sys; rows = pickle.load(sys.stdin.buffer); sys.stdout.buffer.write(pickle.dumps(rows))"
    there = subprocess.run(
        [sys.executable, "-c", program], input=cloudpickle.dumps(rows), capture_output=True, check=True
    )
    back = pickle.loads(there.stdout)
    assert back == rows
    assert type(back[0]) is type(rows[0])


def test_event_time_on_arrival_is_the_replay_clock_if_there_is_one(files: dict[str, Path]) -> None:
    source = a_source("parquet", files["parquet"], event_time=ARRIVAL, processing_time="seen")
    columns = source.columns_of(next(source.read("rows.parquet", 0, 5)))
    assert columns.event_times is columns.clock is not None
    live = a_source("parquet", files["parquet"], event_time=ARRIVAL)
    assert live.columns_of(next(live.read("rows.parquet", 0, 5))).event_times is None


@pytest.mark.parametrize(("kind", "transform"), [("parquet", ReadParquet), ("csv", ReadCsv), ("json", ReadJson)])
def test_the_transforms_make_a_read_node_with_typed_rows(files: dict[str, Path], kind: str, transform: Any) -> None:
    pipeline = Pipeline()
    rows, bad = pipeline | transform(files[kind], event_time="at", schema=SCHEMA).with_exception_handling()
    assert rows.element_type._fields == tuple(SCHEMA.names)
    assert bad.ref.tag == "dead_letters"
    node = pipeline.plan().nodes[0]
    assert isinstance(node, ReadNode)
    assert node.dead_letters == "dead_letters"
    assert node.source.watermark == BoundedOutOfOrderness(0)


class Row(NamedTuple):
    carrier: str


@pytest.mark.parametrize(
    "declared",
    [
        lambda read: read.with_output_types(Row).with_exception_handling(),
        lambda read: read.with_exception_handling().with_output_types(Row),
    ],
)
def test_a_declared_type_applies_to_the_rows_and_not_to_dead_letters(files: dict[str, Path], declared: Any) -> None:
    rows, bad = Pipeline() | declared(ReadParquet(files["parquet"], event_time="at"))
    assert rows.element_type is Row
    assert bad.element_type is DeadLetter


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"event_time": "when"},
            InvalidArgument,
            r"'when', which does not exist\nHint: the columns are at, seen, carrier",
        ),
        ({"event_time": "fare"}, InvalidArgument, "'fare' has type double"),
        (
            {"event_time": "at", "processing_time": "clock"},
            InvalidArgument,
            "`processing_time` names the column 'clock'",
        ),
        ({"event_time": 5}, InvalidType, "must be a column's name, dm.ARRIVAL or None, got 5"),
        (
            {"event_time": "at", "watermark": [5]},
            InvalidType,
            "`watermark` must be an estimator or a duration, got \\[5\\]",
        ),
        (
            {"event_time": "at", "watermark": BoundedOutOfOrderness},
            InvalidType,
            "must be an estimator or a duration, got <class ",
        ),
        ({"event_time": "at", "partitions": 5}, InvalidType, r"`partitions` must be a list of names, got 5\nHint: "),
        ({"event_time": "at", "schema": {"at": int}}, InvalidType, "must be a pyarrow.Schema"),
    ],
)
def test_wrong_options_are_refused_at_construction(
    files: dict[str, Path], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        ReadParquet(files["parquet"], **options)


@pytest.mark.parametrize("path", [None, 5, [None]])
def test_a_value_that_is_not_a_path_is_refused_at_construction(path: Any) -> None:
    with pytest.raises(InvalidType, match=r"a path must be text.* pathlib\.Path.*, got (None|5)\nHint: pass 'data/"):
        ReadParquet(path, event_time="at")


class _OfBytes:
    def __fspath__(self) -> bytes:
        return b"data"


@pytest.mark.parametrize("path", [b"data", bytearray(b"data"), [b"data"], ["more", b"data"], _OfBytes()])
def test_a_path_of_bytes_is_refused_with_the_function_that_decodes_it(path: Any) -> None:
    with pytest.raises(InvalidType, match=r"a path must be text.*\nHint: decode it: os\.fsdecode\(b'data'\)"):
        ReadParquet(path, event_time="at")


@pytest.mark.parametrize(
    "use",
    [
        lambda path: ReadParquet(path, event_time="at"),
        lambda path: ReadParquet([path], event_time="at"),
        dm.io.WriteText,
        lambda path: dm.LocalRunner(checkpoint=path),
        lambda path: dm.SparkRunner(None, "streaming", checkpoint=path),
    ],
)
@pytest.mark.parametrize("path", ["data/a\0b", "file:///data/a%00b"])
def test_a_path_with_a_null_character_is_refused(use: Any, path: str) -> None:
    with pytest.raises(InvalidArgument, match=r"a path cannot contain the character NUL, got .*a\\x00b'\nHint: "):
        use(path)


def test_a_path_without_files_is_an_error_at_plan_time(tmp_path: Path) -> None:
    source = ReadParquet(tmp_path / "none", event_time="at").source
    assert isinstance(source, ParquetSource)
    with pytest.raises(SourceError, match=r"there is no file in .*none"):
        source.origins()
    waiting = ReadParquet(tmp_path / "none", event_time="at", follow=True).source
    assert isinstance(waiting, ParquetSource)
    with pytest.raises(SourceError, match="are not known\nHint: pass schema="):
        waiting.schema()


def test_the_url_of_a_local_file_is_its_path_however_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "my flights"
    for name in (str(folder), folder.as_uri(), f"file:{tmp_path}/my%20flights"):
        assert absolute_path(name) == str(folder)


@pytest.mark.parametrize("url", ["s3://bucket/flights", Path("s3://bucket/flights"), "dbfs:/flights", "file://host/a"])
def test_a_url_of_another_scheme_is_not_taken_for_a_relative_path(url: str | Path) -> None:
    with pytest.raises(InvalidArgument, match="must be on a mounted file system, got the URL"):
        absolute_path(url)
