"""Followed folders: each row is read once, whatever happens to the files, and files that went are forgotten."""

from __future__ import annotations

import errno
import functools
import gzip
import itertools
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.errors import SourceError
from dataflow_model.io.csv.csv_options import CsvOptions
from dataflow_model.io.csv.text_sources import CsvSource
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.parquet import parquet_source
from dataflow_model.io.text import row_texts
from dataflow_model.io.text.row_texts import TextFormat
from tests.support.folders import SCHEMA, Folder, Reader
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

both = pytest.mark.parametrize("kind", ["parquet", "csv"])


@both
def test_a_file_that_is_replaced_is_read_from_its_first_row(tmp_path: Path, kind: str) -> None:
    folder = Folder(tmp_path, kind)
    reader = Reader(folder)
    for numbers in (range(10), range(100, 110), range(200, 215), range(300, 303)):
        folder.put("export", numbers)
        assert reader.micro_batch() == list(numbers)
        assert reader.micro_batch() == []
    assert (reader.replaced, reader.lost) == (3, 0)


@both
def test_unread_rows_of_a_replaced_or_removed_file_are_counted_as_lost(tmp_path: Path, kind: str) -> None:
    folder = Folder(tmp_path, kind)
    reader = Reader(folder)
    folder.put("export", range(10))
    assert reader.micro_batch(4) == [0, 1, 2, 3]
    folder.put("export", range(100, 105))
    assert reader.micro_batch(2) == [100, 101]
    assert (reader.replaced, reader.lost) == (1, 6)
    folder.remove("export")
    assert reader.micro_batch() == []
    assert (reader.replaced, reader.lost) == (1, 9)


@both
def test_a_file_with_the_name_of_a_removed_file_is_a_new_file(tmp_path: Path, kind: str) -> None:
    folder = Folder(tmp_path, kind)
    reader = Reader(folder)
    folder.put("hour", range(3))
    assert reader.micro_batch() == [0, 1, 2]
    folder.remove("hour")
    assert reader.micro_batch() == []
    folder.put("hour", range(3))
    assert reader.micro_batch() == [0, 1, 2]
    assert len(set(reader.sequences)) == 6


@both
def test_a_file_that_is_removed_and_rewritten_between_two_polls_is_a_new_file(tmp_path: Path, kind: str) -> None:
    folder = Folder(tmp_path, kind)
    reader = Reader(folder)
    folder.put("hour", range(3))
    assert reader.micro_batch() == [0, 1, 2]
    folder.remove("hour")
    folder.put("hour", range(3, 6))
    assert reader.micro_batch() == [3, 4, 5]


def test_a_replaced_file_of_the_same_size_and_time_is_detected_by_its_content(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "csv")
    reader = Reader(folder)
    folder.put("hour", [10, 11])
    reader.micro_batch()
    folder.writes = 0
    folder.put("hour", [20, 21])
    assert reader.micro_batch() == [20, 21]
    copy = tmp_path / "_copy"
    shutil.copy2(
        folder.file("hour"), copy
    )  # another inode, as after a restore or on a file system that was mounted anew
    copy.rename(folder.file("hour"))
    assert reader.micro_batch() == []
    assert reader.micro_batch() == []


def test_a_replaced_file_of_the_same_size_and_time_is_read_by_its_own_row_index(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "csv")
    reader = Reader(folder)
    for numbers in ([10111], [10, 11], [20111]):
        folder.writes = 0
        folder.put("hour", numbers)
        assert reader.micro_batch() == numbers


def test_only_the_appended_lines_of_a_file_are_read(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "csv")
    reader = Reader(folder)
    folder.put("log", [])
    assert reader.micro_batch() == []
    for numbers in (range(5), range(5, 6), range(6, 30)):
        folder.append("log", numbers)
        assert reader.micro_batch() == list(numbers)
    folder.append("log", range(30, 50))
    assert reader.micro_batch(3) == [30, 31, 32]
    folder.append("log", range(50, 60))
    assert reader.micro_batch() == list(range(33, 60))
    assert (reader.replaced, reader.lost) == (0, 0)


@given(st.lists(st.integers(0, 3_000), min_size=2, max_size=5))
def test_the_row_index_of_a_growing_file_equals_that_of_the_whole_file(counts: Sequence[int]) -> None:
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path), "csv")
        folder.put("log", [])
        file, number = str(folder.file("log")), itertools.count()
        for count in counts:
            folder.append("log", list(itertools.islice(number, count)))
            version = FileVersion.of(file)
            for form in (TextFormat(), TextFormat(delimiter=",", quote='"', ends_at_cr=True)):
                grown = row_texts.row_index(version, form)
                assert grown == row_texts._index(version, form, row_texts.RowIndex(0, ()), 0)


