"""Groupings over the panes of other groupings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from tests.support.hosts import OnHost

SCRIPT = (
    TestStream().bundle([(1, 5), (2, 15)], key="a").add(4, 16, key="d").watermark(20).add(8, 45, key="g").watermark(60)
)


def test_a_chain_of_groupings_emits_each_window_once_its_input_is_complete(host: OnHost) -> None:
    def build(p: dm.Pipeline) -> None:
        tens = p | "script" >> SCRIPT | "tens" >> dm.Window.into(dm.FixedWindows(10)) | "sums" >> dm.Sum.per_key()
        all_of_ten = tens | "all" >> dm.MapTuple(lambda _, total: ("all", total)) | "totals" >> dm.Sum.per_key()
        forties = all_of_ten | "forties" >> dm.Window.into(dm.FixedWindows(40))
        _ = forties | "most" >> dm.Max.per_key() | "panes" >> dm.io.Collect()

    host.emits(build, ["all=6 on time, #0, last", "all=8 on time, #0, last"], ["all=6", "all=8"])


def test_early_panes_are_elements_of_the_next_grouping(clocked: OnHost) -> None:
    script = TestStream().add(1, 5, key="a").add(2, 6, key="a").watermark(8).add(4, 7, key="a").watermark(30)

    def build(p: dm.Pipeline) -> None:
        trigger = dm.AfterWatermark(early=dm.AfterCount(1))
        early = dm.Window.into(dm.FixedWindows(10)).trigger(trigger).on_time("fire_if_non_empty")
        sums = p | "script" >> script | early | "sums" >> dm.Sum.per_key()
        wide = sums | "again" >> dm.Window.into(dm.FixedWindows(20))
        _ = wide | "totals" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    result = clocked.emits(build, ["a=7 on time, #0, last"])
    assert result.metrics()["sums"]["panes_early"] == 3


def test_the_next_grouping_groups_by_the_merged_windows(host: OnHost) -> None:
    script = TestStream().add(1, 0, key="a").add(2, 4, key="a").add(4, 30, key="d").watermark(100)

    def build(p: dm.Pipeline) -> None:
        sums = p | "script" >> script | dm.Window.into(dm.Sessions(6)) | "sums" >> dm.Sum.per_key()
        same = sums | "one key" >> dm.MapTuple(lambda _, total: ("all", total))
        _ = same | "counts" >> dm.Count.per_key() | "panes" >> dm.io.Collect()

    result = host.run(build)
    seen = [(record.value, int(record.window.end) // 1_000_000) for record in result.collected("panes")]
    assert sorted(seen) == [(("all", 1), 10), (("all", 1), 36)]


def test_inputs_that_are_grouped_together_wait_for_the_later_watermark(clocked: OnHost) -> None:
    first = TestStream().processing_time(1).add(1, 5, key="a").watermark(50)
    second = TestStream().processing_time(2).add("x", 6, key="a").processing_time(9).watermark(50)

    def build(p: dm.Pipeline) -> None:
        tens = dm.Window.into(dm.FixedWindows(10))
        named = {"left": p | "first" >> first | "1" >> tens, "right": p | "second" >> second | "2" >> tens}
        _ = named | "together" >> dm.CoGroupByKey() | "panes" >> dm.io.Collect()

    (record,) = clocked.run(build).collected("panes")
    assert record.value == ("a", {"left": [1], "right": ["x"]})
    assert int(record.processing_time) == 9_000_000
