"""What is counted of runs on executors, as far as it needs no cluster."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from benchmarks.cost_on_cluster import Cost, Used, calls_of, calls_per_row, costs_table
from dataflow_model.demo import flights_file

if TYPE_CHECKING:
    from pathlib import Path


def test_calls_are_counted_in_all_threads_and_not_after_the_end() -> None:
    def nothing() -> None:
        pass

    def run() -> None:
        nothing()
        thread = threading.Thread(target=nothing)
        thread.start()
        thread.join()

    once = calls_of(nothing)
    assert once == 1
    assert calls_of(run) > 4  # `Thread` has functions of its own
    assert calls_of(nothing) == once


def test_a_flight_takes_no_more_than_a_few_python_calls(tmp_path: Path) -> None:
    calls = calls_per_row(flights_file(), tmp_path, rows=1_000)
    assert 1 <= calls["batch"] < 12  # that of the user's function is one
    assert 1 <= calls["streaming"] < 40  # so few rows per tick of the clock that ticks count too


def test_the_table_has_a_row_for_each_run_and_costs_per_row() -> None:
    used = Used(driver=1.5, executors=4.0, shuffled=3_000_000, tasks=12)
    [_, _, row] = costs_table([Cost("batch", 2, 200_000, used, 9.0)])
    assert row == "| batch | 2 | 1.5 | 4.0 | 20.0 | 12 | 15.0 | 9.0 |"
