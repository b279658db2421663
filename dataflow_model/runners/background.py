"""A run that goes on in the background: how it stands, and how its end reaches whoever waits for it."""

from __future__ import annotations

import threading

from dataflow_model.plan.runner import RunnerState

__all__ = ["BackgroundRun"]


class BackgroundRun:
    """What the results of all runs have in common; see `PipelineResult`.

    A subclass sets `_state` to what the run has ended as, or calls `_fail`, and then sets `_over`.
    """

    def __init__(self) -> None:
        self._state = RunnerState.RUNNING
        self._error: BaseException | None = None
        self._over = threading.Event()

    @property
    def state(self) -> RunnerState:
        """How the run stands now."""
        return self._state

    def wait_until_finish(self, timeout: float | None = None) -> RunnerState:
        """Wait for the end, at most `timeout` seconds; raise what the run failed with."""
        self._over.wait(timeout)
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        return self._state

    def _fail(self, error: BaseException) -> None:
        """Note that the run has failed; `wait_until_finish` raises the error in the caller's thread."""
        self._error, self._state = error, RunnerState.FAILED
