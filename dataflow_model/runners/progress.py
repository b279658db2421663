"""Progress on long work: a live table on a terminal, nothing elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING, Final, Protocol

from dataflow_model.plan.nodes import Read, Write
from dataflow_model.time import format_duration, format_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.table import Table

    from dataflow_model.metrics.report import RunReport, TransformReport
    from dataflow_model.plan.stages import StagedPlan

__all__ = ["Progress", "live_progress", "progress_table", "watched"]

_EVERY_SECONDS: Final = 0.25
_HEADINGS: Final = ("watermark", "lag", "in", "out", "early", "on time", "late", "dropped")


class Progress(Protocol):
    """Is told from time to time that there is something new."""

    def update(self, report: Callable[[], RunReport]) -> None:
        """Show a report; where nothing is shown, none is made."""
        ...


class _Silent:
    def update(self, report: Callable[[], RunReport]) -> None:
        """Show nothing."""


class _Live:
    """A `rich` table that is drawn anew in its place, a few times a second at most."""

    def __init__(self, labels: frozenset[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        # What the program prints stays where it goes: on the standard output.
        self.live = Live(
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._labels = labels
        self._next = 0.0

    def update(self, report: Callable[[], RunReport]) -> None:
        """Draw the table of a fresh report, unless it has just been drawn."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _EVERY_SECONDS
            self.live.update(progress_table(report(), self._labels), refresh=True)


def watched(staged: StagedPlan) -> frozenset[str]:
    """Return the labels that the table shows: sources, keyed transforms, sinks."""
    ends = (node.label for node in staged.plan.nodes if isinstance(node, Read | Write))
    return frozenset((*ends, *(node.label for node in staged.keyed)))


def progress_table(report: RunReport, labels: frozenset[str]) -> Table:
    """Return a line for each of some transforms: watermark and lag, elements, panes by timing, what was dropped.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("UA", 4), ("UA", 6)]) | dm.Sum.per_key() | dm.io.Collect()
        >>> table = progress_table(p.result.report(), frozenset({"Create", "Sum.PerKey"}))
        >>> [list(column.cells) for column in table.columns][:5]
        [['Create', 'Sum.PerKey'], ['+inf', '+inf'], ['0s', '0s'], ['', '2'], ['2', '1']]
    """
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    table.add_column("", no_wrap=True, overflow="ellipsis")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right", no_wrap=True)
    for label, transform in report.transforms.items():
        if label in labels:
            table.add_row(label, *_cells(transform))
    lag = format_duration(int(report.system_lag))
    table.caption = f"{report.commits:,} commits, the oldest work pending is {lag} old"
    return table


def _cells(transform: TransformReport) -> Iterator[str]:
    watermark, lag = transform.watermark, transform.watermark_lag
    yield "" if watermark is None else format_instant(int(watermark))
    yield "" if lag is None else format_duration(int(lag))
    dropped = sum(transform.dropped.values())
    panes = (transform.panes.get(timing, 0) for timing in ("early", "on_time", "late"))
    for count in (transform.elements_in, transform.elements_out, *panes, dropped):
        yield f"{count:,}" if count else ""


@contextlib.contextmanager
def live_progress(staged: StagedPlan) -> Iterator[Progress]:
    """Yield where to report to: a table on a terminal, silence elsewhere, in tests and under CI."""
    quiet = not sys.stderr.isatty() or "PYTEST_CURRENT_TEST" in os.environ or os.environ.get("CI")
    if quiet:
        yield _Silent()
        return
    table = _Live(watched(staged))
    with table.live:
        yield table
