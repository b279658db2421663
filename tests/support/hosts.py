"""The runners that a test of several of them takes: those in process, without Java, and those on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm
from tests.support.pipelines import streaming

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["on_hosts", "runner_on"]

_SPARK = ("batch", "streaming")


def on_hosts(*hosts: str, slow: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    """Run a test once per `host`, see `runner_on`; those in `slow` only in `make test-all`."""
    marks = {host: [pytest.mark.spark] if host in _SPARK else [] for host in (*hosts, *slow)}
    params = [pytest.param(host, marks=[*marks[host], *([pytest.mark.slow] if host in slow else [])]) for host in marks]
    return pytest.mark.parametrize("host", params)


def runner_on(host: str, request: pytest.FixtureRequest, checkpoint: Path, **options: Any) -> Any:
    """Return the runner of a host: bounded here (`local`) or in several processes (`workers`), a stream in this
    `process`, or `batch` or `streaming` on Spark."""
    match host:
        case "local":
            return dm.LocalRunner(**options)
        case "workers":
            return dm.LocalRunner(workers=2, **options)
        case "process":
            return dm.LocalRunner(checkpoint=checkpoint, **options)
        case "batch":
            return dm.SparkRunner(request.getfixturevalue("spark"))
        case _:
            return streaming(request.getfixturevalue("spark"), checkpoint, **options)
