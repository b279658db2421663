"""Side inputs that change while a pipeline runs: what an element sees, and what it waits for."""

from __future__ import annotations

import cProfile
import pstats
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.errors import UserCodeError
from dataflow_model.runners.engine.collections.sides import HeldWindows
from dataflow_model.testing import TestStream
from dataflow_model.testing.proving.micro_batches import MicroBatchRunner, Schedule
from dataflow_model.time import event_time

if TYPE_CHECKING:
    from collections.abc import Callable

EACH = dm.Repeatedly(dm.AfterCount(1))
TENS = dm.Window.into(dm.FixedWindows(10))


def see(element: Any, side: Any) -> Any:
    return element, side


def joined(
    main: TestStream,
    side: TestStream,
    view: Callable[[Any], Any],
    *,
    main_windows: dm.WindowInto = TENS,
    side_windows: dm.WindowInto = TENS,
    combine: Any = None,
) -> Any:
    """Run main elements beside the sums of a side input; return the result."""
    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        sums = p | "side" >> side | "side windows" >> side_windows | "sums" >> (combine or dm.Sum.globally())
        elements = p | "main" >> main | "main windows" >> main_windows
        _ = elements | "see" >> dm.Map(see, view(sums)) | "seen" >> dm.io.Collect()
    return result_of(p)


def result_of(p: dm.Pipeline) -> Any:
    assert p.result is not None
    return p.result


def values(result: Any) -> list[Any]:
    return [record.value for record in result.collected("seen")]


def test_an_element_waits_for_the_pane_of_its_side_window() -> None:
    main = TestStream().add("early", 3).processing_time(7).add("later", 4)
    side = TestStream().add(5, 1).processing_time(5).watermark(10)
    result = joined(main, side, dm.AsSingleton)
    assert values(result) == [("early", 5), ("later", 5)]
    assert [int(record.processing_time) for record in result.collected("seen")] == [5_000_000, 7_000_000]


def test_an_element_sees_the_side_window_that_contains_the_end_of_its_own_window() -> None:
    main = TestStream().add("x", 3)  # in [0, 20), whose last instant lies in [10, 20)
    side = TestStream().add(1, 5).add(2, 15).watermark(20)
    assert values(joined(main, side, dm.AsSingleton, main_windows=dm.Window.into(dm.FixedWindows(20)))) == [("x", 2)]


def test_an_element_gets_the_default_once_the_watermark_passes_its_empty_side_window() -> None:
    main = TestStream().add("x", 3).processing_time(9)
    side = TestStream().processing_time(4).watermark(10).processing_time(8)
    result = joined(main, side, lambda sums: dm.AsSingleton(sums, default="none"))
    assert values(result) == [("x", "none")]
    assert [int(record.processing_time) for record in result.collected("seen")] == [4_000_000]
    assert values(joined(main, side, dm.AsIter)) == [("x", [])]


def test_a_singleton_of_nothing_names_the_transform_and_the_element() -> None:
    with pytest.raises(UserCodeError, match=r"'sums.*' of AsSingleton has no value.*\n.*'see'\n.*'x'"):
        joined(TestStream().add("x", 3), TestStream().watermark(10), dm.AsSingleton)


def test_later_elements_see_the_newest_pane_and_earlier_ones_are_not_revisited() -> None:
    main = TestStream().add("a", 1).processing_time(2).add("b", 2).processing_time(4).add("c", 3)
    side = TestStream().processing_time(1).add(5, 1).processing_time(3).add(7, 2)
    accumulating = TENS.trigger(EACH).accumulating()
    discarding = TENS.trigger(EACH).discarding()
    assert values(joined(main, side, dm.AsSingleton, side_windows=accumulating)) == [("a", 5), ("b", 5), ("c", 12)]
    assert values(joined(main, side, dm.AsIter, side_windows=discarding)) == [("a", [5]), ("b", [5]), ("c", [5, 7])]


def test_each_key_of_a_dict_is_replaced_by_its_own_newest_pane() -> None:
    main = TestStream().processing_time(9).add("x", 3)
    side = TestStream().add(1, 1, key="a").add(2, 1, key="b").add(3, 1, key="a")
    windows = TENS.trigger(EACH).accumulating()
    result = joined(main, side, dm.AsDict, side_windows=windows, combine=dm.Sum.per_key())
    assert values(result) == [("x", {"a": 4, "b": 2})]


def test_waiting_elements_hold_the_watermark_of_the_output() -> None:
    """The main watermark passes the window while its element waits; it is on time behind all the same."""
    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        side = p | "side" >> TestStream().processing_time(5).add(10, 1).watermark(10) | "side windows" >> TENS
        main = p | "main" >> TestStream().add(1, 3).watermark(30).add(2, 35) | "main windows" >> TENS
        scaled = main | "scale" >> dm.Map(
            lambda x, by: ("k", x * by), dm.AsSingleton(side | dm.Sum.globally(), default=0)
        )
        _ = scaled | dm.Sum.per_key() | "panes" >> dm.io.Collect()
    panes = result_of(p).collected("panes")
    assert [(record.value[1], record.pane.timing) for record in panes] == [
        (10, dm.PaneTiming.ON_TIME),
        (0, dm.PaneTiming.ON_TIME),
    ]
    assert result_of(p).metrics()["scale"] == {"elements_in": 2}
    assert set(result_of(p).watermarks().values()) == {dm.MAX_TIMESTAMP}


def test_side_elements_without_a_pane_are_seen_once_the_watermark_has_passed_their_window() -> None:
    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        side = p | "side" >> TestStream().add("p", 1).processing_time(3).add("q", 2).watermark(10) | "s" >> TENS
        main = p | "main" >> TestStream().add("x", 3) | "m" >> TENS
        _ = main | "see" >> dm.Map(see, dm.AsIter(side)) | "seen" >> dm.io.Collect()
    assert values(result_of(p)) == [("x", ["p", "q"])]


