"""What tasks have counted, on its way to the commit: a row beside their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.metrics.collecting import counted_rows
from dataflow_model.metrics.tally import Tally
from dataflow_model.runners.spark.rows import Kind, Row, dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.runners.spark.program import Program

__all__ = ["counting", "tally_row"]


def counting(program: Program, home: int, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of a task, then what was counted while they were made."""
    tally = Tally()
    yield from counted_rows(tally, iter(rows))
    yield from tally_row(program, home, tally)


def tally_row(program: Program, home: int, tally: Tally) -> Iterator[Row]:
    """Yield a row for the commit, unless nothing was counted."""
    tally.label = ""
    if tally != Tally():
        yield Row(home, len(program.staged.stages) + 1, Kind.TALLY, dump(tally))
