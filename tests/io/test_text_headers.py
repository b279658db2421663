"""Headers of text files: written to each file, and left out by who reads them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, InvalidType
from dataflow_model.io.sinks.file_sinks import TextSink

if TYPE_CHECKING:
    from pathlib import Path

HEADER = "carrier,delay"
LINES = ["UA,4", "", "AA,2"]


def read(place: Path, **options: Any) -> list[str]:
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadText(place, **options) | "lines" >> dm.io.Collect()
    return [record.value for record in p.result.collected("lines")]


def write(folder: Path, **options: Any) -> Path:
    with dm.Pipeline() as p:
        _ = p | dm.Create(LINES) | dm.io.WriteText(folder, **options)
    (file,) = folder.glob("[!_.]*")
    return file


def test_a_header_is_written_to_each_file_and_read_back_without_it(tmp_path: Path) -> None:
    file = write(tmp_path / "plain", header=HEADER)
    assert file.read_text() == "carrier,delay\nUA,4\n\nAA,2\n"
    assert read(tmp_path / "plain", skip_header_lines=1) == LINES
    assert read(tmp_path / "plain") == [HEADER, *LINES]


def test_a_header_of_several_lines_is_compressed_with_the_others(tmp_path: Path) -> None:
    file = write(tmp_path / "packed", header=f"# delays\n{HEADER}", suffix=".csv.gz")
    assert gzip.decompress(file.read_bytes()).decode().splitlines() == ["# delays", HEADER, *LINES]
    assert read(tmp_path / "packed", skip_header_lines=2) == LINES


def test_header_lines_are_skipped_in_each_file_even_if_it_has_no_other_lines(tmp_path: Path) -> None:
    for name, text in {"a": "head\r\n1\r\n2", "b": "head\n", "c": "head", "d": "", "e": "\ufeffhead\n3\n"}.items():
        (tmp_path / f"{name}.txt").write_bytes(text.encode())
    assert read(tmp_path, skip_header_lines=1) == ["1", "2", "3"]


def test_a_stream_skips_the_header_of_a_file_once_while_lines_are_added(tmp_path: Path) -> None:
    folder, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "a.txt").write_text("head\n1\n")

    def lines() -> list[str]:
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=checkpoint))
        source = dm.io.ReadText(folder, event_time=dm.ARRIVAL, follow=True, skip_header_lines=1)
        _ = p | "read" >> source | "lines" >> dm.io.Collect()
        result = p.run()
        while len(result.collected("lines")) < len(expected):
            result.wait_until_finish(timeout=0.05)
        result.stop()
        return sorted(record.value for record in result.collected("lines"))

    expected = ["1"]
    assert lines() == expected
    with (folder / "a.txt").open("a") as file:
        file.write("2\n")
    (folder / "b.txt").write_text("head\n3\n")
    expected = ["1", "2", "3"]
    assert lines() == expected


def test_a_stream_may_not_change_its_header() -> None:
    plain, headed = (TextSink(path="out", label="write", header=header) for header in (None, HEADER))
    assert plain.destination() != headed.destination()
    assert "header" not in plain.destination()


@pytest.mark.parametrize("lines", [-1, True, 1.5, "1"])
def test_an_invalid_number_of_header_lines_is_rejected(lines: Any) -> None:
    with pytest.raises(InvalidArgument, match="`skip_header_lines` must be a whole number of lines, got"):
        dm.io.ReadText("in", skip_header_lines=lines)


def test_a_header_that_is_not_text_is_rejected() -> None:
    header: Any = ["carrier", "delay"]
    with pytest.raises(InvalidType, match="`header` must be text, got"):
        dm.io.WriteText("out", header=header)
