"""How long a record takes from source to sink, and how far watermarks are behind: `python -m benchmarks latency`.

After the MillWheel paper's measurements (section 7). **Latency**: one keyed stage that numbers the records of each of
100 keys; from a record's file appearing to its output's being published, at several rates: in process, with 2 and with
10,000 files in the folder; on Spark with strong productions and with weak ones; and by hand with
`transformWithStateInPandas`. **Lag**: three sums per second in a row; how far each one's watermark is behind the wall
clock, beside the one watermark of `groupBy(window)` by hand. What runs on Spark runs in one session, one after the
other, warm; micro-batches follow each other as fast as they can.

`--sides` and `--what` measure a part of it, for instance without Spark: `--sides "in process"`. What is not measured
stays in the file of results as it is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from rich.console import Console
from rich.table import Table

import dataflow_model as dm
from benchmarks.latency_feed import FILES_PER_SECOND, Feed, Watcher, published_by_spark, published_by_us, write_records
from benchmarks.session import open_session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

__all__ = ["Lag", "Latency", "main"]

RATES: Final = (100, 1_000, 5_000)
SIDES: Final = ("in process", "in process, 10,000 files", "strong", "weak", "by hand")
_RESULTS: Final = Path(__file__).resolve().parent / "results_latency.json"
_WARM: Final = 100
"""How many records come first and are not measured: one of each key."""
_FILES: Final = {"in process": 2, "in process, 10,000 files": 10_000}
"""In how many files they are: a reader has to tell new files from those that it has read."""
_PATIENCE: Final = 60.0
_LAG_RATE: Final = 1_000
_LOOK_SECONDS: Final = 0.05


@attrs.frozen
class Latency:
    """Record-to-sink latencies of one side at one rate.

    Attributes:
        side: one of `SIDES`.
        rate: records a second.
        files_per_second: in how many files these came.
        records: how many were measured.
        p50_ms, p95_ms, p99_ms: percentiles, in milliseconds.
        complete: whether each record came once, with its number.
    """

    side: str
    rate: int
    files_per_second: int
    records: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    complete: bool


@attrs.frozen
class Lag:
    """How far the watermark of one stage was behind the wall clock, in milliseconds."""

    side: str
    stage: str
    rate: int
    p50_ms: float
    p95_ms: float
    looks: int


def main(arguments: list[str] | None = None) -> int:
    """Run the measurements; 1 when a record was lost, or came twice."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks latency", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--rates", type=int, nargs="+", default=list(RATES), help="records per second (default: %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=12.0, help="the time to measure each rate, in seconds (default: %(default)s)"
    )
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES), help="measure only these sides")
    parser.add_argument(
        "--files-per-second", type=int, default=FILES_PER_SECOND, help="in how many files (default: %(default)s)"
    )
    parser.add_argument(
        "--what", nargs="+", choices=("latency", "lag"), default=["latency", "lag"], help="measure only this"
    )
    parser.add_argument("--output", type=Path, default=_RESULTS, help="the JSON file to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    console = Console()
    if not console.is_terminal:
        console = Console(width=110)  # a log file has room for the tables
    latencies: list[Latency] = []
    lags: list[Lag] = []

    def measure(sides: Sequence[str], spark: SparkSession | None = None) -> None:
        for rate in options.rates:
            for side in sides:
                with console.status(f"latency, {side}, {rate} records a second"):
                    latencies.append(_latency(spark, side, rate, options.seconds, options.files_per_second))

    sides = options.sides if "latency" in options.what else []
    measure([side for side in sides if side in _FILES])
    on_spark = [side for side in sides if side not in _FILES]
    lag_sides = ("ours", "by hand") if "lag" in options.what and set(options.sides) - _FILES.keys() else ()
    if on_spark or lag_sides:
        spark = open_session(2)
        spark.sparkContext.setLogLevel("OFF")  # a query by hand that is stopped in a micro-batch logs an error
        try:
            measure(on_spark, spark)
            for side in lag_sides:
                with console.status(f"watermark lag, {side}"):
                    lags += _lags(spark, side, options.seconds)
        finally:
            spark.stop()
    latencies.sort(key=lambda latency: (latency.rate, SIDES.index(latency.side)))
    console.print(_latency_table(latencies))
    if lags:
        console.print(_lag_table(lags))
    _write(options.output, latencies, lags)
    return int(not all(measured.complete for measured in latencies))


def _write(output: Path, latencies: Sequence[Latency], lags: Sequence[Lag]) -> None:
    """Write what was measured; what the file has of anything else stays."""
    known = json.loads(output.read_text()) if output.exists() else {"latency": [], "lag": []}
    measured = {_line(attrs.asdict(latency)) for latency in latencies}
    lines = [line for line in known["latency"] if _line(line) not in measured]
    lines += [attrs.asdict(latency) for latency in latencies]
    lines.sort(key=_line)
    lag = [attrs.asdict(measured_lag) for measured_lag in lags] or known["lag"]
    output.write_text(json.dumps({"latency": lines, "lag": lag}, indent=2) + "\n")


def _line(latency: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return which line of the table a latency is, in order."""
    return latency["rate"], latency.get("files_per_second", FILES_PER_SECOND), SIDES.index(latency["side"])


def _latency(spark: SparkSession | None, side: str, rate: int, seconds: float, files_per_second: int) -> Latency:
    files = _FILES.get(side, 1)
    warm = max(_WARM, files)
    with (
        tempfile.TemporaryDirectory() as scratch,
        Feed(Path(scratch, "in"), warm, rate, seconds, files_per_second) as feed,
    ):
        source, out, checkpoint = (Path(scratch, name) for name in ("in", "out", "checkpoint"))
        source.mkdir()
        for file in range(files):
            write_records(source, file * (warm // files), warm // files)
        published = published_by_spark(out) if side == "by hand" else published_by_us(out)
        with Watcher(published) as watcher:
            run = _started(spark, side, source, out, checkpoint)
            if not _is_complete(watcher.wait_for(warm, _PATIENCE), warm):
                raise TimeoutError(
                    f"{side}: of the records that are there at the start, not each was emitted once within "
                    f"{_PATIENCE:.0f} s; those that are measured would wait for them"
                )
            feed.go()
            time.sleep(seconds)
            outputs = watcher.wait_for(warm + feed.records, _PATIENCE)
            run.stop()
    latencies = [(seen - record["sent"]) / 1_000 for seen, record in outputs if record["n"] >= warm]
    p50, p95, p99 = _percentiles(latencies, (50, 95, 99))
    return Latency(
        side, rate, files_per_second, len(latencies), p50, p95, p99, _is_complete(outputs, warm + feed.records)
    )


def _started(spark: SparkSession | None, side: Any, source: Path, out: Path, checkpoint: Path) -> Any:
    """Start one side, and return what can be stopped."""
    if side in _FILES:
        from benchmarks.latency_count import CountingProcess

        return CountingProcess(source, out, checkpoint)
    from benchmarks.latency_count import count_by_us
    from benchmarks.latency_sides import count_by_hand

    assert spark is not None
    if side == "by hand":
        return count_by_hand(spark, source, out, checkpoint)
    runner = dm.SparkRunner(spark, mode="streaming", checkpoint=str(checkpoint), productions=side)
    return count_by_us(runner, source, out)


def _is_complete(outputs: Sequence[tuple[int, dict[str, Any]]], records: int) -> bool:
    """Tell whether each record has come once, and the numbers of each key count up from 1."""
    numbers: dict[int, list[int]] = {}
    for _, record in outputs:
        numbers.setdefault(record["key"], []).append(record["count"])
    counted = all(sorted(counts) == list(range(1, len(counts) + 1)) for counts in numbers.values())
    return counted and sorted(record["n"] for _, record in outputs) == list(range(records))


def _lags(spark: SparkSession, side: str, seconds: float) -> list[Lag]:
    from benchmarks.latency_sides import STAGES, lags_by_hand, lags_by_us, sum_by_hand, sum_by_us

    start: Callable[..., Any] = sum_by_us if side == "ours" else sum_by_hand
    look: Callable[[Any], dict[str, float]] = lags_by_us if side == "ours" else lags_by_hand
    looks: dict[str, list[float]] = {stage: [] for stage in STAGES}
    feeding = 2 * seconds + _PATIENCE  # records arrive until the feed is ended
    with tempfile.TemporaryDirectory() as scratch, Feed(Path(scratch, "in"), _WARM, _LAG_RATE, feeding) as feed:
        source = Path(scratch, "in")
        source.mkdir()
        write_records(source, 0, _WARM)
        run = start(spark, source, Path(scratch, "out"), Path(scratch, "checkpoint"))
        feed.go()
        deadline = time.monotonic() + _PATIENCE
        while len(look(run)) < len(STAGES) and time.monotonic() < deadline:  # each stage has a watermark at last
            time.sleep(_LOOK_SECONDS)
        time.sleep(seconds / 4)
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for stage, lag in look(run).items():
                looks[stage].append(lag)
            time.sleep(_LOOK_SECONDS)
        run.stop()
    lags = []
    for stage, lags_of_stage in looks.items():
        p50, p95 = _percentiles(lags_of_stage, (50, 95))
        lags.append(Lag(side, stage, _LAG_RATE, p50, p95, len(lags_of_stage)))
    return lags


def _percentiles(values: Sequence[float], wanted: Sequence[int]) -> list[float]:
    if len(values) < 2:
        return [float("nan")] * len(wanted)
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return [round(cuts[percentile - 1], 1) for percentile in wanted]


def _latency_table(latencies: Sequence[Latency]) -> Table:
    table = Table(title="Record-to-sink latency in ms: one keyed stage")
    table.add_column("records a second", justify="right")
    table.add_column("side")
    for heading in ("p50", "p95", "p99", "records", "complete"):
        table.add_column(heading, justify="right")
    for latency in latencies:
        percentiles = (f"{value:,.0f}" for value in (latency.p50_ms, latency.p95_ms, latency.p99_ms))
        table.add_row(
            f"{latency.rate:,}",
            latency.side,
            *percentiles,
            f"{latency.records:,}",
            "yes" if latency.complete else "[red]NO[/]",
        )
    return table


def _lag_table(lags: Sequence[Lag]) -> Table:
    table = Table(title=f"Watermark lag in ms: three sums in a row, {_LAG_RATE:,} records a second")
    table.add_column("side")
    table.add_column("stage")
    for heading in ("p50", "p95", "looks"):
        table.add_column(heading, justify="right")
    for lag in lags:
        table.add_row(lag.side, lag.stage, f"{lag.p50_ms:,.0f}", f"{lag.p95_ms:,.0f}", f"{lag.looks:,}")
    return table
