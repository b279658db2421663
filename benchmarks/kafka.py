"""What reading from Kafka costs, and how long a message takes through a stream: `python -m benchmarks kafka`.

On a broker on this machine, which `python -m scripts.servers get kafka` fetches once. **Reading**: processor time for
each message of 100 bytes, of a bounded run and of the client's `consume()` alone, by turns; once the values are bytes,
once JSON with four fields. **Latency**: messages are written at a rate; a stream in process numbers those of each of
100 keys, and writes them to another topic; from writing a message to reading its result as a consumer of committed
messages, by one clock.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from rich.console import Console
from rich.table import Table

import dataflow_model as dm
from benchmarks.discard import Discard
from benchmarks.kafka_traffic import FIELDS, NumberingProcess, Traffic, consumed, fill, numbered, object_of
from scripts import servers
from tests.support.kafka.broker import running_broker
from tests.support.kafka.topics import new_topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Latency", "Reading", "main"]

_JAVA: Final = Path(__file__).resolve().parents[1] / "scripts/java.sh"
_RESULTS: Final = Path(__file__).resolve().parent / "results_kafka.json"
_PARTITIONS: Final = 2
_VALUES: Final = ("bytes", "json")
_NAMES: Final = {"bytes": "kafka_read", "json": "kafka_read_json"}
"""The names of the figures, by what values are read as."""


@attrs.frozen
class Reading:
    """Processor time for each message, in microseconds: the medians of the runs, and ours above the client's.

    Attributes:
        value: what values are read as.
        messages: how many were read in each run.
        consume_us: of the client's `consume()`.
        ours_us: of a bounded run that reads and discards them.
        above_us: the difference, whose target is 3 for bytes.
        load: of the machine, as the average of the last minute; above its number of cores, figures mean little.
    """

    value: str
    messages: int
    consume_us: float
    ours_us: float
    above_us: float
    load: float


@attrs.frozen
class Latency:
    """From writing a message to reading its result, in milliseconds.

    Attributes:
        rate: messages a second.
        messages: how many were measured.
        p50_ms, p95_ms, p99_ms: percentiles; at 1,000 messages a second, the targets are 30 for p50 and 60 for p95.
        complete: whether each message had one result.
        load: of the machine, as for `Reading`.
    """

    rate: int
    messages: int
    p50_ms: float
    p95_ms: float
    p99_ms: float
    complete: bool
    load: float


def main(arguments: list[str] | None = None) -> int:
    """Run the measurements; 1 when a message was lost, or came twice."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks kafka", description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "--messages", type=int, default=1_000_000, help="the number of messages to read (default: %(default)s)"
    )
    parser.add_argument("--repeats", type=int, default=3, help="the number of runs of each side (default: %(default)s)")
    parser.add_argument("--rate", type=int, default=1_000, help="messages per second (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=12.0, help="the time to measure (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=_RESULTS, help="the JSON file to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    java = subprocess.run([_JAVA, "find"], capture_output=True, text=True, check=True).stdout.strip()
    jars = servers.get("kafka")
    with tempfile.TemporaryDirectory() as folder, running_broker(Path(folder), java, jars) as broker:
        readings = [measure_reading(broker.servers, value, options.messages, options.repeats) for value in _VALUES]
        latency = measure_latency(broker.servers, options.rate, options.seconds)
    console = Console()
    console.print(_table(readings, latency))
    results = {_NAMES[reading.value]: attrs.asdict(reading) for reading in readings}
    results["kafka_latency"] = attrs.asdict(latency)
    options.output.write_text(json.dumps(results, indent=2) + "\n")
    return int(not latency.complete)


def measure_reading(bootstrap: str, value: str, messages: int, repeats: int) -> Reading:
    """Read messages by turns with the client alone, and in a bounded run that reads their values as bytes or JSON."""
    topic = new_topic(bootstrap, partitions=_PARTITIONS)
    fill(bootstrap, topic, messages, numbered if value == "bytes" else object_of)
    times: dict[str, list[float]] = {"consume": [], "ours": []}
    for _ in range(repeats):
        times["consume"].append(_processor_time(lambda: consumed(bootstrap, topic, messages)))
        times["ours"].append(_processor_time(lambda: _read(bootstrap, topic, value)))
    consume, ours = (statistics.median(taken) / messages * 1e6 for taken in times.values())
    return Reading(value, messages, round(consume, 2), round(ours, 2), round(ours - consume, 2), _load())


def measure_latency(bootstrap: str, rate: int, seconds: float) -> Latency:
    """Write messages at a rate, and read what a stream makes of them."""
    source, target = (new_topic(bootstrap, partitions=_PARTITIONS) for _ in range(2))
    with tempfile.TemporaryDirectory() as checkpoint:
        stream = NumberingProcess(bootstrap, source, target, checkpoint)
        traffic = Traffic(bootstrap, source, target)
        try:
            traffic.warm_up()
            taken = traffic.measure(rate, seconds)
        finally:
            stream.stop()
    cuts = statistics.quantiles(taken, n=100, method="inclusive")
    p50, p95, p99 = (round(cuts[percentile - 1] * 1e3, 1) for percentile in (50, 95, 99))
    return Latency(rate, len(taken), p50, p95, p99, traffic.is_complete, _load())


def _read(bootstrap: str, topic: str, value: str) -> None:
    p = dm.Pipeline()
    fields: dict[str, Any] = {} if value == "bytes" else {"value": value, "schema": FIELDS}
    read = dm.io.ReadKafka(topic, bootstrap_servers=bootstrap, event_time=None, end="latest", **fields)
    _ = p | read | dm.Write(Discard())
    p.run().wait_until_finish()


def _processor_time(run: Callable[[], Any]) -> float:
    """Return the seconds that all threads of this process have worked, those of the client among them."""
    before = time.process_time()
    run()
    return time.process_time() - before


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def _table(readings: Sequence[Reading], latency: Latency) -> Table:
    table = Table(title=f"Kafka, on a machine with {os.cpu_count()} cores")
    for heading in ("what", "figure", "target", "load"):
        table.add_column(heading, justify="left" if heading == "what" else "right")
    for reading in readings:
        target = "3" if reading.value == "bytes" else ""
        table.add_row(f"consume(), {reading.value}, µs a message", f"{reading.consume_us:.2f}", "", f"{reading.load:g}")
        name = f"{_NAMES[reading.value]} above it, µs a message"
        table.add_row(name, f"{reading.above_us:.2f}", target, f"{reading.load:g}")
    for name, figure, target in (
        ("p50", latency.p50_ms, "30"),
        ("p95", latency.p95_ms, "60"),
        ("p99", latency.p99_ms, ""),
    ):
        table.add_row(
            f"kafka_latency at {latency.rate:,} a second, {name}, ms", f"{figure:g}", target, f"{latency.load:g}"
        )
    table.add_row("kafka_latency, each message once", "yes" if latency.complete else "[red]NO[/]", "yes", "")
    return table
