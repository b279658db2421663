"""The benchmark of Kafka runs on a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from benchmarks import kafka

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.connectors
@pytest.mark.slow
@pytest.mark.usefixtures("kafka_jars", "java_home")
def test_the_benchmark_of_kafka_measures_reading_and_latency(tmp_path: Path) -> None:
    results = tmp_path / "results.json"
    arguments = ["--messages", "5000", "--repeats", "1", "--rate", "200", "--seconds", "2", "--output", str(results)]
    assert kafka.main(arguments) == 0
    found = json.loads(results.read_text())
    assert found["kafka_read"]["messages"] == found["kafka_read_json"]["messages"] == 5_000
    assert found["kafka_latency"]["complete"]
    assert 0 < found["kafka_latency"]["p50_ms"] <= found["kafka_latency"]["p95_ms"]
