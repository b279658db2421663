"""Sliding windows as columns: the same windows and panes, with memory for elements and windows, not for their pairs."""

from __future__ import annotations

import pickle
import tracemalloc
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.lanes import overlapping
from dataflow_model.runners.engine.lanes.lanes import joined, sliced, taken
from dataflow_model.runners.engine.lanes.overlapping import Overlapping
from dataflow_model.runners.engine.lifted import chunks
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime
from tests.support.bounded_jobs import run_as_job

if TYPE_CHECKING:
    from pathlib import Path

HOUR = dm.SlidingWindows("1 hour", "1 second")

window_fns = st.builds(
    dm.SlidingWindows,
    *[st.integers(1, 50).map(lambda micros: dm.Duration(micros=micros))] * 2,
    st.integers(0, 60).map(lambda micros: dm.Duration(micros=micros)),
)
times = st.lists(
    st.integers(-100, 100) | st.sampled_from([int(MIN_TIMESTAMP), int(MAX_TIMESTAMP) - 1, int(MAX_TIMESTAMP)]),
    max_size=8,
)


@given(window_fns, times)
def test_overlapping_windows_of_a_column_equal_those_assigned_one_by_one(fn: dm.SlidingWindows, at: list[int]) -> None:
    windows = Overlapping(fn, np.array(at, np.int64))
    expected = [fn.assign(EventTime(time), None) for time in at]
    assert list(windows) == expected
    assert [windows[row] for row in range(len(at))] == expected
    assert windows.counts().tolist() == list(map(len, expected))
    assert list(pickle.loads(pickle.dumps(windows))) == expected
    row, starts, ends = (column.tolist() for column in windows.bounds())
    assert list(zip(row, starts, ends, strict=True)) == [
        (row, int(window.start), int(window.end)) for row, several in enumerate(expected) for window in several
    ]


@given(window_fns, window_fns, times, times)
def test_slices_of_overlapping_windows_can_be_joined(
    fn: dm.SlidingWindows, other: dm.SlidingWindows, at: list[int], further: list[int]
) -> None:
    first, second = Overlapping(fn, np.array(at, np.int64)), Overlapping(other, np.array(further, np.int64))
    assert list(joined(first, second)) == [*first, *second]
    rows = list(range(len(at)))[::-1]
    assert list(taken(first, rows)) == list(first)[::-1]
    assert list(sliced(first, 1, 3)) == list(first)[1:3]


def build(p: dm.Pipeline, combine: Any) -> None:
    _ = (
        p
        | dm.Create([(time % 3, time % 2) for time in range(60)])
        | dm.WithTimestamps(lambda pair: float(pair[0] * 7 + pair[1]))
        | dm.Window.into(dm.SlidingWindows(20, 3))
        | "first" >> combine
        | "again" >> dm.Map(lambda pair: (0, pair[1]))
        | "second" >> dm.GroupByKey()
        | dm.MapTuple(lambda key, values: (key, sorted(map(repr, values))))
        | "out" >> dm.io.Collect()
    )


def panes_in_process(combine: Any, **options: Any) -> list[Any]:
    p = dm.Pipeline(runner=dm.LocalRunner(**options))
    build(p, combine)
    result = p.run()
    result.wait_until_finish()
    return [(record.value, record.window, record.pane) for record in result.collected("out")]


@pytest.mark.parametrize("pairs", [1, 7, 100])
@pytest.mark.parametrize("combine", [dm.Sum.per_key(), dm.GroupByKey(), dm.ToList.per_key()], ids=repr)
def test_panes_of_sliding_windows_do_not_depend_on_the_size_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: int, combine: Any
) -> None:
    whole = panes_in_process(combine)
    job = [
        (record.value, record.window, record.pane)
        for record in run_as_job(lambda p: build(p, combine)).collected("out")
    ]
    monkeypatch.setattr(overlapping, "PAIRS", pairs)
    assert panes_in_process(combine) == whole
    assert panes_in_process(combine, checkpoint=tmp_path) == whole
    again = run_as_job(lambda p: build(p, combine)).collected("out")
    assert [(record.value, record.window, record.pane) for record in again] == job


@pytest.mark.parametrize("pairs", [1, 7, 100])
def test_partial_results_of_sliding_windows_do_not_depend_on_the_size_of_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pairs: int
) -> None:
    at = pa.array(range(50), pa.timestamp("s", "UTC"))
    pq.write_table(pa.table({"k": [row % 3 for row in range(50)], "v": range(50), "at": at}), tmp_path / "a.parquet")

    def sums(p: dm.Pipeline) -> None:
        _ = (
            p
            | dm.io.ReadParquet(tmp_path / "a.parquet", event_time="at")
            | dm.WithKeys("k", value="v")
            | dm.Window.into(dm.SlidingWindows(20, 3))
            | dm.Sum.per_key()
            | "out" >> dm.io.Collect()
        )

    whole = [(record.value, record.window) for record in run_as_job(sums).collected("out")]
    assert len(whole) > 60
    monkeypatch.setattr(chunks, "PAIRS", pairs)
    assert [(record.value, record.window) for record in run_as_job(sums).collected("out")] == whole


def peak_of_sums(elements: int) -> int:
    """Return the peak of the memory in bytes while some elements, a second apart, are summed in sliding windows."""
    p = dm.Pipeline(runner=dm.LocalRunner())
    _ = (
        p
        | dm.Create(range(elements))
        | dm.WithTimestamps(float)
        | dm.Map(lambda _: ("a", 1))
        | dm.Window.into(HOUR)
        | dm.Sum.per_key()
        | "out" >> dm.io.Collect()
    )
    tracemalloc.start()
    try:
        p.run().wait_until_finish()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_memory_grows_with_elements_and_windows_and_not_with_their_pairs() -> None:
    assert peak_of_sums(1_000) < 1_000 * 3_600 * 30  # each pair took 150 bytes
