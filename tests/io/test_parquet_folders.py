"""Folders of Parquet files that differ, on every host: a file that cannot be read is set aside, the rest is read."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

EVERYWHERE = on_hosts("local", "workers", "process", slow=("batch", "streaming"))
IN_PROCESS = on_hosts("local", "process")


@pytest.fixture
def runner(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Any]:
    """Return what makes the runner of a host."""
    return lambda host, **options: runner_on(host, request, tmp_path / "checkpoint", **options)


def put(folder: Path, name: str, **columns: Any) -> Path:
    """Let a file appear whole."""
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / f".{name}")
    return (folder / f".{name}").rename(folder / name)


def put_damaged(folder: Path, name: str) -> None:
    """Write a file of three row groups of four rows, of which the second one is damaged."""
    file = folder / f".{name}"
    table = pa.table({"at": range(12), "v": ["x"] * 12})
    pq.write_table(table, file, row_group_size=4, compression="none", use_dictionary=False, write_page_checksum=True)
    index = pq.ParquetFile(file).metadata.row_group(1).column(1).data_page_offset
    content = bytearray(file.read_bytes())
    content[index + 20 : index + 40] = bytes(20)
    file.write_bytes(content)
    file.rename(folder / name)


def pairs(folder: Path, **options: Any) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        source = dm.io.ReadParquet(folder, event_time="at", **options)
        rows, dead = p | "rows" >> source.with_exception_handling()
        _ = rows | "pairs" >> dm.Map(lambda row: (row.at, row.v)) | "kept" >> dm.io.Collect()
        _ = dead | "dead" >> dm.io.Collect()

    return build


def without_letters(folder: Path, column: str = "v", **options: Any) -> Callable[[dm.Pipeline], None]:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", **options)
        _ = rows | "values" >> dm.Map(lambda row: row[column]) | "kept" >> dm.io.Collect()

    return build


@EVERYWHERE
def test_a_file_that_cannot_be_read_is_one_dead_letter_and_the_others_are_read(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=[1, 2], v=["a", "b"])
    put(folder, "b.parquet", at=[1, 2, 3], v=[1, 2, 3])
    put(folder, "c.parquet", v=["no", "time"])
    (folder / "d.parquet").write_text("this is no Parquet")
    (folder / "e.parquet").touch()
    put_damaged(folder, "f.parquet")
    put(folder, "g.parquet", at=[5, 6], v=pa.array([b"ok", b"\xff"]).view(pa.string()))
    put(folder, "h.parquet", at=[7.0, 7.5], v=pa.nulls(2))
    result = run(runner(host, max_rows_per_batch=1_000) if host == "streaming" else runner(host), pairs(folder))
    good = [(at, "x") for at in (*range(4), *range(8, 12))]
    assert sorted(record.value for record in result.collected("kept") if record.value[1] is not None) == sorted(
        [(1, "a"), (2, "b"), (5, "ok"), *good]
    )
    assert [record.value for record in result.collected("kept") if record.value[1] is None] == [(7, None)]
    letters = {letter.reason: letter.element for letter in (record.value for record in result.collected("dead"))}
    expected = [
        r"b\.parquet, row 0: none of the 3 rows of the file can be read: column 'v' is int64, not string",
        r"c\.parquet, row 0: none of the 2 rows of the file can be read: it has no column 'at'",
        r"d\.parquet, row 0: .*d\.parquet is not a readable Parquet file: .*",
        r"e\.parquet, row 0: .*e\.parquet is not a readable Parquet file: .*",
        r"f\.parquet, row 4: rows 4 to 7 of the file cannot be read: .*",
        r"g\.parquet, row 1: column 'v' holds b'\\xff', which is not UTF-8",
        r"h\.parquet, row 1: column 'at' is int64 and cannot hold 7\.5",
    ]
    assert len(letters) == len(expected)
    for reason, pattern in zip(sorted(letters), expected, strict=True):
        assert re.fullmatch(pattern, reason, re.DOTALL), reason
        name = reason[:9]
        assert letters[reason] == (str(folder / name) if name[0] < "g" else letters[reason])
    assert "{'at': 6, 'v': b'\\xff'}" in letters.values()


@EVERYWHERE
def test_the_same_rows_are_read_from_drifted_files(runner: Callable[..., Any], tmp_path: Path, host: str) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=pa.array([1], pa.int32()), v=pa.nulls(1))
    put(folder, "b.parquet", at=[2.0], v=["b"])
    put(folder, "c.parquet", at=pa.array([3], pa.uint8()), v=pa.array(["c"]).dictionary_encode())
    put(folder, "d.parquet", v=pa.array(["d"], pa.large_string()), at=pa.array([4], pa.decimal128(5, 1)))
    put(folder, "e.parquet", at=[5])
    result = run(runner(host), pairs(folder))
    values = [record.value for record in result.collected("kept")]
    assert sorted(values) == [(1, None), (2, "b"), (3, "c"), (4, "d"), (5, None)]
    assert not result.collected("dead")


@pytest.mark.parametrize("rows", [1, 2, 1_000])
def test_a_bad_file_is_one_dead_letter_however_it_is_cut(tmp_path: Path, rows: int) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=[1], seen=[1], v=["a"])
    put(folder, "b.parquet", at=[1, 2, 3], seen=[1, 2, 3], v=[1, 2, 3])
    put(folder, "c.parquet", at=[4], seen=[4], v=["c"])
    stream = Stepped(pairs(folder, processing_time="seen", follow=True), tmp_path / "checkpoint", rows=rows)
    while stream.steps(1):  # each step is a start of its own
        pass
    assert [record.value for record in stream.collected("kept")] == [(1, "a"), (4, "c")]
    [letter] = [record.value for record in stream.collected("dead")]
    assert letter.reason.startswith("b.parquet, row 0: none of the 3 rows of the file can be read")


@IN_PROCESS
@pytest.mark.parametrize("name", ["a", "c", "e"])
def test_a_bad_file_does_not_disturb_the_replay_clock(
    runner: Callable[..., Any], tmp_path: Path, host: str, name: str
) -> None:
    def build(p: dm.Pipeline) -> None:
        schema = pa.schema(dict.fromkeys(("at", "seen", "v"), pa.int64()))
        source = dm.io.ReadParquet(folder, event_time="at", processing_time="seen", schema=schema)
        rows, dead = p | "rows" >> source.with_exception_handling()
        hourly = dm.Window.into(dm.FixedWindows("1 hour")).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
        pairs = rows | "pairs" >> dm.Map(lambda row: ("k", row.v))
        _ = pairs | hourly | "sums" >> dm.Sum.per_key() | "kept" >> dm.io.Collect()
        _ = dead | "dead" >> dm.io.Collect()

    folder = tmp_path / "rows"
    put(folder, "b.parquet", at=[1, 2], seen=[1, 2], v=[1, 2])
    put(folder, "d.parquet", at=[3, 4], seen=[3, 4], v=[3, 4])
    (folder / f"{name}.parquet").write_text("this is no Parquet")
    put(folder, f"{name}2.parquet", at=[3, 4], seen=[3, 4], v=["x", "y"])
    put_damaged(folder, f"{name}3.parquet")
    result = run(runner(host), build)
    assert [record.value[1] for record in result.collected("kept")] == [1, 3, 6, 10]
    assert len(result.collected("dead")) == 3


def test_a_bad_file_that_is_replaced_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=[1], v=["a"])
    stream = Stepped(pairs(folder, follow=True), tmp_path / "checkpoint")
    (folder / "b.parquet").write_text("this is no Parquet")
    stream.steps()
    assert len(stream.collected("dead")) == 1
    put(folder, "b.parquet", at=[2], v=["b"])
    stream.steps()
    assert [record.value for record in stream.collected("kept")] == [(1, "a"), (2, "b")]
    assert len(stream.collected("dead")) == 1


BAD_FILES: dict[str, dict[str, Any] | None] = {
    "no Parquet": None,
    "damage inside": {},
    "another kind": {"at": [2], "v": [2], "w": [2]},
    "a value that does not fit": {"at": [2, 2], "v": pa.array([b"\xff", b"b"]), "w": [2, 2]},
    "no event time": {"v": ["b"], "w": [2]},
}


@pytest.mark.parametrize("kind", BAD_FILES)
def test_adding_dead_letters_lets_a_stream_resume_after_a_file_stopped_it(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=[1], v=["a"], w=[1])
    checkpoint = tmp_path / "checkpoint"
    Stepped(without_letters(folder, follow=True), checkpoint).steps()
    columns = BAD_FILES[kind]
    if columns is None:
        (folder / "b.parquet").write_text("this is no Parquet")
    elif not columns:
        put_damaged(folder, "b.parquet")
    else:
        put(folder, "b.parquet", **columns)
    put(folder, "c.parquet", at=[3], v=["c"], w=[3])
    for _ in range(2):
        with pytest.raises(dm.SourceError, match=r"b\.parquet(.|\n)*\.with_exception_handling\(\)"):
            Stepped(without_letters(folder, follow=True), checkpoint).steps()

    def with_letters(p: dm.Pipeline) -> None:
        rows, dead = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True).with_exception_handling()
        _ = rows | "values" >> dm.Map(lambda row: row["v"]) | "kept" >> dm.io.Collect()
        del dead

    stream = Stepped(with_letters, checkpoint)
    stream.steps()
    good = {"a value that does not fit": ["b"], "damage inside": ["x"] * 8}.get(kind, [])
    assert [record.value for record in stream.collected("kept")] == ["a", *good, "c"]
    assert stream.metrics()["rows"]["dead_letters"] == 1


def test_a_schema_without_the_column_at_fault_lets_a_stream_resume(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=[1], v=["a"], w=[1])
    checkpoint = tmp_path / "checkpoint"
    Stepped(without_letters(folder, "w", follow=True), checkpoint).steps()
    put(folder, "b.parquet", at=[2], v=[2], w=[2])
    with pytest.raises(dm.SourceError, match=r"'v' is int64, not string(.|\n)*pass schema= "):
        Stepped(without_letters(folder, "w", follow=True), checkpoint).steps()
    schema = pa.schema({"at": pa.int64(), "w": pa.int64()})
    stream = Stepped(without_letters(folder, "w", follow=True, schema=schema), checkpoint)
    stream.steps()
    assert [record.value for record in stream.collected("kept")] == [1, 2]


def test_a_schema_determines_the_type_of_a_column_that_was_null_when_the_stream_started(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=[1], v=pa.nulls(1))
    checkpoint = tmp_path / "checkpoint"
    Stepped(without_letters(folder, follow=True), checkpoint).steps()
    put(folder, "b.parquet", at=[2], v=["b"])
    with pytest.raises(dm.SourceError, match=r"row 0 of b\.parquet: column 'v' is null and (.|\n)*pass schema= "):
        Stepped(without_letters(folder, follow=True), checkpoint).steps()
    schema = pa.schema({"at": pa.int64(), "v": pa.string()})
    stream = Stepped(without_letters(folder, follow=True, schema=schema), checkpoint)
    stream.steps()
    assert [record.value for record in stream.collected("kept")] == [None, "b"]


def test_an_upgrade_can_change_the_type_of_a_column(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    put(folder, "a.parquet", at=[1], v=[1])
    Stepped(without_letters(folder, follow=True), tmp_path / "old").steps()
    put(folder, "b.parquet", at=[2], v=[2.5])
    with pytest.raises(dm.SourceError, match=r"row 0 of b\.parquet: column 'v' is int64 and cannot hold 2\.5"):
        Stepped(without_letters(folder, follow=True), tmp_path / "old").steps()
    schema = pa.schema({"at": pa.int64(), "v": pa.float64()})
    with pytest.raises(dm.CheckpointMismatch, match="'v' was int64 and is double now"):
        Stepped(without_letters(folder, follow=True, schema=schema), tmp_path / "old").steps()
    dm.upgrade(str(tmp_path / "old"), str(tmp_path / "new"))
    stream = Stepped(without_letters(folder, follow=True, schema=schema), tmp_path / "new")
    stream.steps()
    assert 2.5 in [record.value for record in stream.collected("kept")]


def test_inferred_types_hold_for_later_files_and_restarts(tmp_path: Path) -> None:
    folder = tmp_path / "rows"
    first = put(folder, "a.parquet", at=[1], v=pa.array([1], pa.int16()))
    stream = Stepped(pairs(folder, follow=True), tmp_path / "checkpoint")
    stream.steps()
    first.unlink()
    put(folder, "b.parquet", at=[2, 3], v=[2, 2**40])
    stream.steps()
    put(folder, "c.parquet", at=[4], v=pa.array([4], pa.int8()))
    stream.steps()
    assert [record.value for record in stream.collected("kept")] == [(1, 1), (2, 2), (4, 4)]
    [letter] = [record.value for record in stream.collected("dead")]
    assert letter.reason == "b.parquet, row 1: column 'v' is int16 and cannot hold 1099511627776"


@IN_PROCESS
def test_a_folder_is_read_although_its_first_file_is_damaged(
    runner: Callable[..., Any], tmp_path: Path, host: str
) -> None:
    folder = tmp_path / "rows"
    put(folder, "b.parquet", at=[2], v=["b"])
    (folder / "a.parquet").write_text("this is no Parquet")
    result = run(runner(host), pairs(folder))
    assert [record.value for record in result.collected("kept")] == [(2, "b")]
    assert len(result.collected("dead")) == 1
    (folder / "b.parquet").unlink()
    with pytest.raises(dm.SourceError, match=r"a\.parquet is not a readable Parquet file"):
        pairs(folder)(dm.Pipeline())
