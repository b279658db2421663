"""Streams in process that go on with another lateness, trigger or mode: columns, chains and clocks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import ManualClock
from tests.support.runners.local_streams import ROWS, Stepped, put_rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.upgrade.pipelines import Build

EARLY = dm.AfterWatermark(early=dm.AfterProcessingTime("1 minute"), late=dm.AfterCount(1))


def combined(folder: Path, windows: Any, combine: Any) -> Build:
    """Return what builds a grouping of a followed folder; its state is in columns if its windows have one pane each."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS)
        results = rows | "pairs" >> dm.WithKeys("key", value="n") | "windows" >> windows | "sums" >> combine
        _ = results | "panes" >> dm.io.Collect()

    return build


def in_columns(checkpoint: Path) -> bool:
    columns: bool = json.loads((checkpoint / "dataflow" / "run.json").read_text())["columns"]["sums"]
    return columns


def panes(stream: Stepped) -> list[tuple[str, Any, int, str]]:
    """Return key, value, end of the window in seconds and timing of each pane."""
    return [
        (*record.value, int(record.window.end) // 1_000_000, record.pane.timing.name)
        for record in stream.collected("panes")
    ]


PLAIN = dm.Window.into(dm.FixedWindows(10))


@pytest.mark.parametrize(
    ("combine", "first", "then"),
    [
        (dm.Sum.per_key(), 3, 7),
        (dm.Count.per_key(), 2, 3),
        (dm.Mean.per_key(), 1.5, 7 / 3),
        (dm.Max.per_key(), 2, 4),
    ],
)
def test_windows_in_columns_go_on_under_a_trigger_and_lateness_that_columns_do_not_have(
    combine: Any, first: float, then: float, tmp_path: Path
) -> None:
    clock = ManualClock("2013-01-01T00:00Z")
    put_rows(tmp_path / "rows", "1", [(1, "a", 7), (11, "a", 1), (12, "b", 5)])
    put_rows(tmp_path / "rows", "2", [(13, "a", 2)])
    Stepped(combined(tmp_path / "rows", PLAIN, combine), tmp_path / "old", clock=clock).steps()
    assert in_columns(tmp_path / "old")
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    later = PLAIN.trigger(EARLY).allowed_lateness("1 hour").accumulating()
    new = Stepped(combined(tmp_path / "rows", later, combine), tmp_path / "new", clock=clock)
    new.steps()
    assert not in_columns(tmp_path / "new")
    closed = len(panes(new))
    clock.advance("59 seconds")
    new.steps()
    assert len(panes(new)) == closed == 1  # the window that ended before the upgrade
    clock.advance("1 second")
    new.steps()
    early = {pane[0]: pane for pane in panes(new)[1:]}
    assert early["a"] == ("a", first, 20, "EARLY")
    assert early["b"][2:] == (20, "EARLY")
    put_rows(tmp_path / "rows", "3", [(14, "a", 4), (30, "c", 1), (2, "a", 100)])
    new.steps()
    on_time = [pane for pane in panes(new) if pane[3] == "ON_TIME" and pane[2] == 20]
    assert ("a", pytest.approx(then), 20, "ON_TIME") in on_time
    assert len(on_time) == 2
    assert new.metrics()["sums"]["dropped_because_late"] == 1  # its window had expired without lateness
    put_rows(tmp_path / "rows", "4", [(15, "a", 0)])
    new.steps()
    assert panes(new)[-1][2:] == (20, "LATE")


def test_windows_in_columns_stay_there_if_their_one_pane_only_changes_its_mode(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(11, "a", 1), (12, "b", 5)])
    Stepped(combined(tmp_path / "rows", PLAIN, dm.Sum.per_key()), tmp_path / "old").steps()
    done = dm.upgrade(tmp_path / "old", tmp_path / "new")
    assert done.keys == {"sums": 2}
    new = Stepped(combined(tmp_path / "rows", PLAIN.accumulating(), dm.Sum.per_key()), tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(13, "a", 2), (30, "c", 1)])
    new.steps()
    assert panes(new) == [("a", 3, 20, "ON_TIME"), ("b", 5, 20, "ON_TIME")]
    assert in_columns(tmp_path / "new")


