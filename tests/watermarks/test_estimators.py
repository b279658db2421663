"""What each estimator makes of some records, and how origins make a source's watermark."""

from __future__ import annotations

import base64
import random
import zlib

import numpy as np
import pyarrow as pa
import pytest

import dataflow_model as dm
from dataflow_model.plan.columns.rows import row_type
from dataflow_model.plan.watermarks.origins import WatermarkOrigins
from dataflow_model.runners.engine.lanes.watermarks import Watermarks
from dataflow_model.runners.engine.sources.observing import NamedRows, Observer
from dataflow_model.runners.engine.sources.skew import UNKNOWN, SkewSketch
from dataflow_model.runners.engine.sources.timeline import Awaited, ReplayProgress
from tests.support.watermarks.observed import END, NOTHING, Record, Rows, course, read

BY_PARTITION = WatermarkOrigins(by="partition")


def records(*given: tuple[int, int, str] | tuple[int, int, str, bool]) -> list[Record]:
    return [Record(row[0], row[1], row[2], len(row) > 3) for row in given]


def low(source: Rows, *given: tuple[int, int, str] | tuple[int, int, str, bool]) -> list[int]:
    """Return the low watermark after each tick."""
    actual = course(source, [[records(*given)]])
    return [actual[tick][0] for tick in sorted(actual)]


def test_the_monotonic_watermark_is_the_greatest_event_time() -> None:
    assert low(Rows(dm.Monotonic()), (0, 5, "a"), (1, 3, "a"), (2, 9, "a")) == [5, 5, 9]


def test_bounded_out_of_orderness_trails_the_greatest_event_time() -> None:
    assert low(Rows(dm.BoundedOutOfOrderness(dm.Duration(micros=4))), (0, 5, "a"), (1, 3, "a"), (2, 9, "a")) == [
        1,
        1,
        5,
    ]


def test_the_explicit_watermark_is_determined_only_by_punctuation_rows() -> None:
    source = Rows(dm.Explicit(lambda record: record.closes))
    assert low(source, (0, 5, "a"), (1, 4, "a", True), (2, 9, "a"), (2, 3, "a", True)) == [NOTHING, 4, 4]


def test_the_wall_time_watermark_advances_while_other_records_arrive() -> None:
    source = Rows(dm.WallTime(dm.Duration(micros=2)), BY_PARTITION)
    assert low(source, (10, 5, "a"), (11, 3, "b"), (30, 9, "b")) == [8, 9, 28]


def test_the_watermark_is_the_minimum_over_its_origins() -> None:
    source = Rows(dm.Monotonic(), BY_PARTITION)
    assert low(source, (0, 5, "a"), (0, 3, "b"), (1, 9, "b"), (2, 7, "a")) == [3, 5, 7]


@pytest.mark.parametrize("name", ["partition", "meta.partition", "__partition__", "_fields"])
def test_a_column_of_any_name_may_identify_the_origins(name: str) -> None:
    row = row_type(pa.schema({"at": pa.int64(), name: pa.string()}))
    source = Rows(dm.Monotonic(), WatermarkOrigins(by=name))
    observer = Observer("source", "f", source)
    observer.take(np.array([0, 0]), np.array([5, 3]), NamedRows([row(5, "a"), row(3, "b")]))
    assert [part.name for part in observer.seen().parts] == ["a", "b"]


def test_a_late_record_never_moves_the_watermark_back() -> None:
    source = Rows(dm.Monotonic(), BY_PARTITION)
    assert low(source, (0, 50, "a"), (1, 3, "b")) == [50, 50]


def test_an_idle_origin_does_not_hold_the_watermark_until_it_has_new_records() -> None:
    source = Rows(dm.Monotonic(), WatermarkOrigins(by="partition", idle_after=dm.Duration(micros=5)))
    given = ((0, 5, "a"), (0, 1, "b"), (5, 20, "a"), (6, 30, "a"), (7, 2, "b"), (8, 40, "a"))
    assert low(source, *given) == [1, 1, 30, 30, 30]


