r"""Writers that flush in blocks: the last line of a followed file waits until its end is there, or it may be final."""

from __future__ import annotations

import gzip
import itertools
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import example, given

import dataflow_model as dm
from dataflow_model.errors import InvalidArgument, SourceError
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.sharded.feed.offsets import Offset
from dataflow_model.runners.sharded.feed.planning import Feed
from tests.support.pipelines import start
from tests.support.runners.local_streams import Stepped
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


SECOND = 1_000_000
CSV = pa.schema({"n": pa.int64(), "note": pa.string()})
JSON = pa.schema({"n": pa.int64(), "note": pa.string()})


def read_csv(folder: Path, **options: Any) -> Any:
    return dm.io.ReadCsv(folder, event_time=dm.ARRIVAL, follow=True, **{"schema": CSV, **options})


def read_json(folder: Path, **options: Any) -> Any:
    return dm.io.ReadJson(folder, event_time=dm.ARRIVAL, follow=True, **{"schema": JSON, **options})


def read_text(folder: Path, **options: Any) -> Any:
    return dm.io.ReadText(folder, event_time=dm.ARRIVAL, follow=True, **options)


class Follower:
    """Polls a folder at chosen times of the clock; each restart knows only the offset, as JSON."""

    def __init__(self, read: Any) -> None:
        p = dm.Pipeline()
        _ = p | "rows" >> read | dm.io.Collect()
        [self.read] = [node for node in p.plan().nodes if isinstance(node, Read)]
        self.offset: Offset = Offset()
        self.now = 0
        self.counters: dict[str, int] = {}
        self.rows: list[Any] = []

    def poll(self, seconds: float = 0.0, *, drained: bool = False) -> list[Any]:
        """Read a micro-batch after some seconds, and return its rows."""
        self.now += max(int(seconds * SECOND), 1)
        feed = Feed([self.read], 1_000_000, 1, read_clock=lambda _: self.now)
        end = Offset.of_json(
            json.loads(json.dumps(feed.next(self.offset, drain=False, until_drained=drained).to_json()))
        )
        source = self.read.source.as_columns
        assert source is not None
        new = []
        for part in feed.slices(self.offset, end):
            assert part.version is not None
            source.check_version(part.origin, part.version)
            for batch in source.read(part.origin, part.start, part.stop):
                new += [tuple(row.values()) if len(row) > 1 else next(iter(row.values())) for row in batch.to_pylist()]
        for _, changes in feed.control(self.offset, end).changes:
            for name, count in changes.items():
                self.counters[name] = self.counters.get(name, 0) + count
        self.offset = end
        self.rows += new
        return new


def pieces_of(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[begin:end] for begin, end in itertools.pairwise(places)]


NOTES = st.text(st.sampled_from('aé€🐟,"\n\r '), max_size=6)
FORMATS: dict[str, Any] = {"csv": read_csv, "json": read_json, "txt": read_text}


def written(kind: str, notes: Sequence[str], end: str) -> bytes:
    """Return the content of a file."""
    match kind:
        case "csv":
            rows = ["n,note", *('{},"{}"'.format(n, note.replace('"', '""')) for n, note in enumerate(notes))]
        case "json":
            rows = [json.dumps({"n": n, "note": note}, ensure_ascii=False) for n, note in enumerate(notes)]
        case _:
            rows = [re.sub("[\r\n]", " ", f"{n} {note}") for n, note in enumerate(notes)]
    return "".join(row + end for row in rows).encode()


@pytest.mark.parametrize("kind", FORMATS)
@given(
    notes=st.lists(NOTES, max_size=6),
    cuts=st.lists(st.integers(0, 300), max_size=8),
    end=st.sampled_from(["\n", "\r\n"]),
)
@example(notes=["é"], cuts=range(300), end="\r\n")
@example(notes=["a\nb", "c"], cuts=range(300), end="\n")
def test_however_a_file_is_cut_into_blocks_the_rows_are_those_of_the_whole_file(
    kind: str, notes: Sequence[str], cuts: Sequence[int], end: str
) -> None:
    data = written(kind, notes, end)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / f"whole.{kind}").write_bytes(data)
        expected = Follower(FORMATS[kind](folder)).poll()
        (folder / f"whole.{kind}").unlink()
        follower = Follower(FORMATS[kind](folder))
        for piece in pieces_of(data, cuts):
            with (folder / f"log.{kind}").open("ab") as file:
                file.write(piece)
            follower.poll()
        follower.poll()
        assert len(expected) == len(notes)
        assert follower.rows == expected
        assert follower.counters.get("lines_unfinished", 0) == 0


@pytest.mark.parametrize("kind", FORMATS)
def test_an_unterminated_last_line_is_a_row_once_the_file_has_stopped_growing(tmp_path: Path, kind: str) -> None:
    data = written(kind, ["a", "b"], "\n")[:-1]
    (tmp_path / f"log.{kind}").write_bytes(data)
    follower = Follower(FORMATS[kind](tmp_path))
    assert len(follower.poll()) == 1
    assert follower.counters == {"lines_unfinished": 1}
    assert follower.poll(29) == []
    again = Follower(FORMATS[kind](tmp_path))  # a restart: what is known comes from the offset
    again.offset, again.now = follower.offset, follower.now
    assert len(again.poll(2)) == 1
    assert again.counters == {"lines_unfinished": -1}
    assert again.poll(100) == []


