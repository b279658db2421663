"""What a runner is, and what running gives."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.graph import Plan
    from dataflow_model.time import EventTime, ProcessingTime

__all__ = ["Clock", "PipelineResult", "Runner", "RunnerState"]


class RunnerState(enum.Enum):
    """How a run stands."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    DRAINED = "drained"
    FAILED = "failed"


@runtime_checkable
class Clock(Protocol):
    """A processing clock; `testing.ManualClock` is one that a test moves."""

    def now(self) -> ProcessingTime:
        """Return the time; it never goes back."""
        ...


class PipelineResult(Protocol):
    """A run of a pipeline; `run()` returns it at once."""

    @property
    def state(self) -> RunnerState:
        """How the run stands now."""
        ...

    def wait_until_finish(self, timeout: float | None = None) -> RunnerState:
        """Wait for the end, at most `timeout` seconds; raise what the run failed with."""
        ...

    def stop(self) -> None:
        """Stop after the bundle in hand; a run with a checkpoint can be resumed."""
        ...

    def drain(self) -> None:
        """Stop reading, advance the watermark to +∞, emit what is pending, and end for good."""
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
        """Return what the run tells of itself now: by transform, by stage, and what users' functions have counted."""
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


class Runner(Protocol):
    """Makes a plan run."""

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
