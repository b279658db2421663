"""Tell sources what has been read for good, and ask them what a report says about them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from dataflow_model.plan.endpoints.column_sources import ColumnSource
from dataflow_model.plan.endpoints.retries import retried
from dataflow_model.runners.engine.functions.user_code import exits_reported, source_calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.sharded.feed.offsets import Offset

    Levels = Mapping[str, Mapping[str, int]]


def acknowledge(reads: Iterable[Read], offset: Offset) -> None:
    """Call `committed` of each source that has it; runs on the driver.

    Args:
        reads: the sources.
        offset: the offset after a micro-batch that has been committed, and whose output has been published.
    """
    for read in reads:
        source = read.source.as_columns
        if source is None or read.label not in offset.begun:
            continue
        if type(source).committed is ColumnSource.committed:
            continue
        positions = offset.of_source(read.label).positions(has_gaps=source.position_column is not None)
        with exits_reported(read.label), source_calls(read.label, "committed", source.is_users):
            retried(source, read.label, "committed", functools.partial(source.committed, positions))


def levels_of(reads: Iterable[Read], offset: Callable[[], Offset | None]) -> dict[str, Levels]:
    """Return the levels of each source that has some, by label; runs on the driver.

    Args:
        reads: the sources.
        offset: returns how far they have been read for good; `None` before the first commit.
    """
    sources = {read.label: source for read in reads if (source := read.source.as_columns) is not None}
    asked = {label: source for label, source in sources.items() if type(source).levels is not ColumnSource.levels}
    read_to = offset() if asked else None
    if read_to is None:
        return {}
    return {
        label: source.levels(read_to.of_source(label).positions(has_gaps=source.position_column is not None))
        for label, source in asked.items()
    }
