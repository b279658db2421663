"""What each watermark estimator gives on the flights of 2013: how many are late, and how far the watermark is behind.

Run `python -m benchmarks.watermarks`; `docs/watermarks.md` quotes what it prints.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

import dataflow_model as dm
from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.logical.nodes import Read
from dataflow_model.runners.engine.sources.observing import NamedRows, Observer
from dataflow_model.runners.engine.sources.timeline import Awaited, ReplayProgress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

__all__ = ["Measured", "measure", "table"]

FLIGHTS: Final = Path("data/flights.parquet")
_MINUTE: Final = 60_000_000
_JULY: Final = int(dm.event_time("2013-07-01T00:00-04:00"))
_CASES: Final[dict[str, dict[str, Any]]] = {
    "Monotonic()": {"watermark": dm.Monotonic()},
    "BoundedOutOfOrderness('1 hour')": {"watermark": dm.BoundedOutOfOrderness("1 hour")},
    "BoundedOutOfOrderness('1 hour') by airport": {
        "watermark": dm.BoundedOutOfOrderness("1 hour"),
        "watermark_origin": "origin",
    },
    "BoundedOutOfOrderness('1 hour') by airport, idle after 2 hours": {
        "watermark": dm.BoundedOutOfOrderness("1 hour"),
        "watermark_origin": "origin",
        "idle_after": "2 hours",
    },
    "BoundedOutOfOrderness('6 hours')": {"watermark": dm.BoundedOutOfOrderness("6 hours")},
    "WallTime('1 hour')": {"watermark": dm.WallTime("1 hour")},
    "WallTime('6 hours')": {"watermark": dm.WallTime("6 hours")},
    "Explicit(is_cancelled)": {"watermark": dm.Explicit(lambda row: row.dep_delay is None)},
    "AdaptiveLateness(0.05)": {"watermark": dm.AdaptiveLateness(0.05)},
    "AdaptiveLateness(0.01)": {"watermark": dm.AdaptiveLateness(0.01)},
    "AdaptiveLateness(0.001)": {"watermark": dm.AdaptiveLateness(0.001)},
}


@attrs.frozen
class Measured:
    """What an estimator gave over some months.

    Attributes:
        late: the share of departures that came when the watermark had passed them.
        median, p99: how far the watermark was behind the clock when departures came, in minutes.
    """

    late: float
    median: float
    p99: float


def measure(options: dict[str, Any], path: Path = FLIGHTS, percentile: float | None = None) -> Iterator[Measured]:
    """Yield what an estimator gives in the first half of the year and in the second.

    Args:
        options: of the read.
        path: the flights.
        percentile: which percentile of the watermark is measured; the low one by default.
    """
    pipeline = dm.Pipeline()
    _ = pipeline | "flights" >> dm.io.ReadParquet(
        path, event_time="scheduled_departure", processing_time="known_at", **options
    )
    node = pipeline.plan()["flights"]
    assert isinstance(node, Read)
    assert isinstance(node.source, ColumnSource)
    ticks, times, watermark = _follow(node.source, percentile)
    for half in (times < _JULY, times >= _JULY):
        known = half & (watermark > int(dm.MIN_TIMESTAMP))
        lag = (ticks[known] - watermark[known]) / _MINUTE
        late = (times[half] < watermark[half]).mean()
        yield Measured(float(late), float(np.median(lag)), float(np.quantile(lag, 0.99)))


def _follow(
    source: ColumnSource, percentile: float | None
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return clock and event time of each row, and the watermark that it meets: that after the tick before its own."""
    percentiles = () if percentile is None else (percentile,)
    [origin] = source.origins()
    observer = Observer("flights", origin.name, source, percentiles)
    clocks, times = [], []
    for batch in source.read(origin.name, 0, None):
        decoded = source.decode(batch)
        assert decoded.clock is not None
        assert decoded.event_times is not None
        clocks.append(decoded.clock)
        times.append(decoded.event_times)
        observer.take(decoded.clock, decoded.event_times, NamedRows(decoded.values))
    progress = ReplayProgress()
    progress.observe([observer.seen()])
    timeline = progress.timeline({"flights": source}, (), ("flights",), None, Awaited(percentiles))
    watermarks = timeline.watermarks["flights"]
    is_tick = timeline.at.steps == 0
    at = timeline.at.clocks[is_tick]
    after = (watermarks.percentiles[:, 0] if percentiles else watermarks.low)[is_tick]
    ticks = np.concatenate(clocks)
    return ticks, np.concatenate(times), np.concatenate([[int(dm.MIN_TIMESTAMP)], after])[np.searchsorted(at, ticks)]


def table(path: Path = FLIGHTS) -> Iterator[str]:
    """Yield the table in Markdown, line by line."""
    yield "| estimator | late, Jan–Jun | late, Jul–Dec | lag: median | 99th percentile |"
    yield "|---|---:|---:|---:|---:|"
    percentiles = {f"percentile {p} of AdaptiveLateness(0.001)": p for p in (90, 99)}
    cases: list[tuple[str, dict[str, Any], float | None]] = [(name, options, None) for name, options in _CASES.items()]
    cases += [(name, _CASES["AdaptiveLateness(0.001)"], p) for name, p in percentiles.items()]
    for name, options, percentile in cases:
        first, second = measure(options, path, percentile)
        yield (f"| `{name}` | {first.late:.3%} | {second.late:.3%} | {second.median:.0f} min | {second.p99:.0f} min |")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", nargs="?", type=Path, default=FLIGHTS)
    for line in table(parser.parse_args().path):
        print(line)


if __name__ == "__main__":
    main()
