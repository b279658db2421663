"""Samples of a collection, for `head` and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dataflow_model.arguments import positive_int
from dataflow_model.display import cell_text
from dataflow_model.plan.checks import check
from dataflow_model.plan.records import table_of_records
from dataflow_model.plan.runner import unobserved, wait_or_stop
from dataflow_model.plan.sampling import SAMPLE, sample_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Group

    from dataflow_model.plan.records import Record
    from dataflow_model.plan.runner import Runner
    from dataflow_model.transforms.pcollection import PCollection

__all__ = ["sample", "table_of"]


def sample(collection: PCollection, runner: Runner, n: int, rows: int) -> list[Record]:
    """Return the first records of a collection, computed from the first rows of each source."""
    for name, value in (("n", n), ("rows", rows)):
        positive_int(name, value, f"pass {name}=10, for example")
    plan = sample_of(collection.pipeline.plan(), collection.ref, rows)
    check(plan)
    with unobserved():
        result = runner.run(plan)
    wait_or_stop(result)
    records: list[Record] = result.collected(SAMPLE)
    return records[:n]


def table_of(records: Sequence[Record], title: str) -> Group:
    """Return records as a table for the terminal, with a title that may be wider; see `table_of_records`."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    headings, rows = table_of_records(records)
    table = Table()
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    note = [] if records else [Text("no elements", style="italic")]
    return Group(Text(title, style="italic"), table, *note)
