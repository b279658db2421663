"""Progress on long work: one live line on a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Protocol

from dataflow_model.time import MAX_TIMESTAMP, MIN_TIMESTAMP, format_duration, format_instant

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["Progress", "live_progress"]


class Progress(Protocol):
    """Takes what is known of a run from time to time."""

    def update(self, metrics: Mapping[str, Mapping[str, int]], watermarks: Mapping[str, int]) -> None:
        """Show elements, watermark and its lag, panes."""
        ...


class _Silent:
    def update(self, metrics: Mapping[str, Mapping[str, int]], watermarks: Mapping[str, int]) -> None:
        """Show nothing."""


class _Line:
    """A `rich` status line."""

    def __init__(self) -> None:
        from rich.console import Console

        self.status = Console(stderr=True).status("starting")

    def update(self, metrics: Mapping[str, Mapping[str, int]], watermarks: Mapping[str, int]) -> None:
        """Show the counts in one line."""
        self.status.update(progress_line(metrics, watermarks, time.time_ns() // 1_000))


def progress_line(metrics: Mapping[str, Mapping[str, int]], watermarks: Mapping[str, int], now: int) -> str:
    """Return the line: elements read, panes emitted, the lowest watermark and how far it is behind.

    Example:
        >>> progress_line({"Read": {"elements_out": 1200}, "Sum": {"panes_early": 3}}, {"Read": 0}, 60_000_000)
        '1,200 elements, 3 panes, watermark 1970-01-01T00:00:00Z (60s behind)'
    """
    elements = sum(counters.get("elements_out", 0) for counters in metrics.values())
    panes = sum(count for counters in metrics.values() for name, count in counters.items() if name.startswith("panes_"))
    low = min(watermarks.values(), default=int(MIN_TIMESTAMP))
    lag = f" ({format_duration(max(0, now - low))} behind)" if MIN_TIMESTAMP < low < MAX_TIMESTAMP else ""
    return f"{elements:,} elements, {panes:,} panes, watermark {format_instant(low)}{lag}"


@contextlib.contextmanager
def live_progress() -> Iterator[Progress]:
    """Yield where to report to: a line on a terminal, silence elsewhere, in tests and under CI."""
    quiet = not sys.stderr.isatty() or "PYTEST_CURRENT_TEST" in os.environ or os.environ.get("CI")
    if quiet:
        yield _Silent()
        return
    line = _Line()
    with line.status:
        yield line
