"""Law 2 inside of a tick: however a bounded run cuts its reading, panes, drops and counters are the same."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.runners.engine.lifted import gathering
from dataflow_model.testing import strategies
from tests.support.laws.drawing import AT_THE_END_OF_TIME, windowing_strategies
from tests.support.laws.examples import share_of_examples
from tests.support.laws.held_rows import (
    COMBINERS,
    SIZES,
    HeldRows,
    check,
    grouping_twice,
    held_by_chunks,
    held_rows,
    keeping,
    keyed,
    merging,
    ran,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dataflow_model.plan.logical.strategy import WindowingStrategy

pytestmark = [AT_THE_END_OF_TIME, pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")]


@given(held_rows(), st.sampled_from([dm.FixedWindows(10), dm.SlidingWindows(20, 10)]), COMBINERS, SIZES, SIZES)
def test_sums_of_a_tick_read_in_chunks_are_equal_to_the_last_bit(
    source: HeldRows, fn: dm.WindowFn, combiner: Any, size: int, gathered: int
) -> None:
    def build(p: dm.Pipeline) -> None:
        _ = keyed(p, source) | dm.Window.into(fn) | combiner.per_key() | dm.io.Collect()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gathering, "_FEW", gathered)
        check(build, size)


@given(held_rows(), windowing_strategies(), COMBINERS, SIZES, st.booleans())
def test_reading_a_tick_in_chunks_does_not_change_two_groupings_in_sequence(
    source: HeldRows, windowing: WindowingStrategy, combiner: Any, size: int, takes_dropped: bool
) -> None:
    check(lambda p: grouping_twice(p, source, windowing, combiner), size, takes_dropped=takes_dropped)


@share_of_examples(0.5)
@given(held_rows(floats=False), held_rows(floats=False), windowing_strategies(), SIZES)
def test_reading_a_tick_in_chunks_does_not_change_the_order_of_several_sources(
    left: HeldRows, right: HeldRows, windowing: WindowingStrategy, size: int
) -> None:
    check(lambda p: merging(p, left, right, windowing), size)


@given(held_rows(floats=False), st.sampled_from(strategies.PERCENTILES), SIZES)
def test_reading_a_tick_in_chunks_does_not_change_percentiles_of_the_watermark(
    source: HeldRows, percentile: float, size: int
) -> None:
    def build(p: dm.Pipeline) -> None:
        trigger = dm.AfterWatermark(percentile=percentile)
        windows = dm.Window.into(dm.FixedWindows(10)).trigger(trigger, may_lose_data=True)
        counts = keyed(p, source) | windows | dm.Count.per_key()
        _ = counts | dm.Map(lambda pair, watermark_percentile: (pair, watermark_percentile)) | dm.io.Collect()

    check(build, size)


@share_of_examples(0.5)
@given(held_rows(floats=False), st.integers(1, 4), SIZES)
def test_reading_a_tick_in_chunks_does_not_change_state_timers_ids_and_memoised_outputs(
    source: HeldRows, modulus: int, size: int
) -> None:
    check(lambda p: keeping(p, source, modulus), size)


@share_of_examples(0.5)
@given(held_rows(floats=False), SIZES)
def test_reading_a_tick_in_chunks_does_not_change_which_side_inputs_elements_see(source: HeldRows, size: int) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = keyed(p, source)
        windows = dm.Window.into(dm.FixedWindows(10))
        early = windows.trigger(dm.AfterWatermark(early=dm.AfterCount(1))).accumulating()
        total = rows | "early" >> early | "values" >> dm.Values() | "total" >> dm.CombineGlobally(dm.Sum())
        changing = rows | "windows" >> windows | "seen" >> dm.Map(_both, dm.AsIter(total))
        _ = changing | "all" >> dm.io.Collect()
        names = p | "names" >> dm.Create(["x", "y"])
        _ = rows | "named" >> dm.Map(_both, dm.AsIter(names)) | "all named" >> dm.io.Collect()

    check(build, size)


@share_of_examples(0.5)
@given(held_rows(floats=False), windowing_strategies(), SIZES)
def test_reading_a_tick_in_chunks_does_not_change_the_order_of_calls(
    source: HeldRows, windowing: WindowingStrategy, size: int
) -> None:
    def build(p: dm.Pipeline) -> None:
        first, second = _Numbering(itertools.count()), _Numbering(itertools.count())
        numbered = keyed(p, source) | "first" >> dm.Map(first) | dm.Window.into(windowing)
        _ = numbered | dm.GroupByKey() | "second" >> dm.Map(second) | dm.io.Collect()

    check(build, size)


def test_values_that_no_kernel_accepts_are_added_to_the_sums_of_earlier_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "_FEW", 2)
    nan, huge = float("nan"), 2**62
    floats: list[Any] = [(0, "a", value) for value in (3.5, 2.5, nan, 7.0, 1.5, nan, 0.5, -0.0)]
    whole: list[Any] = [(0, "a", value) for value in (huge, huge, huge, -huge, -huge, 1, 2, 3)]
    for rows, kind, combiner in (
        (floats, pa.float64(), dm.Min),
        (floats, pa.float64(), dm.Max),
        (whole, pa.int64(), dm.Sum),
    ):
        source = HeldRows(rows={"only": rows}, kind=kind)
        for size in range(1, 9):
            check(lambda p: _sum_of(p, source, combiner), size)  # noqa: B023 - called at once


@share_of_examples(0.5)
@given(held_rows(), windowing_strategies(), st.integers(0, 5), SIZES)
def test_reading_a_tick_in_chunks_does_not_change_what_functions_with_many_outputs_lead_to(
    source: HeldRows, windowing: WindowingStrategy, outputs: int, size: int
) -> None:
    def build(p: dm.Pipeline) -> None:
        calls = itertools.count()
        several = keyed(p, source) | dm.FlatMap(lambda pair: [(pair[0], next(calls)) for _ in range(outputs)])
        created = (
            p | "pairs" >> dm.Create([("a", 1), ("b", 2), ("c", 3)]) | "each" >> dm.FlatMap(lambda pair: [pair] * 2)
        )
        _ = (several, created) | dm.Flatten() | dm.Window.into(windowing) | dm.GroupByKey() | dm.io.Collect()

    check(build, size)


@pytest.mark.parametrize("is_in_program", [False, True])
def test_a_chunk_ends_when_its_elements_have_many_outputs(
    monkeypatch: pytest.MonkeyPatch, *, is_in_program: bool
) -> None:
    held = held_by_chunks(monkeypatch)
    rows = [(0, "a", number) for number in range(1_000)]

    def build(p: dm.Pipeline) -> None:
        source = dm.Create(rows) if is_in_program else dm.Read(HeldRows(rows={"only": rows}, kind=pa.int64()))
        _ = p | source | dm.FlatMap(lambda row: [("a", 1)] * 10) | dm.Sum.per_key() | dm.io.Collect()

    ran(build, 500)
    assert sum(held) == 10_000
    assert max(held) < 2 * 500


def test_a_chunk_ends_at_its_size_even_within_a_batch() -> None:
    seen: list[int] = []
    source = HeldRows(rows={"only": [(0, "a", number) for number in range(7)]}, kind=pa.int64())

    def build(p: dm.Pipeline) -> None:
        _ = p | dm.Read(source) | dm.Map(_counting(seen), vectorized=True) | dm.io.Collect()

    _, counters, _ = ran(build, 2)
    assert seen == [1, 2, 2, 1, 1]  # the source reads three rows at a time; of the first it is not known what follows
    assert counters["Read"]["elements_out"] == 7


def _sum_of(p: dm.Pipeline, source: HeldRows, combiner: Any) -> None:
    _ = keyed(p, source) | dm.Window.into(dm.FixedWindows(10)) | combiner.per_key() | dm.io.Collect()


def _both(value: Any, others: Any) -> tuple[Any, tuple[Any, ...]]:
    return value, tuple(sorted(others))


def _counting(seen: list[int]) -> Callable[[Any], Any]:
    def count(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(batch.num_rows)
        return batch

    return count


@attrs.define
class _Numbering:
    """Replaces values by the number of the call, as an impure function may."""

    numbers: Iterator[int]

    def __call__(self, pair: tuple[Any, Any]) -> tuple[Any, int]:
        return pair[0], next(self.numbers)
