"""The result of a run, as Beam's programs see it."""

# Beam may not be installed, and its own types reject what it takes.
# pyright: reportMissingImports=false, reportPrivateImportUsage=false, reportIncompatibleMethodOverride=false

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Final

from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiMetrics
from apache_beam.runners.runner import PipelineResult, PipelineState

from dataflow_model.errors import UnsupportedOnRunner, UserCodeError
from dataflow_model.plan.logical.runner import RunnerState
from dataflow_model.runners.beam.functions import running
from dataflow_model.runners.beam.functions.counted import RunMetrics

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

        An error of a function that ran in this process is of its own class, as on Beam's runners in process, with the
        transform, the element and the way out as a note.

        Args:
            duration: how long to wait at most, in milliseconds.

        Raises:
            DataflowError: for any other error, and of a function that ran in another process.
        """
        try:
            self.ours.wait_until_finish(None if duration is None else duration / 1000)
        except UserCodeError as error:
            own: BaseException | None = error
            while isinstance(own, UserCodeError):
                own = own.__cause__
            if not self._is_here or own is None:
                raise
            note = f"UserCodeError: {error}"
            if note not in getattr(own, "__notes__", ()):  # it may have been waited for before
                own.add_note(note)
            raise own from None
        return self.state

    def cancel(self) -> str:
        """Stop the run; with a checkpoint it can be resumed."""
        self.ours.stop()
        return self.state

    def metrics(self) -> Any:
        """Return the metrics of the functions so far, in every process; those of a stream, as of its last commit.

        Bounded tries are known only where the functions run in this process.
        """
        tries = FnApiMetrics(self._by_stage(), user_metrics_only=True).query()[RunMetrics.BOUNDED_TRIES]
        return RunMetrics(self.ours.report(), {trie.key: trie.committed for trie in tries})

    def monitoring_metrics(self) -> Any:
        """Return all metrics of functions in this process so far, also those that Beam keeps itself.

        Raises:
            UnsupportedOnRunner: if the functions run in other processes.
        """
        return FnApiMetrics(self._by_stage_here(), user_metrics_only=False)

    def monitoring_infos(self) -> list[Any]:
        """Return all metrics of functions in this process so far in Beam's form.

        Raises:
            UnsupportedOnRunner: if the functions run in other processes.
        """
        return [info for infos in self._by_stage_here().values() for info in infos]

    def _by_stage_here(self) -> dict[str, list[Any]]:
        if not self._is_here:
            raise UnsupportedOnRunner(
                f"the functions of run {self._run!r} run in other processes, where what Beam counts itself stays",
                hint="use result.metrics() for what functions count; result.ours.report() counts elements anywhere",
            )
        return self._by_stage()

    def _by_stage(self) -> dict[str, list[Any]]:
        return {label: operations.monitoring_infos() for label, operations in running.stages_of(self._run)}
