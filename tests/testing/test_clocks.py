"""A clock that a test moves by hand."""

from __future__ import annotations

import pytest

import dataflow_model as dm
from dataflow_model.testing import ManualClock


def test_a_manual_clock_does_not_advance_by_itself() -> None:
    clock = ManualClock(5)
    assert clock.now() == clock.now() == dm.processing_time(5)
    assert clock.advance("90 seconds").now() == dm.processing_time(95)
    assert clock.advance_to(100).now() == dm.processing_time(100)
    assert repr(clock) == "ManualClock(ProcessingTime(1970-01-01T00:01:40Z))"


def test_a_manual_clock_never_goes_back() -> None:
    clock = ManualClock(5)
    with pytest.raises(dm.InvalidArgument, match="a clock cannot go backward"):
        clock.advance(-1)
    with pytest.raises(dm.InvalidArgument, match="a clock cannot go backward"):
        clock.advance_to(4)


def test_each_run_has_the_time_of_its_manual_clock() -> None:
    clock = ManualClock("2013-01-01T00:00Z")
    seen = []
    for _ in range(2):
        p = dm.Pipeline(runner=dm.LocalRunner(clock=clock))
        _ = p | dm.Create([1]) | dm.io.Collect()
        result = p.run()
        result.wait_until_finish()
        seen += [record.processing_time for record in result.collected("Collect")]
        clock.advance("1 hour")
    assert seen == [dm.processing_time("2013-01-01T00:00Z"), dm.processing_time("2013-01-01T01:00Z")]