def test_a_lost_grouping_in_columns_says_how_many_windows_and_elements_it_has(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 7), (11, "a", 1), (12, "b", 5), (13, "a", 2), (25, "b", 1)])
    Stepped(combined(tmp_path / "rows", PLAIN, dm.Sum.per_key()), tmp_path / "old").steps()
    p = dm.Pipeline()
    combined(tmp_path / "rows", dm.Window.into(dm.FixedWindows(7)), dm.Sum.per_key())(p)
    [_, sums] = dm.upgrade(tmp_path / "old", pipeline=p).fates
    assert (sums.label, sums.outcome.value) == ("sums", "needs --drop")
    assert (sums.windows, sums.elements, sums.pending) == (1, 1, 1)


def test_a_shorter_lateness_closes_windows_at_the_next_watermark_and_loses_nothing_that_is_pending(
    tmp_path: Path,
) -> None:
    late = dm.AfterWatermark(late=dm.AfterCount(3))
    windows = PLAIN.trigger(late).allowed_lateness("1 hour")
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (50, "z", 0)])
    old = Stepped(combined(tmp_path / "rows", windows, dm.Sum.per_key()), tmp_path / "old")
    old.steps()
    put_rows(tmp_path / "rows", "2", [(2, "a", 2)])
    old.steps()  # one late element waits for two others
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    shorter = PLAIN.trigger(late).allowed_lateness("5 seconds")
    new = Stepped(combined(tmp_path / "rows", shorter, dm.Sum.per_key()), tmp_path / "new")
    put_rows(tmp_path / "rows", "3", [(3, "a", 4)])
    new.steps()
    assert new.metrics()["sums"]["dropped_because_late"] == 1
    assert [pane for pane in panes(new) if pane[0] == "a"] == [("a", 1, 10, "ON_TIME")]
    put_rows(tmp_path / "rows", "4", [(51, "z", 0)])
    new.steps()
    assert [pane for pane in panes(new) if pane[0] == "a"] == [("a", 1, 10, "ON_TIME"), ("a", 2, 10, "LATE")]


def test_a_watermark_that_is_moved_back_opens_windows_that_had_expired_under_a_shorter_lateness(tmp_path: Path) -> None:
    def build(lateness: str) -> Build:
        return combined(tmp_path / "rows", PLAIN.allowed_lateness(lateness), dm.Sum.per_key())

    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (50, "z", 0)])
    Stepped(build("0 seconds"), tmp_path / "1").steps()
    dm.upgrade(tmp_path / "1", tmp_path / "2")
    put_rows(tmp_path / "rows", "2", [(2, "a", 2)])
    longer = Stepped(build("1 hour"), tmp_path / "2")
    longer.steps()
    assert longer.metrics()["sums"]["dropped_because_late"] == 1
    dm.upgrade(tmp_path / "2", tmp_path / "3", watermarks={"rows": 0})
    put_rows(tmp_path / "rows", "3", [(3, "a", 4), (11, "a", 8)])
    moved = Stepped(build("1 hour"), tmp_path / "3")
    moved.steps()
    assert moved.metrics()["sums"]["dropped_because_late"] == 1
    assert [pane[:3] for pane in panes(moved)] == [("a", 1, 10), ("a", 4, 10)]


def test_a_finished_trigger_stays_finished_under_another_trigger(tmp_path: Path) -> None:
    once = PLAIN.trigger(dm.AfterCount(1), may_lose_data=True)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (2, "a", 2)])
    Stepped(combined(tmp_path / "rows", once, dm.Sum.per_key()), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    always = PLAIN.trigger(dm.Repeatedly(dm.AfterCount(1)))
    new = Stepped(combined(tmp_path / "rows", always, dm.Sum.per_key()), tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(3, "a", 4), (4, "b", 8)])
    new.steps()
    assert [pane[:2] for pane in panes(new)] == [("a", 1), ("b", 8)]
    assert new.metrics()["sums"]["dropped_because_closed"] == 2


