"""The interfaces of runners and of the results of runs."""

from __future__ import annotations

import contextlib
import contextvars
import enum
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from dataflow_model.errors import InvalidType

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.time import DurationLike, EventTime, ProcessingTime
    from dataflow_model.values.tables import Table

_OBSERVED: Final = contextvars.ContextVar("observed", default=True)


class RunnerState(enum.Enum):
    """The state of a run."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    DRAINED = "drained"
    FAILED = "failed"


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """Start runs that are no concern of the user, such as samples: they are not logged and show no progress."""
    token = _OBSERVED.set(False)
    try:
        yield
    finally:
        _OBSERVED.reset(token)


def is_observed() -> bool:
    """Return whether a run that starts here is logged and shows its progress.

    Example:
        >>> with unobserved():
        ...     is_observed()
        False
        >>> is_observed()
        True
    """
    return _OBSERVED.get()


@runtime_checkable
class Clock(Protocol):
    """A processing clock; `testing.ManualClock` is one that a test advances."""

    def now(self) -> ProcessingTime:
        """Return the current time, which never goes backward."""
        ...


class PipelineResult(Protocol):
    """A run of a pipeline; `run()` returns it immediately."""

    @property
    def state(self) -> RunnerState:
        """The current state of the run."""
        ...

    def wait_until_finish(self, timeout: DurationLike | None = None) -> RunnerState:
        """Wait for the end of the run, and raise its error if it failed; return its state.

        Args:
            timeout: how long to wait at most, such as `"5 minutes"` or a number of seconds; by default until the end.

        Raises:
            InvalidArgument: if `timeout` is negative.
        """
        ...

    def stop(self) -> None:
        """Stop the run.

        A stream can be resumed from its checkpoint; a bounded run that is stopped before it publishes writes nothing.
        """
        ...

    def cancel(self) -> None:
        """Do what `stop` does, under the name that it has in Beam."""
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

    def collected(self, label: str) -> list[Record]:
        """Return the records of the `io.Collect` sink with this full label, in emission order.

        Before a stream has ended, these are the records of the micro-batches that are committed; a bounded run has none
        before its end. Call `wait_until_finish()` first for all of them.

        Raises:
            InvalidArgument: if no such sink has the label.
        """
        ...

    def table(self, label: str) -> Table:
        """Return the records of the `io.Collect` or `io.ToDataFrame` sink with this full label as columns.

        Raises:
            InvalidArgument: if no such sink has the label.
            SinkError: for a record whose type does not fit the others.
        """
        ...

    def dataframe(self, label: str) -> Any:
        """Return the records of the `io.ToDataFrame` sink with this full label as a Spark DataFrame.

        Raises:
            InvalidArgument: if no such sink has the label.
            UnsupportedOnRunner: in a run that is no batch job on Spark.
        """
        ...


class Runner(Protocol):
    """The interface of a runner, which runs plans."""

    def run(self, plan: Plan, *, until: str | None = None) -> PipelineResult:
        """Start a run of the plan and return its result immediately.

        Args:
            plan: a checked plan.
            until: `"drained"` ends unbounded inputs at their current position.

        Raises:
            PlanError: if the plan could never emit output.
            UnsupportedOnRunner: if this runner does not support something in the plan.
        """
        ...


@runtime_checkable
class RewritesPlans(Protocol):
    """What a runner has as well if it runs another plan than the one that it is given, such as one in rounds."""

    def rewritten(self, plan: Plan) -> Plan:
        """Return the plan that the runner runs for this plan, which is the plan itself if it needs no rewriting."""
        ...


def as_run(runner: object, plan: Plan) -> Plan:
    """Return the plan that a runner runs for a plan; see `RewritesPlans`."""
    return runner.rewritten(plan) if isinstance(runner, RewritesPlans) else plan


def wait_or_stop(result: PipelineResult) -> None:
    """Wait for the end of a run whose result nobody else has; Ctrl-C stops the run."""
    try:
        result.wait_until_finish()
    except KeyboardInterrupt:
        result.stop()
        raise


def check_runner(runner: object) -> None:
    """Raise `InvalidType` for something that is no runner, for example its class.

    Example:
        >>> check_runner("local")
        Traceback (most recent call last):
        ...
        dataflow_model.errors.InvalidType: `runner` must be a runner, got 'local'
        Hint: pass dm.LocalRunner(), for example
    """
    if isinstance(runner, type):
        raise InvalidType(f"`runner` must be an instance, got the class {runner!r}", hint=f"write {runner.__name__}(…)")
    if not callable(getattr(runner, "run", None)):
        raise InvalidType(f"`runner` must be a runner, got {runner!r}", hint="pass dm.LocalRunner(), for example")
