"""Samples of a collection, for `head` and `show`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from dataflow_model.arguments import positive_int
from dataflow_model.display import MOST_ROWS, cell_text, html_table, numeric_columns
from dataflow_model.plan.checks.all_checks import check
from dataflow_model.plan.columns.records import columns_of, table_of_records
from dataflow_model.plan.functions.typevars import ElementT
from dataflow_model.plan.logical.runner import unobserved, wait_or_stop
from dataflow_model.plan.rewrites.sampling import SAMPLE, combines_a_part, sample_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import Group

    from dataflow_model.plan.columns.records import Record
    from dataflow_model.plan.logical.runner import Runner
    from dataflow_model.transforms.pipelines.pcollection import PCollection

_ONE_LINE: Final = frozenset({"event time", "window", "pane"})
"""Columns that are not broken where a table is too wide."""


class Sampled(list[ElementT]):
    """Elements that were made from a sample, which their texts say."""

    def __init__(self, elements: Iterable[ElementT], note: str) -> None:
        super().__init__(elements)
        self.note = note

    def __repr__(self) -> str:
        return f"{super().__repr__()}  # {self.note}"

    def _repr_html_(self) -> str:
        headings, rows = columns_of(self[:MOST_ROWS])
        return html_table("", headings, rows, total=len(self), notes=[self.note])


def sample(collection: PCollection, runner: Runner, n: int, rows: int | None) -> tuple[list[Record], str]:
    """Return the first records of a collection, computed from the first rows of each source.

    Returns:
        The records, and a note for those that combine a part of the rows, or `""`.
    """
    positive_int("n", n, "pass n=10, for example")
    if rows is not None:
        positive_int("sample", rows, "pass sample=1_000, for example, or sample=None to read all")
    whole = collection.pipeline.plan()
    plan = sample_of(whole, collection.ref, rows)
    check(plan)
    with unobserved():
        result = runner.run(plan)
    wait_or_stop(result)
    records: list[Record] = result.collected(SAMPLE)
    if not combines_a_part(whole, collection.ref, rows):
        return records[:n], ""
    return records[:n], (
        f"results of a sample, of at most {rows:,} row{'' if rows == 1 else 's'} of each source; sample=None reads all"
    )


def table_of(records: Sequence[Record], title: str, note: str) -> Group:
    """Return records as a table for the terminal, with a title and a note that may be wider; see `table_of_records`."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    headings, lines = table_of_records(records)
    rows = list(lines)
    table = Table()
    for heading, numeric in zip(headings, numeric_columns(headings, rows), strict=True):
        justify: Literal["right", "left"] = "right" if numeric else "left"
        table.add_column(heading, overflow="fold", no_wrap=heading in _ONE_LINE, justify=justify)
    for row in rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    notes = [note] if records else ["no elements", note]
    return Group(Text(title, style="italic"), table, *(Text(text, style="italic") for text in notes if text))
