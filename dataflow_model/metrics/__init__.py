"""Watching a run: what users count in their own functions, what a run reports of itself, and an endpoint for both.

`counter`, `distribution` and `gauge` are for functions that run in a pipeline; `result.report()` gives a `RunReport`;
`serve(result)` shows it to Prometheus.
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
    "counter",
    "distribution",
    "gauge",
    "serve",
]
