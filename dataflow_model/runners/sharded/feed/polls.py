"""When each unbounded source of a stream is polled: not more often than it wants, and again after an error that passes.

This is soft state of the process that plans micro-batches. A poll that fails is not waited for: until it is made again,
the source has nothing new, and other sources are read.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import attrs

from dataflow_model.plan.endpoints.retries import Attempts
from dataflow_model.time import duration

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataflow_model.plan.endpoints.column_sources import ColumnSource
    from dataflow_model.plan.endpoints.origins import Changes


@attrs.define
class Polls:
    """The polls of a stream's sources.

    Args:
        now: a clock in seconds.

    Attributes:
        complete: the labels of sources that have listed all that there is, for a run that ends with that.
    """

    now: Callable[[], float] = time.monotonic
    complete: set[str] = attrs.field(init=False, factory=set)
    _due: dict[str, float] = attrs.field(init=False, factory=dict)
    _attempts: dict[str, Attempts] = attrs.field(init=False, factory=dict)

    def is_due(self, label: str, *, at_once: bool = False) -> bool:
        """Return whether a source may be polled now.

        Args:
            label: its label.
            at_once: whether it need not wait for its interval; it does wait after a poll that has failed.
        """
        is_awaited = self.now() < self._due.get(label, 0.0)
        return not is_awaited or (at_once and label not in self._attempts)

    def hasten(self) -> None:
        """Let each source be polled at once, except those whose last poll has failed."""
        self._due = {label: due for label, due in self._due.items() if label in self._attempts}

    def poll(self, label: str, source: ColumnSource, make: Callable[[], Changes]) -> tuple[Changes, int] | None:
        """Return the result of a poll and the number of attempts that failed before it; `None` if it fails for now.

        Args:
            label: the label of the source.
            source: the source.
            make: polls it.

        Raises:
            SourceError: if it has failed for too long.
        """
        attempts = self._attempts.setdefault(label, Attempts(source, label, "poll", self.now))
        try:
            changes = make()
        except attempts.errors as error:
            self._due[label] = self.now() + attempts.failed(error)
            return None
        interval = source.poll_interval
        if changes.has_more or interval is None:
            self._due.pop(label, None)
        else:
            self._due[label] = self.now() + int(duration(interval)) / 1_000_000
        del self._attempts[label]
        return changes, attempts.count
