"""`assert_that` and `equal_to`: a pipeline that checks itself."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream, assert_panes, assert_that, equal_to, run_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def check(*values: Any, expected: Any) -> None:
    with dm.Pipeline() as p:
        assert_that(p | dm.Create(values), equal_to(expected))


def test_elements_are_compared_in_any_order_with_their_numbers_of_occurrences() -> None:
    check(1, 2, 2, {"a": 1}, expected=[2, {"a": 1}, 1, 2])
    with pytest.raises(
        dm.UserCodeError, match=r"(?s)missing: \[2\]; not expected: \[3\].*'assert_that/check'.*Hint: comp"
    ):
        check(1, 3, expected=[1, 2])
    with pytest.raises(dm.UserCodeError, match=r"missing: \[\]; not expected: \[1\]"):
        check(1, 1, expected=[1])


def test_an_empty_collection_can_be_asserted() -> None:
    with dm.Pipeline() as p:
        none = p | dm.Create([1]) | dm.Filter(lambda x: x > 1)
        assert_that(none, equal_to([]))
    with pytest.raises(dm.UserCodeError, match=r"missing: \[5\]"), dm.Pipeline() as p:
        assert_that(p | dm.Create([1]) | dm.Filter(lambda x: x > 1), equal_to([5]))


def test_all_windows_are_compared_together_and_retractions_applied() -> None:
    each = dm.Window.into(dm.FixedWindows(10)).trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating_and_retracting()
    with dm.Pipeline() as p:
        script = TestStream().add(1, 1, key="a").add(2, 2, key="a").add(5, 11, key="a")
        assert_that(p | script | each | dm.Sum.per_key(), equal_to([("a", 3), ("a", 5)]))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("discarding", [1, 2, 0, 5]),
        ("accumulating", [1, 3, 3, 8]),
        ("accumulating_and_retracting", [8]),
    ],
)
@pytest.mark.parametrize("combiner", ["end_of_window", "latest"])
def test_the_panes_of_a_window_with_lateness_are_checked_without_a_warning(
    mode: str, expected: list[int], combiner: Any
) -> None:
    trigger = dm.AfterWatermark(early=dm.AfterCount(1), late=dm.AfterCount(1))
    windowing = dm.Window.into(dm.FixedWindows(10)).trigger(trigger).allowed_lateness(600)
    script = TestStream.parse(
        ["e 1@12:00:01", "e 2@12:00:02", "w 12:00:20", "e 5@12:00:03", "w +inf"], day="2000-01-01", key="k"
    )
    with dm.Pipeline() as p:
        sums = p | script | getattr(windowing.timestamp_combiner(combiner), mode)() | dm.Sum.per_key() | dm.Values()
        assert_that(sums, equal_to(expected))


def test_a_matcher_may_be_any_function_of_the_list() -> None:
    def of_one_kind(elements: list[Any]) -> None:
        assert len({type(element) for element in elements}) == 1

    with dm.Pipeline() as p:
        assert_that(p | dm.Create([1, 2]), of_one_kind)
    with pytest.raises(dm.UserCodeError, match="'kinds/check'"), dm.Pipeline() as p:
        assert_that(p | dm.Create([1, "a"]), of_one_kind, label="kinds")


def test_the_error_for_a_second_assertion_shows_how_to_label_it() -> None:
    p = dm.Pipeline()
    numbers = p | dm.Create([1])
    assert_that(numbers, equal_to([1]))
    with pytest.raises(dm.InvalidArgument, match=r'Hint: .*: assert_that\(…, label="another name"\)'):
        assert_that(numbers, equal_to([1]))
    assert_that(numbers, equal_to([1]), label="another name")


def test_values_that_cannot_be_checked_are_refused_at_construction() -> None:
    numbers = dm.Pipeline() | dm.Create([1])
    with pytest.raises(dm.InvalidType, match=r"checks a collection, got \[1\](.|\n)*Hint"):
        assert_that([1], equal_to([1]))  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidType, match=r"`matcher` must be a function, got \[1\]\nHint: use equal_to\(\[1\]\)"):
        assert_that(numbers, [1])  # type: ignore[arg-type] # the point
    with pytest.raises(dm.InvalidType, match=r"takes the elements in a list, got 'a'\nHint: use equal_to\(\['a'\]\)"):
        equal_to("a")


@pytest.mark.parametrize("matcher", [equal_to, lambda elements: elements == [2]], ids=["uncalled", "predicate"])
def test_a_matcher_that_returns_false_instead_of_raising_is_reported(matcher: Any) -> None:
    with pytest.raises(dm.UserCodeError, match="a matcher must raise an AssertionError"), dm.Pipeline() as p:
        assert_that(p | dm.Create([1]), matcher)


def test_the_error_of_a_matcher_does_not_advise_to_handle_it_in_the_pipeline() -> None:
    def matcher(elements: list[Any]) -> None:
        assert elements == [2], "2 is missing"

    with (
        pytest.raises(dm.UserCodeError, match=r"(?s)2 is missing.*\nHint: the pipeline is wrong, or"),
        dm.Pipeline() as p,
    ):
        assert_that(p | dm.Create([1]), matcher)


def test_many_similar_panes_in_any_order_are_matched_fast() -> None:
    script = TestStream()
    for at in range(40):
        script = script.add(1, at, key="k")
    panes = run_script(script, dm.Window.into(dm.FixedWindows(1)), dm.Sum())
    assert_panes(panes, [[{"value": 1}] * 39 + [{"key": "k"}]])
    assert_panes(panes, [[{"key": "k"}, *[{"value": 1}] * 39]])
    with pytest.raises(AssertionError):
        assert_panes(panes, [[{"value": 1}] * 39 + [{"value": 2}]])


@pytest.mark.parametrize("steps", [["e 5@12:00:00"], "e 5@12:00:00", 5])
def test_a_script_of_values_that_are_not_steps_is_refused(steps: Any) -> None:
    with pytest.raises(dm.InvalidType, match=r"a TestStream consists of steps, got .*\nHint: .*TestStream.parse"):
        TestStream(steps)


def test_thousands_of_panes_are_matched_even_if_a_match_has_to_be_reassigned() -> None:
    script = TestStream()
    for at in range(1_500):
        script = script.add(1, at, key="k")
    panes = run_script(script, dm.Window.into(dm.FixedWindows(1)), dm.Sum())
    first = {"window": panes[0].window}
    assert_panes(panes, [[*[{"value": 1}] * 1_499, first]])


class Counted(int):
    """A number that counts how often it is compared."""

    comparisons = 0

    def __eq__(self, other: object) -> bool:
        Counted.comparisons += 1
        return isinstance(other, Counted) and int(self) == int(other)

    __hash__ = int.__hash__


def test_elements_in_another_order_are_found_without_comparing_each_with_all() -> None:
    numbers = [Counted(number) for number in range(1_000)]
    equal_to(numbers)([Counted(number) for number in reversed(numbers)])
    assert Counted.comparisons <= len(numbers)


class HashedByName:
    """Equal by value but hashed by name, which breaks the rule of hashes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HashedByName)

    def __hash__(self) -> int:
        return hash(self.name)


