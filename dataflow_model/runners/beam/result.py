"""The result of a run, as Beam's programs see it."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiMetrics
from apache_beam.runners.runner import PipelineResult, PipelineState

from dataflow_model.errors import UnsupportedOnRunner
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.runners.beam import running

if TYPE_CHECKING:
    from dataflow_model.plan.logical.runner import PipelineResult as OurResult

_STATES: Final = {
    RunnerState.RUNNING: PipelineState.RUNNING,
    RunnerState.DONE: PipelineState.DONE,
    RunnerState.DRAINED: PipelineState.DRAINED,
    RunnerState.STOPPED: PipelineState.CANCELLED,
    RunnerState.FAILED: PipelineState.FAILED,
}


class BeamResult(PipelineResult):  # type: ignore[misc] # Beam ships no types that mypy takes
    """A run of a pipeline of Beam's.

    Args:
        ours: the run.
        run: its id.
        is_here: whether its functions run in this process, where their metrics are.

    Attributes:
        ours: the run as this package sees it, with `report()`, `watermarks()`, `drain()` and so on.
    """

    def __init__(self, ours: OurResult, run: str, *, is_here: bool) -> None:
        super().__init__(PipelineState.RUNNING)
        self.ours = ours
        self._run, self._is_here = run, is_here
        weakref.finalize(self, running.forget, run)

    @property
    def state(self) -> str:
        """The state of the run, one of Beam's `PipelineState`."""
        return str(_STATES[self.ours.state])

    def wait_until_finish(self, duration: int | None = None) -> str:
        """Wait for the end of the run, and raise its error if it failed; return its state.

        Args:
            duration: how long to wait at most, in milliseconds.
        """
        self.ours.wait_until_finish(None if duration is None else duration / 1000)
        return self.state

    def cancel(self) -> str:
        """Stop the run; with a checkpoint it can be resumed."""
        self.ours.stop()
        return self.state

    def metrics(self) -> Any:
        """Return the metrics of the user's functions so far.

        Raises:
            UnsupportedOnRunner: if the functions run in other processes.
        """
        return FnApiMetrics(self._by_stage(), user_metrics_only=True)

    def monitoring_metrics(self) -> Any:
        """Return all metrics so far, also those that Beam keeps itself."""
        return FnApiMetrics(self._by_stage(), user_metrics_only=False)

    def monitoring_infos(self) -> list[Any]:
        """Return all metrics so far in Beam's form."""
        return [info for infos in self._by_stage().values() for info in infos]

    def _by_stage(self) -> dict[str, list[Any]]:
        if not self._is_here:
            raise UnsupportedOnRunner(
                f"the functions of run {self._run!r} run in other processes, whose metrics are not collected",
                hint="run the pipeline in one process; result.ours.report() counts elements anywhere",
            )
        return {label: operations.monitoring_infos() for label, operations in running.stages_of(self._run)}
