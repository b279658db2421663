"""Law 2 under a replay clock: however a bounded run cuts its reading, ticks, panes, drops and counters are the same."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.errors import SourceError
from dataflow_model.plan.watermarks.origins import WatermarkOrigins
from dataflow_model.testing import strategies
from tests.support.laws.drawing import AT_THE_END_OF_TIME, windowing_strategies
from tests.support.laws.examples import share_of_examples
from tests.support.laws.held_rows import (
    COMBINERS,
    SIZES,
    WHOLE,
    HeldRows,
    SortedRows,
    check,
    grouping_twice,
    keeping,
    keyed,
    merging,
    most_held,
    open_at_a_time,
    ran,
    replayed_rows,
)

if TYPE_CHECKING:
    from dataflow_model.plan.logical.strategy import WindowingStrategy

pytestmark = [AT_THE_END_OF_TIME, pytest.mark.filterwarnings("ignore::dataflow_model.PlanWarning")]

SECOND = 1_000_000


@given(replayed_rows(), st.sampled_from([dm.FixedWindows(10), dm.SlidingWindows(20, 10)]), COMBINERS, SIZES)
def test_reading_a_replay_in_chunks_does_not_change_sums_in_columns(
    source: HeldRows, fn: dm.WindowFn, combiner: Any, size: int
) -> None:
    check(lambda p: keyed(p, source) | dm.Window.into(fn) | combiner.per_key() | dm.io.Collect(), size)


@given(replayed_rows(), windowing_strategies(), COMBINERS, SIZES, st.integers(1, 2), st.booleans())
def test_reading_a_replay_in_chunks_does_not_change_two_groupings_in_sequence(
    source: HeldRows, windowing: WindowingStrategy, combiner: Any, size: int, most_open: int, takes_dropped: bool
) -> None:
    with open_at_a_time(most_open):
        check(lambda p: grouping_twice(p, source, windowing, combiner), size, takes_dropped=takes_dropped)


@share_of_examples(0.5)
@given(replayed_rows(), replayed_rows(), windowing_strategies(), SIZES)
def test_reading_a_replay_in_chunks_does_not_change_the_order_of_several_sources(
    left: HeldRows, right: HeldRows, windowing: WindowingStrategy, size: int
) -> None:
    check(lambda p: merging(p, left, right, windowing), size)


@given(replayed_rows(), st.sampled_from(strategies.PERCENTILES), SIZES)
def test_reading_a_replay_in_chunks_does_not_change_percentiles_of_the_watermark(
    source: HeldRows, percentile: float, size: int
) -> None:
    def build(p: dm.Pipeline) -> None:
        trigger = dm.AfterWatermark(early=dm.AfterCount(2), late=dm.AfterCount(1))
        early = dm.AfterWatermark(percentile=percentile)
        pairs = keyed(p, source)
        for label, of_label in (("low", trigger), ("percentile", dm.Repeatedly(early))):
            windows = dm.Window.into(dm.FixedWindows(10)).trigger(of_label).allowed_lateness(3)
            counts = pairs | label >> windows | f"{label} counts" >> dm.Count.per_key()
            _ = counts | f"{label} all" >> dm.io.Collect()

    check(build, size)


@share_of_examples(0.5)
@given(replayed_rows(), st.integers(1, 4), SIZES)
def test_reading_a_replay_in_chunks_does_not_change_state_timers_ids_and_memoised_outputs(
    source: HeldRows, modulus: int, size: int
) -> None:
    check(lambda p: keeping(p, source, modulus), size)


@share_of_examples(0.5)
@given(replayed_rows(), SIZES)
def test_reading_a_replay_in_chunks_does_not_change_which_side_inputs_elements_see(source: HeldRows, size: int) -> None:
    def build(p: dm.Pipeline) -> None:
        pairs = keyed(p, source)
        windows = dm.Window.into(dm.FixedWindows(10))
        early = windows.trigger(dm.AfterWatermark(early=dm.AfterCount(1))).accumulating()
        total = pairs | "early" >> early | "values" >> dm.Values() | "total" >> dm.CombineGlobally(dm.Sum())
        seen = pairs | "windows" >> windows | "seen" >> dm.Map(_both, dm.AsIter(total))
        _ = seen | "all" >> dm.io.Collect()
        names = p | "names" >> dm.Create(["x", "y"])
        _ = pairs | "named" >> dm.Map(_both, dm.AsIter(names)) | "all named" >> dm.io.Collect()
        everything = pairs | "all values" >> dm.Values() | "sum" >> dm.CombineGlobally(dm.Sum())
        _ = pairs | "global" >> dm.Map(_both, dm.AsIter(everything)) | "all global" >> dm.io.Collect()

    check(build, size)


def test_a_collection_for_a_side_input_can_be_run_ahead_and_read_beside_another_source() -> None:
    kept, source = _source(SortedRows, a=_rows(30)), _source(SortedRows, a=_rows(40, 5))

    def build(p: dm.Pipeline) -> None:
        ahead = keyed(p, kept, "ahead")
        total = ahead | "values" >> dm.Values() | "total" >> dm.CombineGlobally(dm.Sum())
        pairs = keyed(p, source)
        _ = pairs | "seen" >> dm.Map(_both, dm.AsIter(total)) | "all seen" >> dm.io.Collect()
        counts = (ahead, pairs) | dm.Flatten() | dm.Window.into(dm.FixedWindows(10)) | dm.Count.per_key()
        _ = counts | "all counts" >> dm.io.Collect()

    for size in range(1, 70, 3):
        check(build, size)


def _rows(count: int, first: int = 0) -> list[tuple[Any, ...]]:
    return [((first + number) * SECOND, "a", number, (first + number) * SECOND) for number in range(count)]


def _source(kind: type[HeldRows], **origins: list[tuple[Any, ...]]) -> HeldRows:
    return kind(rows=origins, kind=pa.int64(), processing_time="seen")


@pytest.mark.parametrize(
    "origins",
    [
        {"a": _rows(300)},
        {"a": _rows(150), "b": _rows(150, 150)},
        {"a": _rows(150, 150), "b": _rows(150)},
        {"a": _rows(150), "b": _rows(150)},
    ],
    ids=["one", "one after the other", "the later one first", "side by side"],
)
def test_a_replay_of_sorted_origins_holds_a_part_and_not_its_input(origins: dict[str, list[tuple[Any, ...]]]) -> None:
    assert most_held(_source(SortedRows, **origins)) <= 24


def test_a_replay_of_origins_that_may_not_be_sorted_holds_them() -> None:
    assert most_held(_source(HeldRows, a=_rows(300))) == 300


def test_an_origin_that_is_sorted_only_by_its_own_word_is_an_error() -> None:
    backward = _source(SortedRows, a=[*_rows(30, 100), *_rows(30)], b=_rows(200))
    with pytest.raises(SourceError, match="a, which 'rows' reads, is not sorted by its replay clock"):
        ran(
            lambda p: keyed(p, backward) | dm.Window.into(dm.FixedWindows(10)) | dm.Count.per_key() | dm.io.Collect(), 6
        )


def test_a_replay_that_ends_early_at_a_percentile_reads_no_further() -> None:
    both = _source(SortedRows, a=_rows(30), b=_rows(300))
    source = attrs.evolve(both, watermark_origins=WatermarkOrigins("file"))

    def build(p: dm.Pipeline) -> None:
        trigger = dm.AfterWatermark(percentile=50)
        windows = dm.Window.into(dm.FixedWindows(10)).trigger(trigger, may_lose_data=True)
        _ = keyed(p, source) | windows | dm.Count.per_key() | dm.io.Collect()

    records, counters, _ = ran(build, 6)
    expected, of_whole, _ = ran(build, WHOLE)
    assert repr(records) == repr(expected)
    assert counters["rows"]["elements_out"] < of_whole["rows"]["elements_out"] == 330


def test_functions_of_origins_that_fit_a_part_are_called_in_the_order_of_the_origins() -> None:
    calls = itertools.count()
    source = _source(SortedRows, a=_rows(4, 10), b=_rows(4))

    def build(p: dm.Pipeline) -> None:
        _ = keyed(p, source) | dm.Map(lambda pair: (pair[1], next(calls))) | dm.io.Collect()

    records, _, _ = ran(build, 9)
    assert [record.value for record in records["Collect"]] == [
        (0, 4),
        (1, 5),
        (2, 6),
        (3, 7),
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
    ]


def _both(value: Any, others: Any) -> tuple[Any, tuple[Any, ...]]:
    return value, tuple(sorted(others))
