"""SparkRunner: the engine as a Spark job and as a Structured Streaming query.

Begin with `runner`; then `batch` and `job`, a bounded job, and `streaming` and `stages`, a query. `deployment` is what
a session and its executors need.
"""

from __future__ import annotations

from dataflow_model.runners.spark.deployment.session import local_session
from dataflow_model.runners.spark.runner import SparkRunner

__all__ = ["SparkRunner", "local_session"]
