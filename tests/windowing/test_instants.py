"""Whether a window function looks at the element, or assigns windows to an instant alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import attrs
import pytest
from hypothesis import given

import dataflow_model as dm
from dataflow_model.testing import strategies
from dataflow_model.windowing.instants import looks_at_elements, windows_at

Size: TypeAlias = Callable[[dm.EventTime, Any], int]


@attrs.frozen
class Own(dm.WindowFn):
    """Windows whose size is computed from the event time and the element, as many users' are."""

    size: Size

    def assign(self, event_time: dm.EventTime, element: Any) -> Sequence[dm.IntervalWindow]:
        return dm.FixedWindows(self.size(event_time, element)).assign(event_time, element)


def by_pattern(_: dm.EventTime, element: Any) -> int:
    match element:
        case (_, "premium") | {"plan": "premium"}:
            return 60
        case _:
            return 3600


def by_mapping(_: dm.EventTime, element: Any) -> int:
    match element:
        case {"plan": "premium"}:
            return 60
        case _:
            return 3600


def despite_errors(_: dm.EventTime, element: Any) -> int:
    try:
        return 60 if element[1] == "premium" else 3600
    except Exception:  # noqa: BLE001 - what users write
        return 3600


LOOKING: dict[str, Size] = {
    "an item": lambda _, element: 60 if element[1] == "premium" else 3600,
    "a field": lambda _, element: 60 if element.plan == "premium" else 3600,
    "a field that may be missing": lambda _, element: 60 if getattr(element, "plan", "") else 3600,
    "the class": lambda _, element: 60 if isinstance(element, str) else 3600,
    "equality": lambda _, element: 60 if element == "premium" else 3600,
    "membership": lambda _, element: 60 if element in {"premium", "free"} else 3600,
    "truth": lambda _, element: 60 if element else 3600,
    "a pattern": by_pattern,
    "a pattern of a mapping": by_mapping,
    "an item, with a default after any error": despite_errors,
    "arithmetic": lambda _, element: 60 * (1 + element % 3),
    "text": lambda _, element: 60 if "premium" in f"{element}" else 3600,
    "from a date on": lambda at, element: 60 if at > dm.event_time("2026-01-01T00:00Z") and element[1] else 3600,
}


@pytest.mark.parametrize("how", LOOKING)
def test_a_window_function_that_uses_the_element_has_no_windows_for_a_mere_instant(how: str) -> None:
    fn = Own(LOOKING[how])
    assert looks_at_elements(fn)
    assert windows_at(fn, dm.event_time("2030-01-01T00:00Z")) is None


def test_a_window_function_that_only_passes_on_the_element_has_windows_for_an_instant() -> None:
    hours = Own(lambda at, _: 60 if at < dm.event_time("2000-01-01T00:00Z") else 3600)
    assert not looks_at_elements(hours)
    assert windows_at(hours, dm.event_time(70)) == list(dm.FixedWindows(60).assign(dm.event_time(70), None))


def test_a_window_function_that_fails_without_an_element_needs_one() -> None:
    def sized(sizes: Any, _: dm.EventTime, element: Any) -> int:
        return int({str: 60}[type(element)] or sizes)

    assert looks_at_elements(Own(functools.partial(sized, 1)))


@given(strategies.window_fns())
def test_only_window_functions_that_need_pairs_use_elements(fn: dm.WindowFn) -> None:
    assert looks_at_elements(fn) is fn.needs_pairs
