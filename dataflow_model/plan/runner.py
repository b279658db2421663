"""The interface of a runner, and of the result of a run."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.graph import Plan
    from dataflow_model.time import EventTime, ProcessingTime
    from dataflow_model.values.tables import Table

__all__ = ["Clock", "PipelineResult", "Runner", "RunnerState"]


class RunnerState(enum.Enum):
    """The state of a run."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    DRAINED = "drained"
    FAILED = "failed"


@runtime_checkable
class Clock(Protocol):
    """A processing clock; `testing.ManualClock` is one that a test moves."""

    def now(self) -> ProcessingTime:
        """Return the current time, which never goes back."""
        ...


class PipelineResult(Protocol):
    """A run of a pipeline; `run()` returns it at once."""

    @property
    def state(self) -> RunnerState:
        """The current state of the run."""
        ...

    def wait_until_finish(self, timeout: float | None = None) -> RunnerState:
        """Wait for the end of the run, at most `timeout` seconds, and raise the error if it failed."""
        ...

    def stop(self) -> None:
        """Stop after the current bundle; a run with a checkpoint can be resumed."""
        ...

    def drain(self) -> None:
        """Stop reading, advance the watermark to +∞, emit what is pending, and end the run for good."""
        ...

    def signal(self, name: str) -> None:
        """Fire `AfterSignal(name)` in every open window that waits for it, once, at the start of the next tick.

        Raises:
            InvalidArgument: for a name that no trigger waits for.
        """
        ...

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return counters by transform label: elements in and out, panes by timing, dropped by reason."""
        ...

    def report(self) -> RunReport:
        """Return a report of the run so far: by transform, by stage, and the metrics of user functions."""
        ...

    def watermarks(self) -> Mapping[str, EventTime]:
        """Return the output watermark of each source and grouping by label."""
        ...

    def collected(self, label: str) -> list[Any]:
        """Return what the `io.Collect` sink with this full label has received, as `Record`s in emission order.

        Raises:
            InvalidArgument: for a label that no such sink has.
        """
        ...

    def table(self, label: str) -> Table:
        """Return what the `io.Collect` or `io.ToDataFrame` sink with this label has kept, as columns.

        Raises:
            InvalidArgument: for a label that no such sink has.
            SinkError: for a record that does not fit the others.
        """
        ...


class Runner(Protocol):
    """Runs a plan."""

    def run(self, plan: Plan, *, until: str | None = None) -> PipelineResult:
        """Start the plan and return at once.

        Args:
            plan: a checked plan.
            until: `"drained"` ends an unbounded input where it stands now.

        Raises:
            PlanError: when the plan could never give output.
            UnsupportedOnRunner: when this runner lacks a lowering for a node.
        """
        ...