def test_the_watermark_does_not_move_while_every_origin_is_idle() -> None:
    source = Rows(
        dm.Monotonic(), WatermarkOrigins(by="partition", idle_after=dm.Duration(micros=5)), processing_time=None
    )
    progress = ReplayProgress()
    progress.observe([read(source, records((0, 5, "a"), (0, 3, "b")))])
    walls = [progress.timeline({"source": source}, (), (), wall) for wall in (0, 50, 51)]
    assert [timeline.watermarks["source"] for timeline in walls] == [[Watermarks(3)]] * 3


@pytest.mark.parametrize(
    ("again", "expected"),
    [
        ([(2, 3, "b")], 3),  # a, which is ahead, became idle first
        ([(2, 50, "a")], 50),  # b became idle first, and a alone counted for a while
        ([], 3),  # both in the same tick
    ],
)
def test_the_watermark_of_idle_origins_is_that_of_the_one_that_became_idle_last(
    again: list[tuple[int, int, str]], expected: int
) -> None:
    source = Rows(
        dm.Monotonic(), WatermarkOrigins(by="partition", idle_after=dm.Duration(micros=5)), processing_time=None
    )
    progress = ReplayProgress()
    reached = NOTHING
    for wall in (0, 2, 6, 8, 50):
        given = [record for record in records((0, 50, "a"), (0, 3, "b"), *again) if record.tick == wall]
        progress.observe([read(source, given)] if given else [])
        reached = progress.timeline({"source": source}, (), (), wall).watermarks["source"][-1].low
    assert reached == expected


def test_declared_partitions_hold_the_watermark_until_all_have_reported() -> None:
    source = Rows(dm.Monotonic(), WatermarkOrigins(by="partition", partitions=("a", "b", "c")))
    assert low(source, (0, 5, "a"), (1, 9, "b"), (2, 7, "c")) == [NOTHING, NOTHING, 5]


def test_a_percentile_over_origins_ignores_stragglers() -> None:
    source = Rows(dm.Monotonic(), BY_PARTITION)
    given = [Record(0, 10 + number, f"p{number}") for number in range(9)] + [Record(0, 1, "straggler")]
    assert course(source, [[given]], (50, 80, 90, 95))[0] == (1, 14, 11, 10, 1)


def test_a_percentile_weighted_by_records_follows_the_large_origins() -> None:
    source = Rows(dm.Monotonic(), WatermarkOrigins(by="partition", weight="records"))
    given = [Record(0, 50, "large")] * 9 + [Record(0, 1, "small"), Record(0, 70, "tiny")]
    assert course(source, [[given]], (80, 95))[0] == (1, 50, 1)


def test_a_percentile_over_one_origin_is_that_of_its_skew() -> None:
    # Every tenth record is 100 behind the greatest of earlier ticks; the others are in order.
    given = [Record(tick, 1_000 + tick - (100 if tick % 10 == 0 else 0), "a") for tick in range(1, 401)]
    low, median, most, nearly_all = course(
        Rows(dm.BoundedOutOfOrderness(dm.Duration(micros=500))), [[given]], (50, 85, 99)
    )[399]
    assert low == 899
    assert 1_390 <= median <= 1_399
    assert 1_390 <= most <= 1_399
    assert 1_290 <= nearly_all <= 1_300


def test_adaptive_lateness_has_no_watermark_before_it_has_enough_data() -> None:
    given = [Record(tick, tick, "a") for tick in range(30)]
    actual = course(Rows(dm.AdaptiveLateness(0.1)), [[given]])
    assert [tick for tick in range(30) if actual[tick][0] == NOTHING] == list(range(10))


@pytest.mark.parametrize("fraction", [0.05, 0.01])
def test_about_the_given_fraction_of_records_is_late_under_adaptive_lateness(fraction: float) -> None:
    chance = random.Random(7)
    given = [Record(tick, tick * 100 - int(chance.expovariate(1 / 5_000)), "a") for tick in range(20_000)]
    actual = course(Rows(dm.AdaptiveLateness(fraction)), [[given]])
    late = sum(record.time < actual[record.tick - 1][0] for record in given[10_000:])
    assert fraction / 1.5 < late / 10_000 < fraction * 1.5


