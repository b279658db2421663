"""Each kernel equals a plain Python implementation over a dict."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dataflow_model.errors import KeyEncodingError
from dataflow_model.plan.functions.kernels import Kernel
from dataflow_model.runners.engine.lanes.codes import codes_of
from dataflow_model.runners.engine.lifted.accumulators import COLUMNS, finish, fits
from dataflow_model.runners.engine.lifted.keys import shard_of, split_by_shard
from dataflow_model.runners.engine.lifted.partials import merge_partials, partials
from dataflow_model.runners.engine.lifted.sessions import merge_sessions, session_partials
from dataflow_model.values.keys import encode_key, shard_hash

if TYPE_CHECKING:
    from collections.abc import Sequence

LABELS = (12, 6, 5, 1, 25)
INT64 = st.integers(-(2**63), 2**63 - 1)
INSTANTS = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001 - naive on purpose
KEY_COLUMNS = st.one_of(
    *[
        st.tuples(st.just(kind), st.lists(st.none() | values, min_size=1, max_size=5))
        for kind, values in (
            (pa.int64(), INT64),
            (pa.int8(), st.integers(-128, 127)),
            (pa.uint64(), st.integers(0, 2**64 - 1)),
            (pa.string(), st.text(max_size=4)),
            (pa.large_string(), st.text(max_size=4)),
            (pa.bool_(), st.booleans()),
            (pa.float64(), st.floats(allow_nan=False)),
            (pa.date32(), st.dates(dt.date(1800, 1, 1), dt.date(2200, 1, 1))),
            (pa.timestamp("us"), INSTANTS),
            (pa.timestamp("us", "UTC"), INSTANTS.map(lambda moment: moment.replace(tzinfo=dt.UTC))),
            (pa.binary(), st.binary(max_size=4)),
            (pa.decimal128(9, 2), st.decimals(-1000, 1000, places=2)),
        )
    ]
)
VALUES = st.one_of(
    st.tuples(st.just(pa.int64()), st.lists(st.integers(-(2**58), 2**58), min_size=1)),
    st.tuples(st.just(pa.int64()), st.lists(st.integers(-100, 100), min_size=1)),
    st.tuples(st.just(pa.int16()), st.lists(st.integers(-(2**15), 2**15 - 1), min_size=1)),
    st.tuples(st.just(pa.float64()), st.lists(st.floats(-1e9, 1e9), min_size=1)),
    st.tuples(st.just(pa.float32()), st.lists(st.floats(-1e9, 1e9, width=32), min_size=1)),
)


@st.composite
def key_arrays(draw: st.DrawFn, size: int | None = None) -> pa.Array:
    """Arrays of keys, dictionary-encoded in many ways or not."""
    kind, pool = draw(KEY_COLUMNS)
    rows = draw(st.integers(0, 20)) if size is None else size
    keys = draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows))
    form = draw(st.sampled_from(["plain", "encoded", "clumsy", "chunked"]))
    array = pa.array(keys, kind)
    if form == "encoded":
        return array.dictionary_encode()
    if form == "clumsy":  # a dictionary with repeated entries, null among them
        return pa.DictionaryArray.from_arrays(pa.array(range(rows), pa.int32()), array)
    if form == "chunked":
        return pa.chunked_array([array[: rows // 2].dictionary_encode(), array[rows // 2 :].dictionary_encode()])
    return array


@st.composite
def columns(draw: st.DrawFn, span: int = 60) -> tuple[pa.Array, pa.Array, np.ndarray[Any, np.dtype[np.int64]]]:
    """Keys, values and event times of a few elements."""
    rows = draw(st.integers(0, 20))
    kind, pool = draw(VALUES)
    values = pa.array(draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows)), kind)
    base = draw(st.sampled_from([0, -30, 10**15, -(10**15)]))
    times = draw(st.lists(st.integers(base, base + span), min_size=rows, max_size=rows))
    return draw(key_arrays(rows)), values, np.array(times, np.int64)


def value_of(kernel: Kernel, values: Sequence[Any]) -> Any:
    match kernel:
        case Kernel.COUNT:
            return len(values)
        case Kernel.MEAN:
            return sum(values) / len(values)
        case _:
            function: Any = {Kernel.SUM: sum, Kernel.MIN: min, Kernel.MAX: max}[kernel]
            return function(values)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float):
        return isinstance(ours, float) and math.isclose(ours, theirs, rel_tol=1e-9, abs_tol=1e-3)
    return type(ours) is type(theirs) and bool(ours == theirs)


def rows_of(table: pa.Table, kernel: Kernel) -> dict[tuple[bytes, int, int | None], tuple[Any, ...]]:
    """Read a table of partials as a dict, after checking that no key and window comes twice."""
    rows = table.to_pylist()
    cells = {}
    for row, value in zip(rows, finish(table, kernel).to_pylist(), strict=True):
        cell = (encode_key(row["key"]), row["window_start"], row.get("window_end"))
        cells[cell] = (value, row["count"])
    assert len(cells) == len(rows)
    return cells


def plain(groups: dict[tuple[bytes, int, int | None], list[Any]], kernel: Kernel) -> dict[Any, Any]:
    """Combine values in plain Python."""
    return {cell: (value_of(kernel, values), len(values)) for cell, values in groups.items()}


def assert_same(ours: dict[Any, Any], theirs: dict[Any, Any]) -> None:
    assert ours.keys() == theirs.keys()
    for cell, row in theirs.items():
        assert same(ours[cell][0], row[0]), (cell, ours[cell], row)
        assert ours[cell][1:] == row[1:]


def cuts(rows: int, at: Sequence[float]) -> list[slice]:
    edges = [0, *sorted(int(part * rows) for part in at), rows]
    return [slice(start, end) for start, end in itertools.pairwise(edges)]


CUTS = st.lists(st.floats(0, 1), max_size=3)


@given(key_arrays())
def test_a_column_of_keys_goes_to_the_shards_of_its_elements(keys: pa.Array) -> None:
    expected = [LABELS[shard_hash(encode_key(key)) % len(LABELS)] for key in keys.to_pylist()]
    assert shard_of(keys, LABELS).tolist() == expected


@given(st.lists(INT64))
@example([0, 1, 9, 10, 99, 100, -1, -10, 2**63 - 1, -(2**63)])
def test_integers_hash_by_their_decimal_digits(keys: list[int]) -> None:
    expected = [LABELS[shard_hash(encode_key(key)) % len(LABELS)] for key in keys]
    assert shard_of(pa.array(keys, pa.int64()), LABELS).tolist() == expected


def test_nan_has_no_shard() -> None:
    with pytest.raises(KeyEncodingError, match="NaN"):
        shard_of(pa.array([1.0, math.nan]), LABELS)


@given(key_arrays())
def test_each_key_code_refers_to_its_key(keys: pa.Array) -> None:
    codes, distinct = codes_of(keys)
    entries = [encode_key(key) for key in distinct.to_pylist()]
    assert len(set(entries)) == len(entries)
    assert [entries[code] for code in codes] == [encode_key(key) for key in keys.to_pylist()]


@given(columns(), st.sampled_from(Kernel), st.booleans(), st.sampled_from([7, 10**12]))
def test_partial_results_equal_those_computed_with_a_dict(data: Any, kernel: Kernel, ends: bool, size: int) -> None:
    keys, values, times = data
    starts = times // size * size
    table = partials(keys, values, starts, starts + size if ends else None, kernel)
    groups: dict[Any, Any] = {}
    for key, value, time in zip(keys.to_pylist(), values.to_pylist(), times.tolist(), strict=True):
        start = time // size * size
        groups.setdefault((encode_key(key), start, start + size if ends else None), []).append(value)
    assert_same(rows_of(table, kernel), plain(groups, kernel))
    assert table.column_names == [
        name
        for name in COLUMNS
        if (name != "accumulator" or kernel is not Kernel.COUNT) and (name != "window_end" or ends)
    ]


def test_windows_with_equal_starts_and_different_ends_are_grouped_separately() -> None:
    starts, ends = np.zeros(3, np.int64), np.array([10, 20, 10])
    table = partials(pa.array([1, 1, 1]), pa.array([1, 2, 4]), starts, ends, Kernel.SUM)
    assert sorted(zip(table["window_end"].to_pylist(), table["accumulator"].to_pylist(), strict=True)) == [
        (10, 5),
        (20, 2),
    ]


def test_few_elements_in_many_windows_and_keys_are_grouped_by_a_hash_table() -> None:
    rows = 1000
    keys, starts = pa.array(range(rows)), np.arange(rows, dtype=np.int64) * 10
    table = partials(keys, None, starts, None, Kernel.COUNT)
    assert table.num_rows == rows
    assert table["window_start"].to_pylist() == [key * 10 for key in table["key"].to_pylist()]


@given(columns(), st.sampled_from(Kernel), CUTS)
def test_partial_results_of_batches_merge_into_those_of_the_whole_input(
    data: Any, kernel: Kernel, at: list[float]
) -> None:
    keys, values, times = data
    starts = times // 7 * 7

    def part(cut: slice) -> pa.Table:
        return partials(keys[cut], values[cut], starts[cut], starts[cut] + 7, kernel)

    whole = partials(keys, values, starts, starts + 7, kernel)
    merged = merge_partials([part(cut) for cut in cuts(len(times), at)], kernel)
    assert merged.schema.equals(whole.schema)
    assert_same(rows_of(merged, kernel), rows_of(whole, kernel))


def plain_sessions(elements: list[tuple[bytes, Any, int]], gap: int, kernel: Kernel) -> dict[Any, Any]:
    """Merge proto-windows one by one until none intersect."""
    sessions: dict[bytes, list[tuple[int, int, list[Any]]]] = {}
    for key, value, time in elements:
        start, end, content = time, time + gap, [value]
        apart = []
        for other in sessions.get(key, []):
            if other[0] < end and start < other[1]:
                start, end, content = min(start, other[0]), max(end, other[1]), content + other[2]
            else:
                apart.append(other)
        sessions[key] = [*apart, (start, end, content)]
    groups: dict[Any, Any] = {
        (key, start, end): content for key, cells in sessions.items() for start, end, content in cells
    }
    return plain(groups, kernel)


@given(columns(), st.sampled_from(Kernel), st.integers(1, 12))
def test_sessions_of_a_column_equal_sessions_merged_one_by_one(data: Any, kernel: Kernel, gap: int) -> None:
    keys, values, times = data
    table = session_partials(keys, values, times, gap, kernel)
    elements = [
        (encode_key(key), value, time)
        for key, value, time in zip(keys.to_pylist(), values.to_pylist(), times.tolist(), strict=True)
    ]
    assert_same(rows_of(table, kernel), plain_sessions(elements, gap, kernel))


@given(columns(), st.sampled_from(Kernel), st.integers(1, 12), CUTS)
def test_sessions_of_batches_merge_into_those_of_the_whole_input(
    data: Any, kernel: Kernel, gap: int, at: list[float]
) -> None:
    keys, values, times = data

    def part(cut: slice) -> pa.Table:
        return session_partials(keys[cut], values[cut], times[cut], gap, kernel)

    whole = session_partials(keys, values, times, gap, kernel)
    merged = merge_sessions([part(cut) for cut in cuts(len(times), at)], kernel)
    assert merged.schema.equals(whole.schema)
    assert_same(rows_of(merged, kernel), rows_of(whole, kernel))


def test_events_exactly_one_gap_apart_are_two_sessions() -> None:
    table = session_partials(pa.array([1, 1, 1]), None, np.array([0, 10, 19]), 10, Kernel.COUNT)
    assert table.select(["window_start", "window_end", "count"]).to_pylist() == [
        {"window_start": 0, "window_end": 10, "count": 1},
        {"window_start": 10, "window_end": 29, "count": 2},
    ]


def test_a_long_session_swallows_a_short_one_that_began_later() -> None:
    long = session_partials(pa.array(["a"] * 3), None, np.array([0, 5, 12]), 10, Kernel.COUNT)
    short = session_partials(pa.array(["a"]), None, np.array([3]), 10, Kernel.COUNT)
    later = session_partials(pa.array(["a", "b"]), None, np.array([20, 1]), 10, Kernel.COUNT)
    merged = merge_sessions([long, short, later], Kernel.COUNT)
    assert sorted(zip(*merged.select(["key", "window_start", "window_end"]).to_pydict().values(), strict=True)) == [
        ("a", 0, 30),
        ("b", 1, 11),
    ]


def test_sessions_at_both_ends_of_time_saturate_and_stay_apart() -> None:
    times = np.array([2**63 - 2, -(2**63), 0, 2**63 - 5], np.int64)
    of_sessions = session_partials(pa.array([1] * 4), None, times, 10, Kernel.COUNT)
    bounds = [(-(2**63), -(2**63) + 10), (0, 10), (2**63 - 5, 2**63 - 1)]
    for table in (of_sessions, merge_sessions([of_sessions, of_sessions], Kernel.COUNT)):
        assert list(zip(table["window_start"].to_pylist(), table["window_end"].to_pylist(), strict=True)) == bounds


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_64_bits_raises(sign: int) -> None:
    at = np.zeros(2, np.int64)
    values = pa.array([sign * (2**62 + 1), sign * (2**62)])
    with pytest.raises(OverflowError, match="64 bits"):
        partials(pa.array([1, 1]), values, at, None, Kernel.SUM)
    with pytest.raises(OverflowError, match="64 bits"):
        session_partials(pa.array([1, 1]), values, at, 5, Kernel.MEAN)


@given(st.lists(st.tuples(st.integers(0, 3), INT64), min_size=1, max_size=12))
def test_a_sum_is_exact_or_refused(elements: list[tuple[int, int]]) -> None:
    sums: dict[int, int] = {}
    for key, value in elements:
        sums[key] = sums.get(key, 0) + value
    keys, values = (list(column) for column in zip(*elements, strict=True))
    at = np.zeros(len(elements), np.int64)

    def total() -> dict[int, int]:
        table = partials(pa.array(keys), pa.array(values, pa.int64()), at, None, Kernel.SUM)
        return dict(zip(table["key"].to_pylist(), table["accumulator"].to_pylist(), strict=True))

    if all(-(2**63) <= value < 2**63 for value in sums.values()):
        assert total() == sums
    else:
        with pytest.raises(OverflowError):
            total()


@pytest.mark.parametrize(
    ("keys", "values", "kernel", "fitting"),
    [
        (pa.array([1, None]), pa.array([1, 2]), Kernel.SUM, True),
        (pa.array([1, 2]), pa.array([1, None]), Kernel.SUM, False),
        (pa.array([1, 2]), pa.array([1, None]), Kernel.COUNT, True),
        (pa.array([1, 2]), None, Kernel.COUNT, True),
        (pa.array([1, 2]), None, Kernel.SUM, False),
        (pa.array([1, 2]), pa.array([1.0, math.nan]), Kernel.SUM, True),
        (pa.array([1, 2]), pa.array([1.0, math.nan]), Kernel.MAX, False),
        (pa.array([1.0, math.nan]), pa.array([1, 2]), Kernel.SUM, False),
        (pa.array([1.0, math.nan]).dictionary_encode(), pa.array([1, 2]), Kernel.SUM, False),
        (pa.array([1, 2]), pa.array([True, False]), Kernel.SUM, False),
        (pa.array([1, 2]), pa.array([1, 2], pa.uint64()), Kernel.SUM, False),
        (pa.array([[1], [2]]), pa.array([1, 2]), Kernel.SUM, False),
        (pa.array([1, 2], pa.timestamp("ns")), pa.array([1, 2]), Kernel.SUM, False),
        (pa.array([], pa.float64()), pa.array([], pa.float64()), Kernel.MIN, True),
    ],
)
def test_values_that_a_kernel_cannot_compute_like_python_are_computed_on_the_general_path(
    keys: pa.Array, values: pa.Array | None, kernel: Kernel, fitting: bool
) -> None:
    assert fits(keys, values, kernel) is fitting


def test_infinities_of_both_signs_sum_to_nan_as_in_python() -> None:
    at = np.zeros(2, np.int64)
    table = partials(pa.array([1, 1]), pa.array([math.inf, -math.inf]), at, None, Kernel.SUM)
    assert math.isnan(table["accumulator"][0].as_py())


@given(key_arrays())
def test_splitting_a_table_by_shard_loses_no_row_and_leaves_no_unused_key(keys: pa.Array) -> None:
    times = np.arange(len(keys), dtype=np.int64)
    table = partials(keys, None, times, None, Kernel.COUNT)
    parts = dict(split_by_shard(table, LABELS))
    assert sum(part.num_rows for part in parts.values()) == table.num_rows
    assert_same(
        rows_of(pa.concat_tables([table.slice(0, 0), *parts.values()]), Kernel.COUNT), rows_of(table, Kernel.COUNT)
    )
    for label, part in parts.items():
        assert set(shard_of(part["key"], LABELS).tolist()) == {label}
        assert part.schema.equals(table.schema)
        if pa.types.is_dictionary(part.schema.field("key").type):
            column = part["key"].combine_chunks()
            assert len(column.dictionary) == len(set(column.indices.to_pylist()) - {None})
