"""A run's report as a Prometheus endpoint, with its health beside it; needs the extra `prometheus`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, Self

from dataflow_model.arguments import positive_duration
from dataflow_model.errors import InvalidArgument, InvalidType, explain
from dataflow_model.metrics.health import HealthCheck
from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from dataflow_model.metrics.health import Watched
    from dataflow_model.metrics.report import DistributionValue, TransformReport
    from dataflow_model.time import Duration, DurationLike, EventTime

_MICROS: Final = 1_000_000
_PORTS: Final = 1 << 16
_TOO_FAR_AHEAD: Final = "elements_too_far_ahead"
_SPLIT_BY_LABEL: Final = ("elements_", "panes_", "dropped_")
_LEVELS: Final = frozenset({"ids", "id_bytes", "lines_unfinished"})
"""Counters that may decrease, which Prometheus does not allow; they are gauges, or `state_…` of a Deduplicate."""
_LINES_UNFINISHED: Final = "lines_unfinished"


class MetricsServer:
    """A running endpoint, created by `serve`; as a context manager it is closed at the end.

    Attributes:
        port: the port on which it listens.
    """

    def __init__(self, server: Any, thread: Any) -> None:
        self._server, self._thread = server, thread
        self.port: int = server.server_port

    def close(self) -> None:
        """Stop serving; calling it again does nothing."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def check_prometheus() -> None:
    """Check that the extra `prometheus` is installed.

    Raises:
        ModuleNotFoundError: if it is not.
    """
    try:
        import prometheus_client  # noqa: F401 - it is used elsewhere
    except ImportError as error:
        raise ModuleNotFoundError(
            explain(
                "the endpoint needs prometheus-client, which is not installed",
                hint="run pip install 'dataflow-model[prometheus]'",
            ),
            name="prometheus_client",
        ) from error


def serve(
    result: Watched, port: int = 9464, *, host: str = "127.0.0.1", stalled_after: DurationLike = "5 minutes"
) -> MetricsServer:
    """Serve a run's report to Prometheus, at `http://host:port/metrics`, until the returned server is closed.

    Its health is beside it, for supervisors: `/health` answers with the status 200 while the run is alive and commits,
    and with 503 otherwise; `/health/watermark` also requires that the watermark moves. Both answer with JSON.

    The report is made at each scrape; between two scrapes the endpoint costs nothing. `docs/watching.md` lists all
    names and units.

    Args:
        result: the run.
        port: the port to listen on; 0 chooses a free one.
        host: the address to listen on; `"0.0.0.0"` accepts connections from other machines.
        stalled_after: how long a micro-batch may take until the run no longer counts as committing, and for how long
            the lowest watermark may stand still.

    Raises:
        InvalidType: for something that is no run, such as a pipeline.
        InvalidArgument: for a port outside 0 to 65535, or a `stalled_after` that is not positive.
        ModuleNotFoundError: if `prometheus-client` is not installed.
        OSError: if the port is in use.

    Example:
        >>> import dataflow_model as dm, urllib.request
        >>> with dm.Pipeline() as p:
        ...     _ = p | "words" >> dm.Create(["to", "be"]) | dm.io.Collect()
        >>> with dm.metrics.serve(p.result, port=0) as server:
        ...     text = urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics").read().decode()
        >>> [line for line in text.splitlines() if line.startswith('dataflow_elements_out_total{transform="words"}')]
        ['dataflow_elements_out_total{transform="words"} 2.0']
        >>> with dm.metrics.serve(p.result, port=0) as server:
        ...     urllib.request.urlopen(f"http://127.0.0.1:{server.port}/health").status
        200
    """
    if not callable(getattr(result, "report", None)):
        raise InvalidType(
            f"serve takes the result of a run, got {result!r}", hint="pass p.result, or what p.run() returned"
        )
    number: object = port
    if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < _PORTS:
        raise InvalidArgument(f"`port` must be from 0 to 65535, got {port!r}", hint="0 takes any free port")
    limit = positive_duration("stalled_after", stalled_after, "use stalled_after='5 minutes', for example")
    check_prometheus()
    from prometheus_client import CollectorRegistry, make_wsgi_app

    from dataflow_model.metrics.endpoint import start_server  # imports an HTTP server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(result))
    server, thread = start_server(port, host, make_wsgi_app(registry), HealthCheck(result, limit))
    return MetricsServer(server, thread)


class _Collector:
    """Yields the metric families of a report at each scrape; describes none, so registering it makes no report."""

    def __init__(self, result: Watched) -> None:
        self._result = result

    def describe(self) -> list[Any]:
        """Return nothing, since the metrics depend on the run."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the families of a fresh report."""
        report = self._result.report()
        families = _Families()
        families.gauge(
            "system_lag_seconds", "Age of the oldest work that is not committed yet", {}, _s(report.system_lag)
        )
        families.counter("commits", "Micro-batches that have been committed", {}, report.commits)
        for transform in report.transforms.values():
            _of_transform(families, transform)
        for stage in report.stages.values():
            labels = {"stage": str(stage.stage)}
            for how in ("fresh", "behind", "void"):
                count = getattr(stage, f"cache_{how}")
                families.counter(
                    "cache", "Uses of workers' copies of a shard, by their state", {**labels, "how": how}, count
                )
            families.counter("state_calls", "Calls to the state store", labels, stage.state_calls)
            families.counter("state_read_bytes", "Bytes read from the state store", labels, stage.state_bytes_read)
            families.counter(
                "state_written_bytes", "Bytes written to the state store", labels, stage.state_bytes_written
            )
        yield from families.all.values()