def test_an_element_in_several_windows_sees_a_side_window_for_each() -> None:
    main = TestStream().add("x", 12)
    side = TestStream().add(1, 5).add(2, 15).watermark(30)
    sliding = dm.Window.into(dm.SlidingWindows(20, 10))
    result = joined(main, side, lambda sums: dm.AsSingleton(sums, default=0), main_windows=sliding)
    assert sorted((int(record.window.end), record.value) for record in result.collected("seen")) == [
        (20_000_000, ("x", 2)),
        (30_000_000, ("x", 0)),
    ]


def test_an_element_whose_side_window_is_forgotten_is_dropped_and_counted() -> None:
    main = TestStream().watermark(10).add("late", 3).add("good", 13)
    side = TestStream().add(1, 5).add(2, 15).watermark(20)
    result = joined(main, side, dm.AsSingleton)
    assert values(result) == [("good", 2)]
    assert result.metrics()["see"] == {"elements_in": 2, "dropped_because_late": 1}
    lenient = joined(main, side, dm.AsSingleton, main_windows=TENS.allowed_lateness(1))
    assert values(lenient) == [("late", 1), ("good", 2)]


def test_tagged_outputs_and_dead_letters_work_with_a_changing_side_input() -> None:
    def split(element: int, limit: int) -> Any:
        if element < 0:
            raise ValueError(element)
        yield element if element < limit else dm.TaggedOutput("large", element)

    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        limit = (
            p | "limit" >> TestStream().processing_time(5).add(10, 1) | "l" >> TENS.trigger(EACH) | dm.Sum.globally()
        )
        numbers = p | "main" >> TestStream().add(1, 3).add(-1, 3).add(30, 3) | "m" >> TENS
        outputs, failed = (
            numbers
            | "split"
            >> dm.FlatMap(split, dm.AsSingleton(limit)).with_outputs("large", main="small").with_exception_handling()
        )
        _ = outputs.small | "small" >> dm.io.Collect()
        _ = outputs.large | "large" >> dm.io.Collect()
        _ = failed | "failed" >> dm.io.Collect()
    actual = {
        label: [record.value for record in result_of(p).collected(label)] for label in ("small", "large", "failed")
    }
    assert (actual["small"], actual["large"]) == ([1], [30])
    assert [(letter.element, letter.label) for letter in actual["failed"]] == [(-1, "split")]


def test_a_function_may_have_a_changing_and_a_static_side_input() -> None:
    with dm.Pipeline(runner=dm.LocalRunner()) as p:
        names = p | "names" >> dm.Create([("a", "Ay")])
        sums = p | "side" >> TestStream().add(5, 1).watermark(10) | "s" >> TENS | dm.Sum.globally()
        main = p | "main" >> TestStream().add("a", 3) | "m" >> TENS
        named = main | "see" >> dm.Map(
            lambda x, names, total: (names[x], total), dm.AsDict(names), dm.AsSingleton(sums)
        )
        _ = named | "seen" >> dm.io.Collect()
    assert values(result_of(p)) == [("Ay", 5)]
    assert result_of(p).watermarks()["see"] == event_time(dm.MAX_TIMESTAMP)


def calls_of_a_join(windows: int, lateness: int, *, waits: bool) -> int:
    """Return how many functions are called for a window in which each element is looked up in the sum of the others."""
    watermarks = [script_step(TestStream().watermark(10 * number + 10)) for number in range(windows)]
    elements = [script_step(TestStream().add(number, 10 * number, key="k")) for number in range(windows)]
    turns = [elements, watermarks] if waits else [[step for both in zip(elements, watermarks) for step in both]]  # noqa: B905
    script = TestStream(tuple(step for turn in turns for step in turn))
    runner: Any = MicroBatchRunner(Schedule())
    p = dm.Pipeline(runner=runner)
    main = p | script | TENS.allowed_lateness(lateness)
    _ = main | "see" >> dm.Map(see, dm.AsList(main | dm.Sum.per_key())) | "seen" >> dm.io.Collect()
    profile = cProfile.Profile()
    result = profile.runcall(p.run)
    assert values(result) == [(("k", number), [("k", number)]) for number in range(windows)]
    return int(pstats.Stats(profile).total_calls) // windows  # type: ignore[attr-defined] # not in the stubs


def script_step(script: TestStream) -> Any:
    [step] = script.steps
    return step


@pytest.mark.parametrize(("lateness", "waits"), [(1_000_000, False), (0, True)], ids=["held", "awaited"])
def test_an_element_costs_the_same_with_a_hundred_and_with_a_thousand_side_windows(lateness: int, waits: bool) -> None:
    few, many = (calls_of_a_join(windows, lateness, waits=waits) for windows in (100, 1000))
    assert many < 1.2 * few


def test_an_element_finds_its_side_window_among_many_that_may_merge_without_looking_at_them_all() -> None:
    def windows_looked_at(count: int) -> int:
        starts = range(0, 100 * count, 100)
        sessions = [window for start in starts for window in dm.Sessions(10).assign(event_time(start), None)]
        held = HeldWindows([*sessions, *dm.FixedWindows(100 * count).assign(event_time(0), None)])
        for window in sessions[::2]:
            held.remove(window)
        around = [list(held.around(event_time(start))) for start in starts]
        for number, (window, found) in enumerate(zip(sessions, around, strict=True)):
            assert (window in found) is bool(number % 2)
        return sum(map(len, around)) // count

    assert windows_looked_at(1000) == windows_looked_at(100) < 4
