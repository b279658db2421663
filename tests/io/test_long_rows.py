"""Rows of more than 64 MiB: bad rows of which little is kept, and the rows behind them are read."""

from __future__ import annotations

import json
import tempfile
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pytest
from hypothesis import example, given

import dataflow_model as dm
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.text import row_texts, unpacking
from dataflow_model.io.text.row_texts import TextFormat, count_appended, read_rows, row_index, split
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run
from tests.support.runners.local_streams import Stepped

if TYPE_CHECKING:
    from collections.abc import Iterable

LIMIT = 1 << 26
TEXTS = st.lists(st.sampled_from(["a", ",", '"', "\n", "\r", "#", "ü", "aaaaaaaaaa", '"a', 'a"', "\r\n"])).map("".join)
FORMATS = [
    TextFormat(),
    TextFormat(keeps_blank=True),
    TextFormat(delimiter=",", quote='"', ends_at_cr=True),
    TextFormat(delimiter=",", quote='"', ends_at_cr=True, comment="#", skipped=1),
]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Limit rows to 20 bytes, of which 4 are kept."""
    monkeypatch.setattr(row_texts, "_LONGEST", 20)
    monkeypatch.setattr(row_texts, "_SHOWN", 4)
    return 20


def rows_of(parts: Iterable[row_texts.RowTexts]) -> list[tuple[int, bytes, int]]:
    """Return where each row begins, what is kept of it, and its size if it is too long."""
    return [
        (
            part.offset + int(part.starts[index]),
            part.text(index, index + 1).rstrip(b"" if part.omitted else b"\r\n"),
            part.omitted and part.size(index),
        )
        for part in parts
        for index in range(len(part))
    ]


@given(TEXTS, st.sampled_from(FORMATS))
@example('"a\r\n' + "a" * 30 + '"\r\nb', FORMATS[2])
@example("x\n#" + "a" * 30 + "\r\nb\r", FORMATS[3])
@example("a" * 21 + "\r\n" + "ü" * 10 + "\r\n" + "ü" * 11, FORMATS[0])
def test_long_rows_are_found_wherever_blocks_are_cut(text: str, form: TextFormat) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        version = written(folder, text.encode())
        expected = rows_of(split(version, form))
        patch.setattr(row_texts, "_LONGEST", 20)
        patch.setattr(row_texts, "_SHOWN", 4)
        for size in (1, 3, 7, 1 << 20):
            patch.setattr(unpacking, "BLOCK", size)
            patch.setattr(unpacking, "_FIRST", size)
            rows = rows_of(split(version, form))
            assert [(begin, size or len(kept)) for begin, kept, size in rows] == [
                (begin, len(row)) for begin, row, _ in expected
            ]
            for (_, kept, omitted), (_, row, _) in zip(rows, expected, strict=True):
                assert (row.startswith(kept) and len(kept) in {3, 4}) if omitted else kept == row


def written(folder: Any, content: bytes) -> FileVersion:
    path = Path(folder, "a.csv")
    path.write_bytes(content)
    return FileVersion.of(str(path))


def test_rows_are_found_by_the_index_around_a_long_one(small: int, tmp_path: Path) -> None:
    lines = [b"%d" % number for number in range(3000)]
    lines[2048] = b"x" * (small + 1)
    version = written(tmp_path, b"\n".join(lines))
    form = TextFormat()
    assert row_index(version, form).count == 3000
    assert [kept for _, kept, _ in rows_of(read_rows(version, form, 2047, 2050))] == [b"2047", b"xxxx", b"2049"]
    assert [kept for _, kept, _ in rows_of(read_rows(version, form, 2049, 2050))] == [b"2049"]


def test_a_long_last_line_that_is_continued_is_an_error(small: int, tmp_path: Path) -> None:
    form = TextFormat()
    content = b"a\n" + b"x" * (small + 5)
    assert row_index(written(tmp_path, content), form).complete == 1
    assert count_appended(written(tmp_path, content + b"\nb\n"), form, len(content), 2) == 1
    with pytest.raises(dm.SourceError, match="had no line end when it was read as a row, but was continued"):
        count_appended(written(tmp_path, content + b"y\nb\n"), form, len(content), 2)


def test_a_long_row_and_a_long_skipped_line_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_texts, "_LONGEST", 1 << 20)
    monkeypatch.setattr(unpacking, "BLOCK", 1 << 16)
    for form in (TextFormat(), TextFormat(skipped=1)):
        version = written(tmp_path, b"x" * (16 << 20) + b"\ny\n")
        tracemalloc.start()
        rows = rows_of(split(version, form))
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert rows[-1] == ((16 << 20) + 1, b"y", 0)
        assert most < 8 << 20


@pytest.fixture(scope="module")
def long_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose second row has one byte too many."""
    path = tmp_path_factory.mktemp("long") / "a.csv"
    path.write_bytes(b"n,note\n1,a\n2," + b"x" * (LIMIT - 1) + b"\n3,b\n")
    return path


