"""Windows of Beam's, assigned from microseconds."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportArgumentType=false, reportAttributeAccessIssue=false

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

pytest.importorskip("apache_beam", reason="needs Beam: pip install 'dataflow-model[beam]'")

from apache_beam.transforms import window
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp

from dataflow_model.runners.beam.functions.assigning import assigner_of

pytestmark = pytest.mark.filterwarnings("ignore")  # Beam's own

LEAST, GREATEST = MIN_TIMESTAMP.micros, MAX_TIMESTAMP.micros


def micros(number: int) -> Duration:
    return Duration(micros=number)


lengths = st.integers(1, 50).map(micros) | st.integers(1, 10**12).map(micros) | st.just(micros(GREATEST))
offsets = st.integers(-(10**12), 10**12).map(lambda number: Timestamp(micros=number))
times = (
    st.integers(-100, 100)
    | st.integers(-(10**14), 10**14)
    | st.integers(LEAST, LEAST + 10**7)
    | st.integers(GREATEST - 10**7, GREATEST)
    | st.just(window.GlobalWindow().max_timestamp().micros)
)


@st.composite
def window_fns(draw: st.DrawFn) -> Any:
    kind = draw(st.sampled_from(["fixed", "sliding", "sessions", "global"]))
    if kind == "global":
        return window.GlobalWindows()
    size = draw(lengths)
    if kind == "sessions":
        return window.Sessions(size)
    if kind == "fixed":
        return window.FixedWindows(size, draw(offsets))
    period = micros(max(1, size.micros * draw(st.integers(1, 20)) // draw(st.integers(8, 12))))
    return window.SlidingWindows(size, period, draw(offsets))


def bounds(windows: Any) -> list[Any]:
    return [(type(each), each.start, each.end, each.max_timestamp()) for each in windows]


@given(window_fns(), st.lists(times, min_size=1, max_size=4))
@example(window.SlidingWindows(3, 5, 1), [0, 1_000_000, 3_999_999, 4_000_000, -1])
@example(window.FixedWindows(3600, 1800), [-1_800_000_001, -1_800_000_000, LEAST, GREATEST])
def test_windows_are_those_that_beam_assigns(fn: Any, instants: list[int]) -> None:
    assign = assigner_of(fn)
    assert assign is not None
    for instant in instants:
        context = window.WindowFn.AssignContext(Timestamp(micros=instant), element=None)
        assert bounds(assign(instant)) == bounds(fn.assign(context))


def test_other_window_functions_and_subclasses_keep_beams_own_operation() -> None:
    class Own(window.FixedWindows):  # type: ignore[misc] # Beam ships no types that mypy takes
        pass

    assert assigner_of(Own(5)) is None