def test_a_window_that_has_ended_emits_what_is_pending_at_the_next_watermark_of_another_trigger(tmp_path: Path) -> None:
    never = PLAIN.trigger(dm.Never()).allowed_lateness("1 hour")
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (50, "z", 0)])
    Stepped(combined(tmp_path / "rows", never, dm.Sum.per_key()), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    new = Stepped(combined(tmp_path / "rows", PLAIN.allowed_lateness("1 hour"), dm.Sum.per_key()), tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(51, "z", 0)])
    new.steps()
    assert [pane[:2] for pane in panes(new)] == [("a", 1)]


def chain(folder: Path, first: Any, second: Any) -> Build:
    """Return what builds counts of the sums of a followed folder."""

    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS)
        sums = rows | "pairs" >> dm.WithKeys("key", value="n") | "first" >> first | "sums" >> dm.Sum.per_key()
        counts = sums | "by sum" >> dm.Map(lambda pair: (pair[1], pair[0])) | "second" >> second
        _ = counts | "lists" >> dm.GroupByKey() | "panes" >> dm.io.Collect()

    return build


def standing(stream: Stepped) -> dict[Any, Any]:
    """Return the values that have not been retracted."""
    values: dict[Any, Any] = {}
    for record in stream.collected("panes"):
        place = record.value[0], record.window
        if record.is_retraction:
            assert values.pop(place) == record.value[1]
        else:
            assert place not in values
            values[place] = record.value[1]
    return {place: value for place, value in values.items() if value}


RETRACTING = PLAIN.trigger(dm.Repeatedly(dm.AfterCount(1))).allowed_lateness("1 hour").accumulating_and_retracting()


@pytest.mark.parametrize(
    "changed",
    [
        PLAIN.trigger(dm.Repeatedly(dm.AfterCount(2))).allowed_lateness("1 hour").accumulating_and_retracting(),
        PLAIN.trigger(EARLY).allowed_lateness("2 hours").accumulating_and_retracting(),
        PLAIN.allowed_lateness("1 hour").accumulating_and_retracting(),
    ],
    ids=["count", "early", "default"],
)
@pytest.mark.parametrize("which", ["first", "second", "both"])
def test_a_chain_that_retracts_ends_with_the_results_of_the_new_triggers(
    changed: Any, which: str, tmp_path: Path
) -> None:
    lasting = PLAIN.trigger(dm.Repeatedly(dm.AfterCount(1))).allowed_lateness("2 hours").accumulating_and_retracting()
    first = changed if which in ("first", "both") else RETRACTING
    second = changed if which in ("second", "both") else lasting
    after = chain(tmp_path / "rows", first, second)
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (2, "b", 1), (3, "a", 2), (11, "a", 3)])
    Stepped(chain(tmp_path / "rows", RETRACTING, lasting), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(4, "b", 2), (12, "b", 3), (5, "c", 3), (40, "z", 0), (6, "a", 1)])
    new = Stepped(after, tmp_path / "new", until="drained")
    new.steps()
    whole = Stepped(after, tmp_path / "whole", until="drained")
    whole.steps()
    sort = {place: sorted(value) for place, value in standing(new).items()}
    assert sort == {place: sorted(value) for place, value in standing(whole).items()}
    assert len(sort) >= 3


def test_windows_of_a_grouping_that_retracts_no_more_only_refine_what_they_have_emitted(tmp_path: Path) -> None:
    each = PLAIN.trigger(dm.Repeatedly(dm.AfterCount(1)))
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (2, "a", 2)])
    before = combined(tmp_path / "rows", each.accumulating_and_retracting(), dm.Sum.per_key())
    Stepped(before, tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    new = Stepped(combined(tmp_path / "rows", each.accumulating(), dm.Sum.per_key()), tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(3, "a", 4)])
    new.steps()
    assert [(record.value, record.is_retraction, record.pane.index) for record in new.collected("panes")] == [
        (("a", 1), False, 0),
        (("a", 1), True, 0),
        (("a", 3), False, 1),
        (("a", 7), False, 2),
    ]


