"""Rows of text files: found however the file is cut into blocks, with line breaks in quotes, and read by ranges."""

from __future__ import annotations

import csv
import gzip
import io
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

from dataflow_model.errors import SourceError
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.text import row_texts, unpacking
from dataflow_model.io.text.row_texts import TextFormat, read_rows, row_index, split

if TYPE_CHECKING:
    from collections.abc import Iterator

CSV = TextFormat(delimiter=",", quote='"', ends_at_cr=True)
LINES = TextFormat()

FORKING = """
import os, sys
from dataflow_model.io.listing.file_identity import FileVersion
from dataflow_model.io.text.row_texts import TextFormat, read_rows

def line(number):
    [part] = read_rows(FileVersion.of(sys.argv[1]), TextFormat("iso8859-1"), number, number + 1)
    return int(part.text())

line(0)
child = os.fork()
if not child:
    line(199_999)
    os._exit(0)
os.waitpid(child, 0)
print(line(10_000))
"""

TEXTS = st.text(alphabet='a,"\r\n', max_size=40)
ROWS = st.lists(st.lists(st.text(alphabet='a,"\r\nü', max_size=6), min_size=2, max_size=3), max_size=20)


@pytest.fixture(params=[1, 2, 3, 7, 1 << 20])
def block(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Cut files into blocks of this many bytes."""
    size: int = request.param
    monkeypatch.setattr(unpacking, "BLOCK", size)
    monkeypatch.setattr(unpacking, "_FIRST", size)
    monkeypatch.setattr(unpacking, "_WINDOW", 2 * size)
    return size


def version_of(content: bytes, folder: str, name: str = "a.csv") -> FileVersion:
    path = Path(folder, name)
    path.write_bytes(content)
    return FileVersion.of(str(path))


def texts(parts: Iterator[row_texts.RowTexts]) -> list[bytes]:
    return [part.text(index, index + 1) for part in parts for index in range(len(part))]


@given(ROWS, st.sampled_from(["\n", "\r\n", "\r"]))
def test_rows_written_by_the_csv_module_are_split_correctly(rows: list[list[str]], end: str) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(rows)
    with tempfile.TemporaryDirectory() as folder:
        texts_read = texts(split(version_of(out.getvalue().encode(), folder), CSV))
    assert [next(csv.reader([text.decode()])) for text in texts_read] == rows


@given(TEXTS)
@example('a"a",\n"\n')
@example('"a\n"a\n"a"\n')
def test_split_rows_do_not_depend_on_where_blocks_are_cut(text: str) -> None:
    content = text.encode()
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        version = version_of(content, folder)
        whole = [pair for part in split(version, CSV) for pair in _places(part)]
        for size in (1, 2, 3, 5):
            patch.setattr(unpacking, "BLOCK", size)
            patch.setattr(unpacking, "_FIRST", size)
            assert [pair for part in split(version, CSV) for pair in _places(part)] == whole


def _places(part: row_texts.RowTexts) -> Iterator[tuple[int, int, bool]]:
    for index, (start, end) in enumerate(zip(part.starts.tolist(), part.ends.tolist(), strict=True)):
        yield part.offset + start, part.offset + end, index in part.unclosed


@given(TEXTS, st.integers(1, 12))
def test_a_quoted_value_beyond_the_limit_is_plain_text_wherever_blocks_are_cut(text: str, longest: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_texts, "LONGEST_QUOTE", longest)
        version = version_of(text.encode(), folder)
        whole = [pair for part in split(version, CSV) for pair in _places(part)]
        for size in (1, 4):
            patch.setattr(unpacking, "BLOCK", size)
            patch.setattr(unpacking, "_FIRST", size)
            assert [pair for part in split(version, CSV) for pair in _places(part)] == whole


def test_a_quote_that_is_not_closed_spoils_only_its_own_line(tmp_path: Path) -> None:
    content = b'1,"never closed\n2,"closed"\n3,"two\nlines"\n4,"open\n5,x\n'
    version = version_of(content, str(tmp_path))
    assert texts(split(version, CSV)) == [
        b'1,"never closed\n',
        b'2,"closed"\n',
        b'3,"two\nlines"\n',
        b'4,"open\n',
        b"5,x\n",
    ]
    unclosed = [is_unclosed for part in split(version, CSV) for *_, is_unclosed in _places(part)]
    assert unclosed == [True, False, False, True, False]


def test_a_quote_inside_a_value_is_text(tmp_path: Path) -> None:
    content = b'5" disk,a\n"6"" disk",b\n'
    [part] = split(version_of(content, str(tmp_path)), CSV)
    assert texts(iter([part])) == [b'5" disk,a\n', b'"6"" disk",b\n']
    assert part.unclosed == ()


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".bz2"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso8859-1"])
def test_any_range_of_rows_can_be_read_in_any_order(tmp_path: Path, suffix: str, encoding: str, block: int) -> None:
    del block
    rows = [f'{n},"é\n{n}"\n' for n in range(16)]
    content = "".join(rows).encode(encoding)
    if suffix:
        codec = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2"}[suffix]
        with pa.CompressedOutputStream(str(tmp_path / "packed"), codec) as out:
            out.write(content)
        content = (tmp_path / "packed").read_bytes()
    version = version_of(content, str(tmp_path), f"a.csv{suffix}")
    form = TextFormat(encoding, ",", '"', ends_at_cr=True)
    for start, stop in ((0, 5), (5, 6), (6, 16), (2, 4), (12, 20), (0, 16)):
        texts_read = b"".join(part.text() for part in read_rows(version, form, start, stop))
        assert texts_read.decode() == "".join(rows[start:stop])


def test_reading_ranges_in_order_decompresses_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f"{n:09d}\n".encode() for n in range(200_000)]
    version = version_of(gzip.compress(b"".join(lines)), str(tmp_path), "a.csv.gz")
    assert row_index(version, LINES).count == 200_000
    monkeypatch.setattr(unpacking, "BLOCK", 1 << 16)
    opened: list[str] = []
    make = unpacking._Unpacked

    def spy(version: FileVersion, encoding: str) -> unpacking._Unpacked:
        opened.append(version.path)
        return make(version, encoding)

    monkeypatch.setattr(unpacking, "_Unpacked", spy)
    for start in range(0, 200_000, 20_000):
        texts_read = b"".join(part.text() for part in read_rows(version, LINES, start, start + 20_000))
        assert texts_read == b"".join(lines[start : start + 20_000])
    assert len(opened) == 1


def test_a_forked_child_does_not_move_the_file_position_of_its_parent(tmp_path: Path) -> None:
    version = version_of(b"".join(b"%09d\n" % number for number in range(200_000)), str(tmp_path), "a.txt")
    printed = subprocess.check_output([sys.executable, "-c", FORKING, version.path], text=True)
    assert printed == "10000\n"


@pytest.mark.parametrize("appended", [b"", b"more\n"])
def test_a_file_that_differs_only_in_the_middle_is_indexed_anew(tmp_path: Path, appended: bytes) -> None:
    edge = b"".join(b"%09d\n" % number for number in range(5_000))
    before = version_of(edge + b"a\n" * 2_000 + edge, str(tmp_path))
    assert row_index(before, LINES).count == 12_000
    (tmp_path / "new").write_bytes(edge + b"abc\n" * 1_000 + edge + appended)
    os.utime(tmp_path / "new", ns=(before.modified, before.modified))
    (tmp_path / "new").rename(before.path)
    after = FileVersion.of(before.path)
    assert row_index(after, LINES).count == 11_000 + appended.count(b"\n")
    [part] = read_rows(after, LINES, 10_999, 11_000)
    assert part.text() == b"000004999\n"


def test_a_compressed_file_that_is_cut_off_is_an_error(tmp_path: Path) -> None:
    version = version_of(gzip.compress(b"1\n2\n" * 1000)[:-4], str(tmp_path), "a.csv.gz")
    with pytest.raises(SourceError, match=r"a\.csv\.gz cannot be decompressed: .*\nHint: replace the file"):
        row_index(version, LINES)


def test_a_file_in_utf_16_is_refused_with_its_encoding(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"is not in UTF-8, but in UTF-16\nHint: pass encoding='utf-16'"):
        row_index(version_of("a,b\n".encode("utf-16"), str(tmp_path)), CSV)
