"""What is shown of a bounded job while Spark runs it, and what the log says of it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from dataflow_model.display import Board


RUNNING = [1, None, 1, None]
"""One task, which runs."""


class Screen:
    """Keeps the tables that a run shows, and makes a file when one shows that the first stage runs."""

    is_shown = True

    def __init__(self, seen: Path) -> None:
        self.boards: list[Board] = []
        self.last: Board | None = None
        self._seen = seen

    def update(self, board: Callable[[], Board]) -> None:
        self.boards.append(board())
        if self.boards[-1].rows[0][2:] == RUNNING:
            self._seen.touch()

    def end(self, board: Callable[[], Board]) -> None:
        self.last = board()


def test_a_job_shows_its_stages_and_how_many_tasks_are_done(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    seen = tmp_path / "seen"
    screen = Screen(seen)
    monkeypatch.setattr("dataflow_model.runners.runs.background.live_progress", lambda: screen)
    monkeypatch.setattr("dataflow_model.runners.runs.background._SHOWN_SECONDS", 0.02)
    caplog.set_level(logging.INFO, "dataflow_model")

    def once_seen(number: int) -> tuple[int, int]:
        deadline = time.monotonic() + 60
        while not seen.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        return number % 2, number

    p = dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch"))
    _ = p | "rows" >> dm.Create(range(10)) | dm.Map(once_seen) | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()
    p.run().wait_until_finish()

    first = [board for board in screen.boards if board.rows[0][2:] == RUNNING]
    assert first, [board.rows for board in screen.boards]
    assert [row[:2] for row in first[0].rows] == [["rows", 0], ["sums", 1]]
    assert first[0].caption.startswith("SparkRunner, batch: running after ")
    assert first[0].caption.endswith(", 10 rows to read")
    assert screen.last is not None
    assert [row[0] for row in screen.last.rows] == ["rows", "sums", "out"]
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert caplog.records[-1].getMessage().endswith("10 elements read, 2 written, 0 dropped")
