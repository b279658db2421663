"""Everyday files on every runner: quoted line breaks, compression and other encodings give the same rows everywhere."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import dataflow_model as dm
from tests.support.hosts import on_hosts, runner_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROWS = 3_000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three files; every tenth row has line breaks in quotes, and every hundredth is a bad one."""
    folder = tmp_path / "files"
    folder.mkdir()

    def content(name: str) -> str:
        rows = (f"{n},{_note(n)}" if n % 100 else f"never,{name}{n}" for n in range(ROWS))
        return "user-id;at,note\n" + "\n".join(f"{name}{n};{row}" for n, row in enumerate(rows)) + "\n"

    (folder / "a.csv").write_bytes(content("a").replace(",", ";").encode("latin-1"))
    (folder / "b.csv.gz").write_bytes(gzip.compress(content("b").replace(",", ";").encode("latin-1")))
    with pa.CompressedOutputStream(str(folder / "c.csv.zst"), "zstd") as out:
        out.write(content("c").replace(",", ";").encode("latin-1"))
    return folder


def _note(number: int) -> str:
    return f'"é\n""{number}"""' if number % 10 == 0 else f"é{number}"


@on_hosts("process", "batch", slow=("streaming",))
def test_every_host_reads_the_rows_and_bad_rows_that_a_run_in_process_reads(
    host: str, folder: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    runner = runner_on(
        host, request, tmp_path / "checkpoint", **({} if host == "batch" else {"max_rows_per_batch": 700})
    )
    expected = _rows(folder, dm.LocalRunner())
    assert len(expected[0]) == 3 * (ROWS - ROWS // 100)
    assert len(expected[1]) == 3 * ROWS // 100
    assert _rows(folder, runner) == expected


def _rows(folder: Path, runner: Any) -> tuple[list[tuple[Any, ...]], list[str]]:
    p = dm.Pipeline(runner=runner)
    source = dm.io.ReadCsv(
        folder,
        event_time="at",
        delimiter=";",
        encoding="latin-1",
        schema=pa.schema({"user-id": pa.string(), "at": pa.int64(), "note": pa.string()}),
    )
    good, bad = p | source.with_exception_handling()
    _ = good | dm.Map(lambda row: (row["user-id"], row.at, row.note)) | "good" >> dm.io.Collect()
    _ = bad | "bad" >> dm.io.Collect()
    result = p.run()
    result.wait_until_finish()
    letters: Callable[[str], list[Any]] = lambda label: [record.value for record in result.collected(label)]  # noqa: E731
    return sorted(letters("good")), sorted(letter.reason for letter in letters("bad"))