def test_only_the_appended_end_of_a_growing_file_is_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder(tmp_path, "csv")
    folder.put("log", range(5_000))
    index = row_texts.row_index(FileVersion.of(str(folder.file("log"))), TextFormat())
    folder.append("log", range(5_000, 5_010))
    starts: list[int] = []
    whole = row_texts.split

    def spy(version: FileVersion, form: TextFormat, start: int) -> Iterator[row_texts.RowTexts]:
        starts.append(start)
        return whole(version, form, start)

    monkeypatch.setattr(row_texts, "split", spy)
    assert row_texts.row_index(FileVersion.of(str(folder.file("log"))), TextFormat()).count == 5_011
    assert starts == [index.offsets[-1]]
    folder.put("log", range(10_000, 19_000))
    assert row_texts.row_index(FileVersion.of(str(folder.file("log"))), TextFormat()).count == 9_001
    assert starts[1:] == [0]


def test_only_the_newest_index_of_a_growing_file_is_cached(tmp_path: Path) -> None:
    folder = Folder(tmp_path, "csv")
    folder.put("log", range(5))
    for count in range(20):
        folder.append("log", [count])
        row_texts.row_index(FileVersion.of(str(folder.file("log"))), TextFormat())
    assert [
        indexed.index.count for (path, _), indexed in row_texts._indexes.items() if path.startswith(str(tmp_path))
    ] == [26]


def appended(tmp_path: Path, *contents: str | bytes, name: str = "log.csv", **options: Any) -> list[list[str]]:
    """Return the rows that a source reads of a file as it grows."""
    schema = pa.schema({"at": pa.int64(), "note": pa.string()})
    file = tmp_path / name
    source = CsvSource(paths=file, event_time="at", follow=True, given=schema, options=CsvOptions(**options))
    before = 0
    read: list[list[str]] = []
    for content in contents:
        file.write_bytes(content.encode() if isinstance(content, str) else content)
        [origin] = source.origins()
        batches = source.read(name, before, origin.rows)
        read.append([note for batch in batches for note in batch["note"].to_pylist()])
        before = origin.rows or 0
    return read


def test_rows_that_contain_line_breaks_can_be_appended(tmp_path: Path) -> None:
    first = 'at,note\n1,"a\nb"\n'
    assert appended(tmp_path, first, first + '2,"c\n\nd"\n3,e\n') == [["a\nb"], ["c\n\nd", "e"]]


def test_rows_can_be_appended_to_a_file_in_latin_1(tmp_path: Path) -> None:
    first, second = "at,note\n1,é\n".encode("latin-1"), "2,ü\n".encode("latin-1")
    assert appended(tmp_path, first, first + second, encoding="latin-1") == [["é"], ["ü"]]
    with pytest.raises(SourceError, match="had no line end when it was read"):
        appended(tmp_path, first[:-1], first[:-1] + second, name="b.csv", encoding="latin-1")


def test_a_quote_that_was_open_when_its_row_was_read_may_not_be_closed_later(tmp_path: Path) -> None:
    first = 'at,note\n1,"open\n2,b\n'
    with pytest.raises(SourceError, match="had no line end when it was read as a row, but was continued later"):
        appended(tmp_path, first, first + 'closed"\n')


def test_a_compressed_file_may_not_grow(tmp_path: Path) -> None:
    first = gzip.compress(b"at,note\n1,a\n")
    with pytest.raises(
        SourceError, match=r"has grown since it was read, .*\nHint: write what is new into another file"
    ):
        appended(tmp_path, first, first + gzip.compress(b"2,b\n"), name="log.csv.gz")


