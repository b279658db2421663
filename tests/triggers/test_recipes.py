"""The recipes of the page "when", beyond what the page itself runs: their triggers are taken from there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import dataflow_model as dm
from tests.support.documents import run_document
from tests.support.scripting import fixed, run, sessions
from tests.support.triggers.playing import Play, fires_at, merged

PAGE = Path(__file__).resolve().parents[2] / "docs" / "when.md"
HOUR = 3600


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """Return the names that the page's code makes."""
    names: dict[str, Any] = {"__name__": "__main__"}
    run_document(PAGE, names)
    return names


# A first answer at 90 %, the answer at 100 %, then late data on the hour for two days.


def test_the_levels_of_completeness_fire_in_turn(page: dict[str, Any]) -> None:
    play = Play(page["levels"])
    fired = play.play(
        f"e 1@1, w90 10, w 10, p {0.5 * HOUR}, e 2@2, e 3@3, p {1.5 * HOUR}, e 4@2, p {2.5 * HOUR}, w {48 * HOUR + 2}"
    )
    assert fired == ["w90 10", "w 10", f"p {1.5 * HOUR}", f"p {2.5 * HOUR}", f"w {48 * HOUR + 2}"]
    assert play.deadlines == [10, 10, HOUR, 2 * HOUR, 48 * HOUR + 2]
    assert play.finished


def test_late_data_are_emitted_together_at_the_full_hour(page: dict[str, Any]) -> None:
    assert fires_at(page["levels"], f"e 1@1, w 10, e 2@2, p 5, e 3@3, p {HOUR}, e 4@4, p {HOUR + 1}")[1:] == [
        "e 2@2",  # the low watermark's turn began behind it
        f"p {HOUR + 1}",
    ]


def test_the_levels_of_completeness_may_lose_elements_after_two_days(page: dict[str, Any]) -> None:
    with pytest.raises(dm.InvalidArgument, match="may_lose_data"):
        _ = dm.Window.into(dm.FixedWindows("1 hour")).trigger(page["levels"]).allowed_lateness("3 days").strategy


# A hash join that waits an hour.


def test_a_join_fires_with_its_second_side_and_clears_its_state(page: dict[str, Any]) -> None:
    play = Play(dm.Repeatedly(page["BothSides"]("1 hour")))
    for second, side in [(0, "l"), (1, "l"), (2, "r"), (3, "r"), (4, "l")]:
        play.advance_clock("", second * 1_000_000)
        play.element(f"e {second}", f"{side}{second}", 0, retraction=False)
    assert [step for step, _ in play.fired] == ["e 2", "e 4"]
    assert {outcome.mode for _, outcome in play.fired} == {dm.FiringMode.CLEAR}


def test_each_join_has_a_timeout_of_its_own(page: dict[str, Any]) -> None:
    play = Play(dm.Repeatedly(page["BothSides"]("1 hour")))
    assert play.play(f"e l1@0, p {HOUR}, e l2@0, p {HOUR + 5}, e l3@0, p {2 * HOUR + 6}") == [
        f"p {HOUR + 5}",
        f"p {2 * HOUR + 6}",
    ]
    assert play.deadlines == [HOUR, 2 * HOUR + 5]


def test_the_recipe_for_joins_is_refused_for_windows_that_merge(page: dict[str, Any]) -> None:
    with pytest.raises(dm.InvalidArgument, match="define on_merge in BothSides"):
        page["BothSides"]("1 hour").check_for(merging=True)


# Whenever the result is odd.


def test_an_odd_result_is_seen_with_the_mode_of_accumulation(page: dict[str, Any]) -> None:
    odd = page["WhenOdd"]()
    text = "e 1@1+2@1+1@1+1@1, w 10"
    assert run(text, fixed(odd).accumulating()).values == [1, 3, 5]
    assert run(text, fixed(odd).discarding()).values == [1, 3, 1]


def test_the_result_of_merged_windows_may_be_odd(page: dict[str, Any]) -> None:
    assert run("e 2@0, e 2@15, e 1@8, w 30", sessions(page["WhenOdd"]()).accumulating()).brief == [(5, "EARLY")]


# A spike's start and stop.


def test_a_spike_is_reported_once_at_its_start_and_once_at_its_end(page: dict[str, Any]) -> None:
    spike = page["Spike"](low=2, high=8)
    assert fires_at(spike, "e 8@1, e 9@1, e 20@1, e 8@1, e 3@1, e 2@1, e 1@1, e 8@1") == ["e 9@1", "e 2@1"]


def test_a_spike_in_one_of_the_windows_that_merge_is_a_spike(page: dict[str, Any]) -> None:
    whole = merged(page["Spike"](low=2, high=8), [((0, 10), "e 9@1"), ((5, 15), "e 1@6")])
    assert whole.play("e 9@2, e 1@3") == ["e 1@3"]


# A pattern of elements.


def test_a_pattern_is_found_wherever_it_starts_and_repeatedly(page: dict[str, Any]) -> None:
    pattern = page["AfterPattern"](("a", "a", "b"))
    assert fires_at(pattern, "e a@1, e a@2, e a@3, e b@4, e b@5, e a@6, e a@7, e b@8") == ["e b@4", "e b@8"]


# Sliding windows over counts.


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_numbered_elements_are_in_the_same_windows_in_any_order(order: tuple[int, ...]) -> None:
    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        numbers = p | dm.Create(list(order)) | dm.WithTimestamps(lambda number: number)
        pairs = numbers | dm.Map(lambda number: ("k", number)) | dm.Window.into(dm.SlidingWindows(size=2, period=1))
        _ = pairs | dm.ToList.per_key() | "lists" >> dm.io.Collect()
    assert p.result is not None
    lists = {int(record.window.start) // 1_000_000: sorted(record.value[1]) for record in p.result.collected("lists")}
    assert lists == {-1: [0], 0: [0, 1], 1: [1, 2], 2: [2, 3], 3: [3]}


def test_a_sum_of_the_last_elements_is_emitted_at_every_second_arrival(page: dict[str, Any]) -> None:
    given = run("e 1@0+2@0+4@0, e 8@0, e 16@0", page["every_second"], page["SumOfLast"](3))
    assert given.brief == [(3, "EARLY"), (14, "EARLY"), (28, "ON_TIME")]
