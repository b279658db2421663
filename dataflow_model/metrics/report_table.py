"""A report as a table: what the live table of a run shows, and a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dataflow_model.display import Board, Count
from dataflow_model.readable import readable_duration, readable_instant

if TYPE_CHECKING:
    from collections.abc import Collection

    from dataflow_model.metrics.report import RunReport, TransformReport

_HEADINGS: Final = ("", "watermark", "lag", "in", "out", "early", "on time", "late", "dropped")


def board_of(report: RunReport, labels: Collection[str] | None = None) -> Board:
    """Return a line for each transform: watermark and lag, elements, panes by timing, what was dropped.

    Args:
        report: the report.
        labels: the transforms to show; all by default.

    Example:
        >>> import dataflow_model as dm
        >>> with dm.Pipeline() as p:
        ...     _ = p | dm.Create([("UA", 4), ("UA", 6)]) | dm.Sum.per_key() | dm.io.Collect()
        >>> board = board_of(p.result.report(), {"Create", "Sum.PerKey"})
        >>> [row[:5] for row in board.rows]
        [['Create', '+inf', '0 s', None, 2], ['Sum.PerKey', '+inf', '0 s', 2, 1]]
    """
    rows = [row_of(transform) for label, transform in report.transforms.items() if labels is None or label in labels]
    commits = f"{report.commits:,} commit{'' if report.commits == 1 else 's'}"
    age = int(report.system_lag)
    pending = f", the oldest work pending is {readable_duration(age)} old" if age else ""
    return Board(_HEADINGS, rows, f"{commits}{pending}")


def row_of(transform: TransformReport) -> list[object]:
    """Return the line of one transform."""
    watermark, lag = transform.watermark, transform.watermark_lag
    panes = (transform.panes.get(timing, 0) for timing in ("early", "on_time", "late"))
    counts = (transform.elements_in, transform.elements_out, *panes, sum(transform.dropped.values()))
    return [
        transform.label,
        None if watermark is None else readable_instant(int(watermark), whole_seconds=True),
        None if lag is None else readable_duration(int(lag)),
        *(Count(count) if count else None for count in counts),
    ]
