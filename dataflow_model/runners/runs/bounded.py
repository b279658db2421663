"""The base class of the results of runs without a checkpoint, which commit once, at their end."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, Final

from dataflow_model.errors import LOG
from dataflow_model.micros import wall_clock
from dataflow_model.plan.logical.runner import RunnerState, is_observed
from dataflow_model.plan.watermarks.estimators import max_ahead_of
from dataflow_model.runners.reporting import Measured, all_counters, make_report
from dataflow_model.runners.runs.background import BackgroundRun
from dataflow_model.time import EventTime

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.logical.stages import StagedPlan

_NO_EFFECT: Final = (
    "`max_ahead` of %r has no effect in this run: its input has an end and no replay clock, so all elements arrive at "
    "once and none is late. Pass processing_time= with the column of the clock, or run a stream, with a checkpoint"
)


class BoundedRun(BackgroundRun):
    """The base class of the results of bounded runs, which counts and reports; a subclass executes the run."""

    def __init__(self, staged: StagedPlan, runner: str) -> None:
        super().__init__(staged, runner)
        self._began = wall_clock()
        if is_observed() and not any(read.source.has_own_clock for read in staged.sources):
            for read in staged.sources:
                if max_ahead_of(read.source.watermark) is not None:
                    LOG.warning(_NO_EFFECT, read.label)

    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Return counters by transform label."""
        return all_counters(self._measured(commits=0, pending_since=None))

    def report(self) -> RunReport:
        """Return what the run has counted so far; until it commits, at its end, all of it is pending."""
        pending_since = self._began if self._state is RunnerState.RUNNING else None
        commits = int(self._state is RunnerState.DONE)
        return make_report(self._staged, self._measured(commits=commits, pending_since=pending_since))

    def watermarks(self) -> Mapping[str, EventTime]:
        """Return the output watermark of each source and grouping by label."""
        return {label: EventTime(low) for label, low in self._low_watermarks().items()}

    @abc.abstractmethod
    def _low_watermarks(self) -> Mapping[str, int]:
        """Return the output watermark of each source and grouping."""

    @abc.abstractmethod
    def _measured(self, *, commits: int, pending_since: int | None) -> Measured:
        """Return the current measurements of the run."""
