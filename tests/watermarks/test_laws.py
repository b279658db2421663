"""Laws of every estimator: what order within a tick, what cuts into reads and bundles change (nothing), and order."""

from __future__ import annotations

import itertools
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import dataflow_model as dm
from dataflow_model.plan.watermarks.origins import WatermarkOrigins
from tests.support.watermarks import observed
from tests.support.watermarks.observed import Record, Rows, course, plain_course

PERCENTILES = (25.0, 50.0, 90.0)
sources = st.builds(Rows, watermark=observed.estimators(), watermark_origins=observed.origins())
without_skew = sources.filter(
    lambda source: not isinstance(source.watermark, dm.AdaptiveLateness) and source.watermark_origins.by is not None
)


@given(sources, observed.records(), st.data())
def test_neither_the_order_within_a_tick_nor_the_cuts_change_the_watermark(
    source: Rows, records: list[Record], data: st.DataObject
) -> None:
    whole = course(source, [[records]], PERCENTILES)
    mixed = sorted(data.draw(st.permutations(records)), key=lambda record: record.tick)
    bundles = observed.cut(data.draw, mixed, data.draw(st.integers(1, 4)))
    parts = [observed.cut(data.draw, bundle, data.draw(st.integers(1, 3))) for bundle in bundles]
    parts = [data.draw(st.permutations(reads)) for reads in parts]  # parallel reads come in any order
    assert course(source, parts, PERCENTILES) == whole


@given(sources, observed.records())
def test_every_percentile_is_monotone_and_none_is_behind_a_higher_one(source: Rows, records: list[Record]) -> None:
    reached = course(source, [[records]], PERCENTILES)
    ordered = [reached[tick] for tick in sorted(reached)]
    for before, after in itertools.pairwise(ordered):
        assert all(map(int.__le__, before, after))
    for low, *high in ordered:
        assert [low, *reversed(high)] == sorted([low, *high])


@given(without_skew, observed.records())
@example(
    Rows(dm.Monotonic(), WatermarkOrigins(by="partition", idle_after=dm.Duration(micros=1))),
    [Record(0, 5, "a"), Record(5, 9, "b"), Record(6, 3, "a"), Record(8, 50, "b")],
)
def test_the_watermark_equals_that_of_the_plain_definition(source: Rows, records: list[Record]) -> None:
    assert course(source, [[records]], PERCENTILES) == plain_course(source, records, PERCENTILES)


@given(observed.estimators(), observed.records())
def test_the_watermark_of_one_origin_equals_that_of_the_plain_definition(estimator: Any, records: list[Record]) -> None:
    if isinstance(estimator, dm.AdaptiveLateness):
        return
    source = Rows(estimator)
    assert course(source, [[records]]) == plain_course(source, records)
