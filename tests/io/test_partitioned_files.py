"""Files in folders by the values of columns: what other readers see, replaying, and what fits no folder."""

from __future__ import annotations

import datetime
import json
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType, SinkError
from dataflow_model.io.sinks import file_writer, publishing
from dataflow_model.io.sinks.file_sinks import CsvSink, FileSink, JsonSink, ParquetSink
from dataflow_model.io.sinks.partitioned_files import PartitionedWriter, folder_name
from dataflow_model.plan.columns.records import Record
from dataflow_model.time import EventTime
from dataflow_model.values import GLOBAL_WINDOW, NO_FIRING
from tests.support.crashing_commits import every_crash, written
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.local_streams import ROWS as ROWS_OF_STREAMS
from tests.support.runners.local_streams import Stepped, put_rows

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

HOSTS = on_hosts("local", "workers", "process", "batch", slow=("streaming",))
COLUMNS = pa.schema({"n": pa.int64(), "dt": pa.date32(), "gate": pa.string()})
DAY = datetime.date(2024, 5, 1)
ROWS: list[dict[str, Any]] = [
    {"n": 1, "dt": DAY, "gate": "B/7"},
    {"n": 2, "dt": DAY, "gate": None},
    {"n": 3, "dt": None, "gate": "a b=c%"},
    {"n": 4, "dt": DAY, "gate": "B/7"},
    {"n": 5, "dt": DAY + datetime.timedelta(1), "gate": "é"},
]
FORMATS: dict[str, tuple[Any, Any]] = {
    "parquet": (dm.io.WriteParquet, dm.io.ReadParquet),
    "csv": (dm.io.WriteCsv, dm.io.ReadCsv),
    "json": (dm.io.WriteJson, dm.io.ReadJson),
}
SINKS: dict[str, type[FileSink]] = {"parquet": ParquetSink, "csv": CsvSink, "json": JsonSink}


def writing(out: Path, rows: Sequence[Any], kind: str = "parquet", **options: Any) -> Callable[[dm.Pipeline], Any]:
    options = {"schema": COLUMNS, "partition_by": ["dt", "gate"], **options}

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Create(rows) | "out" >> FORMATS[kind][0](out, **options)

    return build


