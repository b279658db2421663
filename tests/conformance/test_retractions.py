"""Panes that take back those before them, also through several groupings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from tests.support.hosts import OnHost

EACH = dm.Repeatedly(dm.AfterCount(1))
TENS = dm.Window.into(dm.FixedWindows(10)).trigger(EACH).allowed_lateness(100)


def by_size(pair: Any) -> Any:
    return "large" if pair[1] > 2 else "small", pair[1]


def test_a_retracting_pane_retracts_the_pane_before_it(host: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(2, 6, key="d").watermark(20).add(4, 7, key="a")

    def build(p: dm.Pipeline) -> None:
        sums = p | "script" >> script | TENS.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        _ = sums | "panes" >> dm.io.Collect()

    result = host.run(build)
    net: dict[Any, int] = {}
    for record in result.collected("panes"):
        net[record.value] = net.get(record.value, 0) + (-1 if record.is_retraction else 1)
    assert {value: count for value, count in net.items() if count} == {("a", 5): 1, ("d", 2): 1}
    if host.host.has_clock:
        retracted = [record.value for record in result.collected("panes") if record.is_retraction]
        assert retracted == [("a", 1)]


def test_a_refined_sum_moves_from_its_old_group_to_its_new_one_downstream(clocked: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(2, 6, key="d").watermark(10).add(4, 7, key="a")

    def build(p: dm.Pipeline) -> None:
        sums = p | "script" >> script | TENS.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        sized = sums | "sizes" >> dm.Map(by_size)
        again = dm.Window.trigger(EACH).accumulating_and_retracting()
        _ = sized | "again" >> again | "totals" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    standing: list[Any] = []
    for record in clocked.run(build).collected("panes"):
        if record.is_retraction:
            standing.remove(record.value)
        else:
            standing.append(record.value)
    assert sorted(standing) == [("large", 5), ("small", 2)]


def test_merging_sessions_retract_the_panes_that_they_had_emitted(clocked: OnHost) -> None:
    script = TestStream().add(1, 0, key="a").add(2, 10, key="a").add(4, 5, key="a")

    def build(p: dm.Pipeline) -> None:
        sessions = dm.Window.into(dm.Sessions(6)).trigger(EACH).on_time("fire_if_non_empty")
        sums = p | "script" >> script | sessions.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        _ = sums | "panes" >> dm.io.Collect()

    records = clocked.run(build).collected("panes")
    signed = sorted((record.value[1], record.is_retraction) for record in records)
    assert signed == [(1, False), (1, True), (2, False), (2, True), (7, False)]
    ends = [int(record.window.end) // 1_000_000 for record in records if record.value[1] == 7]
    assert ends == [16]


def test_a_memoised_function_retracts_the_outputs_that_it_returned(clocked: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(4, 7, key="a")

    def build(p: dm.Pipeline) -> None:
        sums = p | "script" >> script | TENS.accumulating_and_retracting() | "sums" >> dm.Sum.per_key()
        _ = sums | "sizes" >> dm.Map(by_size).retractable("memoised") | "panes" >> dm.io.Collect()

    records = clocked.run(build).collected("panes")
    assert [(record.value, record.is_retraction) for record in records if not record.pane.is_last][:3] == [
        (("small", 1), False),
        (("small", 1), True),
        (("large", 5), False),
    ]