def test_a_file_replaced_between_listing_and_reading_stops_the_run(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    reader = Reader(folder)
    folder.put("export", range(10))
    [origin] = reader.source.origins()
    assert origin.version is not None
    reader.source.check_version(origin.name, origin.version)
    folder.touch("export")
    reader.source.check_version(origin.name, origin.version)
    folder.put("export", range(100, 110))
    with pytest.raises(
        SourceError, match=r"export\.parquet was replaced before all rows .*\nHint: restore the old file"
    ):
        reader.source.check_version(origin.name, origin.version)


@pytest.mark.parametrize("has_sink", [False, True])
def test_a_stream_stopped_by_a_bad_row_resumes_as_its_hint_describes(tmp_path: Path, *, has_sink: bool) -> None:
    (tmp_path / "rows").mkdir()
    (tmp_path / "rows" / "a.csv").write_text("at,v\n1,1\n2,10\n3,oops\n4,1000\n")
    checkpoint = tmp_path / "checkpoint"

    def run(*, handles: bool) -> Any:
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=checkpoint, max_rows_per_batch=1))
        schema = pa.schema({"at": pa.int64(), "v": pa.int64()})
        source = dm.io.ReadCsv(tmp_path / "rows", event_time="at", schema=schema, follow=True)
        if handles:
            rows, bad = p | source.with_exception_handling()
            _ = bad | "bad" >> dm.io.Collect() if has_sink else None
        else:
            rows = p | source
        pairs = rows | dm.Map(lambda row: ("sum", row.v)) | dm.Window.into(dm.FixedWindows("1 hour"))
        _ = pairs | dm.Sum.per_key() | "sums" >> dm.io.Collect()
        result = p.run(until="drained")
        result.wait_until_finish(timeout=60)
        return result

    with pytest.raises(SourceError, match=r"cannot hold 'oops'.*\nHint: send such rows .* start the run again"):
        run(handles=False)
    if has_sink:
        dm.upgrade(str(checkpoint), str(tmp_path / "carried over"))
        checkpoint = tmp_path / "carried over"
    result = run(handles=True)
    assert [record.value for record in result.collected("sums")] == [("sum", 1011)]
    if has_sink:
        assert [record.value.element for record in result.collected("bad")] == ["3,oops"]


@both
@pytest.mark.parametrize("replacement", [[20, 21, 22], [30]])
def test_a_file_that_changes_between_listing_and_reading_its_last_row_stops_the_run(
    tmp_path: Path, kind: str, replacement: list[int]
) -> None:
    folder = Folder(tmp_path / "rows", kind)
    folder.put("a", [1, 2, 3])
    folder.put("b", [10, 11])
    changes: list[Any] = []

    def change(row: Any) -> Any:
        if not changes:  # both files are listed, and the micro-batch reads both to their ends
            changes.append(row)
            folder.put("b", replacement)
        return row.at

    def build(p: dm.Pipeline) -> None:
        make = dm.io.ReadParquet if kind == "parquet" else dm.io.ReadCsv
        rows = p | "rows" >> make(folder.path, event_time="at", follow=True, schema=SCHEMA)
        _ = rows | dm.Map(change) | "numbers" >> dm.io.Collect()

    stepped = Stepped(build, tmp_path / "checkpoint")
    with pytest.raises(SourceError, match=rf"b\.{kind} was replaced before all rows"):
        stepped.steps()
    stepped.steps()
    assert [record.value for record in stepped.collected("numbers")] == [1, 2, 3, *replacement]


@both
def test_a_restart_reads_no_file_again_and_opens_none(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, kind)
    reader = Reader(folder)
    for name in "abc":
        folder.put(name, range(3))
    assert len(reader.micro_batch()) == 9
    reader.micro_batch()
    again = Reader(folder, reader.offset)
    opened: list[str] = []

    def counts(_: object, version: FileVersion) -> int:
        opened.append(version.path)
        return 3

    monkeypatch.setattr(type(again.source), "count_rows", counts)
    assert again.micro_batch() == []
    assert opened == []
    folder.put("d", range(3))
    assert again.micro_batch() == [0, 1, 2]
    assert opened == [str(folder.file("d"))]


