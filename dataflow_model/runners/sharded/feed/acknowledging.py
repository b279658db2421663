"""Tell sources what has been read for good."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from dataflow_model.plan.endpoints.retries import retried
from dataflow_model.plan.endpoints.sources import ColumnSource
from dataflow_model.runners.engine.functions.user_code import exits_reported, source_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dataflow_model.plan.logical.nodes import Read
    from dataflow_model.runners.sharded.feed.offsets import Offset


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
        found = offset.of_source(read.label).positions(has_gaps=source.position_column is not None)
        with exits_reported(read.label), source_calls(read.label, "committed", source.is_users):
            retried(source, read.label, "committed", functools.partial(source.committed, found))
