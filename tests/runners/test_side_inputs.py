"""Which values a side input holds: the same whether it is static or changes, and the newest of each key."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.testing import TestStream, strategies
from tests.support.hosts import on_hosts, runner_on
from tests.support.pipelines import run

if TYPE_CHECKING:
    from pathlib import Path

Shape: TypeAlias = Callable[[Any], Any]
Elements: TypeAlias = list[tuple[str, int, int]]

EACH = dm.Window.into(dm.GlobalWindows()).trigger(dm.Repeatedly(dm.AfterCount(1)))
SCORES: Elements = [("a", 1, 0), ("a", 2, 1), ("a", 4, 2), ("b", 8, 3)]


def source(elements: Elements, *, static: bool) -> Any:
    """Return the same pairs as elements that are known before the run, and as a script."""
    if static:
        return dm.Create([dm.TimestampedValue((key, value), at) for key, value, at in elements])
    script = TestStream()
    for key, value, at in elements:
        script = script.add(value, at, key=key)
    return script


# Windows --------------------------------------------------------------------------------------------------------------

elements = st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9), st.integers(0, 25)), max_size=8)
groupings: dict[str, Shape] = {
    "none": lambda side: side,
    "sums": lambda side: side | dm.Sum.per_key(),
    "all": lambda side: side | dm.Values() | dm.CombineGlobally(dm.ToList()),
}


@pytest.mark.parametrize("grouping", groupings)
@given(elements, st.lists(st.integers(0, 25), min_size=1, max_size=4), strategies.window_fns(), strategies.window_fns())
@example([("a", 1, 12)], [3], dm.SlidingWindows(10, 5), dm.FixedWindows(10))
def test_static_and_changing_side_inputs_have_the_same_values(
    grouping: str, sides: Elements, mains: list[int], side_fn: dm.WindowFn, main_fn: dm.WindowFn
) -> None:
    def seen(*, static: bool) -> list[Any]:
        def build(p: dm.Pipeline) -> None:
            windows = dm.Window.into(side_fn)
            side = groupings[grouping](p | "side" >> source(sides, static=static) | "side windows" >> windows)
            main = p | "main" >> source([("a", number, at) for number, at in enumerate(mains)], static=True)
            both = main | "windows" >> dm.Window.into(main_fn)
            both = both | dm.Map(lambda pair, side, window: (pair, window, sorted(side, key=repr)), dm.AsIter(side))
            _ = both | "out" >> dm.io.Collect()

        records = run(dm.LocalRunner(clock=0), build).collected("out")
        return sorted((record.value for record in records), key=repr)

    assert seen(static=True) == seen(static=False)


@pytest.mark.parametrize("static", [True, False])
def test_the_side_window_is_the_assigned_one_that_ends_first_even_if_it_is_empty(*, static: bool) -> None:
    def seen(at: int) -> Any:
        def build(p: dm.Pipeline) -> None:
            side = p | "side" >> source([("a", 1, at)], static=static) | dm.Window.into(dm.SlidingWindows(10, 5))
            main = p | "main" >> source([("m", 0, 3)], static=True) | "tens" >> dm.Window.into(dm.FixedWindows(10))
            _ = main | dm.Map(lambda _, side: side, dm.AsIter(side)) | "out" >> dm.io.Collect()

        return run(dm.LocalRunner(), build).collected("out")[0].value

    assert seen(9) == [("a", 1)]
    assert seen(12) == []  # which is only in the window that ends at 15


# Panes that replace each other ----------------------------------------------------------------------------------------


def looked_up(shape: Shape, windowing: dm.WindowInto, *, static: bool, runner: Any = None) -> Any:
    """Return what a late main element sees of the scores."""

    def build(p: dm.Pipeline) -> None:
        side = shape(p | "side" >> source(SCORES, static=static) | "side windows" >> windowing)
        main = p | "main" >> (dm.Create([0]) if static else TestStream().processing_time(10).add(0, 200))
        _ = main | "look" >> dm.Map(lambda _, side: sorted(side, key=str), dm.AsIter(side)) | "out" >> dm.io.Collect()

    return run(runner or dm.LocalRunner(clock=0), build).collected("out")[0].value


def sums(scores: Any) -> Any:
    return scores | "sums" >> dm.Sum.per_key()


ACCEPTED: dict[str, tuple[Shape, list[Any]]] = {
    "sums": (sums, [("a", 7), ("b", 8)]),
    "a reshuffle": (lambda scores: sums(scores) | dm.Reshuffle(), [("a", 7), ("b", 8)]),
    "other times": (
        lambda scores: sums(scores) | dm.WithTimestamps(lambda _: dm.EventTime(2**63 - 2)),
        [("a", 7), ("b", 8)],
    ),
    "another trigger": (lambda scores: sums(scores) | dm.Window.trigger(dm.Always()), [("a", 7), ("b", 8)]),
    "grouped together": (
        lambda scores: {"scores": scores} | dm.CoGroupByKey(),
        [("a", {"scores": [1, 2, 4]}), ("b", {"scores": [8]})],
    ),
    "a pair of all": (lambda scores: scores | dm.Latest.globally(), [("b", 8)]),
    "text of all": (
        lambda scores: scores | dm.Values() | dm.Sum.globally() | dm.Map(lambda total: ("total", total)),
        [("total", 15)],
    ),
    "all, in parts": (lambda scores: scores | dm.Values() | dm.CombineGlobally(sum).with_fanout(3), [15]),
    "last panes, which a function chooses": (
        lambda scores: sums(scores) | dm.Filter(lambda _, pane: pane.index == 0) | dm.Values(),
        [1, 8],
    ),
    "no grouping": (lambda scores: scores | dm.Values(), [1, 2, 4, 8]),
}


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("name", ACCEPTED)
def test_later_elements_see_the_newest_pane_of_each_key(name: str, *, static: bool) -> None:
    shape, expected = ACCEPTED[name]
    assert looked_up(shape, EACH.accumulating(), static=static) == expected


REFUSED: dict[str, tuple[Shape, list[Any], str]] = {
    "values": (lambda scores: sums(scores) | dm.Values(), [7, 8], "after 'Values' it is unknown"),
    "text": (
        lambda scores: sums(scores) | "text" >> dm.MapTuple(lambda key, total: f"{key}: {total}"),
        ["a: 7", "b: 8"],
        "after 'text' it is unknown",
    ),
    "swapped": (lambda scores: sums(scores) | dm.KvSwap(), [(7, "a"), (8, "b")], "after 'KvSwap' it is unknown"),
    "small ones": (
        lambda scores: sums(scores) | "small" >> dm.Filter(lambda pair: pair[1] < 7),
        [],
        "after 'small' it is unknown",
    ),
    "small ones of all": (
        lambda scores: scores | dm.Values() | dm.Sum.globally() | "small" >> dm.Filter(lambda total: total < 15),
        [],
        "after 'small' it is unknown",
    ),
    "two groupings": (
        lambda scores: (sums(scores), scores | "counts" >> dm.Count.per_key()) | dm.Flatten(),
        [("a", 3), ("a", 7), ("b", 1), ("b", 8)],
        "after 'Flatten' it is unknown",
    ),
    "other windows": (
        lambda scores: sums(scores) | "anew" >> dm.Window.into(dm.GlobalWindows()),
        [("a", 7), ("b", 8)],
        "after 'anew' it is unknown",
    ),
}


@pytest.mark.parametrize("static", [True, False])
@pytest.mark.parametrize("name", REFUSED)
def test_a_side_input_without_known_keys_requires_retractions(name: str, *, static: bool) -> None:
    shape, expected, why = REFUSED[name]
    with pytest.raises(dm.PlanError, match=rf"{why} which values belong to one pane\nHint: use \.accumulating_and"):
        looked_up(shape, EACH.accumulating(), static=static)
    assert looked_up(shape, EACH.accumulating_and_retracting(), static=static) == expected
    windowing = dm.Window.into(dm.GlobalWindows()).accumulating()
    assert looked_up(shape, windowing, static=True) == expected  # one pane, which nothing replaces


def test_micro_batch_mode_retracts_the_values_that_it_replaces_in_a_side_input() -> None:
    runner = dm.LocalRunner(mode="microbatch", interval=1, clock=0)
    for shape, expected, _ in REFUSED.values():
        assert looked_up(shape, dm.Window.into(dm.GlobalWindows()), static=False, runner=runner) == expected
    kept = "kept" >> dm.Map(lambda pair: pair).retractable(False)
    with pytest.raises(dm.PlanError, match=r"after 'kept' it is unknown(.|\n)*Hint: use mode='streaming', or dm\.CoG"):
        looked_up(lambda scores: sums(scores) | kept, EACH, static=False, runner=runner)


def test_a_side_input_of_merging_sessions_requires_retractions() -> None:
    def seen(windowing: dm.WindowInto) -> Any:
        def build(p: dm.Pipeline) -> None:
            side = sums(p | "side" >> TestStream().add(1, 0, key="k").add(2, 3, key="k") | windowing)
            main = p | "main" >> TestStream().processing_time(10).add(0, 4)
            main = main | "instants" >> dm.Window.into(dm.FixedWindows("1 us"))
            _ = main | dm.Map(lambda _, side: side, dm.AsIter(side)) | "out" >> dm.io.Collect()

        return run(dm.LocalRunner(), build).collected("out")[0].value

    sessions = dm.Window.into(dm.Sessions(5)).trigger(dm.Repeatedly(dm.AfterCount(1)))
    for windowing in (sessions.accumulating(), sessions):
        with pytest.raises(dm.PlanError, match=r"replace each other, but its windows merge\nHint: use \.accumulating"):
            seen(windowing)
    assert seen(sessions.accumulating_and_retracting()) == [("k", 3)]


# Values that functions must not change --------------------------------------------------------------------------------

HOSTS = on_hosts("local", "workers", "process", "batch", slow=("streaming",))


def attempt(element: Any, change: Callable[[Any], Any], side: Any) -> str:
    """Return what a change of a side input raises; the tests pickle it, so it is at the top level."""
    del element
    try:
        change(side)
    except TypeError as error:
        return str(error).partition("\n")[0]
    return "changed"


def append(values: Any) -> None:
    values.append(1)


def append_inside(values: Any) -> None:
    values["rows"].append(1)


def set_default(values: Any) -> None:
    values.setdefault("b", 1)


def add(values: Any) -> None:
    values.add(1)


def sort_pair(values: Any) -> None:
    values[0][1].sort()


def copy_and_change(values: Any) -> None:
    copied = copy.deepcopy(values)
    copied["rows"] += [1]
    assert len(copied["rows"]) == len(values["rows"]) + 1


@HOSTS
def test_a_side_input_cannot_be_changed_on_any_host(host: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.Create([("rows", [2, 1])])
        empty = rows | "none" >> dm.Filter(lambda _: False)
        sets = rows | "sets" >> dm.Map(lambda pair: set(pair[1]))
        for name, (change, side) in {
            "append": (append, dm.AsList(rows)),
            "sort_pair": (sort_pair, dm.AsIter(rows)),
            "set_default": (set_default, dm.AsDict(rows)),
            "append_inside": (append_inside, dm.AsDict(rows)),
            "add": (add, dm.AsSingleton(sets)),
            "default": (append, dm.AsSingleton(empty, default=[])),
            "copy": (copy_and_change, dm.AsDict(rows)),
        }.items():
            numbers = p | f"numbers {name}" >> dm.Create([1, 2, 3])
            texts = numbers | name >> dm.Map(attempt, change, side) | f"one {name}" >> dm.Distinct()
            _ = (
                texts
                | f"key {name}" >> dm.Map(lambda text, name: (name, text), name)
                | f"out {name}" >> dm.io.Collect()
            )

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    refused = "cannot be changed, but a function calls"
    for name, expected in {
        "append": f"the side input 'rows' {refused} append() on it",
        "sort_pair": f"the side input 'rows' {refused} sort() on it",
        "set_default": f"the side input 'rows' {refused} setdefault() on it",
        "append_inside": f"the side input 'rows' {refused} append() on it",
        "add": f"the side input 'sets' {refused} add() on it",
        "default": f"the side input 'none' {refused} append() on it",
        "copy": "changed",
    }.items():
        assert [record.value for record in result.collected(f"out {name}")] == [(name, expected)]


def test_a_side_input_that_changes_during_the_run_cannot_be_changed_by_a_function() -> None:
    def build(p: dm.Pipeline) -> None:
        side = p | "side" >> TestStream().add(("a", [1]), 0).watermark_to_infinity()
        main = p | "main" >> TestStream().processing_time(10).add(0, 200)
        _ = main | dm.Map(attempt, append, dm.AsList(side)) | "out" >> dm.io.Collect()

    [record] = run(dm.LocalRunner(), build).collected("out")
    assert record.value == "the side input 'side' cannot be changed, but a function calls append() on it"


def test_a_default_object_of_a_side_input_is_unchanged_in_each_run() -> None:
    class Counter:
        def __init__(self) -> None:
            self.count = 0

        def next(self) -> int:
            self.count += 1
            return self.count

    p = dm.Pipeline(runner=dm.LocalRunner())
    empty = p | "none" >> dm.Create([1]) | dm.Filter(lambda _: False)
    view = dm.AsSingleton(empty, default=Counter())
    _ = p | "main" >> dm.Create([0]) | dm.Map(lambda _, side: side.next(), view) | "out" >> dm.io.Collect()
    for _run in range(2):
        result = p.run()
        result.wait_until_finish()
        assert [record.value for record in result.collected("out")] == [1]


def test_values_of_a_side_input_can_be_emitted_as_elements() -> None:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.Create([("a", {"n": 1, "tags": ["x"]}), ("b", {"n": 2, "tags": []})])
        found = p | "keys" >> dm.Create(["a", "b", "a"]) | dm.Map(lambda key, rows: rows[key], dm.AsDict(rows))
        _ = found | "out" >> dm.io.Collect()
        _ = found | "n" >> dm.Map(lambda row: (row["n"], row["tags"])) | dm.GroupByKey() | "groups" >> dm.io.Collect()

    result = run(dm.LocalRunner(), build)
    assert result.table("out").arrow.to_pylist() == [
        {"n": 1, "tags": ["x"]},
        {"n": 2, "tags": []},
        {"n": 1, "tags": ["x"]},
    ]
    assert sorted(record.value for record in result.collected("groups")) == [(1, [["x"], ["x"]]), (2, [[]])]


# Windows of one's own -------------------------------------------------------------------------------------------------


@attrs.frozen
class PlanWindow(dm.IntervalWindow):
    plan: str = ""


@attrs.frozen
class ByPlan(dm.WindowFn):
    """Windows of a minute for premium users, of an hour for everyone else; with `named`, they carry the plan."""

    named: bool = False

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[dm.IntervalWindow]:
        _, plan = element
        [window] = dm.FixedWindows(60 if plan == "premium" else 3600).assign(event_time, element)
        return [PlanWindow(window.start, window.end, plan) if self.named else window]


USERS = [("ann", "premium"), ("bob", "free"), ("cas", "trial")]


def names(users: Iterable[tuple[str, str]]) -> str:
    return " ".join(sorted(name for name, _ in users))


@HOSTS
def test_elements_see_the_side_windows_of_a_window_function_that_depends_on_elements(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    def build(p: dm.Pipeline) -> None:
        users = p | "users" >> dm.Create([dm.TimestampedValue(user, 70) for user in USERS])
        cases: dict[str, tuple[dm.WindowFn, dm.WindowFn]] = {
            "own": (ByPlan(), ByPlan()),
            "fields": (ByPlan(named=True), ByPlan(named=True)),
            "other main": (dm.FixedWindows("2 minutes"), ByPlan()),
            "other side": (ByPlan(), dm.FixedWindows("1 hour")),
        }
        for name, (main_fn, side_fn) in cases.items():
            side = users | f"side {name}" >> dm.Window.into(side_fn)
            main = users | f"main {name}" >> dm.Window.into(main_fn)
            seen = main | f"see {name}" >> dm.Map(lambda user, side: (user[0], names(side)), dm.AsList(side))
            _ = seen | name >> dm.io.Collect()

    result = run(runner_on(host, request, tmp_path / "checkpoint"), build)
    for name, expected in {
        "own": {"ann": "ann", "bob": "bob cas", "cas": "bob cas"},
        "fields": {"ann": "ann", "bob": "bob", "cas": "cas"},  # these windows differ in their fields only
        "other main": dict.fromkeys(("ann", "bob", "cas"), "ann"),  # the first window to end that holds anything
        "other side": dict.fromkeys(("ann", "bob", "cas"), "ann bob cas"),
    }.items():
        assert dict(record.value for record in result.collected(name)) == expected, name


def changing(main_fn: dm.WindowFn, side_fn: dm.WindowFn, p: dm.Pipeline) -> None:
    """Look users up in those that arrive with them, and in hours that pass one by one."""
    script = TestStream().add(("ann", "premium"), 70).add(("bob", "free"), 80)
    for seconds in (120, 3600, 7200):
        script = script.processing_time(seconds).watermark(seconds)
    users = p | "users" >> script
    side = users | "side windows" >> dm.Window.into(side_fn)
    main = users | "main windows" >> dm.Window.into(main_fn)
    _ = main | "see" >> dm.Map(lambda user, side: (user[0], names(side)), dm.AsList(side)) | "out" >> dm.io.Collect()


@on_hosts("local", "workers", "process", slow=("streaming",))
def test_elements_wait_only_for_their_own_windows_of_a_changing_side_input(
    host: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    result = run(runner_on(host, request, tmp_path / "checkpoint"), partial(changing, ByPlan(), ByPlan()))
    seen = {record.value: int(record.processing_time) // 1_000_000 for record in result.collected("out")}
    assert seen == {("ann", "ann"): 120, ("bob", "bob"): 3600}


@pytest.mark.parametrize("side_fn", [ByPlan(), dm.FixedWindows(60, phase_shift=True)])
def test_windows_that_depend_on_elements_must_be_those_of_both_main_and_changing_side_input(
    side_fn: dm.WindowFn,
) -> None:
    for main_fn in (dm.FixedWindows(60), ByPlan(named=True)):
        with pytest.raises(dm.PlanError, match=r"'see' cannot wait for a window of its side input 'side windows', wh"):
            run(dm.LocalRunner(), partial(changing, main_fn, side_fn))


def test_windows_that_depend_on_event_times_alone_may_differ_between_main_and_side_input() -> None:
    class Hours(dm.WindowFn):
        def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[dm.IntervalWindow]:
            return dm.FixedWindows("1 hour").assign(event_time, element)

    records = run(dm.LocalRunner(), partial(changing, dm.FixedWindows(60), Hours())).collected("out")
    assert [record.value for record in records] == [("ann", "ann bob"), ("bob", "ann bob")]


def test_one_window_function_without_equality_is_accepted_for_both_inputs() -> None:
    class Plans(dm.WindowFn):
        def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[dm.IntervalWindow]:
            return ByPlan().assign(event_time, element)

    plans = Plans()
    records = run(dm.LocalRunner(), partial(changing, plans, plans)).collected("out")
    assert [record.value for record in records] == [("ann", "ann"), ("bob", "bob")]
