"""A check for user-defined window functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import cloudpickle
import numpy as np

from dataflow_model.errors import explain
from dataflow_model.testing.checks.window_values import problem_of
from dataflow_model.testing.proving.drawing import check_subject, checked_examples, require_hypothesis
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, EventTime, duration, duration_text
from dataflow_model.values import GLOBAL_WINDOW, IntervalWindow, Window, by_bounds
from dataflow_model.windowing import WindowFn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_Stamped: TypeAlias = tuple[EventTime, Any]
_Grouping: TypeAlias = dict[Window, frozenset[int]]  # each live window's elements, by their number

_EXAMPLES: Final = 300
_MOST_ELEMENTS: Final = 6
_QUARTERS: Final = 20
_LONGEST_SPAN: Final = int(duration("3660 days"))


def check_window_fn(fn: WindowFn, elements: Iterable[Any] | None = None) -> None:
    """Check that a window function follows the rules that the engine and the runners rely on.

    The check draws elements with event times around the epoch, spaced so that windows of this function touch, overlap
    and miss each other by a microsecond, and verifies that `fn`

    * is a value: a pickled copy is equal to it and behaves the same;
    * uses windows that are values: a pickled copy has the window's class and fields and equals it, and `==` compares
      every field, since windows are sent between processes and compared with `==`;
    * is total: every event time, including ±∞, gets a sequence of windows, each a `Window` that ends after the event;
    * merges properly: only windows that it was given, each into one target, and no two states end up in one window
      without being merged;
    * merges idempotently and in any order: elements end up in the same windows in whatever order they arrive;
    * is deterministic, as the papers require: when the watermark passes a window's end, everything that could merge
      with the window is known, so that no later element changes it;
    * merges exactly the windows that intersect, if it declares `merges_intersecting`;
    * assigns a column of event times as it assigns each of them alone, if it defines `assign_many`, and to windows of
      the `length` that it declares.

    The same cases are drawn every time. This needs the package hypothesis (the extra `testing`).

    Args:
        fn: the window function.
        elements: values to draw elements from, if `fn` depends on them; pairs if `fn` has `needs_pairs`.

    Raises:
        AssertionError: with the broken rule and the smallest elements found that show it.
        InvalidType: for something that is no window function, such as a class of them.
        Exception: any error that `fn` raises for elements that it does not accept.

    Example:
        >>> from dataflow_model.windowing import Sessions
        >>> check_window_fn(Sessions("1 minute"))
    """
    check_subject(fn, WindowFn, "check_window_fn", "dm.FixedWindows('1 hour')")
    require_hypothesis("check_window_fn")
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import strategies as st

    if type(fn).merge is not WindowFn.merge and not fn.is_merging:
        _fail(fn, "defines `merge`, which is never called because `is_merging` is False", [])
    if elements is None:
        elements = [("key", None)] if fn.needs_pairs else [None]
    values = checked_examples(elements, "elements", "check_window_fn")
    _check_value(fn, values)
    for time in (MIN_TIMESTAMP, EventTime(int(MAX_TIMESTAMP) - 1), MAX_TIMESTAMP):
        for value in values:
            _assign(fn, (time, value))

    span = _span(fn, values[0])
    times = st.builds(
        lambda quarters, off: EventTime(quarters * span // 4 + off),
        st.integers(-_QUARTERS, _QUARTERS),
        st.integers(-1, 1),
    )
    arrivals = st.lists(st.tuples(times, st.sampled_from(values)), min_size=1, max_size=_MOST_ELEMENTS)

    @settings(
        max_examples=_EXAMPLES,
        phases=(Phase.generate, Phase.shrink),  # `explain` traces every line, for a report that is not shown
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.nested_given, HealthCheck.too_slow],
    )
    @given(arrivals)
    def check(stamped: list[_Stamped]) -> None:
        _check_grouping(fn, stamped)
        if fn.assigns_columns:
            _check_columns(fn, stamped)

    check()


def _check_value(fn: WindowFn, values: Sequence[Any]) -> None:
    copy = cloudpickle.loads(cloudpickle.dumps(fn))
    if copy != fn or hash(copy) != hash(fn):
        _fail(fn, f"must equal its pickled copy, got {copy!r}", [], hint="decorate the class with @attrs.frozen")
    for value in values:
        stamped = (EventTime(0), value)
        if not _assign(fn, stamped) == _assign(fn, stamped) == _assign(copy, stamped):
            _fail(fn, "must assign an element to the same windows every time", [stamped])


def _check_window(fn: WindowFn, window: Window, stamped: Sequence[_Stamped]) -> None:
    problem = problem_of(window)
    if problem is not None:
        hint = f"make {type(window).__name__} an @attrs.frozen class, without eq=False in it"
        _fail(fn, problem, stamped, hint=hint)


def _check_grouping(fn: WindowFn, stamped: list[_Stamped]) -> None:
    grouping = _group(fn, stamped, range(len(stamped)))
    if _merged(fn, grouping, stamped) != grouping:
        _fail(fn, f"must merge all windows at once, but merges {_show(grouping)} again", stamped)
    in_time_order = sorted(range(len(stamped)), key=lambda number: stamped[number][0])
    for order in (in_time_order, in_time_order[::-1], range(len(stamped))[::-1]):
        other = _group(fn, stamped, order)
        if other != grouping:
            problem = f"must not depend on the order of elements, got {_show(grouping)} and {_show(other)}"
            _fail(fn, problem, stamped)
    at_once: _Grouping = {}
    for number, item in enumerate(stamped):
        _put(at_once, _assign(fn, item), number)
    if (other := _merged(fn, at_once, stamped)) != grouping:
        problem = f"must merge the same way one by one and all at once, got {_show(grouping)} and {_show(other)}"
        _fail(fn, problem, stamped)
    if fn.is_merging:
        _check_ready(fn, stamped, in_time_order)
    if fn.merges_intersecting:
        _check_spans(fn, stamped)


def _check_columns(fn: WindowFn, stamped: list[_Stamped]) -> None:
    times = [int(time) for time, _ in stamped]
    assigned = fn.assign_many(np.array(times, dtype=np.int64))
    if assigned is None:
        return
    rows, starts, ends = assigned
    windows = [
        GLOBAL_WINDOW if fn.is_global else IntervalWindow(*map(EventTime, bounds))
        for bounds in zip(starts, ends, strict=True)
    ]
    indices = range(len(stamped)) if rows is None else rows.tolist()
    expected = [(row, window) for row, item in enumerate(stamped) for window in _assign(fn, item)]
    if list(zip(indices, windows, strict=True)) != expected:
        _fail(fn, f"must assign a column as it assigns one by one, but `assign_many` makes {windows}", stamped)
    if fn.length is not None and any(int(window.end) - int(window.start) != int(fn.length) for window in windows):
        _fail(fn, f"declares windows of the length {duration_text(fn.length)!r}, but assigns {windows}", stamped)


def _check_ready(fn: WindowFn, stamped: list[_Stamped], in_time_order: Sequence[int]) -> None:
    """Add elements in order of event time; a window that ends before the next element must not change any more."""
    grouping: _Grouping = {}
    for number in in_time_order:
        watermark = stamped[number][0]
        ready = {window: numbers for window, numbers in grouping.items() if window.end <= watermark}
        grouping = _add(fn, grouping, stamped, number)
        for window, numbers in ready.items():
            if grouping.get(window) != numbers:
                _fail(
                    fn,
                    f"must not change {window!r} once the watermark has passed its end, but element {number} did",
                    stamped,
                    hint="do not end a window before the last event time at which an element could still merge with it",
                )


def _check_spans(fn: WindowFn, stamped: list[_Stamped]) -> None:
    """Compare the merges with the runs of intersecting windows; the engine passes nothing else to such a function."""
    windows = sorted({window for item in stamped for window in _assign(fn, item)}, key=by_bounds)
    runs: list[list[Window]] = []
    end = MIN_TIMESTAMP
    for window in windows:
        if runs and window.start < end:
            runs[-1].append(window)
        else:
            runs.append([window])
        end = max(end, window.end)
    expected = {(run[0].start, max(window.end for window in run), frozenset(run)) for run in runs if len(run) > 1}
    merged = {(target.start, target.end, frozenset(sources)) for sources, target in fn.merge(windows)}
    if merged != expected:
        intersecting = [list(run) for run in runs if len(run) > 1]
        _fail(
            fn,
            f"declares `merges_intersecting`, so it must merge exactly the windows that intersect, into their span: of "
            f"{windows!r} these intersect: {intersecting!r}, but it merges "
            f"{sorted((list(run[2]) for run in merged), key=repr)!r}",
            stamped,
            hint="leave `merges_intersecting` out of the class; the engine then passes `merge` all windows of the key",
        )


def _group(fn: WindowFn, stamped: list[_Stamped], order: Iterable[int]) -> _Grouping:
    grouping: _Grouping = {}
    for number in order:
        grouping = _add(fn, grouping, stamped, number)
    return grouping


def _add(fn: WindowFn, grouping: _Grouping, stamped: list[_Stamped], number: int) -> _Grouping:
    added = dict(grouping)
    _put(added, _assign(fn, stamped[number]), number)
    return _merged(fn, added, stamped)


def _put(grouping: _Grouping, windows: Sequence[Window], number: int) -> None:
    for window in windows:
        grouping[window] = grouping.get(window, frozenset()) | {number}


def _merged(fn: WindowFn, grouping: _Grouping, stamped: list[_Stamped]) -> _Grouping:
    if not fn.is_merging:
        return grouping
    windows = sorted(grouping, key=by_bounds)
    left, results = dict(grouping), list[tuple[Window, frozenset[int]]]()
    try:
        merges = list(fn.merge(windows))
    except Exception as error:  # noqa: BLE001 - any error of a user's function
        problem = f"must merge {windows!r}, but raises {_text(error)}"
        _fail(fn, problem, stamped, cause=error)
    for sources, target in merges:
        if not isinstance(target, Window):
            _fail(fn, f"must merge into windows, got {target!r}", stamped)
        _check_window(fn, target, stamped)
        numbers: frozenset[int] = frozenset()
        for source in sources:
            if source not in left:
                known = "named twice" if source in grouping else "unknown"
                _fail(fn, f"must merge each window of {windows!r} at most once, but {source!r} is {known}", stamped)
            numbers |= left.pop(source)
        if not sources:
            _fail(fn, f"must name the windows that merge into {target!r}, got none", stamped)
        results.append((target, numbers))
    for target, numbers in results:
        if target in left:
            _fail(fn, f"must also name {target!r} as a source, since it merges other windows into it", stamped)
        left[target] = numbers
    return left


def _assign(fn: WindowFn, stamped: _Stamped) -> Sequence[Window]:
    time, value = stamped
    try:
        windows = fn.assign(time, value)
    except Exception as error:  # noqa: BLE001 - any error of a user's function
        at_infinity = "a sum with dm.MIN_TIMESTAMP or dm.MAX_TIMESTAMP stays there: assign a window that is not empty"
        _fail(
            fn,
            f"must assign windows to an element at any event time, but raises {_text(error)}",
            [stamped],
            hint=at_infinity if time in (MIN_TIMESTAMP, MAX_TIMESTAMP) else None,
            cause=error,
        )
    try:
        count = len(windows)
    except TypeError:
        _fail(fn, f"must assign a sequence of windows, got {windows!r}", [stamped])
    if len(set(windows)) != count:
        _fail(fn, f"must not assign an element to the same window twice, got {windows!r}", [stamped])
    for window in windows:
        # A test for a protocol looks at every member, so the usual class comes first.
        if not isinstance(window, IntervalWindow) and not isinstance(window, Window):
            _fail(fn, f"must assign windows, got {window!r}", [stamped])
        if int(window.end) <= min(int(time), int(MAX_TIMESTAMP) - 1):
            _fail(fn, f"must not assign an element to a window that ends before it, got {window!r}", [stamped])
        _check_window(fn, window, [stamped])
    return windows


def _span(fn: WindowFn, value: Any) -> int:
    """Return a duration at which windows of the function meet; an hour if they are infinite."""
    windows = _assign(fn, (EventTime(0), value))
    spans = [int(window.end) - int(window.start) for window in windows]
    return min([span for span in spans if span < _LONGEST_SPAN], default=int(duration("1 hour")))


def _show(grouping: _Grouping) -> str:
    parts = sorted(
        (int(window.start), int(window.end), f"{window!r} of elements {sorted(numbers)}")
        for window, numbers in grouping.items()
    )
    return "{" + ", ".join(text for _, _, text in parts) + "}"


def _text(error: Exception) -> str:
    """Return an error without its hint, which is not the last line here."""
    return f"{type(error).__name__}: {error}".partition("\nHint: ")[0]


def _fail(
    fn: WindowFn,
    problem: str,
    stamped: Sequence[_Stamped],
    *,
    hint: str | None = None,
    cause: Exception | None = None,
) -> NoReturn:
    elements = "".join(f"\n  element {number}: {value!r} at {time!r}" for number, (time, value) in enumerate(stamped))
    raise AssertionError(explain(f"{fn!r} {problem}{elements}", hint=hint)) from cause