@both
def test_files_that_are_temporarily_inaccessible_stop_the_run_and_are_not_read_again(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Folder(tmp_path, kind)
    reader = Reader(folder)
    folder.put("a", [1, 2])
    assert reader.micro_batch() == [1, 2]
    path = str(folder.file("a"))
    with monkeypatch.context() as patch:  # the folder can be listed but not entered; root may enter any
        for name in ("stat", "lstat"):
            patch.setattr(os, name, functools.partial(refuse, getattr(os, name), path))
        for cold_or_warm in (reader, Reader(folder, reader.offset)):
            with pytest.raises(SourceError, match=rf"^{re.escape(path)} cannot be read: Permission denied"):
                cold_or_warm.micro_batch()
    folder.put("b", [3])
    assert reader.micro_batch() == [3]


def refuse(call: Callable[..., Any], refused: str, path: Any, **options: Any) -> Any:
    """Call a function of the system, which does not let anyone look at one path."""
    if path == refused:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
    return call(path, **options)


def test_an_idle_poll_opens_nothing_however_many_files_there_are(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.put("0", [1])
    for number in range(1, 5_000):
        folder.file(str(number)).hardlink_to(folder.file("0"))
    source = Reader(folder).source
    assert len(source.origins()) == 5_000
    misses = parquet_source._footer.cache_info().misses
    assert len(source.origins()) == 5_000
    assert parquet_source._footer.cache_info().misses == misses


def test_the_offset_marks_a_file_as_done_in_the_micro_batch_that_reads_its_last_row(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    reader = Reader(folder)
    folder.put("export", range(3))
    states = []
    for rows in (2, 1, 1):
        reader.micro_batch(rows)
        source = reader.offset.of_source("rows")
        states.append({"open": [*source.open], "done": [*source.done], "completed": [*source.completed]})
    name = ["export.parquet"]
    assert states == [
        {"open": name, "done": [], "completed": []},
        {"open": [], "done": name, "completed": name},
        {"open": [], "done": name, "completed": []},
    ]


def test_removed_files_leave_nothing_in_the_offset(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    reader = Reader(folder)
    sizes = []
    for number in range(300):
        folder.put(f"{number:06d}", [number])
        assert reader.micro_batch() == [number]
        folder.remove(f"{number:06d}")
        sizes.append(reader.size())
    assert max(sizes[10:]) <= max(sizes[:10]) + 20  # the numbers in it get longer
    assert reader.offset.of_source("rows").rows_read == 300


NAMES = st.sampled_from("abc")
SIZES = st.integers(0, 6)
EVENTS = st.one_of(
    st.tuples(st.just("put"), NAMES, SIZES),
    st.tuples(st.just("append"), NAMES, SIZES),
    st.tuples(st.just("remove"), NAMES, st.none()),
    st.tuples(st.just("micro-batch"), st.none(), st.integers(1, 8)),
    st.tuples(st.just("restart"), st.none(), st.none()),
)


@given(st.sampled_from(["parquet", "csv"]), st.lists(EVENTS, max_size=30))
def test_whatever_happens_to_the_files_each_row_is_read_once_or_counted_as_lost(
    kind: str, events: Sequence[tuple[str, Any, Any]]
) -> None:
    numbers = itertools.count(1)
    with tempfile.TemporaryDirectory() as path:
        folder = Folder(Path(path), kind)
        reader = Reader(folder)
        there: dict[str, list[int]] = {}
        listed: dict[str, list[int]] = {}
        read: list[int] = []
        lost = 0

        def went(name: str) -> int:
            """Return how many rows of a file went unread that had been seen in the folder."""
            return len(set(listed.pop(name, [])) - set(read))

        for event, name, count in [*events, ("micro-batch", None, 1_000), ("micro-batch", None, 1_000)]:
            if event == "put":
                there[name] = list(itertools.islice(numbers, count))
                lost += went(name)
                folder.put(name, there[name])
            elif event == "append" and kind == "csv" and name in there and count:  # appending nothing is a touch
                there[name] += itertools.islice(numbers, count)
                folder.append(name, there[name][len(there[name]) - count :])
            elif event == "remove" and name in there:
                del there[name]
                lost += went(name)
                folder.remove(name)
            elif event == "micro-batch":
                listed = {name: list(rows) for name, rows in there.items()}
                read += reader.micro_batch(count)
                assert reader.offset.of_source("rows").names() == {folder.file(name).name for name in there}
            elif event == "restart":
                counted = reader.lost, reader.sequences
                reader = Reader(folder, reader.offset)
                reader.lost, reader.sequences = counted
        assert sorted(read) == sorted(set(read))
        assert set(read) >= {number for rows in there.values() for number in rows}
        assert reader.lost == lost
        assert len(set(reader.sequences)) == len(read)
        assert reader.offset.of_source("rows").rows_read == len(read)


def test_a_new_file_under_an_earlier_name_has_record_ids_of_its_own(tmp_path: Path) -> None:
    from tests.support.micro_batches import Streamed  # which needs the lowering of the streaming runner

    folder = Folder(tmp_path / "in")
    folder.put("export", [1, 2, 3])

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(str(folder.path), event_time="at", follow=True)
        ids = rows | dm.Map(lambda row, record_id: (record_id, row.at))
        _ = ids | dm.Deduplicate(lambda pair: pair[0], horizon="1 hour") | "kept" >> dm.io.Collect()

    streamed = Streamed(build, tmp_path / "run")
    streamed.step()
    folder.put("export", [4, 5, 6])
    streamed.step()
    folder.remove("export")
    streamed.step()
    folder.put("export", [7, 8, 9])
    streamed.step()
    streamed.step(drain=True)
    assert sorted(record.value[1] for record in streamed.collected("kept")) == list(range(1, 10))
    assert streamed.metrics()["rows"]["files_replaced"] == 1