def test_equal_elements_are_found_whatever_their_hashes() -> None:
    equal_to([{1}, True, [2], (3, [4]), HashedByName("a"), HashedByName("b")])(
        [HashedByName("c"), (3, [4]), frozenset({1}), [2], HashedByName("a"), 1]
    )
    with pytest.raises(AssertionError, match=r"missing: \[\[1\], 2\]; not expected: \[3, \[4\]\]"):
        equal_to([[1], 2])([3, [4]])


def test_arrays_and_nan_are_compared_by_content() -> None:
    equal_to([("a", np.array([1, 2])), math.nan])([float("nan"), ("a", np.array([1, 2]))])
    with pytest.raises(AssertionError, match=r"missing: .*not expected"):
        equal_to([np.array([1, 2])])([np.array([2, 1])])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: TestStream().watermark(1, percentile="x"), r"`percentile` must be in \(0, 100\], got 'x'"),  # type: ignore[arg-type]
        (lambda: TestStream().bundle(5), "must be a pair of a value and its event time, got 5"),  # type: ignore[arg-type]
        (lambda: TestStream().signal(None), r"a signal has a name, got None\nHint: write \.signal"),  # type: ignore[arg-type]
    ],
)
def test_invalid_steps_of_a_script_are_refused(build: Any, message: str) -> None:
    with pytest.raises(dm.DataflowError, match=message):
        build()


def test_a_set_of_expected_panes_matches_them_in_any_order() -> None:
    script = TestStream().add(5, 1, key="a").add(6, 1, key="b").add(7, 1, key="c")
    panes = run_script(script, dm.Window.into(dm.FixedWindows(10)), dm.Sum())
    for expected in (set(panes), frozenset(panes), [set(panes)]):
        assert_panes(panes, expected)
        assert_panes(panes[::-1], expected)
    with pytest.raises(AssertionError, match="2 panes, 3 expected"):
        assert_panes(panes[1:], set(panes))


def test_the_timing_of_an_expected_pane_may_be_its_name() -> None:
    panes = run_script(TestStream().add(1, 0, key="k"), dm.Window.into(dm.FixedWindows(1)), dm.Sum())
    assert_panes(panes, [{"timing": "ON_TIME"}])
    with pytest.raises(AssertionError, match="timing='LATE'"):
        assert_panes(panes, [{"timing": "LATE"}])


class Daily(dm.WindowFn):
    """Has the types that a program can write."""

    is_merging = True

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[dm.AnyWindow]:
        return [dm.IntervalWindow(event_time, event_time + dm.duration("1 day"))]

    def merge(self, windows: Sequence[dm.AnyWindow]) -> Iterable[tuple[Sequence[dm.AnyWindow], dm.AnyWindow]]:
        if len(windows) > 1:
            yield windows, dm.IntervalWindow(windows[0].start, max(window.end for window in windows))


def test_a_script_can_be_run_with_a_window_function_and_a_class_of_combiners() -> None:
    script = TestStream().add(1, 0, key="k").add(2, 5, key="k")
    assert [pane.value for pane in run_script(script, dm.FixedWindows(60), dm.Sum)] == [3]
    assert [pane.value for pane in run_script(script, Daily(), dm.Sum)] == [3]
    assert isinstance(dm.IntervalWindow(0, 1), dm.AnyWindow)
