"""What is shown of a bounded job while Spark runs it, and what the log says of it."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest
    from pyspark.sql import SparkSession

    from dataflow_model.display import Board


class Screen:
    """Keeps the tables that a run shows."""

    is_shown = True

    def __init__(self) -> None:
        self.boards: list[Board] = []
        self.last: Board | None = None

    def update(self, board: Callable[[], Board]) -> None:
        self.boards.append(board())

    def end(self, board: Callable[[], Board]) -> None:
        self.last = board()


def test_a_job_shows_its_stages_and_how_many_tasks_are_done(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    screen = Screen()
    monkeypatch.setattr("dataflow_model.runners.background.live_progress", lambda: screen)
    monkeypatch.setattr("dataflow_model.runners.background._SHOWN_SECONDS", 0.02)
    caplog.set_level(logging.INFO, "dataflow_model")

    def slowly(number: int) -> tuple[int, int]:
        time.sleep(0.05)  # so that somebody can look at it meanwhile
        return number % 2, number

    p = dm.Pipeline(runner=dm.SparkRunner(spark, mode="batch"))
    _ = p | "rows" >> dm.Create(range(10)) | dm.Map(slowly) | "sums" >> dm.Sum.per_key() | "out" >> dm.io.Collect()
    p.run().wait_until_finish()

    first = [board for board in screen.boards if board.rows[0][2:] == [1, None, 1, None]]
    assert first, [board.rows for board in screen.boards]
    assert [row[:2] for row in first[0].rows] == [["rows", 0], ["sums", 1]]
    assert first[0].caption.startswith("SparkRunner, batch: running after ")
    assert first[0].caption.endswith(", 10 rows to read")
    assert screen.last is not None
    assert [row[0] for row in screen.last.rows] == ["rows", "sums", "out"]
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO"]
    assert caplog.records[-1].getMessage().endswith("10 elements read, 2 written, 0 dropped")
