"""The order of what a host emits: by instants, then as `docs/design.md` says, on any number of shards."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from tests.support.hosts import OnHost

TENS = dm.Window.into(dm.FixedWindows(10))


def test_elements_that_are_not_grouped_keep_the_order_of_arrival(host: OnHost) -> None:
    script = TestStream().add(3, 30, key="b").bundle([(1, 10), (2, 40)], key="a").watermark(50).add(5, 5, key="c")

    def build(p: dm.Pipeline) -> None:
        _ = p | "script" >> script | "doubled" >> dm.MapTuple(lambda key, n: (key, 2 * n)) | "panes" >> dm.io.Collect()

    expected = ["b=6", "a=2", "a=4", "c=10"]
    host.emits(build, expected, expected)


def test_windows_that_end_at_one_watermark_emit_in_the_order_of_their_ends(host: OnHost) -> None:
    script = TestStream().add(1, 25, key="d").add(2, 5, key="g").add(4, 15, key="a").add(8, 6, key="a").watermark(100)

    def build(p: dm.Pipeline) -> None:
        _ = p | "script" >> script | TENS | "sums" >> dm.Sum.per_key() | "panes" >> dm.io.Collect()

    panes = [f"{pair} on time, #0, last" for pair in ("a=8", "g=2", "a=4", "d=1")]
    host.emits(build, panes, ["a=8", "g=2", "a=4", "d=1"])


def test_elements_of_several_sources_are_merged_in_the_order_of_the_clock(host: OnHost) -> None:
    first = TestStream().processing_time(1).add("1st", 5, key="a").processing_time(3).add("3rd", 2, key="a")
    second = TestStream().processing_time(2).add("2nd", 4, key="d").processing_time(4).add("4th", 1, key="d")

    def build(p: dm.Pipeline) -> None:
        sources = (p | "first" >> first, p | "second" >> second)
        _ = sources | "all" >> dm.Flatten() | "panes" >> dm.io.Collect()

    host.emits(build, ["a=1st", "d=2nd", "a=3rd", "d=4th"], ["a=1st", "d=2nd", "a=3rd", "d=4th"])


def test_values_grouped_into_a_list_are_in_the_order_of_arrival(host: OnHost) -> None:
    script = TestStream().add(3, 1, key="a").add(1, 7, key="a").add(2, 4, key="d").add(5, 2, key="a").watermark(10)

    def build(p: dm.Pipeline) -> None:
        lists = p | "script" >> script | TENS | "lists" >> dm.GroupByKey()
        _ = lists | "sorted" >> dm.MapTuple(lambda key, values: (key, sorted(values))) | "panes" >> dm.io.Collect()

    panes = ["a=[1, 3, 5] on time, #0, last", "d=[2] on time, #0, last"]
    host.emits(build, panes, ["a=[1, 3, 5]", "d=[2]"])
