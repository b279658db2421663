"""Requests of sources that fail for a while: how often they are made again, and for how long."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from dataflow_model.errors import LOG, SourceError
from dataflow_model.plan.endpoints.batches import checked_batches
from dataflow_model.plan.functions.pauses import pause_after
from dataflow_model.time import duration, duration_text

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator

    import pyarrow as pa

    from dataflow_model.plan.endpoints.column_sources import ColumnSource

RETRIES: Final = "retries"
"""The counter of requests that were made again."""
_T = TypeVar("_T")


@attrs.define
class Attempts:
    """The attempts at one request since it last succeeded.

    Args:
        source: the source that makes it.
        label: its label.
        request: the method, for messages.
        now: a clock in seconds.
        count: how many attempts have failed.
    """

    source: ColumnSource
    label: str
    request: str
    now: Callable[[], float] = time.monotonic
    count: int = 0
    _since: float = 0.0

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors after which the request is made again."""
        return self.source.transient_errors

    def failed(self, error: Exception) -> float:
        """Note an attempt that failed; return the seconds until the next one.

        Raises:
            SourceError: if the request has failed for too long.
        """
        now = self.now()
        if not self.count:
            self._since = now
        self.count += 1
        limit = duration(self.source.retry_for)
        seconds = now - self._since
        reason = f"{type(error).__name__}: {error}"
        if seconds * 1_000_000 >= int(limit):
            tries = "once" if self.count == 1 else f"{self.count} times in {seconds:.1f} s"
            raise SourceError(
                f"{self.label!r} waited for {self.request} of {type(self.source).__name__}, which failed {tries}, the "
                f"last time with {reason}",
                hint=f"start the run again once the service answers, or raise `retry_for`, which is "
                f"{duration_text(limit)}",
            ) from error
        pause = min(int(limit) / 1_000_000 - seconds, pause_after(self.count))
        LOG.warning("%r: %s failed and is retried in %.1f s: %s", self.label, self.request, pause, reason)
        return pause


def retried(
    source: ColumnSource, label: str, request: str, make: Callable[[], _T], counts: Counter[str] | None = None
) -> _T:
    """Return what a request returns, which is made again after transient errors.

    Args:
        source: the source that makes it.
        label: its label.
        request: the method, for messages.
        make: makes the request.
        counts: where failed attempts are counted.

    Raises:
        SourceError: if the request has failed for too long.
    """
    attempts = Attempts(source, label, request)
    while True:
        try:
            return make()
        except attempts.errors as error:
            _wait(attempts, error, counts)


def read_retried(
    source: ColumnSource, label: str, origin: str, start: int, stop: int | None, counts: Counter[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the batches of `source.read`; after a transient error, it is asked for the rest.

    Args:
        source: the source.
        label: its label.
        origin: the name of the origin.
        start: the first row.
        stop: the row after the last; `None` to read to the end.
        counts: where failed attempts are counted.

    Raises:
        SourceError: if the rest has failed for too long.
    """
    attempts = Attempts(source, label, f"read({origin!r}, …)")
    while True:
        try:
            for batch in checked_batches(source, label, source.read(origin, start, stop)):
                if batch.num_rows:
                    start = int(source.positions_in(batch, start)[-1]) + 1
                    attempts.count = 0
                yield batch
        except attempts.errors as error:
            _wait(attempts, error, counts)
        else:
            return


def _wait(attempts: Attempts, error: Exception, counts: Counter[str] | None) -> None:
    pause = attempts.failed(error)
    if counts is not None:
        counts[RETRIES] += 1
    time.sleep(pause)
