"""The outcome as a table on a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rich.table import Table

from dataflow_model.examples.zeitgeist.values import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dataflow_model.examples.zeitgeist.report import Detection, Outcome, Score
    from dataflow_model.examples.zeitgeist.scenario import History, Outage, Planted


def table(result: Score, outages: Sequence[Outage] = ()) -> Table:
    """Return a table with a row for each planted anomaly, and then a row for each false detection."""
    shown = Table("query", "kind", "planted", "× usual", "found", "seen", "by chance", "reported after", "cut off")
    for planted, detection in result.pairs:
        cut = [outage.centre for outage in outages if outage.start < planted.end and planted.start < outage.end]
        shown.add_row(
            planted.query,
            planted.kind,
            f"{planted.start}–{planted.end} s",
            f"{planted.factor:.2f}",
            *_cells(detection, planted),
            ", ".join(cut),
        )
    for false in result.false:
        shown.add_row(false.anomaly.query, false.anomaly.kind, "not planted", "", *_cells(false), style="red")
    return shown


def _cells(detection: Detection | None, planted: Planted | None = None) -> tuple[str, str, str, str]:
    if detection is None:
        return "[red]missed[/red]", "", "", ""
    delay = "" if planted is None or math.isinf(detection.reported) else f"{detection.reported - planted.start:.1f} s"
    anomaly = detection.anomaly
    return (
        f"{anomaly.since}–{anomaly.second} s",
        f"{anomaly.seen} for {anomaly.expected:.0f}",
        f"{1 - anomaly.confidence:.0e}",
        delay,
    )


def summary(history: History, outcome: Outcome, result: Score) -> str:
    """Return the numbers below the table.

    Example:
        >>> from dataflow_model.examples.zeitgeist import Outcome, Scenario, score
        >>> history = Scenario(days=3).make()
        >>> print(summary(history, Outcome((), 0, 0, (), (), {}), score(history.planted, ())).splitlines()[1])
        precision 0.00, recall 0.00: 0 of 8 found, 0 false spikes, 0 false dips
    """
    records = (
        f"{history.table.num_rows:,} records, of which {outcome.duplicates:,} were redelivered and dropped, "
        f"{outcome.late:,} late; {len(outcome.buckets):,} buckets"
    )
    quality = (
        f"precision {result.precision:.2f}, recall {result.recall:.2f}: {result.hits} of {len(result.pairs)} found, "
        f"{result.false_of(Kind.SPIKE)} false spikes, {result.false_of(Kind.DIP)} false dips"
    )
    return f"{records}\n{quality}"