def test_every_percentile_is_infinite_at_the_end_of_the_input() -> None:
    source = Rows(dm.Monotonic(), BY_PARTITION)
    progress = ReplayProgress()
    progress.observe([read(source, records((0, 5, "a")), (90,))])
    timeline = progress.timeline({"source": source}, (), ("source",), None, Awaited((90,)))
    assert timeline.at == [(0, 0), (0, 1)]
    assert timeline.watermarks["source"] == [Watermarks(5, (5,)), Watermarks(END, (END,))]


def test_a_sketch_has_the_same_content_however_its_ticks_were_cut() -> None:
    chance = np.random.default_rng(3)
    skews = chance.integers(0, 10_000, 5_000)
    ends = np.arange(10, 5_001, 10)
    whole, cut = SkewSketch((0.5, 0.99)), SkewSketch((0.5, 0.99))
    known = whole.follow(skews, ends)
    first = cut.follow(skews[:1_230], ends[:123])
    second = cut.follow(skews[1_230:], ends[123:] - 1_230)
    assert np.array_equal(known, np.concatenate([first, second]))
    assert whole == cut
    assert known[0, 1] == UNKNOWN
    assert abs(known[-1, 1] - 9_900) < 60


@pytest.mark.parametrize(
    ("digest", "total", "median"),
    [
        (bytes.fromhex("010114c8000600000000000000001c40"), 1, 7),  # of 7.0
        (
            zlib.decompress(
                base64.b85decode(
                    "c-muP6yaiEVPN28zyc0LIKY^UC=ws+QTZ$mOelN_2UZlmt^*G;x52?d62%^02N`6(LWlz&ihP&@J2L-4II4XP5e_KsX"
                    "+Yy2K=1)Kl?^="
                )
            ),
            100,
            50,
        ),  # of the numbers from 0 to 99 in 13 centroids
    ],
    ids=["one", "several"],
)
def test_a_digest_written_by_datasketches_is_read(digest: bytes, total: int, median: int) -> None:
    sketch = SkewSketch((0.5,), digest, total)
    known = sketch.follow(np.array([median] * 10), np.array([10]))
    assert abs(known[0, 0] - median) < 3
    assert sketch.total == total + 10


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"idle_after": 0}, "`idle_after` must be positive"),
        ({"max_skew": "-1 s"}, "`max_skew` must be positive"),
        ({"weight": "bytes"}, "`weight` must be 'origins' or 'records', got 'bytes'"),
        ({"partitions": ["a"]}, "but the whole source is one"),
        ({"idle_after": "1 minute"}, "but the whole source is one origin, got idle_after="),
    ],
)
def test_options_of_watermark_origins_without_effect_are_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(dm.InvalidArgument, match=said):
        WatermarkOrigins(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("partitions", ["abc", 5, True])
def test_partitions_that_are_not_a_list_are_refused(partitions: object) -> None:
    with pytest.raises(dm.InvalidType, match=rf"a list of names, got {partitions!r}\nHint: .*=\[{partitions!r}\]"):
        WatermarkOrigins(by="partition", partitions=partitions)  # type: ignore[arg-type] # the point


@pytest.mark.parametrize("fraction", [0, 1, -0.5])
def test_a_fraction_out_of_range_is_refused(fraction: float) -> None:
    with pytest.raises(dm.InvalidArgument, match="must be between 0 and 1"):
        dm.AdaptiveLateness(fraction)


@pytest.mark.parametrize("fraction", ["1%", None, True])
def test_a_fraction_that_is_not_a_number_is_refused(fraction: object) -> None:
    with pytest.raises(dm.InvalidType, match=rf"a number between 0 and 1, got {fraction!r}\nHint: "):
        dm.AdaptiveLateness(fraction)  # type: ignore[arg-type] # the point
