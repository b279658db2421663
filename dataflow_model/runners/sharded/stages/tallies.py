"""The tallies of tasks on their way to the commit: a row in addition to their output."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.metrics.collecting import counted_rows
from dataflow_model.metrics.tally import Tally
from dataflow_model.runners.sharded.tasks.rows import Kind, Row

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dataflow_model.runners.sharded.tasks.task import Task


def counting(task: Task, rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows of a task, then its tally."""
    tally = Tally()
    yield from counted_rows(tally, iter(rows))
    yield from tally_row(task, tally)


def tally_row(task: Task, tally: Tally) -> Iterator[Row]:
    """Yield a row for the commit, unless nothing was counted."""
    tally.label = ""
    if tally != Tally():
        yield task.row_for_commit(Kind.TALLY, tally)
