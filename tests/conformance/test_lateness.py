"""What is late: accepted within the allowed lateness, dropped and counted after it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.hosts import OnHost

LATE = (
    TestStream()
    .add(1, 5, key="a")
    .watermark(12)
    .add(2, 6, key="a")
    .watermark(21)
    .add(4, 7, key="a")
    .add(8, 25, key="a")
)
"""The 2 is late for its window of ten seconds, and the 4 is so by more than ten seconds."""


def sums(windowing: dm.WindowInto, script: TestStream = LATE) -> Callable[[dm.Pipeline], Any]:
    """Return a pipeline that adds up a script."""

    def build(p: dm.Pipeline) -> None:
        _ = p | "script" >> script | windowing | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    return build


def late_firings(lateness: int) -> dm.WindowInto:
    trigger = dm.AfterWatermark(late=dm.AfterCount(1))
    return dm.Window.into(dm.FixedWindows(10)).trigger(trigger).allowed_lateness(lateness)


def test_without_allowed_lateness_late_elements_are_dropped_and_counted(clocked: OnHost) -> None:
    result = clocked.emits(sums(late_firings(0)), ["a=1 on time, #0, last", "a=8 on time, #0, last"])
    assert result.metrics()["sums"]["dropped_because_late"] == 2


def test_a_late_element_within_the_allowed_lateness_has_a_late_pane(clocked: OnHost) -> None:
    panes = ["a=1 on time, #0", "a=2 late, #1", "a=8 on time, #0, last"]
    result = clocked.emits(sums(late_firings(10)), panes)
    assert result.metrics()["sums"]["dropped_because_late"] == 1


def test_an_accumulating_late_pane_contains_the_elements_that_were_on_time(clocked: OnHost) -> None:
    panes = ["a=1 on time, #0", "a=3 late, #1", "a=7 late, #2", "a=8 on time, #0, last"]
    clocked.emits(sums(late_firings(100).accumulating()), panes)


def test_nothing_is_late_if_all_data_are_available_from_the_start(host: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(2, 6, key="a").add(4, 25, key="a").watermark_to_infinity()
    host.emits(sums(late_firings(0), script), ["a=3 on time, #0, last", "a=4 on time, #0, last"], ["a=3", "a=4"])


def test_a_window_emits_a_last_pane_when_it_expires_if_closing_fires_always(clocked: OnHost) -> None:
    windowing = late_firings(10).closing("fire_always")
    panes = ["a=1 on time, #0", "a=2 late, #1", "a=0 late, #2, last", "a=8 on time, #0, last"]
    clocked.emits(sums(windowing), panes)


def test_late_data_may_reopen_an_expired_window(clocked: OnHost) -> None:
    windowing = late_firings(0).late_data("duplicate_window")
    result = clocked.run(sums(windowing))
    assert sorted(record.value for record in result.collected("panes")) == [("a", 1), ("a", 2), ("a", 4), ("a", 8)]
    assert not result.metrics()["sums"].get("dropped_because_late")


def test_dropped_elements_are_in_an_output_of_their_own(clocked: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        windowed = p | "script" >> LATE | late_firings(0)
        kept, dropped = windowed | "sums" >> dm.Sum.per_key().with_dropped_output()
        _ = kept | "panes" >> dm.io.Collect()
        _ = dropped | "dropped" >> dm.io.Collect()

    result = clocked.run(build)
    dropped = [(record.value.element, record.value.reason.value) for record in result.collected("dropped")]
    assert dropped == [(("a", 2), "late"), (("a", 4), "late")]


def test_a_pane_that_is_on_time_is_not_late_downstream(clocked: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        first = p | "script" >> LATE | "tens" >> late_firings(10) | "sums" >> dm.Sum.per_key()
        again = first | "again" >> dm.Window.into(dm.FixedWindows(10)) | "totals" >> dm.Sum.per_key()
        _ = again | "panes" >> dm.io.Collect()

    result = clocked.emits(build, ["a=1 on time, #0, last", "a=8 on time, #0, last"])
    assert result.metrics()["totals"]["dropped_because_late"] == 1
