"""Monitoring a run: metrics of the user's own functions, a report of the run, and an endpoint that serves both.

`counter`, `distribution` and `gauge` are for functions that run in a pipeline; `result.report()` returns a `RunReport`;
`serve(result)` exposes it to Prometheus.

Begin with `handles`, then `collecting` and `tally`, which count, and `report` and `prometheus`, which show it.
"""

from __future__ import annotations

from dataflow_model.metrics.handles import Counter, Distribution, Gauge, counter, distribution, gauge
from dataflow_model.metrics.prometheus import MetricsServer, serve
from dataflow_model.metrics.report import (
    DistributionValue,
    RunReport,
    SlowKey,
    StageReport,
    TransformReport,
    UserMetrics,
    WatermarkJump,
)

__all__ = [
    "Counter",
    "Distribution",
    "DistributionValue",
    "Gauge",
    "MetricsServer",
    "RunReport",
    "SlowKey",
    "StageReport",
    "TransformReport",
    "UserMetrics",
    "WatermarkJump",
    "counter",
    "distribution",
    "gauge",
    "serve",
]