def test_windows_that_have_emitted_cannot_begin_to_retract_but_those_that_have_not_can(tmp_path: Path) -> None:
    retracting = PLAIN.accumulating_and_retracting()
    late = PLAIN.allowed_lateness("1 hour").accumulating_and_retracting()
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (12, "a", 2)])
    before = chain(tmp_path / "rows", PLAIN, late)
    Stepped(before, tmp_path / "old").steps()
    p = dm.Pipeline()
    chain(tmp_path / "rows", retracting, late)(p)
    fates = {fate.label: fate.outcome.value for fate in dm.upgrade(tmp_path / "old", pipeline=p).fates}
    assert fates["sums"] == "kept, changed"
    assert fates["lists"] == "needs --drop"  # a list cannot subtract a value


@pytest.mark.parametrize("trigger", [dm.Repeatedly(dm.AfterCount(2)), dm.AfterWatermark(early=dm.AfterCount(3))])
def test_a_side_input_whose_grouping_gets_another_trigger_loses_and_repeats_no_element(
    trigger: dm.Trigger, tmp_path: Path
) -> None:
    def build(windows: Any) -> Build:
        def built(p: dm.Pipeline) -> None:
            rows = p | "rows" >> dm.io.ReadParquet(tmp_path / "rows", event_time="at", follow=True, schema=ROWS)
            pairs = rows | "pairs" >> dm.WithKeys("key", value="n")
            sums = pairs | "side windows" >> windows | "sums" >> dm.Sum.per_key()
            main = pairs | "main windows" >> PLAIN
            looked = main | "look" >> dm.Map(lambda pair, sums: (pair, dict(sums).get(pair[0])), dm.AsDict(sums))
            _ = looked | "panes" >> dm.io.Collect()

        return built

    rows = [(second, "ab"[second % 2], second) for second in range(40)]
    put_rows(tmp_path / "rows", "1", rows[:15])
    Stepped(build(PLAIN), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    put_rows(tmp_path / "rows", "2", rows[15:])
    new = Stepped(build(PLAIN.trigger(trigger, may_lose_data=True)), tmp_path / "new", until="drained")
    new.steps()
    looked = [record.value for record in new.collected("panes")]
    assert sorted(pair[1] for pair, _ in looked) == list(range(40))
    first = {pair[1]: of_key for pair, of_key in looked if pair[1] < 10}
    assert first == {second: (20, 25)[second % 2] for second in range(10)}


# Functions with state ------------------------------------------------------------------------------------------------


class Totals(dm.DoFn):
    """Emit the sum of each window when its state is cleared."""

    total = dm.CombiningStateSpec(dm.Sum())

    def process(self, pair: tuple[str, int], total: dm.CombiningState[int, int]) -> None:
        total.add(pair[1])

    def on_window_expiry(self, key: str, total: dm.CombiningState[int, int]) -> Iterator[tuple[str, int]]:
        yield key, total.read()


def totals(folder: Path, lateness: str) -> Build:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS)
        windows = rows | "pairs" >> dm.WithKeys("key", value="n") | "windows" >> PLAIN.allowed_lateness(lateness)
        _ = windows | "totals" >> dm.ParDo(Totals()) | "panes" >> dm.io.Collect()

    return build


def test_the_state_of_a_function_is_cleared_when_the_new_lateness_says(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (50, "z", 0)])
    Stepped(totals(tmp_path / "rows", "1 hour"), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    new = Stepped(totals(tmp_path / "rows", "5 seconds"), tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(2, "a", 2), (51, "z", 0)])
    new.steps()
    assert [record.value for record in new.collected("panes")] == [("a", 1)]
    assert new.metrics()["totals"]["dropped_because_late"] == 1


