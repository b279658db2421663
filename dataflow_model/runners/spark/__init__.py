"""SparkRunner: the engine as a Spark job and as a Structured Streaming query."""

from __future__ import annotations

from dataflow_model.runners.spark.runner import SparkRunner
from dataflow_model.runners.spark.session import local_session

__all__ = ["SparkRunner", "local_session"]
