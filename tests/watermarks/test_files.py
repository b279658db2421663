"""Partitions of files, each with a watermark of its own, on LocalRunner."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dataflow_model as dm
from tests.support.watermarks.files import WHOLE, panes, run, summed, twenty, write

if TYPE_CHECKING:
    from pathlib import Path

TWO = [(1, 100, 1, "a"), (12, 101, 2, "a"), (3, 102, 4, "b"), (13, 103, 8, "b"), (25, 104, 16, "a"), (26, 105, 32, "b")]


def test_without_origins_the_furthest_partition_makes_the_others_late(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", TWO)
    assert panes(run(dm.LocalRunner(), summed(tmp_path)))[:2] == [(1, "ON_TIME", 101), (4, "LATE", 102)]


def test_with_origins_by_column_each_partition_has_its_own_watermark(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", TWO)
    build = summed(tmp_path, watermark_origin="partition", partitions=["a", "b"])
    given = panes(run(dm.LocalRunner(), build))
    assert given == [(5, "ON_TIME", 103), (10, "ON_TIME", 105), (48, "ON_TIME", 105)]


def test_with_origins_by_file_all_files_are_declared_and_completed_ones_are_ignored(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", [(1, 100, 1, "a"), (2, 101, 2, "a")])
    write(tmp_path / "b.parquet", [(1, 103, 4, "b"), (11, 104, 8, "b"), (3, 105, 16, "b"), (21, 106, 32, "b")])
    given = panes(run(dm.LocalRunner(), summed(tmp_path, watermark_origin="file")))
    # The file a is over when b begins: then b alone tells.
    assert given == [(7, "ON_TIME", 104), (16, "LATE", 105), (8, "ON_TIME", 106), (32, "ON_TIME", 106)]


def test_an_idle_partition_does_not_hold_back_the_others(tmp_path: Path) -> None:
    rows = [(1, 100, 1, "a"), (2, 100, 2, "b"), (12, 105, 4, "a"), (13, 120, 8, "a"), (14, 130, 16, "a")]
    write(tmp_path / "a.parquet", rows)
    held = summed(tmp_path, watermark_origin="partition")
    assert panes(run(dm.LocalRunner(), held)) == [(3, "ON_TIME", 130), (28, "ON_TIME", 130)]
    idle = summed(tmp_path, watermark_origin="partition", idle_after="10 seconds")
    assert panes(run(dm.LocalRunner(), idle)) == [(3, "ON_TIME", 120), (28, "ON_TIME", 130)]


def test_punctuation_rows_advance_the_explicit_watermark(tmp_path: Path) -> None:
    write(
        tmp_path / "a.parquet",
        [(1, 100, 1, ""), (30, 101, 2, ""), (2, 102, 4, ""), (10, 103, 0, "closed"), (3, 104, 8, "")],
    )
    watermark = dm.Explicit(lambda row: row.partition == "closed")
    given = panes(run(dm.LocalRunner(), summed(tmp_path, watermark=watermark)))
    assert given[:2] == [(5, "ON_TIME", 103), (8, "LATE", 104)]


@pytest.mark.parametrize("clock", ["seen", None])
def test_a_run_emits_its_result_and_ends_when_95_percent_of_the_files_are_done(
    tmp_path: Path, clock: str | None
) -> None:
    twenty(tmp_path)
    build = summed(tmp_path, WHOLE, processing_time=clock, watermark_origin="file")
    result = run(dm.LocalRunner(), build)
    assert [timing for _, timing, _ in panes(result)] == ["EARLY"]
    # Under the replay clock two rows of the straggler had come by then; else it is never opened.
    assert panes(result)[0][0] == (2038 if clock else 38)
    assert result.metrics()["rows"]["elements_out"] == (338 if clock else 38)


def test_a_run_continues_to_the_end_of_the_input_if_a_reader_needs_every_row(tmp_path: Path) -> None:
    twenty(tmp_path, straggler=5)

    def build(pipeline: dm.Pipeline) -> None:
        rows = pipeline | "rows" >> dm.io.ReadParquet(tmp_path, event_time="at", watermark_origin="file")
        _ = rows | "all" >> dm.io.Collect()
        _ = rows | dm.Map(lambda row: ("k", row.value)) | WHOLE | dm.Sum.per_key() | "kept" >> dm.io.Collect()

    assert len(run(dm.LocalRunner(), build).collected("all")) == 43


def test_a_missing_column_of_origins_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "a.parquet", TWO)
    with pytest.raises(dm.InvalidArgument, match="there is no column 'shard'\nHint: the columns are at"):
        dm.io.ReadParquet(tmp_path, event_time="at", watermark_origin="shard")
