"""LocalRunner on files with a replay clock: a replayed history behaves as it did live."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.inputs import Row, write_seconds
from tests.support.scripting import fixed

if TYPE_CHECKING:
    from pathlib import Path


def replay(folder: Path, windowing: dm.WindowInto, **options: Any) -> list[tuple[Any, str, float]]:
    """Return value, timing and processing time of the panes of a sum."""
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    rows = pipeline | dm.io.ReadParquet(folder, event_time="at", processing_time="seen", **options)
    pairs = rows | dm.Map(lambda row: ("k", row.value)) | windowing
    _ = pairs | dm.Sum.per_key() | "kept" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    return [
        (record.value[1], record.pane.timing.name, int(record.processing_time) / 1e6)
        for record in result.collected("kept")
    ]


EARLY_AND_LATE = dm.AfterWatermark(early=dm.AfterProcessingTime(5), late=dm.AfterCount(1))


def test_a_replay_emits_panes_at_the_times_at_which_a_live_run_would_have(tmp_path: Path) -> None:
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (2, 103, 2), (12, 110, 4), (3, 111, 8), (13, 112, 16)])
    given = replay(tmp_path, fixed(EARLY_AND_LATE, lateness=60).accumulating())
    assert given == [
        (3, "EARLY", 105),
        (3, "ON_TIME", 110),  # the row at 12 takes the watermark past 10
        (11, "LATE", 111),
        (20, "ON_TIME", 112),
    ]


def test_the_watermark_advances_only_when_the_tick_is_complete(tmp_path: Path) -> None:
    # All three rows are seen at 100: the second takes the watermark past the first window only after the third.
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (12, 100, 2), (2, 100, 4)])
    assert replay(tmp_path, fixed()) == [(5, "ON_TIME", 100), (2, "ON_TIME", 100)]


def test_rows_of_several_files_are_combined_by_tick(tmp_path: Path) -> None:
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (12, 102, 2)])
    write_seconds(tmp_path / "b.parquet", [(2, 101, 4), (3, 102, 8)])
    given = replay(tmp_path, fixed(dm.AfterWatermark(late=dm.AfterCount(1)), lateness=60))
    assert given[0] == (13, "ON_TIME", 102)


def test_within_a_tick_rows_are_ordered_by_file_name_and_position(tmp_path: Path) -> None:
    write_seconds(tmp_path / "b.parquet", [(1, 100, 4), (1, 100, 8), (1, 101, 64)])
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (1, 100, 2), (1, 101, 32)])
    given = replay(tmp_path, fixed(dm.Repeatedly(dm.AfterCount(1))))
    assert [value for value, _, _ in given] == [1, 2, 4, 8, 32, 64]


def test_the_distribution_of_rows_over_files_does_not_change_the_panes(tmp_path: Path) -> None:
    rows: list[Row] = [(7 * number % 40, 100 + number // 3, 2**number) for number in range(40)]
    for files in (1, 2, 3):
        folder = tmp_path / str(files)
        folder.mkdir()
        for index in range(files):
            rows_of_file = [row for row in rows if row[1] % files == index]
            write_seconds(folder / f"{index}.parquet", rows_of_file)
    windowing = fixed(EARLY_AND_LATE, lateness=20)
    of_one_file, *others = [replay(tmp_path / str(files), windowing) for files in (1, 2, 3)]
    assert len(of_one_file) > 4
    assert others == [of_one_file, of_one_file]


def test_bounded_out_of_orderness_holds_the_watermark_back(tmp_path: Path) -> None:
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (12, 110, 2), (2, 111, 4), (15, 112, 8)])
    given = replay(tmp_path, fixed(), watermark=dm.BoundedOutOfOrderness(5))
    assert given == [(5, "ON_TIME", 112), (10, "ON_TIME", 112)]


def test_a_file_that_is_not_sorted_by_the_replay_clock_is_refused(tmp_path: Path) -> None:
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (2, 99, 2)])
    with pytest.raises(dm.DataflowError, match=r"a\.parquet"):
        replay(tmp_path, fixed())


def test_a_replay_clock_and_a_wall_clock_are_refused_together(tmp_path: Path) -> None:
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1)])
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    replayed = pipeline | "replayed" >> dm.io.ReadParquet(tmp_path, event_time="at", processing_time="seen")
    walled = pipeline | "walled" >> dm.io.ReadParquet(tmp_path, event_time="at")
    _ = (replayed, walled) | dm.Flatten() | dm.io.Collect()
    with pytest.raises(dm.PlanError, match="one clock"):
        pipeline.run()


def test_created_elements_arrive_at_the_first_tick_of_a_replay(tmp_path: Path) -> None:
    write_seconds(tmp_path / "a.parquet", [(1, 100, 1), (2, 101, 2)])
    pipeline = dm.Pipeline(runner=dm.LocalRunner())
    rows = pipeline | dm.io.ReadParquet(tmp_path, event_time="at", processing_time="seen")
    pairs = rows | dm.Map(lambda row: ("k", row.value))
    created = pipeline | dm.Create([("k", 4)]) | dm.WithTimestamps(lambda _: 1)
    placed = (pairs, created) | dm.Flatten() | fixed(dm.Repeatedly(dm.AfterProcessingTime(0)))
    _ = placed | dm.Sum.per_key() | "kept" >> dm.io.Collect()
    result = pipeline.run()
    result.wait_until_finish()
    kept = [(record.value[1], int(record.processing_time) / 1e6) for record in result.collected("kept")]
    assert kept == [(5, 100), (2, 101)]
