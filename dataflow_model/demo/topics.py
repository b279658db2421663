"""The demo with Kafka: flights arrive in a topic, a stream writes panes to another, and a consumer reads them."""

from __future__ import annotations

import datetime as dt
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

import dataflow_model as dm
from dataflow_model.demo.broker import running_broker
from dataflow_model.demo.pipeline import DELAY, LATENESS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

DEPARTURES: Final = "departures"
DELAYS: Final = "delays"
FIELDS: Final = pa.schema(
    {"scheduled_departure": pa.timestamp("us", "UTC"), "carrier": pa.string(), "dep_delay": pa.int64()}
)
PANES: Final = pa.schema({"carrier": pa.string(), "departures": pa.int64(), "mean_delay": pa.float64()})
_EVERY: Final = 0.3
"""Seconds from one pane that is shown to the next: all of them would pass too fast to read."""
_QUIET: Final = {"log_level": 0}
"""Options of clients, which would log that they end."""
_PATIENCE: Final = 30.0


def delays(p: dm.Pipeline, servers: str) -> None:
    """Build the job: departures and mean delay per carrier and hour, with early and late panes, from topic to topic.

    Args:
        p: the pipeline.
        servers: the address of the broker.
    """
    hours = (
        dm.Window.into(dm.FixedWindows("1 hour"))
        .trigger(dm.AfterWatermark(early=dm.AfterProcessingTime("1 second"), late=dm.AfterCount(1)))
        .allowed_lateness(LATENESS)
        .accumulating()
    )
    departures = p | dm.io.ReadKafka(
        DEPARTURES,
        bootstrap_servers=servers,
        value="json",
        schema=FIELDS,
        event_time="scheduled_departure",
        watermark=dm.BoundedOutOfOrderness(DELAY),
    )
    departed = departures | dm.Filter(lambda row: row.dep_delay is not None)
    by_carrier = departed | dm.WithKeys("carrier", value="dep_delay") | hours
    counted = by_carrier | "per carrier and hour" >> dm.Together(count=dm.Count(), mean=dm.Mean()).per_key()
    rows = counted | "as rows" >> dm.MapTuple(
        lambda carrier, of: {"carrier": carrier, "departures": of.count, "mean_delay": round(of.mean, 1)}
    )
    _ = rows | dm.io.WriteKafka(DELAYS, bootstrap_servers=servers, keys="carrier", schema=PANES, panes=True)


def show_topics(path: Path, rows: int, rate: int, console: Console) -> bool:
    """Run the demo; return whether the panes that were read count each departure once.

    Args:
        path: the flights.
        rows: how many of them are sent.
        rate: how many are sent in a second.
        console: where to print.
    """
    flights = pq.read_table(path).slice(0, rows).select(FIELDS.names).to_pylist()
    with tempfile.TemporaryDirectory(prefix="dataflow-model-demo-") as name, running_broker(Path(name)) as servers:
        console.print(f"A broker runs at {servers}, with the topics {DEPARTURES!r} and {DELAYS!r}.", highlight=False)
        _create_topics(servers)
        p = dm.Pipeline(runner=dm.LocalRunner(checkpoint=Path(name, "checkpoint")))
        delays(p, servers)
        reader = _Reader(servers, console)
        reader.start()
        result = p.run()
        console.print(f"Sending {len(flights):,} departures, {rate:,} a second …", highlight=False)
        start = time.perf_counter()
        _send(servers, flights, rate)
        while int(result.metrics()["ReadKafka"].get("elements_out", 0)) < len(flights):
            if result.wait_until_finish(timeout=0.05) is not dm.RunnerState.RUNNING:
                break
        result.drain()
        seconds = time.perf_counter() - start
        reader.finish()
    departed = sum(flight["dep_delay"] is not None for flight in flights)
    counted = sum(reader.last.values())
    console.print(
        f"In {seconds:.1f} s the consumer read {reader.count:,} panes. The last of each hour and carrier count "
        f"{counted:,} departures; {departed:,} were sent that were not cancelled.",
        highlight=False,
    )
    return counted == departed


def _create_topics(servers: str) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": servers, **_QUIET})
    settings = {"retention.ms": "-1"}  # the flights are of 2013, and brokers delete what is old
    topics = [NewTopic(topic, 1, 1, config=settings) for topic in (DEPARTURES, DELAYS)]
    for created in admin.create_topics(topics).values():
        created.result(_PATIENCE)


def _send(servers: str, flights: Sequence[dict[str, Any]], rate: int) -> None:
    """Send flights at a rate, as messages in JSON."""
    from confluent_kafka import Producer

    producer, start = Producer({"bootstrap.servers": servers, "linger.ms": 5, **_QUIET}), time.perf_counter()
    for number, flight in enumerate(flights):
        time.sleep(max(0.0, start + number / rate - time.perf_counter()))
        text = json.dumps(flight, default=dt.datetime.isoformat)
        producer.produce(DEPARTURES, text, timestamp=int(flight["scheduled_departure"].timestamp() * 1_000))
        producer.poll(0)
    producer.flush(_PATIENCE)


class _Reader(threading.Thread):
    """A consumer that knows nothing of the stream, and prints what it reads.

    Attributes:
        count: how many panes it has read.
        last: the departures in the last pane of each carrier and hour.
    """

    def __init__(self, servers: str, console: Console) -> None:
        super().__init__(name="consumer", daemon=True)
        self._servers, self._console = servers, console
        self._finishes = threading.Event()
        self.count = 0
        self.last: dict[tuple[str, str], int] = {}

    def finish(self) -> None:
        """Read what is there, and end."""
        self._finishes.set()
        self.join()

    def run(self) -> None:
        """Read until there is nothing more, once that was asked for."""
        next_shown = 0.0
        for pane in self._panes():
            self.count += 1
            self.last[pane["carrier"], pane["window_start"]] = pane["departures"]
            if time.monotonic() >= next_shown:
                next_shown = time.monotonic() + _EVERY
                hour = pane["window_start"][:16].replace("T", " ")
                text = f"  {hour} {pane['carrier']}  {pane['departures']:3} departures  {pane['pane_timing'].lower()}"
                self._console.print(text, highlight=False)

    def _panes(self) -> Iterator[dict[str, Any]]:
        from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

        options = {"bootstrap.servers": self._servers, "group.id": "demo", "isolation.level": "read_committed"}
        consumer = Consumer({**options, **_QUIET, "enable.auto.commit": False, "enable.partition.eof": True})
        position, finishes = 0, False
        consumer.assign([TopicPartition(DELAYS, 0, position)])
        try:
            while True:
                if self._finishes.is_set() and not finishes:
                    finishes = True
                    consumer.assign([TopicPartition(DELAYS, 0, position)])  # which lets it report the end anew
                message = consumer.poll(0.1)
                error = None if message is None else message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    raise KafkaException(error)
                if error is not None and finishes:
                    return
                if message is not None and error is None:
                    position = (message.offset() or 0) + 1
                    yield json.loads(message.value() or b"{}")
        finally:
            consumer.close()
