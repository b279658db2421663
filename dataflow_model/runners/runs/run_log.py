"""The log of a run: its start, what it drops, what it waits for, what is ahead of its clock, and its end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from dataflow_model.errors import LOG
from dataflow_model.plan.logical.nodes import Read, Write
from dataflow_model.plan.logical.runner import RunnerState, is_observed
from dataflow_model.plan.watermarks.estimators import TOO_FAR_AHEAD, max_ahead_of
from dataflow_model.runners.runs.silent_sources import SilentSources
from dataflow_model.time import duration_text, format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from dataflow_model.metrics.report import RunReport
    from dataflow_model.plan.logical.graph import Plan
    from dataflow_model.plan.logical.nodes import Node

_EVERY_SECONDS: Final = 10.0
"""The seconds between two looks at what is dropped and what the run waits for."""
_WORDS: Final = {
    "dropped_because_late": "late",
    "dropped_because_closed": "after the trigger had finished",
    "dropped_retractions": "as retractions",
    "rows_lost": "removed or replaced before they were read",
}
"""The words for the counters of dropped elements, to follow a number; any other counter begins with `dropped_`."""
_UNWRITTEN: Final = "dead_letters"
_DEAD_LETTERS: Final = "%s has written dead letters at %r, for elements that do not fit its columns or format: %s"
_LINE_BREAK: Final = "\n"
_WAY_OUT: Final = (
    "Leave that source out until it has elements, send it one, or emit early panes with dm.AfterWatermark(early=…)"
)
_JUMPED: Final = (
    "%s: the watermark of %r is more than a day ahead of the clock: an element with event time %s arrived at %s. "
    "Elements with earlier event times are late until the clock has caught up. To ignore such event times, pass "
    "max_ahead='1 day' to the watermark estimator; 'Event times in the far future' in docs/watermarks.md shows how a "
    "stream recovers"
)
_TOO_FAR: Final = (
    "%s has read elements at %r that are more than max_ahead=%r ahead of the clock: %s so far. They do not move the "
    "watermark"
)


class RunLog:
    """Writes to the logger `dataflow_model` about one run.

    Args:
        plan: its plan.
        runner: what runs it.
        report: returns the counts of the run. They may include those of earlier starts, which have been logged.
        ahead: the labels of the transforms that have run before the run itself, for static side inputs.
    """

    def __init__(self, plan: Plan, runner: str, report: Callable[[], RunReport], ahead: Collection[str] = ()) -> None:
        self._plan = plan
        self._report = report
        self._is_logged = is_observed()
        self._began = time.monotonic()
        self._next = self._began + _EVERY_SECONDS
        ends = [[node.label for node in plan.nodes if isinstance(node, kind)] for kind in (Read, Write)]
        sources, sinks = (", ".join(map(repr, labels)) or "nowhere" for labels in ends)
        self._run = f"{runner}: the run from {sources} to {sinks}"
        self._silent = SilentSources(plan, ahead)
        before = report()
        self._logged = {label: counts for label, counts in self._losses(before).items() if label not in ahead}
        self._ahead = {message[:2] for message in self._far_ahead(before) if message[1] not in ahead}
        if self._is_logged:
            LOG.info("%s starts, with %d transforms", self._run, len(plan.nodes))

    @property
    def seconds(self) -> float:
        """How long the run has taken so far."""
        return time.monotonic() - self._began

    def update(self) -> None:
        """Log what has been dropped and which sources keep windows open, unless the last look is too recent."""
        now = time.monotonic()
        if self._is_logged and now >= self._next:
            self._next = now + _EVERY_SECONDS
            report = self._report()
            self._log_far_ahead(report)
            self._log_losses(report)
            for message in self._silent.look(report):
                LOG.warning("%s has %s. %s", self._run, message, _WAY_OUT)

    def retried(self, tasks: int) -> None:
        """Log how many tasks have failed and were run again."""
        if self._is_logged and tasks:
            LOG.warning("%s: %d failed tasks were run again", self._run, tasks)

    def end(self, state: RunnerState, error: BaseException | None) -> None:
        """Log how the run has ended, and what it has dropped."""
        if not self._is_logged:
            return
        report = self._report()
        self._log_far_ahead(report)
        if error is None:
            self._log_losses(report)
            outcome = self._counts(report)
        else:
            outcome = f"{type(error).__name__}: {str(error).partition(_LINE_BREAK)[0]}"
        verb = "has" if state is RunnerState.FAILED else "is"
        LOG.info("%s %s %s after %.1f s: %s", self._run, verb, state.value, self.seconds, outcome)

    def _counts(self, report: RunReport) -> str:
        read = sum(report.transforms[node.label].elements_out for node in self._plan.nodes if isinstance(node, Read))
        written = sum(report.transforms[node.label].elements_in for node in self._plan.nodes if isinstance(node, Write))
        dropped = sum(sum(counts.values()) for counts in self._losses(report).values())
        return f"{read:,} elements read, {written:,} written, {dropped:,} dropped"

    def _log_far_ahead(self, report: RunReport) -> None:
        for text, label, *words in self._far_ahead(report):
            if (text, label) not in self._ahead:
                self._ahead.add((text, label))
                LOG.warning(text, self._run, label, *words)

    def _far_ahead(self, report: RunReport) -> Iterator[tuple[str, ...]]:
        """Yield what there is to say about event times far ahead of the clock: a text, the source and other words."""
        for node in self._plan.nodes:
            transform = report.transforms[node.label]
            jump, count = transform.watermark_jump, transform.counters.get(TOO_FAR_AHEAD, 0)
            if jump is not None:
                yield _JUMPED, node.label, *(format_instant(int(at)) for at in (jump.event_time, jump.clock))
            limit = max_ahead_of(node.source.watermark) if isinstance(node, Read) else None
            if count and limit is not None:
                yield _TOO_FAR, node.label, duration_text(limit), f"{count:,}"

    def _log_losses(self, report: RunReport) -> None:
        losses = self._losses(report)
        for label, counts in losses.items():
            known = self._logged.get(label, {})
            new = {name: count - known.get(name, 0) for name, count in counts.items() if count > known.get(name, 0)}
            if new:
                words = ", ".join(f"{count:,} {_words(name)}" for name, count in new.items() if name != _UNWRITTEN)
                if words:
                    LOG.warning("%s has dropped at %r: %s", self._run, label, words)
                if _UNWRITTEN in new:
                    LOG.warning(_DEAD_LETTERS, self._run, label, new[_UNWRITTEN])
        self._logged = losses

    def _losses(self, report: RunReport) -> dict[str, dict[str, int]]:
        """Return the number of dropped elements by transform and reason."""
        losses = {}
        for node in self._plan.nodes:
            counters = report.transforms[node.label].counters
            counts = {name: count for name, count in counters.items() if count and _is_loss(node, name)}
            if counts:
                losses[node.label] = counts
        return losses


def _is_loss(node: Node, counter: str) -> bool:
    """Return whether a counter counts a loss; dead letters are one in a sink, but elsewhere they are an output."""
    return counter in _WORDS or counter.startswith("dropped_") or (isinstance(node, Write) and counter == _UNWRITTEN)


def _words(counter: str) -> str:
    """Return the words for a counter, to follow its number.

    Example:
        >>> _words("dropped_because_late"), _words("dropped_by_hand")
        ('late', 'dropped_by_hand')
    """
    return _WORDS.get(counter, counter)