def _of_transform(families: _Families, transform: TransformReport) -> None:
    labels = {"transform": transform.label}
    families.counter("elements_in", "Elements that a transform has received", labels, transform.elements_in)
    families.counter("elements_out", "Elements that a transform has emitted", labels, transform.elements_out)
    families.spread("bundle_size", "Sizes of the bundles that a transform has received", labels, transform.bundle_sizes)
    for timing, count in transform.panes.items():
        families.counter("panes", "Panes that a transform has emitted, by timing", {**labels, "timing": timing}, count)
    for reason, count in transform.dropped.items():
        families.counter(
            "dropped", "Elements that a transform has dropped, by reason", {**labels, "reason": reason}, count
        )
    if _TOO_FAR_AHEAD in transform.counters:
        too_far = transform.counters[_TOO_FAR_AHEAD]
        families.counter(_TOO_FAR_AHEAD, "Elements too far ahead of the clock to move the watermark", labels, too_far)
    if _LINES_UNFINISHED in transform.counters:
        lines = transform.counters[_LINES_UNFINISHED]
        families.gauge(_LINES_UNFINISHED, "Files whose last line waits for its end", labels, lines)
    for name, count in transform.counters.items():
        if name not in _LEVELS and not name.startswith(_SPLIT_BY_LABEL):
            families.counter("counted", "Other counters of a transform", {**labels, "name": name}, count)
    if transform.watermark is not None:
        at = _since_epoch(transform.watermark)
        families.gauge("watermark_timestamp_seconds", "Output watermark of a transform, since the epoch", labels, at)
    if transform.watermark_lag is not None:
        families.gauge(
            "watermark_lag_seconds",
            "How far the output watermark is behind the clock",
            labels,
            _s(transform.watermark_lag),
        )
    if transform.state_entries is not None:
        families.gauge("state_entries", "Keys of a transform that have state", labels, transform.state_entries)
    if transform.state_bytes is not None:
        families.gauge("state_bytes", "Bytes of a transform's state, as stored", labels, transform.state_bytes)
    for name, origins in transform.levels.items():
        for origin, rows in origins.items():
            more = {"name": name, "origin": origin}
            families.gauge("source_level", "Numbers that a source reports, by origin", {**labels, **more}, rows)
    _of_user(families, transform, labels)


def _of_user(families: _Families, transform: TransformReport, labels: dict[str, str]) -> None:
    for name, count in transform.user.counters.items():
        families.counter("user_counter", "Counters of users' functions", {**labels, "name": name}, count)
    for name, level in transform.user.gauges.items():
        families.gauge("user_gauge", "Gauges of users' functions", {**labels, "name": name}, level)
    for name, spread in transform.user.distributions.items():
        families.spread("user_distribution", "Distributions of users' functions", {**labels, "name": name}, spread)


def _s(length: Duration) -> float:
    return int(length) / _MICROS


def _since_epoch(instant: EventTime) -> float:
    if MIN_TIMESTAMP < instant < MAX_TIMESTAMP:
        return int(instant) / _MICROS
    return math.copysign(math.inf, int(instant))


class _Families:
    """Metric families by name; each collects all samples of its metric."""

    def __init__(self) -> None:
        self.all: dict[str, Any] = {}

    def counter(self, name: str, documentation: str, labels: dict[str, str], value: float) -> None:
        """Add a sample of a counter, which Prometheus calls `name_total`."""
        from prometheus_client.core import CounterMetricFamily

        self._add(CounterMetricFamily, name, documentation, labels).add_metric(list(labels.values()), value)

    def gauge(self, name: str, documentation: str, labels: dict[str, str], value: float) -> None:
        """Add a sample of a gauge."""
        from prometheus_client.core import GaugeMetricFamily

        self._add(GaugeMetricFamily, name, documentation, labels).add_metric(list(labels.values()), value)

    def spread(self, name: str, documentation: str, labels: dict[str, str], value: DistributionValue) -> None:
        """Add count and sum as a summary, and minimum and maximum as gauges."""
        from prometheus_client.core import SummaryMetricFamily

        if not value.count:
            return
        family = self._add(SummaryMetricFamily, name, documentation, labels)
        family.add_metric(list(labels.values()), count_value=value.count, sum_value=value.sum)
        self.gauge(f"{name}_min", f"{documentation}: minimum", labels, value.min)
        self.gauge(f"{name}_max", f"{documentation}: maximum", labels, value.max)

    def _add(self, family: Any, name: str, documentation: str, labels: dict[str, str]) -> Any:
        if name not in self.all:
            self.all[name] = family(f"dataflow_{name}", documentation, labels=list(labels))
        return self.all[name]