def test_a_window_whose_state_was_cleared_does_not_begin_again_under_a_longer_lateness(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (11, "a", 2), (14, "z", 0)])
    Stepped(totals(tmp_path / "rows", "0 seconds"), tmp_path / "old").steps()
    dm.upgrade(tmp_path / "old", tmp_path / "new")
    new = Stepped(totals(tmp_path / "rows", "20 seconds"), tmp_path / "new")
    put_rows(tmp_path / "rows", "2", [(2, "a", 2), (35, "z", 0), (12, "a", 4), (100, "z", 0)])
    new.steps()
    assert [record.value for record in new.collected("panes") if record.value[0] == "a"] == [("a", 1), ("a", 6)]
    assert new.metrics()["totals"]["dropped_because_late"] == 1


def joined(folder: Path, lateness: str, join: Any = None) -> Build:
    def build(p: dm.Pipeline) -> None:
        rows = p | "rows" >> dm.io.ReadParquet(folder, event_time="at", follow=True, schema=ROWS)
        strategy = dm.Window.into(dm.GlobalWindows()).allowed_lateness(lateness)
        pairs = rows | "pairs" >> dm.WithKeys("key", value="n") | "windows" >> strategy
        left, right = (pairs | name >> dm.Filter(lambda pair, name=name: name == "left") for name in ("left", "right"))
        _ = (left, right) | "joined" >> (join or dm.Join(within="5 seconds")) | "panes" >> dm.io.Collect()

    return build


def test_a_join_by_distance_cannot_allow_more_lateness_since_partners_are_gone(tmp_path: Path) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (50, "z", 0)])
    Stepped(joined(tmp_path / "rows", "10 seconds"), tmp_path / "old").steps()

    def outcome(lateness: str) -> str:
        p = dm.Pipeline()
        joined(tmp_path / "rows", lateness)(p)
        [fate] = [fate for fate in dm.upgrade(tmp_path / "old", pipeline=p).fates if fate.keys]
        return fate.outcome.value

    assert outcome("10 seconds") == outcome("5 seconds") == "kept"
    assert outcome("20 seconds") == "needs --drop"
    with pytest.raises(
        dm.CheckpointMismatch, match="lateness 20 seconds, was 10 seconds; what later elements would need"
    ):
        Stepped(joined(tmp_path / "rows", "20 seconds"), tmp_path / "old").steps()


@pytest.mark.parametrize(
    ("before", "after", "difference"),
    [
        (
            dm.Join(within="5 seconds"),
            dm.Join(within="1 minute"),
            r"inner join of partners at most 5 seconds apart; it is: inner join of partners at most 1 minute apart",
        ),
        (
            dm.Join(within="5 seconds"),
            dm.Join.left(within="5 seconds"),
            r"inner join of partners at most 5 seconds apart; it is: left join of partners",
        ),
        (
            dm.Join.as_of(within="5 seconds"),
            dm.Join.as_of(),
            r"was: at most 5 seconds away; it is: the same without this",
        ),
        (
            dm.Join.as_of(),
            dm.Join.as_of(direction="forward"),
            r"the last right row before each left element; it is: inner join with the first right row after",
        ),
    ],
)
def test_a_join_with_other_partners_does_not_go_on_with_the_state_of_the_former(
    before: Any, after: Any, difference: str, tmp_path: Path
) -> None:
    put_rows(tmp_path / "rows", "1", [(1, "a", 1), (50, "z", 0)])
    Stepped(joined(tmp_path / "rows", "0 seconds", before), tmp_path / "old").steps()
    with pytest.raises(dm.CheckpointMismatch, match=difference):
        Stepped(joined(tmp_path / "rows", "0 seconds", after), tmp_path / "old").steps()
    p = dm.Pipeline()
    joined(tmp_path / "rows", "0 seconds", after)(p)
    [fate] = [fate for fate in dm.upgrade(tmp_path / "old", pipeline=p).fates if fate.keys]
    assert fate.outcome.value == "needs --drop"
