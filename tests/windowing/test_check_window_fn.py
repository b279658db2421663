"""The check for users' window functions: it passes ours, a validity window, and finds what is wrong with others."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest

from dataflow_model.testing.checks.window_fns import check_window_fn
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, EventTime, event_time
from dataflow_model.values import IntervalWindow, Window
from dataflow_model.windowing import CalendarWindows, FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class ValidityWindows(WindowFn):
    """Each element is valid until the next one's event time; the last one for ever."""

    is_merging: ClassVar[bool] = True

    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        return (IntervalWindow(min(event_time, EventTime(int(MAX_TIMESTAMP) - 1)), MAX_TIMESTAMP),)

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        by_start = [
            (start, list(group)) for start, group in itertools.groupby(windows, key=lambda window: window.start)
        ]
        ends = [start for start, _ in by_start[1:]] + [MAX_TIMESTAMP]
        return [(group, IntervalWindow(start, end)) for (start, group), end in zip(by_start, ends, strict=True)]


@attrs.frozen
class _Rule(WindowFn):
    """A window function like sessions of ten seconds, for its subclasses to break."""

    is_merging: ClassVar[bool] = True

    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        return Sessions(10).assign(event_time, element)

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        return Sessions(10).merge(windows)


@attrs.frozen
class DeclaresToMergeWhatIntersects(_Rule):
    """Sessions that begin in the same minute are one, whether they intersect or not."""

    merges_intersecting: ClassVar[bool] = True

    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        time = min(int(event_time), int(MAX_TIMESTAMP) - 1)
        start = max(time - time % 60, int(MIN_TIMESTAMP))
        minute = IntervalWindow(EventTime(start), EventTime(min(start + 60, int(MAX_TIMESTAMP))))
        return (IntervalWindow(EventTime(time), EventTime(time + 1)), minute)

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        return ()


class NotEqualToItsCopy(WindowFn):
    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        return GlobalWindows().assign(event_time, element)


@attrs.frozen
class MergesButDoesNotSaySo(_Rule):
    is_merging: ClassVar[bool] = False


@attrs.frozen
class FailsAtTheEndOfTime(_Rule):
    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        return (IntervalWindow(event_time, event_time + Duration(micros=10)),)


@attrs.frozen
class AssignsTheWindowBefore(_Rule):
    def assign(self, event_time: EventTime, element: Any) -> Sequence[Window]:
        end = max(int(event_time), -(2**62))
        return (IntervalWindow(EventTime(end - 10), EventTime(end)),)


@attrs.frozen
class AssignsNothingIterable(_Rule):
    def assign(self, event_time: EventTime, element: Any) -> Any:
        return None


@attrs.frozen
class AssignsText(_Rule):
    def assign(self, event_time: EventTime, element: Any) -> Any:
        return ["window"]


@attrs.frozen
class MergesNeighboursOnly(_Rule):
    """Merges two at a time and stops: windows are left that would merge again."""

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        for earlier, later in itertools.pairwise(windows):
            if later.start < earlier.end:
                yield (earlier, later), IntervalWindow(earlier.start, max(earlier.end, later.end))
                return


@attrs.frozen
class MergesWindowsThatTouch(_Rule):
    """Merges what is ready already: the element at the very end changes a window that the watermark has passed."""

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        run: list[Window] = []
        for window in windows:
            if run and window.start > max(merged.end for merged in run):
                yield run, IntervalWindow(run[0].start, max(merged.end for merged in run))
                run = []
            run.append(window)
        if run:
            yield run, IntervalWindow(run[0].start, max(merged.end for merged in run))


@attrs.frozen
class KeepsAtMostTwoEvents(_Rule):
    """Merges only pairs of fresh windows, so that what is merged depends on who came first."""

    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        fresh = [window for window in windows if int(window.end) - int(window.start) == 10_000_000]
        for earlier, later in itertools.pairwise(fresh):
            if later.start < earlier.end:
                return [((earlier, later), IntervalWindow(earlier.start, later.end))]
        return []


@attrs.frozen
class NamesAWindowTwice(_Rule):
    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        return [(windows[:1], windows[0]), (windows[:1], windows[0])]


@attrs.frozen
class AssignsAColumnOtherwise(FixedWindows):
    def assign_many(self, event_times: NDArray[np.int64]) -> tuple[None, NDArray[np.int64], NDArray[np.int64]]:
        return None, event_times, event_times + int(self.size)


@attrs.frozen
class DeclaresAnotherLength(FixedWindows):
    @property
    def length(self) -> Duration:
        return Duration(micros=1)


@attrs.frozen
class MergesIntoABystander(_Rule):
    def merge(self, windows: Sequence[Window]) -> Iterable[tuple[Sequence[Window], Window]]:
        return [(windows[:1], windows[-1])] if len(windows) > 1 else []


