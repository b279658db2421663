"""As-of joins: which row belongs to an element, when it is emitted, what is corrected, and what is kept."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.rewrites.explain import explain
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from dataflow_model.transforms.joining.as_of_joins import AsOf
from tests.support.hosts import on_hosts, runner_on
from tests.support.joined_sides import Move, bare, is_left, is_right, joined, scripted
from tests.support.retractions.accounts import Account, run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataflow_model.transforms.joining.as_of_joins import Direction

DIRECTIONS: list[Direction] = ["backward", "forward", "nearest"]
EVERYWHERE = dm.Window.into(dm.GlobalWindows())
MODES: dict[str, dm.WindowInto] = {
    "final": EVERYWHERE,
    "on time": EVERYWHERE.accumulating_and_retracting(),
    "at once": EVERYWHERE.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting(),
}
FORMS: dict[str, Callable[..., dm.Join[Any, Any]]] = {"inner": dm.Join.as_of, "left": dm.Join.left_as_of}


def row_by_hand(rows: dict[int, int], at: int, direction: Direction, within: int | None) -> tuple[int, int] | None:
    """Return the time and the value of the row of an element, by looking at every row."""
    times = [time for time in rows if within is None or abs(time - at) <= within]
    if direction == "backward":
        time = max((time for time in times if time <= at), default=None)
    elif direction == "forward":
        time = min((time for time in times if time >= at), default=None)
    else:
        time = min(times, key=lambda time: (abs(time - at), time), default=None)
    return None if time is None else (time, rows[time])


def accepted(moves: list[Move], lateness: int) -> list[Move]:
    """Return the elements that are not later than the lateness."""
    watermark, elements = -(10**6), list[Move]()
    for move in moves:
        if move[0] == "watermark":
            watermark = max(watermark, move[1], 0)
        elif move[1] >= watermark - lateness:
            elements.append(move)
    return elements


def by_hand(
    moves: list[Move], direction: Direction, within: int | None, *, keeps_left: bool
) -> Counter[tuple[str, tuple[int, int | None], int]]:
    """Return each key and pair, with its event time, by looking at every row for each element."""
    rows: dict[str, dict[int, int]] = {"a": {}, "b": {}}
    for what, at, value in moves:
        if what == "right":
            rows["ab"[value % 2]][at] = value
    pairs: Counter[Any] = Counter()
    for what, at, value in moves:
        key = "ab"[value % 2]
        row = row_by_hand(rows[key], at, direction, within)
        if what == "left" and (row or keeps_left):
            pairs[key, (value, row and row[1]), max(at, row[0]) if row else at] += 1
    return pairs


MOVES = st.lists(
    st.tuples(st.sampled_from(["left", "right", "left", "right", "watermark"]), st.integers(0, 40), st.integers(0, 9)),
    max_size=14,
)
TENS = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Always()).allowed_lateness(1_000).accumulating_and_retracting()
SCHEDULES = st.one_of(
    st.none(),
    st.builds(
        Schedule,
        shards=st.sampled_from([1, 2, 3, 5]),
        cuts=st.sampled_from([(1,), (1, 3), (4,)]),
        restarts=st.sampled_from([frozenset[int](), frozenset(range(1, 40, 2))]),
        crashes=st.sampled_from([{}, {2: 1}]),
    ),
)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("form", FORMS)
@given(
    moves=MOVES,
    within=st.none() | st.integers(0, 12),
    lateness=st.sampled_from([0, 5, 1_000]),
    schedule=SCHEDULES,
)
def test_what_stands_in_the_end_is_what_a_search_through_all_rows_finds(
    form: str,
    mode: str,
    direction: Direction,
    moves: list[Move],
    within: int | None,
    lateness: int,
    schedule: Schedule | None,
) -> None:
    def build(p: dm.Pipeline) -> None:
        join = FORMS[form](direction=direction, within=within)
        pairs = joined(p, moves, join, MODES[mode].allowed_lateness(lateness))
        _ = pairs | "pairs" >> dm.io.Collect()
        _ = pairs | "tens" >> TENS | "count" >> dm.Count.per_key() | "counts" >> dm.io.Collect()

    runner: Any = None if schedule is None else MicroBatchRunner(schedule)
    result = run(build, runner)
    expected = by_hand(accepted(moves, lateness), direction, within, keeps_left=form == "left")
    standing = Account().book(result.collected("pairs")).standing
    assert Counter((*record.value, int(record.event_time) // 1_000_000) for record in standing) == expected
    counts: Counter[Any] = Counter()
    for (key, _, at), count in expected.items():
        counts[key, at // 10 * 10] += count
    by_window = Account().book(result.collected("counts")).by_window()
    seen = {(key, int(window.start) // 1_000_000): count for (key, window), count in by_window.items()}
    assert {home: count for home, count in seen.items() if count} == counts


@pytest.mark.parametrize("direction", DIRECTIONS)
@given(moves=MOVES, within=st.none() | st.integers(0, 12), is_sharded=st.booleans())
def test_what_was_on_time_is_on_time_behind_the_join(
    direction: Direction, moves: list[Move], within: int | None, *, is_sharded: bool
) -> None:
    def build(p: dm.Pipeline) -> None:
        pairs = joined(p, moves, dm.Join.left_as_of(direction=direction, within=within), EVERYWHERE)
        tens = pairs | "tens" >> dm.Window.into(dm.FixedWindows(10)) | "count" >> dm.Count.per_key()
        _ = tens | "counts" >> dm.io.Collect()

    runner: Any = MicroBatchRunner(Schedule(3, cuts=(1,))) if is_sharded else None
    result = run(build, runner)
    assert result.metrics()["count"].get("dropped_because_late", 0) == 0
    counts: Counter[Any] = Counter()
    for (key, _, at), count in by_hand(accepted(moves, 0), direction, within, keeps_left=True).items():
        counts[key, at // 10 * 10] += count
    records = result.collected("counts")
    assert {(*record.value, int(record.window.start) // 1_000_000) for record in records} == {
        (key, count, start) for (key, start), count in counts.items()
    }
    assert {record.pane.timing for record in records} <= {dm.PaneTiming.ON_TIME}


def shown(moves: list[Move], join: dm.Join[Any, Any], mode: str, lateness: int = 0) -> list[str]:
    windowing = MODES[mode].allowed_lateness(lateness)
    result = run(lambda p: joined(p, moves, join, windowing) | "pairs" >> dm.io.Collect())
    return [f"{'-' if record.is_retraction else '+'}{record.value[1]}" for record in result.collected("pairs")]


def rows_of(direction: Direction, lefts: list[int], rows: list[tuple[int, int]], within: int | None = None) -> Any:
    """Return the row of each left element, by its event time."""
    moves: list[Move] = [*(("right", at, 2 * value) for at, value in rows), *(("left", at, 2 * at) for at in lefts)]
    result = run(
        lambda p: (
            joined(p, moves, dm.Join.left_as_of(direction=direction, within=within), EVERYWHERE)
            | "pairs" >> dm.io.Collect()
        )
    )
    pairs = [record.value[1] for record in result.collected("pairs")]
    return {left // 2: None if row is None else row // 2 for left, row in pairs}


def test_the_row_is_the_last_one_before_the_first_one_after_or_the_nearest_one() -> None:
    rows = [(10, 1), (20, 2)]
    assert rows_of("backward", [9, 10, 14, 25], rows) == {9: None, 10: 1, 14: 1, 25: 2}
    assert rows_of("forward", [9, 10, 14, 25], rows) == {9: 1, 10: 1, 14: 2, 25: None}
    assert rows_of("nearest", [9, 10, 14, 16, 25], rows) == {9: 1, 10: 1, 14: 1, 16: 2, 25: 2}


def test_a_row_may_be_as_far_away_as_within_says_and_no_further() -> None:
    assert rows_of("backward", [15, 16], [(10, 1)], within=5) == {15: 1, 16: None}
    assert rows_of("forward", [5, 4], [(10, 1)], within=5) == {5: 1, 4: None}
    assert rows_of("nearest", [15, 16, 5, 4], [(10, 1)], within=5) == {15: 1, 16: None, 5: 1, 4: None}


def test_of_two_rows_that_are_equally_close_the_earlier_one_is_nearest() -> None:
    assert rows_of("nearest", [15], [(20, 2), (10, 1)]) == {15: 1}


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_of_rows_with_equal_times_the_last_one_to_arrive_replaces_the_others(direction: Direction) -> None:
    assert rows_of(direction, [10], [(10, 1), (10, 3), (10, 2)]) == {10: 2}
    moves: list[Move] = [("left", 10, 1), ("right", 10, 1), ("right", 10, 3)]
    assert shown(moves, dm.Join.as_of(direction=direction), "at once") == ["+(1, 1)", "-(1, 1)", "+(1, 3)"]


def test_a_left_element_is_emitted_once_its_row_is_certain_and_no_earlier() -> None:
    moves: list[Move] = [("right", 5, 1), ("left", 10, 1), ("watermark", 10, 0), ("right", 10, 3), ("watermark", 11, 0)]
    assert shown(moves, dm.Join.as_of(), "final") == ["+(1, 3)"]
    assert shown(moves, dm.Join.as_of(), "at once") == ["+(1, 1)", "-(1, 1)", "+(1, 3)"]


LATE_ROW: list[Move] = [
    ("right", 5, 1),
    ("left", 10, 1),
    ("left", 7, 3),
    ("watermark", 20, 0),
    ("right", 8, 3),
    ("watermark", 40, 0),
]


def test_a_late_row_retracts_and_replaces_what_was_emitted_in_a_mode_that_retracts() -> None:
    assert shown(LATE_ROW, dm.Join.as_of(), "on time", 20) == ["+(3, 1)", "+(1, 1)", "-(1, 1)", "+(1, 3)"]
    assert shown(LATE_ROW, dm.Join.as_of(), "final", 20) == ["+(3, 1)", "+(1, 3)"]


def test_a_row_that_is_later_than_the_lateness_is_dropped_and_counted() -> None:
    def build(p: dm.Pipeline) -> None:
        windowing = MODES["on time"].allowed_lateness(9)
        pairs, dropped = joined(p, LATE_ROW, dm.Join.as_of().with_dropped_output(), windowing)
        _ = pairs | "pairs" >> dm.io.Collect(), dropped | "dropped" >> dm.io.Collect()

    result = run(build)
    [dropped] = [record.value for record in result.collected("dropped")]
    assert (dropped.element, dropped.input) == (("b", 3), "right")
    assert result.metrics()["join/partners"]["dropped_because_late"] == 1
    assert [record.value[1] for record in result.collected("pairs")] == [(3, 1), (1, 1)]


def test_a_left_element_without_a_row_is_emitted_at_its_own_time_and_a_pair_at_the_later_one() -> None:
    moves: list[Move] = [("left", 10, 1), ("left", 30, 1), ("right", 12, 1)]
    result = run(
        lambda p: joined(p, moves, dm.Join.left_as_of(direction="forward"), EVERYWHERE) | "pairs" >> dm.io.Collect()
    )
    times = [(int(record.event_time) // 1_000_000, record.value[1][1]) for record in result.collected("pairs")]
    assert sorted(times) == [(12, 1), (30, None)]


def test_elements_without_event_times_have_the_rows_without_event_times() -> None:
    with dm.Pipeline() as p:
        left, right = p | "left" >> dm.Create([("k", 1)]), p | "right" >> dm.Create([("k", 2), ("k", 3)])
        _ = (left, right) | dm.Join.as_of(within="1 minute") | "out" >> dm.io.Collect()
    assert [record.value for record in p.result.collected("out")] == [("k", (1, 3))]


class Price(NamedTuple):
    """A row that holds from a time of its own."""

    valid_from: int
    price: float


def priced(by: Any, *prices: tuple[int, Price]) -> list[Any]:
    with dm.Pipeline() as p:
        orders = p | "orders" >> dm.Create([dm.TimestampedValue(("pen", at), at) for at in (50, 70)])
        announced = [dm.TimestampedValue(("pen", price), at) for at, price in prices]
        sides = orders, p | "prices" >> dm.Create(announced)
        _ = sides | dm.Join.as_of(by=by) | "out" >> dm.io.Collect()
    return [(order, row.price) for _, (order, row) in (record.value for record in p.result.collected("out"))]


@pytest.mark.parametrize("by", ["valid_from", lambda price: price.valid_from], ids=["field", "function"])
def test_a_row_holds_from_the_time_that_a_field_or_a_function_gives(by: Any) -> None:
    assert priced(by, (0, Price(0, 2.0)), (10, Price(60, 2.5))) == [(50, 2.0), (70, 2.5)]
    assert priced(None, (0, Price(0, 2.0)), (10, Price(60, 2.5))) == [(50, 2.5), (70, 2.5)]


def test_a_row_that_holds_from_before_its_event_time_is_rejected_with_a_way_out() -> None:
    with pytest.raises(dm.DataflowError, match=r"'Join.AsOf/valid from' moves an event time backward .*\nHint: "):
        priced("valid_from", (10, Price(5, 2.0)))


def test_a_row_without_the_field_is_an_error_that_names_its_fields() -> None:
    with pytest.raises(dm.DataflowError, match="has no field 'since'"):
        priced("since", (10, Price(5, 2.0)))


@pytest.mark.parametrize(
    ("windowing", "message"),
    [
        (EVERYWHERE.trigger(dm.Always()), "a left element before its row is certain, and could not take that back"),
        (
            EVERYWHERE.trigger(dm.Repeatedly(dm.AfterCount(2))).accumulating_and_retracting(),
            r"emits a left element at once, on time, .* triggered by Repeatedly\(AfterCount\(2\)\)\nHint: use",
        ),
    ],
)
def test_a_trigger_that_an_as_of_join_cannot_follow_is_rejected_when_it_is_built(
    windowing: dm.WindowInto, message: str
) -> None:
    with pytest.raises(dm.InvalidArgument, match=message):
        joined(dm.Pipeline(), LATE_ROW, dm.Join.as_of(), windowing)


def test_the_left_side_decides_and_a_right_side_that_says_something_else_is_rejected() -> None:
    p = dm.Pipeline()
    pairs = p | "pairs" >> dm.Create([("a", 1)])
    at_once, final = (pairs | mode >> MODES[mode] for mode in ("at once", "final"))
    with pytest.raises(dm.InvalidArgument, match=r"left side says so, which is final, but its right side says at once"):
        _ = (final, at_once) | dm.Join.as_of()
    _ = (at_once, final) | dm.Join.as_of()


def test_wrong_arguments_are_rejected_with_a_way_out() -> None:
    wrong: Any = "before"
    with pytest.raises(dm.InvalidArgument, match=r"must be 'backward', 'forward' or 'nearest', got 'before'\nHint: "):
        dm.Join.as_of(direction=wrong)
    with pytest.raises(dm.InvalidArgument, match=r"`within` must not be negative, got '-5 seconds'\nHint: "):
        dm.Join.left_as_of(within=-5)
    number: Any = 5
    with pytest.raises(dm.InvalidType, match=r"`by` must be the name of a field or a function, got 5\nHint: "):
        dm.Join.as_of(by=number)


@pytest.mark.parametrize("row", [4, {"valid": 4}])
def test_a_field_that_rows_lack_is_an_error_that_says_what_by_may_be(row: Any) -> None:
    p = dm.Pipeline()
    sides = p | "left" >> dm.Create([("k", 1)]), p | "right" >> dm.Create([("k", row)])
    _ = sides | dm.Join.as_of(by="nope") | dm.io.Collect()
    with pytest.raises(
        dm.DataflowError, match=r"no field 'nope'[\s\S]*Hint: pass by= the name of a field of the right"
    ):
        p.run().wait_until_finish()


def test_the_plan_in_words_and_the_repr_of_a_join_show_which_row_it_takes() -> None:
    p = dm.Pipeline()
    pairs = p | dm.Create([("k", 1)])
    _ = (pairs, pairs) | "priced" >> dm.Join.as_of(within="1 hour")
    assert "priced/partners: the last right row before each left element, at most 1 hour away; " in explain(p.plan())
    assert repr(dm.Join.left_as_of(within=5)) == "<Join 'Join.LeftAsOf', direction='backward', within='5 seconds'>"


def entries(moves: list[tuple[str, str, int]], join: dm.Join[Any, Any], mode: str = "final") -> list[int]:
    """Return the number of keys that a join keeps state of after each event."""
    script = TestStream()
    for what, key, at in moves:
        script = script.watermark(at) if what == "watermark" else script.add((what, at), at, key=key)

    def build(p: dm.Pipeline) -> None:
        elements = p | "script" >> script
        sides = [elements | f"{belongs}" >> dm.Filter(belongs) for belongs in (is_left, is_right)]
        windowed = [side | f"windows {number}" >> MODES[mode] for number, side in enumerate(sides)]
        _ = tuple(windowed) | "join" >> join | dm.io.Collect()

    runner: Any = MicroBatchRunner(Schedule(2, cuts=(1,), restarts=frozenset(range(1, 100, 2))))
    result: Any = run(build, runner)
    return [
        sum(metrics["state"].get("join/partners", (0, 0))[0] for metrics in batch.metrics)
        for batch in result.micro_batches
    ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_nothing_is_kept_of_keys_that_are_gone(direction: Direction, mode: str) -> None:
    moves: list[tuple[str, str, int]] = []
    for number in range(20):
        at = 100 * number
        moves += [("right", f"key {number}", at + 1), ("left", f"key {number}", at + 2), ("watermark", "", at + 50)]
    kept = entries(moves, dm.Join.left_as_of(within=10, direction=direction), mode)
    assert max(kept) == 1
    assert kept.count(1) == 2 * 20  # until the watermark follows


def test_without_within_a_key_keeps_its_last_row_and_nothing_else() -> None:
    moves = [(what, "k", at) for at in range(0, 500, 5) for what in ("right", "left", "watermark")]
    assert max(entries(moves, dm.Join.as_of())) == 1
    sides = sides_after([(what, at) for what, _, at in moves], dm.Join.as_of())
    assert (len(sides.times), len(sides.row_times)) == (1, 1)  # the watermark has not passed the last element


def test_rows_are_kept_that_a_waiting_element_may_need() -> None:
    sides = sides_after([("right", 10), ("left", 12), ("right", 30), ("watermark", 11)], dm.Join.as_of())
    assert (sides.times, sides.row_times) == ([12_000_000], [10_000_000, 30_000_000])
    sides = sides_after([("left", 12), ("right", 10), ("right", 30), ("watermark", 13)], dm.Join.as_of())
    assert (sides.times, sides.row_times) == ([], [10_000_000, 30_000_000])


def sides_after(moves: list[tuple[str, int]], join: dm.Join[Any, Any]) -> Any:
    """Return what a join keeps of the only key after some events."""
    p = dm.Pipeline()
    pairs = p | dm.Create([("k", 1)])
    _ = (pairs, pairs) | "join" >> join
    fn: Any = p.plan()["join/partners"].fn  # type: ignore[union-attr]
    kept, over, waiting, watermark = Held(), Held(), Held(), Held()
    for what, at in moves:
        if what == "watermark":
            watermark.value = dm.event_time(at)
            while over.value is not None and over.value <= watermark.value:
                over.value, _ = None, over.value
                list(fn.expire(key="k", kept=kept, over=over, waiting=waiting, reached=watermark))
            continue
        element = ("k", (what == "right", at))
        handles: Any = {"kept": kept, "over": over, "waiting": waiting}
        list(fn.process(element, timestamp=dm.event_time(at), **handles))
    return kept.value


class Held:
    """Stands for a state, a timer, a hold and a watermark."""

    def __init__(self) -> None:
        self.value: Any = None

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> None:
        self.value = value

    set = write

    def clear(self) -> None:
        self.value = None


def drawn_value(pair: Any) -> Any:
    return pair[0], (pair[1], random.random())


def test_random_values_are_taken_back_as_they_were_emitted() -> None:
    def build(p: dm.Pipeline) -> None:
        elements = p | "script" >> scripted(LATE_ROW)
        sides = []
        for name, belongs in (("left", is_left), ("right", is_right)):
            side = elements | f"{name} only" >> dm.Filter(belongs) | f"{name} values" >> dm.Map(bare)
            sides.append(side | f"random {name}" >> dm.Map(drawn_value) | f"{name} windows" >> MODES["at once"])
        _ = tuple(sides) | "join" >> dm.Join.left_as_of() | "pairs" >> dm.io.Collect()

    runners: list[Any] = [None, MicroBatchRunner(Schedule(2, cuts=(1,), restarts=frozenset(range(1, 40))))]
    for runner in runners:
        standing = Account().book(run(build, runner).collected("pairs")).values()
        assert sorted((left[0], right[0]) for _, (left, right) in standing) == [(1, 1), (3, 1)]


def test_a_right_side_that_follows_the_clock_does_not_hold_the_left_side_back(tmp_path: Path) -> None:
    def rows(name: str, at: list[int], seen: list[int]) -> str:
        folder = tmp_path / name
        folder.mkdir()
        pq.write_table(
            pa.table(
                {
                    "at": pa.array([second * 1_000_000 for second in at], pa.timestamp("us", "UTC")),
                    "seen": pa.array([second * 1_000_000 for second in seen], pa.timestamp("us", "UTC")),
                }
            ),
            folder / "rows.parquet",
        )
        return str(folder)

    left, right = rows("left", [10, 20, 30], [10, 20, 30]), rows("right", [0, 90], [0, 90])

    def answers(**options: Any) -> list[int]:
        with dm.Pipeline() as p:
            sides = [
                p
                | name >> dm.io.ReadParquet(path, event_time="at", processing_time="seen", **given)
                | f"keys of {name}" >> dm.WithKeys(lambda _: "k")
                for name, path, given in (("left", left, {}), ("right", right, options))
            ]
            _ = tuple(sides) | dm.Join.as_of() | dm.Map(_with_production) | "out" >> dm.io.Collect()
        return [record.value for record in p.result.collected("out")]

    assert answers() == [90, 90, 90]
    assert answers(watermark=dm.WallTime()) == [20, 30, 90]


def _with_production(pair: Any, production_time: dm.ProcessingTime) -> int:
    return int(production_time) // 1_000_000


def test_an_as_of_join_finds_the_rows_that_pandas_finds() -> None:
    pandas = pytest.importorskip("pandas")
    chance = random.Random(5)
    times = chance.sample(range(2_000), 400)
    lefts, rows = times[:250], times[250:]
    keys = {time: chance.choice("abc") for time in times}
    for direction in DIRECTIONS:
        for within in (None, 7):
            left, right = (
                pandas.DataFrame({"at": side, "key": [keys[at] for at in side], "row": side})
                for side in (sorted(lefts), sorted(rows))
            )
            merged = pandas.merge_asof(
                left.drop(columns="row"), right, on="at", by="key", direction=direction, tolerance=within
            )
            found = zip(merged["at"], merged["row"], strict=True)
            expected = {at: None if pandas.isna(row) else int(row) for at, row in found}
            with dm.Pipeline() as p:
                sides = [
                    p | name >> dm.Create([dm.TimestampedValue((keys[at], at), at) for at in side])
                    for name, side in (("left", lefts), ("right", rows))
                ]
                _ = tuple(sides) | dm.Join.left_as_of(direction=direction, within=within) | "out" >> dm.io.Collect()
            assert dict(record.value[1] for record in p.result.collected("out")) == expected


@on_hosts("threads", "process", slow=("workers", "batch", "streaming"))
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("mode", ["final", "at once"])
def test_every_host_finds_the_same_rows(
    host: str, direction: Direction, mode: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    chance = random.Random(3)
    times = chance.sample(range(200), 120)
    moves: list[Move] = [(chance.choice(["left", "right"]), at, chance.randrange(10)) for at in times]
    moves += [("right", 50, 4), ("right", 50, 6)]

    def build(p: dm.Pipeline) -> None:
        pairs = joined(p, moves, dm.Join.left_as_of(direction=direction, within=30), MODES[mode])
        _ = pairs | "pairs" >> dm.io.Collect()

    result = run(build, runner_on(host, request, tmp_path / "checkpoint"))
    standing = Account().book(result.collected("pairs")).standing
    answers = Counter((*record.value, int(record.event_time) // 1_000_000) for record in standing)
    assert answers == by_hand(moves, direction, 30, keeps_left=True)


@given(
    rows=st.sets(st.integers(0, 30), max_size=6),
    time=st.integers(-5, 35),
    direction=st.sampled_from(DIRECTIONS),
    within=st.none() | st.integers(0, 8),
)
def test_a_row_belongs_to_the_elements_of_its_territory_and_to_no_others(
    rows: set[int], time: int, direction: Direction, within: int | None
) -> None:
    as_of, ordered = AsOf(direction, within), sorted(rows)
    index = as_of.row_of(ordered, time)
    inside = [row for row in range(len(ordered)) if _is_in(as_of.territory(ordered, row), time)]
    assert inside == ([] if index is None else [index])
    reach = as_of.reach(ordered, time)
    later = [row for row in range(time + 1, 45) if _row_at(as_of, sorted({*ordered, row}), time) == row]
    assert all(row <= reach for row in later)


def _is_in(territory: tuple[int, int], time: int) -> bool:
    return territory[0] <= time <= territory[1]


def _row_at(as_of: AsOf, rows: list[int], time: int) -> int | None:
    index = as_of.row_of(rows, time)
    return None if index is None else rows[index]