def test_a_growing_line_restarts_its_timeout_and_without_a_timeout_it_waits_for_its_end(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text("one\ntw")
    patient = Follower(read_text(tmp_path, line_timeout=None))
    follower = Follower(read_text(tmp_path, line_timeout="10 s"))
    assert follower.poll() == patient.poll() == ["one"]
    file.write_text("one\ntwo")
    assert follower.poll(9) == []
    assert follower.poll(9) == []
    assert follower.poll(1) == ["two"]
    assert patient.poll(1_000_000) == []
    assert patient.poll(drained=True) == ["two"]


def test_drained_and_bounded_runs_read_an_unterminated_last_line(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("one\ntwo")
    assert Follower(read_text(tmp_path)).poll(drained=True) == ["one", "two"]
    assert Follower(read_text(tmp_path, line_timeout=0)).poll() == ["one", "two"]
    with dm.Pipeline() as p:
        _ = p | dm.io.ReadText(tmp_path) | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == ["one", "two"]


def test_a_line_that_grows_after_its_timeout_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("n,note\n1,a\n2,b")
    follower = Follower(read_csv(tmp_path))
    assert [*follower.poll(), *follower.poll(31)] == [(1, "a"), (2, "b")]
    file.write_text("n,note\n1,a\n2,bc\n3,d\n")
    with pytest.raises(
        SourceError, match=r"no line end when it was read.*at byte 14\nHint: .*insert a line break there"
    ):
        follower.poll()
    file.write_text("n,note\n1,a\n2,b\n,c\n3,d\n")
    assert follower.poll() == [(None, "c"), (3, "d")]


def test_a_header_that_is_cut_is_not_compared_or_inferred_from(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text("n,no")
    follower = Follower(read_csv(tmp_path))
    inferring = Follower(read_csv(tmp_path, schema=None))
    assert follower.poll() == inferring.poll() == []
    file.write_text("n,note\n1")
    assert follower.poll() == inferring.poll() == []
    file.write_text("n,note\n1.5,a\n2")
    assert inferring.poll() == [(1.5, "a")]
    file.write_text("m,note\n1,a\n")
    with pytest.raises(SourceError, match="must have the columns n, note, got m, note"):
        Follower(read_csv(tmp_path)).poll()


def test_the_last_line_of_a_compressed_file_is_complete(tmp_path: Path) -> None:
    (tmp_path / "log.txt.gz").write_bytes(gzip.compress(b"one\ntwo"))
    assert Follower(read_text(tmp_path)).poll() == ["one", "two"]


def test_a_file_in_utf_16_may_end_within_a_character(tmp_path: Path) -> None:
    data, file = "é\nü€\nñ\n".encode("utf-16"), tmp_path / "log.txt"
    follower = Follower(read_text(tmp_path, encoding="utf-16"))
    for end in range(2, len(data) + 1):
        file.write_bytes(data[:end])
        follower.poll()
    assert follower.rows == ["é", "ü€", "ñ"]


def test_an_unterminated_line_of_a_removed_file_stops_waiting(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("one\ntw")
    follower = Follower(read_text(tmp_path))
    follower.poll()
    (tmp_path / "log.txt").unlink()
    follower.poll()
    assert follower.counters == {"lines_unfinished": 0}


def test_a_negative_line_timeout_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="`line_timeout` must not be negative"):
        read_text(Path("nowhere"), line_timeout=-1)


WRITER = """
import sys, time
kind, path = sys.argv[1:]
with open(path, "ab", buffering=4096) as file:
    for n in range(1000):
        note = "a fish \\U0001f41f" + (",\\n" if kind == "csv" else " ") + "x" * (n % 50)
        rows = {"csv": f'{n},"{note}"', "json": f'{{"n": {n}, "note": "{note}"}}', "txt": f"{n} {note}"}
        row = rows[kind]
        file.write((row + "\\n").encode())
        if n % 40 == 0:
            time.sleep(0.02)
"""


@pytest.mark.parametrize("kind", FORMATS)
def test_a_stream_follows_a_program_that_flushes_blocks_of_4_kib(tmp_path: Path, kind: str) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    if kind == "csv":
        (folder / "log.csv").write_text("n,note\n")

    def build(p: dm.Pipeline) -> None:
        _ = p | "rows" >> FORMATS[kind](folder) | "out" >> dm.io.Collect()

    def run_for_a_while(done: Callable[[Any], bool]) -> Any:
        result = start(dm.LocalRunner(checkpoint=str(tmp_path / "checkpoint")), build)
        wait_for(result, lambda: done(result))
        result.stop()
        return result

    writer = subprocess.Popen([sys.executable, "-c", WRITER, kind, str(folder / f"log.{kind}")])
    try:
        run_for_a_while(lambda result: len(result.collected("out")) > 100)
        run_for_a_while(lambda result: len(result.collected("out")) > 300)
    finally:
        assert writer.wait() == 0
    result = run_for_a_while(lambda result: len(result.collected("out")) >= 1_000)
    values = [record.value for record in result.collected("out")]
    numbers = [int(value.split()[0]) if isinstance(value, str) else value.n for value in values]
    assert numbers == list(range(1_000))
    assert result.metrics()["rows/Read" if kind == "txt" else "rows"].get("lines_unfinished", 0) == 0


def test_the_metrics_contain_the_number_of_waiting_lines(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "log.csv").write_text("n,note\n1,a\n2,b")

    def build(p: dm.Pipeline) -> None:
        _ = p | "rows" >> read_csv(tmp_path / "in") | "out" >> dm.io.Collect()

    stepped = Stepped(build, tmp_path / "checkpoint")
    stepped.steps()
    assert stepped.metrics()["rows"]["lines_unfinished"] == 1
