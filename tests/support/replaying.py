"""A pipeline over drawn files under a replay clock: each windowing strategy sums the rows of its cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dataflow_model as dm

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from dataflow_model.plan.logical.strategy import WindowingStrategy

__all__ = ["replayed"]


def replayed(folder: Path, grouping: list[WindowingStrategy], delay: int) -> Callable[[dm.Pipeline], None]:
    """Return the pipeline: each windowing strategy sums the rows of its cases."""

    def build(p: dm.Pipeline) -> None:
        rows = p | dm.io.ReadParquet(
            folder, event_time="at", processing_time="known_at", watermark=dm.BoundedOutOfOrderness(delay)
        )
        for number, strategy in enumerate(grouping):
            mine = rows | f"rows {number}" >> dm.Filter(_is_of, number, len(grouping))
            placed = mine | f"pairs {number}" >> dm.Map(_pair) | f"windows {number}" >> dm.Window.into(strategy)
            combined = dm.GroupByKey() if number % 5 == 0 else dm.Sum.per_key()
            _ = placed | f"grouped {number}" >> combined | f"panes {number}" >> dm.io.Collect()

    return build


def _is_of(row: Any, number: int, count: int) -> bool:
    return bool(row.case % count == number)


def _pair(row: Any) -> Any:
    return (row.case, row.key), row.value