@pytest.mark.parametrize(
    "fn",
    [
        GlobalWindows(),
        FixedWindows("1 hour", "7 minutes"),
        SlidingWindows("1 hour", "25 minutes"),
        Sessions("1 minute"),
        CalendarWindows.days(timezone="America/New_York"),
        ValidityWindows(),
        *(
            pytest.param(fn, marks=pytest.mark.slow)
            for fn in (
                FixedWindows("1 hour", phase_shift=True),
                SlidingWindows("1 minute", "1 hour"),
                Sessions(Duration(micros=1)),
                CalendarWindows.months(),
            )
        ),
    ],
    ids=repr,
)
def test_a_window_function_that_keeps_the_rules_passes(fn: WindowFn) -> None:
    check_window_fn(fn)


def test_elements_can_be_passed_for_a_window_function_that_uses_them() -> None:
    check_window_fn(FixedWindows("1 hour", phase_shift=True), elements=[("UA", 1), ("AA", 2)])


@pytest.mark.parametrize(
    ("fn", "rule"),
    [
        (NotEqualToItsCopy(), "must equal its pickled copy"),
        (MergesButDoesNotSaySo(), "`is_merging` is False"),
        (AssignsTheWindowBefore(), "must not assign an element to a window that ends before it"),
        (AssignsNothingIterable(), "must assign a sequence of windows, got None"),
        (AssignsText(), "must assign windows, got 'window'"),
        (MergesNeighboursOnly(), "must merge the same way one by one and all at once|must merge all windows at once"),
        (
            MergesWindowsThatTouch(),
            r"must not change \[.*\) once the watermark has passed its end, but element \d did",
        ),
        (KeepsAtMostTwoEvents(), "must not depend on the order|must merge the same way one by one"),
        (DeclaresToMergeWhatIntersects(), "must merge exactly the windows that intersect, into their span"),
        (NamesAWindowTwice(), "must merge each window of .* at most once, but .* is named twice"),
        (MergesIntoABystander(), "must also name .* as a source"),
        (AssignsAColumnOtherwise(10), "must assign a column as it assigns one by one"),
        (DeclaresAnotherLength(10), "declares windows of the length"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, WindowFn) else "",
)
def test_a_broken_rule_is_named_with_the_elements_that_show_it(fn: WindowFn, rule: str) -> None:
    with pytest.raises(AssertionError, match=rule) as raised:
        check_window_fn(fn)
    assert repr(fn) in str(raised.value)


def test_a_subclass_with_a_merge_of_its_own_does_not_inherit_what_sessions_declare_of_theirs() -> None:
    class SessionsThatTouch(Sessions):
        def merge(self, windows: Sequence[Window]) -> Any:
            return super().merge(windows)

    class LongSessions(Sessions):
        pass

    assert LongSessions("1 hour").merges_intersecting
    assert not SessionsThatTouch("1 hour").merges_intersecting


def test_a_function_that_raises_at_the_end_of_time_is_found() -> None:
    with pytest.raises(AssertionError, match="raises InvalidArgument: a window must end after it starts"):
        check_window_fn(FailsAtTheEndOfTime())


def test_the_counterexample_shows_elements_and_event_times() -> None:
    with pytest.raises(AssertionError, match=r"element 0: None at EventTime\(1970-.*\n  element 1: None at EventTime"):
        check_window_fn(MergesWindowsThatTouch())


def test_each_element_is_valid_until_the_next_ones_event_time() -> None:
    clock = ["00:26", "01:25", "02:24", "03:06", "03:39", "04:19", "06:39", "07:26", "07:46"]
    times = [event_time(f"2000-01-01T12:{minute}Z") for minute in clock]
    fn = ValidityWindows()
    windows: list[Window] = []
    for time in reversed(times):
        windows = sorted({*windows, *fn.assign(time, None)}, key=lambda window: (window.start, window.end))
        windows = [target for _, target in fn.merge(windows)]
    assert windows == [IntervalWindow(start, end) for start, end in itertools.pairwise([*times, MAX_TIMESTAMP])]


@attrs.frozen
class SinceEver(WindowFn):
    """Windows from −∞ to ten seconds after the element, which are empty at −∞ unless they are held open."""

    held: bool

    def assign(self, event_time: EventTime, element: Any) -> list[IntervalWindow]:
        del element
        end = event_time + Duration(micros=10_000_000)
        if self.held:
            end = max(end, EventTime(int(MIN_TIMESTAMP) + 1))
        return [IntervalWindow(MIN_TIMESTAMP, end)]


def test_windows_may_begin_at_minus_infinity_but_must_not_be_empty_there() -> None:
    check_window_fn(SinceEver(held=True))
    with pytest.raises(AssertionError, match="at any event time, but raises InvalidArgument") as caught:
        check_window_fn(SinceEver(held=False))
    assert "Hint: a sum with dm.MIN_TIMESTAMP" in str(caught.value)
    assert "element 0: None at EventTime(-inf)" in str(caught.value)