def files(out: Path) -> list[str]:
    """Return the files that readers see, below the folder."""
    names = (path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    return sorted(name for name in names if name[0] != "_")


def read_back(out: Path, kind: str = "parquet", schema: pa.Schema = COLUMNS) -> list[dict[str, Any]]:
    with dm.Pipeline() as p:
        _ = p | FORMATS[kind][1](out, event_time=None, schema=schema) | "rows" >> dm.io.Collect()
    return sorted((record.value._asdict() for record in p.result.collected("rows")), key=lambda row: row["n"])


def dead_letters(out: Path) -> list[str]:
    return [
        json.loads(line)["reason"]
        for file in sorted(out.glob("_dead_letters/*"))
        for line in file.read_text().splitlines()
    ]


@HOSTS
def test_all_hosts_write_the_same_partition_folders(host: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    out = tmp_path / "out"
    run(runner_on(host, request, tmp_path / "checkpoint"), writing(out, ROWS))
    assert sorted({Path(name).parent.as_posix() for name in files(out)}) == [
        "dt=2024-05-01/gate=B%2F7",
        "dt=2024-05-01/gate=__HIVE_DEFAULT_PARTITION__",
        "dt=2024-05-02/gate=é",
        "dt=__HIVE_DEFAULT_PARTITION__/gate=a b%3Dc%25",
    ]
    assert read_back(out) == ROWS
    assert not any({"dt", "gate"} & set(ds.dataset(out / name).schema.names) for name in files(out))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@pytest.mark.parametrize("kind", FORMATS)
@given(
    rows=st.lists(
        st.fixed_dictionaries(
            {
                "text": st.none() | TEXTS | st.sampled_from(["03", "3", ".", "..", "_a", "a=b", "a/b", "%41", "null"]),
                "whole": st.none() | st.integers(-(2**63), 2**63 - 1),
                "day": st.none() | st.dates(),
                "flag": st.none() | st.booleans(),
            }
        ),
        min_size=1,
        max_size=12,
    ),
    by=st.permutations(["text", "whole", "day", "flag"]).flatmap(
        lambda names: st.integers(1, 4).map(lambda k: names[:k])
    ),
    max_open=st.integers(1, 3),
    cut=st.integers(0, 12),
)
def test_rows_in_partitions_are_read_back_unchanged(kind: str, rows: Any, by: Any, max_open: int, cut: int) -> None:
    columns = {"n": pa.int64(), "text": pa.string(), "whole": pa.int64(), "day": pa.date32(), "flag": pa.bool_()}
    rows = [{"n": n, **row} for n, row in enumerate(rows)]
    if kind == "csv":
        rows = [row | {"text": row["text"] or "none"} if "text" not in by else row for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out")
        sink = SINKS[kind](path=out, schema=pa.schema(columns), partition_by=tuple(by), max_open=max_open)
        sink.commit("7", written(sink, "7", rows[:cut], rows[cut:]))
        assert read_back(out, kind, pa.schema(columns)) == rows
        assert not dead_letters(out)


def test_spark_reads_our_partition_folders(tmp_path: Path, spark: SparkSession) -> None:
    out = tmp_path / "out"
    run(dm.LocalRunner(), writing(out, ROWS))
    found = spark.read.parquet(str(out)).orderBy("n").collect()
    assert [row.asDict() for row in found] == ROWS


def test_partition_folders_written_by_spark_are_read(tmp_path: Path, spark: SparkSession) -> None:
    rows = [(row["n"], row["dt"], row["gate"]) for row in ROWS]
    frame = spark.createDataFrame(rows, "n long, dt date, gate string")
    frame.write.partitionBy("dt", "gate").parquet(str(tmp_path / "out"))
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadParquet(tmp_path / "out", event_time=None) | "rows" >> dm.io.Collect()
    assert sorted(record.value for record in p.result.collected("rows")) == [tuple(row.values()) for row in ROWS]


def test_polars_reads_our_partition_folders(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    run(dm.LocalRunner(), writing(tmp_path / "out", ROWS))
    found = polars.scan_parquet(tmp_path / "out" / "**" / "*.parquet", hive_partitioning=True).collect().sort("n")
    assert found.select("n", "dt", "gate").to_dicts() == ROWS


def test_duckdb_reads_our_partition_folders(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    run(dm.LocalRunner(), writing(tmp_path / "out", ROWS))
    pattern = str(tmp_path / "out" / "*" / "*" / "part-*.parquet")
    query = "SELECT n, dt, gate FROM read_parquet(?, hive_partitioning=true) ORDER BY n"
    assert duckdb.execute(query, [pattern]).fetchall() == [tuple(row.values()) for row in ROWS]


@pytest.mark.parametrize("kind", FORMATS)
def test_a_commit_is_rolled_forward_from_every_step_at_which_it_can_crash(kind: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    sink = SINKS[kind](path=out, schema=COLUMNS, partition_by=("dt", "gate"))
    for crash in every_crash():
        messages = written(sink, "7", ROWS[:3], ROWS[3:])
        with crash():
            sink.commit("7", messages)
        sink.commit("7", messages)
        assert read_back(out, kind) == ROWS
        shutil.rmtree(out)
        messages = written(sink, "7", ROWS[:3], ROWS[3:])
        with crash():
            sink.commit("7", messages)
        sink.commit("7", written(sink, "7", ROWS[:1], ROWS[1:4], ROWS[4:]))  # it has run again, cut otherwise
        assert read_back(out, kind) == ROWS
        assert not (out / "_pending").exists()
        shutil.rmtree(out)


def test_the_entries_of_all_folders_are_on_disk_after_a_synced_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = JsonSink(path=tmp_path / "out", schema=COLUMNS, partition_by=("dt", "gate")).synced()
    messages = written(sink, "7", ROWS[:1])
    synced: list[Path] = []
    monkeypatch.setattr(publishing, "_sync", synced.append)
    sink.commit("7", messages)
    out = tmp_path / "out"
    assert {out, out / "dt=2024-05-01", out / "dt=2024-05-01" / "gate=B%2F7"} <= set(synced)


def test_if_exists_applies_to_all_partition_folders(tmp_path: Path) -> None:
    out, local = tmp_path / "out", dm.LocalRunner()
    run(local, writing(out, ROWS[:4]))
    with pytest.raises(SinkError, match=r"contains 3 files of other runs, such as dt=2024-05-01/"):
        run(local, writing(out, ROWS[4:]))
    run(local, writing(out, ROWS[4:], if_exists="add"))
    assert read_back(out) == ROWS
    run(local, writing(out, ROWS[4:], if_exists="replace"))
    assert read_back(out) == ROWS[4:]
    assert [path.name for path in out.iterdir() if path.name[0] != "_"] == ["dt=2024-05-02"]
    run(local, writing(out, ROWS[4:], if_exists="replace", partition_by=[]))
    assert [Path(name).parent.name for name in files(out)] == [""]
    foreign = out / "dt=2024-05-09" / "theirs.parquet"
    foreign.parent.mkdir()
    foreign.touch()
    for name in files(out):
        if "part-" in name:
            (out / name).unlink()
    with pytest.raises(SinkError, match=r"contains 'dt=2024-05-09/theirs\.parquet'"):
        run(local, writing(out, ROWS, if_exists="error"))


@pytest.mark.parametrize("crashes_at_start", [False, True])
def test_a_replacement_that_crashes_leaves_the_old_rows_or_the_new(crashes_at_start: bool, tmp_path: Path) -> None:
    out, seen = tmp_path / "out", set()
    runs = [f"{number:012x}" for number in range(3)]
    for crash in every_crash():
        sink = ParquetSink(path=out, schema=COLUMNS, partition_by=("dt", "gate"), if_exists="replace").bounded()
        sink.commit(runs[0], written(sink, runs[0], ROWS[:2]))
        sink.forget(runs[0])
        messages = written(sink, runs[1], ROWS[2:4], ROWS[4:])
        with crash():
            sink.commit(runs[1], messages)
        for again in every_crash() if crashes_at_start else ():
            with again():
                sink.check_earlier()
        sink.check_earlier()
        content = read_back(out)
        assert content in (ROWS[:2], ROWS[2:])
        seen.add(len(content))
        shutil.rmtree(out)
    assert seen == {2, 3}


def test_a_value_that_cannot_be_a_folder_name_is_a_dead_letter(tmp_path: Path) -> None:
    bad = [{**ROWS[0], "gate": text} for text in ("", "__HIVE_DEFAULT_PARTITION__", "x" * 251)]
    fits = {**ROWS[0], "n": 9, "gate": "x" * 250}
    run(dm.LocalRunner(), writing(tmp_path / "out", [*bad, fits]))
    assert read_back(tmp_path / "out") == [fits]
    reasons = dead_letters(tmp_path / "out")
    assert [reason.partition(", ")[0][:35] for reason in reasons] == [
        "column 'gate' is empty text",
        "column 'gate' holds '__HIVE_DEFAULT",
        "column 'gate' holds 'xxxxxxxxxxxxxx",
    ]


def test_the_number_of_open_files_is_bounded_and_the_least_recently_used_is_closed(tmp_path: Path) -> None:
    events: list[str] = []

    class File:
        def __init__(self, path: Path, schema: pa.Schema) -> None:
            assert schema.names == ["n"]
            self.name = path.name
            events.append(f"open {self.name}")

        def write_batch(self, batch: pa.RecordBatch) -> None:
            events.append(f"{self.name} {batch.column('n').to_pylist()}")

        def close(self) -> None:
            events.append(f"close {self.name}")

    schema = pa.schema({"n": pa.int64(), "k": pa.string()})
    writer = PartitionedWriter(File, tmp_path, str, ["k"], schema, 2)
    for rows in ([(1, "a"), (2, "b"), (3, "a")], [(4, "a")], [(5, "c")], [(6, "b")]):
        writer.write_batch(pa.RecordBatch.from_pylist([{"n": n, "k": k} for n, k in rows], schema))
    writer.close()
    assert events == [
        *("open 0", "0 [1, 3]", "open 1", "1 [2]", "0 [4]", "close 1", "open 2", "2 [5]"),
        *("close 0", "open 3", "3 [6]", "close 3", "close 2"),
    ]
    assert writer.files == [("0", "k=a"), ("1", "k=b"), ("2", "k=c"), ("3", "k=b")]


def test_a_partition_gets_another_file_if_its_first_one_was_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_writer, "_BUFFERED_ROWS", 4)
    out = tmp_path / "out"
    sink = ParquetSink(path=out, schema=pa.schema({"n": pa.int64(), "k": pa.int64()}), partition_by="k", max_open=1)
    writer = sink.open("7", "0")
    for start in range(0, 12, 4):
        writer.write(
            [Record({"n": n, "k": n % 3}, EventTime(0), GLOBAL_WINDOW, NO_FIRING) for n in range(start, start + 4)]
        )
    sink.commit("7", [writer.close()])
    assert files(out) == [f"k={k}/part-7-00000{again}.parquet" for k in range(3) for again in ("-1", "-2", "")]
    assert ds.dataset(out, partitioning="hive").count_rows() == 12


def test_tasks_that_infer_different_types_of_a_partition_are_rejected(tmp_path: Path) -> None:
    sink = ParquetSink(path=tmp_path / "out", partition_by="k")
    with pytest.raises(SinkError, match="partitioned by 'k', which is int64 and string in different rows"):
        sink.commit("7", written(sink, "7", [{"k": 1, "n": 1}], [{"k": "x", "n": 2}]))
    sink.abort("7", [])
    sink.commit("7", written(sink, "7", [{"k": 1, "n": 1}], [{"k": 2, "n": 0.5}, {"k": None, "n": 2.0}]))
    found = read_back(tmp_path / "out", schema=pa.schema({"k": pa.int64(), "n": pa.float64()}))
    assert found == [{"k": 2, "n": 0.5}, {"k": 1, "n": 1.0}, {"k": None, "n": 2.0}]
    kinds = {pq.read_schema(tmp_path / "out" / name).field("n").type for name in files(tmp_path / "out")}
    assert kinds == {pa.float64()}


def test_a_stream_without_a_schema_partitions_by_the_columns_of_its_first_commit(tmp_path: Path) -> None:
    out = tmp_path / "out"
    runner = dm.LocalRunner(checkpoint=tmp_path / "checkpoint")
    run(runner, writing(out, ROWS, schema=None))
    assert read_back(out) == ROWS


def summing(folder: Path, out: Path, by: str) -> Callable[[dm.Pipeline], Any]:
    schema = pa.schema({"key": pa.string(), "value": pa.int64()})

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", schema=ROWS_OF_STREAMS, follow=True)
        pairs = rows | "pairs" >> dm.WithKeys("key", value="n") | dm.Window.into(dm.FixedWindows("10 s"))
        _ = pairs | "sums" >> dm.Sum.per_key() | "out" >> dm.io.WriteJson(out, schema=schema, partition_by=by)

    return build


def test_a_stream_that_starts_again_after_each_step_writes_each_row_to_its_folder_once(tmp_path: Path) -> None:
    folder, out = tmp_path / "rows", tmp_path / "out"
    folder.mkdir()
    for start in (0, 30, 60):
        put_rows(folder, f"{start:02}", [(start + n, "abc"[n % 3], n) for n in range(20)])
    stream = Stepped(summing(folder, out, "key"), tmp_path / "checkpoint", rows=7)
    while stream.steps(1):
        pass
    sums = {
        (start, key): sum(n for n in range(start, start + 10) if "abc"[n % 3] == key)
        for start in (0, 10)
        for key in "abc"
    }
    expected = sorted((key, value) for (_, key), value in sums.items())
    found = [
        (Path(name).parent.name.removeprefix("key="), json.loads(line)["value"])
        for name in files(out)
        for line in (out / name).read_text().splitlines()
    ]
    assert len({Path(name).parent for name in files(out)}) == 3
    # The last window of the last file is open: nothing is behind the watermark that would close it.
    assert sorted(found) == sorted([*expected * 2, *((key, sums[0, key]) for key in "abc")])
    with pytest.raises(dm.CheckpointMismatch, match="partition_by"):
        Stepped(summing(folder, out, "value"), tmp_path / "checkpoint").steps()


def test_panes_can_be_partitions(tmp_path: Path) -> None:
    with dm.Pipeline() as p:
        sums = p | dm.Create([("UA", 1), ("AA", 2), ("UA", 3)]) | dm.Sum.per_key()
        _ = sums | "out" >> dm.io.WriteParquet(tmp_path / "out", panes=True, partition_by=["key", "pane_timing"])
    assert sorted(Path(name).parent.as_posix() for name in files(tmp_path / "out")) == [
        "key=AA/pane_timing=ON_TIME",
        "key=UA/pane_timing=ON_TIME",
    ]


def test_partition_by_with_unsuitable_columns_is_rejected(tmp_path: Path) -> None:
    def sink(by: Any, **options: Any) -> Any:
        return dm.io.WriteParquet(
            tmp_path, schema=pa.schema({"n": pa.int64(), "x": pa.float64()}), partition_by=by, **options
        )

    with pytest.raises(InvalidArgument, match=r"have no column 'dt'\nHint: the columns are n, x"):
        sink("dt")
    with pytest.raises(InvalidArgument, match="cannot be partitioned by 'x', which is double"):
        sink("x")
    with pytest.raises(InvalidArgument, match="names a column twice"):
        sink(["n", "n"])
    with pytest.raises(InvalidArgument, match="must not name '_n', since readers skip"):
        sink("_n")
    with pytest.raises(InvalidType, match="must be the names of columns, got 5"):
        sink(5)
    with pytest.raises(InvalidArgument, match="`max_open` must be a positive whole number, got 0"):
        sink("n", max_open=0)
    with pytest.raises(InvalidArgument, match="partitioned by all of its columns, n"):
        dm.io.WriteJson(tmp_path, schema=pa.schema({"n": pa.int64()}), partition_by="n")
    with pytest.raises(InvalidArgument, match="have no column 'dt'"):
        run(dm.LocalRunner(), writing(tmp_path / "out", [{"n": 1}, {"n": "x"}], schema=None))
    assert folder_name("a=b", "c") == "a%3Db=c"