@on_hosts("local", slow=("workers", "process", "batch", "streaming"))
def test_all_hosts_send_a_long_row_to_the_dead_letters(
    host: str, long_file: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    def build(p: dm.Pipeline) -> None:
        rows, bad = p | dm.io.ReadCsv(long_file, event_time=None).with_exception_handling()
        _ = rows | dm.Map(lambda row: row.n) | "rows" >> dm.io.Collect()
        _ = bad | "bad" >> dm.io.Collect()

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    assert sorted(record.value for record in result.collected("rows")) == [1, 3]
    [letter] = [record.value for record in result.collected("bad")]
    assert letter.element == "2," + "x" * 998 + "…"
    assert letter.reason == f"a.csv, line 3: it has {LIMIT + 1} bytes, and a row may have at most 64 MiB"


def test_without_dead_letters_the_error_names_the_line_the_limit_and_the_way_out(small: int, tmp_path: Path) -> None:
    written(tmp_path, b"a\nb\n" + b"x" * (small + 10))
    with pytest.raises(dm.SourceError) as caught:
        run(dm.LocalRunner(), lambda p: p | dm.io.ReadText(tmp_path) | dm.Map(len) | dm.io.Collect())
    message = str(caught.value)
    assert "cannot read line 3 of a.csv: it has 30 bytes, and a row may have at most 64 MiB" in message
    assert "check that the file is text with one row on each line" in message
    assert ".with_exception_handling()" in message


def test_a_header_that_is_too_long_is_an_error(small: int, tmp_path: Path) -> None:
    del small
    written(tmp_path, b"a" * 30 + b"\n1\n")
    with pytest.raises(dm.SourceError, match=r"the header of .*a\.csv is too long: it has 30 bytes"):
        dm.io.ReadCsv(tmp_path, event_time=None)


def test_a_stream_continues_after_a_long_line_and_after_a_restart(small: int, tmp_path: Path) -> None:
    del small
    folder = tmp_path / "in"
    folder.mkdir()
    file = folder / "a.json"
    lines = [json.dumps({"n": number}) + "\n" for number in range(6)]
    file.write_text(lines[0] + "{" + " " * 100)

    def build(p: dm.Pipeline) -> None:
        read = dm.io.ReadJson(folder, event_time=dm.ARRIVAL, follow=True)
        rows, bad = p | read.with_exception_handling()
        _ = rows | dm.Map(lambda row: row.n) | "rows" >> dm.io.Collect()
        _ = bad | dm.Map(lambda letter: (letter.element, letter.reason)) | "bad" >> dm.io.Collect()

    stream = Stepped(build, tmp_path / "checkpoint", rows=1)
    stream.steps(1)
    with file.open("a") as out:
        out.write("}\n" + lines[1])
    stream.steps(1)
    stream.steps()
    with file.open("a") as out:
        out.write(lines[2])
    stream.steps()
    assert sorted(record.value for record in stream.collected("rows")) == [0, 1, 2]
    assert [record.value for record in stream.collected("bad")] == [
        ("{   …", "a.json, line 2: it has 102 bytes, and a row may have at most 64 MiB")
    ]
