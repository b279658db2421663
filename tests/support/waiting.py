"""Waiting for a stream without sleeping for a fixed time."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable


PATIENCE = 300
"""Seconds after which a test that waits for a micro-batch gives up; it waits for what it is told, never for a time."""


def wait_for_batch(result: Any, number: int) -> None:
    """Wait until some micro-batches have been committed."""
    done = threading.Event()
    for _ in range(PATIENCE * 20):
        progress = result.query.lastProgress
        if progress is not None and progress.batchId >= number:
            return
        assert result.query.isActive, result.query.exception()
        done.wait(0.05)
    pytest.fail(f"no micro-batch {number} within {PATIENCE} seconds")


def wait_for(result: Any, condition: Callable[[], bool]) -> None:
    """Wait until a run has come so far; raise what it failed with."""
    deadline = time.monotonic() + 300
    while not condition():
        assert result.wait_until_finish(timeout=0.1) is dm.RunnerState.RUNNING
        assert time.monotonic() < deadline, result.metrics()
