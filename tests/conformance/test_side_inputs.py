"""Side inputs: static ones, and ones that change while the pipeline runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from dataflow_model.testing import TestStream

if TYPE_CHECKING:
    from tests.support.hosts import OnHost

MAIN = TestStream().add(1, 5, key="a").add(2, 15, key="d").watermark(30)
TENS = dm.Window.into(dm.FixedWindows(10))


def with_side(pair: Any, side: Any) -> Any:
    return pair[0], (pair[1], sorted(side.items()) if isinstance(side, dict) else side)


@pytest.mark.parametrize("view", ["list", "dict", "single"])
def test_a_static_side_input_is_the_same_for_all_elements(host: OnHost, view: str) -> None:
    def build(p: dm.Pipeline) -> None:
        side: Any = p | "side" >> dm.Create([("x", 7)])
        seen = {"list": dm.AsList, "dict": dm.AsDict, "single": dm.AsSingleton}[view](side)
        _ = p | "main" >> MAIN | "look" >> dm.Map(with_side, side=seen) | "panes" >> dm.io.Collect()

    side = ("x", 7) if view == "single" else [("x", 7)]
    answer = [f"a={(1, side)}", f"d={(2, side)}"]
    host.emits(build, answer, answer)


def test_an_element_waits_for_the_pane_of_its_side_window(clocked: OnHost) -> None:
    side = TestStream().processing_time(3).add(10, 6, key="x").watermark(9).processing_time(7).watermark(30)

    def build(p: dm.Pipeline) -> None:
        sums = p | "side" >> side | "side tens" >> TENS | "sums" >> dm.Sum.per_key()
        main = p | "main" >> MAIN | "tens" >> TENS
        _ = main | "look" >> dm.Map(with_side, side=dm.AsDict(sums)) | "panes" >> dm.io.Collect()

    result = clocked.run(build)
    seen = [(record.value, int(record.processing_time)) for record in result.collected("panes")]
    assert seen == [(("a", (1, [("x", 10)])), 7_000_000), (("d", (2, [])), 7_000_000)]


def test_a_single_value_has_its_default_in_an_empty_window(host: OnHost) -> None:
    side = TestStream().add(10, 6, key="x").watermark(30)

    def build(p: dm.Pipeline) -> None:
        total = p | "side" >> side | "side tens" >> TENS | "sums" >> dm.Sum.per_key()
        main = p | "main" >> MAIN | "tens" >> TENS
        seen = dm.AsSingleton(total, default="none")
        _ = main | "look" >> dm.Map(with_side, side=seen) | "panes" >> dm.io.Collect()

    answer = [f"a={(1, ('x', 10))}", f"d={(2, 'none')}"]
    host.emits(build, answer, answer)


def test_an_element_sees_the_content_of_its_side_window_at_the_time_it_arrives(clocked: OnHost) -> None:
    side = TestStream().processing_time(1).add(1, 5, key="x").processing_time(3).add(2, 6, key="x")
    main = TestStream().processing_time(2).add("early", 1, key="a").processing_time(4).add("late", 1, key="a")

    def build(p: dm.Pipeline) -> None:
        each = TENS.trigger(dm.Repeatedly(dm.AfterCount(1))).accumulating()
        sums = p | "side" >> side | "each" >> each | "sums" >> dm.Sum.per_key()
        elements = p | "main" >> main | "tens" >> TENS
        _ = elements | "look" >> dm.Map(with_side, side=dm.AsDict(sums)) | "panes" >> dm.io.Collect()

    values = [record.value[1] for record in clocked.run(build).collected("panes")]
    assert values == [("early", [("x", 1)]), ("late", [("x", 3)])]
